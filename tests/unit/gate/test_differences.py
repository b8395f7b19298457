"""By how much a variant differs: each figure over the cells where both sides know it."""

import pytest

from ci_evals.gate.baseline import UNMEASURED, PerRun
from ci_evals.gate.differences import Difference, differences
from ci_evals.stats.differences import ScoreSums

TABLES = [(1, 2, 2, 2)] * 2


def per_run(*, cost: float, latency_s: float = 1.0, runs: int = 2) -> PerRun:
    """Runs that score 1, each of this cost, and of a thousand tokens for a dollar."""
    return PerRun(ScoreSums(runs, float(runs), float(runs)), cost, 1000 * cost, latency_s)


def value_of(difference: Difference | None) -> float:
    assert difference is not None
    return difference.value


def test_cost_and_tokens_are_those_of_a_run_whatever_their_number() -> None:
    found = differences(
        TABLES, [per_run(cost=3.0, runs=5)] * 2, [per_run(cost=2.0, runs=2)] * 2, 0.95
    )
    assert (value_of(found.cost), value_of(found.tokens)) == pytest.approx((1.5, 1.5))
    assert value_of(found.score) == 0.0
    assert value_of(found.pass_rate) == pytest.approx(-0.5)


def test_a_cell_that_one_side_does_not_know_is_left_out() -> None:
    head, base = (
        [per_run(cost=4.0, latency_s=3.0), per_run(cost=9.0)],
        [per_run(cost=2.0), UNMEASURED],
    )
    found = differences(TABLES, head, base, 0.95)
    assert (found.cost, found.latency) == (Difference(2.0), Difference(3.0)), (
        "of one cell, so without an interval"
    )


def test_what_no_cell_knows_has_no_difference() -> None:
    found = differences(TABLES, [per_run(cost=1.0)] * 2, [UNMEASURED] * 2, 0.95)
    assert (found.score, found.cost, found.tokens, found.latency) == (None,) * 4


def test_cells_that_all_change_alike_leave_no_doubt_and_others_do() -> None:
    base = [per_run(cost=float(n), latency_s=float(n)) for n in (1, 2, 3)]
    alike = [per_run(cost=2.0 * n, latency_s=2.0 * n) for n in (1, 2, 3)]
    found = differences(TABLES, alike, base, 0.95)
    assert found.latency == found.cost == Difference(2.0, 2.0, 2.0)
    mixed = [per_run(cost=cost, latency_s=cost) for cost in (6.0, 1.0, 5.0)]
    wide = differences(TABLES, mixed, base, 0.95).latency
    assert wide is not None
    assert wide.lower is not None
    assert wide.upper is not None
    assert wide.lower < wide.value == 2.0 < wide.upper
    narrow = differences(TABLES, mixed, base, 0.5).latency
    assert narrow is not None
    assert narrow.lower is not None
    assert narrow.lower > wide.lower
