"""The beta, Student's t and hypergeometric distributions."""

from dataclasses import dataclass
from functools import lru_cache
from math import exp, fsum, inf, lgamma, log, log1p, sqrt
from statistics import NormalDist

_STANDARD_NORMAL = NormalDist()
_EPSILON = 1e-15
_TOLERANCE = 1e-12


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I_x(a, b), for a, b > 0 and any x.

    Source: DiDonato and Morris, "Algorithm 708", ACM TOMS 18 (1992), section 2, the continued
    fraction for BFRAC.
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    # The factor in front of the fraction, by logarithms so that nothing underflows.
    log_front = a * log(x) + b * log1p(-x) - _log_beta(a, b)
    front = exp(log_front)
    near_zero = (a + 1) / (a + b + 2)
    if x <= near_zero:
        return front / _continued_fraction(x, a, b)
    # I_x(a, b) = 1 - I_(1-x)(b, a), whose fraction converges faster here.
    return 1 - front / _continued_fraction(1 - x, b, a)


def beta_quantile(q: float, a: float, b: float) -> float:
    """The x with I_x(a, b) = q, for 0 < q < 1 and a, b > 0.

    Halley's method, kept inside a bracket: a step that would leave it is replaced by bisection.
    """
    low = 0.0
    high = 1.0
    log_beta = _log_beta(a, b)
    x = _first_guess(q, a, b)
    while True:
        excess = beta_cdf(x, a, b) - q
        if excess > 0:
            high = x
        else:
            low = x
        log_density = (a - 1) * log(x) + (b - 1) * log1p(-x) - log_beta
        density = exp(log_density)
        log_slope = (a - 1) / x - (b - 1) / (1 - x)
        following = x - _halley_step(excess, density, log_slope)
        if following != x and not low < following < high:
            following = (low + high) / 2
        if abs(following - x) <= _TOLERANCE:
            return following
        x = following


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def _continued_fraction(x: float, a: float, b: float) -> float:
    """x^a (1-x)^b / (B(a, b) I_x(a, b)), evaluated by Lentz's method.

    Converges fast for x at or below (a + 1) / (a + b + 2), in about sqrt(max(a, b)) steps.
    """
    lead = a + 1 - (a + b) * x
    value = c = a * lead / (a + 1)
    d = 0.0
    m = 0
    change = 0.0
    while abs(change - 1) > _EPSILON:
        m += 1
        odd = a + 2 * m - 1
        shared = m * (b - m) * x / odd
        numerator = (a + m - 1) * (a + b + m - 1) * x * shared / odd
        rest = (a + m) * (lead + m * (2 - x)) / (odd + 2)
        denominator = m + shared + rest
        d = 1 / (denominator + numerator * d)
        c = denominator + numerator / c
        change = c * d
        value *= change
    return value


def _first_guess(q: float, a: float, b: float) -> float:
    """A normal approximation, or the mean where that does not apply.

    Source: Abramowitz and Stegun 26.5.22.
    """
    if a < 1 or b < 1:
        return a / (a + b)
    z = -_STANDARD_NORMAL.inv_cdf(q)
    inverse_a = 1 / (2 * a - 1)
    inverse_b = 1 / (2 * b - 1)
    k = (z * z - 3) / 6
    h = 2 / (inverse_a + inverse_b)
    if h + k <= 0:
        return a / (a + b)
    spread = z * sqrt(h + k) / h
    skewness = (inverse_b - inverse_a) * (k + 5 / 6 - 2 / (3 * h))
    w = spread - skewness
    return a / (a + b * exp(2 * w))


def _halley_step(excess: float, density: float, log_slope: float) -> float:
    """Return the step to take; `log_slope` is the derivative of the density's logarithm."""
    if density == 0:
        return inf
    newton = excess / density
    curvature = min(1.0, newton * log_slope)
    return newton / (1 - 0.5 * curvature)


def t_quantile(q: float, degrees: float) -> float:
    """The t with P(T <= t) = q for Student's distribution, for 0 < q < 1 and `degrees` > 0.

    T²/(degrees + T²) is beta-distributed: Abramowitz and Stegun 26.7.1 with 26.5.27.
    """
    if q < 0.5:
        return -t_quantile(1 - q, degrees)
    if q == 0.5:
        return 0.0
    if degrees < 2:  # the share of T² is near one, so compute the rest of it
        rest = beta_quantile(2 * (1 - q), degrees / 2, 0.5)
        return sqrt(degrees * (1 - rest) / rest)
    share = beta_quantile(2 * q - 1, 0.5, degrees / 2)
    return sqrt(degrees * share / (1 - share))


@dataclass(frozen=True, slots=True)
class Hypergeometric:
    """The probabilities that the head has `least`, `least + 1`, … of the passes.

    Those below 1e-308 are left out.
    """

    least: int
    probabilities: tuple[float, ...]

    def at_most(self, k: int) -> float:
        """The chance of k passes or fewer."""
        terms = max(0, k - self.least + 1)
        return min(1.0, fsum(self.probabilities[:terms]))

    def at_least(self, k: int) -> float:
        """The chance of k passes or more."""
        skipped = max(0, k - self.least)
        return min(1.0, fsum(self.probabilities[skipped:]))

    def exactly(self, k: int) -> float:
        """The chance of k passes."""
        term = k - self.least
        if not 0 <= term < len(self.probabilities):
            return 0.0
        return self.probabilities[term]


@lru_cache(maxsize=4096)
def hypergeometric(n_head: int, n_base: int, passed: int) -> Hypergeometric:
    """The passes among the head's runs, given how many of all runs passed.

    P(k) = C(n_head, k) C(n_base, passed - k) / C(n_head + n_base, passed). Neighbouring terms are
    computed from their ratio, outwards from the mode, so that nothing overflows and the error stays
    at one rounding per term.
    Source: Johnson, Kemp and Kotz, Univariate Discrete Distributions, section 6.2.1.

    Args:
        n_head: the runs of the head.
        n_base: the runs of the base.
        passed: how many of these `n_head + n_base` runs passed.
    """
    least = max(0, passed - n_base)
    most = min(n_head, passed)
    mode = (n_head + 1) * (passed + 1) // (n_head + n_base + 2)
    mode = min(most, max(least, mode))

    below = []
    weight = 1.0
    for k in range(mode, least, -1):
        base_failed = n_base - passed + k
        weight *= k * base_failed / ((n_head - k + 1) * (passed - k + 1))
        if weight == 0:
            break
        below.append(weight)

    above = []
    weight = 1.0
    for k in range(mode, most):
        base_failed = n_base - passed + k
        weight *= (n_head - k) * (passed - k) / ((k + 1) * (base_failed + 1))
        if weight == 0:
            break
        above.append(weight)

    weights = [*reversed(below), 1.0, *above]
    total = fsum(weights)
    probabilities = tuple(weight / total for weight in weights)
    return Hypergeometric(mode - len(below), probabilities)
