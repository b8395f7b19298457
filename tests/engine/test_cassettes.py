"""Recorded answers that cases name themselves."""

import json
from pathlib import Path
from typing import Any

import pytest
from suites import ECHO, write_suite

from ci_evals.config.load import load_suite
from ci_evals.engine.journal import JOURNAL
from ci_evals.errors import StorageError
from ci_evals.execution import execute
from ci_evals.order import Order
from ci_evals.report import Report

CASE = {"id": "a", "input": "a", "expect": [{"equals": "a"}]}
NEVER = {"name": "never", "type": "mock", "error_rate": 1, "retries": 0}


async def run(folder: Path, cases: list[dict[str, Any]], out: str = "out", **settings: Any) -> Report:
    suite = load_suite(write_suite(folder, cases, **settings), {})
    return await execute(Order(suite=suite, journal=folder / out / JOURNAL))


def recorded(file: str, **changes: Any) -> dict[str, Any]:
    return {**CASE, "overrides": {"recorded": file}, **changes}


async def test_a_stored_response_answers_every_run_and_nothing_is_called(tmp_path: Path) -> None:
    response = {"output": "a", "tool_calls": [{"name": "look"}], "usage": {"input_tokens": 5}}
    (tmp_path / "a.json").write_text(json.dumps(response))
    expect = [{"equals": "a"}, {"tool_call": "look"}]
    report = await run(tmp_path, [recorded("a.json", expect=expect)], providers=[NEVER], runs=2)
    assert [(result.status, result.recorded, result.run) for result in report.runs] == [
        ("passed", True, 1),
        ("passed", True, 2),
    ]


async def test_a_text_file_is_the_answer_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    assert (await run(tmp_path, [recorded("a.txt")], providers=[NEVER])).passed == 1


async def test_cases_without_a_recording_are_called(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    report = await run(tmp_path, [recorded("a.txt"), {**CASE, "id": "b"}])
    assert [(result.case, result.recorded) for result in report.runs] == [("a", True), ("b", False)]


async def test_the_runs_of_a_journal_answer_in_turn_whoever_gave_them(tmp_path: Path) -> None:
    flaky = [ECHO | {"flakiness": 0.5}]
    first = await run(tmp_path, [CASE], out="first", runs=20, providers=flaky)
    assert 0 < first.passed < 20
    report = await run(tmp_path, [recorded("first")], runs=25, providers=[NEVER])
    outputs = [result.response.output for result in first.runs if result.response]
    assert [result.response.output for result in report.runs if result.response] == outputs + outputs[:5]


async def test_of_several_recorded_providers_the_one_of_the_same_name_answers(tmp_path: Path) -> None:
    both = [{"name": "x", "type": "mock", "default": "from x"}, {"name": "y", "type": "mock", "default": "from y"}]
    await run(tmp_path, [CASE], out="first", providers=both)
    report = await run(tmp_path, [recorded("first/results.jsonl")], providers=both)
    assert [result.response.output for result in report.runs if result.response] == ["from x", "from y"]


async def test_a_recording_without_the_case_leaves_its_runs_errored(tmp_path: Path) -> None:
    await run(tmp_path, [{**CASE, "id": "other"}], out="first")
    (result,) = (await run(tmp_path, [recorded("first")])).runs
    assert result.status == "errored"
    assert result.error is not None
    assert result.error.kind == "not_recorded"


async def test_another_recording_is_another_question(tmp_path: Path) -> None:
    def fingerprint() -> str:
        return load_suite(write_suite(tmp_path, [recorded("a.txt")]), {}).fingerprint

    (tmp_path / "a.txt").write_text("a")
    first = fingerprint()
    assert fingerprint() == first
    (tmp_path / "a.txt").write_text("b")
    assert fingerprint() != first


async def test_a_file_that_holds_no_answer_stops_before_anything_is_touched(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"output": 1, "reasoning": 2}')
    with pytest.raises(StorageError, match="holds no recorded answer: the answer has an unknown key 'reasoning'"):
        await run(tmp_path, [recorded("a.json")])
    assert not (tmp_path / "out").exists()
