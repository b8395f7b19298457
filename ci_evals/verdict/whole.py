"""A whole variant beside its base: how likely its drop is by chance, whatever the base branch did in its history."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ci_evals.stats.power import NEWEST_ALONE
from ci_evals.stats.stratified import Counts, stratified_lower, stratified_upper
from ci_evals.verdict.history import DISAGREEMENT, NO_RUNS, POOLED_RUNS, Tally

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
    newest = {series: Tally(*series[0]) for _, series in cells}
    tables = _against(cells, _pool(_by_series(cells)))
    alone = stratified_lower(_against(cells, newest), largest_support=_LARGEST_SUPPORT)
    return Fall(max(stratified_lower(tables, largest_support=_LARGEST_SUPPORT), alone / NEWEST_ALONE), tables)


def _by_series(cells: Counter[tuple[Tally, Series]]) -> Counter[Series]:
    found: Counter[Series] = Counter()
    for (_, series), count in cells.items():
        found[series] += count
    return found


def _pool(cells: Counter[Series]) -> Mapping[Series, Tally]:
    """What the newest reports add up to, as long as they agree with all older ones together."""
    pool = dict.fromkeys(cells, NO_RUNS)
    older = {series: _sum(series) for series in cells}
    for age in range(max(map(len, cells), default=0)):
        if age and _disagree(cells, older, pool):
            break
        for series in cells:
            if age < len(series) and pool[series].graded < POOLED_RUNS:
                passed, graded = series[age]
                pool[series] = Tally(pool[series].passed + passed, pool[series].graded + graded)
                older[series] = Tally(older[series].passed - passed, older[series].graded - graded)
    return pool


def _sum(series: Series) -> Tally:
    """About `POOLED_RUNS` of the newest runs."""
    total = NO_RUNS
    for passed, graded in series:
        if total.graded < POOLED_RUNS:
            total = Tally(total.passed + passed, total.graded + graded)
    return total


def _disagree(cells: Counter[Series], older: Mapping[Series, Tally], pool: Mapping[Series, Tally]) -> bool:
    tables: Counter[Counts] = Counter()
    for series, count in cells.items():
        tables[*older[series], *pool[series]] += count
    lower = stratified_lower(tables, largest_support=_EXACT_ENOUGH)
    return 2 * min(lower, stratified_upper(tables, largest_support=_EXACT_ENOUGH)) <= DISAGREEMENT


def _against(cells: Counter[tuple[Tally, Series]], base: Mapping[Series, Tally]) -> Counter[Counts]:
    tables: Counter[Counts] = Counter()
    for (head, series), count in cells.items():
        tables[*head, *base[series]] += count
    return tables
