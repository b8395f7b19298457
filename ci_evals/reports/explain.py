"""`ci-evals explain`: one cell with its runs, its base and the test, as text, Markdown and JSON."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ci_evals.format import (
    duration,
    name_of,
    number_of,
    one_line,
    seconds,
    shorten,
    span,
    usd,
    without_commands,
)
from ci_evals.gate.baseline import ReportRef, Tally
from ci_evals.gate.compare import CellComparison, CellKind
from ci_evals.gate.wording import tally_text
from ci_evals.model.case import Variant
from ci_evals.model.report import SuiteReport
from ci_evals.model.result import Grade, Result, RunError, Status
from ci_evals.reports.cells import answer_text, common_grades, ended, group_alike, verdicts_of
from ci_evals.reports.markdown import code, fence, plain
from ci_evals.reports.report_json import SCHEMA_VERSION, printed

_OUTPUT_CHARACTERS = 2000
_LINE_CHARACTERS = 400
_MAX_RUNS = 100
_REVISION_CHARACTERS = 7
_MARKS = {"passed": "✓", "failed": "✗", "errored": "!"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEntry:
    """One run. A `confirming` one was made because the cell was a suspect; `output` is the beginning of the answer."""

    run: int
    confirming: bool
    status: Status
    score: float | None
    latency_s: float
    cost_usd: float | None
    recorded: bool
    grades: tuple[Grade, ...]
    error: RunError | None
    output: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseEntry:
    """The evidence of one report of the base, and whether it is pooled."""

    report: ReportRef
    passed: int
    graded: int
    pooled: bool
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One cell. What speaks of the comparison is None where the report was not compared."""

    case: str
    provider: str
    prompt: str | None
    file: str
    line: int | None
    started_at: float
    compared_with: str | None
    kind: CellKind | None
    sentence: str
    test: str | None
    head: Tally
    base: Tally | None
    p: float | None
    adjusted_p: float | None
    base_reports: tuple[BaseEntry, ...]
    runs: tuple[RunEntry, ...]
    base_runs: tuple[RunEntry, ...]


@dataclass(frozen=True, slots=True)
class CellFinding:
    """The part of a comparison that is about one cell: the finding in words, and the evidence."""

    compared_with: str
    found: CellComparison | None = None
    sentence: str | None = None
    test: str | None = None
    base: tuple[BaseEntry, ...] = ()
    base_runs: tuple[RunEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class ExplanationDocument:
    """The output of `ci-evals explain --format json`."""

    schema_version: Literal[1]
    cells: tuple[Explanation, ...]


def explain_cell(report: SuiteReport, cell: int, finding: CellFinding) -> Explanation:
    """Explain one cell of a report."""
    case, found = report.plan.case(cell), finding.found
    provider, prompt = report.plan.key(cell)[1:]
    planned = Tally(*report.fresh(cell))
    return Explanation(
        case=case.id,
        provider=provider,
        prompt=prompt,
        file=case.file,
        line=case.line,
        started_at=report.started_at,
        compared_with=finding.compared_with,
        kind=found.kind if found else None,
        sentence=finding.sentence or f"{tally_text(planned)} here",
        test=finding.test,
        head=found.head if found else planned,
        base=found.base if found else None,
        p=found.p if found else None,
        adjusted_p=found.adjusted_p if found else None,
        base_reports=finding.base,
        runs=run_entries(report, cell),
        base_runs=finding.base_runs,
    )


def run_entries(report: SuiteReport, cell: int) -> tuple[RunEntry, ...]:
    """Return every run of a cell, the confirm runs last."""
    planned = report.results(report.plan.indices(cell))
    more = report.confirmation
    further = more.results(more.plan.indices(cell)) if more is not None else ()
    return (*_entries(planned, confirming=False), *_entries(further, confirming=True))


def _entries(results: Iterable[Result], *, confirming: bool) -> Iterator[RunEntry]:
    for result in results:
        answer = answer_text(result)
        yield RunEntry(
            run=result.run,
            confirming=confirming,
            status=result.status,
            score=result.score,
            latency_s=result.latency_s,
            cost_usd=result.cost_usd,
            recorded=result.recorded,
            grades=result.grades,
            error=result.error,
            output=None if answer is None else shorten(answer, _OUTPUT_CHARACTERS),
        )


def render_json(found: Sequence[Explanation]) -> str:
    """Return one line of JSON; see `ExplanationDocument`."""
    return printed(ExplanationDocument(SCHEMA_VERSION, tuple(found)))


def render_text(found: Sequence[Explanation]) -> str:
    """Return text for a terminal. No name and no answer can move the cursor or command a CI runner."""
    return without_commands("\n\n".join("\n".join(_lines(each)) for each in found)) + "\n"


def _lines(cell: Explanation) -> Iterator[str]:
    case, variant, place = (name_of(each, _LINE_CHARACTERS) for each in (cell.case, _variant(cell), _place(cell)))
    yield f"{case} on {variant}  {place}".rstrip()
    yield _short(cell.sentence)
    yield from map(_short, filter(None, (cell.test, cell.compared_with)))
    yield from _runs_as_lines("Runs here", cell.runs)
    if cell.base_reports:
        yield from ("", "On the base, report by report")
        yield from (f"  {_short(_base_line(entry, cell))}" for entry in cell.base_reports)
    if cell.base_runs:
        yield from _runs_as_lines("Runs of the newest of them", cell.base_runs)


def _runs_as_lines(title: str, runs: Sequence[RunEntry]) -> Iterator[str]:
    yield from ("", f"{title} ({len(runs):,})")
    for alike in _alike(runs):
        run = alike[0]
        yield f"{_MARKS[run.status]} {_runs_line(alike)}"
        yield from (f"    {_short(line)}" for line in _reasons(alike))
        if run.output is not None:
            yield f"    answer: {_short(run.output) or '(empty)'}"
    yield from _left_out(runs)


def render_markdown(found: Sequence[Explanation]) -> str:
    """Return Markdown in which nothing that others wrote acts."""
    return "\n\n".join("\n".join(_paragraphs(each)).strip() for each in found) + "\n"


def _paragraphs(cell: Explanation) -> Iterator[str]:
    yield f"### {code(cell.case)} on {code(_variant(cell))}"
    told = (plain(text) for text in (cell.sentence, cell.test, cell.compared_with) if text)
    yield from (f"\n{text}" for text in ([code(_place(cell))] if _place(cell) else []))
    yield from (f"\n{text}" for text in told)
    yield from _runs_as_paragraphs("Runs here", cell.runs)
    if cell.base_reports:
        yield "\n**On the base, report by report**\n"
        yield from (f"- {plain(_base_line(entry, cell))}" for entry in cell.base_reports)
    if cell.base_runs:
        yield from _runs_as_paragraphs("Runs of the newest of them", cell.base_runs)


def _runs_as_paragraphs(title: str, runs: Sequence[RunEntry]) -> Iterator[str]:
    yield f"\n**{title} ({len(runs):,})**\n"
    for alike in _alike(runs):
        run = alike[0]
        yield f"<details>\n<summary>{_MARKS[run.status]} {plain(_runs_line(alike))}</summary>\n"
        yield from (f"- {code(line)}" for line in _reasons(alike))
        yield f"\n{fence(run.output or '(nothing)')}\n\n</details>"
    yield from (f"\n{plain(line)}" for line in _left_out(runs))


def _left_out(runs: Sequence[RunEntry]) -> Iterator[str]:
    if len(runs) > _MAX_RUNS:
        yield f"… and {number_of(len(runs) - _MAX_RUNS, 'more run')} in report.json"


def _alike(runs: Sequence[RunEntry]) -> list[list[RunEntry]]:
    """Group the first runs: those of a group differ in nothing but number, time and cost."""
    return group_alike(
        runs[:_MAX_RUNS],
        lambda run: (run.confirming, run.status, run.recorded, run.output, _error(run), verdicts_of(run.grades)),
    )


def _runs_line(alike: Sequence[RunEntry]) -> str:
    """`run 4 failed, 850 ms, $0.0012, confirm run`, `runs 1, 2 and 3 failed alike, 850 ms to 1.20 s`."""
    run = alike[0]
    parts = [ended([each.run for each in alike], run.status)]
    costs = span((each.cost_usd for each in alike if each.cost_usd is not None), usd)
    parts += filter(None, [span((each.latency_s for each in alike), seconds), costs])
    parts += ["confirm run" if len(alike) == 1 else "confirm runs"] if run.confirming else []
    parts += ["recorded, so no new evidence"] if run.recorded else []
    return ", ".join(parts)


def _error(run: RunEntry) -> str | None:
    return None if run.error is None else run.error.message or run.error.kind


def _reasons(alike: Sequence[RunEntry]) -> Iterator[str]:
    """Yield the reasons that runs share for ending as they did."""
    if error := _error(alike[0]):
        yield error
    for grade in common_grades(run.grades for run in alike):
        mark = _MARKS["passed" if grade.passed else "failed"]
        yield f"{mark} {grade.grader}{f': {grade.reason}' if grade.reason else ''}"


def _base_line(entry: BaseEntry, cell: Explanation) -> str:
    """`0123456, 3 h older: 10 of 10, pooled`."""
    name = (entry.report.revision or entry.report.id)[:_REVISION_CHARACTERS]
    age = cell.started_at - entry.report.started_at
    return f"{name}{f', {duration(age)} older' if age >= 1 else ''}: {entry.sentence}"


def _variant(cell: Explanation) -> str:
    return str(Variant(cell.provider, cell.prompt))


def _place(cell: Explanation) -> str:
    return f"{cell.file}:{cell.line}" if cell.line else cell.file


def _short(text: str) -> str:
    return one_line(text, _LINE_CHARACTERS)
