"""Adjusted p-values agree with statsmodels', in any order and in families larger than the list."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stats.known import fixture, known

from ci_evals.stats.multiplicity import benjamini_hochberg, holm

p_lists = st.lists(st.floats(0, 1) | st.sampled_from((0.01, 0.02, 0.05)), min_size=1, max_size=30)
either = pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])


def test_the_example_of_1995() -> None:
    assert benjamini_hochberg(fixture("BH95")) == pytest.approx(known("bh_1995"), rel=1e-12)


@given(p_lists)
def test_adjusted_values_are_those_of_statsmodels(p_values: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests  # slow to import, and only an oracle

    oracle = multipletests(p_values, method="fdr_bh")[1]
    assert benjamini_hochberg(p_values) == pytest.approx(oracle, rel=1e-12, abs=1e-300)
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1], rel=1e-12, abs=1e-300)


@either
@given(p_lists, st.integers(0, 50))
def test_tests_not_listed_count_as_p_one(
    adjust: Callable[..., tuple[float, ...]], p_values: list[float], others: int
) -> None:
    listed = adjust(p_values, len(p_values) + others)
    assert listed == adjust(p_values + [1.0] * others)[: len(p_values)]


@either
def test_a_family_smaller_than_its_list_is_refused(adjust: Callable[..., tuple[float, ...]]) -> None:
    with pytest.raises(ValueError, match="a family of 1 tests"):
        adjust([0.1, 0.2], 1)
    assert adjust([]) == ()


@either
@given(p_lists)
def test_adjusting_keeps_the_order_and_never_makes_a_value_smaller(
    adjust: Callable[..., tuple[float, ...]], p_values: list[float]
) -> None:
    adjusted = adjust(p_values)
    assert all(p * (1 - 1e-15) <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    ranked = [q for _, q in sorted(zip(p_values, adjusted, strict=True))]
    assert ranked == sorted(ranked)
