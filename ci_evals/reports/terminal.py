"""The summary on stdout: figures, the cases that need a look with why, and the verdict last. Laid
out by rich.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import Final, NamedTuple

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
    span,
    without_commands,
)
from ci_evals.gate.bars import VERDICTS, ScopeVerdict, VerdictStatus
from ci_evals.gate.compare import KINDS, Comparison, VariantComparison
from ci_evals.gate.differences import Difference
from ci_evals.gate.wording import scope_label, tally_text
from ci_evals.model.case import Variant
from ci_evals.model.report import SuiteReport
from ci_evals.reports.cells import answer_text, frames_of, place_of, question_text
from ci_evals.reports.findings import (
    Entry,
    Findings,
    ForeignText,
    Group,
    GroupKind,
    Tone,
    findings,
    join_sentence,
)
from ci_evals.reports.summary import Summary
from ci_evals.reports.variants import MAX_LABELS_SHOWN, TIES, Standing, TaskReport, VariantReport

MAX_FAILED = 10
MAX_FLAKY = 10
MAX_SCOPES = 10
MAX_STANDINGS = 20
MAX_REASONS = 3
_MOST_NAMED = 5

NAME_CHARACTERS = 100
QUESTION_CHARACTERS = 60
ANSWER_CHARACTERS = 140
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
    """Lay out texts and tables below each other, whatever the environment says of colours and
    sizes.
    """
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


def columns(
    rows: Sequence[Sequence[str | Text]], *, gap: int = 2, flush_right: bool = False
) -> Table:
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
    """Return a line for each figure of a variant and for each cell; those that changed come
    first.
    """
    changed = ("regressed", "suspect", "fixed")
    order = (*changed, *(kind for kind in KINDS if kind not in changed))
    rows: list[tuple[str, ...]] = [("", "baseline", "here", "change", "p")]
    for variant in comparison.variants:
        name = _short_name(variant.variant)
        rows += _variant_rows(variant, f"{name}: " if comparison.several_variants else "")
    for cell in sorted(comparison.cells, key=lambda cell: order.index(cell.kind)):
        on = f" on {_short_name(cell.variant)}" if comparison.several_variants else ""
        base, here = (
            tally_text(side) if side.graded else UNKNOWN for side in (cell.base, cell.head)
        )
        rows.append(
            (
                f"{_short_name(cell.case)}{on}",
                base,
                here,
                cell.kind,
                "" if cell.p is None else f"{cell.p:.2g}",
            )
        )
    return draw([columns(rows)], width=UNBOUNDED).rstrip("\n")


def _short_name(name: object) -> str:
    return name_of(name, 60)


def _variant_rows(variant: VariantComparison, prefix: str) -> Iterator[tuple[str, ...]]:
    figures = variant.differences

    def with_interval(figure: Difference, form: str) -> str:
        if figure.lower is None or figure.upper is None:
            return f"{figure.value:{form}}"
        return f"{figure.value:{form}} ({figure.lower:{form}} to {figure.upper:{form}})"

    base, here = (
        percent(variant.base_rate, variant.head_rate),
        percent(variant.head_rate, variant.base_rate),
    )
    points = (
        UNKNOWN if figures.pass_rate is None else f"{100 * figures.pass_rate.value:+.1f} points"
    )
    yield f"{prefix}pass rate", base, here, points, f"{variant.p:.2g}"
    if figures.score is not None:
        yield f"{prefix}mean score", "", "", with_interval(figures.score, "+.2f"), ""
    for label, ratio in (
        ("cost", figures.cost),
        ("tokens", figures.tokens),
        ("latency", figures.latency),
    ):
        if ratio is not None:
            yield f"{prefix}{label}", "", "", f"× {with_interval(ratio, '.2f')}", ""


def _parts(summary: Summary, width: int) -> Iterator[ConsoleRenderable]:
    found = findings(summary)
    yield _verdict(found, one_line(join_sentence(found.headline, _name, str), SENTENCE_CHARACTERS))
    if found.evidence:
        yield Padding(one_line(found.evidence, SENTENCE_CHARACTERS), _INDENT)
    yield _BLANK
    yield from _figures(found, width)
    yield from _scores(found.variants)
    for variant, task in found.tasks:
        yield from _labels(found, variant, task)
    if found.leaderboard:
        yield from _leaderboard(found.leaderboard)
    if found.bars:
        yield from _bars(summary.report, found.bars)
    for group in found.groups:
        if not group.folded:
            yield from _group(group)
    if folded := [_folded_group(group) for group in found.groups if group.folded]:
        yield _BLANK
        yield from folded
    yield _BLANK
    yield from _ending(found)


_VERDICT_MARKS: Final[Mapping[VerdictStatus, str]] = {
    "pass": "✓",
    "borderline": "~",
    "fail": "✗",
    "error": "!",
}


def _verdict(found: Findings, text: str) -> Text:
    """`✗ FAIL  2 cases regressed: refund, cancel`."""
    status = found.summary.verdict.status
    return Text.assemble(
        (f"{_VERDICT_MARKS[status]} {VERDICTS[status].upper()}", _STYLES[status]), f"  {text}"
    )


# The figures of the variants.

_BEST, _WORST = " ▲", " ▼"
_LEGEND = "▲ best  ▼ worst"
_NO_MARK = "  "
_MARK_STYLES = {_BEST: "green", _WORST: "red", _NO_MARK: ""}
_WIDEST_VARIANT = 40
_MOST_PERFECT = 3  # graders that are listed although every answer was right for them


class Column(NamedTuple):
    """A figure of every variant. The columns of the highest `rank` go first where the terminal is
    too narrow.
    """

    title: str
    figures: Sequence[Text]
    rank: int


def _figures(found: Findings, width: int) -> Iterator[ConsoleRenderable]:
    """Yield a table with a row for each variant, and as many columns as fit."""
    chosen = list(_columns(found))
    console = Console(width=UNBOUNDED, height=25)

    def table() -> Table:
        table = Table(
            box=None, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim"
        )
        table.add_column(overflow="fold", max_width=_WIDEST_VARIANT)
        for column in chosen:
            table.add_column(column.title, justify="right", no_wrap=True)
        for row, variant in enumerate(found.variants):
            table.add_row(
                Text(_name(variant.variant), "bold"), *(column.figures[row] for column in chosen)
            )
        return table

    while len(chosen) > 1 and Measurement.get(console, console.options, table()).maximum > width:
        chosen.remove(max(chosen, key=lambda column: column.rank))
    yield table()
    if any(text.plain.endswith((_BEST, _WORST)) for column in chosen for text in column.figures):
        yield _dim(_LEGEND)


def _columns(found: Findings) -> Iterator[Column]:
    variants, base = found.variants, found.summary.base
    same_work = (
        len({variant.counts.graded for variant in variants}) == 1
    )  # else fewer runs would look cheaper
    pass_rates = [variant.pass_rate for variant in variants]
    intervals = [rate_with_interval(each.pass_rate, each.lower, each.upper) for each in variants]
    yield Column("pass rate", _marked(intervals, pass_rates, max), 0)
    yield Column(
        "runs", _marked([f"{each.counts.passed:,}/{each.counts.graded:,}" for each in variants]), 5
    )
    if base:
        changes = [found.variant_changes[variant.variant] for variant in variants]
        yield Column(f"against {base}", _marked([change.pass_rate for change in changes]), 1)
    if k := variants[0].k:
        all_pass = [variant.pass_hat_k for variant in variants]
        yield Column(f"pass^{k}", _marked(list(map(percent, all_pass)), all_pass, max), 8)
    errored = [variant.counts.errored for variant in variants]
    if any(errored):
        yield Column("errored", _marked([f"{count:,}" for count in errored], errored), 2)
    scores = [variant.match_rate for variant in variants]
    yield Column("score", _marked(list(map(score, scores)), scores, max), 6)
    costs = [
        None if each.unpriced_runs or not same_work else each.figures.cost_usd for each in variants
    ]
    yield Column("cost", _marked([each.cost_text for each in variants], costs), 3)
    if base and any(change.cost for change in changes):
        yield Column("per run", _marked([change.cost for change in changes]), 9)
    counts = [
        (each.figures.input_tokens + each.figures.output_tokens) or None for each in variants
    ]  # none told is 0
    if any(counts):
        texts = [f"{count:,}" if count else UNKNOWN for count in counts]
        yield Column("tokens", _marked(texts, counts if same_work else ()), 10)
    for title, rank, latencies in (
        ("p50", 4, [each.figures.latency_p50_s for each in variants]),
        ("p95", 7, [each.figures.latency_p95_s for each in variants]),
        ("first token", 12, [each.figures.first_token_p50_s for each in variants]),
    ):
        if title == "first token" and not any(latencies):
            continue
        yield Column(title, _marked(list(map(seconds, latencies)), latencies), rank)
    if base and any(change.latency for change in changes):
        yield Column("p50's change", _marked([change.latency for change in changes]), 11)


def _marked(
    texts: Sequence[str],
    numbers: Sequence[float | None] = (),
    best: Callable[[Iterable[float]], float] = min,
) -> list[Text]:
    """Mark the best and the worst of several figures. Those that look the same are marked the same,
    or not at all.
    """
    by_text = dict(zip(texts, numbers, strict=False))
    known = {number for number in by_text.values() if number is not None}
    marks: dict[float | None, str] = {}
    if len(known) > 1:
        marks = {max(known) if best is min else min(known): _WORST, best(known): _BEST}
    if not marks:
        return [Text(text) for text in texts]
    marked = [(text, marks.get(by_text.get(text), _NO_MARK)) for text in texts]
    return [Text(f"{text}{mark}", _MARK_STYLES[mark]) for text, mark in marked]


def _scores(variants: Sequence[VariantReport]) -> Iterator[Text]:
    """`graders: contains 0.90, regex 0.95 to 1.00, 4 others 1.00`, the lowest first; and the same
    of metrics.
    """
    means: dict[str, list[float]] = {}
    for variant in variants:
        for grader, mean in variant.grader_means.items():
            means.setdefault(grader, []).append(mean)
    listed = sorted(means, key=lambda grader: min(means[grader]))
    perfect = [grader for grader in listed if min(means[grader]) == 1]
    if len(perfect) > _MOST_PERFECT:
        listed = listed[: -len(perfect)]
    texts = [
        f"{name_of(grader, LABEL_CHARACTERS)} {span(means[grader], score)}" for grader in listed
    ]
    if len(perfect) > _MOST_PERFECT:
        texts.append(f"{len(perfect)} {'others' if listed else 'graders'} 1.00")
    if texts:
        yield Text.assemble(("graders  ", "dim"), ", ".join(texts))
    for name in dict.fromkeys(metric.name for variant in variants for metric in variant.metrics):
        found = [(each, one) for each in variants for one in each.metrics if one.name == name]
        shown = [
            rate_with_interval(one.mean, one.lower, one.upper)
            + (f" on {_name(each.variant)}" if variants[1:] else "")
            for each, one in found
        ]
        yield Text.assemble(
            ("metric  ", "dim"), f"{name_of(name, LABEL_CHARACTERS)} {', '.join(shown)}"
        )


# The sections.


def _labels(found: Findings, variant: Variant, task: TaskReport) -> Iterator[ConsoleRenderable]:
    """The figures of a classification, and which label was taken for which."""

    def label(name: str) -> str:
        return name_of(name, LABEL_CHARACTERS)

    title = f"{_name(task.name).capitalize()}{f' on {_name(variant)}' if found.several_variants else ''}"
    yield _BLANK
    yield Text.assemble(
        (title, "bold"), f": accuracy {percent(task.accuracy)}, macro F1 {percent(task.macro_f1)}"
    )
    rows: list[Sequence[str | Text]] = [
        [
            Text(heading, "bold dim")
            for heading in ("true label", "precision", "recall", "F1", "ROC AUC", "taken for")
        ]
    ]
    for row, each in enumerate(task.labels[:MAX_LABELS_SHOWN]):
        figures = map(percent, (each.precision, each.recall, each.f1, each.roc_auc))
        rows.append([label(each.label), *figures, task.taken_for(row, label)])
    yield columns(rows)
    yield from _more(len(task.labels) - MAX_LABELS_SHOWN, "label")


def _leaderboard(standings: Sequence[Standing]) -> Iterator[ConsoleRenderable]:
    """List the variants, the best first."""
    rows = [
        (
            place,
            _name(report.variant),
            rate_with_interval(report.pass_rate, report.lower, report.upper),
        )
        for place, report in ((standing.place, standing.variant) for standing in standings)
    ]
    yield from _table("Leaderboard", rows, MAX_STANDINGS, "variant")
    if any(standing.tied for standing in standings):
        yield _dim(TIES)


def _bars(report: SuiteReport, scopes: Sequence[ScopeVerdict]) -> Iterator[ConsoleRenderable]:
    """List the parts of the matrix that have a bar, the worst first."""
    rows = []
    for scope in scopes:
        label = scope_label(scope, report)
        name = label if scope.kind == "suite" else f"{label} {scope.name}"
        rate = rate_with_interval(scope.rate, scope.lower, scope.upper, scope.bar)
        rows.append(
            (_word(scope.status), _name(name), rate, f"bar {percent(scope.bar, scope.bar)}")
        )
    return _table("Gate", rows, MAX_SCOPES, "bar")


def _table(
    title: str, rows: Sequence[Sequence[str | Text]], most: int, noun: str
) -> Iterator[ConsoleRenderable]:
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


def _folded_group(group: Group) -> Text:
    """`Flaky, but within the bar (2): greet, status`."""
    named = list(dict.fromkeys(cell.case.id for entry in group.entries for cell in entry.cells))[
        :_MOST_NAMED
    ]
    if group.kind == "changed":
        return _dim(", ".join(entry.line(_name) for entry in group.entries))
    if not named:
        named = [entry.line(_name) for entry in group.entries][:MAX_REASONS]
    more = group.count - len(named)
    names = ", ".join([*map(_name, named), *([f"{more:,} more"] if more and named else [])])
    return _dim(f"{group.title} ({group.count:,}){f': {names}' if names else ''}")


def _entry(entry: Entry, group: Group) -> Iterator[ConsoleRenderable]:
    """`✗ refund on gpt: 1 of 3 runs passed  evals.yaml:12`, with the question, the answer, and why
    it failed.
    """
    mark = Text(*_GROUP_MARKS.get(group.kind, _TONE_MARKS[group.tone]))
    text = Text.assemble(("critical " if entry.critical else "", mark.style))
    for piece in entry.text:
        named = isinstance(piece, ForeignText)
        text.append(_name(piece) if named else piece, "bold" if named else "")
    if len(entry.cells) == 1:
        text.append(f"  {_name(place_of(entry.cells[0].case))}", "dim")
    yield columns([(mark, text)], gap=1)
    if group.kind == "flaky":
        return
    sure = entry.cell is not None and (group.kind != "possible" or entry.cell.below_bar)
    if (
        sure
        and entry.cell
        and entry.failed is not None
        and (answer := answer_text(entry.failed)) is not None
    ):
        asked = one_line(question_text(entry.cell.case, entry.failed), QUESTION_CHARACTERS)
        shown = one_line(answer, ANSWER_CHARACTERS) or "(empty)"
        yield Padding(_dim(f"{asked} → {shown}" if asked else f"→ {shown}"), _INDENT)
    for reason in entry.missed[:MAX_REASONS]:
        yield Padding(reason, _INDENT)
    if (left_out := len(entry.missed) - MAX_REASONS) > 0:
        yield Padding(f"… and {number_of(left_out, 'other reason')}", _INDENT)
    for frame in frames_of(entry.failed.error) if entry.failed is not None else ():
        yield Padding(_dim(frame), _INDENT)


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
    for note in found.notes:
        yield columns([(f"{note.label}:", one_line(note.text, SENTENCE_CHARACTERS))], gap=1)
    if found.expected:
        yield _dim(found.expected)
    if hint := found.summary.verdict.hint:
        yield Text(one_line(hint[:1].upper() + hint[1:], SENTENCE_CHARACTERS))
    yield _BLANK
    yield _verdict(
        found, " · ".join((one_line(found.headline[0], 100).removesuffix(":"), *found.facts))
    )


def _word(status: VerdictStatus) -> Text:
    return Text(VERDICTS[status].upper(), _STYLES[status])


def _more(left_out: int, noun: str) -> Iterator[ConsoleRenderable]:
    if left_out > 0:
        yield _dim(f"… and {number_of(left_out, f'more {noun}')} in summary.md")


def _dim(text: str) -> Text:
    return Text(text, "dim")


def _name(name: object) -> str:
    return name_of(name, NAME_CHARACTERS)
