"""The project's tests pass, by themselves and beside its suite."""

from pathlib import Path

import pytest
from processes import python

PROJECT = Path(__file__).parents[3] / "examples" / "pytest_project"


@pytest.mark.parametrize(
    ("arguments", "passed"), [((), 3), (("test_agent.py", "evals.yaml"), 5), (("evals.yaml",), 2)]
)
def test_the_project_passes(arguments: tuple[str, ...], passed: int, tmp_path: Path) -> None:
    done = python(
        PROJECT,
        *("-m", "pytest", "-p", "no:cacheprovider", *arguments, f"--evals-report={tmp_path}"),
        environ={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p ci_evals"},
    )
    assert done.code == 0, done.out + done.err
    assert f"{passed} passed" in done.out
    assert "= evals =" in done.out
    assert all((folder / "report.html").exists() for folder in tmp_path.iterdir())
