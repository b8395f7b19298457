"""What is printed on stdout when a run has ended: figures, failing cases with why, and the verdict last."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from ci_evals.model import Variant
from ci_evals.report import Report
from ci_evals.reports.changes import ComparedCell, Roster, changes, finding_of, roster_title, rosters
from ci_evals.reports.figures import UNKNOWN, between, number_of, rate, rate_with_interval, seconds
from ci_evals.reports.findings import (
    MAX_CASES_OF_ERROR,
    answer_text,
    counted_reasons,
    error_groups,
    failed_runs,
    over_budget,
    place_of,
)
from ci_evals.reports.json_brief import render_json
from ci_evals.reports.labels import MAX_LABELS_SHOWN, TaskReport, task_reports
from ci_evals.reports.leaderboard import TIES, Standing, leaderboard
from ci_evals.reports.notes import comparison_notes, notes
from ci_evals.reports.summary import Summary
from ci_evals.reports.terminal_layout import Paragraph, Part, Table, Text, drawn, plain, styled
from ci_evals.reports.terminal_table import LEGEND, NAME_CHARACTERS, figure_tables, has_marks
from ci_evals.reports.text import named, one_line, without_commands
from ci_evals.reports.variants import VariantReport, variant_reports
from ci_evals.verdict.gate import population_bounds
from ci_evals.verdict.scopes import STATUS_WORDS, ScopeVerdict, VerdictStatus, scope_label, worst_first
from ci_evals.verdict.words import in_place

__all__ = ["render", "render_json"]

MAX_FAILED = 20
MAX_FLAKY = 10
MAX_ERROR_GROUPS = 10
MAX_OVER_BUDGET = 10
MAX_SCOPES = 10
MAX_STANDINGS = 20

_MAX_REASONS = 3
_ANSWER_CHARACTERS = 200
_LABEL_CHARACTERS = 40
_SENTENCE_CHARACTERS = 1000
_STYLES: Mapping[VerdictStatus, str] = {
    "pass": "bold green",
    "borderline": "bold yellow",
    "fail": "bold red",
    "error": "bold magenta",
}
_BLANK = Paragraph(())
Shown = Callable[[ComparedCell], Iterator[Part]]


def render(summary: Summary, *, width: int, color: bool) -> str:
    """The summary for a terminal of `width` columns, as plain text without `color`.

    Either way no name and no answer can move the cursor or command a CI runner.
    """
    lines = (drawn(line, color=color) for part in _parts(summary, width) for line in part.lines(width))
    return without_commands("\n".join(lines)).strip("\n") + "\n"


def _parts(summary: Summary, width: int) -> Iterator[Part]:
    report, verdict = summary.report, summary.verdict
    variants = variant_reports(summary)
    yield from _figures(variants, width)
    for task in task_reports(report):
        yield from _labels(report, task)
    if standings := leaderboard(variants):
        yield from _leaderboard(standings)
    if len(verdict.scopes) > 1:
        yield from _gate(report, verdict.scopes)
    yield from _changes(summary)
    if report.columns.budget_violations:
        yield from _over_budget(report)
    if report.errored:
        yield from _errors(report)
    yield _BLANK
    yield from _ending(summary)


def _figures(variants: Sequence[VariantReport], width: int) -> Iterator[Part]:
    for number, table in enumerate(figure_tables(variants, width)):
        yield from (_BLANK, table) if number else (table,)
    if has_marks(variants):
        yield _remark(LEGEND)


def _labels(report: Report, task: TaskReport) -> Iterator[Part]:
    """The figures of a classification, and which label was taken for which."""
    title = f"{_name(task.name).capitalize()}{_on(report, task.variant)}"
    figures = plain(f": accuracy {rate(task.accuracy)}, macro F1 {rate(task.macro_f1)}")
    yield _BLANK
    yield Paragraph(styled(title, "bold") + figures)
    headings = ("true label", "precision", "recall", "F1", "ROC AUC", "taken for")
    rows = []
    for row, label in enumerate(task.labels[:MAX_LABELS_SHOWN]):
        taken = task.taken_for(row, _label)
        found = (rate(each) for each in (label.precision, label.recall, label.f1, label.roc_auc))
        rows.append([plain(text) for text in (_label(label.label), *found, taken)])
    yield Table(rows, header=[styled(heading, "bold dim") for heading in headings])
    yield from _more(len(task.labels) - MAX_LABELS_SHOWN, "label")


def _leaderboard(standings: Sequence[Standing]) -> Iterator[Part]:
    """The variants, the best first."""
    yield from _heading("Leaderboard", len(standings))
    rows = []
    for standing in standings[:MAX_STANDINGS]:
        variant = standing.variant
        found = rate_with_interval(variant.pass_rate, variant.lower, variant.upper)
        rows.append([plain(standing.place), plain(_name(variant.variant)), plain(found)])
    yield Table(rows)
    yield from _more(len(standings) - MAX_STANDINGS, "variant")
    if any(standing.tied for standing in standings):
        yield _remark(TIES)


def _gate(report: Report, scopes: Sequence[ScopeVerdict]) -> Iterator[Part]:
    """The parts of the matrix that have a bar, the worst first."""
    barred = worst_first(scope for scope in scopes if scope.bar is not None)
    yield from _heading("Gate", len(barred))
    fair = report.settled is None
    rows = []
    for scope in barred[:MAX_SCOPES]:
        label = scope_label(scope, report)
        name = label if scope.kind == "suite" else f"{label} {scope.name}"
        found = rate_with_interval(scope.rate, scope.lower, scope.upper, scope.bar) if fair else UNKNOWN
        shown = (_name(name), found, f"bar {rate(scope.bar, scope.bar)}")
        rows.append([_word(scope.status), *map(plain, shown)])
    yield Table(rows)
    yield from _more(len(barred) - MAX_SCOPES, "bar")


def _changes(summary: Summary) -> Iterator[Part]:
    """The cells that are worse, better, below their bar or flaky, and which are not those of the baseline."""
    found = changes(summary)
    for title, cells, limit, noun, shown in (
        ("Regressed", found.regressed, MAX_FAILED, "regressed case", _failed("▼", "red", summary)),
        ("Possible, within noise", found.possible, MAX_FLAKY, "such case", _failed("?", "yellow", summary)),
        ("Fixed", found.fixed, MAX_FLAKY, "fixed case", _line("▲", "green", summary)),
        ("Failing", found.failing, MAX_FAILED, "failing case", _failed("✗", "red", summary)),
        ("Still failing", found.still_failing, MAX_FAILED, "failing case", _failed("✗", "red", summary)),
    ):
        yield from _listed(title, cells, limit, noun, shown)
    if summary.compared is not None and (lists := rosters(summary.compared)):
        yield from _rosters(lists)
    yield from _listed("Flaky, but within the bar", found.flaky, MAX_FLAKY, "flaky case", _line("~", "yellow", summary))


def _listed(title: str, cells: Sequence[ComparedCell], limit: int, noun: str, shown: Shown) -> Iterator[Part]:
    if cells:
        yield from _heading(title, len(cells))
        for cell in cells[:limit]:
            yield from shown(cell)
        yield from _more(len(cells) - limit, noun)


def _line(mark: str, style: str, summary: Summary) -> Shown:
    return lambda cell: iter((_headline(mark, style, summary, cell),))


def _failed(mark: str, style: str, summary: Summary) -> Shown:
    """With why, and the first wrong answer where it is surely worse or below its bar."""

    def shown(cell: ComparedCell) -> Iterator[Part]:
        yield _headline(mark, style, summary, cell)
        results = failed_runs(summary.report, cell.judged.cell)
        for line in counted_reasons(results, _MAX_REASONS):
            yield _indented(plain(line))
        unsure = cell.found is not None and cell.found.kind == "suspect" and not cell.failing
        if results and not unsure and (answer := answer_text(results[0])) is not None:
            text = one_line(answer, _ANSWER_CHARACTERS) or "(empty)"
            yield _indented(styled(f"answer of run {results[0].run}: {text}", "dim"))

    return shown


def _headline(mark: str, style: str, summary: Summary, cell: ComparedCell) -> Part:
    """`✗ capital on gpt: 1 of 3 runs passed  evals.yaml:12`; further lines stand below the name."""
    case = cell.judged.case
    on = _on(summary.report, cell.judged.variant)
    was = f" (was {_name(cell.renamed_from)})" if cell.renamed_from else ""
    told = one_line(finding_of(cell, summary.comparison), _SENTENCE_CHARACTERS)
    critical = styled("critical ", style) if cell.critical else ()
    text = styled(_name(case.id), "bold") + plain(f"{on}{was}: {told}") + styled(f"  {_name(place_of(case))}", "dim")
    return _hanging(styled(mark, style), critical + text)


def _rosters(lists: Sequence[Roster]) -> Iterator[Part]:
    yield from _heading(roster_title(lists), sum(len(roster.names) for roster in lists))
    for roster in lists:
        yield Paragraph(plain(roster.sentence(MAX_FLAKY, _name)))


def _over_budget(report: Report) -> Iterator[Part]:
    count = report.columns.budget_violations
    yield from _heading("Over budget", count)
    for result in over_budget(report, MAX_OVER_BUDGET):
        on = _on(report, Variant(result.provider, result.prompt))
        text = f"{on}, run {result.run}: {', '.join(result.budget_violations)}"
        yield _hanging(styled("!", "yellow"), styled(_name(result.case), "bold") + plain(text))
    yield from _more(count - MAX_OVER_BUDGET, "run")


def _errors(report: Report) -> Iterator[Part]:
    groups = error_groups(report)
    yield from _heading("Errored", report.errored)
    for group in groups[:MAX_ERROR_GROUPS]:
        text = f"{number_of(group.runs, 'run')}: {in_place(group.message)} ({_name(group.variant)})"
        yield _hanging(styled("!", "magenta"), plain(text))
        names = [f"{_name(case.id)} ({_name(place_of(case))})" for case in group.cases[:MAX_CASES_OF_ERROR]]
        left_out = len(group.cases) - len(names)
        more = [f"… and {number_of(left_out, 'more case')}"] if left_out else []
        yield _indented(styled(f"in {', '.join(names + more)}", "dim"))
    yield from _more(len(groups) - MAX_ERROR_GROUPS, "reason")


def _ending(summary: Summary) -> Iterator[Part]:
    report, verdict = summary.report, summary.verdict
    for note in (*notes(report), *comparison_notes(summary)):
        yield _hanging(plain(f"{note.label}:"), plain(one_line(note.text, _SENTENCE_CHARACTERS)))
    yield _remark(f"{report.summary()} in {seconds(report.duration_s)}")
    if population := population_bounds(report, summary.gate):
        yield _remark(f"would new cases like these pass? {between(*population)}")
    rows = ((_word(verdict.status), verdict.reason), ((), verdict.hint))
    yield Table([(word, plain(one_line(text, _SENTENCE_CHARACTERS))) for word, text in rows if text])


def _word(status: VerdictStatus) -> Text:
    return styled(STATUS_WORDS[status], _STYLES[status])


def _heading(title: str, count: int) -> Iterator[Part]:
    yield _BLANK
    yield Paragraph(styled(f"{title} ({count:,})", "bold"))


def _more(left_out: int, noun: str) -> Iterator[Part]:
    if left_out > 0:
        yield _remark(f"… and {number_of(left_out, f'more {noun}')} in summary.md")


def _hanging(start: Text, text: Text) -> Part:
    return Paragraph(text, start=start + plain(" "))


def _indented(text: Text) -> Part:
    return Paragraph(text, start=plain("    "))


def _remark(text: str) -> Part:
    return Paragraph(styled(text, "dim"))


def _on(report: Report, variant: Variant) -> str:
    """` on gpt-4o`, where there are several variants."""
    return f" on {_name(variant)}" if len(report.matrix.variants) > 1 else ""


def _name(name: object) -> str:
    return named(name, NAME_CHARACTERS)


def _label(label: str) -> str:
    return named(label, _LABEL_CHARACTERS)
