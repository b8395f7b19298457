"""report.html: one file to open in a browser, without scripts and without anything from elsewhere."""

from base64 import b64encode
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from typing import Any, Final

from jinja2 import Environment
from markupsafe import Markup, escape

from ci_evals import templating
from ci_evals.format import (
    abridge,
    code_spans,
    interval,
    keep_units,
    number_of,
    one_line,
    percent,
    rate_with_interval,
    score,
    seconds,
    shorten,
    span,
    usd,
    visible,
)
from ci_evals.gate.bars import VERDICTS
from ci_evals.gate.wording import same_reason, scope_label
from ci_evals.model.report import SuiteReport
from ci_evals.model.result import Grade, Result, Status, every_grade
from ci_evals.reports.cells import (
    CellOutcome,
    JudgedCell,
    answer_text,
    asked_text,
    common_grades,
    common_metadata,
    context_key,
    detail_text,
    failed_runs,
    finding_of,
    grades_key,
    group_alike,
    input_text,
    judged_cells,
    metadata_lines,
    passage_lines,
    passages_of,
    place_of,
    reasons_of,
    results_of,
    runs_text,
    scores_text,
)
from ci_evals.reports.findings import (
    Entry,
    Findings,
    ForeignText,
    Group,
    GroupKind,
    Tone,
    findings,
)
from ci_evals.reports.summary import Summary

MAX_BYTES: Final = 12_000_000
"""Of the page: what a browser still opens at once."""

_CELLS_BYTES = 10_000_000  # the rest is for tables and lists of at most `_MAX_ROWS` rows
_MAX_ROWS = 100
_MAX_LISTED = 10  # entries of a group that is unfolded from the start, unless they regressed
_MAX_OPEN = 20  # cells that are unfolded from the start
_MAX_FILTERED = 12  # variants that have a filter of their own
_MAX_RUNS = 3
_MAX_GRADES = 50
_ANSWER_CHARACTERS = 8000
_INPUT_CHARACTERS = 4000
_ASKED_CHARACTERS = 8000
_REASON_CHARACTERS = 1000
_NAME_CHARACTERS = 200
_MARKS: dict[CellOutcome, str] = {"passed": "✓", "flaky": "~", "failed": "✗", "errored": "!", "not run": "–"}
_TONES: dict[Tone, str] = {"bad": "fail", "unsure": "borderline", "good": "pass"}
_LISTED_WITH_CELLS: tuple[GroupKind, ...] = ("failing", "still failing", "failed some", "flaky")
_WORST_FIRST: tuple[CellOutcome, ...] = ("failed", "errored", "flaky", "not run", "passed")


def render(summary: Summary) -> Iterator[bytes]:
    """Yield report.html, at most `MAX_BYTES` long: cells that do not fit are counted instead of shown."""
    report = summary.report
    found = findings(summary)
    style = _style(len(found.variants))
    outcomes = Counter(cell.outcome for cell in judged_cells(summary))
    cells, left_out = _cells(found)
    parts = (
        _environment()
        .get_template("report.html.j2")
        .generate(
            found=found,
            report=report,
            verdict=summary.verdict,
            base=summary.base,
            style=style,
            style_hash=b64encode(sha256(style.encode()).digest()).decode(),
            started=datetime.fromtimestamp(report.started_at, UTC),
            groups=[group for group in found.groups if group.kind not in _LISTED_WITH_CELLS],
            filtered=report.plan.variants[:_MAX_FILTERED] if found.several_variants else (),
            outcomes=[(outcome, outcomes[outcome]) for outcome in _WORST_FIRST if outcomes[outcome]],
            cells=cells,
            left_out=left_out,
            max_rows=_MAX_ROWS,
        )
    )
    return (part.encode("utf-8", "replace") for part in parts)


# Cells and their runs.


def _cells(found: Findings) -> tuple[list[Markup], int]:
    """Return the cells that have room, the worst first, and the number of those left out."""
    summary, changed = found.summary, found.cells
    cells = (
        *(*changed.regressed, *changed.possible, *changed.failing, *changed.still_failing),
        *(*changed.errored, *changed.failed_some, *changed.flaky, *changed.others),
    )
    unfolded_reasons: set[Hashable] = set()  # errors, of which each is unfolded once
    blocks: list[Markup] = []
    room = _CELLS_BYTES
    for number, cell in enumerate(cells):
        results, count = _runs_to_show(summary.report, cell)
        unfolded = number < _MAX_OPEN and (cell in changed.regressed or cell.outcome in ("failed", "errored"))
        if unfolded:
            reasons = {result.error and same_reason(result.error) for result in results}
            if len(reasons) == 1 and (reason := reasons.pop()) is not None:
                unfolded = reason not in unfolded_reasons
                unfolded_reasons.add(reason)
        block = _cell(found, cell, results, left_out=count - len(results), unfolded=unfolded)
        room -= len(block.encode("utf-8", "replace"))
        if room < 0:
            break
        blocks.append(block)
    return blocks, len(cells) - len(blocks)


def _runs_to_show(report: SuiteReport, cell: JudgedCell) -> tuple[tuple[Result, ...], int]:
    """Return the first runs that show why a cell ended as it did, and the number of such runs."""
    if cell.outcome in ("failed", "flaky"):
        more = report.confirmation.by_cell[cell.cell].failed if report.confirmation else 0
        return failed_runs(report, cell.cell, _MAX_RUNS), cell.counts.failed + more
    if cell.outcome == "errored":
        return results_of(report, cell.cell, "errored", _MAX_RUNS), cell.counts.errored
    shown = results_of(report, cell.cell, "passed", 1)
    return shown, len(shown)


def _cell(found: Findings, cell: JudgedCell, results: Sequence[Result], *, left_out: int, unfolded: bool) -> Markup:
    summary, column = found.summary, cell.cell % len(found.variants)

    def look(result: Result) -> Hashable:
        scores = tuple(grade.score for grade in every_grade(result.grades))
        error = reasons_of(result) if result.error is not None else ()
        context = context_key(passages_of(result))
        return error, grades_key(result.grades), scores, answer_text(result), detail_text(result), context

    return Markup(  # noqa: S704  the template escapes
        _environment()
        .get_template("report_cell.html.j2")
        .render(
            cell=cell,
            unfolded=unfolded,
            variant_class=f"v{column}" if column < _MAX_FILTERED else "v-other",
            several_variants=found.several_variants,
            finding=finding_of(cell, summary.comparison),
            reason=reasons_of(results[0])[0] if results and results[0].status != "passed" else None,
            place=place_of(cell.case),
            asked=visible(abridge(asked_text(cell.case, results[0] if results else None), _ASKED_CHARACTERS)),
            prompt=cell.variant.prompt,
            input=shorten(input_text(cell.case), _INPUT_CHARACTERS),
            before=summary.before.get(cell.key),
            base=summary.base,
            runs=[RunGroup(tuple(group)) for group in group_alike(results, look)],
            left_out=left_out,
        )
    )


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs with the same answer, grades and errors, shown as one."""

    results: tuple[Result, ...]

    @property
    def status(self) -> Status:
        return self.results[0].status

    @property
    def answer(self) -> str | None:
        answer = answer_text(self.results[0])
        return None if answer is None else shorten(answer, _ANSWER_CHARACTERS)

    @property
    def context(self) -> list[str]:
        """The texts that were retrieved for the answer."""
        return passage_lines(passages_of(self.results[0]), _REASON_CHARACTERS)

    @property
    def metadata(self) -> list[str]:
        """What else all of them tell alike."""
        told = common_metadata(result.response.metadata if result.response else {} for result in self.results)
        return metadata_lines(told)

    @property
    def detail(self) -> str | None:
        return detail_text(self.results[0])

    @property
    def error(self) -> str | None:
        """The reason why there was nothing to grade."""
        return reasons_of(self.results[0])[0] if self.results[0].error is not None else None

    @property
    def grades(self) -> Sequence[Grade]:
        """The grades of all, without a reason that is not that of all."""
        return common_grades(result.grades[:_MAX_GRADES] for result in self.results)

    @property
    def more_grades(self) -> int:
        return len(self.results[0].grades) - len(self.grades)

    @property
    def title(self) -> str:
        """`Run 2 failed`, `Runs 1, 2 and 3 failed alike`."""
        return runs_text([result.run for result in self.results], self.status).capitalize()

    @property
    def facts(self) -> str:
        """`score 0.50 of 0.8 wanted · 1.10 s to 1.20 s · $0.0010 · 1 to 5 attempts`."""
        latency = span((result.latency_s for result in self.results), seconds)
        cost = span((result.cost_usd for result in self.results if result.cost_usd is not None), usd)
        attempts = span((result.attempts for result in self.results), "{:,}".format)
        return " · ".join(
            filter(None, (scores_text(self.results), latency, cost, f"{attempts} attempts" if attempts != "1" else ""))
        )


# The template's environment, which escapes all values.


def _style(variants: int) -> str:
    """Return the style sheet, with a rule for the filter of each variant."""
    text = (templating.folder() / "report.css").read_text(encoding="utf-8")
    rules = (
        f"body:has(#only-v{column}:checked) .cell:not(.v{column}) {{ display: none; }}"
        for column in range(min(variants, _MAX_FILTERED))
    )
    return f"\n{text}{chr(10).join(rules)}\n"


def _with_code(text: str) -> Markup:
    """Render a sentence of ours, in which backticks mark code."""
    spans = code_spans(one_line(text, _REASON_CHARACTERS))
    return Markup("").join(Markup("<code>{}</code>").format(span) if is_code else span for span, is_code in spans)


def _line(entry: Entry) -> Markup:
    """Render the sentence of an entry; no name in it can reorder the text beside it."""
    found = [_name(piece) if isinstance(piece, ForeignText) else escape(_sentence(piece)) for piece in entry.text]
    return Markup("").join(found)


def _name(text: str) -> Markup:
    return Markup("<bdi>{}</bdi>").format(one_line(text, _NAME_CHARACTERS))


def _sentence(text: str) -> str:
    return keep_units(visible(text))


def _unfolded(group: Group) -> bool:
    """Return True if a reader should see the group at once: it matters, and is no long list."""
    return group.kind == "regressed" or (not group.folded and group.total <= _MAX_LISTED)


def _visible(value: Any) -> Any:
    return visible(value) if type(value) is str else value


@cache
def _environment() -> Environment:
    environment = templating.environment(_visible, autoescape=True)
    environment.filters |= {
        "headline": VERDICTS.__getitem__,
        "mark": _MARKS.__getitem__,
        "tone": _TONES.__getitem__,
        "unfolded": _unfolded,
        "line": _line,
        "name": lambda text: one_line(str(text), _NAME_CHARACTERS),
        "sentence": lambda text: keep_units(one_line(str(text), _REASON_CHARACTERS)),
        "reason": lambda text: one_line(str(text), _REASON_CHARACTERS),
        "with_code": _with_code,
        "count": "{:,}".format,
        "rate": percent,
        "score": score,
        "weight": lambda grade: (
            "for information" if grade.weight == 0 else f"weight {grade.weight:g}" * (grade.weight != 1)
        ),
        "interval": interval,
        "seconds": seconds,
        "scope_label": scope_label,
        "with_interval": rate_with_interval,
        "number_of": number_of,
    }
    return environment
