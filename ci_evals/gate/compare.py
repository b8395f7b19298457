"""The comparison of a report with a baseline: cells are matched and tested, then variants."""

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
    NO_RUNS,
    BaseCell,
    Baseline,
    HeadCell,
    History,
    add_tallies,
    cut_at_falls,
    grading_half,
    split_histories,
)
from ci_evals.gate.differences import Differences, differences
from ci_evals.model.case import Variant
from ci_evals.model.fields import Share
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Tally
from ci_evals.model.rules import ConfirmRuns
from ci_evals.stats.exact_tests import (
    NEWEST_ALONE,
    Table,
    benjamini_hochberg,
    fisher_lower,
    fisher_upper,
    holm,
    stratified_lower,
    stratified_two_sided,
)

SUSPICION = 0.30
"""A cell below its base with a Fisher p at or below this runs again before it is named."""
LEAST_COMPARED = Fraction(4, 5)
"""A warning says if a smaller share of the base's cells is compared."""
USUAL_CONFIRM_RUNS, MOST_CONFIRM_RUNS = 7, 20
MOST_CONFIRMED = 20
"""The most cells that run again, unless a fifth of all is more."""
FAILED_CONFIRMATION = 0.05
"""Confirm runs do not count if they are worse than the planned runs of the same cells.

That is, with a p at or below this.
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
"""The largest support for which newer and older reports of a branch are compared exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellComparison:
    """One cell compared with its base.

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
        """Return the cell's name in the baseline.

        `variants` maps each variant to the one that it is compared with.
        """
        return _key(self.renamed_from or self.case, variants.get(self.variant, self.variant))


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantComparison:
    """One variant compared with its base, over the `cells` that both sides have graded runs of.

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
    """A report compared with a baseline.

    It has every variant that both have, and every cell that either has. `usual_runs` is the number
    of planned runs that most of the tested cells have, 0 if none was tested; `unconfirmed` is the
    number of suspects that were not run again while others were, because they are too many.
    """

    baseline: Baseline
    confirm_runs: ConfirmRuns
    usual_runs: int
    alpha: float
    variants: tuple[VariantComparison, ...]
    cells: tuple[CellComparison, ...]
    unconfirmed: int = 0

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
        return match_variants(self._head_variants, self.baseline.variants)

    @cached_property
    def _head_variants(self) -> Sequence[Variant]:
        names = {
            (cell.provider, cell.prompt): None for cell in self.cells if cell.kind != "removed"
        }
        return [Variant(*each) for each in names]

    def base_variant(self, variant: Variant) -> Variant:
        """Return a variant's name in the baseline."""
        return self.base_variants.get(variant, variant)

    def base_key(self, key: CellKey) -> CellKey:
        """Return a cell's name in the baseline."""
        if found := self.by_key.get(key):
            return found.base_key(self.base_variants)
        return _key(key[0], self.base_variant(Variant(*key[1:])))

    def base_of(self, key: CellKey) -> BaseCell | None:
        """Return a cell's counterpart in the baseline, which may have another name there."""
        return self.baseline.cells.get(self.base_key(key))

    @cached_property
    def several_variants(self) -> bool:
        return len(self._head_variants) > 1

    @cached_property
    def compared(self) -> int:
        """The number of cells that were tested."""
        return sum(cell.p is not None for cell in self.cells)

    def select(self, *kinds: CellKind) -> Sequence[CellComparison]:
        """Return the cells of some kinds, the surest first."""
        chosen = [cell for cell in self.cells if cell.kind in kinds]
        chosen.sort(key=lambda cell: 1.0 if cell.p is None else cell.p)
        return tuple(chosen)

    def worse_variants(self, *, beyond_regressions: bool = False) -> Iterator[VariantComparison]:
        """Yield the variants that are worse as a whole, the surest first.

        With `beyond_regressions`, those that are so even without the cells that regressed.
        """
        for variant in sorted(self.variants, key=lambda variant: variant.adjusted_p):
            p = variant.adjusted_p_of_rest if beyond_regressions else variant.adjusted_p
            if p <= self.alpha:
                yield variant


@dataclass(frozen=True, slots=True)
class NoComparison:
    """The reason why a report could not be compared.

    Attributes:
        reason: the reason, without a subject.
        expected: True if there should have been a comparison, because there is a baseline or nobody
            knows that there is none; False where none can be expected, as on a first run.
    """

    reason: str
    expected: bool = False

    @property
    def sentence(self) -> str:
        """`no baseline: there is no report at main/report.json`."""
        return f"no baseline: {self.reason}"


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
            With 0, the planned runs decide.
        alpha: the accepted chance of a false alarm, in (0, 1).
        is_selection: the report is of a part of its suite, so that what only the base has was not
            removed.
    """
    base = cut_at_falls(base)
    if is_selection:
        base = base.restrict_to({cell.key[0] for cell in head})
    variants = match_variants(_variants_of(head), base.variants)
    matched, unmatched = _match_cells(head, base, variants)
    failed = failed_confirmations(cell.head for cell in matched)
    if failed:
        matched = [
            cell.without_confirmation() if cell.head.variant in failed else cell for cell in matched
        ]
    cells = _compare_cells(matched, confirm_runs, alpha)
    suspicious = [cell.head.confirmed for cell in matched if cell.suspicious]
    unconfirmed = 0
    if any(suspicious):
        unconfirmed = suspicious.count(False)
    return Comparison(
        baseline=base,
        confirm_runs=confirm_runs,
        usual_runs=_commonest([cell.head.planned.graded for cell in matched]),
        alpha=alpha,
        variants=_compare_variants(matched, cells, variants, alpha),
        cells=(*cells, *unmatched),
        unconfirmed=unconfirmed,
    )


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


def unnamable_suspects(comparison: Comparison) -> Sequence[CellComparison]:
    """Return the suspects that `confirm_runs: auto` cannot name.

    The base has too few runs of them.
    """
    if comparison.confirm_runs != "auto":
        return ()
    runs, cells, alpha = comparison.usual_runs, comparison.compared, comparison.alpha
    return [
        cell
        for cell in comparison.select("suspect")
        if runs_to_confirm(runs, cell.base.graded, cells, alpha) is None
    ]


def _commonest(numbers: Sequence[int]) -> int:
    """Return the commonest number; the smallest of several; 0 of none."""
    if not numbers:
        return 0
    counts = Counter(numbers)
    most = max(counts.values())
    return min(number for number, count in counts.items() if count == most)


def _variants_of(head: Iterable[HeadCell]) -> Sequence[Variant]:
    return [Variant(*names) for names in dict.fromkeys([cell.key[1:] for cell in head])]


def match_variants(head: Iterable[Variant], base: Iterable[Variant]) -> Mapping[Variant, Variant]:
    """Map each variant to the one of the base that it is compared with.

    That is the one of the same name. Where only one is left on either side, these two are compared:
    a model or prompt under another name is a change to be tested, not another suite.
    """
    mine, theirs = dict.fromkeys(head), dict.fromkeys(base)
    matched = {variant: variant for variant in mine if variant in theirs}
    new = [variant for variant in mine if variant not in matched]
    gone = [variant for variant in theirs if variant not in matched]
    if len(new) == len(gone) == 1:
        matched[new[0]] = gone[0]
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
    reports = max((history.pooled_reports for history in histories), default=0)
    pool_size = reports
    for age in range(1, reports):
        split = split_histories(histories, age)
        if stratified_two_sided(split, largest_support=_EXACT_ENOUGH) <= DISAGREEMENT:
            pool_size = age
            break
    tables = _pool(cells, pool_size)
    pooled = stratified_lower(tables)
    newest = stratified_lower(_pool(cells, 1))
    return Fall(max(pooled, newest / NEWEST_ALONE), tables)


def _pool(cells: Iterable[tuple[Tally, History]], reports: int) -> list[Table]:
    """Return each cell against its newest `reports` reports."""
    tables = []
    for head, history in cells:
        base = history.sums[min(reports, history.pooled_reports)]
        tables.append((*head, *base))
    return tables


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

    @cached_property
    def pooled(self) -> Tally:
        """The runs of the base that count."""
        return self.base.history.tally

    @cached_property
    def p(self) -> float:
        """The chance that the planned runs are as low as they are."""
        return fisher_lower(*self.head.planned, *self.pooled)

    @cached_property
    def suspicious(self) -> bool:
        """Return True if the planned runs are below the base beyond what is usual."""
        return self.head.planned.rate < self.pooled.rate and self.p <= SUSPICION


def group_by_variant(cells: Iterable[MatchedCell]) -> Mapping[Variant, Sequence[MatchedCell]]:
    """Return the cells of each variant."""
    groups: dict[tuple[str, str | None], list[MatchedCell]] = defaultdict(list)
    for cell in cells:
        groups[cell.head.key[1:]].append(cell)
    return {Variant(*names): found for names, found in groups.items()}


def planned_fall(cells: Iterable[MatchedCell]) -> Fall:
    """Test the planned runs of some cells of a variant for a drop."""
    return fall([(cell.head.planned, cell.base.history) for cell in cells])


def comparable_cells(head: Sequence[HeadCell], base: Baseline) -> list[MatchedCell]:
    """Return the cells that both sides have graded runs of, for the same question and grading."""
    base = cut_at_falls(base)
    variants = match_variants(_variants_of(head), base.variants)
    return _match_cells(head, base, variants)[0]


def base_keys(head: Sequence[HeadCell], base: Baseline) -> Mapping[CellKey, CellKey]:
    """Map each cell to its name in the baseline, where its case or variant may be renamed."""
    variants = match_variants((cell.variant for cell in head), base.variants)
    mine = _by_base_key(head, variants)
    old_names = _old_names(mine, base)
    return {
        cell.key: (old_names.get(base_key, base_key[0]), *base_key[1:])
        for base_key, cell in mine.items()
    }


def _by_base_key(
    head: Sequence[HeadCell], variants: Mapping[Variant, Variant]
) -> Mapping[CellKey, HeadCell]:
    """Return the cells by the names that they have in the baseline, where no case was renamed."""
    base_names = {(mine.provider, mine.prompt): theirs for mine, theirs in variants.items()}
    found = {}
    for cell in head:
        key = cell.key
        if key[1:] in base_names:
            key = _key(key[0], base_names[key[1:]])
        found[key] = cell
    return found


def _match_cells(
    head: Sequence[HeadCell], base: Baseline, variants: Mapping[Variant, Variant]
) -> tuple[list[MatchedCell], list[CellComparison]]:
    """Return the cells that can be compared, and the findings on all others."""
    mine = _by_base_key(head, variants)
    old_names = _old_names(mine, base)
    matched: list[MatchedCell] = []
    rest: list[CellComparison] = []
    known = set(mine)
    for key, cell in mine.items():
        old_name = old_names.get(key)
        base_key = (old_name or key[0], key[1], key[2])
        known.add(base_key)
        found = base.cells.get(base_key)
        if found is None:
            rest.append(_untested_cell("new", cell.key, cell))
        elif found.fingerprint != cell.fingerprint:
            rest.append(_edited_cell(cell, found))
        elif cell.planned.graded and found.history.tally.graded and not cell.quarantined:
            matched.append(MatchedCell(cell, found, old_name))
        else:
            rest.append(_untested_cell("not compared", cell.key, cell, found.history.tally))
    for key, base_cell in base.cells.items():
        if key not in known:
            rest.append(_untested_cell("removed", key, base=base_cell.history.tally))
    return matched, rest


def _edited_cell(head: HeadCell, base: BaseCell) -> CellComparison:
    newest = base.history.evidence[0].tally if base.history.evidence else NO_RUNS
    regraded = grading_half(base.fingerprint) != grading_half(head.fingerprint)
    return replace(_untested_cell("edited", head.key, head, newest), regraded=regraded)


def _untested_cell(
    kind: CellKind, key: CellKey, head: HeadCell | None = None, base: Tally = NO_RUNS
) -> CellComparison:
    case, provider, prompt = key
    return CellComparison(
        case=case,
        provider=provider,
        prompt=prompt,
        kind=kind,
        head=head.planned if head else NO_RUNS,
        base=base,
        critical=head.critical if head else False,
    )


def _old_names(mine: Mapping[CellKey, HeadCell], base: Baseline) -> Mapping[CellKey, str]:
    """Find the cells whose case has another name in the base: same question, same grading."""
    gone: dict[tuple[str, str, str | None], list[str]] = defaultdict(list)
    for key, cell in base.cells.items():
        if key not in mine:
            gone[cell.fingerprint, *key[1:]].append(key[0])
    names = {}
    for key, head_cell in mine.items():
        if key not in base.cells:
            candidates = gone.get((head_cell.fingerprint, *key[1:]))
            if candidates:
                names[key] = candidates.pop(0)
    return names


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


class _CellTest(NamedTuple):
    """The tests of one cell by itself.

    Args:
        cell: the cell.
        runs: the runs of the head that speak for it.
        drop: the p-value of a drop.
        named_drop: the same, but 1 if the drop may not be named.
        rise: the p-value of a rise; 1 for a suspect.
    """

    cell: MatchedCell
    runs: Tally
    drop: float
    named_drop: float
    rise: float


def _test_cell(cell: MatchedCell, confirm_runs: ConfirmRuns) -> _CellTest:
    """Test one cell by itself for a drop and for a rise.

    A drop may be named only if the cell was a suspect and has been confirmed: then all its runs
    speak for it.
    """
    runs = cell.head.planned
    if not cell.suspicious:
        drop = fisher_lower(*runs, *cell.pooled)
        rise = fisher_upper(*runs, *cell.pooled)
        return _CellTest(cell, runs, drop, named_drop=1.0, rise=rise)
    runs = add_tallies((runs, cell.head.confirming))
    drop = fisher_lower(*runs, *cell.pooled)
    confirmed = confirm_runs == 0 or cell.head.confirmed
    return _CellTest(cell, runs, drop, named_drop=drop if confirmed else 1.0, rise=1.0)


def _compare_cells(
    matched: Sequence[MatchedCell], confirm_runs: ConfirmRuns, alpha: float
) -> list[CellComparison]:
    """Test each cell by itself, and classify it."""
    tests = [_test_cell(cell, confirm_runs) for cell in matched]
    adjusted_drops = benjamini_hochberg([test.named_drop for test in tests])
    adjusted_rises = benjamini_hochberg([test.rise for test in tests])
    compared = []
    for test, drop, rise in zip(tests, adjusted_drops, adjusted_rises, strict=True):
        cell = test.cell
        case, provider, prompt = cell.head.key
        p, adjusted_p = test.drop, drop
        rose = rise <= alpha and test.runs.rate > cell.pooled.rate
        if rose:
            p, adjusted_p = test.rise, rise
        kind = _classify(test, drop, alpha, rose=rose)
        compared.append(
            CellComparison(
                case=case,
                provider=provider,
                prompt=prompt,
                kind=kind,
                head=test.runs,
                base=cell.pooled,
                base_reports=cell.base.history.pooled_reports,
                p=p,
                adjusted_p=adjusted_p,
                renamed_from=cell.renamed_from,
                critical=cell.head.critical,
            )
        )
    return compared


def _classify(test: _CellTest, adjusted_drop: float, alpha: float, *, rose: bool) -> CellKind:
    """Return what a cell is. A name must show against the recent pool by itself, too."""
    cell, head, base = test.cell, test.runs, test.cell.pooled
    if cell.suspicious and head.rate < base.rate:
        if adjusted_drop <= alpha and fisher_lower(*head, *cell.base.history.recent) <= alpha:
            return "regressed"
        if test.drop <= SUSPICION:
            return "suspect"
    if rose and fisher_upper(*head, *cell.base.history.recent) <= alpha:
        return "fixed"
    if head.rate == base.rate and head.rate in (0, 1):
        return "unchanged"
    return "flaky"


def _compare_variants(
    matched: Sequence[MatchedCell],
    cells: Sequence[CellComparison],
    variants: Mapping[Variant, Variant],
    alpha: float,
) -> tuple[VariantComparison, ...]:
    """Test every variant that has cells to compare.

    Confirm runs take no part: they were chosen for their results.
    """
    by_variant = group_by_variant(matched)
    regressed = {cell.key for cell in cells if cell.kind == "regressed"}
    falls, falls_of_rest = [], []
    for chosen in by_variant.values():
        found = found_of_rest = planned_fall(chosen)
        others = [cell for cell in chosen if cell.head.key not in regressed]
        if len(others) < len(chosen):
            found_of_rest = planned_fall(others)
        falls.append(found)
        falls_of_rest.append(found_of_rest)
    adjusted = holm([found.p for found in falls])
    adjusted_of_rest = holm([found.p for found in falls_of_rest])
    compared = []
    for number, (variant, chosen) in enumerate(by_variant.items()):
        tables = falls[number].tables
        compared.append(
            VariantComparison(
                provider=variant.provider,
                prompt=variant.prompt,
                base_provider=variants[variant].provider,
                base_prompt=variants[variant].prompt,
                cells=len(chosen),
                head_rate=fmean([passed / graded for passed, graded, _, _ in tables]),
                base_rate=fmean([passed / graded for _, _, passed, graded in tables]),
                p=falls[number].p,
                adjusted_p=adjusted[number],
                adjusted_p_of_rest=adjusted_of_rest[number],
                differences=differences(
                    tables,
                    [cell.head.per_run for cell in chosen],
                    [cell.base.per_run for cell in chosen],
                    1 - alpha,
                ),
            )
        )
    return tuple(compared)
