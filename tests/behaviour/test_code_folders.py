"""A suite in a folder of its own finds the code of its repository."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from leftovers import journaled
from processes import ci_evals
from suites import write_files, write_suite

AGENT = "def answer(question):\n    return f'{question} from {__file__}'\n"
CASES = [{"id": "greeting", "input": "hello", "expect": [{"contains": "hello"}]}]


def write_evals(repository: Path, target: str = "agent:answer", **settings: Any) -> Path:
    """Write a suite whose code answers and grades, in `evals`."""
    folder = repository / "evals"
    folder.mkdir(parents=True, exist_ok=True)
    providers = [{"name": "agent", "type": "python", "target": target}]
    return write_suite(folder, CASES, providers=providers, **settings)


async def answer_of(repository: Path) -> str:
    """Validate and run the suite in `evals`; return its answer."""
    folder = repository / "evals"
    validated = await ci_evals(folder, "validate")
    assert validated.code == 0, validated.err
    ended = await ci_evals(folder, "run")
    assert ended.code == 0, ended.err + ended.out
    (line,) = journaled(folder / "ci-evals-results")
    output = line["response"]["output"]
    assert isinstance(output, str)
    return output


@pytest.mark.parametrize(
    ("file", "target"),
    [
        ("agent.py", "agent:answer"),
        ("src/bot/agent.py", "bot.agent:answer"),
        ("bot/agent.py", "bot.agent:answer"),
        ("evals/agent.py", "agent:answer"),
    ],
)
async def test_code_of_the_repository_is_found(file: str, target: str, tmp_path: Path) -> None:
    write_files(tmp_path, {".git/HEAD": "", file: AGENT})
    write_evals(tmp_path, target)
    assert (await answer_of(tmp_path)).endswith(str(tmp_path / file))


async def test_the_suites_own_folder_comes_first(tmp_path: Path) -> None:
    write_files(tmp_path, {".git/HEAD": "", "agent.py": AGENT, "evals/agent.py": AGENT})
    write_evals(tmp_path)
    assert (await answer_of(tmp_path)).endswith("evals/agent.py")


@pytest.mark.parametrize(
    "settings",
    [
        "[tool.pytest.ini_options]\npythonpath = 'lib app/code'",
        "[tool.pytest.ini_options]\npythonpath = ['lib', 'app/code']",
        "[tool.pytest]\npythonpath = ['app/code']",
    ],
)
async def test_code_is_found_where_pytest_would(settings: str, tmp_path: Path) -> None:
    write_files(tmp_path, {".git/HEAD": "", "pyproject.toml": settings})
    write_files(tmp_path, {"agent.py": AGENT, "app/code/agent.py": AGENT})
    write_evals(tmp_path)
    assert (await answer_of(tmp_path)).endswith("app/code/agent.py")


@pytest.mark.parametrize(
    ("file", "settings"),
    [
        ("pytest.ini", "[pytest]\npythonpath = lib app/code"),
        ("pytest.toml", "[pytest]\npythonpath = ['app/code']"),
        ("tox.ini", "[tox]\n[pytest]\npythonpath =\n    lib\n    app/code"),
        ("setup.cfg", "[tool:pytest]\npythonpath = app/code"),
    ],
)
async def test_every_file_of_pytests_settings_is_read(
    file: str, settings: str, tmp_path: Path
) -> None:
    write_files(
        tmp_path, {".git/HEAD": "", file: settings, "pyproject.toml": "[project]\nname = 'a'"}
    )
    write_files(tmp_path, {"agent.py": AGENT, "app/code/agent.py": AGENT})
    write_evals(tmp_path)
    assert (await answer_of(tmp_path)).endswith("app/code/agent.py")


async def test_pytests_own_file_goes_before_the_projects(tmp_path: Path) -> None:
    project = "[tool.pytest.ini_options]\npythonpath = 'lib'"
    own = "[pytest]\npythonpath = app/code"
    write_files(tmp_path, {".git/HEAD": "", "pyproject.toml": project, "pytest.ini": own})
    write_files(tmp_path, {"lib/agent.py": AGENT, "app/code/agent.py": AGENT})
    write_evals(tmp_path)
    assert (await answer_of(tmp_path)).endswith("app/code/agent.py")


async def test_no_link_leads_to_code_outside_of_the_repository(tmp_path: Path) -> None:
    write_files(tmp_path, {"repository/.git/HEAD": "", "elsewhere/agent.py": AGENT})
    (tmp_path / "repository/src").symlink_to(tmp_path / "elsewhere")
    write_evals(tmp_path / "repository")
    ended = await ci_evals(tmp_path / "repository/evals", "validate")
    assert ended.code == 2
    assert "no module 'agent'" in ended.err, ended.err


async def test_code_of_a_project_inside_of_a_repository_is_found(tmp_path: Path) -> None:
    project = tmp_path / "services/bot"
    write_files(tmp_path, {".git/HEAD": "", "src/agent.py": AGENT})
    write_files(project, {"pyproject.toml": "[project]\nname = 'bot'", "src/agent.py": AGENT})
    write_evals(project)
    assert (await answer_of(project)).endswith("services/bot/src/agent.py")


@pytest.mark.parametrize("pythonpath", ["../app/code", ["../app/code", "../lib"]])
async def test_a_suite_names_the_folders_of_its_code(
    pythonpath: str | list[str], tmp_path: Path
) -> None:
    graders = "def is_polite(output): return 'hello' in output\n"
    write_files(tmp_path, {"app/code/agent.py": AGENT, "app/code/graders.py": graders})
    write_files(tmp_path, {"lib/words.py": "", "pyproject.toml": ""})
    write_evals(
        tmp_path, expect=[{"python": "graders:is_polite"}], settings={"pythonpath": pythonpath}
    )
    assert (await answer_of(tmp_path)).endswith("app/code/agent.py")


async def test_datasets_and_prompts_are_made_by_code_of_the_repository(tmp_path: Path) -> None:
    made = (
        "def load(): return [{'id': 'made', 'input': 'hello'}]\n"
        "def write(context): return 'say ' + context['input']\n"
    )
    write_files(tmp_path, {".git/HEAD": "", "src/made.py": made, "agent.py": AGENT})
    folder = tmp_path / "evals"
    folder.mkdir()
    write_suite(
        folder,
        {"python": "made:load"},
        providers=[{"name": "agent", "type": "python", "target": "agent:answer"}],
        prompts=[{"function": "made:write"}],
        expect=[{"contains": "say hello"}],
    )
    assert (await answer_of(tmp_path)).startswith("say hello from")


async def test_code_of_the_repository_hides_nothing_that_is_installed(tmp_path: Path) -> None:
    hidden = dict.fromkeys(("rich.py", "src/jinja2.py"), "raise RuntimeError('in the way')")
    write_files(tmp_path, {".git/HEAD": "", "agent.py": f"import rich, jinja2\n{AGENT}", **hidden})
    write_evals(tmp_path)
    assert (await answer_of(tmp_path)).endswith("agent.py")


@pytest.mark.parametrize(
    "files",
    [
        {"agent.py": AGENT},  # there is no repository
        {"agent.py": AGENT, "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = '.'"},
        {
            "agent.py": AGENT,
            "inner/.git/HEAD": "",
            "inner/pyproject.toml": "[tool.pytest.ini_options]\npythonpath = '..'",
        },
    ],
)
async def test_code_outside_of_the_repository_is_found_only_where_it_is_named(
    files: Mapping[str, str], tmp_path: Path
) -> None:
    write_files(tmp_path, files)
    write_evals(tmp_path / "inner")
    ended = await ci_evals(tmp_path / "inner/evals", "validate")
    assert ended.code == 2
    assert "target: there is no module 'agent' in" in ended.err
    write_evals(tmp_path / "inner", settings={"pythonpath": "../.."})
    assert (await ci_evals(tmp_path / "inner/evals", "run")).code == 0


async def test_a_module_that_is_not_found_is_told_with_the_ways_out(tmp_path: Path) -> None:
    write_files(tmp_path, {".git/HEAD": "", "app/agent.py": AGENT, "src/words.py": ""})
    write_evals(tmp_path)
    ended = await ci_evals(tmp_path / "evals", "run")
    assert ended.code == 2
    assert (
        f"there is no module 'agent' in {tmp_path / 'evals'}, .., ../src or installed;"
        " install it, as in `pip install -e .`, or name its folder in `settings.pythonpath`"
    ) in " ".join(ended.err.split())
    write_evals(tmp_path, "agentt:answer")
    write_files(tmp_path, {"agent.py": AGENT})
    ended = await ci_evals(tmp_path / "evals", "validate")
    assert "or installed, did you mean 'agent'?" in " ".join(ended.err.split())


async def test_a_folder_that_does_not_exist_is_a_problem(tmp_path: Path) -> None:
    write_files(tmp_path, {"agent.py": AGENT})
    write_evals(tmp_path, settings={"pythonpath": ["..", "../scr"]})
    ended = await ci_evals(tmp_path / "evals", "validate")
    assert ended.code == 2
    assert "pythonpath[1]: there is no folder '../scr' (looked in " in ended.err
    write_evals(tmp_path, settings={"pythonpath": 7})
    ended = await ci_evals(tmp_path / "evals", "validate")
    assert ended.code == 2
    assert "pythonpath: expected" in ended.err


async def test_graders_in_worker_processes_find_the_same_code(tmp_path: Path) -> None:
    agent = "import os\ndef answer(question): return f'{question} from {os.getpid()}'\n"
    judge = "import agent\ndef judge(output): return output != agent.answer('hello')\n"
    write_files(tmp_path, {".git/HEAD": "", "agent.py": agent, "src/judges.py": judge})
    write_evals(tmp_path, expect=[{"python": "judges:judge"}])
    ended = await ci_evals(tmp_path / "evals", "run")
    assert ended.code == 0, ended.out
