"""Metrics of labels and of graders: their bars, where they are shown, and stopping early."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from processes import ci_evals
from suites import run_in_process, write_suite

from ci_evals.errors import ConfigError
from ci_evals.gate.verdict import Verdict, decide
from ci_evals.model.report import SuiteReport
from ci_evals.suite.load import load_suite


def case(number: int, label: str, said: str) -> dict[str, Any]:
    return {
        "id": f"case-{number}",
        "input": said,
        "expect": [{"classify": {"label": label, "labels": ["a", "b"]}}],
    }


CASES = [
    case(n, label, said)
    for n, (label, said) in enumerate([("a", "a")] * 20 + [("b", "b")] * 15 + [("b", "a")] * 5)
]


async def judged(
    folder: Path, gate: dict[str, Any], **settings: Any
) -> tuple[SuiteReport, Verdict]:
    settings = {"cases": CASES, "gate": gate, **settings}
    report = await run_in_process(folder, **settings)
    return report, decide(report, load_suite(folder / "evals.yaml", {}).gate)


@pytest.mark.parametrize(
    ("bars", "status", "reason"),
    [
        ({"accuracy": 0.8}, "pass", "metric accuracy: 87.5 % meets the bar of 80 %"),
        (
            {"recall.b": 0.99},
            "fail",
            "metric recall.b: 75 % is below the bar of 99 % (at most ",
        ),
        ({"recall.a": 1.0}, "pass", "metric recall.a: 100 % meets the bar of 100 %"),
        ({"recall.b": 1.0}, "fail", "metric recall.b: 75 % is below the bar of 100 %"),
        ({"roc_auc.a": 0.5}, "error", "metric roc_auc.a"),
    ],
)
async def test_a_metric_is_held_to_its_bar(
    tmp_path: Path, bars: dict[str, float], status: str, reason: str
) -> None:
    _, verdict = await judged(tmp_path, {"metrics": bars})
    assert verdict.status == status, verdict.reason
    assert reason in verdict.reason
    assert [scope.bar for scope in verdict.scopes if scope.kind == "suite"] == [None]


async def test_no_pass_is_settled_while_labels_are_still_to_come(tmp_path: Path) -> None:
    gate = {"min_pass_rate": 0.1, "metrics": {"recall.b": 0.99}}
    report, verdict = await judged(tmp_path, gate, runs=2, stop_early=True)
    assert report.settled is None
    assert report.totals.missing == 0
    assert verdict.status == "fail"


async def test_a_failure_of_the_rate_is_settled_whatever_the_labels(tmp_path: Path) -> None:
    wrong = [case(n, "a", "b") for n in range(40)]
    gate = {"min_pass_rate": 0.9, "metrics": {"accuracy": 0.5}}
    report, verdict = await judged(tmp_path, gate, cases=wrong, runs=2, stop_early=True)
    assert report.settled == verdict.status == "fail"
    assert report.total == 40


async def test_a_metric_may_be_all_that_is_asked_for(tmp_path: Path) -> None:
    report, verdict = await judged(
        tmp_path, {"metrics": {"accuracy": 0.5}}, runs=2, stop_early=True
    )
    assert (report.settled, report.totals.missing, verdict.status) == (None, 0, "pass")


# Metrics that graders name.


def graded(number: int, answer: str, **more: Any) -> dict[str, Any]:
    words = [{"contains": {"value": "please", "metric": "tone", "name": "asks"}}]
    return {"id": f"case-{number}", "input": answer, "expect": [*words, {"contains": "e"}], **more}


POLITE = [graded(n, "yes, please" if n % 4 else "yes") for n in range(40)]


@pytest.mark.parametrize(
    ("bars", "status", "reason"),
    [
        ({"tone": 0.7}, "pass", "metric tone: 75 % meets the bar of 70 %"),
        (
            {"tone": 0.78},
            "borderline",
            "metric tone: 75 % is below the bar of 78 %, but 40 runs are too few to tell; ",
        ),
        ({"tone": 0.95}, "fail", "metric tone: 75 % is below the bar of 95 % (at most "),
    ],
)
async def test_the_mean_score_of_graders_that_share_a_metric_is_held_to_its_bar(
    tmp_path: Path, bars: dict[str, float], status: str, reason: str
) -> None:
    _, verdict = await judged(tmp_path, {"metrics": bars}, cases=POLITE)
    assert (verdict.status, reason in verdict.reason) == (status, True), verdict.reason


async def test_a_suite_that_is_surely_red_stays_red_where_a_metric_has_no_graded_run(
    tmp_path: Path,
) -> None:
    gate = {"min_pass_rate": 1.0, "metrics": {"roc_auc.a": 0.5}}
    write_suite(tmp_path, CASES, gate=gate)
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 1
    assert "FAIL" in ended.out.upper()
    assert "metric roc_auc.a: no run was graded" in ended.out
    _, verdict = await judged(tmp_path, gate | {"min_pass_rate": 0.5})
    assert verdict.status == "error", "nothing else is red"


async def test_a_metric_without_a_graded_run_is_no_verdict(tmp_path: Path) -> None:
    broken = [
        {
            "id": "a",
            "input": "x",
            "expect": [{"no_tool_errors": {"value": True, "metric": "tools"}}],
        }
    ]
    provider = {"name": "agent", "type": "python", "target": "agent:answer"}
    (tmp_path / "agent.py").write_text("def answer(request):\n    return 'no steps'\n", "utf-8")
    _, verdict = await judged(
        tmp_path,
        {"metrics": {"tools": 0.5}, "max_error_rate": 1},
        cases=broken,
        providers=[provider],
    )
    assert verdict.status == "error"


async def test_every_report_shows_names_and_metrics(tmp_path: Path) -> None:
    kind = {"contains": {"value": "please", "metric": "tone <b>", "name": "kind | </td>"}}
    also = {"not_contains": {"value": "no", "metric": "tone <b>"}}
    formats = ["json", "junit", "markdown", "html"]
    cases = [
        {"id": "a", "input": "yes", "expect": [kind, also]},
        {"id": "b", "input": "please", "expect": [kind, also]},
    ]
    suite = write_suite(
        tmp_path, cases, report={"formats": formats}, gate={"metrics": {"tone <b>": 0.1}}
    )
    ended = await ci_evals(tmp_path, "run", "-c", str(suite), "--out", "out")
    assert re.search(r"^metric +tone <b> 75 % \(", ended.out, re.MULTILINE)
    assert 'kind | </td>: no "please" in the answer' in ended.out
    document = json.loads((tmp_path / "out/report.json").read_bytes())
    (metric,) = document["variants"][0]["metrics"]
    assert (metric["name"], metric["mean"], metric["runs"]) == ("tone <b>", 0.75, 2)
    assert document["variants"][0]["grader_means"] == {"kind | </td>": 0.5, "not_contains": 1.0}
    properties = ET.parse(tmp_path / "out/junit.xml").iter("property")
    assert {each.attrib["name"]: each.attrib["value"][:4] for each in properties}[
        "metric tone <b>"
    ] == "75 %"
    assert "tone &#60;b&#62;" in (tmp_path / "out/summary.md").read_text("utf-8")
    assert "<bdi>tone &lt;b&gt;</bdi>" in (tmp_path / "out/report.html").read_text("utf-8")


def test_a_new_name_is_no_new_question(tmp_path: Path) -> None:
    def fingerprint(**options: Any) -> str:
        grader = {"contains": {"value": "e", **options}}
        return load_suite(
            write_suite(tmp_path, [{"id": "a", "input": "x", "expect": [grader]}]), {}
        ).case_fingerprint(0)

    assert (
        fingerprint()
        == fingerprint(name="has an e", metric="letters")
        != fingerprint(ignore_case=True)
    )


@pytest.mark.parametrize(
    ("bars", "problem"),
    [
        ({"ton": 0.5}, "'ton' is not a `metric`, did you mean 'tone'?"),
        (
            {"speed": 0.5},
            (
                "'speed' is not a `metric` of a grader (accuracy, tone)"
                " or of `classify`: accuracy, macro_f1"
            ),
        ),
        (
            {"accuracy": 0.5},
            "'accuracy' is a metric of `classify` and the `metric` of another grader",
        ),
        (
            {"language/accuracy": 0.5},
            "'language/accuracy' is a metric of `classify`, and no case expects one with",
        ),
    ],
)
def test_a_bar_on_a_metric_that_is_none_or_two_is_refused(
    tmp_path: Path, bars: dict[str, float], problem: str
) -> None:
    expect = [
        {"contains": {"value": "a", "metric": "tone"}},
        {"contains": {"value": "a", "metric": "accuracy"}},
        {"classify": "a"},
    ]
    suite = write_suite(
        tmp_path, [{"id": "a", "input": "a", "expect": expect}], gate={"metrics": bars}
    )
    with pytest.raises(ConfigError) as raised:
        load_suite(suite, {})
    assert problem in str(raised.value)
