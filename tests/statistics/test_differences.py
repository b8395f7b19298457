"""Ratios and differences of head and base, each with bounds that hold what they promise."""

import random
from collections.abc import Sequence
from itertools import combinations, product
from statistics import NormalDist, fmean, pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known import known

from ci_evals.stats.differences import (
    ScoreSums,
    rate_difference,
    ratio_of_totals,
    rise_p,
    score_difference,
)
from ci_evals.stats.exact_tests import Table
from ci_evals.stats.rates import Estimate, Interval, pass_rate


def sure(estimate: Estimate | None) -> tuple[float, Interval]:
    assert estimate is not None
    assert estimate.interval is not None
    return estimate.value, estimate.interval


def sums(*values: float) -> ScoreSums:
    return ScoreSums(len(values), sum(values), sum(value * value for value in values))


# Ratios.


def test_a_ratio_worked_by_hand() -> None:
    # R = 12/10; residuals 0.8, -0.6, -0.2; s² = 1.04/2; error √(1.04·3/2)/10; t(0.975; 2) =
    # 4.302653
    ratio, interval = sure(ratio_of_totals([2.0, 3.0, 7.0], [1.0, 3.0, 6.0], 0.975))
    half = 4.302652729911275 * 1.56**0.5 / 10
    assert ratio == pytest.approx(1.2)
    assert interval == pytest.approx((1.2 - half, 1.2 + half), rel=1e-8)


def test_the_ratio_of_equal_growth_is_certain() -> None:
    costs = [0.01, 0.5, 3.0]
    ratio, interval = sure(ratio_of_totals([1.1 * cost for cost in costs], costs))
    assert (ratio, *interval) == pytest.approx((1.1, 1.1, 1.1))


def test_each_bound_of_a_ratio_holds_as_often_as_it_says() -> None:
    chance, below, above, rounds = random.Random(1), 0, 0, 600
    for _ in range(rounds):
        sizes = [chance.uniform(1, 4) for _ in range(40)]
        heads = [1.2 * size * chance.uniform(0.7, 1.3) for size in sizes]
        bases = [size * chance.uniform(0.7, 1.3) for size in sizes]
        _, interval = sure(ratio_of_totals(heads, bases))
        below, above = below + (interval.lower <= 1.2), above + (interval.upper >= 1.2)
    assert 0.92 <= below / rounds <= 0.98
    assert 0.92 <= above / rounds <= 0.98


def test_without_amounts_on_the_base_there_is_no_ratio() -> None:
    assert ratio_of_totals([], []) is None
    assert ratio_of_totals([1.0, 2.0], [0.0, 0.0]) is None
    assert ratio_of_totals([3.0], [2.0]) == Estimate(1.5, None)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.01, 100)), min_size=2, max_size=30))
def test_a_ratio_is_inside_its_interval_and_has_no_unit(cells: list[tuple[float, float]]) -> None:
    heads, bases = [head for head, _ in cells], [base for _, base in cells]
    ratio, interval = sure(ratio_of_totals(heads, bases))
    assert 0 <= interval.lower <= ratio <= interval.upper
    scaled = sure(ratio_of_totals([head * 1000 for head in heads], [base * 1000 for base in bases]))
    assert (scaled[0], *scaled[1]) == pytest.approx((ratio, *interval), rel=1e-6, abs=1e-6)


# Pass rates.

one_side = st.integers(1, 8).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
cells = st.lists(
    st.tuples(one_side, one_side).map(lambda sides: (*sides[0], *sides[1])), min_size=1, max_size=20
)


@given(cells)
def test_a_difference_is_inside_its_interval_and_turns_with_the_sides(
    given_cells: list[Table],
) -> None:
    difference, interval = sure(rate_difference(given_cells))
    assert -1 <= interval.lower <= difference <= interval.upper <= 1
    turned, turned_interval = sure(
        rate_difference([(kb, nb, kh, nh) for kh, nh, kb, nb in given_cells])
    )
    assert turned == pytest.approx(-difference)
    assert turned_interval == pytest.approx((-interval.upper, -interval.lower))


def test_against_a_base_that_is_all_but_known_the_interval_is_the_gates() -> None:
    head = pass_rate([(2, 3)] * 40)
    assert head is not None
    _, interval = sure(rate_difference([(2, 3, 10**7, 10**7)] * 40, 0.95))
    bounds = head.bounds(0.95)
    assert interval == pytest.approx((bounds.lower - 1, bounds.upper - 1), abs=1e-6)


def test_each_bound_of_a_difference_holds_at_least_as_often_as_it_says() -> None:
    chance, below, above, rounds = random.Random(2), 0, 0, 300
    for _ in range(rounds):
        rates = [chance.betavariate(0.9, 0.1) for _ in range(40)]
        heads = [rate * 0.9 for rate in rates]
        counts = [
            (
                sum(chance.random() < h for _ in range(3)),
                3,
                sum(chance.random() < b for _ in range(6)),
                6,
            )
            for h, b in zip(heads, rates, strict=True)
        ]
        _, interval = sure(rate_difference(counts))
        truth = fmean(heads) - fmean(rates)
        below, above = below + (interval.lower <= truth), above + (truth <= interval.upper)
    assert min(below, above) / rounds >= 0.93


def test_overdispersion_widens_an_interval_as_so_many_fewer_runs_do() -> None:
    few: list[Table] = [(15, 20, 270, 300)] * 8
    many: list[Table] = [(60, 80, 1080, 1200)] * 8
    _, wide = sure(rate_difference(many, overdispersion=4.0))
    _, of_few = sure(rate_difference(few))
    assert wide == pytest.approx(of_few, abs=0.005)


def test_all_passing_is_not_certainty() -> None:
    difference, interval = sure(rate_difference([(3, 3, 3, 3)] * 10))
    assert difference == 0
    assert interval.lower < -0.05 < 0.05 < interval.upper


def test_cells_of_one_side_only_are_left_out() -> None:
    both: list[Table] = [(2, 3, 3, 3)] * 5
    assert rate_difference([*both, (0, 0, 3, 3), (0, 3, 0, 0)]) == rate_difference(both)
    assert rate_difference([(0, 0, 3, 3)]) is None


# Scores.


def test_single_runs_are_compared_as_pairs() -> None:
    head, base = [1, 1, 0.67, 0.33, 1, 0], [1, 1, 1, 0.67, 1, 0.33]
    p = known("paired_t")
    cells = [(sums(h), sums(b)) for h, b in zip(head, base, strict=True)]
    difference, interval = sure(score_difference(cells, 1 - p))
    assert difference == pytest.approx(-1 / 6)
    assert interval == pytest.approx((2 * difference, 0), abs=1e-9)


def test_scores_of_zero_and_one_vary_as_passes_do() -> None:
    # Σ k(n-k)/(n²(n-1)) + 1/n² on each side; 16 degrees of freedom: t(0.975) = 2.119905
    cells = [(sums(1, 1, 0), sums(1, 1, 0))] * 4
    _, interval = sure(score_difference(cells, 0.975))
    half = 2.1199052992210112 * (2 * (4 / 9 + 1 / 9)) ** 0.5 / 4
    assert interval == pytest.approx((-half, half), rel=1e-8)


def test_each_bound_of_a_score_holds_as_often_as_it_says() -> None:
    chance, below, above, rounds = random.Random(3), 0, 0, 600
    for _ in range(rounds):
        cells = [
            (
                sums(*(chance.uniform(0, 0.8) for _ in range(3))),
                sums(*(chance.uniform(0, 1) for _ in range(3))),
            )
            for _ in range(20)
        ]
        _, interval = sure(score_difference(cells))
        below, above = below + (interval.lower <= -0.1), above + (interval.upper >= -0.1)
    assert 0.93 <= min(below, above) / rounds <= 1


def test_scores_that_cannot_show_their_noise_have_no_interval() -> None:
    assert score_difference([(sums(0.25), sums(0.5))]) == Estimate(-0.25, None)
    assert score_difference([]) is None
    assert score_difference([(sums(), sums(0.5)), (sums(0.1), sums())]) is None


# Rises.


def deals(table: Table) -> list[float]:
    """The difference of a cell's rates in every way to deal its runs to head and base."""
    k_head, n_head, k_base, n_base = table
    runs = [1] * (k_head + k_base) + [0] * (n_head + n_base - k_head - k_base)
    differences = []
    for chosen in combinations(range(len(runs)), n_head):
        passed = sum(runs[place] for place in chosen)
        differences.append(passed / n_head - (sum(runs) - passed) / n_base)
    return differences


def p_by_dealing(tables: Sequence[Table]) -> float:
    """The p-value of a rise, with a variance over every way to deal the runs of all cells."""
    seen = fmean(k_head / n_head - k_base / n_base for k_head, n_head, k_base, n_base in tables)
    every = [fmean(dealt) for dealt in product(*map(deals, tables))]
    spread = pvariance(every) ** 0.5
    return 1 - NormalDist().cdf(seen / spread) if spread else 0.5


SMALL_TABLES = st.tuples(st.integers(1, 3), st.integers(1, 3)).flatmap(
    lambda runs: st.tuples(
        st.integers(0, runs[0]), st.just(runs[0]), st.integers(0, runs[1]), st.just(runs[1])
    )
)


@given(st.lists(SMALL_TABLES, min_size=1, max_size=3))
def test_a_rise_has_the_variance_of_runs_dealt_at_random(tables: list[Table]) -> None:
    assert rise_p(tables) == pytest.approx(p_by_dealing(tables), abs=1e-9)


def test_a_rise_worked_by_hand() -> None:
    # d = (3/3 - 0/30) / 2; S = 3 of N = 33: s² = 3·30 / (33·32) · (1/3 + 1/30) / 4; z = 5.6569
    assert rise_p([(3, 3, 0, 30), (3, 3, 30, 30)]) == pytest.approx(7.70863e-09, rel=1e-5)


def test_every_cell_counts_alike_in_a_rise() -> None:
    gained, lost = (3, 3, 0, 30), (0, 60, 30, 30)
    assert rise_p([gained, lost]) == pytest.approx(0.5)
    assert rise_p([gained, gained, lost]) < 0.05
    assert rise_p([gained, lost, lost]) > 0.95


def test_a_rise_of_nothing_is_as_likely_as_a_fall() -> None:
    assert rise_p([]) == 0.5
    assert rise_p([(3, 3, 30, 30), (0, 3, 0, 30), (0, 0, 3, 3)]) == 0.5


def test_a_rise_is_found_no_more_often_than_it_says() -> None:
    chance, found, rounds = random.Random(3), 0, 2000
    for _ in range(rounds):
        rates = [chance.betavariate(0.5, 0.25) for _ in range(40)]
        tables = []
        for rate in rates:
            head = sum(chance.random() < rate for _ in range(6))
            base = sum(chance.random() < rate for _ in range(30))
            tables.append((head, 6, base, 30))
        found += rise_p(tables) <= 0.05
    assert 0.03 <= found / rounds <= 0.065
