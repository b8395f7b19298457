"""The project's tests pass, by themselves and beside its suite."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3] / "examples" / "pytest_project"


@pytest.mark.parametrize(("arguments", "passed"), [((), 3), (("test_agent.py", "evals.yaml"), 5), (("evals.yaml",), 2)])
def test_the_project_passes(arguments: tuple[str, ...], passed: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *arguments, f"--evals-report={tmp_path}"],
        cwd=PROJECT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p ci_evals"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{passed} passed" in done.stdout
    assert "= evals =" in done.stdout
    assert all((folder / "report.html").exists() for folder in tmp_path.iterdir())
