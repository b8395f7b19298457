"""The tests of a variant as a whole: is its pass rate below the base branch's reports, or above?"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from ci_evals.gate.baseline import (
    History,
    add_tallies,
    scores_of,
    split_histories,
    split_scores,
    tally_of,
)
from ci_evals.gate.cells import MatchedCell, Matching
from ci_evals.model.case import Variant
from ci_evals.model.report import Outcome, Tally
from ci_evals.stats.differences import ScoreMeans, ScoreSums, lower_scores, rise_p, score_means
from ci_evals.stats.exact_tests import Table, exchange, weighted_lower, widen
from ci_evals.stats.thresholds import MAX_EXACT_CUT_SUPPORT, POOL_CUT_ABOVE_P


class CellSample(NamedTuple):
    """A cell of a variant that is tested as a whole.

    Args:
        runs: the runs of the head.
        history: the reports of the base that they are compared with.
        scores: the sums of these runs' scores; None where passes decide.
    """

    runs: Tally
    history: History
    scores: ScoreSums | None = None

    @classmethod
    def of(
        cls, cell: MatchedCell, further: Sequence[Outcome | None] = (), *, by_scores: bool = False
    ) -> "CellSample":
        """Return a cell with its planned runs and some further ones."""
        runs = add_tallies((cell.head.planned, tally_of(further)))
        planned, more = cell.head.scores, scores_of(further)
        if not by_scores or planned is None or more is None:
            return cls(runs, cell.base.history)
        return cls(runs, cell.base.history, planned + more)


class Fall(NamedTuple):
    """The test of a drop.

    Args:
        p: against the pooled reports of the base.
        reports: how many reports are pooled.
        tables: each cell against the pooled reports.
        further_rounds: True if the further rounds are in the tables, besides the planned runs.
        scores: the mean scores of both sides, if these were tested, and not how many runs passed.
    """

    p: float
    reports: int
    tables: Sequence[Table]
    further_rounds: bool = False
    scores: ScoreMeans | None = None


def fall(
    cells: Sequence[CellSample],
    overdispersion: float = 1.0,
    cut_below_p: float | None = None,
) -> Fall:
    """Test cells of a variant for a drop.

    The base side pools report after report, newest first, until the newer ones are, as a whole,
    above all older ones: a change that takes an improvement back would pass otherwise.

    Args:
        cells: the cells; their scores are tested if all have some.
        overdispersion: how much more reports of the base vary than independent runs would.
        cut_below_p: the pool also ends where newer reports are below all older ones, p at or below
            this.
    """
    histories = [cell.history for cell in cells]
    scores = [cell.scores for cell in cells if cell.scores is not None]
    by_scores = len(scores) == len(cells) > 0
    pool_size = _pool_size(tuple(histories), overdispersion, cut_below_p, by_scores=by_scores)
    tables = [(*cell.runs, *cell.history.newest(pool_size)) for cell in cells]
    if not by_scores:
        return Fall(widen(weighted_lower(tables), overdispersion), pool_size, tables)
    base = [history.newest_scores(pool_size) for history in histories]
    pairs = list(zip(scores, base, strict=True))
    p = widen(lower_scores(pairs), overdispersion)
    return Fall(p, pool_size, tables, scores=score_means(pairs))


def _pool_size(
    histories: tuple[History, ...],
    overdispersion: float,
    cut_below_p: float | None,
    *,
    by_scores: bool,
) -> int:
    """Return how many of the newest reports are pooled."""
    levels = [(POOL_CUT_ABOVE_P, _ps_of_ages(histories, above=True, by_scores=by_scores))]
    if cut_below_p is not None:
        levels.append((cut_below_p, _ps_of_ages(histories, above=False, by_scores=by_scores)))
    reports = _most_reports(histories)
    for age in range(1, reports):
        for level, ps in levels:
            if widen(ps[age - 1], overdispersion) <= level:
                return age
    return reports


# A comparison tests the same histories after each step, and `power` once for each pull request.
@lru_cache(maxsize=128)
def _ps_of_ages(histories: tuple[History, ...], *, above: bool, by_scores: bool) -> Sequence[float]:
    """Return the p-values for "the newest report is above all older ones", "the two newest reports
    are", and so on; for "they are below" if not `above`.
    """
    ps = []
    for age in range(1, _most_reports(histories)):
        if by_scores:
            pairs = split_scores(histories, age)
            if above:
                pairs = [(older, newer) for newer, older in pairs]
            ps.append(lower_scores(pairs))
        else:
            tables = split_histories(histories, age)
            if above:
                tables = exchange(tables)
            ps.append(weighted_lower(tables, largest_support=MAX_EXACT_CUT_SUPPORT))
    return ps


def _most_reports(histories: Iterable[History]) -> int:
    return max((history.pooled_reports for history in histories), default=0)


def planned_fall(
    matching: Matching,
    variant: Variant,
    cells: Iterable[MatchedCell],
    cut_below_p: float | None = None,
) -> Fall:
    """Test the planned runs of some cells of a variant for a drop."""
    by_scores = matching.is_scored(variant)
    tested = [CellSample.of(cell, by_scores=by_scores) for cell in cells]
    return fall(tested, matching.overdispersion_of_falls(variant), cut_below_p)


def widen_for_cells(
    overdispersion: float, cells: Iterable[MatchedCell], runs: Iterable[Tally]
) -> float:
    """Return the overdispersion of a test of so many runs of some cells of a variant."""
    return widen_for(overdispersion, runs, [cell.head.planned for cell in cells])


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
    cells: Sequence[CellSample],
    overdispersion: float,
    *,
    further_rounds: bool = False,
) -> Rise:
    """Test cells of a variant for a rise: how often they pass, even where they have scores.

    The base side is that of `fall`, so what main gained itself is not the change's.

    Args:
        cells: the cells.
        overdispersion: how much more reports of the base vary than independent runs would.
        further_rounds: the further rounds are among the runs, besides the planned ones.
    """
    found = fall(cells, overdispersion)._replace(further_rounds=further_rounds)
    return Rise(found, widen(rise_p(found.tables), overdispersion))
