"""Pass rates and mean scores with their bounds, and how much runs of the same cell vary."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, sqrt
from statistics import NormalDist, fmean
from typing import NamedTuple

from ci_evals.stats.distributions import beta_quantile
from ci_evals.stats.thresholds import ADDED_FLIPPED_RUNS, CONFIDENCE, POPULATION_MIN_CASES


class Interval(NamedTuple):
    """A lower and an upper bound.

    Who makes it says whether each holds at the confidence asked, or both together.
    """

    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure; its interval is None if there is too little data for one."""

    value: float
    interval: Interval | None


def wilson(passed: int, runs: int, confidence: float = CONFIDENCE) -> Estimate | None:
    """A share with its two-sided score interval, to be shown, not to decide by. None without runs.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
    JASA 22 (1927).
    """
    if not runs:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = passed / runs
    shrinkage = 1 + z * z / runs
    middle = (share + z * z / (2 * runs)) / shrinkage
    variance = share * (1 - share) / runs + z * z / (4 * runs * runs)
    half = z * sqrt(variance) / shrinkage
    lower = max(0.0, middle - half)
    upper = min(1.0, middle + half)
    if passed == 0:
        lower = 0.0
    if passed == runs:
        upper = 1.0
    return Estimate(share, Interval(lower, upper))


Cells = Iterable[tuple[int, int]]
"""(passed, graded) of each cell."""


class Bounds(NamedTuple):
    """One-sided bounds on a rate in [0, 1].

    The truth is above `lower`, and below `upper`, each at the confidence asked.
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
        """Clopper-Pearson bounds on `n_eff` runs, each at level `confidence` in (0, 1)."""
        return exact_bounds(float(self.rate), self.n_eff, confidence)

    def widen(self, overdispersion: float) -> "PassRate":
        """Return the rate with its evidence divided by a factor; see `stats.overdispersion`."""
        return self._replace(n_eff=self.n_eff / overdispersion)


def pass_rate(cells: Cells, earlier: Cells = ()) -> PassRate | None:
    """Estimate the pass rate from (passed, graded) of each cell. None without graded runs.

    Cells without graded runs tell nothing and are left out. `n_eff` is at least C·n̄ for C cells of
    n̄ runs each, n̄ being the harmonic mean.

    The noise is that between runs of the same cell. It is measured where each cell has two runs or
    more, with `ADDED_FLIPPED_RUNS` so that a few flaky cells that happened to agree do not make it
    too small. Where each has one, earlier runs tell what was to be expected: the noise of C runs is

        v = (Σ (k - b/m)² · m/(m + 1) + ADDED_FLIPPED_RUNS) / C²

    for a run k and b passes in m earlier runs of the same cell. Elsewhere all runs count as
    independent.

    Args:
        cells: the runs.
        earlier: those of the base branch, of the same cells in the same order; empty if some cell
            has none.
    """
    known = list(earlier)
    graded = [(k, n) for k, n in cells if n]
    if not graded:
        return None
    if len(known) == len(graded) and all(n == 1 for _, n in graded):
        return _rate_of_single_runs([k for k, _ in graded], known)
    size = len(graded)
    alike = Counter(graded)  # many cells have few distinct tallies
    rate = Fraction()
    for (k, n), count in alike.items():
        rate += Fraction(count * k, n * size)
    runs = mean_runs([n for _, n in graded])
    n_eff = size * runs
    if 0 < rate < 1 and all(n > 1 for _, n in alike):
        within = Fraction()
        for (k, n), count in alike.items():
            within += Fraction(count * k * (n - k), n * n * (n - 1))
        noise = (within + ADDED_FLIPPED_RUNS / runs**2) / size**2
        n_eff = max(n_eff, rate * (1 - rate) / noise)
    return PassRate(rate, float(n_eff))


def _rate_of_single_runs(passed: Sequence[int], earlier: Sequence[tuple[int, int]]) -> PassRate:
    """Estimate the pass rate of one run of each cell, from its earlier runs' (passed, graded)."""
    size = len(passed)
    rate = Fraction(sum(passed), size)
    surprise = Fraction()
    for (k, (b, m)), count in Counter(zip(passed, earlier, strict=True)).items():
        surprise += count * (k - Fraction(b, m)) ** 2 * Fraction(m, m + 1)
    noise = (surprise + ADDED_FLIPPED_RUNS) / size**2
    return PassRate(rate, float(max(Fraction(size), rate * (1 - rate) / noise)))


def mean_runs(runs: Iterable[int]) -> Fraction:
    """The harmonic mean of the numbers of runs of some cells, all above 0."""
    alike = Counter(runs)
    reciprocals = Fraction()
    for n, count in alike.items():
        reciprocals += Fraction(count, n)
    return alike.total() / reciprocals


def population_rate(cases: Iterable[Cells]) -> PassRate | None:
    """Estimate how new cases like these would fare, from (passed, graded) of their cells.

    The noise is that between cases, whose means are taken as a sample: `n_eff` is p·(1-p) over the
    variance of their mean, at least one for each case, at most the graded runs. None with fewer
    than `POPULATION_MIN_CASES` graded cases.
    """
    alike: Counter[tuple[tuple[int, int], ...]] = Counter()  # many cases have few distinct tallies
    runs = 0
    for case in cases:
        graded = tuple([(k, n) for k, n in case if n])
        runs += sum([n for _, n in graded])
        if graded:
            alike[graded] += 1
    if alike.total() < POPULATION_MIN_CASES:
        return None
    means: Counter[Fraction] = Counter()
    for cells, count in alike.items():
        total = Fraction()
        for k, n in cells:
            total += Fraction(k, n)
        mean = total / len(cells)
        means[mean] += count
    return sample_mean(means, most=runs)


def sample_mean(sample: Counter[Fraction], most: int | None = None) -> PassRate:
    """Estimate a mean in [0, 1] from a sample of at least one, given how often each value occurs.

    `n_eff` is p·(1-p) over the variance of the mean: at least the size of the sample, as nothing in
    [0, 1] varies more than what passes or fails; at most `most`, or the square of the size, which
    is what it would be if only one of the sample varied that much.
    """
    size = sample.total()
    total = Fraction()
    for value, count in sample.items():
        total += value * count
    rate = total / size
    if rate in (0, 1) or size == 1:
        return PassRate(rate, size)
    if most is None:
        most = size * size
    squares = Fraction()
    for value, count in sample.items():
        squares += count * (value - rate) ** 2
    between = squares / (size - 1)
    if between == 0:
        return PassRate(rate, most)
    n_eff = float(rate * (1 - rate) * size / between)
    return PassRate(rate, min(max(n_eff, size), most))


def exact_bounds(rate: float, runs: float, confidence: float) -> Bounds:
    """One-sided Clopper-Pearson bounds, each at level `confidence`.

    `runs` is above 0, whole or not.
    Source: E. L. Korn and B. I. Graubard, "Confidence intervals for proportions with small expected
    number of positive counts estimated from survey data", Surv. Methodol. 24 (1998).
    """
    passed = rate * runs
    failed = (1 - rate) * runs
    lower = 0.0
    upper = 1.0
    if passed:
        lower = beta_quantile(1 - confidence, passed, failed + 1)
    if failed:
        upper = beta_quantile(confidence, passed + 1, failed)
    return Bounds(lower, upper)


def pass_at_k(passed: int, runs: int, k: int) -> float | None:
    """The chance that of `k` runs drawn from these at least one passed.

    It is 1 - C(n-c, k) / C(n, k); None if `k` is more than there are.
    Source: M. Chen et al., "Evaluating large language models trained on code" (2021), equation 1.
    """
    if k > runs:
        return None
    return 1 - comb(runs - passed, k) / comb(runs, k)


def pass_hat_k(passed: int, runs: int, k: int) -> float | None:
    """pass^k: the chance that `k` runs drawn from these all passed.

    It is C(c, k) / C(n, k); None if `k` is more than there are.
    Source: S. Yao et al., "τ-bench" (2024), section 5.1.
    """
    if k > runs:
        return None
    return comb(passed, k) / comb(runs, k)


def flip_rate(passed: int, runs: int) -> float | None:
    """The chance that two runs of this cell disagree: the unbiased estimate of 2p(1-p).

    None with fewer than two runs.
    """
    if runs < 2:
        return None
    return 2 * passed * (runs - passed) / (runs * (runs - 1))


def suite_flip_rate(cells: Cells) -> float | None:
    """The mean flip rate, from (passed, runs) of each cell; None if no cell has two runs."""
    rates = [flip_rate(passed, runs) for passed, runs in cells]
    known = [rate for rate in rates if rate is not None]
    if not known:
        return None
    return fmean(known)


def look_confidence(confidence: float, looks: int) -> float:
    """The confidence to ask of each of `looks` looks, for `confidence` in all of them together.

    By Bonferroni's inequality.
    """
    return 1 - (1 - confidence) / looks


class MetricFigure(NamedTuple):
    """A metric on one variant with its bounds, and the number of graded runs and cases."""

    value: float
    bounds: Bounds
    runs: int
    cases: int
