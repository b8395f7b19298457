"""Fisher's exact test agrees with scipy's."""

from collections.abc import Callable
from math import comb

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from stats.known import known

from ci_evals.stats.fisher import fisher_lower, fisher_two_sided, fisher_upper
from ci_evals.stats.hypergeometric import hypergeometric

Table = tuple[int, int, int, int]


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
    assert fisher_lower(*table) == pytest.approx(tail / comb(nh + nb, kh + kb), rel=1e-12, abs=1e-290)


def test_known_tables() -> None:
    assert fisher_lower(2, 5, 5, 5) == pytest.approx(known("fisher_50_23_onesided"), rel=1e-12)
    assert fisher_two_sided(2, 5, 5, 5) == pytest.approx(known("fisher_50_23_twosided"), rel=1e-12)
    assert fisher_lower(0, 3, 3, 3) == pytest.approx(known("fisher_33_vs_03"), rel=1e-12)
    assert fisher_lower(0, 3, 30, 30) == pytest.approx(known("fisher_hist30_vs_03"), rel=1e-12)


@given(tables(40))
def test_lower_is_upper_with_the_sides_exchanged(table: Table) -> None:
    kh, nh, kb, nb = table
    assert fisher_lower(kh, nh, kb, nb) == pytest.approx(fisher_upper(kb, nb, kh, nh), rel=1e-12)
    assert fisher_lower(kh, nh, kb, nb) == pytest.approx(fisher_upper(nh - kh, nh, nb - kb, nb), rel=1e-12)
    assert fisher_two_sided(kh, nh, kb, nb) == pytest.approx(fisher_two_sided(kb, nb, kh, nh), rel=1e-12)


@given(tables(40))
def test_one_more_pass_on_the_head_never_looks_worse(table: Table) -> None:
    kh, nh, kb, nb = table
    if kh < nh:
        assert fisher_lower(kh, nh, kb, nb) <= fisher_lower(kh + 1, nh, kb, nb) * (1 + 1e-12)


@pytest.mark.parametrize("table", [(0, 0, 0, 0), (0, 0, 3, 5), (3, 5, 0, 0), (4, 4, 9, 9), (0, 4, 0, 9)])
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
    assert [share.at_most(0), share.at_most(3), share.at_least(1), share.at_least(4)] == [0, 1, 1, 0]
    assert [share.exactly(0), share.exactly(4)] == [0, 0]
    assert sum(share.probabilities) == pytest.approx(1)
