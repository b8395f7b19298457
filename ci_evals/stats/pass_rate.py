"""The pass rate of a fixed set of cells, and how far the noise between runs may have moved it."""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from ci_evals.stats.beta import beta_quantile


class Bounds(NamedTuple):
    """One-sided bounds on a rate in [0, 1]: the truth is above `lower`, and below `upper`, each at the level asked."""

    lower: float
    upper: float


class PassRate(NamedTuple):
    """The mean over cells of their share of passed runs.

    Args:
        rate: that mean, exactly.
        n_eff: how many independent runs would be as informative; at least C·n̄ for C cells of n̄ runs each.
    """

    rate: Fraction
    n_eff: float

    def bounds(self, confidence: float) -> Bounds:
        """Clopper-Pearson bounds on `n_eff` runs, each of them one-sided at level `confidence` in (0, 1)."""
        return _clopper_pearson(self.rate, self.n_eff, confidence)


def pass_rate(cells: Iterable[tuple[int, int]]) -> PassRate | None:
    """Estimate from (passed, graded) of each cell; cells without graded runs tell nothing. None if all are so.

    The noise is that between runs of the same cell. It is measured where each cell has two runs or more, with one
    passed run added so that a few lucky cells do not make it zero; elsewhere all runs count as independent.
    """
    kinds = {(k, n): count for (k, n), count in Counter(cells).items() if n}
    if not kinds:
        return None
    size = sum(kinds.values())
    rate = sum((Fraction(k * count, n) for (k, n), count in kinds.items()), Fraction()) / size
    mean_runs = size / sum(count / n for (_, n), count in kinds.items())
    n_eff = size * mean_runs
    if rate in (0, 1) or any(n == 1 for _, n in kinds):
        return PassRate(rate, n_eff)
    within = sum(count * k * (n - k) / (n * n * (n - 1)) for (k, n), count in kinds.items())
    variance = (within + 1 / mean_runs**2) / size**2
    return PassRate(rate, max(n_eff, float(rate * (1 - rate)) / variance))


@lru_cache(maxsize=4096)  # cases with a bar of their own are many, their counts are few
def _clopper_pearson(rate: Fraction, n_eff: float, confidence: float) -> Bounds:
    passed, failed = float(rate) * n_eff, float(1 - rate) * n_eff
    return Bounds(
        beta_quantile(1 - confidence, passed, failed + 1) if passed else 0.0,
        beta_quantile(confidence, passed + 1, failed) if failed else 1.0,
    )
