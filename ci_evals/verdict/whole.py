"""A whole variant beside its base: how likely its drop is by chance, whatever the base branch did in its history."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ci_evals.stats.power import NEWEST_ALONE
from ci_evals.stats.stratified import Counts, stratified_lower, stratified_two_sided
from ci_evals.verdict.history import DISAGREEMENT, Tally, running_sums

Series = tuple[tuple[int, int], ...]
"""(passed, graded) of one cell in report after report, newest first; no report in which none of its runs was graded."""

_LARGEST_SUPPORT = 1000
"""Above, the normal distribution gives the same first three digits, and costs no time."""
_EXACT_ENOUGH = 60
"""Newer and older reports of one branch are told apart exactly up to this support."""


class Fall(NamedTuple):
    """How likely a drop of a variant is by chance, and how many of its cells have the same head and pooled base."""

    p: float
    tables: Mapping[Counts, int]


def fall(cells: Counter[tuple[Tally, Series]]) -> Fall:
    """Test a variant for a drop, from how many of its cells have these head runs and this history.

    The base side pools report after report, newest first, as long as they agree with all older ones. A slow drift is
    too small for that to see, yet adds up over the cells; so the newest report by itself must show the drop, too, at
    twice the level, and whatever the history was like, a false red is no likelier than that.
    """
    newest = {series: series[0] for _, series in cells}
    tables = _against(cells, _pool(_by_series(cells)))
    alone = stratified_lower(_against(cells, newest), largest_support=_LARGEST_SUPPORT)
    return Fall(max(stratified_lower(tables, largest_support=_LARGEST_SUPPORT), alone / NEWEST_ALONE), tables)


def _by_series(cells: Counter[tuple[Tally, Series]]) -> Counter[Series]:
    found: Counter[Series] = Counter()
    for (_, series), count in cells.items():
        found[series] += count
    return found


def _pool(cells: Counter[Series]) -> Mapping[Series, tuple[int, int]]:
    """What the newest reports add up to, as long as they agree with all older ones together."""
    sums = {series: running_sums(series) for series in cells}
    mixed = [(each, cells[series]) for series, each in sums.items() if 0 < each[-1][0] < each[-1][1]]
    reports = max(map(len, sums.values()), default=1) - 1
    age = next((age for age in range(1, reports) if _disagree(mixed, age)), reports)
    return {series: each[min(age, len(each) - 1)] for series, each in sums.items()}


def _disagree(mixed: Iterable[tuple[Sequence[tuple[int, int]], int]], age: int) -> bool:
    """Whether the `age` newest reports are unlike the older ones, from sums and how many cells have them."""
    tables: dict[Counts, int] = {}  # a Counter is slow where most are new
    for sums, count in mixed:
        passed, graded = sums[age] if age < len(sums) else sums[-1]
        all_passed, all_graded = sums[-1]
        table = (all_passed - passed, all_graded - graded, passed, graded)
        tables[table] = tables.get(table, 0) + count
    return stratified_two_sided(tables, largest_support=_EXACT_ENOUGH) <= DISAGREEMENT


def _against(cells: Counter[tuple[Tally, Series]], base: Mapping[Series, tuple[int, int]]) -> Counter[Counts]:
    tables: Counter[Counts] = Counter()
    for (head, series), count in cells.items():
        tables[*head, *base[series]] += count
    return tables
