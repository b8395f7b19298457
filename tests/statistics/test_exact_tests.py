"""Exact tests of head against base agree with scipy, statsmodels and full enumeration."""

from collections.abc import Callable
from itertools import product
from math import comb, prod

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from known import fixture, known, weighted_strata

from ci_evals.stats.distributions import hypergeometric
from ci_evals.stats.exact_tests import (
    Table,
    benjamini_hochberg,
    exchange,
    fisher_lower,
    fisher_two_sided,
    fisher_upper,
    holm,
    stratified_lower,
    weighted_lower,
    widen,
)

# One cell: Fisher's test.


@pytest.mark.parametrize(
    ("table", "p"), [((1, 2, 20, 23), 0.3), ((3, 4, 20, 21), 0.3), ((1, 3, 13, 25), 0.5)]
)
def test_a_p_value_that_is_a_level_is_not_above_it(table: Table, p: float) -> None:
    assert fisher_lower(*table) == p


def side(most: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.integers(0, most).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def tables(most: int) -> st.SearchStrategy[Table]:
    return st.tuples(side(most), side(most)).map(lambda sides: (*sides[0], *sides[1]))


@given(tables(12) | tables(300))
@example((0, 3, 30, 30))
@example((0, 0, 2, 3))
@example((3, 3, 5, 5))
@example((250, 2000, 700, 3000))
def test_the_p_values_are_those_of_scipy(table: Table) -> None:
    from scipy.stats import fisher_exact, hypergeom  # slow to import, and only oracles

    kh, nh, kb, nb = table
    assume(nh + nb)  # of nothing scipy says nan
    share = hypergeom(nh + nb, kh + kb, nh)
    assert fisher_lower(*table) == pytest.approx(share.cdf(kh), rel=1e-8, abs=1e-250)
    assert fisher_upper(*table) == pytest.approx(share.sf(kh - 1), rel=1e-8, abs=1e-250)
    both = fisher_exact([[kh, nh - kh], [kb, nb - kb]])[1]
    assert fisher_two_sided(*table) == pytest.approx(both, rel=1e-8, abs=1e-250)


@given(tables(12) | tables(400))
def test_the_p_values_are_those_of_whole_numbers(table: Table) -> None:
    kh, nh, kb, nb = table
    tail = sum(comb(nh, k) * comb(nb, kh + kb - k) for k in range(kh + 1) if k <= kh + kb)
    assert fisher_lower(*table) == pytest.approx(
        tail / comb(nh + nb, kh + kb), rel=1e-12, abs=1e-290
    )


def test_known_tables() -> None:
    assert fisher_lower(2, 5, 5, 5) == pytest.approx(known("fisher_50_23_onesided"), rel=1e-12)
    assert fisher_two_sided(2, 5, 5, 5) == pytest.approx(known("fisher_50_23_twosided"), rel=1e-12)
    assert fisher_lower(0, 3, 3, 3) == pytest.approx(known("fisher_33_vs_03"), rel=1e-12)
    assert fisher_lower(0, 3, 30, 30) == pytest.approx(known("fisher_hist30_vs_03"), rel=1e-12)


@given(tables(40))
def test_lower_is_upper_with_the_sides_exchanged(table: Table) -> None:
    kh, nh, kb, nb = table
    assert fisher_lower(kh, nh, kb, nb) == pytest.approx(fisher_upper(kb, nb, kh, nh), rel=1e-12)
    assert fisher_lower(kh, nh, kb, nb) == pytest.approx(
        fisher_upper(nh - kh, nh, nb - kb, nb), rel=1e-12
    )
    assert fisher_two_sided(kh, nh, kb, nb) == pytest.approx(
        fisher_two_sided(kb, nb, kh, nh), rel=1e-12
    )


@given(tables(40))
def test_one_more_pass_on_the_head_never_looks_worse(table: Table) -> None:
    kh, nh, kb, nb = table
    if kh < nh:
        assert fisher_lower(kh, nh, kb, nb) <= fisher_lower(kh + 1, nh, kb, nb) * (1 + 1e-12)


@pytest.mark.parametrize(
    "table", [(0, 0, 0, 0), (0, 0, 3, 5), (3, 5, 0, 0), (4, 4, 9, 9), (0, 4, 0, 9)]
)
def test_a_table_that_can_tell_nothing_has_p_one(table: Table) -> None:
    assert fisher_lower(*table) == fisher_upper(*table) == fisher_two_sided(*table) == 1


@pytest.mark.parametrize("table", [(4, 3, 1, 2), (-1, 3, 1, 2), (1, 3, 3, 2), (1, 3, -1, 2)])
@pytest.mark.parametrize("test", [fisher_lower, fisher_upper, fisher_two_sided])
def test_more_passes_than_runs_are_refused(test: Callable[..., float], table: Table) -> None:
    with pytest.raises(ValueError, match="no such table"):
        test(*table)


def test_millions_of_runs_neither_overflow_nor_vanish() -> None:
    p = fisher_lower(499_000, 1_000_000, 500_000, 1_000_000)
    assert p == pytest.approx(0.0787, abs=0.0005)  # the normal distribution at -999.5 / 707.1


def test_chances_outside_the_possible_are_zero_and_one() -> None:
    share = hypergeometric(3, 3, 4)
    assert [share.at_most(0), share.at_most(3), share.at_least(1), share.at_least(4)] == [
        0,
        1,
        1,
        0,
    ]
    assert [share.exactly(0), share.exactly(4)] == [0, 0]
    assert sum(share.probabilities) == pytest.approx(1)


# Many cells together: the stratified test.


one_side = st.integers(0, 5).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
stratum = st.tuples(one_side, one_side).map(lambda sides: (*sides[0], *sides[1]))
strata = st.lists(stratum, max_size=5)


def enumerated(given_strata: list[Table]) -> float:
    """The chance of as few passes, by going through every way to share them out."""
    observed = sum(kh for kh, *_ in given_strata)
    shares = [range(max(0, kh + kb - nb), min(nh, kh + kb) + 1) for kh, nh, kb, nb in given_strata]
    ways = 0
    for heads in product(*shares):
        if sum(heads) <= observed:
            pairs = zip(heads, given_strata, strict=True)
            ways += prod(comb(nh, k) * comb(nb, kh + kb - k) for k, (kh, nh, kb, nb) in pairs)
    return ways / prod(comb(nh + nb, kh + kb) for kh, nh, kb, nb in given_strata)


@given(strata)
def test_the_p_value_is_that_of_full_enumeration(given_strata: list[Table]) -> None:
    assert stratified_lower(given_strata) == pytest.approx(enumerated(given_strata), rel=1e-12)


def test_known_strata() -> None:
    given_strata = [tuple(counts) for counts in fixture("STRATA")]
    assert stratified_lower(given_strata) == pytest.approx(known("cmh_exact_less"), rel=1e-12)
    two_sided = 2 * stratified_lower(given_strata, largest_support=1)
    assert two_sided == pytest.approx(known("cmh_asymptotic"), rel=1e-9)


@given(st.lists(stratum, min_size=1, max_size=30))
def test_the_approximation_is_that_of_statsmodels(given_strata: list[Table]) -> None:
    # Slow to import, and only an oracle.
    import numpy as np
    from statsmodels.stats.contingency_tables import StratifiedTable

    informative = [
        (kh, nh, kb, nb) for kh, nh, kb, nb in given_strata if nh and nb and 0 < kh + kb < nh + nb
    ]
    excess = sum(kh - nh * (kh + kb) / (nh + nb) for kh, nh, kb, nb in informative)
    if not informative or excess > -0.5:
        return
    tables = [np.array([[kh, nh - kh], [kb, nb - kb]], float) for kh, nh, kb, nb in informative]
    oracle = StratifiedTable(tables).test_null_odds(correction=True).pvalue
    assert 2 * stratified_lower(given_strata, largest_support=1) == pytest.approx(oracle, rel=1e-7)


@given(stratum)
def test_one_cell_is_fishers_test(counts: Table) -> None:
    assert stratified_lower([counts]) == pytest.approx(fisher_lower(*counts), rel=1e-12)


def test_one_run_a_side_is_mcnemars_test() -> None:
    alike: list[Table] = [(1, 1, 1, 1)] * 20 + [(0, 1, 0, 1)] * 5
    changed: list[Table] = [(0, 1, 1, 1)] * 12 + [(1, 1, 0, 1)] * 3
    assert 2 * stratified_lower(alike + changed) == pytest.approx(known("mcnemar_3_12"), rel=1e-12)


@given(strata)
def test_better_is_worse_with_the_sides_or_the_outcomes_exchanged(
    given_strata: list[Table],
) -> None:
    exchanged = [(kb, nb, kh, nh) for kh, nh, kb, nb in given_strata]
    mirrored = [(nh - kh, nh, nb - kb, nb) for kh, nh, kb, nb in given_strata]
    better = stratified_lower(exchanged)
    assert better == pytest.approx(stratified_lower(mirrored), rel=1e-12)


def test_the_order_of_cells_does_not_matter() -> None:
    given_strata: list[Table] = [(1, 3, 28, 30), (2, 10, 5, 6), (3, 3, 1, 2), (0, 1, 4, 9)] * 5
    assert stratified_lower(sorted(given_strata)) == pytest.approx(
        stratified_lower(given_strata), rel=1e-12
    )


@pytest.mark.parametrize(
    "given_strata",
    [
        pytest.param([], id="no cells"),
        pytest.param([(3, 3, 3, 3)] * 4, id="all passed"),
        pytest.param([(0, 3, 0, 3)] * 4, id="all failed"),
        pytest.param([(0, 0, 2, 3), (1, 3, 0, 0), (0, 0, 0, 0)], id="runs on one side only"),
    ],
)
def test_cells_that_can_tell_nothing_change_nothing(given_strata: list[Table]) -> None:
    telling: list[Table] = [(0, 3, 3, 3), (1, 3, 3, 3)]
    assert stratified_lower(given_strata) == stratified_lower(exchange(given_strata)) == 1
    assert stratified_lower(given_strata + telling) == stratified_lower(telling)


def test_above_the_largest_support_a_normal_takes_over_without_a_jump() -> None:
    cells: list[Table] = [(2, 3, 3, 3)] * 700 + [(3, 3, 2, 3)] * 633
    exact = stratified_lower(cells, largest_support=4000)
    assert 0.001 < exact < 0.2
    assert stratified_lower(cells, largest_support=10) == pytest.approx(exact, rel=0.01)
    assert stratified_lower(cells, largest_support=10) != exact


def test_small_p_values_stay_exact() -> None:
    assert stratified_lower([(0, 1, 1, 1)] * 40) == pytest.approx(2.0**-40, rel=1e-12)
    assert stratified_lower([(0, 1, 1, 1)] * 2000) < 1e-25


# Many cells together, where a run of a case that usually passes counts twice.


def enumerated_by_weight(given_strata: list[Table]) -> float:
    """The chance of as few weighted passes, by going through every way to share them out."""
    informative = [table for table in given_strata if table[1] and table[3]]
    weights = [2 if 3 * (kh + kb) >= 2 * (nh + nb) else 1 for kh, nh, kb, nb in informative]
    observed = sum(w * table[0] for w, table in zip(weights, informative, strict=True))
    shares = [range(max(0, kh + kb - nb), min(nh, kh + kb) + 1) for kh, nh, kb, nb in informative]
    ways = 0
    for heads in product(*shares):
        if sum(w * k for w, k in zip(weights, heads, strict=True)) <= observed:
            pairs = zip(heads, informative, strict=True)
            ways += prod(comb(nh, k) * comb(nb, kh + kb - k) for k, (kh, nh, kb, nb) in pairs)
    return ways / prod(comb(nh + nb, kh + kb) for kh, nh, kb, nb in informative)


@given(strata)
def test_the_weighted_p_value_is_that_of_full_enumeration(given_strata: list[Table]) -> None:
    expected = enumerated_by_weight(given_strata)
    assert weighted_lower(given_strata) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("given_strata", "p"), [pytest.param(*each[1:], id=each[0]) for each in weighted_strata()]
)
def test_known_weighted_strata(given_strata: list[Table], p: float) -> None:
    assert weighted_lower(given_strata) == pytest.approx(p, rel=1e-12)


@given(stratum)
def test_weights_do_not_matter_to_one_cell(counts: Table) -> None:
    assert weighted_lower([counts]) == pytest.approx(fisher_lower(*counts), rel=1e-12)


@pytest.mark.parametrize("fallen", [46, 50, 54])
def test_skewness_is_allowed_for_above_the_largest_support(fallen: int) -> None:
    """Few failures against a long history: the distribution has a long tail."""
    cells: list[Table] = [(2, 3, 30, 30)] * fallen + [(3, 3, 29, 30)] * 300 + [(1, 3, 6, 30)] * 30
    exact = weighted_lower(cells, largest_support=10**6)
    assert 0.0005 < exact < 0.2
    assert weighted_lower(cells, largest_support=10) == pytest.approx(exact, rel=0.1)
    assert weighted_lower(cells, largest_support=10) != exact


def test_widening_scales_the_normal_quantile() -> None:
    from scipy.stats import norm  # slow to import, and only an oracle

    assert widen(0.01, 1) == widen(0.01, 0.5) == 0.01
    assert (widen(0.0, 4), widen(1.0, 4)) == (0, 1)
    assert widen(0.01, 1.8) == pytest.approx(norm.cdf(norm.ppf(0.01) / 1.8**0.5), rel=1e-9)
    for p in (1e-9, 4.9e-21, 1e-100):
        assert widen(p, 1.2) == pytest.approx(norm.cdf(norm.ppf(p) / 1.2**0.5), rel=1e-9)


# Many tests at once: Holm, Benjamini and Hochberg.


p_lists = st.lists(st.floats(0, 1) | st.sampled_from((0.01, 0.02, 0.05)), min_size=1, max_size=30)
either = pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])


def test_the_example_of_1995() -> None:
    assert benjamini_hochberg(fixture("BH95")) == pytest.approx(known("bh_1995"), rel=1e-12)


@given(p_lists)
def test_adjusted_values_are_those_of_scipy(p_values: list[float]) -> None:
    from scipy.stats import false_discovery_control  # slow to import, and only an oracle

    assert benjamini_hochberg(p_values) == pytest.approx(
        false_discovery_control(p_values), rel=1e-12, abs=1e-300
    )


@settings(max_examples=5)  # each call of the oracle collects garbage
@given(p_lists)
def test_adjusted_values_are_those_of_statsmodels(p_values: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests  # slow to import, and only an oracle

    assert holm(p_values) == pytest.approx(
        multipletests(p_values, method="holm")[1], rel=1e-12, abs=1e-300
    )


@either
@given(p_lists)
def test_adjusting_keeps_the_order_and_never_makes_a_value_smaller(
    adjust: Callable[..., tuple[float, ...]], p_values: list[float]
) -> None:
    adjusted = adjust(p_values)
    assert all(p * (1 - 1e-15) <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    ranked = [q for _, q in sorted(zip(p_values, adjusted, strict=True))]
    assert ranked == sorted(ranked)
