"""Cases over their variants, and tags over their cases: what got worse on many cells together?

A case that fails a little on every variant shows on none of them by itself. With a single variant
there is nothing to add to the test of the cell.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from ci_evals.gate.baseline import (
    DISAGREEMENT,
    History,
    add_tallies,
    reports_since_drop,
    split_histories,
)
from ci_evals.gate.cells import MatchedCell, Matching
from ci_evals.model.case import Variant
from ci_evals.model.fields import Share
from ci_evals.model.report import Tally
from ci_evals.stats.exact_tests import (
    Table,
    fisher_lower,
    holm,
    stratified_lower,
    stratified_two_sided,
    widen,
)
from ci_evals.stats.overdispersion import shared_luck
from ci_evals.stats.thresholds import MIN_TAG_DROP_RATIO, SUSPECT_CASE_P

_LUCK_OF_ALL_RUNS = 10 / 3
"""Luck that the runs of a report share weighs more over three planned and seven confirm runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseComparison:
    """A case that got worse over its variants.

    `head` are its planned runs and the confirm runs that every variant got, `base` the pooled ones,
    both over all `cells` that were compared. `variants` are those that show it by themselves, none
    if it takes all of them together. `p` is the chance of a drop this large if nothing had changed;
    `adjusted_p` allows for the number of cases.
    """

    case: str
    head: Tally
    base: Tally
    cells: int
    variants: tuple[Variant, ...]
    p: Share
    adjusted_p: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class TagComparison:
    """The cases with a tag, over all variants: the planned runs against the pooled ones.

    Rates are means over its `cells`, and `drop_elsewhere` is the fall of the mean rate over all
    other cells. `p` is the chance of a drop this large if nothing had changed; `adjusted_p` allows
    for the number of tags. A tag is never a reason for red: it says what a change that is red
    anyway has in common.
    """

    tag: str
    cells: int
    head_rate: Share
    base_rate: Share
    drop_elsewhere: float
    p: Share
    adjusted_p: Share

    @property
    def stands_out(self) -> bool:
        """Return True if its cases fell at least twice as far as the others."""
        return self.base_rate - self.head_rate >= MIN_TAG_DROP_RATIO * self.drop_elsewhere


@dataclass(frozen=True)
class MatchedCase:
    """A case that is compared on two variants or more.

    Args:
        cells: its cells, one for each variant.
        histories: their histories, as far as they count for the case.
        recent_reports: how many of the newest reports may be in the recent pool, because the base
            branch has passed less since; all of them if None.
        luck: how much more the passes of cases vary between reports than those of cells.
    """

    cells: Sequence[MatchedCell]
    histories: Sequence[History]
    recent_reports: int | None
    luck: float

    @property
    def id(self) -> str:
        return self.cells[0].head.key[0]

    @property
    def critical(self) -> bool:
        return any(cell.head.critical for cell in self.cells)

    @cached_property
    def planned_p(self) -> float:
        """The chance that the planned runs are as low as they are."""
        planned = [cell.head.planned for cell in self.cells]
        return stratified_lower(self._against_full_pool(planned))

    @property
    def suspicious(self) -> bool:
        """Return True if the planned runs are below the base beyond what is usual."""
        return self.planned_p <= SUSPECT_CASE_P

    def confirmed_runs(self, repeats: int) -> Sequence[Tally] | None:
        """Return the planned runs with so many repeats; None if a variant lacks some of these."""
        runs = []
        for cell in self.cells:
            confirmed = cell.head.with_repeats(repeats)
            if confirmed is None:
                return None
            runs.append(confirmed)
        return runs

    def p(self, runs: Sequence[Tally]) -> float:
        """Return the p-value of a drop against the full pool, by these runs of each cell."""
        return self._widen(stratified_lower(self._against_full_pool(runs)))

    def recent_p(self, runs: Sequence[Tally]) -> float:
        """Return the p-value of a drop against the recent pool, by these runs of each cell."""
        reports = self._reports_that_agree()
        pairs = zip(runs, self.histories, strict=True)
        tables = [(*tally, *history.newest(reports)) for tally, history in pairs]
        return self._widen(stratified_lower(tables))

    def _against_full_pool(self, runs: Sequence[Tally]) -> list[Table]:
        pairs = zip(runs, self.histories, strict=True)
        return [(*tally, *history.tally) for tally, history in pairs]

    def _reports_that_agree(self) -> int:
        """Return the number of newest reports before the first one that disagrees with them."""
        most = max(history.pooled_reports for history in self.histories)
        if self.recent_reports is not None:
            most = min(most, self.recent_reports)
        for age in range(1, most):
            if stratified_two_sided(split_histories(self.histories, age)) <= DISAGREEMENT:
                return age
        return most

    def _widen(self, p: float) -> float:
        return widen(p, 1 + (self.luck - 1) * _LUCK_OF_ALL_RUNS)


def match_cases(matching: Matching) -> Sequence[MatchedCase]:
    """Return the cases that are compared on two variants or more."""
    by_case: dict[str, list[MatchedCell]] = defaultdict(list)
    for cell in matching.cells:
        by_case[cell.head.key[0]].append(cell)
    groups = [cells for cells in by_case.values() if len(cells) > 1]
    if not groups:
        return ()
    # A fall of any variant, or of all together, ends the pools of every variant.
    histories = [cell.base.history for cells in groups for cell in cells]
    since_drop, since_fall = reports_since_drop(histories)
    limits = [history.reports for history in histories if history.reports is not None]
    if since_fall is not None:
        limits.append(since_fall)
    reports = min(limits, default=None)
    reports_of_cases = [
        matching.base.newest_reports([cell.base for cell in cells]) for cells in groups
    ]
    luck = shared_luck(reports_of_cases)
    cases = []
    for cells in groups:
        pools = [replace(cell.base.history, reports=reports) for cell in cells]
        cases.append(MatchedCase(cells, pools, since_drop, luck))
    return cases


def compare_cases(
    cases: Sequence[MatchedCase], repeats: Mapping[str, int], alpha: float
) -> Mapping[str, CaseComparison]:
    """Return the cases that got worse over their variants.

    Args:
        cases: the cases that are compared on several variants.
        repeats: how often each suspect was to be run again on every variant; others can't be named.
        alpha: the accepted chance of naming any case by chance.
    """
    tested = []
    for case in cases:
        runs = None
        if case.suspicious and case.id in repeats:
            runs = case.confirmed_runs(repeats[case.id])
        p = 1.0
        if runs is not None:
            p = case.p(runs)
        tested.append((case, runs, p))
    adjusted = holm([p for _, _, p in tested])
    worse = {}
    for (case, runs, p), adjusted_p in zip(tested, adjusted, strict=True):
        if runs is None or adjusted_p > alpha or case.recent_p(runs) > alpha:
            continue
        worse[case.id] = CaseComparison(
            case=case.id,
            head=add_tallies(runs),
            base=add_tallies(history.tally for history in case.histories),
            cells=len(case.cells),
            variants=tuple(_variants_that_show_it(case, alpha)),
            p=p,
            adjusted_p=adjusted_p,
        )
    return worse


def _variants_that_show_it(case: MatchedCase, alpha: float) -> Iterator[Variant]:
    """Yield the variants on which the case is worse by itself, before any adjustment."""
    for cell in case.cells:
        runs = cell.all_runs
        if runs.rate < cell.pooled.rate and fisher_lower(*runs, *cell.pooled) <= alpha:
            yield cell.head.variant


def compare_tags(matching: Matching) -> Sequence[TagComparison]:
    """Test every tag that some, but not all, compared cells have; the surest drop first."""
    tables: dict[str, list[Table]] = defaultdict(list)
    fallen = 0.0
    for cell in matching.cells:
        fallen += cell.pooled.rate - cell.head.planned.rate
        for tag in cell.head.case.tags:
            tables[tag].append((*cell.head.planned, *cell.pooled))
    tested = []
    for tag, chosen in tables.items():
        if len(chosen) < len(matching.cells):
            tested.append((tag, chosen, stratified_lower(chosen)))
    adjusted = holm([p for _, _, p in tested])
    tags = []
    for (tag, chosen, p), adjusted_p in zip(tested, adjusted, strict=True):
        head_rate = fmean([passed / graded for passed, graded, _, _ in chosen])
        base_rate = fmean([passed / graded for _, _, passed, graded in chosen])
        fallen_elsewhere = fallen - len(chosen) * (base_rate - head_rate)
        tags.append(
            TagComparison(
                tag=tag,
                cells=len(chosen),
                head_rate=head_rate,
                base_rate=base_rate,
                drop_elsewhere=fallen_elsewhere / (len(matching.cells) - len(chosen)),
                p=p,
                adjusted_p=adjusted_p,
            )
        )
    tags.sort(key=lambda tag: tag.p)
    return tags
