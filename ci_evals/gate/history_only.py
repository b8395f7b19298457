"""The rules where main's code can't be run: its stored reports decide.

Main may have changed since, and the provider, too, so each rule here guards against blaming the
change for that: a second pool of the newest reports that agree, a pool of the variant that ends
where main fell, and runs that don't count because of an outage.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from ci_evals.gate.baseline import (
    Baseline,
    History,
    ReportedCell,
    add_tallies,
    split_histories,
    tally_of,
)
from ci_evals.gate.cases import MatchedCase, lower_p
from ci_evals.gate.cells import MatchedCell, Matching, match_cells
from ci_evals.gate.confirmation import (
    Confirmation,
    FurtherRuns,
    VariantFall,
    Wanted,
    first_outcomes,
)
from ci_evals.gate.falls import CellSample, Fall, fall, planned_fall
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Outcome, Tally
from ci_evals.stats.exact_tests import fisher_lower, fisher_two_sided, holm, stratified_lower
from ci_evals.stats.thresholds import (
    DOUBT_P,
    FAILED_REPEATS_P,
    FAILED_ROUNDS_P,
    FURTHER_ROUNDS,
    NO_DROP_P,
    POOL_CUT_BELOW_P,
    RECENT_DROP_P,
    RECENT_POOL_P,
    RECOVERY_P,
)


class HistoryOnly(Confirmation):
    """What the runs here show against the stored reports of the base branch."""

    @cached_property
    def suspects(self) -> Sequence[MatchedCell]:
        """The cells that run again, but for those of variants whose repeats failed."""
        chosen = super().suspects
        return [cell for cell in chosen if cell.head.variant not in self.failed]

    @cached_property
    def suspect_cases(self) -> Sequence[MatchedCase]:
        """The cases that run again; none where the repeats of a variant failed."""
        return super().suspect_cases if not self.failed else ()

    @cached_property
    def failed(self) -> frozenset[Variant]:
        """The variants whose repeats don't count, because they failed together."""
        return failed_repeats(self.matching)

    def missing_runs(self, wanted: Mapping[CellKey, Wanted]) -> Mapping[CellKey, int]:
        """Return how many repeats each cell lacks."""
        made = {cell.head.key: len(cell.head.repeats) for cell in self.matching.cells}
        missing = {key: sum(each) - made[key] for key, each in wanted.items()}
        return {key: runs for key, runs in missing.items() if runs > 0}

    def runs(self, cell: MatchedCell, wanted: Wanted) -> Tally | None:
        """Return the planned runs of a cell with the wanted repeats; None if it lacks some.

        Where nothing was to run again, the runs that there are decide.
        """
        if not self.confirm_runs:
            return cell.head.with_repeats(len(cell.head.repeats))
        again, deciding = wanted
        repeats = cell.head.repeats
        if not tally_of(repeats[:again]).graded:
            return None
        if deciding and not tally_of(repeats[again : again + deciding]).graded:
            return None
        return cell.head.with_repeats(again + deciding)

    def base(self, cell: MatchedCell, wanted: Wanted) -> Tally:
        """Return the pooled runs."""
        del wanted
        return cell.pooled

    def shown_cells(self, cells: Sequence[MatchedCell]) -> frozenset[CellKey]:
        """Return the cells that are below their recent pool, too."""
        shown = set()
        for cell in cells:
            runs = self.runs(cell, self.wanted_of_cell)
            if runs is not None and fisher_lower(*runs, *self._recent(cell)) <= self.alpha:
                shown.add(cell.head.key)
        return frozenset(shown)

    def shown_cases(self, cases: Sequence[MatchedCase]) -> frozenset[str]:
        """Return the cases that are below the recent pools of their cells, too."""
        shown = set()
        for case in cases:
            runs = case.with_repeats(sum(self.wanted_of_case(case)))
            recent = [self._recent(cell) for cell in case.cells]
            if runs is not None and lower_p(runs, recent) <= self.alpha:
                shown.add(case.id)
        return frozenset(shown)

    def _recent(self, cell: MatchedCell) -> Tally:
        return recent_pool(cell.base.history, self._drops[cell.head.variant]).tally

    @cached_property
    def _drops(self) -> Mapping[Variant, int | None]:
        return {
            variant: reports_since_drop([cell.base.history for cell in cells])
            for variant, cells in self.matching.by_variant.items()
        }

    def further_rounds(self, cell: MatchedCell) -> Sequence[Outcome | None] | None:
        """Return the further rounds of a cell; None if it lacks some."""
        return first_outcomes(cell.head.repeats, FURTHER_ROUNDS)

    @property
    def better(self) -> Collection[Variant]:
        """The variants that are above the history of the base branch."""
        return self.surely_risen

    def test_variants(self) -> Iterator[FurtherRuns]:
        """Yield the further rounds of variants in doubt."""
        wanted: dict[CellKey, Wanted] = {}
        doubted = []
        for variant, cells in self.tested_variants.items():
            planned = planned_fall(self.matching, variant, cells, POOL_CUT_BELOW_P)
            if planned.p <= DOUBT_P and variant not in self.failed:
                doubted.append(variant)
                wanted |= {cell.head.key: Wanted(FURTHER_ROUNDS) for cell in cells}
        yield self.further("doubt", wanted, doubted)

    @cached_property
    def falls(self) -> Mapping[Variant, VariantFall]:
        """The test of each variant by its planned runs, and by its further rounds if there are any.

        All rounds decide together then, so that doubt gives no second chance to be red.
        """
        tested = []
        for variant, cells in self.matching.by_variant.items():
            if variant in self.rises:
                tested.append(self.rises[variant].against_history)
                continue
            chosen = self.tested_variants.get(variant, cells)
            tested.append(self._fall(variant, chosen))
        adjusted = holm([found.p for found in tested])
        falls = {}
        for variant, found, adjusted_p in zip(
            self.matching.by_variant, tested, adjusted, strict=True
        ):
            fell = variant in self.tested_variants and adjusted_p <= self.alpha
            falls[variant] = VariantFall(found, adjusted_p, fell)
        return falls

    def _fall(self, variant: Variant, cells: Sequence[MatchedCell]) -> Fall:
        planned = planned_fall(self.matching, variant, cells, POOL_CUT_BELOW_P)
        if planned.p > DOUBT_P or variant in self.failed or not self.confirm_runs:
            return planned
        tested = self.fall_with_further_rounds(variant, cells, POOL_CUT_BELOW_P)
        if tested is None:
            return planned
        return tested


# The recent pool.


class RecentPool(NamedTuple):
    """The newest reports of a cell that agree with each other.

    Args:
        tally: their runs.
        reports: how many they are.
        older: the runs of all older reports that are pooled; None if it ends for the variant.
        p: the p-value for "these differ"; None if it ends for the variant, or not at all.
    """

    tally: Tally
    reports: int
    older: Tally | None = None
    p: float | None = None


def recent_pool(history: History, since_drop: int | None) -> RecentPool:
    """Return the recent pool of a cell.

    By chance, it is shorter than the full pool for a third of all unchanged cells, so a drop is
    tested against the full pool, and named if it shows against the recent one, too.

    Args:
        history: the cell's.
        since_drop: how many of the newest reports of the whole variant are below all older ones;
            None if none are.
    """
    for age in range(1, history.pooled_reports):
        newer = history.newest(age)
        if age == since_drop:
            return RecentPool(newer, age)
        older = Tally(history.tally.passed - newer.passed, history.tally.graded - newer.graded)
        p = fisher_two_sided(*older, *newer)
        if p <= RECENT_POOL_P:
            return RecentPool(newer, age, older, p)
    return RecentPool(history.tally, history.pooled_reports)


def reports_since_drop(histories: Sequence[History]) -> int | None:
    """Return how many of the newest reports of a variant are below all older ones together.

    None if none are.
    """
    most = max((history.pooled_reports for history in histories), default=0)
    for age in range(1, most):
        if stratified_lower(split_histories(histories, age)) <= RECENT_DROP_P:
            return age
    return None


# Outages.


class Outage(NamedTuple):
    """Planned runs that failed as one, and the repeats of the `cells` that were run again."""

    cells: int
    planned: Tally
    repeated: Tally


def find_outages(
    head: Sequence[ReportedCell], base: Baseline, alpha: float
) -> Mapping[Variant, Outage]:
    """Find the variants that look worse because of an outage while their planned runs were made.

    Half of their cells are suspects, the repeats of these show no drop, and are better than the
    planned runs.

    Args:
        head: the cells of the report, with their repeats.
        base: the baseline.
        alpha: the gate's level: what would not be red needs no outage to explain it.
    """
    found = {}
    matching = match_cells(head, base)
    for variant, cells in matching.by_variant.items():
        suspicious = [cell for cell in cells if cell.suspicious]
        repeated = [cell for cell in suspicious if cell.head.confirming.graded]
        if 2 * len(suspicious) < len(cells) or not repeated:
            continue
        planned = planned_fall(matching, variant, cells, POOL_CUT_BELOW_P)
        if planned.p <= alpha and _has_recovered(repeated):
            found[variant] = Outage(
                cells=len(repeated),
                planned=add_tallies(cell.head.planned for cell in repeated),
                repeated=add_tallies(cell.head.confirming for cell in repeated),
            )
    return found


def _has_recovered(cells: Sequence[MatchedCell]) -> bool:
    """Return True if repeats show no drop from the base, and are better than the planned runs."""
    repeats = [CellSample(cell.head.confirming, cell.base.history) for cell in cells]
    if fall(repeats, cut_below_p=POOL_CUT_BELOW_P).p <= NO_DROP_P:
        return False
    tables = [(*cell.head.planned, *cell.head.confirming) for cell in cells]
    return stratified_lower(tables) <= RECOVERY_P


def failed_repeats(matching: Matching) -> frozenset[Variant]:
    """Return the variants whose repeats are worse than the planned runs of the same cells.

    Suspects are chosen for bad planned runs, so their repeats are better if anything; worse ones
    are an outage. Cells that are no suspects tell less, and need to be worse by more.
    """
    found = set()
    for variant, cells in matching.by_variant.items():
        suspicious = [cell for cell in cells if cell.suspicious]
        if _p_of_repeats(suspicious) <= FAILED_REPEATS_P or _p_of_repeats(cells) <= FAILED_ROUNDS_P:
            found.add(variant)
    return frozenset(found)


def _p_of_repeats(cells: Iterable[MatchedCell]) -> float:
    """Return the p-value for "the repeats are worse than the planned runs"."""
    return stratified_lower((*cell.head.confirming, *cell.head.planned) for cell in cells)


def without_failed_repeats(matching: Matching) -> Matching:
    """Return the cells without the repeats that failed together."""
    failed = failed_repeats(matching)
    if not failed:
        return matching
    cells = [
        cell.without_repeats() if cell.head.variant in failed else cell for cell in matching.cells
    ]
    return replace(matching, cells=cells)
