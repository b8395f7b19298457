"""The pieces of report.json and `--format json` that speak of the baseline: their types, and how these are filled."""

from collections.abc import Mapping

from msgspec import Struct, structs

from ci_evals.reports.findings import JudgedCell
from ci_evals.reports.summary import Summary
from ci_evals.verdict.comparison import NoComparison, VariantComparison
from ci_evals.verdict.history import TREND_POINTS, ReportRef, Tally, TrendPoint
from ci_evals.verdict.pairing import KINDS, CellComparison, CellKind
from ci_evals.verdict.sentences import baseline_sentence, cell_sentence, variant_sentence


class CellComparisonEntry(Struct, frozen=True, kw_only=True):
    """A cell beside its base, in numbers and in words; see `CellComparison`.

    `before` is what the baseline answered to a regressed cell, if it was at hand.
    """

    kind: CellKind
    head: Tally
    base: Tally
    base_reports: int
    p: float | None
    adjusted_p: float | None
    renamed_from: str | None
    sentence: str
    before: str | None


class VariantComparisonEntry(VariantComparison, frozen=True, kw_only=True):
    """A variant beside its base, in numbers and in words."""

    sentence: str


class ComparisonEntry(Struct, frozen=True, kw_only=True):
    """The report beside its baseline; `missing` says why there is none. `removed` are cells that only the base has.

    `name` is what sentences call the baseline.
    """

    missing: str | None
    sentence: str | None
    name: str | None
    baseline: tuple[ReportRef, ...]
    confirm_runs: int
    alpha: float | None
    counts: Mapping[CellKind, int]
    variants: tuple[VariantComparisonEntry, ...]
    removed: tuple[CellComparison, ...]


class HistoryEntry(Struct, frozen=True):
    """The reports before this one that its cells carry counts of, and what they came to; newest first."""

    reports: tuple[ReportRef, ...]
    trend: tuple[TrendPoint, ...]


def history_entry(summary: Summary) -> HistoryEntry:
    """What the baseline hands on through this report."""
    if (comparison := summary.compared) is None:
        return HistoryEntry((), ())
    own = summary.report.id
    reports = tuple(ref for ref in comparison.baseline.reports if ref.id != own)
    trend = [point for point in comparison.baseline.trend if point.report.id != own]
    return HistoryEntry(reports, tuple(trend[: TREND_POINTS - 1]))


def comparison_entry(summary: Summary) -> ComparisonEntry | None:
    """The comparison but for the cells of the report; None if nobody asked for one."""
    comparison = summary.comparison
    if comparison is None:
        return None
    if isinstance(comparison, NoComparison):
        return ComparisonEntry(
            missing=comparison.reason,
            sentence=None,
            name=None,
            baseline=(),
            confirm_runs=0,
            alpha=None,
            counts={},
            variants=(),
            removed=(),
        )
    return ComparisonEntry(
        missing=None,
        sentence=baseline_sentence(comparison, summary.report.started_at),
        name=comparison.baseline.name,
        baseline=comparison.baseline.reports,
        confirm_runs=comparison.confirm_runs,
        alpha=comparison.alpha,
        counts={kind: count for kind in KINDS if (count := comparison.counts.get(kind, 0))},
        variants=tuple(
            VariantComparisonEntry(**structs.asdict(each), sentence=variant_sentence(comparison, each))
            for each in comparison.variants
        ),
        removed=tuple(comparison.of("removed")),
    )


def cell_comparison_entry(summary: Summary, cell: JudgedCell) -> CellComparisonEntry | None:
    """One cell beside its base; None without a comparison."""
    comparison = summary.compared
    found = comparison.by_key.get(cell.key) if comparison else None
    if comparison is None or found is None:
        return None
    return CellComparisonEntry(
        kind=found.kind,
        head=found.head,
        base=found.base,
        base_reports=found.base_reports,
        p=found.p,
        adjusted_p=found.adjusted_p,
        renamed_from=found.renamed_from,
        sentence=cell_sentence(comparison, found),
        before=summary.before.get(found.key),
    )
