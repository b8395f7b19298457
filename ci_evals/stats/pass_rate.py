"""The pass rate of a fixed set of cells, and how far noise may have moved it: between runs, or between cases."""

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from ci_evals.stats.beta import beta_quantile

Cells = Iterable[tuple[int, int]] | Mapping[tuple[int, int], int]
"""(passed, graded) of each cell; or how many cells have these."""

FEWEST_CASES = 5
"""Fewer cases say nothing of others like them."""


class Bounds(NamedTuple):
    """One-sided bounds on a rate in [0, 1]: the truth is above `lower`, and below `upper`, each at the level asked."""

    lower: float
    upper: float


class PassRate(NamedTuple):
    """The mean over cells of their share of passed runs.

    Args:
        rate: that mean, exactly.
        n_eff: how many independent runs would be as informative.
    """

    rate: Fraction
    n_eff: float

    def bounds(self, confidence: float) -> Bounds:
        """Clopper-Pearson bounds on `n_eff` runs, each of them one-sided at level `confidence` in (0, 1)."""
        return _clopper_pearson(self.rate, self.n_eff, confidence)


def pass_rate(cells: Cells) -> PassRate | None:
    """Estimate from (passed, graded) of each cell; cells without graded runs tell nothing. None if all are so.
    `n_eff` is at least C·n̄ for C cells of n̄ runs each, n̄ being the harmonic mean.

    The noise is that between runs of the same cell. It is measured where each cell has two runs or more, with one
    passed run added so that a few lucky cells do not make it zero; elsewhere all runs count as independent.
    """
    kinds = _kinds(cells)
    if not kinds:
        return None
    size = sum(kinds.values())
    rate = sum((Fraction(k * count, n) for (k, n), count in kinds.items()), Fraction()) / size
    n_eff = size * _mean_runs(kinds)
    if rate in (0, 1) or any(n == 1 for _, n in kinds):
        return PassRate(rate, n_eff)
    return PassRate(rate, max(n_eff, float(rate * (1 - rate)) / _variance(kinds)))


def run_variance(cells: Cells) -> float | None:
    """How far runs alone move the pass rate, squared: the variance of its mean, from (passed, graded) of each cell.

    Measured as in `pass_rate`, also with its added run where everything passed or failed, so it is never zero.
    None if no cell has graded runs.
    """
    kinds = _kinds(cells)
    if not kinds:
        return None
    if all(n > 1 for _, n in kinds):
        return _variance(kinds)
    size = sum(kinds.values())
    rate, runs = sum(k * count / n for (k, n), count in kinds.items()) / size, size * _mean_runs(kinds)
    return rate * (1 - rate) / runs + 1 / runs**2


def _kinds(cells: Cells) -> dict[tuple[int, int], int]:
    """How many cells have the same counts; those without graded runs left out."""
    return {(k, n): count for (k, n), count in Counter(cells).items() if n}


def _mean_runs(kinds: dict[tuple[int, int], int]) -> float:
    """The harmonic mean of graded runs."""
    return sum(kinds.values()) / sum(count / n for (_, n), count in kinds.items())


def _variance(kinds: dict[tuple[int, int], int]) -> float:
    """The variance of the mean between runs, with one passed run added."""
    within = sum(count * k * (n - k) / (n * n * (n - 1)) for (k, n), count in kinds.items())
    return (within + 1 / _mean_runs(kinds) ** 2) / sum(kinds.values()) ** 2


def population_rate(cases: Iterable[Iterable[tuple[int, int]]]) -> PassRate | None:
    """Estimate how new cases like these would fare, from (passed, graded) of each cell of each case.

    The noise is that between cases, whose means are taken as a sample: `n_eff` is p·(1-p) over the variance of their
    mean, at least one for each case, at most the graded runs. None with fewer than `FEWEST_CASES` graded cases.
    """
    graded = [cells for case in cases if (cells := [(k, n) for k, n in case if n])]
    if len(graded) < FEWEST_CASES:
        return None
    size, runs = len(graded), sum(n for cells in graded for _, n in cells)
    means: Counter[Fraction] = Counter()
    for alike, count in Counter(map(tuple, graded)).items():
        means[sum((Fraction(k, n) for k, n in alike), Fraction()) / len(alike)] += count
    rate = sum((mean * count for mean, count in means.items()), Fraction()) / size
    if rate in (0, 1):
        return PassRate(rate, size)
    between = sum(count * float(mean - rate) ** 2 for mean, count in means.items()) / (size - 1)
    n_eff = float(rate * (1 - rate)) * size / between if between else runs
    return PassRate(rate, min(max(n_eff, size), runs))


@lru_cache(maxsize=4096)  # cases with a bar of their own are many, their counts are few
def _clopper_pearson(rate: Fraction, n_eff: float, confidence: float) -> Bounds:
    return exact_bounds(float(rate), n_eff, confidence)


def exact_bounds(rate: float, runs: float, confidence: float) -> Bounds:
    """One-sided Clopper-Pearson bounds, each at level `confidence`, for any number of `runs` above 0, whole or not.

    Source: E. L. Korn and B. I. Graubard, "Confidence intervals for proportions with small expected number of positive
    counts estimated from survey data", Surv. Methodol. 24 (1998).
    """
    passed, failed = rate * runs, (1 - rate) * runs
    return Bounds(
        beta_quantile(1 - confidence, passed, failed + 1) if passed else 0.0,
        beta_quantile(confidence, passed + 1, failed) if failed else 1.0,
    )
