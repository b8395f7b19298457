"""Runs beyond the plan: which suspects are confirmed, and which variants get further rounds."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, comb
from typing import NamedTuple

from ci_evals.gate.baseline import Baseline, ReportedCell
from ci_evals.gate.cases import MatchedCase, match_cases
from ci_evals.gate.cells import MatchedCell, Matching, match_cells
from ci_evals.gate.falls import IN_DOUBT, planned_fall
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.rules import ConfirmRuns
from ci_evals.stats.exact_tests import stratified_lower
from ci_evals.stats.thresholds import (
    ALPHA,
    FURTHER_ROUNDS,
    MAX_CONFIRMED_CELLS,
    MAX_CONFIRMED_SHARE,
)

USUAL_CONFIRM_RUNS, MOST_CONFIRM_RUNS = 7, 20
FAILED_CONFIRMATION = 0.05
"""The repeats of suspects do not count if they are worse than their planned runs at this level."""
FAILED_ROUNDS = 0.001
"""Further runs do not count if they are worse than the planned runs of all cells at this level."""


class RepeatedCase(NamedTuple):
    """A suspect over its variants: each of its cells runs again as often."""

    keys: Sequence[CellKey]
    runs: int


class Confirmation(NamedTuple):
    """The runs to make beyond the plan, before anything is named.

    Args:
        suspects: how often each cell that is a suspect by itself runs again.
        cases: the cases that are suspects over their variants.
        doubts: the cells of each variant in doubt: all run `FURTHER_ROUNDS` times again, of which a
            suspect's first runs are part.
    """

    suspects: Mapping[CellKey, int] = {}
    cases: Mapping[str, RepeatedCase] = {}
    doubts: Mapping[Variant, Sequence[CellKey]] = {}

    @property
    def runs(self) -> Mapping[CellKey, int]:
        """The number of further runs of each cell."""
        runs = dict(self.suspects)
        for case in self.cases.values():
            for key in case.keys:
                runs[key] = max(case.runs, runs.get(key, 0))
        for keys in self.doubts.values():
            for key in keys:
                runs[key] = max(FURTHER_ROUNDS, runs.get(key, 0))
        return runs


def plan_confirmation(
    head: Sequence[ReportedCell],
    base: Baseline,
    confirm_runs: ConfirmRuns,
    alpha: float = ALPHA,
    *,
    is_whole: bool = True,
) -> Confirmation:
    """Plan the runs that confirm suspects, and the further rounds of variants in doubt.

    Arguments are those of `compare`. If the cells are not those of the whole suite, only they are
    suspects: cases and variants can't be judged by a part of their cells.
    """
    if confirm_runs == 0:
        return Confirmation()
    matching = match_cells(head, base)
    if not is_whole:
        return choose_suspects(matching, (), confirm_runs, alpha)
    doubts = {}
    for variant, cells in matching.by_variant.items():
        planned = planned_fall(cells, matching.overdispersion(variant))
        if planned.decisive_p <= IN_DOUBT:
            doubts[variant] = [cell.head.key for cell in cells]
    cases = match_cases(matching)
    return choose_suspects(matching, cases, confirm_runs, alpha)._replace(doubts=doubts)


def choose_suspects(
    matching: Matching, cases: Sequence[MatchedCase], confirm_runs: ConfirmRuns, alpha: float
) -> Confirmation:
    """Choose what runs again before it may be named, and how often.

    Cases that are suspects over their variants come first, then cells that are suspects by
    themselves, as long as the runs last: as many as the most cells that may be confirmed would
    take. Critical ones come before others, then those least likely by chance.
    """
    usual = USUAL_CONFIRM_RUNS
    if confirm_runs != "auto":
        usual = confirm_runs
    share = int(MAX_CONFIRMED_SHARE * len(matching.cells))
    room = usual * max(MAX_CONFIRMED_CELLS, share)
    chosen_cases = _choose_cases(cases, usual, room)
    room -= sum(case.runs * len(case.keys) for case in chosen_cases.values())

    suspicious = [cell for cell in matching.cells if cell.suspicious]
    suspicious.sort(key=lambda cell: (not cell.head.critical, cell.p))
    suspects_of = Counter(cell.head.key[0] for cell in suspicious)
    chosen: dict[CellKey, int] = {}
    for cell in suspicious:
        name = cell.head.key[0]
        runs_of_case = 0
        if name in chosen_cases:
            if suspects_of[name] > 1:
                continue  # these name the case together
            runs_of_case = chosen_cases[name].runs
        more = usual - runs_of_case
        if more > room:
            break
        room -= more
        chosen[cell.head.key] = usual
        if confirm_runs == "auto":
            chosen[cell.head.key] = _runs_of(cell, matching, alpha, several=bool(cases))
    return Confirmation(chosen, chosen_cases)


def _choose_cases(
    cases: Sequence[MatchedCase], usual: int, room: int
) -> Mapping[str, RepeatedCase]:
    """Choose the suspects over all variants, each with the same number of runs on each of them.

    If these do not fit into `room` runs, every case gets fewer, but at least as many as make the
    usual number over all its variants.
    """
    suspicious = [case for case in cases if case.suspicious]
    suspicious.sort(key=lambda case: (not case.critical, case.planned_p))
    cells = sum(len(case.cells) for case in suspicious)
    runs = usual
    if cells * usual > room:
        widest = max(len(case.cells) for case in suspicious)
        runs = max(room // cells, ceil(usual / widest))
    chosen = {}
    for case in suspicious:
        room -= runs * len(case.cells)
        if room < 0:
            break
        chosen[case.id] = RepeatedCase([cell.head.key for cell in case.cells], runs)
    return chosen


def _runs_of(cell: MatchedCell, matching: Matching, alpha: float, *, several: bool) -> int:
    """Return how often a suspect is run again where the number follows from what naming it takes.

    Where no number can name it alone, several cells of as many variants may still be named
    together, if they get the most runs.
    """
    planned, pooled = cell.head.planned.graded, cell.pooled.graded
    runs = runs_to_confirm(planned, pooled, len(matching.cells), alpha)
    if runs is not None:
        return runs
    if several and cell.p <= alpha:
        return MOST_CONFIRM_RUNS
    return USUAL_CONFIRM_RUNS


def runs_to_confirm(planned: int, base: int, cells: int, alpha: float = ALPHA) -> int | None:
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
            _p_of_repeats(suspicious) <= FAILED_CONFIRMATION
            or _p_of_repeats(cells) <= FAILED_ROUNDS
        ):
            found.add(variant)
    return frozenset(found)


def _p_of_repeats(cells: Iterable[MatchedCell]) -> float:
    """Return the p-value for "the repeats are worse than the planned runs"."""
    return stratified_lower((*cell.head.confirming, *cell.head.planned) for cell in cells)
