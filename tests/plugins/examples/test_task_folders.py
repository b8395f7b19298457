import sys
from pathlib import Path

import pytest
from example_runs import EXAMPLES, run_example

import ci_evals

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the verifiers are shell scripts")


def test_the_reward_of_each_task_is_its_score(tmp_path: Path) -> None:
    report = run_example("task_folders", tmp_path)
    rewards = {(result["case"], result["run"]): result["score"] for result in report["results"]}
    assert rewards == {
        ("greeting", 1): 1,
        ("greeting", 2): 1,
        ("sorting", 1): 0.5,
        ("sorting", 2): 0.5,
    }
    kept = tmp_path / "results" / "tasks" / "sorting" / "agent" / "run-2"
    assert (kept / "agent.stdout.txt").read_text() == "I sorted the names.\n"
    assert (kept / "logs" / "verifier" / "compared.txt").read_text().startswith("Ada\tAda\n")


def test_the_library_finds_the_same_tasks() -> None:
    cases = ci_evals.discover_tasks(EXAMPLES / "task_folders", "tasks/**/task.toml")
    assert [(case.id, case.tags) for case in cases] == [
        ("greeting", ("files",)),
        ("sorting", ("files",)),
    ]
