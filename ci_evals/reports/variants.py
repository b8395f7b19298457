"""The columns of the matrix: figures, leaderboard, classifications and trends."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from ci_evals.format import UNKNOWN, usd
from ci_evals.gate.bars import figures_of, metrics_of, table_of, tasks_of
from ci_evals.gate.baseline import ReportRef
from ci_evals.gate.wording import few_compared, rate_change, ratio_change
from ci_evals.model.case import Variant
from ci_evals.model.report import Counts, Figures, SuiteReport
from ci_evals.model.rules import BY_LABEL, USUAL_TASK, Gate
from ci_evals.reports.summary import Summary
from ci_evals.stats.rates import pass_at_k, pass_hat_k, pass_rate

MAX_LABELS_SHOWN: Final = 20
TIES: Final = "= tied: the intervals overlap, so these runs cannot tell them apart"

_FEWEST_RANKED = 3  # two variants are compared at a glance in the table of figures
_MOST_GIVEN = 4
_TREND_REPORTS = 10


@dataclass(frozen=True, slots=True)
class LabelReport:
    """One label: its figures in the order of `BY_LABEL`, None where one is not defined."""

    label: str
    truths: int
    precision: float | None
    recall: float | None
    f1: float | None
    roc_auc: float | None


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The figures of `classify` for one task. `confusion` has true labels as rows, predicted ones
    as columns.
    """

    task: str
    accuracy: float | None
    macro_f1: float | None
    labels: tuple[LabelReport, ...]
    confusion: tuple[tuple[int, ...], ...]

    @property
    def name(self) -> str:
        return "labels" if self.task == USUAL_TASK else self.task

    def taken_for(self, row: int, show: Callable[[str], str]) -> str:
        """`15 × spam, 5 × ham`: what was given where the label of a row is true, the most frequent
        first.
        """
        given = (
            (count, each.label)
            for count, each in zip(self.confusion[row], self.labels, strict=True)
            if count
        )
        frequent = sorted(given, key=lambda each: -each[0])
        texts = [f"{count:,} × {show(label)}" for count, label in frequent[:_MOST_GIVEN]]
        return ", ".join([*texts, "…"] if len(frequent) > _MOST_GIVEN else texts)


@dataclass(frozen=True, slots=True)
class MetricReport:
    """The mean score of the graders that name this metric, with its bounds, over so many graded
    runs.
    """

    name: str
    mean: float
    lower: float
    upper: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantReport:
    """One provider with one prompt. Rates and scores are fractions in [0, 1]; None where no run was
    graded.

    Attributes:
        pass_rate: the mean over cells of their share of passed runs, as the gate sees it.
        lower, upper: its bounds, each at the gate's confidence.
        match_rate: the mean score.
        unpriced_runs: graded runs whose price is not known.
        recorded_runs: runs that a recording answered instead of the provider.
        grader_means: the mean score of each grader, by its own name or that of its type.
        metrics: the mean scores by metric of graders.
        k: the fewest graded runs of a cell; None if that is one.
        pass_at_k: the chance that of `k` runs of a case one passes.
        pass_hat_k: the chance that all of them do.
    """

    provider: str
    prompt: str | None
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
        return Variant(self.provider, self.prompt)

    @property
    def unknown_cost(self) -> str:
        """The word for a cost that nobody can tell."""
        return "recorded" if 0 < self.counts.graded <= self.recorded_runs else "unknown"

    @property
    def cost_text(self) -> str:
        """`$0.012`, `$0.012 for 30 of 40 runs`, `unknown`, or `recorded` when nothing was
        called.
        """
        priced, unpriced = self.figures.priced_runs, self.unpriced_runs
        of = f" for {priced:,} of {priced + unpriced:,} runs" if priced and unpriced else ""
        return f"{usd(self.figures.cost_usd, self.unknown_cost)}{of}"


def variant_reports(summary: Summary) -> tuple[VariantReport, ...]:
    """Report on every variant, in the suite's order."""
    report, confidence = summary.report, (summary.gate or Gate()).confidence
    fewest = min((counts.graded for counts in report.by_cell if counts.graded), default=0)
    k = fewest if fewest > 1 else None

    def mean_chance(
        chance: Callable[[int, int, int], float | None], by_cell: Sequence[Counts]
    ) -> float | None:
        """Return the mean over graded cells of a chance that follows from `k` runs of each."""
        if k is None:
            return None
        found = [chance(*counts.tally, k) for counts in by_cell if counts.graded]
        known = [each for each in found if each is not None]
        return fmean(known) if known else None

    def of(variant: Variant) -> VariantReport:
        cells = report.cells_of(variant)
        by_cell, records = [report.by_cell[cell] for cell in cells], report.records_of(cells)
        rate = pass_rate(counts.tally for counts in by_cell)
        bounds = rate.bounds(confidence) if rate else None
        return VariantReport(
            provider=variant.provider,
            prompt=variant.prompt,
            counts=report.counts(cells),
            pass_rate=float(rate.rate) if rate else None,
            lower=bounds.lower if bounds else None,
            upper=bounds.upper if bounds else None,
            match_rate=report.mean_score(cells),
            figures=report.figures(cells),
            unpriced_runs=sum(record.graded and record.cost_usd is None for record in records),
            recorded_runs=sum(record.recorded for record in records),
            grader_means=report.grader_means(variant),
            metrics=tuple(
                MetricReport(name, found.value, *found.bounds, found.runs)
                for name, found in metrics_of(report, variant, confidence).items()
            ),
            k=k,
            pass_at_k=mean_chance(pass_at_k, by_cell),
            pass_hat_k=mean_chance(pass_hat_k, by_cell),
            classifications=tuple(_task_reports(report, variant)),
        )

    return tuple(map(of, report.plan.variants))


def _task_reports(report: SuiteReport, variant: Variant) -> Iterator[TaskReport]:
    for task, runs in tasks_of(report, variant).items():
        found = {(metric.label, metric.name): value for metric, value in figures_of(runs)}
        table = table_of(runs)
        labels = tuple(
            LabelReport(label, truths, *(found[label, name] for name in BY_LABEL))
            for label, truths in zip(table.labels, table.true_counts, strict=True)
        )
        yield TaskReport(
            task, found[None, "accuracy"], found[None, "macro_f1"], labels, table.counts
        )


# Beside the baseline.


@dataclass(frozen=True, slots=True)
class VariantChange:
    """A variant beside its base, in words; empty where a side does not know the figure, or few
    cases were compared.

    `compared_with` is the base's variant if it has another name.
    """

    pass_rate: str = UNKNOWN
    cost: str = ""
    latency: str = ""
    compared_with: Variant | None = None


def variant_changes(summary: Summary) -> Mapping[Variant, VariantChange]:
    """Return every variant beside its base; nothing without a comparison."""
    if (comparison := summary.compared) is None:
        return {}
    changes = {
        found.variant: VariantChange(
            pass_rate=rate_change(comparison, found),
            cost="" if few_compared(comparison, found) else ratio_change(found.differences.cost),
            latency=""
            if few_compared(comparison, found)
            else ratio_change(found.differences.latency),
            compared_with=found.base_variant if found.renamed else None,
        )
        for found in comparison.variants
    }
    return {
        variant: changes.get(variant, VariantChange()) for variant in summary.report.plan.variants
    }


@dataclass(frozen=True, slots=True)
class Trend:
    """The last reports of the base branch, oldest first, and the pass rate of each variant in every
    one of them.
    """

    reports: tuple[ReportRef, ...]
    rows: tuple[tuple[VariantReport, tuple[float | None, ...]], ...]


def trend_of(summary: Summary, variants: Sequence[VariantReport]) -> Trend | None:
    """Return the trend of the variants that have a rate in two of these reports or more; None if
    there is none.
    """
    if (comparison := summary.compared) is None:
        return None
    points = tuple(reversed(comparison.baseline.trend[:_TREND_REPORTS]))
    rows = []
    for each in variants:
        name = comparison.base_variant(each.variant)
        found = [
            next((one.pass_rate for one in point.variants if one.variant == name), None)
            for point in points
        ]
        if sum(rate is not None for rate in found) > 1:
            rows.append((each, tuple(found)))
    return Trend(tuple(point.report for point in points), tuple(rows)) if rows else None


# Beside each other.


@dataclass(frozen=True, slots=True)
class Standing:
    """One line of the leaderboard; `rank` is None where nothing was graded."""

    rank: int | None
    tied: bool
    variant: VariantReport

    @property
    def place(self) -> str:
        """`1`, `2=` or a dash."""
        return UNKNOWN if self.rank is None else f"{self.rank}{'=' if self.tied else ''}"


def leaderboard(variants: Sequence[VariantReport]) -> tuple[Standing, ...]:
    """Rank the variants; empty for so few that nobody needs an order, or without any rate."""
    few = len(variants) < _FEWEST_RANKED or all(variant.pass_rate is None for variant in variants)
    return () if few else rank(variants)


def rank(variants: Sequence[VariantReport]) -> tuple[Standing, ...]:
    """Return every variant, the best first.

    A variant's rank is one more than the number of variants whose interval is wholly above its own.
    """
    ranks = [
        None
        if (upper := variant.upper) is None
        else 1 + sum(other.lower is not None and other.lower > upper for other in variants)
        for variant in variants
    ]
    standings = [
        Standing(found, found is not None and ranks.count(found) > 1, variant)
        for found, variant in zip(ranks, variants, strict=True)
    ]

    def order(standing: Standing) -> tuple[float, float, float]:
        variant = standing.variant
        return (
            standing.rank or float("inf"),
            -(variant.pass_rate or 0.0),
            -(variant.match_rate or 0.0),
        )

    return tuple(sorted(standings, key=order))
