"""The tables of summary.md: variants, leaderboard, labels and bars."""

from collections.abc import Iterable, Iterator, Sequence

from ci_evals.report import Report
from ci_evals.reports.figures import number_of, rate, rate_with_interval, score, seconds, usd
from ci_evals.reports.labels import MAX_LABELS_SHOWN, TaskReport
from ci_evals.reports.leaderboard import TIES, Standing
from ci_evals.reports.markdown_text import HEADLINES, Markdown, code, fill
from ci_evals.reports.trend import Trend
from ci_evals.reports.variants import VariantReport
from ci_evals.verdict.scopes import ScopeVerdict, scope_label

MAX_ROWS = 50


def variants_table(variants: Sequence[VariantReport], base: str | None) -> Iterator[Markdown]:
    """What each variant came to; `base` is the name of the baseline, if there is one."""
    draws = variants[0].draws if variants else None
    against = [fill("against {}", base)] if base else []
    repeated = [f"pass@{draws}", f"pass^{draws}"] if draws else []
    ends = ("failed", "errored", "cost", "latency p50", "latency p95")
    yield _head(Markdown("| | pass rate |"), *against, *map(Markdown, repeated), *map(Markdown, ends))
    for each in variants[:MAX_ROWS]:
        change, figures = each.change, each.figures
        cost = fill("{}; per run {}", each.cost_text, change.cost) if change and change.cost else each.cost_text
        p50 = seconds(figures.latency_p50_s)
        yield _row(
            code(str(each.variant)),
            rate_with_interval(each.pass_rate, each.lower, each.upper),
            *([change.pass_rate] if change else []),
            *([rate(each.pass_at_k), rate(each.pass_hat_k)] if draws else []),
            each.counts.failed,
            each.counts.errored,
            cost,
            fill("{}; {}", p50, change.latency) if change and change.latency else p50,
            seconds(figures.latency_p95_s),
        )
    yield _more(len(variants) - MAX_ROWS, "more variant")


def trend_lines(
    trends: Iterable[tuple[VariantReport, Trend]], base: str | None, *, several: bool
) -> Iterator[Markdown]:
    """The way of each variant's pass rate; `several` if there are other variants."""
    for each, trend in trends:
        on = fill(" on {}", code(str(each.variant))) if several else Markdown()
        span = fill("{} to {}", trend.lowest, trend.highest) if trend.highest != trend.lowest else trend.lowest
        text = "\nTrend{}: <code>{}</code> last {} reports of {} {}, here {}\n"
        yield fill(text, on, trend.bars, trend.reports, base, span, rate(each.pass_rate))


def leaderboard_table(standings: Sequence[Standing]) -> Iterator[Markdown]:
    """The variants, the best first."""
    if not standings:
        return
    yield Markdown("\n### Leaderboard\n\n| | | pass rate | mean score | cost per run | latency p50 |\n")
    yield Markdown("|---|---|---|---|---|---|\n")
    for standing in standings[:MAX_ROWS]:
        variant = standing.variant
        yield _row(
            standing.place,
            code(str(variant.variant)),
            rate_with_interval(variant.pass_rate, variant.lower, variant.upper),
            score(variant.mean_score),
            usd(variant.cost_per_run_usd, variant.unknown_cost),
            seconds(variant.figures.latency_p50_s),
        )
    if any(standing.tied for standing in standings):
        yield fill("\n{}.\n", TIES)


def labels_table(task: TaskReport, *, several: bool) -> Iterator[Markdown]:
    """The figures of a classification, and which label was taken for which; `several` if there are other variants."""
    name = Markdown("Labels") if task.task == "classify" else code(task.name.capitalize())
    on = fill(" on {}", code(str(task.variant))) if several else Markdown()
    yield fill("\n### {}{}: accuracy {}, macro F1 {}\n\n", name, on, rate(task.accuracy), rate(task.macro_f1))
    others = [fill("taken for {}", code(other.label)) for other in task.labels[:MAX_LABELS_SHOWN]]
    yield _head(Markdown("| true label | precision | recall | F1 | ROC AUC |"), *others)
    for label, counts in zip(task.labels[:MAX_LABELS_SHOWN], task.table.counts, strict=False):
        figures = (rate(each) for each in (label.precision, label.recall, label.f1, label.roc_auc))
        yield _row(code(label.label), *figures, *counts[:MAX_LABELS_SHOWN])
    yield _more(len(task.labels) - MAX_LABELS_SHOWN, "more label")


def gate_table(scopes: Sequence[ScopeVerdict], report: Report) -> Iterator[Markdown]:
    """The parts of the matrix that are judged, in this order."""
    yield Markdown("### Gate\n\n| | pass rate | at least | |\n|---|---|---|---|\n")
    for scope in scopes[:MAX_ROWS]:
        label = scope_label(scope, report)
        fair = report.settled is None
        yield _row(
            label if scope.kind == "suite" else fill("{} {}", label, code(scope.name)),
            rate_with_interval(scope.rate, scope.lower, scope.upper, scope.bar) if fair else rate(None),
            rate(scope.bar),
            HEADLINES[scope.status],
        )
    if (left_out := len(scopes) - MAX_ROWS) > 0:
        yield fill("\n… and {} more in report.json, none worse than these.\n", left_out)


def _head(first: Markdown, *others: Markdown) -> Markdown:
    """The first cells, then others, and the rule below them."""
    cells = Markdown(first + "".join(f" {other} |" for other in others))
    return Markdown(f"{cells}\n|{'---|' * (first.count('|') - 1 + len(others))}\n")


def _row(*cells: object) -> Markdown:
    return fill("|" + " {} |" * len(cells) + "\n", *cells)


def _more(left_out: int, noun: str) -> Markdown:
    return fill("\n… and {} in report.json.\n", number_of(left_out, noun)) if left_out > 0 else Markdown()
