"""Bars on metrics of labels: what they say, and when a run phase may stop early."""

from pathlib import Path
from typing import Any

import pytest
from suites import write_suite

from ci_evals.engine.journal import JOURNAL
from ci_evals.gate.verdict import Verdict, decide
from ci_evals.model.report import SuiteReport
from ci_evals.session import Invocation, execute
from ci_evals.suite.load import load_suite


def case(number: int, label: str, said: str) -> dict[str, Any]:
    return {"id": f"case-{number}", "input": said, "expect": [{"classify": {"label": label, "labels": ["a", "b"]}}]}


CASES = [
    case(n, label, said) for n, (label, said) in enumerate([("a", "a")] * 20 + [("b", "b")] * 15 + [("b", "a")] * 5)
]


async def run(folder: Path, gate: dict[str, Any], **settings: Any) -> tuple[SuiteReport, Verdict]:
    suite = load_suite(write_suite(folder, settings.pop("cases", CASES), gate=gate, **settings), {})
    report = await execute(Invocation(suite=suite, journal=folder / "out" / JOURNAL))
    return report, decide(report, suite.gate)


@pytest.mark.parametrize(
    ("bars", "status", "reason"),
    [
        ({"accuracy": 0.8}, "pass", "metric accuracy: 87.5 % meets the bar of 80 %"),
        ({"recall.b": 0.99}, "fail", "metric recall.b: 75 % is below the bar of 99 % (95 % sure: at most "),
        ({"recall.a": 1.0}, "pass", "metric recall.a: 100 % meets the bar of 100 %"),
        ({"recall.b": 1.0}, "fail", "metric recall.b: 75 % is below the bar of 100 %"),
        ({"topic/recall.c": 0.5}, "error", "metric topic/recall.c"),
    ],
)
async def test_a_metric_is_held_to_its_bar(tmp_path: Path, bars: dict[str, float], status: str, reason: str) -> None:
    _, verdict = await run(tmp_path, {"metrics": bars})
    assert verdict.status == status, verdict.reason
    assert reason in verdict.reason
    assert [scope.bar for scope in verdict.scopes if scope.kind == "suite"] == [None]


async def test_no_pass_is_settled_while_labels_are_still_to_come(tmp_path: Path) -> None:
    gate = {"min_pass_rate": 0.1, "metrics": {"recall.b": 0.99}}
    report, verdict = await run(tmp_path, gate, runs=2, stop_early=True)
    assert report.settled is None
    assert report.totals.missing == 0
    assert verdict.status == "fail"


async def test_a_failure_of_the_rate_is_settled_whatever_the_labels(tmp_path: Path) -> None:
    wrong = [case(n, "a", "b") for n in range(40)]
    gate = {"min_pass_rate": 0.9, "metrics": {"accuracy": 0.5}}
    report, verdict = await run(tmp_path, gate, cases=wrong, runs=2, stop_early=True)
    assert report.settled == verdict.status == "fail"
    assert report.total == 40


async def test_a_metric_may_be_all_that_is_asked_for(tmp_path: Path) -> None:
    report, verdict = await run(tmp_path, {"metrics": {"accuracy": 0.5}}, runs=2, stop_early=True)
    assert (report.settled, report.totals.missing, verdict.status) == (None, 0, "pass")
