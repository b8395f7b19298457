"""A variant as a whole: which reports of the base it is held against, and that these must all show the drop."""

from collections import Counter

import pytest

from ci_evals.stats.power import NEWEST_ALONE
from ci_evals.stats.stratified import stratified_lower
from ci_evals.verdict.history import NO_RUNS, Evidence, History, Tally
from ci_evals.verdict.pairing import CellRuns
from ci_evals.verdict.whole import fall


def cells(*kinds: tuple[int, tuple[int, int], tuple[tuple[int, int], ...]]) -> Counter[CellRuns]:
    """So many cells with this head and this history, newest first."""
    return Counter(
        {
            CellRuns(Tally(*head), NO_RUNS, False, History(tuple(Evidence("r", *each) for each in series))): count
            for count, head, series in kinds
        }
    )


def test_reports_that_agree_are_all_pooled() -> None:
    found = fall(cells((5, (1, 3), ((3, 3),) * 4)))
    assert found.tables == {(1, 3, 12, 12): 5}
    alone = stratified_lower({(1, 3, 3, 3): 5})
    assert found.p == pytest.approx(max(stratified_lower(found.tables), alone / NEWEST_ALONE))


def test_no_more_reports_are_pooled_than_it_takes() -> None:
    assert fall(cells((1, (1, 3), ((3, 3),) * 40))).tables == {(1, 3, 30, 30): 1}


def test_a_change_that_no_cell_shows_by_itself_ends_the_pool() -> None:
    changed = ((3, 3), (2, 3), (2, 3))
    assert fall(cells((40, (2, 3), changed))).tables == {(2, 3, 3, 3): 40}
    assert fall(cells((1, (2, 3), changed))).tables == {(2, 3, 7, 9): 1}, "one cell is too little to tell"


def test_a_drop_that_the_newest_report_does_not_show_is_none() -> None:
    """The head is as the newest report is, and both are a little below what was before."""
    drifted = ((28, 30), (30, 30))
    found = fall(cells((1, (28, 30), drifted)))
    assert found.p >= 0.25


def test_steady_cells_say_nothing_of_a_drop() -> None:
    assert fall(cells((10, (3, 3), ((3, 3),) * 3), (5, (0, 3), ((0, 3),)))).p == 1.0
    assert fall(Counter()) == (1.0, {})


def test_cells_of_unequal_age_end_where_their_own_reports_do() -> None:
    found = fall(cells((1, (3, 3), ((3, 3),)), (1, (3, 3), ((3, 3), (2, 3)))))
    assert found.tables == {(3, 3, 3, 3): 1, (3, 3, 5, 6): 1}
