"""The tables of summary.md: variants, leaderboard, labels and bars."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from ci_evals.report import Report
from ci_evals.reports.figures import interval, number_of, rate, rate_with_interval, score, seconds, usd
from ci_evals.reports.labels import MAX_LABELS_SHOWN, TaskReport
from ci_evals.reports.leaderboard import TIES, Standing
from ci_evals.reports.markdown_text import HEADLINES, Markdown, code, fill, kept, plain
from ci_evals.reports.trend import Trend
from ci_evals.reports.variants import VariantReport
from ci_evals.verdict.scopes import ScopeVerdict, scope_label

MAX_ROWS = 50


class _Column(Struct, frozen=True):
    """A column of figures: what stands above it, and of each variant in it."""

    head: Markdown
    cell: Callable[[VariantReport], Markdown]


def variants_table(variants: Sequence[VariantReport], base: str | None) -> Iterator[Markdown]:
    """What each variant came to; `base` is the name of the baseline, if there is one."""
    columns = list(_columns(variants, base))
    yield _row(Markdown("variant"), *(column.head for column in columns))
    yield Markdown(f"|---|{'---:|' * len(columns)}\n")
    for each in variants[:MAX_ROWS]:
        yield _row(code(str(each.variant)), *(column.cell(each) for column in columns))
    yield _more(len(variants) - MAX_ROWS, "more variant")


def _columns(variants: Sequence[VariantReport], base: str | None) -> Iterator[_Column]:
    """The columns that say something: where no run failed, or none errored, none would but for zeros."""
    failed, errored = (any(getattr(each.counts, status) for each in variants) for status in ("failed", "errored"))
    draws = variants[0].draws if variants else None
    yield _Column(Markdown("pass rate"), _pass_rate)
    if base:
        yield _Column(fill("against {}", base), _against_base)
    if draws and failed:
        head = Markdown(f"pass@{draws}<br>pass^{draws}")
        yield _Column(head, lambda of: fill("{}<br>{}", kept(rate(of.pass_at_k)), kept(rate(of.pass_hat_k))))
    if failed:
        yield _Column(Markdown("failed"), lambda of: Markdown(f"{of.counts.failed:,}"))
    if errored:
        yield _Column(Markdown("errored"), lambda of: Markdown(f"{of.counts.errored:,}"))
    yield _Column(Markdown("cost"), _cost)
    yield _Column(Markdown("latency p50"), _latency)
    yield _Column(Markdown("latency p95"), lambda of: kept(seconds(of.figures.latency_p95_s)))


def _pass_rate(of: VariantReport) -> Markdown:
    bounds = "" if of.lower is None or of.upper is None else interval(of.lower, of.upper)
    return _noted(kept(rate(of.pass_rate)), kept(bounds))


def _against_base(of: VariantReport) -> Markdown:
    if of.change is None:
        return Markdown()
    other = of.change.compared_with
    return _noted(kept(of.change.pass_rate), fill("compared with {}", code(str(other))) if other else Markdown())


def _cost(of: VariantReport) -> Markdown:
    change = of.change.cost if of.change else ""
    return _noted(plain(of.cost_text), fill("per run: {}", kept(change)) if change else Markdown())


def _latency(of: VariantReport) -> Markdown:
    return _noted(kept(seconds(of.figures.latency_p50_s)), kept(of.change.latency if of.change else ""))


def _noted(figure: Markdown, note: Markdown) -> Markdown:
    """A figure, and below it in small what there is to know of it."""
    return Markdown(f"{figure}<br><sub>{note}</sub>") if note else figure


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
    yield Markdown("\n### Leaderboard\n\n| place | variant | pass rate | mean score | cost per run | latency p50 |\n")
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
    shown = task.labels[:MAX_LABELS_SHOWN]
    ranked = ["ROC AUC"] if any(label.roc_auc is not None for label in shown) else []
    yield _row("true label", "precision", "recall", "F1", *ranked, "taken for")
    yield Markdown(f"|---|{'---:|' * (3 + len(ranked))}---|\n")
    for row, label in enumerate(shown):
        figures = (label.precision, label.recall, label.f1, label.roc_auc)[: 3 + len(ranked)]
        taken = Markdown(task.taken_for(row, code))
        yield _row(code(label.label), *(kept(rate(each)) for each in figures), taken)
    yield _more(len(task.labels) - MAX_LABELS_SHOWN, "more label")


def gate_table(scopes: Sequence[ScopeVerdict], report: Report) -> Iterator[Markdown]:
    """The parts of the matrix that are judged, in this order."""
    yield Markdown("### Gate\n\n| scope | pass rate | at least | verdict |\n|---|---|---|---|\n")
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


def _row(*cells: object) -> Markdown:
    return fill("|" + " {} |" * len(cells) + "\n", *cells)


def _more(left_out: int, noun: str) -> Markdown:
    return fill("\n… and {} in report.json.\n", number_of(left_out, noun)) if left_out > 0 else Markdown()
