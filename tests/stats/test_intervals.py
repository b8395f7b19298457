"""Wilson's interval and Student's quantile agree with statsmodels and scipy."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from stats.known import known

from ci_evals.stats.intervals import t_quantile, wilson


def test_a_known_interval() -> None:
    estimate = wilson(8, 10)
    assert estimate is not None
    assert estimate.value == 0.8
    assert estimate.interval == pytest.approx(known("wilson_8_10_95"), rel=1e-12)


@given(
    st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.sampled_from((0.8, 0.95, 0.99))
)
def test_the_interval_is_that_of_statsmodels(counts: tuple[int, int], confidence: float) -> None:
    from statsmodels.stats.proportion import proportion_confint  # slow to import, and only an oracle

    estimate = wilson(*counts, confidence)
    assert estimate is not None
    oracle = proportion_confint(*counts, alpha=1 - confidence, method="wilson")
    assert estimate.interval == pytest.approx(oracle, rel=1e-9, abs=1e-12)


def test_no_runs_have_no_share() -> None:
    assert wilson(0, 0) is None


@given(st.floats(0.001, 0.999), st.floats(0.5, 1e5) | st.integers(1, 50))
@example(0.975, 1)
@example(0.5, 7)
@example(0.999, 1.0)
def test_the_quantile_is_that_of_scipy(q: float, degrees: float) -> None:
    from scipy.special import stdtrit  # slow to import, and only an oracle

    assert t_quantile(q, degrees) == pytest.approx(stdtrit(degrees, q), rel=1e-6, abs=1e-6)
