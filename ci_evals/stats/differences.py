"""Differences of head and base over the cells that both have, each with one-sided bounds.

The truth is above the lower bound at the confidence asked, and below the upper one at the same.
"""

from collections.abc import Iterable, Sequence
from math import fsum, hypot, sqrt
from statistics import fmean, harmonic_mean, stdev
from typing import NamedTuple

from ci_evals.stats.distributions import t_quantile
from ci_evals.stats.exact_tests import Table
from ci_evals.stats.rates import Estimate, Interval, pass_rate

_ROUNDING = 1e-12
"""A spread this small beside the scores themselves is what adding floats leaves."""


class ScoreSums(NamedTuple):
    """The scores of one side of one cell: how many, their sum, and the sum of their squares."""

    runs: int
    total: float
    squares: float

    @property
    def deviations(self) -> float:
        """The sum of squared deviations from the mean."""
        if not self.runs:
            return 0.0
        deviations = self.squares - self.total * self.total / self.runs
        return deviations if deviations > _ROUNDING * self.squares else 0.0


def ratio_of_totals(
    head: Sequence[float], base: Sequence[float], confidence: float = 0.95
) -> Estimate | None:
    """The head's total over the base's, from the amounts of the same cells: cost, tokens, median
    latency.

    The noise is that between cells, linearised: amounts go up and down together, and what counts is
    how far a cell's head is from ratio times base. No interval with one cell; None where the base's
    total is not above 0.
    Source: W. G. Cochran, Sampling Techniques (1977), section 6.4, with Student's t for a sample of
    C cells.
    """
    size, base_total = len(base), fsum(base)
    if base_total <= 0:
        return None
    ratio = fsum(head) / base_total
    if size < 2:
        return Estimate(ratio, None)
    squares = [
        (residual := mine - ratio * theirs) * residual
        for mine, theirs in zip(head, base, strict=True)
    ]
    error = sqrt(sum(squares) * size / (size - 1)) / base_total
    half = t_quantile(confidence, size - 1) * error
    return Estimate(ratio, Interval(max(0.0, ratio - half), ratio + half))


def rate_difference(cells: Iterable[Table], confidence: float = 0.95) -> Estimate | None:
    """The head's pass rate minus the base's, over cells with runs on both sides. None without any.

    Each side has the gate's bounds on its own rate, for the noise between runs; they are combined
    so that the interval stays within [-1, 1] and does not vanish where everything passed.
    Source: G. Y. Zou and A. Donner, "Construction of confidence limits about effect measures",
    Stat. Med. 27 (2008), equation 2.
    """
    matched = [counts for counts in cells if counts[1] and counts[3]]
    head, base = (
        pass_rate((k, n) for k, n, _, _ in matched),
        pass_rate((k, n) for _, _, k, n in matched),
    )
    if head is None or base is None:
        return None
    h, b = head.bounds(confidence), base.bounds(confidence)
    h_rate, b_rate, difference = float(head.rate), float(base.rate), float(head.rate - base.rate)
    lower = difference - hypot(h_rate - h.lower, b.upper - b_rate)
    upper = difference + hypot(h.upper - h_rate, b_rate - b.lower)
    return Estimate(difference, Interval(max(-1.0, lower), min(1.0, upper)))


def score_difference(
    cells: Iterable[tuple[ScoreSums, ScoreSums]], confidence: float = 0.95
) -> Estimate | None:
    """The head's mean score minus the base's, from (head, base) of each cell with runs on both
    sides. None without any.

    The noise is that between runs of the same cell on the same side, where each cell has three runs
    or more on the two sides to show it; as with pass rates, one run that goes wholly the other way
    is added to each side, so that a few steady cells do not make it zero. Else it is that between
    cells' differences; then one cell has no interval.
    Source: the standard error of a difference of stratified means, Cochran, Sampling Techniques
    (1977), section 5.4, with variances pooled over the two sides of a cell.
    """
    matched = [(head, base) for head, base in cells if head.runs and base.runs]
    if not matched:
        return None
    size = len(matched)
    differences = [head.total / head.runs - base.total / base.runs for head, base in matched]
    difference = fmean(differences)
    if all(head.runs + base.runs > 2 for head, base in matched):
        degrees = sum(head.runs + base.runs - 2 for head, base in matched)
        added = (
            1 / harmonic_mean([side.runs for side in sides]) ** 2
            for sides in zip(*matched, strict=True)
        )
        error = sqrt(fsum(_variance(head, base) for head, base in matched) + fsum(added)) / size
    elif size > 1:
        degrees, error = size - 1, stdev(differences) / sqrt(size)
    else:
        return Estimate(difference, None)
    half = t_quantile(confidence, degrees) * error
    return Estimate(difference, Interval(max(-1.0, difference - half), min(1.0, difference + half)))


def _variance(head: ScoreSums, base: ScoreSums) -> float:
    """The variance of the difference of a cell's two means."""
    between_runs = (head.deviations + base.deviations) / (head.runs + base.runs - 2)
    return between_runs * (1 / head.runs + 1 / base.runs)
