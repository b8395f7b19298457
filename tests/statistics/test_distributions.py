"""The beta distribution and Student's agree with scipy's."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from known import known

from ci_evals.stats.distributions import beta_cdf, beta_quantile, t_quantile

shapes = st.floats(-2, 4).map(lambda exponent: 10.0**exponent)
levels = st.sampled_from((0.01, 0.05, 0.95, 0.99)) | st.floats(0.001, 0.999)


# Of subnormal numbers, scipy's has three digits.
@given(st.floats(0, 1, allow_subnormal=False), shapes, shapes)
@example(0.5, 1.0, 1.0)
def test_the_cdf_is_that_of_scipy(x: float, a: float, b: float) -> None:
    from scipy.special import betainc  # slow to import, and only an oracle

    assert beta_cdf(x, a, b) == pytest.approx(betainc(a, b, x), abs=1e-10)


@given(levels, shapes, shapes)
@example(0.05, 0.01, 10_000.0)
@example(0.95, 10_000.0, 0.01)
@example(0.05, 201.7, 19.3)
@example(0.5, 10.0**-0.875, 10.0**-0.875)
def test_the_quantile_is_that_of_scipy(q: float, a: float, b: float) -> None:
    from scipy.special import betainc, betaincinv  # slow to import, and only oracles

    x, oracle = beta_quantile(q, a, b), betaincinv(a, b, q)
    # scipy's inverse of flat parts is rough.
    misses_less = abs(betainc(a, b, x) - q) < abs(betainc(a, b, oracle) - q)
    assert x == pytest.approx(oracle, abs=1e-10) or misses_less


@given(st.floats(0.001, 0.999), st.floats(1, 1e6), st.floats(1, 1e6))
def test_the_quantile_inverts_the_cdf(q: float, a: float, b: float) -> None:
    assert beta_cdf(beta_quantile(q, a, b), a, b) == pytest.approx(q, abs=1e-8)


@given(st.floats(0, 1), shapes, shapes)
def test_exchanging_success_and_failure_mirrors_the_cdf(x: float, a: float, b: float) -> None:
    y = 1 - x
    assert beta_cdf(1 - y, a, b) == pytest.approx(1 - beta_cdf(y, b, a), abs=1e-10)


def test_all_mass_is_between_zero_and_one() -> None:
    assert [beta_cdf(x, 2, 3) for x in (-1, 0, 1, 2)] == [0, 0, 1, 1]


def test_binomial_tails_are_values_of_the_cdf() -> None:
    def at_most(passed: int, runs: int) -> float:
        return beta_cdf(0.1, runs - passed, passed + 1)

    assert at_most(34, 40) == pytest.approx(known("binom_gate_34_40"), abs=1e-10)
    critical = int(known("binom_critical_120"))
    assert at_most(critical, 120) <= 0.05 < at_most(critical + 1, 120)


@given(st.floats(0.001, 0.999), st.floats(0.5, 1e5) | st.integers(1, 50))
@example(0.975, 1)
@example(0.5, 7)
@example(0.999, 1.0)
def test_students_quantile_is_that_of_scipy(q: float, degrees: float) -> None:
    from scipy.special import stdtrit  # slow to import, and only an oracle

    # beside the median, where no bound is taken, differences of shares cancel
    assert t_quantile(q, degrees) == pytest.approx(stdtrit(degrees, q), rel=1e-6, abs=1e-5)
