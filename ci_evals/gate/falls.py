"""The test of a variant as a whole: has its pass rate fallen?"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ci_evals.gate.baseline import DISAGREEMENT, History, split_histories
from ci_evals.gate.cells import MatchedCell
from ci_evals.model.report import Tally
from ci_evals.stats.exact_tests import (
    NEWEST_ALONE,
    Table,
    stratified_lower,
    stratified_two_sided,
)

_EXACT_ENOUGH = 60
"""The largest support for which newer and older reports of a branch are compared exactly."""


class Fall(NamedTuple):
    """The p-value of a variant's drop, and the tables of its cells against the pooled base."""

    p: float
    tables: Sequence[Table]


def fall(cells: Sequence[tuple[Tally, History]]) -> Fall:
    """Test a variant for a drop, from the planned runs and the history of each cell.

    The base side pools report after report, newest first, as long as they agree with all older
    ones. A slow drift is too small for that to show, yet adds up over the cells; so the newest
    report by itself must show the drop, too, at twice the level. Whatever the history was like, a
    false red is then no likelier than that.
    """
    histories = [history for _, history in cells]
    reports = max((history.pooled_reports for history in histories), default=0)
    pool_size = reports
    for age in range(1, reports):
        split = split_histories(histories, age)
        if stratified_two_sided(split, largest_support=_EXACT_ENOUGH) <= DISAGREEMENT:
            pool_size = age
            break
    tables = _pool(cells, pool_size)
    pooled = stratified_lower(tables)
    newest = stratified_lower(_pool(cells, 1))
    return Fall(max(pooled, newest / NEWEST_ALONE), tables)


def _pool(cells: Iterable[tuple[Tally, History]], reports: int) -> list[Table]:
    """Return each cell against its newest `reports` reports."""
    tables = []
    for head, history in cells:
        base = history.sums[min(reports, history.pooled_reports)]
        tables.append((*head, *base))
    return tables


def planned_fall(cells: Iterable[MatchedCell]) -> Fall:
    """Test the planned runs of some cells of a variant for a drop."""
    return fall([(cell.head.planned, cell.base.history) for cell in cells])
