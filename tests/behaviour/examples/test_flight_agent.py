"""The example shows what its README says: one bug, two flaky cases, and a gate that passes."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from example_runs import run_example

RUNS = 5
PASSED_RUNS_OF_WEAK_CASES = {
    "book-relative-date": 0,
    "book-window-seat": 3,
    "cancel-in-other-words": 4,
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of one run of the example, started from an unrelated folder."""
    folder = tmp_path_factory.mktemp("demo")
    run_example("flight_agent", folder)
    return folder / "results"


def results(out: Path) -> Iterator[dict[str, Any]]:
    lines = (out / "results.jsonl").read_bytes().splitlines()
    return map(json.loads, lines[1:])


def test_the_weak_cases_pass_as_often_as_the_readme_says_and_all_others_always(out: Path) -> None:
    planned = Counter(result["case"] for result in results(out))
    passed = Counter(result["case"] for result in results(out) if result["status"] == "passed")
    weak = {case: passed[case] for case in planned if passed[case] < RUNS}
    assert set(planned.values()) == {RUNS}
    assert weak == PASSED_RUNS_OF_WEAK_CASES


def test_no_run_is_errored(out: Path) -> None:
    assert {result["status"] for result in results(out)} == {"passed", "failed"}


def test_the_failing_case_says_which_argument_was_wrong(out: Path) -> None:
    grades = [
        grade
        for result in results(out)
        if result["case"] == "book-relative-date"
        for grade in result["grades"]
        if not grade["passed"]
    ]
    assert len(grades) == RUNS
    assert all("2026-03-06" in grade["reason"] for grade in grades)
    assert all("2026-03-02" in grade["sentence"] for grade in grades)


def test_the_summary_names_the_weak_cases(out: Path) -> None:
    summary = (out / "summary.md").read_text(encoding="utf-8")
    assert all(case in summary for case in PASSED_RUNS_OF_WEAK_CASES)
    assert "<summary>2 partly failed cases</summary>" in summary
