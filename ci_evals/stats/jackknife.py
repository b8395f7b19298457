"""How sure a statistic is, from what it would be without each part of the data."""

from collections.abc import Sequence
from math import sqrt

from ci_evals.stats.intervals import Interval, t_quantile

FEWEST_PARTS = 5


def jackknife_bounds(value: float, without: Sequence[float], confidence: float) -> Interval | None:
    """Bounds of a statistic in [0, 1], each at `confidence`; None with fewer than `FEWEST_PARTS` parts.

    Source: B. Efron, R. Tibshirani, An Introduction to the Bootstrap (1993), chapter 11, with Student's t.

    Args:
        value: the statistic of all data.
        without: the same without the first part, without the second, …
        confidence: of each bound, in (0.5, 1).
    """
    parts = len(without)
    if parts < FEWEST_PARTS:
        return None
    mean = sum(without) / parts
    error = sqrt((parts - 1) / parts * sum((each - mean) ** 2 for each in without))
    reach = t_quantile(confidence, parts - 1) * error
    return Interval(max(0.0, value - reach), min(1.0, value + reach))
