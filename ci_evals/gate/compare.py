"""The comparison of a report with a baseline: cells are matched and tested, and each variant as a
whole.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import comb
from statistics import fmean
from typing import Literal, NamedTuple, get_args

from ci_evals.gate.baseline import (
    DISAGREEMENT,
    LARGEST_SUPPORT,
    NO_RUNS,
    BaseCell,
    Baseline,
    HeadCell,
    History,
    cut_at_falls,
    judged_half,
)
from ci_evals.gate.differences import Differences, differences
from ci_evals.model.case import Variant
from ci_evals.model.fields import Share
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Tally
from ci_evals.model.rules import ConfirmRuns
from ci_evals.stats.exact_tests import (
    Table,
    benjamini_hochberg,
    fisher_lower,
    fisher_upper,
    holm,
    stratified_lower,
    stratified_two_sided,
)
from ci_evals.stats.power import NEWEST_ALONE

SUSPICION = 0.30
"""A cell with a lower rate than its base and a Fisher p at or below this is run again before it is
named.
"""
LEAST_COMPARED = Fraction(4, 5)
"""Where a smaller share of the base's cells is compared, that is said."""
USUAL_CONFIRM_RUNS, MOST_CONFIRM_RUNS = 7, 20
MOST_CONFIRMED = 20
"""The most cells that are run again, unless a fifth of all is more."""
FAILED_CONFIRMATION = 0.05
"""Confirm runs that are worse than the planned runs of the same cells, with a p at or below this,
do not count.
"""


CellKind = Literal[
    "new",
    "removed",
    "edited",
    "not compared",
    "regressed",
    "fixed",
    "suspect",
    "flaky",
    "unchanged",
]
KINDS: tuple[CellKind, ...] = get_args(CellKind)

_EXACT_ENOUGH = 60
"""Newer and older reports of one branch are told apart exactly up to this support."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellComparison:
    """One cell beside its base.

    `head` are all its runs that count, `base` the pooled ones of `base_reports` reports. `p` is the
    chance of a drop (of a rise, where it is `fixed`) this large if nothing had changed;
    `adjusted_p` allows for the number of cells that were compared. Both are None where nothing was
    tested. An `edited` cell is `regraded` if its answers are judged otherwise than on the base.
    """

    case: str
    provider: str
    prompt: str | None = None
    kind: CellKind
    head: Tally = NO_RUNS
    base: Tally = NO_RUNS
    base_reports: int = 0
    p: Share | None = None
    adjusted_p: Share | None = None
    renamed_from: str | None = None
    critical: bool = False
    regraded: bool = False

    @property
    def key(self) -> CellKey:
        return self.case, self.provider, self.prompt

    @property
    def variant(self) -> Variant:
        return Variant(self.provider, self.prompt)

    def base_key(self, variants: Mapping[Variant, Variant]) -> CellKey:
        """Return the cell's name in the baseline, where `variants` maps each variant to the one it
        is compared with.
        """
        return _key(self.renamed_from or self.case, variants.get(self.variant, self.variant))


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantComparison:
    """One variant beside its base, over the `cells` that both sides have graded runs of.

    Rates are means over these cells. `p` is that of `fall`, `adjusted_p` allows for the number of
    variants; `adjusted_p_of_rest` is the same without the cells that regressed by themselves.
    `base_provider` and `base_prompt` name the variant that it was compared with.
    """

    provider: str
    prompt: str | None = None
    base_provider: str
    base_prompt: str | None = None
    cells: int
    head_rate: Share
    base_rate: Share
    p: Share
    adjusted_p: Share
    adjusted_p_of_rest: Share
    differences: Differences

    @property
    def variant(self) -> Variant:
        return Variant(self.provider, self.prompt)

    @property
    def base_variant(self) -> Variant:
        return Variant(self.base_provider, self.base_prompt)

    @property
    def renamed(self) -> bool:
        """Return True if it was compared with a variant of another name."""
        return self.variant != self.base_variant


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A report beside a baseline: every variant that both have, and every cell that either has.

    `usual_runs` is the number of planned runs that most of the tested cells have, 0 if none was
    tested.
    """

    baseline: Baseline
    confirm_runs: ConfirmRuns
    usual_runs: int
    alpha: float
    variants: tuple[VariantComparison, ...]
    cells: tuple[CellComparison, ...]

    @cached_property
    def counts(self) -> Mapping[CellKind, int]:
        """The number of cells of each kind."""
        return Counter(cell.kind for cell in self.cells)

    @cached_property
    def by_key(self) -> Mapping[CellKey, CellComparison]:
        return {cell.key: cell for cell in self.cells}

    @cached_property
    def base_variants(self) -> Mapping[Variant, Variant]:
        """Each variant's counterpart in the baseline, where it has one."""
        head = [cell.variant for cell in self.cells if cell.kind != "removed"]
        return match_variants(head, self.baseline.variants)

    def base_variant(self, variant: Variant) -> Variant:
        """Return a variant's name in the baseline."""
        return self.base_variants.get(variant, variant)

    def base_key(self, key: CellKey) -> CellKey:
        """Return a cell's name in the baseline."""
        if found := self.by_key.get(key):
            return found.base_key(self.base_variants)
        return _key(key[0], self.base_variant(Variant(*key[1:])))

    def base_of(self, key: CellKey) -> BaseCell | None:
        """Return a cell's counterpart in the baseline, whatever its case or its variant was called
        there.
        """
        return self.baseline.cells.get(self.base_key(key))

    @cached_property
    def several_variants(self) -> bool:
        return len({cell.variant for cell in self.cells if cell.kind != "removed"}) > 1

    @property
    def compared(self) -> int:
        """The number of cells that were tested."""
        return sum(cell.p is not None for cell in self.cells)

    def select(self, *kinds: CellKind) -> Sequence[CellComparison]:
        """Return the cells of some kinds, the surest first."""
        chosen = [cell for cell in self.cells if cell.kind in kinds]
        return tuple(sorted(chosen, key=lambda cell: 1.0 if cell.p is None else cell.p))

    def worse_variants(self, *, beyond_regressions: bool = False) -> Iterator[VariantComparison]:
        """Yield the variants that are worse as a whole; or that are so even without the cells that
        regressed.
        """
        for variant in self.variants:
            if (
                variant.adjusted_p_of_rest if beyond_regressions else variant.adjusted_p
            ) <= self.alpha:
                yield variant


@dataclass(frozen=True, slots=True)
class NoComparison:
    """The reason why a report could not be compared, in a sentence."""

    reason: str


def compare(
    head: Sequence[HeadCell],
    base: Baseline,
    *,
    confirm_runs: ConfirmRuns,
    alpha: float = 0.05,
    is_selection: bool = False,
) -> Comparison:
    """Compare a report with a baseline.

    Each cell is tested by itself (Fisher, one-sided; Benjamini and Hochberg over all of them), and
    each variant as a whole (exact stratified tests over its cells, Holm over the variants).

    Args:
        head: the cells of the report.
        base: the baseline.
        confirm_runs: how often suspects were to be run again; they are not named before they were.
            With 0 the planned runs decide.
        alpha: the accepted chance of a false alarm, in (0, 1).
        is_selection: the report is of a part of its suite, so that what only the base has was not
            removed.
    """
    base = cut_at_falls(base)
    if is_selection:
        base = base.restrict_to({cell.key[0] for cell in head})
    variants = match_variants((cell.variant for cell in head), base.variants)
    matched, unmatched = _match_cells(head, base, variants)
    failed = failed_confirmations(cell.head for cell in matched)
    matched = [
        cell if cell.head.variant not in failed else cell.without_confirmation() for cell in matched
    ]
    cells = _compare_cells(matched, confirm_runs, alpha)
    return Comparison(
        baseline=base,
        confirm_runs=confirm_runs,
        usual_runs=commonest(cell.head.planned.graded for cell in matched),
        alpha=alpha,
        variants=_compare_variants(matched, cells, variants, alpha),
        cells=(*cells, *unmatched),
    )


def suspects(
    head: Sequence[HeadCell], base: Baseline, confirm_runs: ConfirmRuns, alpha: float = 0.05
) -> Mapping[CellKey, int]:
    """Return the cells to run again before they may be named, and how often.

    If there are many, these are the critical ones and those least likely by chance. Arguments are
    those of `compare`.
    """
    matched = comparable_cells(head, base)
    suspicious = sorted(
        (cell for cell in matched if cell.suspicious),
        key=lambda cell: (not cell.head.critical, cell.p),
    )
    chosen = suspicious[: max(MOST_CONFIRMED, len(matched) // 5)]
    if confirm_runs != "auto":
        return {cell.head.key: confirm_runs for cell in chosen} if confirm_runs else {}
    return {
        cell.head.key: runs_to_confirm(
            cell.head.planned.graded, cell.pooled.graded, len(matched), alpha
        )
        or USUAL_CONFIRM_RUNS
        for cell in chosen
    }


def runs_to_confirm(planned: int, base: int, cells: int, alpha: float = 0.05) -> int | None:
    """Return how many further runs name a case that always fails and never did before; None if it
    takes too many.

    The chance that all failures of `base + head` runs are the head's is 1 in `base + head` over
    `base`, and it is to be at most `alpha / cells`, so that Benjamini and Hochberg's procedure
    rejects it alone.

    Args:
        planned: its planned runs.
        base: its runs in the baseline.
        cells: the number of cells that are compared.
        alpha: the accepted chance of a false alarm.
    """
    enough = range(USUAL_CONFIRM_RUNS, MOST_CONFIRM_RUNS + 1)
    return next(
        (more for more in enough if comb(base + planned + more, base) * alpha >= cells), None
    )


def beyond_naming(comparison: Comparison) -> Sequence[CellComparison]:
    """Return the suspects that `confirm_runs: auto` cannot name: the base has too few runs of
    them.
    """
    if comparison.confirm_runs != "auto":
        return ()
    runs, cells, alpha = comparison.usual_runs, comparison.compared, comparison.alpha
    return [
        each
        for each in comparison.select("suspect")
        if runs_to_confirm(runs, each.base.graded, cells, alpha) is None
    ]


def commonest(numbers: Iterable[int]) -> int:
    """Return the commonest number; the smallest of several; 0 of none."""
    return min(Counter(numbers).items(), key=lambda each: (-each[1], each[0]), default=(0, 0))[0]


def match_variants(head: Iterable[Variant], base: Iterable[Variant]) -> Mapping[Variant, Variant]:
    """Map each variant to the one of the base that it is compared with.

    That is the one of the same name. Where only one is left on either side, these two are compared:
    a model or prompt under another name is a change to be tested, not another suite.
    """
    mine, theirs = dict.fromkeys(head), dict.fromkeys(base)
    matched = {variant: variant for variant in mine if variant in theirs}
    left, gone = [v for v in mine if v not in matched], [v for v in theirs if v not in matched]
    if len(left) == len(gone) == 1:
        matched[left[0]] = gone[0]
    return matched


def _key(case: str, variant: Variant) -> CellKey:
    return case, variant.provider, variant.prompt


class Fall(NamedTuple):
    """The p-value of a variant's drop, and the tables of its cells against the pooled base."""

    p: float
    tables: Sequence[Table]


def fall(cells: Sequence[tuple[Tally, History]]) -> Fall:
    """Test a variant for a drop, from the planned runs and the history of each cell.

    The base side pools report after report, newest first, as long as they agree with all older
    ones. A slow drift is too small for that to show, yet adds up over the cells; so the newest
    report by itself must show the drop, too, at twice the level. Whatever the history was like, a
    false red is then no likelier than that.
    """
    histories = [history for _, history in cells]

    def disagree(age: int) -> bool:
        """Return True if the `age` newest reports are unlike the older ones."""
        tables = []
        for sums in (history.sums for history in histories if age < len(history.sums)):
            (passed, graded), (all_passed, all_graded) = sums[age], sums[-1]
            tables.append((all_passed - passed, all_graded - graded, passed, graded))
        return stratified_two_sided(tables, largest_support=_EXACT_ENOUGH) <= DISAGREEMENT

    def against(age: int) -> list[Table]:
        """Return the cells beside the `age` newest reports of each."""
        return [(*head, *history.sums[: age + 1][-1]) for head, history in cells]

    reports = max((len(history.sums) for history in histories), default=1) - 1
    agreeing = next((age for age in range(1, reports) if disagree(age)), reports)
    tables = against(agreeing)
    pooled = stratified_lower(tables, largest_support=LARGEST_SUPPORT)
    alone = stratified_lower(against(1), largest_support=LARGEST_SUPPORT)
    return Fall(max(pooled, alone / NEWEST_ALONE), tables)


@dataclass(frozen=True)
class MatchedCell:
    """A cell of the report and the one of the baseline that it is compared with.

    `renamed_from` is the id that its case has there, if it is another.
    """

    head: HeadCell
    base: BaseCell
    renamed_from: str | None

    def without_confirmation(self) -> "MatchedCell":
        """Return the cell as if it had not been run again."""
        return replace(self, head=self.head._replace(confirming=NO_RUNS, confirmed=False))

    @property
    def pooled(self) -> Tally:
        """The runs of the base that count."""
        return self.base.history.tally

    @cached_property
    def p(self) -> float:
        """The chance that the planned runs are as low as they are."""
        return fisher_lower(*self.head.planned, *self.pooled)

    @property
    def suspicious(self) -> bool:
        """Return True if the planned runs are below the base beyond what is usual."""
        return self.head.planned.rate < self.pooled.rate and self.p <= SUSPICION


def comparable_cells(head: Sequence[HeadCell], base: Baseline) -> list[MatchedCell]:
    """Return the cells that both sides have graded runs of, for the same question and grading."""
    base = cut_at_falls(base)
    variants = match_variants((cell.variant for cell in head), base.variants)
    return _match_cells(head, base, variants)[0]


def _match_cells(
    head: Sequence[HeadCell], base: Baseline, variants: Mapping[Variant, Variant]
) -> tuple[list[MatchedCell], list[CellComparison]]:
    """Return the cells that can be compared, and the findings on all others."""
    mine = {_key(cell.key[0], variants.get(cell.variant, cell.variant)): cell for cell in head}
    old_names = _old_names(mine, base)
    matched: list[MatchedCell] = []
    rest: list[CellComparison] = []
    for base_key, cell in mine.items():
        old_name = old_names.get(base_key)
        found = base.cells.get((old_name or base_key[0], *base_key[1:]))
        if found is None:
            rest.append(_untested_cell("new", cell.key, cell))
        elif found.fingerprint != cell.fingerprint:
            newest = found.history.evidence[0].tally if found.history.evidence else NO_RUNS
            regraded = judged_half(found.fingerprint) != judged_half(cell.fingerprint)
            rest.append(
                replace(_untested_cell("edited", cell.key, cell, newest), regraded=regraded)
            )
        elif cell.planned.graded and found.history.tally.graded and not cell.quarantined:
            matched.append(MatchedCell(cell, found, old_name))
        else:
            rest.append(_untested_cell("not compared", cell.key, cell, found.history.tally))
    known = {*mine, *((old, *key[1:]) for key, old in old_names.items())}
    removed = ((key, cell) for key, cell in base.cells.items() if key not in known)
    rest += [_untested_cell("removed", key, base=cell.history.tally) for key, cell in removed]
    return matched, rest


def _untested_cell(
    kind: CellKind, key: CellKey, head: HeadCell | None = None, base: Tally = NO_RUNS
) -> CellComparison:
    case, provider, prompt = key
    runs, critical = (head.planned, head.critical) if head else (NO_RUNS, False)
    return CellComparison(
        case=case,
        provider=provider,
        prompt=prompt,
        kind=kind,
        head=runs,
        base=base,
        critical=critical,
    )


def _old_names(mine: Mapping[CellKey, HeadCell], base: Baseline) -> Mapping[CellKey, str]:
    """Find the cells whose case has another name in the base: same question, same grading, other
    id.
    """
    gone: dict[tuple[str, Variant], list[str]] = defaultdict(list)
    for key, cell in base.cells.items():
        if key not in mine:
            gone[cell.fingerprint, Variant(*key[1:])].append(key[0])
    names = {}
    for key, mine_cell in mine.items():
        if key not in base.cells and (
            candidates := gone.get((mine_cell.fingerprint, Variant(*key[1:])))
        ):
            names[key] = candidates.pop(0)
    return names


def failed_confirmations(head: Iterable[HeadCell]) -> frozenset[Variant]:
    """Return the variants whose confirm runs are worse than the planned runs of the same cells.

    Suspects are chosen for bad planned runs, so their repeats are better if anything; worse ones
    are an outage.
    """
    repeated: dict[Variant, list[Table]] = defaultdict(list)
    for cell in head:
        repeated[cell.variant].append((*cell.confirming, *cell.planned))
    return frozenset(
        variant
        for variant, tables in repeated.items()
        if stratified_lower(tables) <= FAILED_CONFIRMATION
    )


def sum_of(tallies: Iterable[Tally]) -> Tally:
    """Return all runs together."""
    each = list(tallies)
    return Tally(sum(tally.passed for tally in each), sum(tally.graded for tally in each))


def _compare_cells(
    matched: Sequence[MatchedCell], confirm_runs: ConfirmRuns, alpha: float
) -> list[CellComparison]:
    """Test each cell by itself for a drop and for a rise.

    The p of a drop counts as 1 unless the cell was a suspect and has been confirmed: then all its
    runs speak for it. What is named must show against the recent pool by itself, too.
    """
    runs, drops, named_drops, rises = [], [], [], []
    for cell in matched:
        planned, more, suspicious = cell.head.planned, cell.head.confirming, cell.suspicious
        tally = sum_of((planned, more)) if suspicious else planned
        drop = fisher_lower(*tally, *cell.pooled)
        runs.append(tally)
        drops.append(drop)
        named_drops.append(
            drop if suspicious and (confirm_runs == 0 or cell.head.confirmed) else 1.0
        )
        rises.append(1.0 if suspicious else fisher_upper(*tally, *cell.pooled))
    tests = zip(
        runs, drops, rises, benjamini_hochberg(named_drops), benjamini_hochberg(rises), strict=True
    )
    compared = []
    for cell, (head, drop, rise, adjusted_drop, adjusted_rise) in zip(matched, tests, strict=True):
        base, fell = cell.pooled, cell.suspicious and head.rate < cell.pooled.rate
        p, adjusted_p = drop, adjusted_drop
        recent = cell.base.history.recent
        kind: CellKind = "unchanged" if head.rate == base.rate and head.rate in (0, 1) else "flaky"
        if fell and adjusted_drop <= alpha and fisher_lower(*head, *recent) <= alpha:
            kind = "regressed"
        elif fell and drop <= SUSPICION:
            kind = "suspect"
        elif not cell.suspicious and head.rate > base.rate and adjusted_rise <= alpha:
            if fisher_upper(*head, *recent) <= alpha:
                kind = "fixed"
            p, adjusted_p = rise, adjusted_rise
        case, provider, prompt = cell.head.key
        compared.append(
            CellComparison(
                case=case,
                provider=provider,
                prompt=prompt,
                kind=kind,
                head=head,
                base=base,
                base_reports=len(cell.base.history.sums) - 1,
                p=p,
                adjusted_p=adjusted_p,
                renamed_from=cell.renamed_from,
                critical=cell.head.critical,
            )
        )
    return compared


def _compare_variants(
    matched: Sequence[MatchedCell],
    cells: Sequence[CellComparison],
    variants: Mapping[Variant, Variant],
    alpha: float,
) -> tuple[VariantComparison, ...]:
    """Test every variant that has cells to compare. Confirm runs take no part: they were chosen for
    their results.
    """
    by_variant: dict[Variant, list[tuple[MatchedCell, CellComparison]]] = defaultdict(list)
    for cell, comparison in zip(matched, cells, strict=True):
        by_variant[cell.head.variant].append((cell, comparison))
    falls, falls_of_rest = [], []
    for chosen in by_variant.values():
        runs = [(cell.head.planned, cell.base.history) for cell, _ in chosen]
        rest = [
            each for each, (_, found) in zip(runs, chosen, strict=True) if found.kind != "regressed"
        ]
        falls.append(fall(runs))
        falls_of_rest.append(fall(rest) if len(rest) < len(runs) else falls[-1])
    adjusted = holm([found.p for found in falls])
    adjusted_rest = holm([found.p for found in falls_of_rest])
    return tuple(
        VariantComparison(
            provider=variant.provider,
            prompt=variant.prompt,
            base_provider=variants[variant].provider,
            base_prompt=variants[variant].prompt,
            cells=len(chosen),
            head_rate=fmean(passed / graded for passed, graded, _, _ in found.tables),
            base_rate=fmean(passed / graded for _, _, passed, graded in found.tables),
            p=found.p,
            adjusted_p=p,
            adjusted_p_of_rest=p_of_rest,
            differences=differences(
                found.tables,
                [cell.head.per_run for cell, _ in chosen],
                [cell.base.per_run for cell, _ in chosen],
                1 - alpha,
            ),
        )
        for (variant, chosen), found, p, p_of_rest in zip(
            by_variant.items(), falls, adjusted, adjusted_rest, strict=True
        )
    )
