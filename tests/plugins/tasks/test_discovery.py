"""Task folders as cases of a suite that is written in Python."""

import sys
from pathlib import Path

import pytest

from ci_evals import ConfigError, Suite, check_suite, discover_tasks, evaluate_sync


@pytest.mark.skipif(sys.platform == "win32", reason="the verifiers are shell scripts")
def test_discovered_tasks_are_cases_with_their_verifiers() -> None:
    folder = Path(__file__).parents[3] / "examples" / "coming_from_helios"
    tasks = discover_tasks(folder, "tasks/greet*/task.toml")
    agent = {"type": "task", "command": [sys.executable, str(folder / "agent.py"), "careful"]}
    report = evaluate_sync(Suite(cases=tasks, providers=agent), runs=1)
    assert [(run.case, run.status, run.score) for run in report.runs] == [
        ("greeting", "passed", 1.0)
    ]


def test_a_path_of_a_folder_is_the_tasks_in_it() -> None:
    folder = Path(__file__).parents[3] / "examples" / "coming_from_helios"
    agent = {"type": "task", "command": [sys.executable, "agent.py"]}
    suites = [
        Suite(cases=path, providers=agent, folder=folder)
        for path in (Path("tasks"), [Path("tasks")])
    ]
    for suite in suites:
        assert [case.id for case in check_suite(suite).cases] == ["greeting", "sorting"]


def test_tasks_of_a_folder_that_is_not_there_are_a_problem(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere: there is no such folder"):
        discover_tasks(tmp_path / "nowhere")


def test_what_is_wrong_in_a_task_file_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "task.toml").write_text(
        "version = '1.0'\n[agent]\ntimout_sec = 5\n[verifier]\ntimeout_sec = 'long'\n"
        "[environment]\ngpus = 1\nstorage_mb = 5\nmemory = '2G'\ncpus = 0\n"
        "setup_commands = 'make'\n",
        "utf-8",
    )
    with pytest.raises(ConfigError) as caught:
        discover_tasks(tmp_path)
    assert [
        str(problem).partition("task.toml:")[2].partition(", got 'make'")[0]
        for problem in caught.value.problems
    ] == [
        "3: agent: unknown key 'timout_sec', did you mean 'timeout_sec'?",
        "5: verifier.timeout_sec: expected a number, got 'long'",
        "10: environment.cpus: expected a number > 0, got 0",
        "11: environment.setup_commands: expected a list",
    ]
