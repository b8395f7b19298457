"""The columns of the matrix: figures, leaderboard, classifications and trends."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from ci_evals.format import UNKNOWN, percent, usd
from ci_evals.gate.bars import figures_of, table_of, tasks_of
from ci_evals.gate.baseline import TrendPoint
from ci_evals.gate.compare import Comparison
from ci_evals.gate.wording import rate_change, ratio_change
from ci_evals.model.case import Variant
from ci_evals.model.report import Counts, Figures, Report
from ci_evals.model.rules import BY_LABEL, Gate
from ci_evals.reports.summary import Summary
from ci_evals.stats.classification import Confusion
from ci_evals.stats.rates import pass_at_k, pass_hat_k, pass_rate

MAX_LABELS_SHOWN: Final = 20
TIES: Final = "= tied: the intervals overlap, so these runs cannot tell them apart"

_FEWEST_RANKED = 3  # two variants are compared at a glance in the table of figures
_MOST_GIVEN = 4
_TREND_REPORTS = 20
_BARS = "▁▂▃▄▅▆▇█"
_LEAST_SPAN = 0.1  # of a trend, so that noise does not look like mountains


@dataclass(frozen=True, slots=True)
class VariantChange:
    """A variant beside its base, in words; empty where a side does not know the figure.

    `compared_with` is the base's variant if it has another name.
    """

    pass_rate: str
    cost: str
    latency: str
    compared_with: Variant | None = None


@dataclass(frozen=True, slots=True)
class VariantReport:
    """One column of the matrix. Rates and scores are fractions in [0, 1]; None where no run was graded.

    Attributes:
        pass_rate: the mean over cells of their share of passed runs, as the gate sees it.
        lower, upper: its bounds, each at the gate's confidence.
        unpriced_runs: graded runs whose price is not known.
        unknown_cost: the word for a cost that nobody can tell.
        draws: the k of pass@k and pass^k: the fewest graded runs of a cell; None if that is one.
        change: None without a comparison.
    """

    variant: Variant
    counts: Counts
    pass_rate: float | None
    lower: float | None
    upper: float | None
    mean_score: float | None
    figures: Figures
    grader_means: Mapping[str, float]
    unpriced_runs: int
    unknown_cost: str
    draws: int | None
    pass_at_k: float | None
    pass_hat_k: float | None
    change: VariantChange | None = None

    @property
    def cost_usd(self) -> float | None:
        """The cost of all runs with a known price; None if there is none."""
        return self.figures.cost_usd if self.figures.priced_runs else None

    @property
    def cost_per_run_usd(self) -> float | None:
        return self.figures.cost_usd / self.figures.priced_runs if self.figures.priced_runs else None

    @property
    def cost_text(self) -> str:
        """`$0.012`, `$0.012 for 30 of 40 runs`, `unknown`, or `recorded` when nothing was called."""
        text, priced = usd(self.cost_usd, self.unknown_cost), self.figures.priced_runs
        if self.cost_usd is None or not self.unpriced_runs:
            return text
        return f"{text} for {priced:,} of {priced + self.unpriced_runs:,} runs"


def variant_reports(summary: Summary) -> tuple[VariantReport, ...]:
    """Report on every variant, in the suite's order."""
    report = summary.report
    by_variant = {
        variant: [report.by_cell[cell] for cell in report.cells_of(variant)] for variant in report.plan.variants
    }
    fewest = min((counts.graded for cells in by_variant.values() for counts in cells if counts.graded), default=0)
    draws = fewest if fewest > 1 else None
    return tuple(_variant_report(summary, variant, cells, draws) for variant, cells in by_variant.items())


def _variant_report(summary: Summary, variant: Variant, by_cell: Sequence[Counts], draws: int | None) -> VariantReport:
    report = summary.report
    cells = report.cells_of(variant)
    rate = pass_rate((counts.passed, counts.graded) for counts in by_cell)
    bounds = rate.bounds((summary.gate or Gate()).confidence) if rate else None
    return VariantReport(
        variant=variant,
        counts=report.counts(cells),
        pass_rate=float(rate.rate) if rate else None,
        lower=bounds.lower if bounds else None,
        upper=bounds.upper if bounds else None,
        mean_score=report.mean_score(cells),
        figures=report.figures(cells),
        grader_means=report.grader_means(variant),
        unpriced_runs=report.unpriced_runs(cells),
        unknown_cost="recorded" if 0 < report.totals.graded <= report.recorded else "unknown",
        draws=draws,
        pass_at_k=_mean_chance(pass_at_k, by_cell, draws),
        pass_hat_k=_mean_chance(pass_hat_k, by_cell, draws),
        change=_change(summary, variant),
    )


def _mean_chance(
    chance: Callable[[int, int, int], float | None], by_cell: Sequence[Counts], draws: int | None
) -> float | None:
    """The mean over graded cells of a chance that follows from `draws` runs of each."""
    if not draws:
        return None
    found = [chance(counts.passed, counts.graded, draws) for counts in by_cell if counts.graded]
    known = [each for each in found if each is not None]
    return fmean(known) if known else None


def _change(summary: Summary, variant: Variant) -> VariantChange | None:
    if (comparison := summary.compared) is None:
        return None
    key = variant.provider, variant.prompt
    found = next((each for each in comparison.variants if (each.provider, each.prompt) == key), None)
    if found is None:
        return VariantChange(UNKNOWN, "", "")
    return VariantChange(
        pass_rate=rate_change(comparison, found),
        cost=ratio_change(found.differences.cost),
        latency=ratio_change(found.differences.latency),
        compared_with=Variant(found.base_provider, found.base_prompt) if found.renamed else None,
    )


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
    return () if few else ranked(variants)


def ranked(variants: Sequence[VariantReport]) -> tuple[Standing, ...]:
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
        Standing(rank, rank is not None and ranks.count(rank) > 1, variant)
        for rank, variant in zip(ranks, variants, strict=True)
    ]

    def order(standing: Standing) -> tuple[float, float, float]:
        variant = standing.variant
        return standing.rank or float("inf"), -(variant.pass_rate or 0.0), -(variant.mean_score or 0.0)

    return tuple(sorted(standings, key=order))


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
    """One classification task on one variant."""

    variant: Variant
    task: str
    accuracy: float | None
    macro_f1: float | None
    labels: tuple[LabelReport, ...]
    table: Confusion

    @property
    def name(self) -> str:
        return "labels" if self.task == "classify" else self.task

    def taken_for(self, row: int, show: Callable[[str], str]) -> str:
        """`15 × spam, 5 × ham`: what was given where the label of a row is true, the most frequent first."""
        given = zip(self.table.counts[row], map(show, self.table.labels), strict=True)
        frequent = sorted(((count, label) for count, label in given if count), key=lambda each: -each[0])
        texts = [f"{count:,} × {label}" for count, label in frequent[:_MOST_GIVEN]]
        return ", ".join([*texts, "…"] if len(frequent) > _MOST_GIVEN else texts)


def task_reports(report: Report) -> Iterator[TaskReport]:
    """Report on every classification task of every variant."""
    for variant in report.plan.variants:
        for task, labelled in tasks_of(report, variant).items():
            found = dict(figures_of(labelled))
            whole = {metric.name: value for metric, value in found.items() if metric.label is None}
            of = {(metric.label, metric.name): value for metric, value in found.items()}
            table = table_of(labelled)
            labels = tuple(
                LabelReport(label, truths, *(of[label, name] for name in BY_LABEL))
                for label, truths in zip(table.labels, table.true_counts, strict=True)
            )
            yield TaskReport(variant, task, whole["accuracy"], whole["macro_f1"], labels, table)


@dataclass(frozen=True, slots=True)
class Trend:
    """The pass rate of one variant: bars from the oldest report to this one, and the range that they span."""

    bars: str
    lowest: str
    highest: str
    reports: int

    @property
    def span(self) -> str:
        """`90 %`, or `90 % to 95 %`."""
        return self.lowest if self.lowest == self.highest else f"{self.lowest} to {self.highest}"


def trends(comparison: Comparison | None, variants: Iterable[VariantReport]) -> Iterator[tuple[VariantReport, Trend]]:
    """Yield the variants that have a trend; none without a baseline."""
    if comparison is not None:
        for each in variants:
            if trend := trend_of(comparison.baseline.trend, *comparison.base_variant(each.variant), each.pass_rate):
                yield each, trend


def trend_of(points: Sequence[TrendPoint], provider: str, prompt: str | None, here: float | None) -> Trend | None:
    """Return the trend of one variant; None with fewer than two earlier reports.

    Args:
        points: earlier reports, newest first.
        provider, prompt: the variant as the earlier reports call it.
        here: its pass rate now, which is the last bar.
    """
    rates = [
        each.pass_rate
        for point in reversed(points[:_TREND_REPORTS])
        for each in point.variants
        if (each.provider, each.prompt) == (provider, prompt) and each.pass_rate is not None
    ]
    if len(rates) < 2:
        return None
    shown = rates if here is None else [*rates, here]
    lowest, highest = min(shown), max(shown)
    top = min(1.0, max(highest, lowest + _LEAST_SPAN))
    bottom = min(lowest, top - _LEAST_SPAN)
    heights = (round((each - bottom) / (top - bottom) * (len(_BARS) - 1)) for each in shown)
    return Trend("".join(_BARS[height] for height in heights), percent(min(rates)), percent(max(rates)), len(rates))
