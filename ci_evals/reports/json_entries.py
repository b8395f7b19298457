"""The pieces that report.json and `--format json` are made of: the types of their entries, and how these are filled."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from ci_evals.model import Judging
from ci_evals.report import Report
from ci_evals.reports.findings import JudgedCell, Outcome
from ci_evals.reports.labels import TaskReport, task_reports
from ci_evals.reports.notes import new_runs
from ci_evals.reports.summary import Summary
from ci_evals.reports.variants import VariantReport, variant_reports
from ci_evals.verdict.comparison import Comparison, NoComparison, VariantComparison
from ci_evals.verdict.history import TREND_POINTS, ReportRef, Tally, TrendPoint
from ci_evals.verdict.pairing import KINDS, CellComparison, CellKind
from ci_evals.verdict.sentences import baseline_sentence, cell_sentence, variant_sentence

SCHEMA_VERSION: Literal[2] = 2


class CountsEntry(Struct, frozen=True):
    """How runs ended. `planned` includes those that never took place."""

    passed: int
    failed: int
    errored: int
    planned: int


class JudgingEntry(Struct, frozen=True):
    """Calls of models that judge. `cost_usd` is that of the calls whose price is known; None if there are none."""

    calls: int
    cost_usd: float | None
    priced_calls: int
    input_tokens: int
    output_tokens: int


class TotalsEntry(CountsEntry, frozen=True):
    """The counts of all runs, the mean over cells of their share of passed runs, and the mean score.

    `recorded` runs were answered by a journal instead of the provider; `budget_violations` are runs that took more
    than `budget.per_run` allows. `judging` is what models that judge took, None if none was asked. `cost_usd` is what
    all calls of known price cost together, those of confirm runs and of judges included; None if there are none.
    """

    pass_rate: float | None
    match_rate: float | None
    recorded: int
    budget_violations: int
    judging: JudgingEntry | None
    cost_usd: float | None


class ResumptionEntry(Struct, frozen=True):
    """What a resumed run found in earlier journals, in runs; `torn` are journals whose last line was cut off."""

    kept: int
    retried: int
    changed: int
    new: int
    torn: tuple[str, ...]


class FiguresEntry(Struct, frozen=True):
    """Latencies over runs that took place, cost over the `priced_runs` whose price is known, tokens as reported."""

    latency_mean_s: float | None
    latency_p50_s: float | None
    latency_p95_s: float | None
    cost_usd: float | None
    priced_runs: int
    input_tokens: int
    output_tokens: int


class LabelEntry(Struct, frozen=True):
    """One label of a classification; None where a figure is not defined."""

    label: str
    precision: float | None
    recall: float | None
    f1: float | None
    roc_auc: float | None


class ClassificationEntry(Struct, frozen=True):
    """What `classify` found in one task: `confusion` has a row for each true label, a column for each predicted one."""

    task: str
    accuracy: float | None
    macro_f1: float | None
    labels: tuple[LabelEntry, ...]
    confusion: tuple[tuple[int, ...], ...]


class VariantEntry(Struct, frozen=True):
    """One provider with one prompt. `lower` and `upper` bound its pass rate, each at the gate's confidence.

    `pass_at_k` is the chance that of `k` runs of a case one passes, `pass_hat_k` that all do; null for single runs.
    """

    provider: str
    prompt: str | None
    counts: CountsEntry
    pass_rate: float | None
    lower: float | None
    upper: float | None
    match_rate: float | None
    figures: FiguresEntry
    grader_means: Mapping[str, float]
    k: int | None
    pass_at_k: float | None
    pass_hat_k: float | None
    classifications: tuple[ClassificationEntry, ...]


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


class CellEntry(Struct, frozen=True, kw_only=True):
    """One case on one variant. `bar` is the share of its runs that must pass for it not to be a failed cell."""

    case: str
    provider: str
    prompt: str | None
    outcome: Outcome
    bar: float
    passed: int
    failed: int
    errored: int
    planned: int
    tags: tuple[str, ...]
    file: str
    line: int | None
    comparison: CellComparisonEntry | None


class HistoryEntry(Struct, frozen=True):
    """The reports before this one that its cells carry counts of, and what they came to; newest first."""

    reports: tuple[ReportRef, ...]
    trend: tuple[TrendPoint, ...]


def totals_entry(report: Report) -> TotalsEntry:
    """The counts and rates of the whole report."""
    return TotalsEntry(
        *report.totals,
        pass_rate=report.pass_rate,
        match_rate=report.match_rate,
        recorded=report.columns.recorded,
        budget_violations=report.columns.budget_violations,
        judging=_judging(report.judging),
        cost_usd=report.spent.total_usd,
    )


def _judging(judging: Judging) -> JudgingEntry | None:
    if not judging.calls:
        return None
    tokens = judging.input_tokens, judging.output_tokens
    return JudgingEntry(judging.calls, judging.known_cost_usd, judging.priced, *tokens)


def resumption_entry(report: Report) -> ResumptionEntry | None:
    """What was taken over from earlier journals; None if nothing was to be."""
    if (found := report.resumption) is None:
        return None
    return ResumptionEntry(found.kept, found.retried, found.changed, new_runs(report), found.torn)


def history_entry(summary: Summary) -> HistoryEntry:
    """What the baseline hands on through this report."""
    comparison = summary.comparison
    if not isinstance(comparison, Comparison):
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
    comparison = summary.comparison
    if not isinstance(comparison, Comparison):
        return None
    found = comparison.by_key.get(summary.report.matrix.key(cell.cell))
    if found is None:
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


def variant_entries(summary: Summary) -> tuple[VariantEntry, ...]:
    """Every variant in the suite's order."""
    tasks = tuple(task_reports(summary.report))
    return tuple(_variant(variant, tasks) for variant in variant_reports(summary))


def _classification(task: TaskReport) -> ClassificationEntry:
    labels = tuple(LabelEntry(each.label, each.precision, each.recall, each.f1, each.roc_auc) for each in task.labels)
    return ClassificationEntry(task.task, task.accuracy, task.macro_f1, labels, task.table.counts)


def _variant(variant: VariantReport, tasks: Sequence[TaskReport]) -> VariantEntry:
    return VariantEntry(
        provider=variant.variant.provider,
        prompt=variant.variant.prompt,
        counts=CountsEntry(*variant.counts),
        pass_rate=variant.pass_rate,
        lower=variant.lower,
        upper=variant.upper,
        match_rate=variant.mean_score,
        figures=FiguresEntry(**(variant.figures._asdict() | {"cost_usd": variant.cost_usd})),
        grader_means=variant.grader_means,
        k=variant.draws,
        pass_at_k=variant.pass_at_k,
        pass_hat_k=variant.pass_hat_k,
        classifications=tuple(_classification(task) for task in tasks if task.variant == variant.variant),
    )


def cell_fields(summary: Summary, cell: JudgedCell) -> dict[str, Any]:
    """The fields of a `CellEntry`."""
    return {
        "comparison": cell_comparison_entry(summary, cell),
        "case": cell.case.id,
        "provider": cell.variant.provider,
        "prompt": cell.variant.prompt,
        "outcome": cell.outcome,
        "bar": cell.bar,
        "tags": cell.case.tags,
        "file": cell.case.file,
        "line": cell.case.line,
        **cell.counts._asdict(),
    }


def encode(value: Any) -> bytes:
    """One line of JSON in UTF-8. What no encoding has, a lone surrogate, becomes a question mark."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode("utf-8", "replace")
