"""A recorded journal as what answers."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from suites import ECHO, write_suite

from ci_evals.config.load import load_suite
from ci_evals.engine.cells import Cells
from ci_evals.engine.journal import JOURNAL
from ci_evals.engine.journal_lines import decode
from ci_evals.engine.replay import Recording
from ci_evals.errors import StorageError
from ci_evals.execution import execute
from ci_evals.matrix import Matrix
from ci_evals.order import Order
from ci_evals.report import Report

CASE = {"id": "a", "input": "a", "expect": [{"equals": "a"}]}
CRASHING = {"name": "agent", "type": "python", "target": "agent:answer"}


async def run(folder: Path, out: str, cases: list[dict[str, Any]], **changes: Any) -> Report:
    suite = load_suite(write_suite(folder, cases, **changes.pop("settings", {})), {})
    return await execute(Order(suite=suite, journal=folder / out / JOURNAL, **changes))


async def replayed(folder: Path, cases: list[dict[str, Any]], **settings: Any) -> Report:
    return await run(folder, "out", cases, settings=settings, replay=folder / "first" / JOURNAL, replay_only=True)


async def test_each_run_has_its_own_recorded_answer(tmp_path: Path) -> None:
    flaky = [ECHO | {"flakiness": 0.5}]
    first = await run(tmp_path, "first", [CASE], settings={"runs": 20, "providers": flaky})
    again = await replayed(tmp_path, [CASE], runs=20, providers=flaky)
    assert 0 < first.passed < 20
    assert [each.response for each in again.runs] == [each.response for each in first.runs]


async def test_runs_beyond_the_recorded_ones_are_not_recorded(tmp_path: Path) -> None:
    await run(tmp_path, "first", [CASE], settings={"runs": 2})
    report = await replayed(tmp_path, [CASE], runs=3)
    assert [result.error and result.error.kind for result in report.runs] == [None, None, "not_recorded"]


async def test_a_recorded_failure_of_the_system_under_test_stays_one(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("def answer(question):\n    raise ValueError('no such flight')\n")
    first = await run(tmp_path, "first", [CASE], settings={"providers": [CRASHING]})
    (tmp_path / "agent.py").write_text("def answer(question):\n    raise AssertionError('must not be called')\n")
    report = await replayed(tmp_path, [CASE], providers=[CRASHING])
    (before,), (after,) = first.runs, report.runs
    assert after.status == "failed"
    assert after.error == before.error
    assert after.recorded


async def test_an_answer_whose_grader_crashed_is_judged_anew(tmp_path: Path) -> None:
    (tmp_path / "grading.py").write_text("def grade(answer):\n    raise ValueError('oops')\n")
    first = await run(tmp_path, "first", [{**CASE, "expect": [{"python": "grading:grade"}]}])
    assert first.errored == 1
    report = await replayed(tmp_path, [CASE])
    assert (report.passed, report.columns.recorded) == (1, 1)


async def test_a_renamed_prompt_that_asks_the_same_is_recorded(tmp_path: Path) -> None:
    await run(tmp_path, "first", [CASE], settings={"prompts": [{"name": "old", "user": "{{ input }}"}]})
    report = await replayed(tmp_path, [CASE], prompts=[{"name": "new", "user": "{{ input }}"}])
    (result,) = report.runs
    assert (result.status, result.prompt, result.recorded) == ("passed", "new", True)


async def test_of_several_recordings_of_a_run_the_last_answers(tmp_path: Path) -> None:
    await run(tmp_path, "first", [CASE])
    journal = tmp_path / "first" / JOURNAL
    result = decode(journal.read_bytes().splitlines()[1])
    assert result.response is not None
    later = msgspec.structs.replace(result, response=msgspec.structs.replace(result.response, output="later"))
    with journal.open("ab") as file:
        file.write(msgspec.json.encode(later) + b"\n" + b'{"torn')
    report = await replayed(tmp_path, [{**CASE, "expect": [{"equals": "later"}]}])
    assert report.passed == 1


async def test_a_recording_answers_after_its_file_was_moved_away(tmp_path: Path) -> None:
    await run(tmp_path, "first", [CASE])
    suite = load_suite(write_suite(tmp_path, [CASE]), {})
    journal = tmp_path / "first" / JOURNAL
    recording = Recording(journal)
    journal.replace(tmp_path / "elsewhere.jsonl")
    journal.write_bytes(b"\0" * 1000)
    cell = Cells(suite, Matrix(suite.cases, suite.variants, 1)).cell(0)
    found = recording.find(cell, 1)
    recording.close()
    assert found is not None
    assert found.case == "a"


async def test_graders_may_crash_on_a_recorded_answer_like_on_any_other(tmp_path: Path) -> None:
    await run(tmp_path, "first", [CASE])
    (tmp_path / "crashing_grader.py").write_text("def grade(answer):\n    raise ValueError('oops')\n")
    report = await replayed(tmp_path, [{**CASE, "expect": [{"python": "crashing_grader:grade"}]}])
    (result,) = report.runs
    assert result.error is not None
    assert (result.status, result.error.kind, result.recorded) == ("errored", "grader", True)


def test_a_recording_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nowhere\.jsonl: cannot be read: No such file"):
        Recording(tmp_path / "nowhere.jsonl")
