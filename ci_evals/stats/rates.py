"""Pass rates and mean scores with their bounds, and other figures of how runs of the same cell
vary.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, sqrt
from statistics import NormalDist, fmean, harmonic_mean, variance
from typing import NamedTuple

from ci_evals.stats.distributions import beta_quantile


class Interval(NamedTuple):
    """A lower and an upper bound; who makes it says whether each holds at the confidence asked, or
    both together.
    """

    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure; its interval is None where there is too little data for one."""

    value: float
    interval: Interval | None


def wilson(passed: int, runs: int, confidence: float = 0.95) -> Estimate | None:
    """A share with its two-sided score interval, to be shown, not to decide by. None without runs.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
    JASA 22 (1927).
    """
    if not runs:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = passed / runs
    middle = (share + z * z / (2 * runs)) / (1 + z * z / runs)
    half = z * sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs)) / (1 + z * z / runs)
    return Estimate(
        share,
        Interval(
            max(0.0, middle - half) if passed else 0.0,
            min(1.0, middle + half) if passed < runs else 1.0,
        ),
    )


Cells = Iterable[tuple[int, int]]
"""(passed, graded) of each cell."""

ADDED_NOISE = 3
"""Flipped runs that the noise is measured with beside those that were seen.

By exact enumeration of 700 suites (5 to 100 cases, 2 to 10 runs, 1 to 4 flaky cases at any rate,
the bar at the truth), `fail` is then wrong in 5.1 % at worst; with 1 it was 16.8 %, with 2 it was
6.9 %.
"""

FEWEST_CASES = 5
"""Fewer cases say nothing of others like them."""


class Bounds(NamedTuple):
    """One-sided bounds on a rate in [0, 1]: the truth is above `lower`, and below `upper`, each at
    the level asked.
    """

    lower: float
    upper: float


class PassRate(NamedTuple):
    """The mean over cells of their share of passed runs, or of scores in [0, 1].

    Args:
        rate: that mean, exactly.
        n_eff: how many independent runs would be as informative.
    """

    rate: Fraction
    n_eff: float

    def bounds(self, confidence: float) -> Bounds:
        """Clopper-Pearson bounds on `n_eff` runs, each of them one-sided at level `confidence` in
        (0, 1).
        """
        return exact_bounds(float(self.rate), self.n_eff, confidence)


def pass_rate(cells: Cells) -> PassRate | None:
    """Estimate the pass rate from (passed, graded) of each cell. None without graded runs.

    Cells without graded runs tell nothing and are left out. `n_eff` is at least C·n̄ for C cells of
    n̄ runs each, n̄ being the harmonic mean.

    The noise is that between runs of the same cell. It is measured where each cell has two runs or
    more, with `ADDED_NOISE` so that a few flaky cells that happened to agree do not make it too
    small; elsewhere all runs count as independent.
    """
    graded = [(k, n) for k, n in cells if n]
    if not graded:
        return None
    rate = sum((Fraction(k, n) for k, n in graded), Fraction()) / len(graded)
    n_eff = len(graded) * harmonic_mean([n for _, n in graded])
    if rate in (0, 1) or any(n == 1 for _, n in graded):
        return PassRate(rate, n_eff)
    return PassRate(rate, max(n_eff, float(rate * (1 - rate)) / _variance(graded)))


def run_variance(cells: Cells) -> float | None:
    """Return the variance of the pass rate between runs of the same cells, from (passed, graded) of
    each cell.

    Measured as in `pass_rate`, also with its added noise where everything passed or failed, so it
    is never zero. None if no cell has graded runs.
    """
    graded = [(k, n) for k, n in cells if n]
    if not graded:
        return None
    if all(n > 1 for _, n in graded):
        return _variance(graded)
    rate, runs = (
        fmean(k / n for k, n in graded),
        len(graded) * harmonic_mean([n for _, n in graded]),
    )
    return rate * (1 - rate) / runs + 1 / runs**2


def _variance(graded: Sequence[tuple[int, int]]) -> float:
    """Return the variance of the mean between runs, with the added noise."""
    within = sum(k * (n - k) / (n * n * (n - 1)) for k, n in graded)
    return (within + ADDED_NOISE / harmonic_mean([n for _, n in graded]) ** 2) / len(graded) ** 2


def population_rate(cases: Iterable[Cells]) -> PassRate | None:
    """Estimate how new cases like these would fare, from (passed, graded) of each cell of each
    case.

    The noise is that between cases, whose means are taken as a sample: `n_eff` is p·(1-p) over the
    variance of their mean, at least one for each case, at most the graded runs. None with fewer
    than `FEWEST_CASES` graded cases.
    """
    graded = [cells for case in cases if (cells := [(k, n) for k, n in case if n])]
    if len(graded) < FEWEST_CASES:
        return None
    means = [sum((Fraction(k, n) for k, n in cells), Fraction()) / len(cells) for cells in graded]
    return sample_mean(means, sum(n for cells in graded for _, n in cells))


def sample_mean(means: Sequence[Fraction], most: int | None = None) -> PassRate:
    """Estimate a mean in [0, 1] from a sample of at least one.

    `n_eff` is p·(1-p) over the variance of the mean: at least the size of the sample, as nothing in
    [0, 1] varies more than what passes or fails; at most `most`, or the square of the size, which
    is what it would be if only one of the sample varied that much.
    """
    size = len(means)
    rate = sum(means, Fraction()) / size
    if rate in (0, 1) or size == 1:
        return PassRate(rate, size)
    highest = size * size if most is None else most
    between = variance(map(float, means))
    n_eff = float(rate * (1 - rate)) * size / between if between else highest
    return PassRate(rate, min(max(n_eff, size), highest))


def exact_bounds(rate: float, runs: float, confidence: float) -> Bounds:
    """One-sided Clopper-Pearson bounds, each at level `confidence`, for any number of `runs` above
    0, whole or not.

    Source: E. L. Korn and B. I. Graubard, "Confidence intervals for proportions with small expected
    number of positive counts estimated from survey data", Surv. Methodol. 24 (1998).
    """
    passed, failed = rate * runs, (1 - rate) * runs
    return Bounds(
        beta_quantile(1 - confidence, passed, failed + 1) if passed else 0.0,
        beta_quantile(confidence, passed + 1, failed) if failed else 1.0,
    )


def pass_at_k(passed: int, runs: int, k: int) -> float | None:
    """The chance that of `k` runs drawn from these at least one passed. None for more than there
    are.

    Source: M. Chen et al., "Evaluating large language models trained on code" (2021), equation 1.
    """
    return None if k > runs else 1 - comb(runs - passed, k) / comb(runs, k)


def pass_hat_k(passed: int, runs: int, k: int) -> float | None:
    """pass^k: the chance that `k` runs drawn from these all passed. None for more than there are.

    Source: S. Yao et al., "τ-bench" (2024), section 5.1.
    """
    return None if k > runs else comb(passed, k) / comb(runs, k)


def flip_rate(passed: int, runs: int) -> float | None:
    """The chance that two runs of this cell disagree: the unbiased estimate of 2p(1-p). None with
    fewer than two.
    """
    return None if runs < 2 else 2 * passed * (runs - passed) / (runs * (runs - 1))


def suite_flip_rate(cells: Iterable[tuple[int, int]]) -> float | None:
    """The mean flip rate, from (passed, runs) of each cell. None where no cell has two runs."""
    rates = [rate for passed, runs in cells if (rate := flip_rate(passed, runs)) is not None]
    return fmean(rates) if rates else None


def look_confidence(confidence: float, looks: int) -> float:
    """The confidence to ask of each of `looks` looks, for `confidence` in all of them together:
    Bonferroni's bound.
    """
    return 1 - (1 - confidence) / looks
