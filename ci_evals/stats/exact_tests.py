"""Exact tests of head against base: one cell (Fisher), many cells together (stratified), and many
tests at once.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import fsum, sqrt
from statistics import NormalDist

from ci_evals.stats.distributions import Hypergeometric, hypergeometric

_SAME = 1 + 1e-7
"""Tables this near to the observed one count as equally likely: their probabilities differ by
rounding.
"""


@lru_cache(maxsize=65536)  # a comparison has many cells and few distinct tables
def fisher_lower(k_head: int, n_head: int, k_base: int, n_base: int) -> float:
    """The p-value for "the head is worse": the chance of `k_head` passes or fewer, given all
    margins.

    Raises:
        ValueError: where passes are not between 0 and the runs.
    """
    return _margins(k_head, n_head, k_base, n_base).at_most(k_head)


@lru_cache(maxsize=65536)  # a comparison has many cells and few distinct tables
def fisher_upper(k_head: int, n_head: int, k_base: int, n_base: int) -> float:
    """The p-value for "the head is better": the chance of `k_head` passes or more, given all
    margins.

    Raises:
        ValueError: where passes are not between 0 and the runs.
    """
    return _margins(k_head, n_head, k_base, n_base).at_least(k_head)


@lru_cache(maxsize=65536)  # a comparison has many cells and few distinct tables
def fisher_two_sided(k_head: int, n_head: int, k_base: int, n_base: int) -> float:
    """The p-value for "they differ": the chance of a table no likelier than the observed one, given
    all margins.

    Raises:
        ValueError: where passes are not between 0 and the runs.
    """
    margins = _margins(k_head, n_head, k_base, n_base)
    observed = margins.exactly(k_head) * _SAME
    return min(1.0, fsum([p for p in margins.probabilities if p <= observed]))


def _margins(k_head: int, n_head: int, k_base: int, n_base: int) -> Hypergeometric:
    if not (0 <= k_head <= n_head and 0 <= k_base <= n_base):
        raise ValueError(f"no such table: {k_head} of {n_head} against {k_base} of {n_base}")
    return hypergeometric(n_head, n_base, k_head + k_base)


Table = tuple[int, int, int, int]
"""One cell as a 2×2 table: (head passed, head runs, base passed, base runs)."""

LARGEST_SUPPORT = 4000


def stratified_lower(strata: Iterable[Table], *, largest_support: int = LARGEST_SUPPORT) -> float:
    """The p-value for "the head is worse": the chance of as few passes on the head, given each
    cell's margins.

    Cells that can tell nothing (no runs on one side; all passed, all failed) are left out; 1 if
    that leaves none. Where the head's passes could take more than `largest_support` values, their
    sum is taken as normal, with continuity correction.
    Source: M. W. Birch, "The detection of partial association", J. R. Stat. Soc. B 26 (1964), the
    exact form of Cochran's, Mantel's and Haenszel's test.
    """
    cells = [(kh, nh, kb, nb) for kh, nh, kb, nb in strata if nh and nb and 0 < kh + kb < nh + nb]
    passed = sum(kh for kh, *_ in cells)
    least = sum(max(0, kh + kb - nb) for kh, _, kb, nb in cells)
    most = sum(min(nh, kh + kb) for kh, nh, kb, _ in cells)
    if least == most:
        return 1.0
    if most - least >= largest_support:
        mean = fsum(nh * (kh + kb) / (nh + nb) for kh, nh, kb, nb in cells)
        variance = fsum(_variance(kh + kb, nh, nb) for kh, nh, kb, nb in cells)
        return NormalDist().cdf((passed + 0.5 - mean) / sqrt(variance))
    total = Hypergeometric(0, (1.0,))
    for kh, nh, kb, nb in cells:
        total = _sum(total, hypergeometric(nh, nb, kh + kb))
    return total.at_most(passed)


def stratified_upper(strata: Iterable[Table], *, largest_support: int = LARGEST_SUPPORT) -> float:
    """The p-value for "the head is better": `stratified_lower` with head and base exchanged."""
    return stratified_lower(
        ((kb, nb, kh, nh) for kh, nh, kb, nb in strata), largest_support=largest_support
    )


def stratified_two_sided(
    strata: Iterable[Table], *, largest_support: int = LARGEST_SUPPORT
) -> float:
    """The p-value for "they differ": twice the smaller of `stratified_lower` and
    `stratified_upper`, at most 1.
    """
    cells = list(strata)
    lower = stratified_lower(cells, largest_support=largest_support)
    upper = stratified_upper(cells, largest_support=largest_support)
    return min(1.0, 2 * min(lower, upper))


def _variance(passed: int, n_head: int, n_base: int) -> float:
    """The variance of the head's passes, given the margins of a cell."""
    runs = n_head + n_base
    return n_head * n_base * passed * (runs - passed) / (runs * runs * (runs - 1))


def _sum(one: Hypergeometric, other: Hypergeometric) -> Hypergeometric:
    """The distribution of the sum of two independent numbers of passes."""
    chances = [0.0] * (len(one.probabilities) + len(other.probabilities) - 1)
    for shift, p in enumerate(other.probabilities):
        for k, q in enumerate(one.probabilities, shift):
            chances[k] += p * q
    return Hypergeometric(one.least + other.least, tuple(chances))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values in input order: at most `a` exactly where Holm's procedure rejects with
    family-wise error `a`.

    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Stat. 6
    (1979).
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = highest
    return tuple(adjusted)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values in input order: at most `q` exactly where the procedure rejects at false
    discovery rate `q`.

    Source: Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", J. R. Stat. Soc. B
    57 (1995).
    """
    size = len(p_values)
    adjusted = [1.0] * size
    lowest = 1.0
    for rank, i in zip(
        range(size, 0, -1), sorted(range(size), key=p_values.__getitem__, reverse=True), strict=True
    ):
        lowest = min(lowest, p_values[i] * size / rank)
        adjusted[i] = lowest
    return tuple(adjusted)
