"""The best rate that was held for good."""

import pytest
from factories import many, report_of

from ci_evals.rules import Gate
from ci_evals.verdict.head import trend_point
from ci_evals.verdict.history import TrendVariant
from ci_evals.verdict.ratchet import best_stable_rate, broken

GOOD, BAD = many((40, "PPP")), many((30, "PPP"), (10, "FFF"))


def rated(rate: float | None, n_eff: float = 120) -> TrendVariant:
    return TrendVariant("agent", None, rate, n_eff, None, None, None)


def test_a_rate_is_held_when_three_reports_in_a_row_had_it() -> None:
    assert best_stable_rate([rated(1.0)] * 2, 0.95) is None
    assert best_stable_rate([rated(1.0), None, rated(1.0), rated(None)], 0.95) is None
    held = best_stable_rate([rated(0.5)] * 3 + [rated(1.0)] * 3, 0.95)
    assert held == pytest.approx((0.05 / 2) ** (1 / 360))


def test_a_fall_below_it_is_told_only_if_asked_for() -> None:
    trend = [trend_point(report_of(GOOD))] * 3
    [text] = broken(report_of(BAD), Gate(ratchet=True), trend)
    assert text.startswith("pass rate 75 % (95 % sure: at most ")
    assert list(broken(report_of(BAD), Gate(), trend)) == []
    assert list(broken(report_of(GOOD), Gate(ratchet=True), trend)) == []


def test_reports_of_other_cases_do_not_count() -> None:
    assert list(broken(report_of(BAD), Gate(ratchet=True), [trend_point(report_of(many((3, "PPP"))))] * 3)) == []
