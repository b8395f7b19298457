"""The best rate that was held for good."""

from collections.abc import Mapping

import pytest
from factories import STARTED_AT, Outcome, baseline_of, many, report_of

from ci_evals.model import Variant
from ci_evals.rules import Gate
from ci_evals.verdict.comparison import compare
from ci_evals.verdict.head import head_cells
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


def told(head: Mapping[str, Outcome], base: Mapping[str, Outcome], gate: Gate, **names: str) -> list[str]:
    """What is said of a report after three of the base branch, all of one variant."""
    here, there = (Variant(names.get(side, "agent")) for side in ("here", "there"))
    older = [report_of(base, variants=[there], started_at=STARTED_AT - number) for number in (1, 2, 3)]
    report = report_of(head, variants=[here])
    return list(broken(report, gate, compare(head_cells(report, gate), baseline_of(*older), confirm_runs=0)))


def test_a_fall_below_it_is_told_only_if_asked_for() -> None:
    [text] = told(BAD, GOOD, Gate(ratchet=True))
    assert text.startswith("pass rate 75 % (95 % sure: at most ")
    assert text.endswith(" that it has held before")
    assert told(BAD, GOOD, Gate()) == []
    assert told(GOOD, GOOD, Gate(ratchet=True)) == []


def test_a_variant_of_another_name_is_held_to_what_it_is_compared_with() -> None:
    [text] = told(BAD, GOOD, Gate(ratchet=True), here="agent 2", there="agent 1")
    assert text.startswith("pass rate 75 % (95 % sure: at most ")
    assert text.endswith(" that agent 1 has held before")


def test_reports_of_other_cases_do_not_count() -> None:
    assert told(BAD, many((3, "PPP")), Gate(ratchet=True)) == []
