"""The wheel works with nothing but its dependencies installed. Needs a package index."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import ci_evals

REPOSITORY = Path(__file__).parents[3]
BIN = "Scripts" if os.name == "nt" else "bin"
SUITE = """\
name: packaged
providers:
  - {type: mock, default: "Paris"}
cases:
  - {id: capital, input: "Capital of France?", expect: [{contains: Paris}]}
"""

pytestmark = pytest.mark.timeout(600)


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command away from the checkout and return what it prints."""
    away = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYTHONPATH", "VIRTUAL_ENV"}
    }
    done = subprocess.run(
        command,
        cwd=cwd,
        env=away,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        folder,
        cwd=REPOSITORY,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The console script in an environment that held nothing before."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "env", cwd=folder)
    scripts = folder / "env" / BIN
    run(
        scripts / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        wheel,
        cwd=folder,
    )
    return scripts / "ci-evals"


def test_the_wheel_holds_the_package_with_its_templates_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = {Path(name) for name in archive.namelist()}
    source, shipped = REPOSITORY / "templates", Path("ci_evals/_templates")
    templates = {shipped / path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    assert {path for path in files if path.is_relative_to(shipped)} == templates
    assert {Path("ci_evals/py.typed"), Path("ci_evals/javascript_worker.cjs")} <= files
    assert {path.parts[0] for path in files} == {
        "ci_evals",
        f"ci_evals-{ci_evals.__version__}.dist-info",
    }


@pytest.mark.slow  # downloads the dependencies
def test_an_installed_wheel_knows_its_version(installed: Path, tmp_path: Path) -> None:
    assert ci_evals.__version__ in run(installed, "--version", cwd=tmp_path)


@pytest.mark.slow  # downloads the dependencies
def test_an_installed_wheel_runs_a_suite_and_finds_its_templates(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "evals.yaml").write_text(SUITE, encoding="utf-8")
    run(installed, "run", cwd=tmp_path)
    summary = (tmp_path / "ci-evals-results" / "summary.md").read_text(encoding="utf-8")
    assert "packaged" in summary
