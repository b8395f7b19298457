"""The pieces that report.json and `--format json` are made of: the types of their entries, and how these are filled."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from ci_evals.model import Judging
from ci_evals.report import Report
from ci_evals.reports.comparison_entries import CellComparisonEntry, cell_comparison_entry
from ci_evals.reports.findings import JudgedCell, Outcome
from ci_evals.reports.labels import TaskReport, task_reports
from ci_evals.reports.notes import new_runs
from ci_evals.reports.summary import Summary
from ci_evals.reports.variants import VariantReport, variant_reports

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
        "passed": cell.counts.passed,
        "failed": cell.counts.failed,
        "errored": cell.counts.errored,
        "planned": cell.counts.planned,
    }
