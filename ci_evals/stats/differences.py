"""Differences of head and base over the cells that both have, each with one-sided bounds.

The truth is above the lower bound at the confidence asked, and below the upper one at the same.
"""

from collections.abc import Iterable, Sequence
from math import erfc, fsum, hypot, sqrt
from statistics import fmean, stdev
from typing import NamedTuple, Self

from ci_evals.stats.distributions import t_quantile
from ci_evals.stats.exact_tests import Table
from ci_evals.stats.rates import Estimate, Interval, mean_runs, pass_rate
from ci_evals.stats.thresholds import ADDED_SCORE_RUNS, CONFIDENCE

_ROUNDING = 1e-12
"""A spread below this share of the squared scores is a rounding error of floating-point sums."""


class ScoreSums(NamedTuple):
    """The scores of one side of one cell: their number, their sum, and the sum of their squares."""

    runs: int = 0
    total: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, score: float) -> Self:
        """Return the sums of one run."""
        return cls(1, score, score * score)

    def __add__(self, other: Self) -> Self:  # type: ignore[override]  # sums, not a longer tuple
        return self._replace(
            runs=self.runs + other.runs,
            total=self.total + other.total,
            squares=self.squares + other.squares,
        )

    def __sub__(self, other: Self) -> Self:
        return self._replace(
            runs=self.runs - other.runs,
            total=self.total - other.total,
            squares=self.squares - other.squares,
        )

    @property
    def are_passes(self) -> bool:
        """True if no score is other than 0 or 1."""
        return self.total == self.squares

    @property
    def deviations(self) -> float:
        """The sum of squared deviations from the mean."""
        if not self.runs:
            return 0.0
        deviations = self.squares - self.total * self.total / self.runs
        if deviations <= _ROUNDING * self.squares:
            return 0.0
        return deviations


def ratio_of_totals(
    head: Sequence[float], base: Sequence[float], confidence: float = CONFIDENCE
) -> Estimate | None:
    """The head's total over the base's, from the amounts of the same cells.

    The noise is that between cells, linearised: amounts go up and down together, and what counts is
    how far a cell's head is from ratio times base. No interval with one cell; None where the base's
    total is not above 0.
    Source: W. G. Cochran, Sampling Techniques (1977), section 6.4, with Student's t for a sample of
    C cells.

    Args:
        head: the cost, tokens or median latency of each cell.
        base: the same of the base, in the same order.
        confidence: of each bound, in (0.5, 1).
    """
    size = len(base)
    base_total = fsum(base)
    if base_total <= 0:
        return None
    ratio = fsum(head) / base_total
    if size < 2:
        return Estimate(ratio, None)
    squares = 0.0
    for of_head, of_base in zip(head, base, strict=True):
        residual = of_head - ratio * of_base
        squares += residual * residual
    error = sqrt(squares * size / (size - 1)) / base_total
    half = t_quantile(confidence, size - 1) * error
    lower = max(0.0, ratio - half)
    return Estimate(ratio, Interval(lower, ratio + half))


def rate_difference(
    cells: Iterable[Table], confidence: float = CONFIDENCE, overdispersion: float = 1.0
) -> Estimate | None:
    """The head's pass rate minus the base's, over cells with runs on both sides. None without any.

    Each side has the gate's bounds on its own rate, for the noise between runs and its
    `overdispersion`; they are combined so that the interval stays within [-1, 1] and does not
    vanish where everything passed.
    Source: G. Y. Zou and A. Donner, "Construction of confidence limits about effect measures",
    Stat. Med. 27 (2008), equation 2.
    """
    of_head = []
    of_base = []
    for k_head, n_head, k_base, n_base in cells:
        if n_head and n_base:
            of_head.append((k_head, n_head))
            of_base.append((k_base, n_base))
    head = pass_rate(of_head)
    base = pass_rate(of_base)
    if head is None or base is None:
        return None
    head_rate = float(head.rate)
    base_rate = float(base.rate)
    head_bounds = head.widen(overdispersion).bounds(confidence)
    base_bounds = base.widen(overdispersion).bounds(confidence)
    difference = float(head.rate - base.rate)
    below = hypot(head_rate - head_bounds.lower, base_bounds.upper - base_rate)
    above = hypot(head_bounds.upper - head_rate, base_rate - base_bounds.lower)
    lower = max(-1.0, difference - below)
    upper = min(1.0, difference + above)
    return Estimate(difference, Interval(lower, upper))


def rise_p(cells: Iterable[Table]) -> float:
    """The p-value for "the head passes more often", where every cell counts alike.

    It is that of z = d / s under the normal distribution, one-sided. Of C cells, d is the mean of
    the head's rate minus the base's, and s² its variance if both sides of each cell are alike: for
    S passes in the N = n + m runs of head and base,

        s² = Σ S(N - S) / (N(N - 1)) · (1/n + 1/m) / C²

    A cell without runs on both sides is left out. 0.5 where no cell has passed and failed runs.
    Source: the hypergeometric variance of a cell, N. Mantel and W. Haenszel, "Statistical aspects
    of the analysis of data from retrospective studies of disease", J. Natl. Cancer Inst. 22 (1959).

    Args:
        cells: the runs of each cell on both sides.
    """
    differences = []
    variances = []
    for k_head, n_head, k_base, n_base in cells:
        if n_head and n_base:
            passed, runs = k_head + k_base, n_head + n_base
            of_a_run = passed * (runs - passed) / (runs * (runs - 1))
            differences.append(k_head / n_head - k_base / n_base)
            variances.append(of_a_run * (1 / n_head + 1 / n_base))
    variance = fsum(variances)
    if variance == 0:
        return 0.5
    z = fsum(differences) / sqrt(variance)
    return erfc(z / sqrt(2)) / 2


class ScoreMeans(NamedTuple):
    """The mean scores of both sides of some cells, each of which counts alike."""

    head: float
    base: float

    @property
    def drop(self) -> float:
        return self.base - self.head


def score_means(cells: Iterable[tuple[ScoreSums, ScoreSums]]) -> ScoreMeans:
    """Return the mean scores of both sides over the cells with runs on both, one at least.

    Args:
        cells: (head, base) of each cell.
    """
    means = []
    for head, base in cells:
        if head.runs and base.runs:
            means.append((head.total / head.runs, base.total / base.runs))
    return ScoreMeans(fmean([head for head, _ in means]), fmean([base for _, base in means]))


def lower_scores(cells: Iterable[tuple[ScoreSums, ScoreSums]]) -> float:
    """The p-value for "the head scores lower", over cells with runs on both sides.

    Given all N scores of a cell, each choice of the head's n among them is as likely if nothing has
    changed. T is the sum over cells of the head's scores minus n times the mean of all, and

        V = Σ s² · n · m / N

    with m the base's runs and s² the variance of all scores (N - 1); p = Φ(T / √V). For scores of 0
    and 1 that is the test of Cochran, Mantel and Haenszel. 1 where no cell has two scores that
    differ.
    Source: the moments of the permutation distribution, E. J. G. Pitman, "Significance tests which
    may be applied to samples from any populations", Suppl. J. R. Stat. Soc. 4 (1937).

    Args:
        cells: (head, base) of each cell.
    """
    differences = []
    variances = []
    for head, base in cells:
        both = head + base
        if head.runs and base.runs:
            differences.append(head.total - head.runs * both.total / both.runs)
            of_one_run = both.deviations / (both.runs - 1)
            variances.append(of_one_run * head.runs * base.runs / both.runs)
    variance = fsum(variances)
    if variance < _ROUNDING:
        return 1.0
    z = fsum(differences) / sqrt(variance)
    return erfc(-z / sqrt(2)) / 2


def score_difference(
    cells: Iterable[tuple[ScoreSums, ScoreSums]], confidence: float = CONFIDENCE
) -> Estimate | None:
    """The head's mean score minus the base's, from (head, base) of each cell.

    Cells without runs on both sides are left out; None if that leaves none.

    The noise is that between runs of the same cell on the same side, where each cell has three runs
    or more on the two sides to show it; as with pass rates, one run that goes wholly the other way
    is added to each side, so that a few steady cells do not make it zero. Else it is that between
    cells' differences; then one cell has no interval.
    Source: the standard error of a difference of stratified means, Cochran, Sampling Techniques
    (1977), section 5.4, with variances pooled over the two sides of a cell.
    """
    differences = []
    variances = []
    head_runs = []
    base_runs = []
    for head, base in cells:
        if head.runs and base.runs:
            differences.append(head.total / head.runs - base.total / base.runs)
            variances.append(_variance(head, base))
            head_runs.append(head.runs)
            base_runs.append(base.runs)
    size = len(differences)
    if size == 0:
        return None

    difference = fmean(differences)
    known_variances = [variance for variance in variances if variance is not None]
    if len(known_variances) == size:
        added = ADDED_SCORE_RUNS / mean_runs(head_runs) ** 2
        added += ADDED_SCORE_RUNS / mean_runs(base_runs) ** 2
        within = fsum(known_variances) + added
        degrees = sum(head_runs) + sum(base_runs) - 2 * size
        half = t_quantile(confidence, degrees) * sqrt(within) / size
    elif size > 1:
        half = t_quantile(confidence, size - 1) * stdev(differences) / sqrt(size)
    else:
        return Estimate(difference, None)
    lower = max(-1.0, difference - half)
    upper = min(1.0, difference + half)
    return Estimate(difference, Interval(lower, upper))


def _variance(head: ScoreSums, base: ScoreSums) -> float | None:
    """The variance of the difference of a cell's two means. None with one run on each side."""
    degrees = head.runs + base.runs - 2
    if degrees == 0:
        return None
    between_runs = (head.deviations + base.deviations) / degrees
    return between_runs * (1 / head.runs + 1 / base.runs)
