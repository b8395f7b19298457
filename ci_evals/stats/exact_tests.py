"""Exact tests of head against base: one cell, many cells together, and many tests at once."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import erfc, fsum, sqrt
from statistics import NormalDist
from typing import NamedTuple

from ci_evals.stats.distributions import Hypergeometric, hypergeometric
from ci_evals.stats.thresholds import (
    MAX_EXACT_SUPPORT,
    USUAL_FAILURE_WEIGHT,
    USUAL_PASSES_PER_FAILURE,
)

_SAME = 1 + 1e-7
"""Probabilities that differ by less than this factor are equal but for rounding."""


@lru_cache(maxsize=65536)  # a comparison has many cells and few distinct tables
def fisher_lower(k_head: int, n_head: int, k_base: int, n_base: int) -> float:
    """The p-value for "the head is worse", by Fisher's exact test.

    It is the chance of `k_head` passes or fewer, given all margins.

    Raises:
        ValueError: passes are not between 0 and the runs.
    """
    return _rounded(_head_passes(k_head, n_head, k_base, n_base).at_most(k_head))


@lru_cache(maxsize=65536)  # a comparison has many cells and few distinct tables
def fisher_upper(k_head: int, n_head: int, k_base: int, n_base: int) -> float:
    """The p-value for "the head is better", by Fisher's exact test.

    It is the chance of `k_head` passes or more, given all margins.

    Raises:
        ValueError: passes are not between 0 and the runs.
    """
    return _rounded(_head_passes(k_head, n_head, k_base, n_base).at_least(k_head))


@lru_cache(maxsize=65536)  # a comparison has many cells and few distinct tables
def fisher_two_sided(k_head: int, n_head: int, k_base: int, n_base: int) -> float:
    """The p-value for "they differ", by Fisher's exact test.

    It is the chance of a table no likelier than the observed one, given all margins.

    Raises:
        ValueError: passes are not between 0 and the runs.
    """
    distribution = _head_passes(k_head, n_head, k_base, n_base)
    observed = distribution.exactly(k_head) * _SAME
    as_unlikely = [p for p in distribution.probabilities if p <= observed]
    return min(1.0, _rounded(fsum(as_unlikely)))


def _rounded(p: float) -> float:
    """Return a p-value without the rounding errors of its last digits.

    A table whose p is exactly 0.3 must not come out above a level of 0.3.
    """
    return float(f"{p:.14g}")


def _head_passes(k_head: int, n_head: int, k_base: int, n_base: int) -> Hypergeometric:
    """Return the distribution of the head's passes, given all margins."""
    is_table = 0 <= k_head <= n_head and 0 <= k_base <= n_base
    if not is_table:
        raise ValueError(f"no such table: {k_head} of {n_head} against {k_base} of {n_base}")
    return hypergeometric(n_head, n_base, k_head + k_base)


Table = tuple[int, int, int, int]
"""One cell as a 2×2 table: (head passed, head runs, base passed, base runs)."""


class _Stratum(NamedTuple):
    """One cell, given its margins: the runs of both sides, and the passes of both together."""

    n_head: int
    n_base: int
    passed: int

    @property
    def runs(self) -> int:
        return self.n_head + self.n_base

    @property
    def failed(self) -> int:
        return self.runs - self.passed

    @property
    def least(self) -> int:
        """The fewest passes that the head can have."""
        return max(0, self.passed - self.n_base)

    @property
    def most(self) -> int:
        """The most passes that the head can have."""
        return min(self.n_head, self.passed)

    @property
    def mean(self) -> float:
        """The expected passes of the head."""
        return self.n_head * self.passed / self.runs

    @property
    def variance(self) -> float:
        """The variance of the passes of the head."""
        numerator = self.n_head * self.n_base * self.passed * self.failed
        return numerator / (self.runs * self.runs * (self.runs - 1))

    @property
    def third_moment(self) -> float:
        """The third central moment of the passes of the head; 0 of two runs."""
        if self.runs == 2:
            return 0.0
        skew = (self.failed - self.passed) * (self.n_base - self.n_head)
        return self.variance * skew / (self.runs * (self.runs - 2))


def stratified_lower(tables: Iterable[Table], *, largest_support: int = MAX_EXACT_SUPPORT) -> float:
    """The p-value for "the head is worse" over many cells.

    It is the chance of as few passes of the head in all cells, given the margins of each. Cells
    that tell nothing (no runs on one side; all passed, all failed) are left out; the p-value is 1
    if that leaves none.
    Source: M. W. Birch, "The detection of partial association", J. R. Stat. Soc. B 26 (1964), the
    exact form of Cochran's, Mantel's and Haenszel's test.

    Args:
        tables: the cells.
        largest_support: if the head's passes can take more values than this, their sum is taken as
            normal, with continuity correction.
    """
    passes = _HeadPasses()
    for k_head, stratum in _informative(tables):
        passes.add(k_head, stratum, weight=1)
    if passes.values > largest_support:
        return NormalDist().cdf(passes.z)
    return passes.exact_p()


def weighted_lower(tables: Iterable[Table], *, largest_support: int = MAX_EXACT_SUPPORT) -> float:
    """`stratified_lower`, where a run of a case that usually passes counts twice.

    A case usually passes if two of three runs did, of head and base together: its failures tell
    more of a drop that all cases share than those of a case that fails often anyway.

    Args:
        tables: the cells.
        largest_support: if the weighted passes can take more values than this, their sum is taken
            as normal, with corrections for continuity and for its skewness (Edgeworth's first
            term).
    """
    return _weighted_lower(tuple(tables), largest_support)


# Each step of a comparison repeats the tests of the steps before it.
@lru_cache(maxsize=128)
def _weighted_lower(tables: tuple[Table, ...], largest_support: int) -> float:
    passes = _HeadPasses()
    for k_head, stratum in _informative(tables):
        passes.add(k_head, stratum, failure_weight(stratum.passed, stratum.failed))
    if passes.values > largest_support:
        z = passes.z
        normal = NormalDist()
        skewness = passes.third_moment / sqrt(passes.variance) ** 3
        p = normal.cdf(z) - skewness / 6 * (z * z - 1) * normal.pdf(z)
        return min(1.0, max(0.0, p))
    return passes.exact_p()


def failure_weight(passed: int, failed: int) -> int:
    """Return how often a failure of a cell counts: twice if two of three runs or more passed."""
    if passed >= USUAL_PASSES_PER_FAILURE * failed:
        return USUAL_FAILURE_WEIGHT
    return 1


def _informative(tables: Iterable[Table]) -> Iterator[tuple[int, _Stratum]]:
    """Yield the head's passes, and the margins, of each table that has more than one outcome."""
    for k_head, n_head, k_base, n_base in tables:
        passed = k_head + k_base
        if n_head and n_base and 0 < passed < n_head + n_base:
            yield k_head, _Stratum(n_head, n_base, passed)


@dataclass(slots=True)
class _HeadPasses:
    """The weighted sum of the head's passes over strata: the one observed, and its distribution."""

    strata: list[tuple[_Stratum, int]] = field(default_factory=list)
    observed: int = 0
    least: int = 0
    most: int = 0

    def add(self, k_head: int, stratum: _Stratum, weight: int) -> None:
        self.strata.append((stratum, weight))
        self.observed += weight * k_head
        self.least += weight * stratum.least
        self.most += weight * stratum.most

    @property
    def values(self) -> int:
        """The number of values that the sum can take."""
        return self.most - self.least + 1

    @property
    def variance(self) -> float:
        return fsum(weight**2 * stratum.variance for stratum, weight in self.strata)

    @property
    def third_moment(self) -> float:
        return fsum(weight**3 * stratum.third_moment for stratum, weight in self.strata)

    @property
    def z(self) -> float:
        """The observed sum in standard deviations, with continuity correction."""
        mean = fsum(weight * stratum.mean for stratum, weight in self.strata)
        return (self.observed + 0.5 - mean) / sqrt(self.variance)

    def exact_p(self) -> float:
        """The chance of a sum as low as the observed one."""
        if self.values == 1:
            return 1.0
        total = Hypergeometric(0, (1.0,))
        for stratum, weight in self.strata:
            total = _add_weighted(total, hypergeometric(*stratum), weight)
        return total.at_most(self.observed)


def exchange(tables: Iterable[Table]) -> list[Table]:
    """Return the tables with head and base exchanged."""
    return [(k_base, n_base, k_head, n_head) for k_head, n_head, k_base, n_base in tables]


def _add_weighted(one: Hypergeometric, other: Hypergeometric, weight: int) -> Hypergeometric:
    """Return the distribution of the first number of passes plus `weight` times the second."""
    size = len(one.probabilities) + weight * (len(other.probabilities) - 1)
    chances = [0.0] * size
    for j, q in enumerate(other.probabilities):
        for i, p in enumerate(one.probabilities):
            chances[i + weight * j] += p * q
    least = one.least + weight * other.least
    return Hypergeometric(least, tuple(chances))


def widen(p: float, overdispersion: float) -> float:
    """Return a p-value allowing for reports that vary more than independent runs would.

    The normal quantile of `p` is divided by the square root of `overdispersion`, the ratio of the
    variances.
    """
    if overdispersion <= 1 or p in (0, 1):
        return p
    z = NormalDist().inv_cdf(p) / sqrt(overdispersion)
    return erfc(-z / sqrt(2)) / 2  # `NormalDist.cdf` is 0 far out


def holm(p_values: Sequence[float], family: int | None = None) -> tuple[float, ...]:
    """Adjust p-values for a family-wise error.

    A `family` of more tests than have p-values counts the others as 1.

    The adjusted ones, in input order, are at most `a` exactly where Holm's procedure rejects with
    family-wise error `a`.
    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Stat. 6
    (1979).
    """
    size = len(p_values)
    if family is None:
        family = size
    smallest_first = sorted(range(size), key=p_values.__getitem__)
    adjusted = [0.0] * size
    highest = 0.0
    for rank, i in enumerate(smallest_first):
        p = max(family - rank, 1) * p_values[i]
        highest = min(1.0, max(highest, p))
        adjusted[i] = highest
    return tuple(adjusted)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjust p-values for a false discovery rate.

    The adjusted ones, in input order, are at most `q` exactly where the procedure of Benjamini and
    Hochberg rejects at false discovery rate `q`.
    Source: Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", J. R. Stat. Soc. B
    57 (1995).
    """
    size = len(p_values)
    largest_first = sorted(range(size), key=p_values.__getitem__, reverse=True)
    adjusted = [1.0] * size
    lowest = 1.0
    for larger, i in enumerate(largest_first):
        p = p_values[i] * size / (size - larger)
        lowest = min(lowest, p)
        adjusted[i] = lowest
    return tuple(adjusted)
