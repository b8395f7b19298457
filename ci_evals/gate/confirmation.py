"""Runs beyond the plan: which suspects are confirmed, and which variants get further rounds."""

from collections.abc import Iterable, Mapping, Sequence
from math import comb
from typing import NamedTuple

from ci_evals.gate.baseline import FURTHER_ROUNDS, Baseline, HeadCell
from ci_evals.gate.cells import MatchedCell, Matching, match_cells
from ci_evals.gate.falls import IN_DOUBT, planned_fall
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.rules import ConfirmRuns
from ci_evals.stats.exact_tests import stratified_lower

USUAL_CONFIRM_RUNS, MOST_CONFIRM_RUNS = 7, 20
MOST_CONFIRMED = 20
"""The most cells that run again, unless a fifth of all is more."""
FAILED_CONFIRMATION = 0.05
"""The repeats of suspects do not count if they are worse than their planned runs at this level."""
FAILED_ROUNDS = 0.001
"""Further runs do not count if they are worse than the planned runs of all cells at this level."""


class Confirmation(NamedTuple):
    """The runs to make beyond the plan, before anything is named.

    Args:
        suspects: how often each suspect runs again.
        doubts: the cells of each variant in doubt: all run `FURTHER_ROUNDS` times again, of which a
            suspect's first runs are part.
    """

    suspects: Mapping[CellKey, int] = {}
    doubts: Mapping[Variant, Sequence[CellKey]] = {}

    @property
    def runs(self) -> Mapping[CellKey, int]:
        """How often each cell runs again."""
        runs = dict(self.suspects)
        for keys in self.doubts.values():
            for key in keys:
                runs[key] = max(FURTHER_ROUNDS, runs.get(key, 0))
        return runs


def plan_confirmation(
    head: Sequence[HeadCell], base: Baseline, confirm_runs: ConfirmRuns, alpha: float = 0.05
) -> Confirmation:
    """Plan the runs that confirm suspects, and the further rounds of variants in doubt.

    Arguments are those of `compare`.
    """
    if confirm_runs == 0:
        return Confirmation()
    matching = match_cells(head, base)
    doubts = {}
    for variant, cells in matching.by_variant.items():
        planned = planned_fall(cells, matching.overdispersion(variant))
        if planned.decisive_p <= IN_DOUBT:
            doubts[variant] = [cell.head.key for cell in cells]
    return Confirmation(choose_suspects(matching.cells, confirm_runs, alpha), doubts)


def choose_suspects(
    matched: Sequence[MatchedCell], confirm_runs: ConfirmRuns, alpha: float
) -> Mapping[CellKey, int]:
    """Return the cells to run again before they may be named, and how often.

    If there are many, these are the critical ones and those least likely by chance.
    """
    if confirm_runs == 0:
        return {}
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


def failed_confirmations(matching: Matching) -> frozenset[Variant]:
    """Return the variants whose further runs are worse than the planned runs of the same cells.

    Suspects are chosen for bad planned runs, so their repeats are better if anything; worse ones
    are an outage. Cells that are no suspects tell less, and need to be worse by more.
    """
    found = set()
    for variant, cells in matching.by_variant.items():
        suspicious = [cell for cell in cells if cell.suspicious]
        if (
            _repeats_are_worse(suspicious) <= FAILED_CONFIRMATION
            or _repeats_are_worse(cells) <= FAILED_ROUNDS
        ):
            found.add(variant)
    return frozenset(found)


def _repeats_are_worse(cells: Iterable[MatchedCell]) -> float:
    """Return the p-value for "the repeats are worse than the planned runs"."""
    return stratified_lower((*cell.head.confirming, *cell.head.planned) for cell in cells)
