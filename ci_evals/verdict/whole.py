"""A whole variant beside its base: how likely its drop is by chance, whatever the base branch did in its history."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ci_evals.stats.power import NEWEST_ALONE
from ci_evals.stats.stratified import Counts, stratified_lower, stratified_two_sided
from ci_evals.verdict.history import DISAGREEMENT, History
from ci_evals.verdict.pairing import CellRuns

_LARGEST_SUPPORT = 1000
"""Above, the normal distribution gives the same first three digits, and costs no time."""
_EXACT_ENOUGH = 60
"""Newer and older reports of one branch are told apart exactly up to this support."""


class Fall(NamedTuple):
    """How likely a drop of a variant is by chance, and how many of its cells have the same head and pooled base."""

    p: float
    tables: Mapping[Counts, int]


def fall(cells: Mapping[CellRuns, int]) -> Fall:
    """Test a variant for a drop, from how many of its cells have these head runs and this history.

    The base side pools report after report, newest first, as long as they agree with all older ones. A slow drift is
    too small for that to see, yet adds up over the cells; so the newest report by itself must show the drop, too, at
    twice the level, and whatever the history was like, a false red is no likelier than that.
    """
    tables = _against(cells, _agreeing(cells))
    alone = stratified_lower(_against(cells, 1), largest_support=_LARGEST_SUPPORT)
    return Fall(max(stratified_lower(tables, largest_support=_LARGEST_SUPPORT), alone / NEWEST_ALONE), tables)


def _against(cells: Mapping[CellRuns, int], age: int) -> Counter[Counts]:
    """The cells against the `age` newest reports of each, by their planned runs."""
    tables: Counter[Counts] = Counter()
    for cell, count in cells.items():
        sums = cell.history.sums
        tables[*cell.planned, *sums[min(age, len(sums) - 1)]] += count
    return tables


def _agreeing(cells: Mapping[CellRuns, int]) -> int:
    """How many of the newest reports agree with all older ones together."""
    histories: Counter[History] = Counter()
    for cell, count in cells.items():
        histories[cell.history] += count
    mixed = [(sums, count) for each, count in histories.items() if 0 < (sums := each.sums)[-1][0] < sums[-1][1]]
    reports = max((len(each.sums) for each in histories), default=1) - 1
    return next((age for age in range(1, reports) if _disagree(mixed, age)), reports)


def _disagree(mixed: Iterable[tuple[Sequence[tuple[int, int]], int]], age: int) -> bool:
    """Whether the `age` newest reports are unlike the older ones, from sums and how many cells have them."""
    alike: dict[tuple[tuple[int, int], tuple[int, int]], int] = {}  # a Counter is slow where most are new
    for sums, count in mixed:
        if age < len(sums):
            kind = sums[age], sums[-1]
            alike[kind] = alike.get(kind, 0) + count
    tables = {
        (all_passed - passed, all_graded - graded, passed, graded): count
        for ((passed, graded), (all_passed, all_graded)), count in alike.items()
    }
    return stratified_two_sided(tables, largest_support=_EXACT_ENOUGH) <= DISAGREEMENT
