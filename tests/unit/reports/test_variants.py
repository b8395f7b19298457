"""The figures of variants: repeats, leaderboard, labels and trends."""

import json
import re
from dataclasses import replace

import pytest
from factories import STARTED_AT, baseline_of, many, report_of
from rendered import html_of

from ci_evals.model.case import Variant
from ci_evals.model.result import Result
from ci_evals.reports import report_json, terminal
from ci_evals.reports.summary import Summary, summarize
from ci_evals.reports.variants import (
    LabelReport,
    TaskReport,
    VariantChange,
    leaderboard,
    trend_of,
    variant_changes,
    variant_reports,
)


def summary_of(**outcomes: str) -> Summary:
    """Each variant with one case for every word of its outcomes."""
    rows = zip(*(words.split() for words in outcomes.values()), strict=True)
    variants = [Variant(name) for name in outcomes]
    report = report_of(
        {f"case {number}": list(row) for number, row in enumerate(rows)}, variants=variants
    )
    return summarize(report, None)


def test_gate_page_and_report_have_the_same_median_latency_of_a_cell() -> None:
    seconds = {1: 1.0, 2: 2.0, 3: 60.0}

    def edit(result: Result) -> Result:
        return replace(result, latency_s=seconds[result.run])

    summary = summarize(report_of({"capital": "PFE"}, edit=edit), None)
    [cell] = summary.cells
    [page] = re.findall('data-s="(.+?)"', html_of(summary))
    document = json.loads(b"".join(report_json.render(summary)))
    figures = document["variants"][0]["figures"]
    assert cell.per_run.latency_median_s == float(page) == figures["latency_p50_s"] == 1.5
    assert figures["latency_p95_s"] == 2.0


def test_any_and_all_of_the_runs_are_means_over_cases() -> None:
    good, bad = variant_reports(summary_of(good="PPP PFF", bad="FFF FFF"))
    assert (good.k, good.pass_at_k, good.pass_hat_k) == (3, 1.0, 0.5)
    assert (bad.k, bad.pass_at_k, bad.pass_hat_k) == (3, 0.0, 0.0)


def test_k_is_what_every_graded_case_has() -> None:
    (only,) = variant_reports(summary_of(only="PFE PFF EEE"))
    assert only.k == 2
    assert only.pass_at_k == pytest.approx((1 + 2 / 3) / 2)
    assert only.pass_hat_k == 0


def test_single_runs_say_nothing_of_repeats() -> None:
    (only,) = variant_reports(summary_of(only="PE FF"))
    assert (only.k, only.pass_at_k, only.pass_hat_k) == (None, None, None)
    assert "pass@" not in terminal.render(summary_of(only="PE FF"), width=80, color=False)


def test_the_table_marks_the_best() -> None:
    text = terminal.render(summary_of(a="PPP PFF", b="FFF PFF"), width=120, color=False)
    assert "pass^3" in text
    assert re.findall(r"^[ab] .* (\d+ % [▲▼])", text, re.MULTILINE) == ["50 % ▲", "0 % ▼"]


def board(cases: int = 12, **outcomes: str) -> list[tuple[str, str]]:
    """Place and variant of each line, for variants whose runs of each case ended like that."""
    variants = [Variant(name) for name in outcomes]
    report = report_of(
        {f"case {n}": list(outcomes.values()) for n in range(cases)}, variants=variants
    )
    summary = summarize(report, None)
    return [
        (standing.place, standing.variant.variant.provider)
        for standing in leaderboard(variant_reports(summary))
    ]


def test_what_the_intervals_tell_apart_is_ranked_best_first() -> None:
    assert board(bad="FFFFF", good="PPPPP", middling="PPPFF") == [
        ("1", "good"),
        ("2", "middling"),
        ("3", "bad"),
    ]


def test_what_they_cannot_tell_apart_shares_a_place_with_the_better_rate_first() -> None:
    assert board(cases=3, a="PPPFF", b="PPPPF", c="FFFFF") == [("1=", "b"), ("1=", "a"), ("3", "c")]


def test_the_next_place_counts_everybody_above() -> None:
    assert board(low="FFFFF", a="PPPPP", b="PPPPP", c="PPPPP")[-1] == ("4", "low")


def test_a_variant_without_graded_runs_is_last_and_has_no_place() -> None:
    assert board(gone="EEEEE", a="PPPPP", b="FFFFF")[-1] == ("—", "gone")


def test_two_variants_need_no_order() -> None:
    assert board(a="PPPPP", b="FFFFF") == []


def test_the_most_frequent_labels_are_told_and_that_there_are_more() -> None:
    labels = ("a", "b", "c", "d", "e")
    counts = (
        (1, 2, 1200, 0, 3),
        (1, 2, 1200, 4, 3),
        (0, 0, 0, 0, 0),
        (0, 0, 0, 9, 0),
        (1, 1, 0, 0, 0),
    )
    figures = tuple(LabelReport(label, 0, None, None, None, None) for label in labels)
    task = TaskReport("classify", None, None, figures, counts)
    assert [task.taken_for(row, str.upper) for row in range(5)] == [
        "1,200 × C, 3 × E, 2 × B, 1 × A",
        "1,200 × C, 4 × D, 3 × E, 2 × B, …",
        "",
        "9 × D",
        "1 × A, 1 × B",
    ]


def trend(*outcomes: str) -> tuple[float | None, ...] | None:
    """The trend of `agent` beside reports that ended so, the newest first."""
    older = [
        report_of({"a": each}, started_at=STARTED_AT - 60 * number)
        for number, each in enumerate(outcomes, 1)
    ]
    summary = summarize(report_of({"a": "PP"}), None, baseline_of(*older))
    found = trend_of(summary, variant_reports(summary))
    if found is None:
        return None
    assert [ref.started_at for ref in found.reports] == sorted(
        ref.started_at for ref in found.reports
    )
    ((_, rates),) = found.rows
    return rates


def test_a_trend_goes_from_the_oldest_report_to_the_newest() -> None:
    assert trend("PP", "PF", "FF") == (0.0, 0.5, 1.0)
    assert trend("PP", "EE", "FF") == (0.0, None, 1.0)


def test_only_the_last_reports_are_shown_and_one_is_no_trend() -> None:
    assert trend(*["PF"] * 50) == (0.5,) * 10
    assert trend("PF") is None
    assert trend("PF", "EE") is None


def test_of_a_few_compared_cases_no_change_of_cost_or_latency_is_told() -> None:
    names = [f"case {number}" for number in range(40)]
    base = baseline_of(report_of(dict.fromkeys(names, "PPP"), started_at=STARTED_AT - 60))

    def change(edited: int) -> VariantChange:
        asks = {name: f"{name}, edited" for name in names[:edited]}
        (found,) = variant_changes(
            summarize(report_of(dict.fromkeys(names, "PPP"), asks=asks), None, base)
        ).values()
        return found

    assert change(0) == VariantChange("no change", cost="no change", latency="no change")
    assert change(39) == VariantChange("1 of 40 compared")


def test_a_latency_that_a_single_report_of_the_base_cannot_confirm_is_no_statement() -> None:
    def slow(result: Result) -> Result:
        return replace(result, latency_s=3.0)

    base = report_of(many((12, "PPP")), started_at=STARTED_AT - 60)
    summary = summarize(report_of(many((12, "PPP")), edit=slow), None, baseline_of(base))
    (change,) = variant_changes(summary).values()
    assert change.latency == "+500 %, can't tell"
