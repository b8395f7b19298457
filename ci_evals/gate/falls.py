"""The tests of a variant as a whole: is its pass rate below the base branch's reports, or above?"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ci_evals.gate.baseline import History, split_histories
from ci_evals.gate.cells import MatchedCell
from ci_evals.model.report import Tally
from ci_evals.stats.differences import rise_p
from ci_evals.stats.exact_tests import Table, exchange, weighted_lower, widen
from ci_evals.stats.thresholds import MAX_EXACT_CUT_SUPPORT, POOL_CUT_ABOVE_P


class Fall(NamedTuple):
    """The test of a drop.

    Args:
        p: against the pooled reports of the base.
        reports: how many reports are pooled.
        tables: each cell against the pooled reports.
        further_rounds: True if the further rounds are in the tables, besides the planned runs.
    """

    p: float
    reports: int
    tables: Sequence[Table]
    further_rounds: bool = False


def fall(
    cells: Sequence[tuple[Tally, History]],
    overdispersion: float = 1.0,
    cut_below_p: float | None = None,
) -> Fall:
    """Test cells of a variant for a drop, each from runs of the head and its history.

    The base side pools report after report, newest first, until the newer ones are, as a whole,
    above all older ones: a change that takes an improvement back would pass otherwise.

    Args:
        cells: the cells.
        overdispersion: how much more reports of the base vary than independent runs would.
        cut_below_p: the pool also ends where newer reports are below all older ones, p at or below
            this.
    """
    histories = [history for _, history in cells]
    reports = max((history.pooled_reports for history in histories), default=0)
    pool_size = reports
    for age in range(1, reports):
        split = split_histories(histories, age)
        is_cut = _is_below(exchange(split), overdispersion, POOL_CUT_ABOVE_P)
        if not is_cut and cut_below_p is not None:
            is_cut = _is_below(split, overdispersion, cut_below_p)
        if is_cut:
            pool_size = age
            break
    tables = [(*head, *history.newest(pool_size)) for head, history in cells]
    return Fall(widen(weighted_lower(tables), overdispersion), pool_size, tables)


def _is_below(tables: Sequence[Table], overdispersion: float, level: float) -> bool:
    p = weighted_lower(tables, largest_support=MAX_EXACT_CUT_SUPPORT)
    return widen(p, overdispersion) <= level


def planned_fall(
    cells: Iterable[MatchedCell], overdispersion: float, cut_below_p: float | None = None
) -> Fall:
    """Test the planned runs of some cells of a variant for a drop."""
    runs = [(cell.head.planned, cell.base.history) for cell in cells]
    return fall(runs, overdispersion, cut_below_p)


def widen_for(overdispersion: float, runs: Iterable[Tally], planned: Iterable[Tally]) -> float:
    """Return the overdispersion of tests with more runs than a report has, or with fewer.

    Luck that lasts for a whole report is not averaged out by more runs: their share of its variance
    grows with them.
    """
    made = sum(tally.graded for tally in runs)
    usual = sum(tally.graded for tally in planned)
    return 1 + (overdispersion - 1) * made / usual


class Rise(NamedTuple):
    """The test of a rise.

    Args:
        against_history: the test of the same runs for a drop, against the pooled reports.
        p: the p-value for "these are above".
    """

    against_history: Fall
    p: float


def rise(
    cells: Sequence[tuple[Tally, History]],
    overdispersion: float,
    *,
    further_rounds: bool = False,
) -> Rise:
    """Test cells of a variant for a rise, each from runs of the head and its history.

    The base side is that of `fall`, so what main gained itself is not the change's.

    Args:
        cells: the cells.
        overdispersion: how much more reports of the base vary than independent runs would.
        further_rounds: the further rounds are among the runs, besides the planned ones.
    """
    found = fall(cells, overdispersion)._replace(further_rounds=further_rounds)
    return Rise(found, widen(rise_p(found.tables), overdispersion))
