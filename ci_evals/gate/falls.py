"""The test of a variant as a whole: has its pass rate fallen?"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ci_evals.gate.baseline import History, split_histories
from ci_evals.gate.cells import MatchedCell
from ci_evals.model.report import Tally
from ci_evals.stats.exact_tests import NEWEST_ALONE, Table, exchange, weighted_lower, widen
from ci_evals.stats.thresholds import (
    FURTHER_ROUNDS,
    MAX_EXACT_CUT_SUPPORT,
    POOL_CUT_ABOVE_P,
)

BELOW_OLDER = 0.2
"""The pool ends where newer reports are below all older ones, p at or below this."""
IN_DOUBT = 0.2
"""A variant whose planned runs fell with a p at or below this gets further rounds."""


class Fall(NamedTuple):
    """The test of a drop.

    Args:
        p: against the pooled reports of the base.
        newest_p: against the newest of them alone.
        reports: how many reports are pooled.
        tables: each cell against the pooled reports.
        further_rounds: True if the further rounds are in the tables, besides the planned runs.
    """

    p: float
    newest_p: float
    reports: int
    tables: Sequence[Table]
    further_rounds: bool = False

    @property
    def decisive_p(self) -> float:
        """The p-value to decide by.

        A slow drift of the base is too small to end its pool, yet adds up over the cells, so the
        newest report by itself must show the drop, too, at `NEWEST_ALONE` times the level.
        """
        return max(self.p, self.newest_p / NEWEST_ALONE)


def fall(cells: Sequence[tuple[Tally, History]], overdispersion: float = 1.0) -> Fall:
    """Test cells of a variant for a drop, each from runs of the head and its history.

    The base side pools report after report, newest first, until the newer ones are, as a whole,
    below or above all older ones.

    Args:
        cells: the cells.
        overdispersion: how much more reports of the base vary than independent runs would.
    """
    histories = [history for _, history in cells]
    reports = max((history.pooled_reports for history in histories), default=0)
    pool_size = reports
    for age in range(1, reports):
        split = split_histories(histories, age)
        below = widen(weighted_lower(split, largest_support=MAX_EXACT_CUT_SUPPORT), overdispersion)
        above = widen(
            weighted_lower(exchange(split), largest_support=MAX_EXACT_CUT_SUPPORT), overdispersion
        )
        if below <= BELOW_OLDER or above <= POOL_CUT_ABOVE_P:
            pool_size = age
            break
    tables = _pool(cells, pool_size)
    p = widen(weighted_lower(tables), overdispersion)
    newest_p = widen(weighted_lower(_pool(cells, 1)), overdispersion)
    return Fall(p, newest_p, pool_size, tables)


def _pool(cells: Iterable[tuple[Tally, History]], reports: int) -> list[Table]:
    """Return each cell against its newest `reports` reports."""
    return [(*head, *history.newest(reports)) for head, history in cells]


def planned_fall(cells: Iterable[MatchedCell], overdispersion: float) -> Fall:
    """Test the planned runs of some cells of a variant for a drop."""
    return fall([(cell.head.planned, cell.base.history) for cell in cells], overdispersion)


def variant_fall(cells: Sequence[MatchedCell], overdispersion: float) -> Fall:
    """Test a variant for a drop by its planned runs, and by its further rounds if it was in doubt.

    All rounds decide together then, so that doubt gives no second chance to be red. Luck that lasts
    for a whole report is not averaged out by its further rounds: the more runs, the larger is its
    share of their variance.
    """
    planned = planned_fall(cells, overdispersion)
    if planned.decisive_p > IN_DOUBT:
        return planned
    all_runs = []
    planned_count = 0
    count = 0
    for cell in cells:
        runs = cell.head.with_repeats(FURTHER_ROUNDS)
        if runs is None:
            return planned
        all_runs.append((runs, cell.base.history))
        planned_count += cell.head.planned.graded
        count += runs.graded
    of_all_runs = 1 + (overdispersion - 1) * count / planned_count
    return fall(all_runs, of_all_runs)._replace(further_rounds=True)
