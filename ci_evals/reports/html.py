"""report.html: one file to open in a browser, without scripts and without anything from elsewhere."""

from base64 import b64encode
from collections.abc import Hashable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_evals.model import Result, Variant
from ci_evals.reports import figures, templates
from ci_evals.reports.changes import Changes, ComparedCell, Told, changes, finding_of, roster_title, rosters, told
from ci_evals.reports.findings import (
    MAX_CASES_OF_ERROR,
    Outcome,
    error_groups,
    input_text,
    judged_cells,
    over_budget,
    place_of,
    why,
)
from ci_evals.reports.html_runs import runs_worth_a_look, shown_runs
from ci_evals.reports.notes import comparison_notes, notes
from ci_evals.reports.summary import Summary
from ci_evals.reports.text import bound, code_spans, one_line, shortened, visible
from ci_evals.reports.variants import variant_reports
from ci_evals.verdict.gate import population_bounds
from ci_evals.verdict.scopes import VerdictStatus, scope_label, worst_first
from ci_evals.verdict.unanswered import same_reason

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

MAX_BYTES = 12_000_000
"""What a browser still opens at once."""

_CELLS_BYTES = 10_000_000  # the rest is for tables of at most `_MAX_ROWS` rows
_MAX_ROWS = 100
_MAX_LISTED = 10  # cells of a list that is unfolded from the start, unless they regressed
_MAX_OPEN = 20  # cells that are unfolded from the start
_INPUT_CHARACTERS = 4000
_REASON_CHARACTERS = 1000
_NAME_CHARACTERS = 200
_MAX_NAMES = 50  # of cases that came or went
_MAX_FILTERED = 12  # variants that have a filter of their own
_HEADLINES = {"pass": "Pass", "borderline": "Borderline", "fail": "Fail", "error": "No verdict"}
_MARKS: dict[str, str] = {"passed": "✓", "flaky": "~", "failed": "✗", "errored": "!", "not run": "–"}
_WORST_FIRST: tuple[Outcome, ...] = ("failed", "errored", "flaky", "not run", "passed")


def render(summary: Summary) -> Iterator[bytes]:
    """report.html, at most `MAX_BYTES` long: cells that do not fit are counted instead of shown."""
    report, verdict = summary.report, summary.verdict
    found = changes(summary)
    style = _style(len(report.matrix.variants))
    template = _environment().get_template("report.html.j2")
    parts = template.generate(
        report=report,
        verdict=verdict,
        style=style,
        style_hash=b64encode(sha256(style.encode()).digest()).decode(),
        notes=(*notes(report), *comparison_notes(summary)),
        base=summary.base,
        changed=_changed(summary, found),
        rosters=_rosters(summary),
        started=datetime.fromtimestamp(report.started_at, UTC),
        scopes=worst_first(verdict.scopes) if len(verdict.scopes) > 1 else (),
        variants=variant_reports(summary),
        filtered=report.matrix.variants[:_MAX_FILTERED] if len(report.matrix.variants) > 1 else (),
        outcomes=_outcomes(summary),
        cells=_Cells(summary, found),
        over_budget=over_budget(report, _MAX_ROWS),
        error_groups=error_groups(report) if report.errored else (),
        max_rows=_MAX_ROWS,
        max_cases=MAX_CASES_OF_ERROR,
        population=population_bounds(report, summary.gate),
        scope_label=scope_label,
    )
    return (part.encode("utf-8", "replace") for part in parts)


class _Changed(Struct, frozen=True):
    """Cells that the comparison names, and what is told of the first ones; coloured as this verdict is.

    `unfolded` are those that a reader should not miss.
    """

    title: str
    tone: VerdictStatus
    cells: tuple[tuple[ComparedCell, Told], ...]
    left_out: int
    unfolded: bool


def _changed(summary: Summary, found: Changes) -> list[_Changed]:
    groups: tuple[tuple[str, VerdictStatus, tuple[ComparedCell, ...]], ...] = (
        ("Regressed", "fail", found.regressed),
        ("Possible, within noise", "borderline", found.possible),
        ("Fixed", "pass", found.fixed),
    )
    return [
        _Changed(
            title,
            tone,
            tuple((cell, told(summary, cell)) for cell in cells[:_MAX_ROWS]),
            len(cells[_MAX_ROWS:]),
            unfolded=cells is found.regressed or (len(cells) <= _MAX_LISTED and _matters(found, cells)),
        )
        for title, tone, cells in groups
        if cells
    ]


def _matters(found: Changes, cells: tuple[ComparedCell, ...]) -> bool:
    """What may be worse matters at once only if it is below its bar as well."""
    return cells is not found.possible or any(cell.failing for cell in cells)


class _Rosters(Struct, frozen=True):
    """What came, went or is not what it was, a line of names for each kind."""

    title: str
    total: int
    lines: "tuple[Markup, ...]"


def _rosters(summary: Summary) -> _Rosters | None:
    lists = rosters(summary.compared) if summary.compared else []
    if not lists:
        return None
    from markupsafe import Markup

    name = _environment().from_string("<bdi>{{ name | name }}</bdi>")
    lines = (Markup(roster.sentence(_MAX_NAMES, lambda text: name.render(name=text))) for roster in lists)  # noqa: S704  the template escapes
    return _Rosters(roster_title(lists), sum(len(roster.names) for roster in lists), tuple(lines))


class _Outcomes(Struct, frozen=True):
    outcome: Outcome
    cells: int


def _outcomes(summary: Summary) -> list[_Outcomes]:
    """How many cells ended in each way, the worst first; ways in which none did are left out."""
    counts = dict.fromkeys(_WORST_FIRST, 0)
    for cell in judged_cells(summary):
        counts[cell.outcome] += 1
    return [_Outcomes(outcome, count) for outcome, count in counts.items() if count]


class _Cells:
    """Every cell as HTML, made while it is read; `left_out` is how many did not fit, once all are read."""

    def __init__(self, summary: Summary, found: Changes) -> None:
        self._summary = summary
        self._found = found
        self._unfolded: set[Hashable] = set()  # errors, of which each is shown once
        self.left_out = 0

    def __iter__(self) -> "Iterator[Markup]":
        room = _CELLS_BYTES
        for number, cell in enumerate(self._worst_first()):
            block = self._block(number, cell) if room > 0 else None
            room -= len(block.encode("utf-8", "replace")) if block else 0
            if block is None or room < 0:
                room = 0
                self.left_out += 1
            else:
                yield block

    def _block(self, number: int, cell: ComparedCell) -> "Markup":
        results, count = runs_worth_a_look(self._summary.report, cell.judged)
        unfolded = self._unfolds(number, cell, results)
        return _block(self._summary, cell, results, left_out=count - len(results), unfolded=unfolded)

    def _unfolds(self, number: int, cell: ComparedCell, results: Sequence[Result]) -> bool:
        """The first bad cells do, but of those that one error alone explains only one: the others' line says it."""
        bad = number < len(self._found.regressed) or cell.judged.outcome in ("failed", "errored")
        if not bad or number >= _MAX_OPEN:
            return False
        reasons = {result.error and same_reason(result.error) for result in results}
        if len(reasons) != 1 or (reason := reasons.pop()) is None:
            return True
        new = reason not in self._unfolded
        self._unfolded.add(reason)
        return new

    def _worst_first(self) -> Iterator[ComparedCell]:
        found = self._found
        worse = (*found.regressed, *found.possible, *found.failing, *found.still_failing)
        return chain(worse, self._ended("errored"), found.flaky, self._ended("not run", "passed"))

    def _ended(self, *outcomes: Outcome) -> Iterator[ComparedCell]:
        known = self._summary.compared.by_key if self._summary.compared else {}
        cells = (cell for cell in judged_cells(self._summary) if cell.outcome in outcomes)
        return (ComparedCell(cell, known.get(cell.key)) for cell in cells)


def _block(
    summary: Summary, compared: ComparedCell, results: Sequence[Result], *, left_out: int, unfolded: bool
) -> "Markup":
    from markupsafe import Markup

    report, cell = summary.report, compared.judged
    column = cell.cell % len(report.matrix.variants)
    return Markup(  # noqa: S704  the template escapes
        _environment()
        .get_template("report_cell.html.j2")
        .render(
            cell=cell,
            unfolded=unfolded,
            variant_class=f"v{column}" if column < _MAX_FILTERED else "v-other",
            several_variants=len(report.matrix.variants) > 1,
            finding=finding_of(compared, summary.comparison),
            reason=why(results[0])[0] if results and results[0].status != "passed" else None,
            was=compared.renamed_from,
            place=place_of(cell.case),
            input=shortened(input_text(cell.case), _INPUT_CHARACTERS),
            before=summary.before.get(cell.key),
            base=summary.base,
            runs=shown_runs(results),
            left_out=left_out,
        )
    )


def _style(variants: int) -> str:
    """The style sheet, with a rule for the filter of each variant."""
    text = (templates.folder() / "report.css").read_text(encoding="utf-8")
    rules = (
        f"body:has(#only-v{column}:checked) .cell:not(.v{column}) {{ display: none; }}"
        for column in range(min(variants, _MAX_FILTERED))
    )
    return f"\n{text}{chr(10).join(rules)}\n"


def _with_code(text: str) -> "Markup":
    """A sentence of ours, in which backticks mark code."""
    from markupsafe import Markup

    spans = code_spans(one_line(text, _REASON_CHARACTERS))
    return Markup("").join(Markup("<code>{}</code>").format(span) if is_code else span for span, is_code in spans)


def _visible(value: Any) -> Any:
    return visible(value) if type(value) is str else value


@cache
def _environment() -> "Environment":
    environment = templates.environment(_visible, autoescape=True)
    environment.filters |= {
        "headline": _HEADLINES.__getitem__,
        "mark": _MARKS.__getitem__,
        "name": lambda text: one_line(str(text), _NAME_CHARACTERS),
        "sentence": lambda text: bound(one_line(str(text), _REASON_CHARACTERS)),
        "reason": lambda text: one_line(str(text), _REASON_CHARACTERS),
        "with_code": _with_code,
        "count": "{:,}".format,
        "rate": figures.rate,
        "score": figures.score,
        "usd": figures.usd,
        "place": place_of,
        "variant": lambda result: Variant(result.provider, result.prompt),
        "between": figures.between,
        "interval": figures.interval,
        "seconds": figures.seconds,
        "with_interval": figures.rate_with_interval,
        "number_of": figures.number_of,
    }
    return environment
