"""What is counted of a report as a whole."""

import json
from dataclasses import replace
from html import unescape

import pytest
from factories import STARTED_AT, baseline_of, report_of
from rendered import comment_of, html_of, junit_of, markdown_of, terminal_of

from ci_evals.model.report import Spent, Unpriced
from ci_evals.model.result import Judging, Result
from ci_evals.reports import report_json as json_report
from ci_evals.reports.notes import notes
from ci_evals.reports.summary import Note, summarize

JUDGED = Judging(calls=2, cost_usd=0.5, unpriced=1)


def judged(result: Result) -> Result:
    return replace(result, judging=JUDGED)


def test_confirm_runs_and_judges_are_part_of_what_was_spent() -> None:
    report = report_of({"a": "PF", "b": "PE"}, confirming={"a": "FFF"}, edit=judged)
    assert report.figures().cost_usd == pytest.approx(0.003)
    assert report.judging == Judging(calls=14, cost_usd=3.5, unpriced=7)
    assert tuple(report.spent) == pytest.approx((0.003, 0.003, 3.5))
    assert report.spent.total_usd == pytest.approx(3.506)


def test_every_format_that_has_a_total_has_all_of_it() -> None:
    report = report_of({"a": "PF", "b": "PE"}, confirming={"a": "FFF"}, edit=judged)
    summary = summarize(report, None)
    totals = json.loads(b"".join(json_report.render(summary)))["totals"]
    assert totals["cost_usd"] == pytest.approx(3.506)
    assert (totals["judging"]["calls"], totals["judging"]["unpriced"]) == (14, 7)
    assert "$3.51" in comment_of(summary).replace("&#36;", "$")
    text = (
        "at least $3.51 in all: $0.0030 for planned runs, $0.0030 for confirm runs, $3.50"
        " for judges"
    )
    assert Note("Spent", f"{text}; the price of 7 calls of judges is not known") in notes(report)


def test_a_total_that_leaves_calls_out_does_not_look_complete() -> None:
    def priced(result: Result) -> Result:
        unknown = result.run in (2, 4) and result.status != "errored"
        return replace(
            result, recorded=result.run == 3, cost_usd=None if unknown else result.cost_usd
        )

    base = report_of({"a": (30, 30), "b": "P"}, started_at=STARTED_AT - 60)
    report = report_of({"a": "PFP", "b": "PEP"}, confirming={"a": "FFF"}, edit=priced)
    summary = summarize(report, None, baseline_of(base), confirm_runs=3)
    assert report.unpriced == Unpriced(runs=2, judge_calls=0), (
        "not what was recorded, nor what failed before it cost"
    )
    for render in (terminal_of, markdown_of, html_of, junit_of):
        text = " ".join(unescape(render(summary)).split())
        assert "at least $0.0040 in all: $0.0020 for planned runs, $0.0020 for confirm runs" in text
        assert "; the price of 2 runs is not known" in text
        assert render is junit_of or "3 more runs, $0.0020 for 2 of them" in text
    assert "· at least $0.0040 in all (the price of 2 runs is not known) ·" in unescape(
        comment_of(summary)
    )


def test_one_kind_of_cost_is_not_taken_for_all_of_it() -> None:
    """Judges with a price, and an application that does not say what it costs."""
    report = report_of({"a": "P"}, edit=lambda result: replace(judged(result), cost_usd=None))
    assert report.spent == Spent(None, None, 0.5)
    comment = unescape(comment_of(summarize(report, None)))
    assert "at least $0.500 (the price of 1 run and 1 call of judges is not known)" in comment


def test_planned_runs_alone_need_no_sum() -> None:
    report = report_of({"a": "PF"})
    assert report.spent == Spent(0.002, None, None)
    assert "Spent" not in {note.label for note in notes(report)}


def test_what_nobody_knows_the_price_of_cost_nothing_that_could_be_told() -> None:
    report = report_of({"a": "PF"}, edit=lambda result: replace(result, cost_usd=None))
    assert report.spent == Spent(None, None, None)
    assert report.spent.total_usd is None


def test_runs_that_repeat_a_record_are_no_fresh_ones() -> None:
    report = report_of({"a": "PPF"}, edit=lambda result: replace(result, recorded=result.run != 2))
    assert report.fresh(0) == (1, 1)
    assert report.counts((0,)).graded == 3
