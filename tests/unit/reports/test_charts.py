"""The pictures of report.html: values at the right places, and none without values."""

import re
from dataclasses import replace

import pytest
from factories import STARTED_AT, baseline_of, report_of

from ci_evals.model.case import Variant
from ci_evals.model.report import Tally
from ci_evals.model.result import Result
from ci_evals.reports.charts import rate_chart, scale_of, scatters, spark, trend_chart
from ci_evals.reports.summary import Summary, summarize
from ci_evals.reports.variants import variant_reports

DAY_S = 86_400


def compared(here: str, *before: str) -> Summary:
    """A report of one case after earlier ones, the newest of which comes first."""
    older = [
        report_of({"a": runs}, started_at=STARTED_AT - DAY_S * age)
        for age, runs in enumerate(before, 1)
    ]
    return summarize(report_of({"a": here}), None, baseline_of(*older))


def test_a_rate_is_drawn_between_its_bounds_beside_its_bar() -> None:
    whole = scale_of([0.5, 0.25])
    assert whole.ends == ("0 %", "100 %")
    chart = rate_chart(whole, 0.5, 0.25, 0.75, bar=0.9, base=0.95)
    assert chart is not None
    assert (chart.lower, chart.rate, chart.upper) == (50, 100, 150)
    assert (chart.bar, chart.base) == (180, 190)
    assert chart.text == "50 % (25 to 75 %), the baseline is at 95 %, the bar is 90 %"
    assert rate_chart(whole, None, None, None) is None


@pytest.mark.parametrize(
    ("rates", "ends"),
    [
        ([], ("0 %", "100 %")),
        ([0.49, 1.0], ("0 %", "100 %")),
        ([0.93, 0.97, 0.81], ("80 %", "100 %")),
        ([0.5], ("50 %", "100 %")),
        ([1.0], ("90 %", "100 %")),
    ],
)
def test_an_axis_is_zoomed_to_rates_that_are_all_high(
    rates: list[float], ends: tuple[str, str]
) -> None:
    assert scale_of(rates).ends == ends


def test_the_history_of_a_cell_has_the_oldest_report_first() -> None:
    comparison = compared("PPFF", "PPPP", "FFFF").compared
    drawn = spark(comparison, ("a", "agent", None), Tally(2, 4))
    assert drawn is not None
    assert drawn.before == "M2 12V10M6 12V0", "a column that is 0 % high can still be seen"
    assert drawn.here == "M10 12V6"
    assert drawn.text == "0/4, 4/4, 2/4"
    assert spark(None, ("a", "agent", None), Tally(2, 4)) is None


def test_a_trend_leads_from_the_oldest_report_to_this_one() -> None:
    summary = compared("PPFF", "PPPP", "PPPF")
    chart = trend_chart(summary.report, summary.compared, variant_reports(summary), 0.9)
    assert chart is not None
    (line,) = chart.lines
    assert [point.x for point in line.points] == [0, chart.width / 2, chart.width]
    heights = [point.y for point in line.points]
    assert heights[1] < heights[0] < heights[2], "the higher the rate, the less is above it"
    assert [re.sub(".*: ", "", point.text) for point in line.points] == ["75 %", "100 %", "50 %"]
    assert heights[1] < (chart.bar or 0) < heights[0]
    assert (chart.first, chart.reports) == ("2 days ago", 3)


def test_two_reports_are_no_trend() -> None:
    summary = compared("PPFF", "PPPP")
    assert trend_chart(summary.report, summary.compared, variant_reports(summary), None) is None
    alone = summarize(report_of({"a": "P"}), None)
    assert trend_chart(alone.report, None, variant_reports(alone), None) is None


def test_variants_stand_where_their_cost_and_rate_are_and_no_name_on_another() -> None:
    names = [Variant(name) for name in ("a", "b", "c", "d")]
    costs_usd = {"a": 0.01, "b": 0.01, "c": 0.02, "d": 0.02}

    def edit(result: Result) -> Result:
        return replace(result, cost_usd=costs_usd[result.provider])

    summary = summarize(report_of({"x": ["PP", "PP", "PP", "FF"]}, variants=names, edit=edit), None)
    (cost,) = scatters(variant_reports(summary))
    assert cost.title == "cost per run", "all are equally fast, so latency tells nothing"
    assert [point.y for _, point in cost.points] == [0, 0, 0, cost.height]
    hidden, *seen = cost.labels
    assert hidden is None, "the next point covers it"
    assert len(set(seen)) == 3
    assert list(scatters(variant_reports(summary)[:1])) == []
