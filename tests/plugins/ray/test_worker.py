"""The far end of an executor tells what a check raised, as this process would."""

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_evals.graders.python import PythonGrader
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer
from ci_evals.plugins.ray import worker
from ci_evals.user_code.folders import CodeFolders

SOURCE = """
import json

def judge(output):
    return json.loads(output)["town"] == "Paris"

def lacking(output):
    import nope
    return nope.check(output)
"""


def grade(folder: Path, function: str, answer: Answer) -> worker.RemoteOutcome:
    (folder / "checks_of_town.py").write_text(SOURCE)
    site = worker.Site("/shipped", ".", 1, keeps_files=False, variables={})
    grader = PythonGrader(target=f"checks_of_town:{function}")
    outcome = pickle.loads(
        worker.grade(pickle.dumps(site), pickle.dumps(grader), pickle.dumps(answer))
    )
    assert isinstance(outcome, worker.RemoteOutcome)
    return outcome


def test_code_that_was_shipped_with_the_suite_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer_of: Callable[..., Answer]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app").mkdir()
    (tmp_path / "evals").mkdir()
    (tmp_path / "app" / "checks_of_country.py").write_text("def judge(output): return True")
    folders = CodeFolders(named=(Path("app"),))
    site = worker.Site(
        "/shipped", "evals", 1, keeps_files=False, variables={}, code_folders=folders
    )
    grader = PythonGrader(target="checks_of_country:judge")
    (problems,) = pickle.loads(worker.check(pickle.dumps(site), [], [pickle.dumps(grader)]))
    assert problems == ()


def test_an_exception_is_a_failed_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer_of: Callable[..., Answer]
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = grade(tmp_path, "judge", answer_of("{}"))
    finding = outcome.value
    assert outcome.error is None
    assert isinstance(finding, Finding)
    assert (finding.passed, finding.conclusive) == (False, False)
    assert finding.reason == "raised KeyError: 'town' (checks_of_town.py:5 in judge)"
    assert finding.detail is not None
    assert 'File "/shipped/checks_of_town.py", line 5' in finding.detail

    missing = grade(tmp_path, "lacking", answer_of("{}"))
    assert missing.value is None
    assert missing.error is not None
    assert missing.error.message.startswith("it raised ModuleNotFoundError: No module named 'nope'")
