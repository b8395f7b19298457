"""An estimate with the interval that shows how far noise may have moved it."""

from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

from msgspec import Struct

from ci_evals.stats.beta import beta_quantile


class Interval(NamedTuple):
    """Two-sided: the truth is between the two at the confidence asked."""

    lower: float
    upper: float


class Estimate(Struct, frozen=True):
    """A figure; its interval is None where there is too little data for one."""

    value: float
    interval: Interval | None


def wilson(passed: int, runs: int, confidence: float = 0.95) -> Estimate | None:
    """A share with its score interval, to be shown, not to decide by. None without runs.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).
    """
    if not runs:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = passed / runs
    middle = (share + z * z / (2 * runs)) / (1 + z * z / runs)
    half = z * sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs)) / (1 + z * z / runs)
    return Estimate(
        share, Interval(max(0.0, middle - half) if passed else 0.0, min(1.0, middle + half) if passed < runs else 1.0)
    )


def t_quantile(q: float, degrees: float) -> float:
    """The t with P(T <= t) = q for Student's distribution, for 0 < q < 1 and `degrees` > 0.

    T²/(degrees + T²) is beta-distributed: Abramowitz and Stegun 26.7.1 with 26.5.27.
    """
    if q < 0.5:
        return -t_quantile(1 - q, degrees)
    if q == 0.5:
        return 0.0
    if degrees < 2:  # the share of T² is near one: ask for what is left of it
        rest = beta_quantile(2 * (1 - q), degrees / 2, 0.5)
        return sqrt(degrees * (1 - rest) / rest)
    share = beta_quantile(2 * q - 1, 0.5, degrees / 2)
    return sqrt(degrees * share / (1 - share))
