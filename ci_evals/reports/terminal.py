"""The summary on stdout, laid out by rich: figures, the cases to look at and why, the verdict."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import Final, NamedTuple

from rich.console import Console, ConsoleRenderable
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ci_evals.format import (
    UNKNOWN,
    capitalize_first,
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
from ci_evals.gate.cells import KINDS, CellComparison, CellKind
from ci_evals.gate.compare import Comparison, VariantComparison
from ci_evals.gate.differences import Difference
from ci_evals.gate.wording.bars import scope_label
from ci_evals.gate.wording.comparisons import tally_text
from ci_evals.model.case import Variant
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.reports.findings import CaseRow, Findings, findings
from ci_evals.reports.groups import (
    ForeignText,
    Group,
    GroupItem,
    GroupKind,
    Quotation,
    Tone,
    join_sentence,
)
from ci_evals.reports.summary import Summary
from ci_evals.reports.variants import (
    MAX_LABELS_SHOWN,
    OVERLAP,
    TIES,
    Standing,
    TaskReport,
    VariantChange,
    VariantReport,
)
from ci_evals.reports.view import FEW, MANY, NAME_CHARACTERS, SOME, place_of, question_text

_QUESTION_CHARACTERS = 60
_ANSWER_CHARACTERS = 140
_LABEL_CHARACTERS = 40  # of a grader, a label or a variant in a column
_SENTENCE_CHARACTERS = 1000

Parts = Iterator[ConsoleRenderable]

UNBOUNDED = 1000
"""A width at which nothing is wrapped; the terminal itself breaks long lines."""

_VERDICT_MARKS: Final[Mapping[VerdictStatus, tuple[str, str]]] = {
    "pass": ("✓", "bold green"),
    "borderline": ("~", "bold yellow"),
    "fail": ("✗", "bold red"),
    "error": ("!", "bold magenta"),
}
_BLANK = Text()
_INDENT = (0, 0, 0, 4)


def render(summary: Summary, *, width: int, color: bool) -> str:
    """Return the summary for a terminal of `width` columns, with escape codes only if `color`.

    No name or answer in it can move the cursor or give commands to a CI runner.
    """
    return draw(_parts(summary, width), width=width, color=color)


def draw(parts: Iterable[ConsoleRenderable], *, width: int, color: bool = False) -> str:
    """Lay out texts and tables below each other. Environment variables and the real terminal are
    ignored, so the same arguments always give the same text.
    """
    console = Console(
        file=StringIO(),
        width=width,
        height=25,  # without a height, rich asks the terminal for its size
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
    lines = captured.get().split("\n")
    text = "\n".join(line.rstrip() for line in lines)
    return without_commands(text).strip("\n") + "\n"


Row = Sequence[str | Text]


def columns(rows: Sequence[Row], *, gap: int = 2, flush_right: bool = False) -> Table:
    """Return a table without lines. Words wider than their column are folded.

    Args:
        rows: the texts of each row.
        gap: the number of blanks between two columns.
        flush_right: align all columns but the first to the right.
    """
    table = Table.grid(padding=(0, gap, 0, 0))
    for row in rows:
        cells = []
        for cell in row:
            if isinstance(cell, Text):
                cells.append(cell)
            else:
                cells.append(Text(cell))  # a plain string would be read as markup
        table.add_row(*cells)
    for number, column in enumerate(table.columns):
        column.overflow = "fold"
        if flush_right and number:
            column.justify = "right"
    return table


def render_comparison(comparison: Comparison) -> str:
    """Return a line for each figure of a variant, then one for each cell, changed ones first."""
    base = comparison.baseline.label.removeprefix("the ")
    rows: list[Row] = [("", base, "here", "change", "p")]
    for variant in comparison.variants:
        rows += _variant_rows(comparison, variant)
    kinds: list[CellKind] = ["regressed", "suspect", "fixed"]
    kinds += [kind for kind in KINDS if kind not in kinds]
    for kind in kinds:
        cells = [cell for cell in comparison.cells if cell.kind == kind]
        rows += [_cell_row(comparison, cell) for cell in cells]
    table = columns(rows)
    return draw([table], width=UNBOUNDED).rstrip("\n")


def _variant_rows(comparison: Comparison, variant: VariantComparison) -> Iterator[Row]:
    figures = variant.differences
    name = ""
    if comparison.several_variants:
        name = f"{_name(variant.variant)}: "
    base = percent(variant.base_rate, variant.head_rate)
    here = percent(variant.head_rate, variant.base_rate)
    points = UNKNOWN
    if figures.pass_rate is not None:
        points = f"{100 * figures.pass_rate.value:+.1f} points"
    yield f"{name}pass rate", base, here, points, f"{variant.p:.2g}"
    if figures.score is not None:
        yield f"{name}mean score", "", "", _with_bounds(figures.score, "+.2f"), ""
    ratios = {"cost": figures.cost, "tokens": figures.tokens, "latency": figures.latency}
    for label, ratio in ratios.items():
        if ratio is not None:
            change = _with_bounds(ratio, ".2f")
            yield f"{name}{label}", "", "", f"× {change}", ""


def _with_bounds(figure: Difference, form: str) -> str:
    """`1.20 (1.05 to 1.40)`."""
    value = format(figure.value, form)
    if figure.lower is None or figure.upper is None:
        return value
    return f"{value} ({format(figure.lower, form)} to {format(figure.upper, form)})"


def _cell_row(comparison: Comparison, cell: CellComparison) -> Row:
    name = _name(cell.case)
    if comparison.several_variants:
        name = f"{name} on {_name(cell.variant)}"
    p = ""
    decisive_p = comparison.decisive_p(cell)
    if decisive_p is not None:
        p = f"{decisive_p:.2g}"
    return name, _tally(cell.base), _tally(cell.head), cell.kind, p


def _tally(tally: Tally) -> str:
    if not tally.graded:
        return UNKNOWN
    return tally_text(tally)


def _parts(summary: Summary, width: int) -> Parts:
    found = findings(summary)
    headline = join_sentence(found.headline, _name)
    yield _verdict(found, one_line(headline, _SENTENCE_CHARACTERS))
    if found.evidence:
        yield Padding(one_line(found.evidence, _SENTENCE_CHARACTERS), _INDENT)
    rows = [row for row in found.rows if row.base_now]
    if rows:
        yield from _cases_on_both_sides(found, rows)
    for group in found.groups:
        if not group.folded:
            yield from _group(group)
    yield _BLANK
    yield from _figures(found, width)
    yield from _graders(found.variants)
    yield from _metrics(found)
    for variant, task in found.tasks:
        yield from _labels(found, variant, task)
    if found.leaderboard:
        yield from _leaderboard(found.leaderboard)
    if found.bars:
        yield from _bars(summary.report, found.bars)
    folded = [_folded_group(group) for group in found.groups if group.folded]
    if folded:
        yield _BLANK
        yield from folded
    yield _BLANK
    yield from _ending(found)


def _verdict(found: Findings, text: str) -> Text:
    """`✗ FAIL  2 cases regressed: refund, cancel`."""
    status = found.summary.verdict.status
    mark, style = _VERDICT_MARKS[status]
    return Text.assemble((f"{mark} {VERDICTS[status].upper()}", style), f"  {text}")


def _cases_on_both_sides(found: Findings, rows: Sequence[CaseRow]) -> Parts:
    """Yield a table of the cases that main ran in the same minutes: its reports, now, and here."""
    base = found.summary.base_heading
    table = Table(
        box=None, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim"
    )
    table.add_column(overflow="fold")
    for heading in (_name(base), f"{_name(base)} now", "here"):
        table.add_column(heading, justify="right", overflow="fold")
    table.add_column()
    for row in rows[:SOME]:
        subject = Text(join_sentence(row.subject, _name), "bold")
        if row.critical:
            subject.append(" critical", "red")
        table.add_row(
            subject, row.base, row.base_now, Text(row.here, "bold"), Text(row.note, "dim")
        )
    yield _BLANK
    yield table
    yield from _more(len(rows) - SOME, "case")


# The figures of the variants.

_ESSENTIAL = 1  # up to this rank: the pass rate and its change
_BEST, _WORST = " ▲", " ▼"
_NO_MARK = "  "
_MARK_STYLES = {_BEST: "green", _WORST: "red", _NO_MARK: ""}


class Column(NamedTuple):
    """A figure of every variant.

    In a narrow terminal, the columns of the highest `rank` are dropped first. The `short` figures
    replace the others only if even the columns up to `_ESSENTIAL` are too wide.
    """

    title: str
    rank: int
    figures: Sequence[Text]
    is_marked: bool = False
    short: Sequence[Text] = ()


def _figures(found: Findings, width: int) -> Parts:
    """Yield a table with a row for each variant, and as many columns as fit."""
    chosen = list(_columns(found))
    essential = [column for column in chosen if column.rank <= _ESSENTIAL]
    if _width(_table_of_variants(found, essential)) > width:
        for number, column in enumerate(chosen):
            if column.short:
                chosen[number] = column._replace(figures=column.short)
    table = _table_of_variants(found, chosen)
    while len(chosen) > 1 and _width(table) > width:
        least = max(chosen, key=lambda column: column.rank)
        chosen.remove(least)
        table = _table_of_variants(found, chosen)
    yield table
    if any(column.is_marked for column in chosen):
        yield _dim("▲ best  ▼ worst")
    for variant, change in found.variant_changes.items():
        if change.basis:
            whose = f"{_name(variant)}: " if found.several_variants else ""
            yield _dim(f"{whose}{change.basis}")


def _width(table: Table) -> int:
    console = Console(width=UNBOUNDED, height=25)
    return Measurement.get(console, console.options, table).maximum


def _table_of_variants(found: Findings, chosen: Sequence[Column]) -> Table:
    table = Table(
        box=None,
        show_edge=False,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="dim",
    )
    table.add_column(overflow="fold", max_width=_LABEL_CHARACTERS)
    for column in chosen:
        table.add_column(column.title, justify="right", no_wrap=True)
    for row, variant in enumerate(found.variants):
        name = Text(_name(variant.variant), "bold")
        figures = [column.figures[row] for column in chosen]
        table.add_row(name, *figures)
    return table


def _columns(found: Findings) -> Iterator[Column]:
    variants = found.variants
    counts = [each.counts for each in variants]
    figures = [each.figures for each in variants]
    changes = list(found.variant_changes.values())

    rates = []
    texts = []
    for each in variants:
        rates.append(each.pass_rate)
        texts.append(rate_with_interval(each.pass_rate, each.lower, each.upper))
    pass_rates = _column("pass rate", 0, texts, rates, highest_is_best=True)
    without_intervals = _column("pass rate", 0, map(percent, rates), rates, highest_is_best=True)
    yield pass_rates._replace(short=without_intervals.figures)
    texts = [f"{each.passed:,}/{each.graded:,}" for each in counts]
    yield _column("runs", 5, texts)
    if changes:
        title = f"against {found.summary.base}"
        yield _column(title, 1, [change.pass_rate for change in changes])
    k = variants[0].k
    if k is not None:
        chances = [each.pass_hat_k for each in variants]
        yield _column(f"pass^{k}", 8, map(percent, chances), chances, highest_is_best=True)
    errored = [each.errored for each in counts]
    if any(errored):
        texts = [f"{number:,}" for number in errored]
        yield _column("errored", 2, texts, errored)
    scores = [each.match_rate for each in variants]
    yield _column("score", 6, map(score, scores), scores, highest_is_best=True)

    yield from _cost_columns(variants, changes)

    latencies_s = [each.latency_p50_s for each in figures]
    yield _column("p50", 4, map(seconds, latencies_s), latencies_s)
    latencies_s = [each.latency_p95_s for each in figures]
    yield _column("p95", 7, map(seconds, latencies_s), latencies_s)
    latencies_s = [each.first_token_p50_s for each in figures]
    if any(latencies_s):
        yield _column("first token", 12, map(seconds, latencies_s), latencies_s)
    if any(change.latency for change in changes):
        yield _column("p50's change", 11, [change.latency for change in changes])


def _cost_columns(
    variants: Sequence[VariantReport], changes: Sequence[VariantChange]
) -> Iterator[Column]:
    costs: list[float | None] = []
    tokens: list[float | None] = []
    cost_texts: list[str] = []
    token_texts: list[str] = []
    for each in variants:
        cost = each.figures.cost_usd
        if each.unpriced_runs:
            cost = None
        costs.append(cost)
        cost_texts.append(each.cost_text)
        number = each.figures.input_tokens + each.figures.output_tokens
        if number:
            tokens.append(number)
            token_texts.append(f"{number:,}")
        else:
            tokens.append(None)
            token_texts.append(UNKNOWN)
    has_tokens = any(tokens)
    if len({each.counts.graded for each in variants}) > 1:
        # A variant with fewer runs would look cheaper.
        costs = tokens = []
    yield _column("cost", 3, cost_texts, costs)
    if any(change.cost for change in changes):
        yield _column("per run", 9, [change.cost for change in changes])
    if has_tokens:
        yield _column("tokens", 10, token_texts, tokens)


def _column(
    title: str,
    rank: int,
    texts: Iterable[str],
    numbers: Sequence[float | None] = (),
    *,
    highest_is_best: bool = False,
) -> Column:
    """Return a column with the best and the worst figure marked."""
    # Figures are compared as shown: equal texts with different marks would look like a mistake.
    shown = list(texts)
    by_text = dict(zip(shown, numbers, strict=False))
    known = {number for number in by_text.values() if number is not None}
    if len(known) < 2:
        return Column(title, rank, [Text(text) for text in shown])
    best, worst = min(known), max(known)
    if highest_is_best:
        best, worst = worst, best
    marks: dict[float | None, str] = {best: _BEST, worst: _WORST}
    figures = []
    for text in shown:
        mark = marks.get(by_text[text], _NO_MARK)
        figures.append(Text(f"{text}{mark}", _MARK_STYLES[mark]))
    return Column(title, rank, figures, is_marked=True)


def _graders(variants: Sequence[VariantReport]) -> Iterator[Text]:
    """`graders: contains 0.90, regex 0.95 to 1.00, 4 others 1.00`, lowest first."""
    means: dict[str, list[float]] = {}
    for variant in variants:
        for grader, mean in variant.grader_means.items():
            means.setdefault(grader, []).append(mean)
    graders = sorted(means, key=lambda grader: min(means[grader]))
    imperfect = [grader for grader in graders if min(means[grader]) < 1]
    perfect = len(graders) - len(imperfect)
    if perfect > FEW:
        graders = imperfect
    texts = []
    for grader in graders:
        figures = span(means[grader], score)
        texts.append(f"{_label(grader)} {figures}")
    if perfect > FEW:
        noun = "others" if imperfect else "graders"
        texts.append(f"{perfect} {noun} 1.00")
    if texts:
        yield _figure("graders", ", ".join(texts))


def _metrics(found: Findings) -> Iterator[Text]:
    """`metric  tone 74 % (65 to 82 %), 91 % on main, p = 0.002`, with `on gpt` after a mean if
    there are several variants.
    """
    for metric in found.metrics:
        texts = []
        for variant, mean in metric.means:
            text = rate_with_interval(mean.mean, mean.lower, mean.upper)
            if found.several_variants:
                text = f"{text} on {_name(variant)}"
            texts.append(text)
        if metric.against_base:
            texts.append(metric.against_base)
        yield _figure("metric", f"{_label(metric.name)} {', '.join(texts)}")


def _figure(title: str, text: str) -> Text:
    return Text.assemble((f"{title}  ", "dim"), text)


def _label(name: str) -> str:
    return name_of(name, _LABEL_CHARACTERS)


# The sections.


def _labels(found: Findings, variant: Variant, task: TaskReport) -> Parts:
    """Yield the figures of a classification, and the labels given for each true label."""
    title = _name(task.name).capitalize()
    if found.several_variants:
        title = f"{title} on {_name(variant)}"
    accuracy, macro_f1 = percent(task.accuracy), percent(task.macro_f1)
    yield _BLANK
    yield Text.assemble((title, "bold"), f": accuracy {accuracy}, macro F1 {macro_f1}")
    headings = ("true label", "precision", "recall", "F1", "ROC AUC", "taken for")
    rows: list[Row] = [[Text(heading, "bold dim") for heading in headings]]
    for number, label in enumerate(task.labels[:MAX_LABELS_SHOWN]):
        row = [
            _label(label.label),
            percent(label.precision),
            percent(label.recall),
            percent(label.f1),
            percent(label.roc_auc),
            task.taken_for(number, _label),
        ]
        rows.append(row)
    yield columns(rows)
    yield from _more(len(task.labels) - MAX_LABELS_SHOWN, "label")


def _leaderboard(standings: Sequence[Standing]) -> Parts:
    """List the variants, best first, or just say that all are tied."""
    if all(standing.place == standings[0].place for standing in standings):
        yield _dim(f"all {number_of(len(standings), 'variant')} are tied: {OVERLAP}")
        return
    rows = []
    for standing in standings:
        report = standing.variant
        name = _name(report.variant)
        rate = rate_with_interval(report.pass_rate, report.lower, report.upper)
        rows.append((standing.place, name, rate))
    yield from _table("Leaderboard", rows, MANY, "variant")
    if any(standing.tied for standing in standings):
        yield _dim(TIES)


def _bars(report: SuiteReport, scopes: Sequence[ScopeVerdict]) -> Parts:
    """List the parts of the matrix with a bar, worst first."""
    rows = []
    for scope in scopes:
        _, style = _VERDICT_MARKS[scope.status]
        verdict = Text(VERDICTS[scope.status].upper(), style)
        name = scope_label(scope, report)
        if scope.kind != "suite":
            name = f"{name} {scope.name}"
        rate = rate_with_interval(scope.rate, scope.lower, scope.upper, scope.bar)
        bar = percent(scope.bar, scope.bar)
        rows.append((verdict, _name(name), rate, f"bar {bar}"))
    return _table("Gate", rows, SOME, "bar")


def _table(title: str, rows: Sequence[Row], most: int, noun: str) -> Parts:
    yield _BLANK
    yield Text(f"{title} ({len(rows):,})", "bold")
    yield columns(rows[:most])
    yield from _more(len(rows) - most, noun)


_GROUP_MARKS: Final[Mapping[GroupKind, tuple[str, str]]] = {
    "regressed": ("▼", "red"),
    "errored": ("!", "magenta"),
    "probably worse": ("?", "yellow"),
    "can't tell": ("?", "yellow"),
    "over budget": ("!", "yellow"),
}
_TONE_MARKS: Final[Mapping[Tone, tuple[str, str]]] = {
    "bad": ("✗", "red"),
    "unsure": ("~", "yellow"),
    "good": ("▲", "green"),
}


def _group(group: Group) -> Parts:
    yield _BLANK
    yield Text(group.heading, "bold")
    for entry in group.entries[:SOME]:
        yield from _entry(entry, group)
    yield from _more(group.total - SOME, group.noun)


def _folded_group(group: Group) -> Text:
    """`Flaky, but within the bar (2): greet, status`."""
    lines = [entry.line(_name) for entry in group.entries]
    if group.kind == "changed":
        return _dim(", ".join(lines))
    names: list[str] = []
    for entry in group.entries:
        names += [_name(cell.case.id) for cell in entry.cells]
    names = list(dict.fromkeys(names or lines))[:FEW]
    more = group.count - len(names)
    if more > 0:
        names.append(f"{more:,} more")
    return _dim(f"{group.title} ({group.count:,}): {', '.join(names)}")


def _entry(entry: GroupItem, group: Group) -> Parts:
    """`✗ refund on gpt: 1 of 3 runs passed  evals.yaml:12`, with the answer and its faults."""
    if group.kind in _GROUP_MARKS:
        mark, color = _GROUP_MARKS[group.kind]
    else:
        mark, color = _TONE_MARKS[group.tone]
    text = Text()
    if entry.critical:
        text.append("critical ", color)
    for piece in entry.text:
        if isinstance(piece, Quotation):
            text.append(f'"{piece}"', "bold")
        elif isinstance(piece, ForeignText):
            text.append(_name(piece), "bold")
        else:
            text.append(piece)
    if len(entry.cells) == 1:
        place = place_of(entry.cells[0].case)
        text.append(f"  {_name(place)}", "dim")
    row = (Text(mark, color), text)
    yield columns([row], gap=1)
    if group.kind not in ("flaky", "fixed"):
        yield from _details(entry, group)


def _details(entry: GroupItem, group: Group) -> Parts:
    cell, run = entry.cell, entry.run
    frames: Sequence[str] = entry.frames
    lines: list[str | Text] = []
    if run is not None:
        frames = run.frames
    may_be_luck = group.kind == "can't tell" and not (cell and cell.below_bar)
    if cell and run and run.answer is not None and not may_be_luck:
        question = question_text(cell.case, run.first)
        asked = one_line(question, _QUESTION_CHARACTERS)
        answer = one_line(run.evidence or "", _ANSWER_CHARACTERS) or "(empty)"
        shown = answer
        if asked:  # a conversation has its questions among the answers
            shown = f"{asked} → {answer}"
        lines.append(_dim(shown))
    if cell and len(entry.cells) == 1:
        lines += cell.failures.lines(FEW, of_each_run=False)
    lines += map(_dim, frames)
    for line in lines:
        yield Padding(line, _INDENT)


def _ending(found: Findings) -> Parts:
    for note in found.notes:
        text = one_line(note.text, _SENTENCE_CHARACTERS)
        if note.command:
            text += f"; {one_line(note.command)}"
        yield columns([(f"{note.label}:", text)], gap=1)
    if found.expected:
        yield _dim(found.expected)
    if hint := found.summary.verdict.hint:
        yield Text(one_line(capitalize_first(hint), _SENTENCE_CHARACTERS))
    yield _BLANK
    headline = one_line(found.short_headline, NAME_CHARACTERS)
    yield _verdict(found, " · ".join([headline, *found.facts]))


def _more(left_out: int, noun: str) -> Parts:
    if left_out > 0:
        yield _dim(f"… and {number_of(left_out, f'more {noun}')} in summary.md")


def _name(name: object) -> str:
    return name_of(name, NAME_CHARACTERS)


def _dim(text: str) -> Text:
    return Text(text, "dim")
