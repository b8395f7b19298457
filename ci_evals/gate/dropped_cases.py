"""Cases of main that the change has deleted or reworded: does it still answer them?"""

from collections.abc import Sequence
from dataclasses import dataclass

from ci_evals.gate.baseline import NO_RUNS, add_tallies
from ci_evals.gate.compare import Comparison
from ci_evals.model.report import Tally
from ci_evals.model.ruler import DroppedCase, Ruler
from ci_evals.stats.exact_tests import fisher_lower


@dataclass(frozen=True)
class AskedAgain:
    """A case of main as the change answers it, and main's own runs of it, over all variants."""

    case: DroppedCase
    here: Tally
    base: Tally


@dataclass(frozen=True)
class DroppedCases:
    """The cases of main that the change has dropped, as far as they were asked.

    Args:
        asked: those that were.
        worse: those of them that pass less often than on main or, without runs of main, never.
        unasked: how many were not.
    """

    asked: Sequence[AskedAgain]
    worse: Sequence[AskedAgain]
    unasked: int


def dropped_cases(ruler: Ruler, comparison: Comparison | None, alpha: float) -> DroppedCases:
    """Compare the cases that the change has dropped with main's runs of them.

    Each is tested by itself (Fisher, one-sided): they are few, and none of them blocks.

    Args:
        ruler: main's grades.
        comparison: the comparison with main; None if there is none.
        alpha: the accepted chance of a false alarm, in (0, 1).
    """
    asked = []
    for case in ruler.dropped:
        base = NO_RUNS
        if comparison is not None:
            cells = comparison.baseline.cells.items()
            base = add_tallies(cell.history.tally for key, cell in cells if key[0] == case.case)
        asked.append(AskedAgain(case, Tally(case.passed, case.graded), base))
    worse = [each for each in asked if _is_worse(each, alpha)]
    return DroppedCases(asked, worse, ruler.dropped_unasked)


def _is_worse(asked: AskedAgain, alpha: float) -> bool:
    if not asked.base.graded:
        return not asked.here.passed
    return fisher_lower(*asked.here, *asked.base) <= alpha
