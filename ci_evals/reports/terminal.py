"""The summary on stdout: figures, the cases that need a look with why, and the verdict last. Laid out by rich."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleRenderable
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ci_evals.format import (
    UNKNOWN,
    name_of,
    number_of,
    one_line,
    percent,
    rate_with_interval,
    score,
    seconds,
    usd,
    without_commands,
)
from ci_evals.gate.bars import VERDICTS, ScopeVerdict, VerdictStatus
from ci_evals.gate.compare import KINDS, Comparison, VariantComparison
from ci_evals.gate.differences import Difference
from ci_evals.gate.wording import scope_label, tally_text
from ci_evals.model.case import Variant
from ci_evals.model.report import SuiteReport
from ci_evals.reports.cells import answer_text, frames_of, place_of
from ci_evals.reports.findings import Entry, Findings, ForeignText, Group, GroupKind, Tone, findings
from ci_evals.reports.summary import Summary
from ci_evals.reports.variants import MAX_LABELS_SHOWN, TIES, Standing, TaskReport, VariantChange, VariantReport

MAX_FAILED = 20
MAX_FLAKY = 10
MAX_SCOPES = 10
MAX_STANDINGS = 20
MAX_REASONS = 3

NAME_CHARACTERS = 100
ANSWER_CHARACTERS = 200
LABEL_CHARACTERS = 40
SENTENCE_CHARACTERS = 1000

UNBOUNDED = 1000
"""Columns for text that a terminal may break wherever it likes."""

_STYLES: Final[Mapping[VerdictStatus, str]] = {
    "pass": "bold green",
    "borderline": "bold yellow",
    "fail": "bold red",
    "error": "bold magenta",
}
_BLANK = Text()
_INDENT = (0, 0, 0, 4)


def render(summary: Summary, *, width: int, color: bool) -> str:
    """Return the summary for a terminal of `width` columns, without escape codes unless `color`.

    No name and no answer in it can move the cursor or command a CI runner.
    """
    return draw(_parts(summary, width), width=width, color=color)


def draw(parts: Iterable[ConsoleRenderable], *, width: int, color: bool = False) -> str:
    """Lay out texts and tables below each other, whatever the environment says of colours and sizes."""
    console = Console(
        file=StringIO(),
        width=width,
        height=25,  # with both given, rich asks nobody for the size
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
    )
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    lines = (line.rstrip() for line in captured.get().split("\n"))
    return without_commands("\n".join(lines)).strip("\n") + "\n"


def columns(rows: Sequence[Sequence[str | Text]], *, gap: int = 2, flush_right: bool = False) -> Table:
    """Return a table without lines. Words that are wider than their column are folded.

    Args:
        rows: the texts of each row.
        gap: blanks between two columns.
        flush_right: align all columns but the first to the right.
    """
    table = Table.grid(padding=(0, gap, 0, 0))
    for index in range(len(rows[0]) if rows else 0):
        table.add_column(justify="right" if flush_right and index else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def render_comparison(comparison: Comparison) -> str:
    """Return a line for each figure of a variant and for each cell; those that changed come first."""
    changed = ("regressed", "suspect", "fixed")
    order = (*changed, *(kind for kind in KINDS if kind not in changed))
    rows: list[tuple[str, ...]] = [("", "baseline", "here", "change", "p")]
    for variant in comparison.variants:
        name = _short_name(variant.variant)
        rows += _variant_rows(variant, f"{name}: " if comparison.several_variants else "")
    for cell in sorted(comparison.cells, key=lambda cell: order.index(cell.kind)):
        on = f" on {_short_name(cell.variant)}" if comparison.several_variants else ""
        base, here = (tally_text(side) if side.graded else UNKNOWN for side in (cell.base, cell.head))
        rows.append((f"{_short_name(cell.case)}{on}", base, here, cell.kind, "" if cell.p is None else f"{cell.p:.2g}"))
    return draw([columns(rows)], width=UNBOUNDED).rstrip("\n")


def _short_name(name: object) -> str:
    return name_of(name, 60)


def _variant_rows(variant: VariantComparison, prefix: str) -> Iterator[tuple[str, ...]]:
    figures = variant.differences

    def with_interval(figure: Difference, form: str) -> str:
        if figure.lower is None or figure.upper is None:
            return f"{figure.value:{form}}"
        return f"{figure.value:{form}} ({figure.lower:{form}} to {figure.upper:{form}})"

    base, here = percent(variant.base_rate, variant.head_rate), percent(variant.head_rate, variant.base_rate)
    points = UNKNOWN if figures.pass_rate is None else f"{100 * figures.pass_rate.value:+.1f} points"
    yield f"{prefix}pass rate", base, here, points, f"{variant.p:.2g}"
    if figures.score is not None:
        yield f"{prefix}mean score", "", "", with_interval(figures.score, "+.2f"), ""
    for label, ratio in (("cost", figures.cost), ("tokens", figures.tokens), ("latency", figures.latency)):
        if ratio is not None:
            yield f"{prefix}{label}", "", "", f"× {with_interval(ratio, '.2f')}", ""


def _parts(summary: Summary, width: int) -> Iterator[ConsoleRenderable]:
    found = findings(summary)
    yield from _figures(found, width)
    for variant, task in found.tasks:
        yield from _labels(found, variant, task)
    if found.leaderboard:
        yield from _leaderboard(found.leaderboard)
    if found.bars:
        yield from _bars(summary.report, found.bars)
    for group in found.groups:
        yield from _group(group)
    yield _BLANK
    yield from _ending(found)


# The figures of the variants.

_BEST, _WORST = " ▲", " ▼"
_LEGEND = "▲ best  ▼ worst"
_NO_MARK = "  "
_MARK_STYLES = {_BEST: "green", _WORST: "red", _NO_MARK: ""}
_HEADER_WIDTH = 26
_MOST_PERFECT = 3  # graders that are listed although every answer was right for them

Row = tuple[str, tuple[Text, ...]]
"""A label, and its figure for each variant."""


def _figures(found: Findings, width: int) -> Iterator[ConsoleRenderable]:
    """Yield tables, each with as many variants as fit."""
    variants, rows = found.variants, list(_figure_rows(found))
    console = Console(width=UNBOUNDED, height=25)

    def table(chosen: Sequence[int]) -> Table:
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        table.add_column(no_wrap=width > 2 * _HEADER_WIDTH, overflow="fold")
        for index in chosen:
            widest = max(figures[index].cell_len for _, figures in rows)
            name = Text(name_of(variants[index].variant, NAME_CHARACTERS))
            table.add_column(
                name, justify="right", overflow="fold", vertical="bottom", max_width=max(widest, _HEADER_WIDTH)
            )
        for label, figures in rows:
            table.add_row(Text(label), *(figures[index] for index in chosen))
        return table

    group: list[int] = []
    for index in range(len(variants)):
        if group and Measurement.get(console, console.options, table([*group, index])).maximum > width:
            yield table(group)
            yield _BLANK
            group = []
        group.append(index)
    yield table(group)
    if any(figure.plain.endswith((_BEST, _WORST)) for _, figures in rows for figure in figures):
        yield _dim(_LEGEND)


def _figure_rows(found: Findings) -> Iterator[Row]:
    variants = found.variants

    def change(show: Callable[[VariantChange], str]) -> Iterator[Row]:
        """Compare the row above with the baseline, if any variant can be compared."""
        if any(texts := [show(change) for change in found.variant_changes.values()]):
            yield _row("  against base", texts)

    def latency(label: str, values: Sequence[float | None]) -> Row:
        return _row(label, list(map(seconds, values)), values)

    pass_rates = [variant.pass_rate for variant in variants]
    intervals = [rate_with_interval(variant.pass_rate, variant.lower, variant.upper) for variant in variants]
    yield _row("pass rate", intervals, pass_rates, max)
    yield from change(lambda each: each.pass_rate)
    yield _row("passed runs", [f"{variant.counts.passed:,} of {variant.counts.graded:,}" for variant in variants])
    if k := variants[0].k:
        any_passes, all_pass = [variant.pass_at_k for variant in variants], [variant.pass_hat_k for variant in variants]
        yield _row(f"pass@{k} (any)", list(map(percent, any_passes)), any_passes, max)
        yield _row(f"pass^{k} (all)", list(map(percent, all_pass)), all_pass, max)
    errored = [variant.counts.errored for variant in variants]
    yield _row("errored runs", [f"{count:,}" for count in errored], errored)
    scores = [variant.match_rate for variant in variants]
    yield _row("mean score", list(map(score, scores)), scores, max)
    yield from _grader_rows(variants)
    yield from _metric_rows(variants)
    yield from _cost_rows(variants)
    yield from change(lambda each: each.cost)
    tokens = [variant.figures.input_tokens + variant.figures.output_tokens or None for variant in variants]
    counts = [f"{variant.figures.input_tokens:,} in, {variant.figures.output_tokens:,} out" for variant in variants]
    shown = [text if total else "not reported" for text, total in zip(counts, tokens, strict=True)]
    yield _row("tokens", shown, tokens if _same_work(variants) else ())
    yield latency("latency mean", [variant.figures.latency_mean_s for variant in variants])
    yield latency("latency p50", [variant.figures.latency_p50_s for variant in variants])
    yield from change(lambda each: each.latency)
    yield latency("latency p95", [variant.figures.latency_p95_s for variant in variants])
    if any(variant.figures.first_token_p50_s is not None for variant in variants):
        yield latency("first token p50", [variant.figures.first_token_p50_s for variant in variants])
        yield latency("first token p95", [variant.figures.first_token_p95_s for variant in variants])


def _same_work(variants: Sequence[VariantReport]) -> bool:
    """Return True if all had as many runs graded: else fewer runs would look cheaper."""
    return len({variant.counts.graded for variant in variants}) == 1


def _cost_rows(variants: Sequence[VariantReport]) -> Iterator[Row]:
    """Costs that leave out runs are not compared. The cost per run goes where the cost says that nobody knows it."""
    costs = [None if variant.unpriced_runs else variant.figures.cost_usd for variant in variants]
    yield _row("cost", [variant.cost_text for variant in variants], costs if _same_work(variants) else ())
    if any(variant.figures.cost_per_run_usd is not None for variant in variants):
        per_run = [None if variant.unpriced_runs else variant.figures.cost_per_run_usd for variant in variants]
        texts = [usd(variant.figures.cost_per_run_usd, variant.unknown_cost) for variant in variants]
        yield _row("cost per run", texts, per_run)


def _grader_rows(variants: Sequence[VariantReport]) -> Iterator[Row]:
    """Yield the mean of every grader, the lowest first; several perfect ones are only counted."""
    lowest: dict[str, float] = {}
    for variant in variants:
        for grader, mean in variant.grader_means.items():
            lowest[grader] = min(mean, lowest.get(grader, mean))
    listed = sorted(lowest, key=lambda grader: lowest[grader])
    perfect = [grader for grader in listed if lowest[grader] == 1]
    if len(perfect) > _MOST_PERFECT:
        listed = listed[: -len(perfect)]
    for grader in listed:
        means = [variant.grader_means.get(grader) for variant in variants]
        yield _row(f"  {name_of(grader, LABEL_CHARACTERS)}", list(map(score, means)), means, max)
    if len(perfect) > _MOST_PERFECT:
        label = f"  {len(perfect)} others" if listed else f"  {len(perfect)} graders"
        means = [None if variant.grader_means.keys().isdisjoint(perfect) else 1.0 for variant in variants]
        yield _row(label, list(map(score, means)))


def _metric_rows(variants: Sequence[VariantReport]) -> Iterator[Row]:
    """Yield the mean of every metric of graders."""
    for name in dict.fromkeys(metric.name for variant in variants for metric in variant.metrics):
        found = [next((one for one in variant.metrics if one.name == name), None) for variant in variants]
        texts = [rate_with_interval(one.mean, one.lower, one.upper) if one else UNKNOWN for one in found]
        yield _row(
            f"metric {name_of(name, LABEL_CHARACTERS)}", texts, [one.mean if one else None for one in found], max
        )


def _row(
    label: str,
    texts: Sequence[str],
    numbers: Sequence[float | None] = (),
    best: Callable[[Iterable[float]], float] = min,
) -> Row:
    """Mark the best and the worst of several figures. Those that look the same are marked the same, or not at all."""
    if len(texts) == 1:
        return label, (Text(texts[0]),)
    by_text = dict(zip(texts, numbers, strict=False))
    known = {number for number in by_text.values() if number is not None}
    marks: dict[float | None, str] = {}
    if len(known) > 1:
        marks = {max(known) if best is min else min(known): _WORST, best(known): _BEST}
    marked = [(text, marks.get(by_text.get(text), _NO_MARK)) for text in texts]
    return label, tuple(Text(f"{text}{mark}", _MARK_STYLES[mark]) for text, mark in marked)


# The sections.


def _labels(found: Findings, variant: Variant, task: TaskReport) -> Iterator[ConsoleRenderable]:
    """The figures of a classification, and which label was taken for which."""

    def label(name: str) -> str:
        return name_of(name, LABEL_CHARACTERS)

    title = f"{_name(task.name).capitalize()}{f' on {_name(variant)}' if found.several_variants else ''}"
    yield _BLANK
    yield Text.assemble((title, "bold"), f": accuracy {percent(task.accuracy)}, macro F1 {percent(task.macro_f1)}")
    rows: list[Sequence[str | Text]] = [
        [Text(heading, "bold dim") for heading in ("true label", "precision", "recall", "F1", "ROC AUC", "taken for")]
    ]
    for row, each in enumerate(task.labels[:MAX_LABELS_SHOWN]):
        figures = map(percent, (each.precision, each.recall, each.f1, each.roc_auc))
        rows.append([label(each.label), *figures, task.taken_for(row, label)])
    yield columns(rows)
    yield from _more(len(task.labels) - MAX_LABELS_SHOWN, "label")


def _leaderboard(standings: Sequence[Standing]) -> Iterator[ConsoleRenderable]:
    """List the variants, the best first."""
    rows = [
        (place, _name(report.variant), rate_with_interval(report.pass_rate, report.lower, report.upper))
        for place, report in ((standing.place, standing.variant) for standing in standings)
    ]
    yield from _table("Leaderboard", rows, MAX_STANDINGS, "variant")
    if any(standing.tied for standing in standings):
        yield _dim(TIES)


def _bars(report: SuiteReport, scopes: Sequence[ScopeVerdict]) -> Iterator[ConsoleRenderable]:
    """List the parts of the matrix that have a bar, the worst first."""
    rows = []
    for scope in scopes:
        if scope.bar is not None:
            label = scope_label(scope, report)
            name = label if scope.kind == "suite" else f"{label} {scope.name}"
            rate = rate_with_interval(scope.rate, scope.lower, scope.upper, scope.bar)
            rows.append((_word(scope.status), _name(name), rate, f"bar {percent(scope.bar, scope.bar)}"))
    return _table("Gate", rows, MAX_SCOPES, "bar")


def _table(title: str, rows: Sequence[Sequence[str | Text]], most: int, noun: str) -> Iterator[ConsoleRenderable]:
    yield _BLANK
    yield Text(f"{title} ({len(rows):,})", "bold")
    yield columns(rows[:most])
    yield from _more(len(rows) - most, noun)


def _group(group: Group) -> Iterator[ConsoleRenderable]:
    yield _BLANK
    yield Text(group.heading, "bold")
    entries = group.entries[: MAX_FAILED if group.tone == "bad" else MAX_FLAKY]
    for entry in entries:
        yield from _entry(entry, group)
    yield from _more(group.total - len(entries), group.noun)


def _entry(entry: Entry, group: Group) -> Iterator[ConsoleRenderable]:
    """`✗ capital on gpt: 1 of 3 runs passed  evals.yaml:12`, with why, and a wrong answer where there surely is one."""
    mark = Text(*_GROUP_MARKS.get(group.kind, _TONE_MARKS[group.tone]))
    text = Text.assemble(("critical " if entry.critical else "", mark.style))
    for piece in entry.text:
        named = isinstance(piece, ForeignText)
        text.append(_name(piece) if named else piece, "bold" if named else "")
    if entry.cell is not None:
        text.append(f"  {_name(place_of(entry.cell.case))}", "dim")
    yield columns([(mark, text)], gap=1)
    if group.kind == "flaky":
        return
    for reason in entry.reasons[:MAX_REASONS]:
        yield Padding(reason, _INDENT)
    if (left_out := len(entry.reasons) - MAX_REASONS) > 0:
        yield Padding(f"… and {number_of(left_out, 'other reason')}", _INDENT)
    for frame in frames_of(entry.failed.error) if entry.failed is not None else ():
        yield Padding(_dim(frame), _INDENT)
    sure = entry.cell is not None and (group.kind != "possible" or entry.cell.below_bar)
    if sure and entry.failed is not None and (answer := answer_text(entry.failed)) is not None:
        shown = one_line(answer, ANSWER_CHARACTERS) or "(empty)"
        yield Padding(_dim(f"answer of run {entry.failed.run}: {shown}"), _INDENT)


_GROUP_MARKS: Final[Mapping[GroupKind, tuple[str, str]]] = {
    "regressed": ("▼", "red"),
    "errored": ("!", "magenta"),
    "possible": ("?", "yellow"),
    "over budget": ("!", "yellow"),
}
_TONE_MARKS: Final[Mapping[Tone, tuple[str, str]]] = {
    "bad": ("✗", "red"),
    "unsure": ("~", "yellow"),
    "good": ("▲", "green"),
}


def _ending(found: Findings) -> Iterator[ConsoleRenderable]:
    verdict = found.summary.verdict
    for note in found.notes:
        yield columns([(f"{note.label}:", one_line(note.text, SENTENCE_CHARACTERS))], gap=1)
    yield _dim(found.outcome)
    if found.expected:
        yield _dim(found.expected)
    sentences = [(_word(verdict.status), verdict.reason), (_BLANK, verdict.hint)]
    yield columns([(word, one_line(text, SENTENCE_CHARACTERS)) for word, text in sentences if text])


def _word(status: VerdictStatus) -> Text:
    return Text(VERDICTS[status].upper(), _STYLES[status])


def _more(left_out: int, noun: str) -> Iterator[ConsoleRenderable]:
    if left_out > 0:
        yield _dim(f"… and {number_of(left_out, f'more {noun}')} in summary.md")


def _dim(text: str) -> Text:
    return Text(text, "dim")


def _name(name: object) -> str:
    return name_of(name, NAME_CHARACTERS)
