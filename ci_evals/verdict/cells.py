"""Single cells beside their base: what became of each, by Fisher's exact test, allowing for all that are compared."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from ci_evals.stats.fisher import fisher_lower, fisher_upper
from ci_evals.stats.multiplicity import benjamini_hochberg
from ci_evals.verdict.history import Tally
from ci_evals.verdict.pairing import SUSPICION, CellKind, CellRuns


class _PValues(Struct, frozen=True):
    """Of one cell's tests for a drop and for a rise: on all its runs if it was a suspect, else on the planned ones."""

    head: Tally
    base: Tally
    lower: float
    upper: float
    suspect: bool


class CellTest(NamedTuple):
    """What became of a cell, with the runs and the p that speak for it and its adjusted one."""

    kind: CellKind
    head: Tally
    base: Tally
    p: float
    adjusted_p: float


def cell_tests(cells: Counter[CellRuns], confirm_runs: int, alpha: float) -> Mapping[CellRuns, CellTest]:
    """What became of cells, from how many of them have the same runs."""
    tested = {each: _test(each, confirm_runs) for each in cells}
    falls = _adjusted({each: tests.lower for each, tests in tested.items()}, cells)
    rises = _adjusted({each: tests.upper for each, tests in tested.items()}, cells)
    return {each: _told(tests, falls.get(each, 1.0), rises.get(each, 1.0), alpha) for each, tests in tested.items()}


def _adjusted(p_values: Mapping[CellRuns, float], cells: Counter[CellRuns]) -> Mapping[CellRuns, float]:
    """Of all that are below 1."""
    below = [each for each, p in p_values.items() if p < 1 for _ in range(cells[each])]
    return dict(zip(below, benjamini_hochberg([p_values[each] for each in below], cells.total()), strict=True))


def _test(runs: CellRuns, confirm_runs: int) -> _PValues:
    """p for a drop counts as 1 unless the cell was a suspect and has been confirmed."""
    planned, more, base = runs.planned, runs.confirming, runs.base
    if not runs.suspicious:
        return _PValues(planned, base, lower=1.0, upper=fisher_upper(*planned, *base), suspect=False)
    head = Tally(planned.passed + more.passed, planned.graded + more.graded)
    decided = confirm_runs == 0 or runs.confirmed
    return _PValues(head, base, lower=fisher_lower(*head, *base) if decided else 1.0, upper=1.0, suspect=True)


def _told(tests: _PValues, fall: float, rise: float, alpha: float) -> CellTest:
    """The first kind that fits."""
    head, base = tests.head, tests.base
    if tests.suspect:
        p = fisher_lower(*head, *base)
        lower = head.passed * base.graded < base.passed * head.graded
        if lower and fall <= alpha:
            return CellTest("regressed", head, base, p, fall)
        if lower and p <= SUSPICION:
            return CellTest("suspect", head, base, p, fall)
    elif head.passed * base.graded > base.passed * head.graded and rise <= alpha:
        return CellTest("fixed", head, base, tests.upper, rise)
    same = head.passed == base.passed == 0 or (head.passed == head.graded and base.passed == base.graded)
    return CellTest("unchanged" if same else "flaky", head, base, fisher_lower(*head, *base), fall)
