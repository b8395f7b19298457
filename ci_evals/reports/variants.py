"""The columns of the matrix: figures, leaderboard, classifications and trends."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean
from typing import Final

from ci_evals.format import UNKNOWN, usd
from ci_evals.gate.bars import metrics_of
from ci_evals.gate.baseline import ReportRef, TrendPoint
from ci_evals.gate.rules import usual_latencies
from ci_evals.gate.wording.comparisons import (
    coverage_clause,
    latency_change,
    rate_basis,
    rate_change,
    ratio_change,
)
from ci_evals.model.case import Variant
from ci_evals.model.report import Counts, Figures, SuiteReport
from ci_evals.model.rules import BY_LABEL, USUAL_TASK, Gate
from ci_evals.reports.summary import Summary, base_noise, once_per_summary
from ci_evals.stats.rates import pass_at_k, pass_hat_k

MAX_LABELS_SHOWN: Final = 20
OVERLAP: Final = "the intervals overlap, so these runs cannot tell them apart"
TIES: Final = f"= tied: {OVERLAP}"

_FEWEST_RANKED = 3  # two variants are compared at a glance in the table of figures
_MOST_GIVEN = 4
_TREND_REPORTS = 10


@dataclass(frozen=True, slots=True)
class LabelReport:
    """The figures of one label; None for a figure that is not defined."""

    label: str
    truths: int
    precision: float | None
    recall: float | None
    f1: float | None
    roc_auc: float | None


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The figures of a task; `confusion` has true labels as rows, predicted ones as columns."""

    task: str
    accuracy: float | None
    macro_f1: float | None
    labels: tuple[LabelReport, ...]
    confusion: tuple[tuple[int, ...], ...]

    @property
    def name(self) -> str:
        return "labels" if self.task == USUAL_TASK else self.task

    def taken_for(self, row: int, show: Callable[[str], str]) -> str:
        """`15 × spam, 5 × ham`: the labels given for the true label of a row, by frequency."""
        pairs = zip(self.confusion[row], self.labels, strict=True)
        given = [(count, label.label) for count, label in pairs if count]
        given.sort(key=itemgetter(0), reverse=True)
        texts = [f"{count:,} × {show(label)}" for count, label in given[:_MOST_GIVEN]]
        if len(given) > _MOST_GIVEN:
            texts.append("…")
        return ", ".join(texts)


@dataclass(frozen=True, slots=True)
class MetricReport:
    """The mean score of the graders with this metric, with its bounds."""

    name: str
    mean: float
    lower: float
    upper: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantReport(Variant):
    """One provider with one prompt, and its figures.

    Rates and scores are fractions in [0, 1]; None if no run was graded. As in the gate, cases in
    quarantine are left out of counts, rates and scores, unless there are no others. Cost, tokens
    and latency are those of all runs.

    Attributes:
        pass_rate: the mean over cells of their share of passed runs, which the gate judges.
        lower, upper: its bounds, each at the gate's confidence.
        match_rate: the mean score.
        unpriced_runs: graded runs whose price is not known.
        recorded_runs: runs that were answered from a recording instead of by the provider.
        grader_means: the mean score of each grader, by its own name or its type.
        metrics: the mean score of each metric.
        k: the smallest number of graded runs of any cell that the gate judges; None if it is 1.
        pass_at_k: the chance that at least one of `k` runs of a case passes.
        pass_hat_k: the chance that all `k` runs of a case pass.
    """

    counts: Counts
    pass_rate: float | None
    lower: float | None
    upper: float | None
    match_rate: float | None
    figures: Figures
    unpriced_runs: int
    recorded_runs: int
    grader_means: Mapping[str, float]
    metrics: tuple[MetricReport, ...] = ()
    k: int | None
    pass_at_k: float | None
    pass_hat_k: float | None
    classifications: tuple[TaskReport, ...]

    @property
    def variant(self) -> Variant:
        """The variant without its figures, to be used as a key."""
        return Variant(self.provider, self.prompt)

    @property
    def unknown_cost(self) -> str:
        """The word for a cost that is not known."""
        if 0 < self.counts.graded <= self.recorded_runs:
            return "recorded"
        return "unknown"

    @property
    def cost_text(self) -> str:
        """`$0.012`, `$0.012 for 30 of 40 runs`, `unknown`, or `recorded` if nothing was called."""
        cost = usd(self.figures.cost_usd, self.unknown_cost)
        priced, unpriced = self.figures.priced_runs, self.unpriced_runs
        if priced and unpriced:
            return f"{cost} for {priced:,} of {priced + unpriced:,} runs"
        return cost


@once_per_summary
def variant_reports(summary: Summary) -> tuple[VariantReport, ...]:
    """Report on every variant, in the suite's order."""
    # One `k` for all variants: their chances can only be compared for equally many runs.
    judged = [summary.report.by_cell[cell] for cell in summary.report.judged_cells]
    graded = [counts.graded for counts in judged if counts.graded]
    k = min(graded, default=None)
    if k == 1:
        k = None
    return tuple(_variant_report(summary, variant, k) for variant in summary.report.plan.variants)


def _variant_report(summary: Summary, variant: Variant, k: int | None) -> VariantReport:
    report = summary.report
    confidence = (summary.gate or Gate()).confidence
    cells = report.judged_cells_of(variant)
    records = report.records_of(report.cells_of(variant))
    by_cell = [report.by_cell[cell] for cell in cells]
    noise = base_noise(summary)
    estimate = noise.estimate({cell: report.by_cell[cell].tally for cell in cells})
    rate, lower, upper = None, None, None
    if estimate is not None:
        rate = float(estimate.rate)
        overdispersion = noise.overdispersion.get(variant, 1.0)
        lower, upper = estimate.widen(overdispersion).bounds(confidence)
    metrics = [
        MetricReport(name, found.value, *found.bounds, found.runs)
        for name, found in metrics_of(report, variant, confidence).items()
    ]
    return VariantReport(
        provider=variant.provider,
        prompt=variant.prompt,
        counts=report.counts(cells),
        pass_rate=rate,
        lower=lower,
        upper=upper,
        match_rate=report.mean_score(cells),
        figures=report.figures(report.cells_of(variant)),
        unpriced_runs=sum(record.graded and record.cost_usd is None for record in records),
        recorded_runs=sum(record.recorded for record in report.records_of(cells)),
        grader_means=report.grader_means(variant),
        metrics=tuple(metrics),
        k=k,
        pass_at_k=_mean_chance(pass_at_k, by_cell, k),
        pass_hat_k=_mean_chance(pass_hat_k, by_cell, k),
        classifications=tuple(_task_reports(report, variant)),
    )


def _mean_chance(
    chance: Callable[[int, int, int], float | None], by_cell: Sequence[Counts], k: int | None
) -> float | None:
    """Return the mean over graded cells of a chance for `k` runs."""
    if k is None:
        return None
    chances = []
    for counts in by_cell:
        if counts.graded:
            value = chance(*counts.tally, k)
            if value is not None:
                chances.append(value)
    if not chances:
        return None
    return fmean(chances)


def _task_reports(report: SuiteReport, variant: Variant) -> Iterator[TaskReport]:
    labels_by_task = report.labels_of(variant)
    if not labels_by_task:
        return
    from ci_evals.gate.metrics import figures_of, table_of, tasks_of

    for task, runs in tasks_of(labels_by_task).items():
        figures = {(metric.label, metric.name): value for metric, value in figures_of(runs)}
        table = table_of(runs)
        labels = [
            LabelReport(label, truths, *(figures[label, name] for name in BY_LABEL))
            for label, truths in zip(table.labels, table.true_counts, strict=True)
        ]
        accuracy, macro_f1 = figures[None, "accuracy"], figures[None, "macro_f1"]
        yield TaskReport(task, accuracy, macro_f1, tuple(labels), table.counts)


# Compared with the baseline.


@dataclass(frozen=True, slots=True)
class VariantChange:
    """A variant compared with its base, in words. A text is empty if either side lacks the figure,
    or if too few cases were compared.

    `basis` names the runs that the change of the pass rate is between, if these are not the planned
    ones and all reports; `compared_with` is the base's variant if it has another name.
    """

    pass_rate: str = UNKNOWN
    basis: str = ""
    cost: str = ""
    latency: str = ""
    compared_with: Variant | None = None


@once_per_summary
def variant_changes(summary: Summary) -> Mapping[Variant, VariantChange]:
    """Compare every variant with its base; empty without a comparison."""
    comparison = summary.compared
    if comparison is None:
        return {}
    changes = dict.fromkeys(summary.report.plan.variants, VariantChange())
    for found in comparison.variants:
        cost = latency = ""
        if not coverage_clause(comparison, found):
            cost = ratio_change(found.differences.cost)
            medians_s = usual_latencies(comparison, found.variant)
            latency = latency_change(comparison, found, medians_s)
        compared_with = None
        if found.renamed:
            compared_with = found.base_variant
        changes[found.variant] = VariantChange(
            pass_rate=rate_change(comparison, found),
            basis=rate_basis(comparison, found),
            cost=cost,
            latency=latency,
            compared_with=compared_with,
        )
    return changes


@dataclass(frozen=True, slots=True)
class Trend:
    """The last reports of the base branch, oldest first, with the pass rate of each variant."""

    reports: tuple[ReportRef, ...]
    rows: tuple[tuple[VariantReport, tuple[float | None, ...]], ...]


def trend_of(summary: Summary, variants: Sequence[VariantReport]) -> Trend | None:
    """Return the trend of variants with a rate in at least two reports; None without any."""
    comparison = summary.compared
    if comparison is None:
        return None
    points = comparison.baseline.trend[:_TREND_REPORTS][::-1]
    rows = []
    for each in variants:
        name = comparison.base_variant(each.variant)
        rates = tuple(rate_in(point, name) for point in points)
        if sum(rate is not None for rate in rates) > 1:
            rows.append((each, rates))
    if not rows:
        return None
    return Trend(tuple(point.report for point in points), tuple(rows))


def rate_in(point: TrendPoint, variant: Variant) -> float | None:
    """Return a variant's pass rate in an earlier report; None if it has none there."""
    for each in point.variants:
        if each.variant == variant:
            return each.pass_rate
    return None


# Compared with each other.


@dataclass(frozen=True, slots=True)
class Standing:
    """One line of the leaderboard; `rank` is None if nothing was graded."""

    rank: int | None
    tied: bool
    variant: VariantReport

    @property
    def place(self) -> str:
        """`1`, `2=` or a dash."""
        if self.rank is None:
            return UNKNOWN
        if self.tied:
            return f"{self.rank}="
        return f"{self.rank}"


def leaderboard(variants: Sequence[VariantReport]) -> tuple[Standing, ...]:
    """Rank the variants; empty if they are too few to need an order, or without any rate."""
    if len(variants) < _FEWEST_RANKED or all(variant.pass_rate is None for variant in variants):
        return ()
    return rank(variants)


def rank(variants: Sequence[VariantReport]) -> tuple[Standing, ...]:
    """Return every variant, the best first.

    A variant's rank is one more than the number of variants whose interval lies entirely above its
    own: variants whose intervals overlap cannot be told apart by these runs.
    """
    lowers = [variant.lower for variant in variants if variant.lower is not None]
    ranks: list[int | None] = []
    for variant in variants:
        place = None
        if variant.upper is not None:
            place = 1 + sum(lower > variant.upper for lower in lowers)
        ranks.append(place)
    standings = [
        Standing(place, place is not None and ranks.count(place) > 1, variant)
        for place, variant in zip(ranks, variants, strict=True)
    ]
    standings.sort(key=_order)
    return tuple(standings)


def _order(standing: Standing) -> tuple[float, float, float]:
    variant = standing.variant
    place = standing.rank or float("inf")
    return place, -(variant.pass_rate or 0.0), -(variant.match_rate or 0.0)
