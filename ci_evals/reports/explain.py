"""`ci-evals explain`: one cell with its runs, its base and the test, as text, Markdown and JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ci_evals.format import (
    abridge,
    duration,
    name_of,
    number_of,
    one_line,
    seconds,
    short_sha,
    shorten,
    span,
    usd,
    without_commands,
)
from ci_evals.gate.baseline import ReportRef
from ci_evals.gate.compare import CellKind, Comparison, NoComparison
from ci_evals.gate.wording import baseline_sentence, cell_sentence, step_sentence, test_sentence
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.model.response import Passage, Usage
from ci_evals.model.result import Grade, Result, RunError, Status
from ci_evals.reports.cells import (
    answer_text,
    asked_text,
    common_grades,
    common_metadata,
    context_key,
    frames_of,
    grade_facts,
    grades_key,
    group_alike,
    metadata_lines,
    passage_lines,
    runs_text,
    scores_text,
    statement_lines,
    whole_answers,
)
from ci_evals.reports.markdown import code, fence, plain
from ci_evals.reports.report_json import SCHEMA_VERSION, stdout_json
from ci_evals.reports.summary import Summary

_OUTPUT_CHARACTERS = 2000
_ASKED_CHARACTERS = 4000
_LINE_CHARACTERS = 400
_PASSAGE_CHARACTERS = 300
_MAX_RUNS = 100
_MAX_DETAIL_LINES = 10
_DETAIL_CHARACTERS = 2000
_NOT_COMPARED = "not compared with a baseline: name one with --baseline"
_MARKS = {"passed": "✓", "failed": "✗", "errored": "!"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEntry:
    """One run. A `confirming` one was made because the cell was a suspect; `output` is the
    beginning of the answer.

    A `recorded` one was answered by a journal instead of the provider, a `reused` one because
    nothing which that answer depends on has changed. `whole` are files in the results folder:
    answers that were too long for the journal. `context` is what was retrieved for the answer, as
    far as it tells, and `metadata` whatever else it tells.
    """

    run: int
    confirming: bool
    status: Status
    score: float | None
    threshold: float | None
    latency_s: float
    first_token_s: float | None
    cost_usd: float | None
    usage: Usage | None
    model: str | None
    finish_reason: str | None
    recorded: bool
    reused: bool
    grades: tuple[Grade, ...]
    error: RunError | None
    output: str | None
    whole: tuple[str, ...]
    context: tuple[Passage, ...] | None
    metadata: Mapping[str, Any]

    @property
    def reason(self) -> str | None:
        """The reason why there was nothing to grade."""
        return None if self.error is None else self.error.message or self.error.kind


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
    """One cell. The fields about its comparison are None or empty if there is none.

    `head` are the passed and graded runs that are evidence: those that a recording answered are
    none. `asked` is what its runs sent to the provider: the rendered prompt, or the case's input;
    `asked_on_base` what those of the newest report of the baseline did.
    """

    suite: str
    case: str
    provider: str
    prompt: str | None
    file: str
    line: int | None
    started_at: float
    compared_with: str
    kind: CellKind | None = None
    sentence: str
    test: str | None = None
    head: Tally
    base: Tally | None = None
    p: float | None = None
    adjusted_p: float | None = None
    base_reports: tuple[BaseEntry, ...] = ()
    runs: tuple[RunEntry, ...]
    base_runs: tuple[RunEntry, ...] = ()
    asked: str | None = None
    asked_on_base: str | None = None

    @property
    def variant(self) -> str:
        return str(Variant(self.provider, self.prompt))

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def facts(self) -> list[str]:
        """Sentences on the cell, the runs that are no evidence, its test and its baseline."""
        reused = sum(run.reused for run in self.runs)
        recorded = sum(run.recorded for run in self.runs) - reused
        of = number_of(len(self.runs), "run")
        counted = [
            f"{count:,} of {of} {word}"
            for count, word in ((reused, "reused"), (recorded, "recorded"))
            if count
        ]
        lack = f"{' and '.join(counted)}: no evidence for a comparison" if counted else ""
        return [text for text in (self.sentence, lack, self.test, self.compared_with) if text]


@dataclass(frozen=True, slots=True)
class ExplanationDocument:
    """The output of `ci-evals explain --format json`."""

    schema_version: Literal[1]
    cells: tuple[Explanation, ...]


def explanations(
    summary: Summary, cells: Iterable[int], base: SuiteReport | None = None
) -> list[Explanation]:
    """Explain cells of a report.

    Args:
        summary: the report and its comparison.
        cells: their numbers.
        base: the newest report of the baseline, if it is at hand.
    """
    report, comparison = summary.report, summary.compared
    numbers = {base.plan.key(cell.cell): cell.cell for cell in base.cells} if base else {}
    if comparison:
        compared_with = str(baseline_sentence(comparison, report.started_at))
    else:
        compared_with = (
            summary.comparison.reason
            if isinstance(summary.comparison, NoComparison)
            else _NOT_COMPARED
        )

    def explain_cell(cell: int) -> Explanation:
        case, (_, provider, prompt) = report.plan.case(cell), report.plan.key(cell)
        tally, lack = report.by_cell[cell].tally, "no run was graded here"
        explained = Explanation(
            suite=report.suite.name,
            case=case.id,
            provider=provider,
            prompt=prompt,
            file=case.file,
            line=case.line,
            started_at=report.started_at,
            compared_with=compared_with,
            sentence=f"{tally.passed:,} of {number_of(tally.graded, 'run')} passed here"
            if tally.graded
            else lack,
            head=report.fresh(cell),
            runs=_runs_of(report, cell),
            asked=_asked(report, cell),
        )
        if comparison is None or (found := comparison.by_key.get(report.plan.key(cell))) is None:
            return explained
        base_number = numbers.get(comparison.base_key(found.key))
        return replace(
            explained,
            kind=found.kind,
            sentence=cell_sentence(comparison, found),
            test=test_sentence(found, comparison.alpha),
            head=found.head,
            base=found.base,
            p=found.p,
            adjusted_p=found.adjusted_p,
            base_reports=_base_entries(comparison, found.key),
            base_runs=() if base is None or base_number is None else _runs_of(base, base_number),
            asked_on_base=None
            if base is None or base_number is None
            else _asked(base, base_number),
        )

    return list(map(explain_cell, cells))


def _base_entries(comparison: Comparison, key: CellKey) -> tuple[BaseEntry, ...]:
    base = comparison.baseline
    refs = {ref.id: ref for ref in (*(each.report for each in base.lost), *base.reports)}
    cell = comparison.base_of(key)
    return tuple(
        BaseEntry(
            report=refs[step.evidence.report],
            passed=step.evidence.passed,
            graded=step.evidence.graded,
            pooled=step.outcome in ("recent", "disagrees", "before a change"),
            sentence=step_sentence(step),
        )
        for step in (cell.history.steps() if cell else ())
    )


def _runs_of(report: SuiteReport, cell: int) -> tuple[RunEntry, ...]:
    """Return every run of a cell, the confirm runs last."""
    planned = report.results(report.plan.indices(cell))
    more = report.confirmation
    further = more.results(more.plan.indices(cell)) if more is not None else ()
    return (*_entries(planned, confirming=False), *_entries(further, confirming=True))


def _asked(report: SuiteReport, cell: int) -> str | None:
    """Return what the runs of a cell asked; None if that is not known."""
    first = next(iter(report.results(report.plan.indices(cell))), None)
    return abridge(asked_text(report.plan.case(cell), first), _ASKED_CHARACTERS) or None


def _entries(results: Iterable[Result], *, confirming: bool) -> Iterator[RunEntry]:
    for result in results:
        answer, response = answer_text(result), result.response
        yield RunEntry(
            run=result.run,
            confirming=confirming,
            status=result.status,
            score=result.score,
            threshold=result.threshold,
            latency_s=result.latency_s,
            first_token_s=response.slowest_first_token_s if response else None,
            cost_usd=result.cost_usd,
            usage=response.tokens if response else None,
            model=response.model if response else None,
            finish_reason=response.finish_reason if response else None,
            recorded=result.recorded,
            reused=result.reused,
            grades=result.grades,
            error=result.error,
            output=None if answer is None else shorten(answer, _OUTPUT_CHARACTERS),
            whole=whole_answers(result),
            context=response.passages if response else None,
            metadata=response.metadata if response else {},
        )


def render_json(found: Sequence[Explanation]) -> str:
    """Return one line of JSON; see `ExplanationDocument`."""
    return stdout_json(ExplanationDocument(SCHEMA_VERSION, tuple(found)))


def render_text(found: Sequence[Explanation]) -> str:
    """Return text for a terminal. No name and no answer can move the cursor or command a CI
    runner.
    """
    several = len({each.suite for each in found}) > 1
    return without_commands("\n\n".join("\n".join(_lines(each, several)) for each in found)) + "\n"


def _lines(cell: Explanation, several_suites: bool) -> Iterator[str]:  # noqa: FBT001
    names = (cell.case, cell.variant, cell.suite, cell.place)
    case, variant, suite, place = (name_of(each, _LINE_CHARACTERS) for each in names)
    yield f"{case} on {variant}{f' in {suite}' if several_suites else ''}  {place}".rstrip()
    yield from map(_short, cell.facts)
    for section in _sections(cell):
        yield from ("", section.title)
        yield from (f"  {_short(line)}" for line in (*section.text.splitlines(), *section.lines))
        for runs in section.groups:
            yield f"{_MARKS[runs[0].status]} {_runs_line(runs)}"
            yield from (f"    {_short(line)}" for line in _reasons(runs))
            yield from (f"    {_short(line)}" for line in _left_behind(runs))
            if runs[0].output is not None:
                yield f"    answer: {_short(runs[0].output) or '(empty)'}"
            yield from (f"    all of it: {_short(file)}" for file in runs[0].whole)
            yield from (f"    {_short(line)}" for line in _told_beside(runs))
        if section.left_out:
            yield section.left_out


def _short(text: str) -> str:
    return one_line(text, _LINE_CHARACTERS)


def render_markdown(found: Sequence[Explanation]) -> str:
    """Return Markdown in which nothing that others wrote acts."""
    several = len({each.suite for each in found}) > 1
    return "\n\n".join("\n".join(_paragraphs(each, several)).strip() for each in found) + "\n"


def _paragraphs(cell: Explanation, several_suites: bool) -> Iterator[str]:  # noqa: FBT001
    yield f"### {code(cell.case)} on {code(cell.variant)}{f' in {code(cell.suite)}' if several_suites else ''}"
    if cell.place:
        yield f"\n{code(cell.place)}"
    yield from (f"\n{plain(fact)}" for fact in cell.facts)
    for section in _sections(cell):
        yield f"\n**{section.title}**\n"
        if section.text:
            yield fence(section.text)
        yield from (f"- {plain(line)}" for line in section.lines)
        for runs in section.groups:
            yield f"<details>\n<summary>{_MARKS[runs[0].status]} {plain(_runs_line(runs))}</summary>\n"
            yield from (f"- {code(line)}" for line in _reasons(runs))
            if left := _left_behind(runs):
                yield f"\n{fence(chr(10).join(left))}"
            yield f"\n{fence(runs[0].output or '(nothing)')}\n"
            yield from (f"All of it is in {code(file)}.\n" for file in runs[0].whole)
            if told := list(_told_beside(runs)):
                yield f"{fence(chr(10).join(told))}\n"
            yield "</details>"
        if section.left_out:
            yield f"\n{section.left_out}"


@dataclass(frozen=True, slots=True)
class _Section:
    """A titled part of an explanation: a text, lines, or groups of runs that ended alike."""

    title: str
    text: str = ""
    lines: Sequence[str] = ()
    groups: Sequence[Sequence[RunEntry]] = ()
    left_out: str = ""


def _sections(cell: Explanation) -> Iterator[_Section]:
    if cell.asked:
        yield _Section("Asked", cell.asked)
    if cell.asked_on_base and cell.asked_on_base != cell.asked:
        yield _Section("Asked on the base", cell.asked_on_base)
    yield _section_of_runs("Runs here", cell.runs)
    if cell.base_reports:
        yield _Section(
            "On the base, report by report",
            lines=[_base_line(entry, cell) for entry in cell.base_reports],
        )
    if cell.base_runs:
        yield _section_of_runs("Runs of the newest of them", cell.base_runs)


def _section_of_runs(title: str, runs: Sequence[RunEntry]) -> _Section:
    """Group the first runs: those of a group differ in nothing but number, time and cost."""
    groups = group_alike(
        runs[:_MAX_RUNS],
        lambda run: (
            *(
                run.confirming,
                run.status,
                run.recorded,
                run.reused,
                run.output,
                run.reason,
                grades_key(run.grades),
            ),
            *(context_key(run.context or ()), run.model, run.finish_reason),
        ),
    )
    more = (
        f"… and {number_of(len(runs) - _MAX_RUNS, 'more run')} in report.json"
        if len(runs) > _MAX_RUNS
        else ""
    )
    return _Section(f"{title} ({len(runs):,})", groups=groups, left_out=more)


def _runs_line(runs: Sequence[RunEntry]) -> str:
    """`run 4 failed, 850 ms, $0.0012, confirm run`, `runs 1, 2 and 3 failed alike, 850 ms to 1.20
    s`.
    """
    first_token = span(
        (run.first_token_s for run in runs if run.first_token_s is not None), seconds
    )
    tokens = span(
        (run.usage.total_tokens for run in runs if run.usage and run.usage.total_tokens),
        "{:,}".format,
    )
    parts = [
        runs_text([run.run for run in runs], runs[0].status),
        scores_text(runs),
        span((run.latency_s for run in runs), seconds),
        f"first token {first_token}" if first_token else "",
        span((run.cost_usd for run in runs if run.cost_usd is not None), usd),
        f"{tokens} {'token' if tokens == '1' else 'tokens'}" if tokens else "",
        one_line(runs[0].model, 80) if runs[0].model else "",
        f"finish reason {one_line(runs[0].finish_reason, 80)}" if runs[0].finish_reason else "",
        ("confirm run" if len(runs) == 1 else "confirm runs") if runs[0].confirming else "",
        f"{'reused' if runs[0].reused else 'recorded'}, so no new evidence"
        if runs[0].recorded
        else "",
    ]
    return ", ".join(filter(None, parts))


def _reasons(runs: Sequence[RunEntry]) -> Iterator[str]:
    """Yield the reasons that runs share for ending as they did."""
    if runs[0].reason:
        yield runs[0].reason
    yield from frames_of(runs[0].error)
    yield from _grade_lines(common_grades(run.grades for run in runs))


def _left_behind(runs: Sequence[RunEntry]) -> list[str]:
    """Return the last lines of what a run left behind that crashed elsewhere than in Python:
    stderr, a stack.
    """
    error = runs[0].error
    if error is None or frames_of(error):
        return []
    lines = (error.detail or "")[-_DETAIL_CHARACTERS:].splitlines()[-_MAX_DETAIL_LINES:]
    return [line for line in lines if line.strip() and line.strip() not in error.message]


def _grade_lines(grades: Iterable[Grade], indent: str = "") -> Iterator[str]:
    for grade in grades:
        mark, facts = _MARKS["passed" if grade.passed else "failed"], grade_facts(grade)
        shown = f"{grade.grader}{f' ({facts})' if facts else ''}"
        yield f"{indent}{mark} {shown}{f': {grade.sentence}' if grade.reason else ''}"
        yield from (
            f"{indent}↳ {_MARKS['passed' if holds else 'failed']} {text}"
            for holds, text in statement_lines(grade)
        )
        yield from _grade_lines(grade.parts, f"{indent}↳ ")


def _told_beside(runs: Sequence[RunEntry]) -> Iterator[str]:
    """Yield the texts that were retrieved for an answer, and what else runs tell alike."""
    if (context := runs[0].context) is not None:
        yield f"context: {number_of(len(context), 'text')}"
        yield from (f"  {line}" for line in passage_lines(context, _PASSAGE_CHARACTERS))
    yield from metadata_lines(common_metadata(run.metadata for run in runs))


def _base_line(entry: BaseEntry, cell: Explanation) -> str:
    """`0123456, 3 h older: 10 of 10, pooled`."""
    name = short_sha(entry.report.revision or entry.report.id)
    age = cell.started_at - entry.report.started_at
    return f"{name}{f', {duration(age)} older' if age >= 1 else ''}: {entry.sentence}"
