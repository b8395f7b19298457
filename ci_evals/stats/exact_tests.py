"""Exact tests of head against base: one cell, many cells together, and many tests at once."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import fsum, sqrt
from statistics import NormalDist
from typing import NamedTuple

from ci_evals.stats.distributions import Hypergeometric, hypergeometric

NEWEST_ALONE = 2
"""Against a pooled history, the newest report alone must show the drop at this many times alpha."""

_SAME = 1 + 1e-7
"""Tables whose probabilities differ by less than this factor differ by rounding only."""


@lru_cache(maxsize=65536)  # a comparison has many cells and few distinct tables
def fisher_lower(k_head: int, n_head: int, k_base: int, n_base: int) -> float:
    """The p-value for "the head is worse", by Fisher's exact test.

    It is the chance of `k_head` passes or fewer, given all margins.

    Raises:
        ValueError: passes are not between 0 and the runs.
    """
    return _head_passes(k_head, n_head, k_base, n_base).at_most(k_head)


@lru_cache(maxsize=65536)  # a comparison has many cells and few distinct tables
def fisher_upper(k_head: int, n_head: int, k_base: int, n_base: int) -> float:
    """The p-value for "the head is better", by Fisher's exact test.

    It is the chance of `k_head` passes or more, given all margins.

    Raises:
        ValueError: passes are not between 0 and the runs.
    """
    return _head_passes(k_head, n_head, k_base, n_base).at_least(k_head)


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
    return min(1.0, fsum(as_unlikely))


def _head_passes(k_head: int, n_head: int, k_base: int, n_base: int) -> Hypergeometric:
    """Return the distribution of the head's passes, given all margins."""
    is_table = 0 <= k_head <= n_head and 0 <= k_base <= n_base
    if not is_table:
        raise ValueError(f"no such table: {k_head} of {n_head} against {k_base} of {n_base}")
    return hypergeometric(n_head, n_base, k_head + k_base)


Table = tuple[int, int, int, int]
"""One cell as a 2×2 table: (head passed, head runs, base passed, base runs)."""

LARGEST_SUPPORT = 1000
"""Above, the normal distribution gives the same first three digits, and costs no time."""


class _Stratum(NamedTuple):
    """One cell, given its margins: the runs of both sides, and the passes of both together."""

    n_head: int
    n_base: int
    passed: int

    @property
    def mean(self) -> float:
        """The expected passes of the head."""
        return self.n_head * self.passed / (self.n_head + self.n_base)

    @property
    def variance(self) -> float:
        """The variance of the passes of the head."""
        runs = self.n_head + self.n_base
        failed = runs - self.passed
        numerator = self.n_head * self.n_base * self.passed * failed
        return numerator / (runs * runs * (runs - 1))


def stratified_lower(tables: Iterable[Table], *, largest_support: int = LARGEST_SUPPORT) -> float:
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
    strata: list[_Stratum] = []
    observed = 0
    least = 0
    most = 0
    for k_head, n_head, k_base, n_base in tables:
        passed = k_head + k_base
        if n_head and n_base and 0 < passed < n_head + n_base:
            strata.append(_Stratum(n_head, n_base, passed))
            observed += k_head
            least += max(0, passed - n_base)
            most += min(n_head, passed)
    if least == most:
        return 1.0
    if most - least >= largest_support:
        mean = fsum(stratum.mean for stratum in strata)
        variance = fsum(stratum.variance for stratum in strata)
        z = (observed + 0.5 - mean) / sqrt(variance)
        return NormalDist().cdf(z)
    total = Hypergeometric(0, (1.0,))
    for stratum in strata:
        total = _convolve(total, hypergeometric(*stratum))
    return total.at_most(observed)


def stratified_upper(tables: Iterable[Table], *, largest_support: int = LARGEST_SUPPORT) -> float:
    """The p-value for "the head is better": `stratified_lower` with head and base exchanged."""
    exchanged = [(k_base, n_base, k_head, n_head) for k_head, n_head, k_base, n_base in tables]
    return stratified_lower(exchanged, largest_support=largest_support)


def stratified_two_sided(
    tables: Iterable[Table], *, largest_support: int = LARGEST_SUPPORT
) -> float:
    """The p-value for "they differ": twice the smaller of the one-sided ones, at most 1."""
    cells = list(tables)
    lower = stratified_lower(cells, largest_support=largest_support)
    upper = stratified_upper(cells, largest_support=largest_support)
    return min(1.0, 2 * min(lower, upper))


def _convolve(one: Hypergeometric, other: Hypergeometric) -> Hypergeometric:
    """Return the distribution of the sum of two independent numbers of passes."""
    size = len(one.probabilities) + len(other.probabilities) - 1
    chances = [0.0] * size
    for j, q in enumerate(other.probabilities):
        for i, p in enumerate(one.probabilities):
            chances[i + j] += p * q
    least = one.least + other.least
    return Hypergeometric(least, tuple(chances))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjust p-values for a family-wise error.

    The adjusted ones, in input order, are at most `a` exactly where Holm's procedure rejects with
    family-wise error `a`.
    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Stat. 6
    (1979).
    """
    size = len(p_values)
    smallest_first = sorted(range(size), key=p_values.__getitem__)
    adjusted = [0.0] * size
    highest = 0.0
    for rank, i in enumerate(smallest_first):
        p = (size - rank) * p_values[i]
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
