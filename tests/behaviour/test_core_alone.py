"""The core in a copy without `plugins/`: what needs a plug-in says which folder is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ci_evals

ROOT = Path(__file__).parents[2]
PROVIDERS = "providers: [{type: mock}]\n"
CASES = "cases: [{id: a, input: hi, expect: [{contains: hi}]}]\n"


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package and its templates, without plug-ins."""
    folder = tmp_path_factory.mktemp("core")
    package = Path(ci_evals.__file__).parent
    shutil.copytree(
        package, folder / "ci_evals", ignore=shutil.ignore_patterns("plugins", "__pycache__")
    )
    shutil.copytree(ROOT / "templates", folder / "templates")
    # What a checkout of an earlier commit leaves behind is no plug-in.
    (folder / "ci_evals" / "plugins" / "github" / "__pycache__").mkdir(parents=True)
    return folder


def run(core: Path, folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """Run the copy in a folder; return the exit code and all that was printed."""
    ended = subprocess.run(
        [sys.executable, "-m", "ci_evals", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(core), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    printed = ended.stdout + ended.stderr
    assert "Traceback" not in printed
    return ended.returncode, printed


def test_a_suite_runs_and_a_ci_system_without_its_plugin_is_named(
    core: Path, tmp_path: Path
) -> None:
    (tmp_path / "evals.yaml").write_text(PROVIDERS + CASES)
    code, printed = run(core, tmp_path, "run", GITHUB_ACTIONS="true")
    assert code == 0
    missing = core / "ci_evals" / "plugins" / "github"
    assert f"this CI system needs the plug-in {missing}, which is missing" in " ".join(
        printed.split()
    )


def test_a_ci_system_without_its_plugin_is_no_terminal_to_watch_in(
    core: Path, tmp_path: Path
) -> None:
    (tmp_path / "evals.yaml").write_text(PROVIDERS + CASES)
    code, printed = run(core, tmp_path, "run", "--watch", GITHUB_ACTIONS="true")
    assert code == 2
    assert "--watch is for a terminal" in printed


def test_help_and_names_are_those_that_there_are(core: Path, tmp_path: Path) -> None:
    _, printed = run(core, tmp_path, "--help")
    assert "validate" in printed
    assert "import " not in printed
    code, names = run(core, tmp_path, "schema", "--names")
    assert code == 0
    assert "Graders" in names
    assert "Importers" not in names


@pytest.mark.parametrize(
    ("suite", "plugin"),
    [
        ("providers: [{type: task, command: a}]\n" + CASES, "tasks"),
        ("providers: [{type: bedrock, model: m}]\n" + CASES, "clouds"),
        ("providers: [{type: command, command: a, transcript: codex}]\n" + CASES, "tasks"),
        (PROVIDERS + "cases: {tasks: tasks/*}\n", "tasks"),
        (PROVIDERS + CASES + "settings: {executor: ray}\n", "ray"),
        (PROVIDERS + CASES + "settings: {executor: {type: ray}}\n", "ray"),
    ],
)
def test_a_part_of_a_suite_that_needs_a_plugin_is_a_problem_that_names_its_folder(
    core: Path, tmp_path: Path, suite: str, plugin: str
) -> None:
    (tmp_path / "evals.yaml").write_text(suite)
    code, printed = run(core, tmp_path, "validate")
    assert code == 2
    missing = core / "ci_evals" / "plugins" / plugin
    assert f"needs the plug-in {missing}, which is missing" in printed


def test_a_command_that_needs_a_plugin_says_so(core: Path, tmp_path: Path) -> None:
    code, printed = run(core, tmp_path, "pairwise", "a", "b")
    assert code == 2
    assert "The command 'pairwise' needs the plug-in" in printed


def test_every_name_that_the_library_lists_can_be_imported(core: Path, tmp_path: Path) -> None:
    script = "from ci_evals import *; from ci_evals.providers import *; print('fine')"
    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(core)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.strip() == "fine", ended.stderr
