"""The exact stratified test against full enumeration, its special cases and its approximation."""

from itertools import product
from math import comb, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stats.known import fixture, known

from ci_evals.stats.fisher import fisher_lower, fisher_upper
from ci_evals.stats.stratified import Counts, stratified_lower, stratified_upper

one_side = st.integers(0, 5).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
stratum = st.tuples(one_side, one_side).map(lambda sides: (*sides[0], *sides[1]))
strata = st.lists(stratum, max_size=5)


def enumerated(given_strata: list[Counts]) -> float:
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
def test_the_p_value_is_that_of_full_enumeration(given_strata: list[Counts]) -> None:
    assert stratified_lower(given_strata) == pytest.approx(enumerated(given_strata), rel=1e-12)


def test_known_strata() -> None:
    given_strata = [tuple(counts) for counts in fixture("STRATA")]
    assert stratified_lower(given_strata) == pytest.approx(known("cmh_exact_less"), rel=1e-12)
    two_sided = 2 * stratified_lower(given_strata, largest_support=1)
    assert two_sided == pytest.approx(known("cmh_asymptotic"), rel=1e-9)


@given(st.lists(stratum, min_size=1, max_size=30))
def test_the_approximation_is_that_of_statsmodels(given_strata: list[Counts]) -> None:
    import numpy as np
    from statsmodels.stats.contingency_tables import StratifiedTable  # slow to import, and only an oracle

    informative = [(kh, nh, kb, nb) for kh, nh, kb, nb in given_strata if nh and nb and 0 < kh + kb < nh + nb]
    excess = sum(kh - nh * (kh + kb) / (nh + nb) for kh, nh, kb, nb in informative)
    if not informative or excess > -0.5:
        return
    tables = [np.array([[kh, nh - kh], [kb, nb - kb]], float) for kh, nh, kb, nb in informative]
    oracle = StratifiedTable(tables).test_null_odds(correction=True).pvalue
    assert 2 * stratified_lower(given_strata, largest_support=1) == pytest.approx(oracle, rel=1e-7)


@given(stratum)
def test_one_cell_is_fishers_test(counts: Counts) -> None:
    assert stratified_lower([counts]) == pytest.approx(fisher_lower(*counts), rel=1e-12)
    assert stratified_upper([counts]) == pytest.approx(fisher_upper(*counts), rel=1e-12)


def test_one_run_a_side_is_mcnemars_test() -> None:
    alike: list[Counts] = [(1, 1, 1, 1)] * 20 + [(0, 1, 0, 1)] * 5
    changed: list[Counts] = [(0, 1, 1, 1)] * 12 + [(1, 1, 0, 1)] * 3
    assert 2 * stratified_lower(alike + changed) == pytest.approx(known("mcnemar_3_12"), rel=1e-12)


@given(strata)
def test_better_is_worse_with_the_sides_or_the_outcomes_exchanged(given_strata: list[Counts]) -> None:
    exchanged = [(kb, nb, kh, nh) for kh, nh, kb, nb in given_strata]
    mirrored = [(nh - kh, nh, nb - kb, nb) for kh, nh, kb, nb in given_strata]
    upper = stratified_upper(given_strata)
    assert upper == pytest.approx(stratified_lower(exchanged), rel=1e-12)
    assert upper == pytest.approx(stratified_lower(mirrored), rel=1e-12)


def test_the_order_of_cells_does_not_matter() -> None:
    given_strata: list[Counts] = [(1, 3, 28, 30), (2, 10, 5, 6), (3, 3, 1, 2), (0, 1, 4, 9)] * 5
    assert stratified_lower(sorted(given_strata)) == pytest.approx(stratified_lower(given_strata), rel=1e-12)


@pytest.mark.parametrize(
    "given_strata",
    [
        pytest.param([], id="no cells"),
        pytest.param([(3, 3, 3, 3)] * 4, id="all passed"),
        pytest.param([(0, 3, 0, 3)] * 4, id="all failed"),
        pytest.param([(0, 0, 2, 3), (1, 3, 0, 0), (0, 0, 0, 0)], id="runs on one side only"),
    ],
)
def test_cells_that_can_tell_nothing_change_nothing(given_strata: list[Counts]) -> None:
    telling: list[Counts] = [(0, 3, 3, 3), (1, 3, 3, 3)]
    assert stratified_lower(given_strata) == stratified_upper(given_strata) == 1
    assert stratified_lower(given_strata + telling) == stratified_lower(telling)


def test_above_the_largest_support_a_normal_takes_over_without_a_jump() -> None:
    cells: list[Counts] = [(2, 3, 3, 3)] * 700 + [(3, 3, 2, 3)] * 633
    exact = stratified_lower(cells, largest_support=4000)
    assert 0.001 < exact < 0.2
    assert stratified_lower(cells, largest_support=10) == pytest.approx(exact, rel=0.01)
    assert stratified_lower(cells, largest_support=10) != exact


def test_small_p_values_stay_exact() -> None:
    assert stratified_lower([(0, 1, 1, 1)] * 40) == pytest.approx(2.0**-40, rel=1e-12)
    assert stratified_lower([(0, 1, 1, 1)] * 2000) < 1e-25
