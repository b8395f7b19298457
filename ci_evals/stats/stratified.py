"""The exact stratified test: all cells of a variant on the head against the same cells on the base.

Given how often a cell passed on both sides together, the head's share is hypergeometric; the head's passes in all are
the sum of these. Source: M. W. Birch, "The detection of partial association, I: the 2 × 2 case", J. R. Stat. Soc. B 26
(1964). With one run a side it is McNemar's exact test, with one cell Fisher's.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import fsum, sqrt
from statistics import NormalDist
from typing import NamedTuple

from msgspec import Struct

from ci_evals.stats.hypergeometric import hypergeometric

Counts = tuple[int, int, int, int]
"""(head passed, head runs, base passed, base runs) of one cell."""
Strata = Iterable[Counts] | Mapping[Counts, int]
"""All cells; or how many there are of each kind."""

_LARGEST_SUPPORT = 4000
_PRECISION_BITS = 96
_SLOT_BYTES = 25
"""Holds a product of two probabilities, and any sum of such products: at most 2^192."""


class _Margins(NamedTuple):
    n_head: int
    n_base: int
    passed: int

    @property
    def width(self) -> int:
        return min(self.n_head, self.passed) - max(0, self.passed - self.n_base)

    @property
    def mean(self) -> float:
        return self.n_head * self.passed / (self.n_head + self.n_base)

    @property
    def variance(self) -> float:
        runs = self.n_head + self.n_base
        return self.mean * (self.n_base / runs) * ((runs - self.passed) / (runs - 1))


def stratified_lower(strata: Strata, *, largest_support: int = _LARGEST_SUPPORT) -> float:
    """The p-value for "the head is worse": the chance of as few passes on the head, given each cell's margins.

    Cells that can tell nothing (no runs on one side; all passed, all failed) are left out; 1 if that leaves none.
    Where the head's passes could take more than `largest_support` values, their sum is taken as normal, with
    continuity correction.
    """
    groups, passed = _grouped(strata)
    return _tail(groups, passed - _certain(groups), largest_support)


def stratified_upper(strata: Strata, *, largest_support: int = _LARGEST_SUPPORT) -> float:
    """The p-value for "the head is better": `stratified_lower` with head and base exchanged."""
    groups, passed = _exchanged(*_grouped(strata))
    return _tail(groups, passed - _certain(groups), largest_support)


def stratified_two_sided(strata: Strata, *, largest_support: int = _LARGEST_SUPPORT) -> float:
    """The p-value for "they differ": twice the smaller of `stratified_lower` and `stratified_upper`, at most 1."""
    groups, passed = _grouped(strata)
    lower = _tail(groups, passed - _certain(groups), largest_support)
    groups, passed = _exchanged(groups, passed)
    return min(1.0, 2 * min(lower, _tail(groups, passed - _certain(groups), largest_support)))


def _grouped(strata: Strata) -> tuple[Counter[_Margins], int]:
    """How many informative cells have the same margins, and the passes of the head in all of these."""
    groups: dict[tuple[int, int, int], int] = {}  # a Counter is slow where most are new
    passed = 0
    cells = strata if isinstance(strata, Mapping) else Counter(strata)
    for (kh, nh, kb, nb), count in cells.items():
        if nh and nb and 0 < kh + kb < nh + nb:
            margins = nh, nb, kh + kb
            groups[margins] = groups.get(margins, 0) + count
            passed += kh * count
    return Counter({_Margins(*margins): count for margins, count in groups.items()}), passed


def _exchanged(groups: Counter[_Margins], passed: int) -> tuple[Counter[_Margins], int]:
    """The same with head and base exchanged."""
    swapped = Counter({_Margins(each.n_base, each.n_head, each.passed): count for each, count in groups.items()})
    return swapped, sum(each.passed * count for each, count in groups.items()) - passed


def _certain(groups: Counter[_Margins]) -> int:
    """The passes that the head has whatever happens."""
    return sum(max(0, margins.passed - margins.n_base) * count for margins, count in groups.items())


def _tail(groups: Counter[_Margins], passed: int, largest_support: int) -> float:
    """The chance of at most `passed` passes beyond the certain ones."""
    support = 1 + sum(margins.width * count for margins, count in groups.items())
    if support == 1:
        return 1.0
    if support > largest_support:
        mean = fsum(margins.mean * count for margins, count in groups.items()) - _certain(groups)
        variance = fsum(margins.variance * count for margins, count in groups.items())
        return NormalDist().cdf((passed + 0.5 - mean) / sqrt(variance))
    return _at_most(groups, passed)


class _Sum(Struct, frozen=True):
    """The distribution of a sum of passes: chances of `least`, `least + 1`, … in units of 2^-96, zeros cut off.

    Whole numbers, so that a convolution is one product of two long integers: some hundred times faster than a loop.
    """

    least: int
    chances: list[int]


def _at_most(groups: Counter[_Margins], passed: int) -> float:
    sums = [_power(_one(margins), count) for margins, count in groups.items()]
    while len(sums) > 1:  # like with like: the short ones first
        sums.sort(key=lambda part: len(part.chances))
        pairs = zip(sums[::2], sums[1::2], strict=False)
        sums = [_convolved(a, b) for a, b in pairs] + (sums[-1:] if len(sums) % 2 else [])
    (total,) = sums
    return sum(total.chances[: max(0, passed - total.least + 1)]) / sum(total.chances)


def _one(margins: _Margins) -> _Sum:
    share = hypergeometric(*margins)
    least = share.least - max(0, margins.passed - margins.n_base)
    return _trimmed(least, [int(p * 2**_PRECISION_BITS) for p in share.probabilities])


def _power(part: _Sum, count: int) -> _Sum:
    """The sum of `count` independent copies, by squaring."""
    if count == 1:
        return part
    half = _power(part, count // 2)
    twice = _convolved(half, half)
    return _convolved(twice, part) if count % 2 else twice


def _convolved(a: _Sum, b: _Sum) -> _Sum:
    """The distribution of the sum of two independent parts.

    Source: Kronecker substitution, von zur Gathen and Gerhard, Modern Computer Algebra, section 8.4.
    """
    size = len(a.chances) + len(b.chances) - 1
    product = (_packed(a.chances) * _packed(b.chances)).to_bytes(size * _SLOT_BYTES, "little")
    slots = (product[i : i + _SLOT_BYTES] for i in range(0, len(product), _SLOT_BYTES))
    return _trimmed(a.least + b.least, [int.from_bytes(slot, "little") >> _PRECISION_BITS for slot in slots])


def _packed(chances: list[int]) -> int:
    return int.from_bytes(b"".join(chance.to_bytes(_SLOT_BYTES, "little") for chance in chances), "little")


def _trimmed(least: int, chances: list[int]) -> _Sum:
    kept = [i for i, chance in enumerate(chances) if chance]
    return _Sum(least + kept[0], chances[kept[0] : kept[-1] + 1])
