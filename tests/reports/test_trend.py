"""The trend as bars."""

from collections.abc import Sequence

from ci_evals.reports.trend import POINTS, trend_of
from ci_evals.verdict.history import ReportRef, TrendPoint, TrendVariant


def points(rates: Sequence[float | None]) -> list[TrendPoint]:
    """Reports of the variant `agent`, newest first."""
    return [
        TrendPoint(ReportRef(str(n), float(-n)), "cases", (TrendVariant("agent", None, rate, 1.0, None, None, None),))
        for n, rate in enumerate(rates)
    ]


def test_bars_go_from_the_oldest_report_to_this_one() -> None:
    trend = trend_of(points([1.0, 0.5, 0.0]), "agent", None, 0.25)
    assert trend is not None
    assert trend.bars == "▁▅█▃"
    assert (trend.lowest, trend.highest, trend.reports) == ("0 %", "100 %", 3)


def test_a_change_of_a_point_is_no_mountain() -> None:
    trend = trend_of(points([0.91, 0.9, 0.91, 0.9]), "agent", None, 0.9)
    assert trend is not None
    assert set(trend.bars) <= set("▁▂")


def test_a_rate_of_all_is_a_full_bar() -> None:
    trend = trend_of(points([1.0, 1.0]), "agent", None, 1.0)
    assert trend is not None
    assert trend.bars == "███"


def test_only_the_last_reports_are_shown_and_one_is_no_trend() -> None:
    trend = trend_of(points([0.5] * 50), "agent", None, None)
    assert trend is not None
    assert (len(trend.bars), trend.reports) == (POINTS, POINTS)
    assert trend_of(points([0.5]), "agent", None, 0.5) is None
    assert trend_of(points([0.5, None]), "agent", None, 0.5) is None
    assert trend_of(points([0.5] * 5), "other", None, 0.5) is None
