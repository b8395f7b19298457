"""report.html: one file to open in a browser, without scripts and without anything from elsewhere."""

from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_evals.model import Result
from ci_evals.report import Report
from ci_evals.reports import figures, templates
from ci_evals.reports.findings import (
    MAX_CASES_OF_ERROR,
    JudgedCell,
    Outcome,
    answer_text,
    detail_text,
    error_groups,
    findings,
    input_text,
    judged_cells,
    over_budget,
    place_of,
    results_of,
    why,
)
from ci_evals.reports.notes import notes
from ci_evals.reports.summary import Summary
from ci_evals.reports.text import one_line, shortened, visible
from ci_evals.reports.variants import variant_reports
from ci_evals.verdict.gate import population_bounds
from ci_evals.verdict.scopes import scope_label

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

MAX_BYTES = 12_000_000
"""What a browser still opens at once."""

_CELLS_BYTES = 10_000_000  # the rest is for tables of at most `_MAX_ROWS` rows
_MAX_ROWS = 100
_MAX_RUNS = 3
_MAX_OPEN = 20  # cells that are unfolded from the start
_MAX_GRADES = 50
_INPUT_CHARACTERS = 4000
_ANSWER_CHARACTERS = 8000
_REASON_CHARACTERS = 1000
_NAME_CHARACTERS = 200
_MAX_FILTERED = 12  # variants that have a filter of their own
_HEADLINES = {"pass": "Pass", "borderline": "Borderline", "fail": "Fail", "error": "No verdict"}
_MARKS: dict[str, str] = {"passed": "✓", "flaky": "~", "failed": "✗", "errored": "!", "not run": "–"}
_WORST_FIRST: tuple[Outcome, ...] = ("failed", "errored", "flaky", "not run", "passed")


def render(summary: Summary) -> Iterator[bytes]:
    """report.html, at most `MAX_BYTES` long: cells that do not fit are counted instead of shown."""
    report, verdict = summary.report, summary.verdict
    style = _style(len(report.matrix.variants))
    template = _environment().get_template("report.html.j2")
    parts = template.generate(
        report=report,
        verdict=verdict,
        style=style,
        style_hash=b64encode(sha256(style.encode()).digest()).decode(),
        notes=tuple(notes(report)),
        started=datetime.fromtimestamp(report.started_at, UTC),
        scopes=verdict.scopes if len(verdict.scopes) > 1 else (),
        variants=variant_reports(summary),
        filtered=report.matrix.variants[:_MAX_FILTERED] if len(report.matrix.variants) > 1 else (),
        outcomes=_outcomes(summary),
        cells=_Cells(summary),
        over_budget=over_budget(report, _MAX_ROWS),
        error_groups=error_groups(report) if report.errored else (),
        max_rows=_MAX_ROWS,
        max_cases=MAX_CASES_OF_ERROR,
        population=population_bounds(report, summary.gate),
        scope_label=scope_label,
    )
    return (part.encode("utf-8", "replace") for part in parts)


class _Outcomes(NamedTuple):
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

    def __init__(self, summary: Summary) -> None:
        self.summary = summary
        self.left_out = 0

    def __iter__(self) -> "Iterator[Markup]":
        room = _CELLS_BYTES
        for number, cell in enumerate(self._worst_first()):
            unfolded = number < _MAX_OPEN and cell.outcome in ("failed", "errored")
            block = _block(self.summary.report, cell, unfolded=unfolded) if room > 0 else None
            room -= len(block.encode("utf-8", "replace")) if block else 0
            if block is None or room < 0:
                room = 0
                self.left_out += 1
            else:
                yield block

    def _worst_first(self) -> Iterator[JudgedCell]:
        found = findings(self.summary)
        others = (cell for cell in judged_cells(self.summary) if cell.outcome in ("not run", "passed"))
        return chain(found.failed, found.errored, found.flaky, others)


class _Shown(NamedTuple):
    """One run that a cell shows."""

    result: Result
    answer: str | None
    detail: str | None
    reasons: tuple[str, ...]
    more_grades: int


def _block(report: Report, cell: JudgedCell, *, unfolded: bool) -> "Markup":
    from markupsafe import Markup

    status = {"failed": "failed", "flaky": "failed", "errored": "errored"}.get(cell.outcome, "passed")
    results = results_of(report, cell.cell, status, _MAX_RUNS if status != "passed" else 1)  # type: ignore[arg-type]
    of_status = {"failed": cell.counts.failed, "errored": cell.counts.errored}.get(status, len(results))
    column = cell.cell % len(report.matrix.variants)
    return Markup(  # noqa: S704  the template escapes
        _environment()
        .get_template("report_cell.html.j2")
        .render(
            cell=cell,
            unfolded=unfolded,
            variant_class=f"v{column}" if column < _MAX_FILTERED else "v-other",
            several_variants=len(report.matrix.variants) > 1,
            place=place_of(cell.case),
            input=shortened(input_text(cell.case), _INPUT_CHARACTERS),
            runs=[_shown(result) for result in results],
            left_out=of_status - len(results),
            max_grades=_MAX_GRADES,
        )
    )


def _shown(result: Result) -> _Shown:
    answer, detail = answer_text(result), detail_text(result)
    return _Shown(
        result,
        None if answer is None else shortened(answer, _ANSWER_CHARACTERS),
        None if detail is None else visible(detail),
        why(result) if result.error is not None else (),
        max(0, len(result.grades) - _MAX_GRADES),
    )


def _style(variants: int) -> str:
    """The style sheet, with a rule for the filter of each variant."""
    text = (templates.folder() / "report.css").read_text(encoding="utf-8")
    rules = (
        f"body:has(#only-v{column}:checked) .cell:not(.v{column}) {{ display: none; }}"
        for column in range(min(variants, _MAX_FILTERED))
    )
    return f"\n{text}{chr(10).join(rules)}\n"


def _visible(value: Any) -> Any:
    return visible(value) if type(value) is str else value


@cache
def _environment() -> "Environment":
    environment = templates.environment(_visible, autoescape=True)
    environment.filters |= {
        "headline": _HEADLINES.__getitem__,
        "mark": _MARKS.__getitem__,
        "name": lambda text: one_line(str(text), _NAME_CHARACTERS),
        "reason": lambda text: one_line(str(text), _REASON_CHARACTERS),
        "rate": figures.rate,
        "usd": figures.usd,
        "place": place_of,
        "between": figures.between,
        "seconds": figures.seconds,
        "with_interval": figures.rate_with_interval,
        "number_of": figures.number_of,
    }
    return environment
