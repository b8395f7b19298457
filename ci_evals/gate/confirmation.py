"""The runs that confirm suspects: which cells are run again, and how often."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import comb

from ci_evals.gate.baseline import Baseline, HeadCell
from ci_evals.gate.cells import comparable_cells
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.rules import ConfirmRuns
from ci_evals.stats.exact_tests import Table, stratified_lower

USUAL_CONFIRM_RUNS, MOST_CONFIRM_RUNS = 7, 20
MOST_CONFIRMED = 20
"""The most cells that run again, unless a fifth of all is more."""
FAILED_CONFIRMATION = 0.05
"""Confirm runs do not count if they are worse than the planned runs of the same cells.

That is, with a p at or below this.
"""


def suspects(
    head: Sequence[HeadCell], base: Baseline, confirm_runs: ConfirmRuns, alpha: float = 0.05
) -> Mapping[CellKey, int]:
    """Return the cells to run again before they may be named, and how often.

    If there are many, these are the critical ones and those least likely by chance. Arguments are
    those of `compare`.
    """
    if confirm_runs == 0:
        return {}
    matched = comparable_cells(head, base)
    suspicious = [cell for cell in matched if cell.suspicious]
    suspicious.sort(key=lambda cell: (not cell.head.critical, cell.p))
    most = max(MOST_CONFIRMED, len(matched) // 5)
    further: dict[CellKey, int] = {}
    for cell in suspicious[:most]:
        runs: int | None
        if confirm_runs == "auto":
            planned, pooled = cell.head.planned.graded, cell.pooled.graded
            runs = runs_to_confirm(planned, pooled, len(matched), alpha)
        else:
            runs = confirm_runs
        further[cell.head.key] = runs or USUAL_CONFIRM_RUNS
    return further


def runs_to_confirm(planned: int, base: int, cells: int, alpha: float = 0.05) -> int | None:
    """Return how many further runs name a case that always fails and never did before.

    The chance that all failures of `base + head` runs are the head's is 1 in `base + head` over
    `base`, and it is to be at most `alpha / cells`, so that Benjamini and Hochberg's procedure
    rejects it alone. None if that takes too many.

    Args:
        planned: its planned runs.
        base: its runs in the baseline.
        cells: the number of cells that are compared.
        alpha: the accepted chance of a false alarm.
    """
    for further in range(USUAL_CONFIRM_RUNS, MOST_CONFIRM_RUNS + 1):
        if comb(base + planned + further, base) * alpha >= cells:
            return further
    return None


def failed_confirmations(head: Iterable[HeadCell]) -> frozenset[Variant]:
    """Return the variants whose confirm runs are worse than the planned runs of the same cells.

    Suspects are chosen for bad planned runs, so their repeats are better if anything; worse ones
    are an outage.
    """
    repeated: dict[Variant, list[Table]] = defaultdict(list)
    for cell in head:
        if cell.confirming.graded:
            repeated[cell.variant].append((*cell.confirming, *cell.planned))
    return frozenset(
        variant
        for variant, tables in repeated.items()
        if stratified_lower(tables) <= FAILED_CONFIRMATION
    )
