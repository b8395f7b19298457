"""The comparison of a report with a baseline: its cells, cases, tags and variants."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb
from statistics import fmean
from typing import TYPE_CHECKING, Literal, NamedTuple

from ci_evals.gate.baseline import (
    BaseCell,
    Baseline,
    BrokenVariant,
    ReportedCell,
    tally_of,
)
from ci_evals.gate.cases import (
    CaseComparison,
    MetricComparison,
    TagComparison,
    compare_metrics,
    compare_tags,
)
from ci_evals.gate.cells import (
    CellComparison,
    CellKind,
    MatchedCell,
    Matching,
    cell_key,
    match_cells,
    match_variants,
    variants_of,
    waived_cells,
)
from ci_evals.gate.differences import Differences, differences
from ci_evals.model.case import Variant
from ci_evals.model.fields import Share
from ci_evals.model.plan import CellKey
from ci_evals.model.report import MainNow, Tally
from ci_evals.model.rules import Gate
from ci_evals.stats.differences import ScoreMeans
from ci_evals.stats.exact_tests import benjamini_hochberg, fisher_lower, stratified_lower
from ci_evals.stats.thresholds import MAIN_FELL_P, SUSPECT_CELL_P

if TYPE_CHECKING:
    from ci_evals.gate.confirmation import Confirmation, FurtherRuns, NowTest

Change = Literal[
    "worse",
    "probably worse",
    "can't tell",
    "fixed",
    "varies",
    "unchanged",
    "new",
    "removed",
    "edited",
    "not compared",
]
"""The kind of a cell in the words of the pages."""

RateChange = Literal[
    "worse", "probably worse", "not this change", "can't tell", "no change", "better"
]
"""What became of the pass rate of several cells together, such as those of a variant or a tag."""


class BaseRate(NamedTuple):
    """A mean pass rate of the base branch.

    Args:
        rate: the mean over cells.
        newest_reports: how many of the newest reports it is of; None if all that are pooled.
    """

    rate: float
    newest_reports: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesNow:
    """A variant here and on main, over the `rounds` that both sides made in the same minutes.

    Those here have the further rounds besides. `main_fell` if main's are below its reports.
    `scores` are the mean scores, if these decide.
    """

    rounds: int
    here: Share
    main: Share
    p: Share
    main_fell: bool = False
    scores: ScoreMeans | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantComparison:
    """One variant compared with its base, over the `cells` that both sides have graded runs of.

    Rates are means over these cells, of the runs that `p` tests: the planned ones and, with
    `further_rounds`, those, too, against the newest `pooled_reports` of the base. `adjusted_p`
    allows for the number of variants, and both for the `overdispersion` of the base's reports. A
    variant that `fell` passes less often as a whole: only where nothing of it is named, unless the
    gate allows that. Where graders give other than 0 and 1, the mean `scores` are tested instead.
    One that is `better` passes more often, although cases of it are named, and `on_regression: net`
    waives these; `rise_p` is then the chance of a rise this large.
    `base_provider` and `base_prompt` name the variant that it was compared with.
    """

    provider: str
    prompt: str | None = None
    base_provider: str
    base_prompt: str | None = None
    cells: int
    head_rate: Share
    base_rate: Share
    pooled_reports: int
    further_rounds: bool = False
    overdispersion: float = 1.0
    p: Share
    adjusted_p: Share
    fell: bool
    better: bool = False
    rise_p: Share | None = None
    now: RatesNow | None = None
    scores: ScoreMeans | None = None
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

    @property
    def surely_higher(self) -> bool:
        """Return True if even the lower bound of the difference is a rise."""
        change = self.differences.pass_rate
        return change is not None and change.lower is not None and change.lower > 0


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A report compared with a baseline.

    It has every variant that both have, and every cell that either has; `cases` are those that got
    worse over their variants, `tags` all that some cells have and `metrics` all that graders name,
    the surest drop first. `usual_runs` is the number of planned runs that most of the tested cells
    have, 0 if none was tested; `confirmed` are the suspects that may be named, for they ran again
    as often as that takes; `unconfirmed` is the number of those that did not while others did,
    because they are too many.
    `main_now` has main's runs in the same minutes, which `main_collapsed` if they look like an
    outage; `pending` are the runs on both sides that are missing, as they were cut.
    """

    baseline: Baseline
    confirm_runs: int
    usual_runs: int
    alpha: float
    variants: tuple[VariantComparison, ...]
    cells: tuple[CellComparison, ...]
    cases: tuple[CaseComparison, ...] = ()
    tags: tuple[TagComparison, ...] = ()
    metrics: tuple[MetricComparison, ...] = ()
    confirmed: frozenset[CellKey] = frozenset()
    unconfirmed: int = 0
    main_now: MainNow | None = None
    main_collapsed: bool = False
    pending: "FurtherRuns | None" = None

    @property
    def main(self) -> str | None:
        """The name of main, if its runs now decided; None if its reports did."""
        if self.main_now is None or self.main_now.lack or not self.confirm_runs:
            return None
        return self.main_now.name

    @cached_property
    def counts(self) -> Mapping[CellKind, int]:
        """The number of cells of each kind."""
        return Counter(cell.kind for cell in self.cells)

    @cached_property
    def waived(self) -> frozenset[CellKey]:
        """The regressed cells that block nothing, as their variants are better as a whole."""
        better = [variant.variant for variant in self.variants if variant.better]
        return waived_cells((cell.key for cell in self.select("regressed")), better)

    @property
    def fallen_tags(self) -> Sequence[TagComparison]:
        """The tags whose cases surely passed less often, and fell further than the others.

        The surest comes first.
        """
        return [tag for tag in self.tags if tag.adjusted_p <= self.alpha and tag.stands_out]

    @property
    def fallen_metrics(self) -> Sequence[MetricComparison]:
        """The metrics that surely scored lower, and fell further than the others.

        The surest comes first.
        """
        return [
            metric
            for metric in self.metrics
            if metric.adjusted_p <= self.alpha and metric.stands_out
        ]

    @cached_property
    def by_case(self) -> Mapping[str, CaseComparison]:
        """The cases that got worse over their variants."""
        return {case.case: case for case in self.cases}

    def change(self, cell: CellComparison) -> Change:
        """Return what happened to a cell, in the words of the pages.

        A suspect is probably worse if luck explains its drop at most 5 times in 100, unless it had
        enough runs to be named: among many cells, some always look that bad.
        """
        match cell.kind:
            case "regressed":
                return "worse"
            case "suspect" if self._is_probable(cell):
                return "probably worse"
            case "suspect":
                return "can't tell"
            case "flaky":
                return "varies"
            case _:
                return cell.kind

    def change_of_variant(self, variant: VariantComparison) -> RateChange:
        """Return what happened to a variant as a whole.

        Whatever its own test says, it is worse if a cell of it is named.
        """
        if variant.fell or self.named_cases(variant.variant):
            return "worse"
        if variant.now is not None:
            return "not this change" if variant.now.main_fell else "can't tell"
        if variant.surely_higher:
            return "better"
        if variant.head_rate == variant.base_rate:
            return "no change"
        if variant.head_rate > variant.base_rate:
            return "can't tell"
        if main_fails_too(cell for cell in self.cells if cell.variant == variant.variant):
            return "not this change"
        return "probably worse" if variant.p <= self.alpha else "can't tell"

    def change_of_tag(self, tag: TagComparison, cells: Sequence[CellComparison]) -> RateChange:
        """Return what happened to the cells of a tag together, by the same rules."""
        if any(cell.kind == "regressed" for cell in cells):
            return "worse"
        if tag.head_rate == tag.base_rate:
            return "no change"
        if tag.head_rate > tag.base_rate:
            return "can't tell"
        if main_fails_too(cells):
            return "not this change"
        if tag.adjusted_p <= self.alpha:
            return "worse"
        return "probably worse" if tag.p <= self.alpha else "can't tell"

    def named_cases(self, variant: Variant) -> Sequence[str]:
        """Return the cases that are named on a variant, the surest first."""
        return [cell.case for cell in self._named_cells if cell.variant == variant]

    @cached_property
    def _named_cells(self) -> Sequence[CellComparison]:
        return self.select("regressed")

    def newest_reports(self, variant: VariantComparison) -> int | None:
        """Return how many of the newest reports a variant was tested against; None if all.

        Older ones are pooled for single cells only.
        """
        pooled = [cell.base_reports for cell in self.cells if cell.variant == variant.variant]
        if variant.pooled_reports >= max(pooled, default=0):
            return None
        return variant.pooled_reports

    def base_rate(self, cells: Iterable[CellComparison]) -> BaseRate | None:
        """Return the mean pass rate of cells on the base; None if none was compared.

        It is of the reports that their variant was tested against. Cells of several variants, whose
        reports may differ, have that of all reports.
        """
        compared = [cell for cell in cells if cell.p is not None]
        if not compared:
            return None
        newest = self.newest_reports_of(compared)
        rate = fmean([self.base_runs(cell, newest).rate for cell in compared])
        return BaseRate(rate, newest)

    def newest_reports_of(self, compared: Iterable[CellComparison]) -> int | None:
        """Return how many of the newest reports figures of these cells are of; None if all."""
        variants = {cell.variant for cell in compared}
        if len(variants) > 1:
            return None
        (tested,) = [each for each in self.variants if each.variant in variants]
        return self.newest_reports(tested)

    def base_runs(self, compared: CellComparison, newest_reports: int | None) -> Tally:
        """Return the runs of a cell in so many of the newest reports; None stands for all."""
        known = self.base_of(compared.key)
        if newest_reports is None or known is None:
            return compared.base
        return known.history.newest(newest_reports)

    def _is_probable(self, suspect: CellComparison) -> bool:
        assert suspect.p is not None  # only cells that were tested are suspects
        assert suspect.adjusted_p is not None
        if suspect.p > self.alpha:
            return False
        if suspect.adjusted_p <= self.alpha:  # only the newest reports do not show it
            return True
        return suspect.key not in self.confirmed or not self._has_enough_runs(suspect)

    def _has_enough_runs(self, suspect: CellComparison) -> bool:
        """Return True if as many runs can name a cell that always fails and never did before."""
        head, base = suspect.head.graded, suspect.base.graded
        return comb(base + head, base) * self.alpha >= self.compared

    def decisive_p(self, cell: CellComparison) -> float | None:
        """Return the adjusted p that a cell was judged by: that of its case, if that got worse."""
        if cell.kind == "regressed" and cell.case in self.by_case:
            return self.by_case[cell.case].adjusted_p
        return cell.adjusted_p

    @cached_property
    def cases_over_variants(self) -> int:
        """The number of cases that were tested over all their variants."""
        cells = Counter(cell.case for cell in self.cells if cell.p is not None)
        return sum(count > 1 for count in cells.values())

    @cached_property
    def by_key(self) -> Mapping[CellKey, CellComparison]:
        return {cell.key: cell for cell in self.cells}

    @cached_property
    def base_variants(self) -> Mapping[Variant, Variant]:
        """Each variant's counterpart in the baseline, where it has one."""
        return match_variants(self._head_variants, self.baseline.variants)

    @cached_property
    def _head_variants(self) -> Sequence[Variant]:
        return variants_of(cell.key for cell in self.cells if cell.kind != "removed")

    def base_variant(self, variant: Variant) -> Variant:
        """Return a variant's name in the baseline."""
        return self.base_variants.get(variant, variant)

    def base_key(self, key: CellKey) -> CellKey:
        """Return a cell's name in the baseline."""
        if found := self.by_key.get(key):
            return found.base_key(self.base_variants)
        return cell_key(key[0], self.base_variant(Variant(*key[1:])))

    @cached_property
    def broken(self) -> Sequence[BrokenVariant]:
        """The variants of which no cell was compared because the base branch itself fails them."""
        failing = {
            self.base_variant(cell.variant) for cell in self.cells if cell.kind == "not compared"
        }
        return [each for each in self.baseline.broken if each.variant in failing]

    def is_broken(self, variant: Variant) -> bool:
        """Return True if the base branch itself fails a variant of the report."""
        return self.base_variant(variant) in self.baseline.broken_variants

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

    def worse_variants(self) -> Sequence[VariantComparison]:
        """Return the variants that are worse as a whole, the surest first."""
        fallen = [variant for variant in self.variants if variant.fell]
        fallen.sort(key=lambda variant: variant.adjusted_p)
        return fallen


def main_fails_too(cells: Iterable[CellComparison]) -> bool:
    """Return True if main now fails all cells that look worse, and there are some."""
    cells = list(cells)
    suspects = [cell for cell in cells if cell.kind == "suspect"]
    return any(cell.cleared for cell in cells) and all(cell.cleared for cell in suspects)


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
    head: Sequence[ReportedCell],
    base: Baseline,
    *,
    confirm_runs: int,
    rules: Gate | None = None,
    is_selection: bool = False,
    main_now: MainNow | None = None,
) -> Comparison:
    """Compare a report with a baseline.

    Each cell is tested by itself (Fisher, one-sided; Benjamini and Hochberg over all of them), each
    case over its variants, and each variant as a whole (exact stratified tests over their cells,
    Holm over the cases and over the variants).

    Args:
        head: the cells of the report.
        base: the baseline.
        confirm_runs: how many runs name a candidate. With 0, the planned runs decide.
        rules: the accepted chance of a false alarm, how many cases may regress before the gate is
            red, and whether a variant that is better as a whole waives them; None means the
            defaults.
        is_selection: the report is of a part of its suite, so that what only the base has was not
            removed.
        main_now: main's runs in the same minutes; without them, its reports decide.
    """
    if is_selection:
        base = base.restrict_to({cell.key[0] for cell in head})
    gate = rules or Gate()
    matching = match_cells(head, base)
    found: Confirmation
    collapsed = False
    pending = None
    if _main_decides(main_now, confirm_runs):
        from ci_evals.gate.both_sides import BothSides, has_collapsed_now

        found = BothSides(matching, confirm_runs, gate)
        collapsed = has_collapsed_now(matching)
        pending = found.next_runs()
    else:
        from ci_evals.gate.history_only import HistoryOnly, without_failed_repeats

        matching = without_failed_repeats(matching)
        found = HistoryOnly(matching, confirm_runs, gate)
    confirmed = frozenset(cell.head.key for cell in found.confirmed)
    for case in found.named_cases:
        confirmed |= {cell.head.key for cell in matching.cells if cell.head.key[0] == case}
    unconfirmed = 0
    if confirmed:
        suspicious = sum(cell.suspicious for cell in matching.cells)
        unconfirmed = suspicious - len(found.suspects)
    return Comparison(
        baseline=base,
        confirm_runs=confirm_runs,
        usual_runs=_commonest([cell.head.planned.graded for cell in matching.cells]),
        alpha=gate.alpha,
        variants=tuple(_compare_variants(matching, found)),
        cells=(*_compare_cells(found), *matching.rest),
        cases=tuple(found.named_cases.values()),
        tags=tuple(compare_tags(matching)),
        metrics=tuple(compare_metrics(matching)),
        confirmed=confirmed,
        unconfirmed=unconfirmed,
        main_now=main_now,
        main_collapsed=collapsed,
        pending=pending,
    )


def _main_decides(main_now: MainNow | None, confirm_runs: int) -> bool:
    return main_now is not None and not main_now.lack and confirm_runs > 0


def next_runs(
    head: Sequence[ReportedCell],
    base: Baseline,
    confirm_runs: int,
    rules: Gate,
    *,
    main_now: MainNow | None = None,
    is_whole: bool = True,
) -> "FurtherRuns | None":
    """Return the runs to make next, before more can be said; None if there are none.

    Args:
        head: the cells of the report.
        base: the baseline.
        confirm_runs: how many runs name a candidate.
        rules: those that the report will be judged by.
        main_now: main's runs in the same minutes; without them, its reports decide.
        is_whole: the cells are those of the whole suite.
    """
    kind: type[Confirmation]
    if _main_decides(main_now, confirm_runs):
        from ci_evals.gate.both_sides import BothSides

        kind = BothSides
    else:
        from ci_evals.gate.history_only import HistoryOnly

        kind = HistoryOnly
    matching = match_cells(head, base)
    return kind(matching, confirm_runs, rules, is_whole).next_runs()


def _commonest(numbers: Sequence[int]) -> int:
    """Return the commonest number; the smallest of several; 0 of none."""
    if not numbers:
        return 0
    counts = Counter(numbers)
    most = max(counts.values())
    return min(number for number, count in counts.items() if count == most)


def _compare_cells(found: "Confirmation") -> Iterator[CellComparison]:
    """Classify each cell by its tests."""
    cells = found.matching.cells
    adjusted_rises = benjamini_hochberg([cell.rise for cell in cells])
    for cell, adjusted_rise in zip(cells, adjusted_rises, strict=True):
        p, adjusted_p = found.drops.get(cell.head.key, (cell.drop, 1.0))
        rose = adjusted_rise <= found.alpha and cell.runs.rate > cell.pooled.rate
        if rose:
            p, adjusted_p = cell.rise, adjusted_rise
        case, provider, prompt = cell.head.key
        yield CellComparison(
            case=case,
            provider=provider,
            prompt=prompt,
            kind=_classify(cell, is_named=found.is_named(cell), rose=rose),
            head=cell.runs,
            base=cell.pooled,
            base_reports=cell.base.history.pooled_reports,
            p=p,
            adjusted_p=adjusted_p,
            renamed_from=cell.renamed_from,
            critical=cell.head.critical,
            by_main=cell.head.by_main,
            here_now=tally_of(cell.head.here_outcomes),
            main_now=tally_of(cell.head.main_outcomes),
            cleared=not found.is_named(cell) and _main_fell(cell),
        )


def _main_fell(cell: MatchedCell) -> bool:
    """Return True if main's runs now are below its reports."""
    now = tally_of(cell.head.main_outcomes)
    return now.graded > 0 and fisher_lower(*now, *cell.pooled) <= MAIN_FELL_P


def _classify(cell: MatchedCell, *, is_named: bool, rose: bool) -> CellKind:
    if is_named:
        return "regressed"
    head, base = cell.runs, cell.pooled
    if cell.suspicious and head.rate < base.rate and cell.drop <= SUSPECT_CELL_P:
        return "suspect"
    if rose:
        return "fixed"
    if head.is_mixed or base.is_mixed:
        return "flaky"
    return "unchanged"


def _rates_now(test: "NowTest | None", cells: Sequence[MatchedCell]) -> RatesNow | None:
    if test is None or not test.tables:
        return None
    here = fmean([passed / graded for passed, graded, _, _ in test.tables])
    main = fmean([passed / graded for _, _, passed, graded in test.tables])
    of_main = [(*tally_of(cell.head.main_outcomes), *cell.pooled) for cell in cells]
    p_of_main = stratified_lower([table for table in of_main if table[1] and table[3]])
    main_fell = p_of_main <= MAIN_FELL_P
    return RatesNow(
        rounds=test.rounds,
        here=here,
        main=main,
        p=test.p,
        main_fell=main_fell,
        scores=test.scores,
    )


def _compare_variants(matching: Matching, found: "Confirmation") -> Iterator[VariantComparison]:
    """Compare every variant that has cells to compare.

    Runs that confirm suspects take no part, as they were chosen for their results; further rounds
    of all cells do.
    """
    for variant, fall in found.falls.items():
        rise = found.rises.get(variant)
        chosen = matching.by_variant[variant]
        base = matching.variants[variant]
        tables = fall.against_history.tables
        if len(tables) < len(chosen):
            chosen = found.tested_variants[variant]
        yield VariantComparison(
            provider=variant.provider,
            prompt=variant.prompt,
            base_provider=base.provider,
            base_prompt=base.prompt,
            cells=len(chosen),
            head_rate=fmean([passed / graded for passed, graded, _, _ in tables]),
            base_rate=fmean([passed / graded for _, _, passed, graded in tables]),
            pooled_reports=fall.against_history.reports,
            further_rounds=fall.against_history.further_rounds,
            overdispersion=matching.overdispersion_of_falls(variant),
            p=fall.against_history.p,
            adjusted_p=fall.adjusted_p,
            fell=fall.fell,
            better=variant in found.better,
            rise_p=rise.p if rise is not None else None,
            now=_rates_now(fall.now, chosen),
            scores=fall.against_history.scores,
            differences=differences(
                tables,
                [cell.head.per_run for cell in chosen],
                [cell.base.per_run for cell in chosen],
                1 - found.alpha,
                matching.overdispersion(variant),
            ),
        )
