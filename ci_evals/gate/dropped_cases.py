"""Cases of main that the change has deleted or reworded: does it still answer them?"""

from collections.abc import Sequence
from dataclasses import dataclass

from ci_evals.gate.baseline import NO_RUNS, add_tallies
from ci_evals.gate.compare import Comparison
from ci_evals.model.case import Variant
from ci_evals.model.report import Tally
from ci_evals.model.ruler import DroppedCase, Ruler
from ci_evals.stats.exact_tests import fisher_lower, holm


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

    Each is tested by itself (Fisher, one-sided; Holm over all of them): none of them blocks.

    Args:
        ruler: main's grades.
        comparison: the comparison with main; None if there is none.
        alpha: the accepted chance of a false alarm, in (0, 1).
    """
    asked = [
        AskedAgain(case, Tally(case.passed, case.graded), _runs_of_main(case, comparison))
        for case in ruler.dropped
    ]
    drops = [fisher_lower(*each.here, *each.base) if each.base.graded else 1.0 for each in asked]
    worse = []
    for each, p in zip(asked, holm(drops), strict=True):
        if p <= alpha or not (each.base.graded or each.here.passed):
            worse.append(each)
    return DroppedCases(asked, worse, ruler.dropped_unasked)


def _runs_of_main(case: DroppedCase, comparison: Comparison | None) -> Tally:
    """Return main's runs of a case, on the variants that the change has, too."""
    if comparison is None:
        return NO_RUNS
    variants = set(comparison.base_variants.values())
    return add_tallies(
        cell.history.tally
        for key, cell in comparison.baseline.cells.items()
        if key[0] == case.case
        and cell.fingerprint == case.fingerprint
        and Variant(*key[1:]) in variants
    )
