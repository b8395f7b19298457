"""`ci-evals explain`: one cell with its runs, its base and the test, as text, Markdown and JSON."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from ci_evals.format import (
    abridge,
    duration,
    name_of,
    number_of,
    one_line,
    short_sha,
    shorten,
    visible,
    without_commands,
)
from ci_evals.gate.baseline import ReportRef
from ci_evals.gate.cells import CellKind
from ci_evals.gate.compare import Comparison, NoComparison
from ci_evals.gate.history_only import recent_pool, reports_since_drop
from ci_evals.gate.wording.bases import baseline_sentence
from ci_evals.gate.wording.comparisons import (
    cell_sentence,
    pooled_sentence,
    tally_text,
    test_sentence,
)
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.model.result import Grade
from ci_evals.reports.markdown import code, difference_lines, fence, plain
from ci_evals.reports.report_json import stdout_json
from ci_evals.reports.similar_runs import merge_similar
from ci_evals.reports.summary import BaseAnswer, Summary
from ci_evals.reports.view import (
    LINE_CHARACTERS,
    MOST,
    NAME_CHARACTERS,
    SOME,
    TEXT_CHARACTERS,
    RunView,
    alike,
    asked_text,
    cell_views,
    failed_first,
    grade_facts,
    metadata_lines,
    passage_lines,
    reasons_of,
    statement_lines,
    turn_lines,
)

SCHEMA_VERSION = 1
_MARKS = {"passed": "✓", "failed": "✗", "errored": "!"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseEvidence:
    """The evidence of one report of the base, and whether it is pooled."""

    report: ReportRef
    passed: int
    graded: int
    pooled: bool
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One cell. Without a comparison, the fields about it are None or empty.

    Attributes:
        head: the passed and graded runs that are evidence, without recorded answers.
        runs: every single run, the confirm runs last.
        base_runs: every single run in the newest report of the baseline.
        asked: the rendered prompt that was sent to the provider, or the case's input.
        asked_on_base: the same of the `base_runs`.
        here_now, main_now: the passed and graded runs that both sides made in the same minutes;
            None if main has none.
        tallies: the runs on the base, on main now, and here, in words; None if main has none.
        main_answer: an answer of main, if one is kept, and where it is from: of these runs, or of
            the newest report of the baseline.
        nearest_run: the number of the failed run whose answer is nearest to that one.
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
    base_reports: tuple[BaseEvidence, ...] = ()
    runs: tuple[RunView, ...]
    base_runs: tuple[RunView, ...] = ()
    asked: str | None = None
    asked_on_base: str | None = None
    here_now: Tally | None = None
    main_now: Tally | None = None
    tallies: str | None = None
    main_answer: BaseAnswer | None = None
    main_answer_of: str | None = None
    nearest_run: int | None = None

    @property
    def variant(self) -> str:
        return str(Variant(self.provider, self.prompt))

    @property
    def place(self) -> str:
        if self.line is None:
            return self.file
        return f"{self.file}:{self.line}"

    @property
    def facts(self) -> list[str]:
        """Sentences about the cell, the runs that are not evidence, the test and the baseline."""
        recorded = sum(run.first.recorded for run in self.runs)
        reused = sum(run.first.reused for run in self.runs)
        total = number_of(len(self.runs), "run")
        no_evidence = []
        if reused:
            no_evidence.append(f"{reused:,} of {total} reused")
        if recorded > reused:  # each reused run is recorded, too
            no_evidence.append(f"{recorded - reused:,} of {total} recorded")
        facts = [self.sentence]
        if no_evidence:
            facts.append(f"{' and '.join(no_evidence)}: no evidence for a comparison")
        if self.tallies:
            facts.append(self.tallies)
        if self.test:
            facts.append(self.test)
        return [*facts, self.compared_with]


def explanations(
    summary: Summary, cells: Iterable[int], base: SuiteReport | None = None
) -> list[Explanation]:
    """Explain cells of a report.

    Args:
        summary: the report and its comparison.
        cells: the numbers of the cells.
        base: the newest report of the baseline, if it is available.
    """
    base_cells = {}
    if base is not None:
        keys = enumerate(base.plan.keys)
        base_cells = {key: number for number, key in keys if base.plan.runs(number)}
    views = {view.cell: view for view in cell_views(summary)}
    explained = []
    for cell in cells:
        explanation = _explain(summary, cell)
        if summary.compared:
            key = summary.report.plan.key(cell)
            explanation = _compare(explanation, summary.compared, key)
            answer = summary.before.get(key)
            if answer is not None:
                nearest = views[cell].failed_run
                explanation = replace(
                    explanation,
                    main_answer=answer,
                    main_answer_of=summary.label_of(answer),
                    nearest_run=None if nearest is None else nearest.first.run,
                )
            base_cell = base_cells.get(summary.compared.base_key(key))
            if base is not None and base_cell is not None and explanation.kind is not None:
                runs, asked = _runs_of(base, base_cell), _question(base, base_cell)
                explanation = replace(explanation, base_runs=runs, asked_on_base=asked)
        explained.append(explanation)
    return explained


def _explain(summary: Summary, cell: int) -> Explanation:
    """Explain a cell by itself."""
    report = summary.report
    case, variant = report.plan.case(cell), report.plan.variant(cell)
    tally = report.by_cell[cell].tally
    sentence = "no run was graded here"
    if tally.graded:
        sentence = f"{tally.passed:,} of {number_of(tally.graded, 'run')} passed here"
    match summary.comparison:
        case Comparison() as comparison:
            compared_with = str(baseline_sentence(comparison, report.started_at))
        case NoComparison() as lack:
            compared_with = lack.sentence
        case _:
            compared_with = "not compared with a baseline: name one with --baseline"
    return Explanation(
        suite=report.suite.name,
        case=case.id,
        provider=variant.provider,
        prompt=variant.prompt,
        file=case.file,
        line=case.line,
        started_at=report.started_at,
        compared_with=compared_with,
        sentence=sentence,
        head=report.fresh(cell),
        runs=_runs_of(report, cell),
        asked=_question(report, cell),
    )


def _compare(explained: Explanation, comparison: Comparison, key: CellKey) -> Explanation:
    """Add the comparison's result to an explanation, if the comparison has the cell."""
    found = comparison.by_key.get(key)
    if found is None:
        return explained
    if found.main_now.graded:
        base = comparison.baseline.label.removeprefix("the ")
        on_base = f"{base} {tally_text(found.base)}, {base} now {tally_text(found.main_now)}"
        explained = replace(
            explained,
            here_now=found.here_now,
            main_now=found.main_now,
            tallies=f"{on_base}, here {tally_text(found.head)}",
        )
    return replace(
        explained,
        kind=found.kind,
        sentence=cell_sentence(comparison, found),
        test=test_sentence(comparison, found),
        head=found.head,
        base=found.base,
        p=found.p,
        adjusted_p=found.adjusted_p,
        base_reports=tuple(_base_entries(comparison, key)),
    )


def _base_entries(comparison: Comparison, key: CellKey) -> Iterator[BaseEvidence]:
    base, cell = comparison.baseline, comparison.base_of(key)
    if cell is None:
        return
    refs = {lost.report.id: lost.report for lost in base.lost}
    refs |= {report.id: report for report in base.reports}
    is_broken = comparison.is_broken(comparison.by_key[key].variant)
    history = cell.history
    variant = Variant(*comparison.base_key(key)[1:])
    histories = [other.history for other in base.by_variant[variant].values()]
    recent = recent_pool(history, reports_since_drop(histories))
    for each in history.evidence:
        pooled = each in history.pooled and not is_broken
        if is_broken:  # the base fails this variant itself, so nothing was compared with it
            sentence = f"{tally_text(each.tally)}, not compared"
        elif pooled:
            sentence = pooled_sentence(each.tally, recent, history.pooled.index(each))
        elif not each.graded:
            sentence = "no run was graded"
        elif each.report in history.lost:
            sentence = f"{tally_text(each.tally)}, left out: likely an outage"
        else:
            sentence = f"{tally_text(each.tally)}, left out: newer reports have enough runs"
        yield BaseEvidence(
            report=refs[each.report],
            passed=each.passed,
            graded=each.graded,
            pooled=pooled,
            sentence=sentence,
        )


def _runs_of(report: SuiteReport, cell: int) -> tuple[RunView, ...]:
    """Return every single run of a cell, the confirm runs last."""
    planned = report.results(report.plan.indices(cell))
    runs = [RunView((result,)) for result in planned]
    if more := report.confirmation:
        repeats = more.results(more.plan.indices(cell))
        runs += [RunView((result,), confirming=True) for result in repeats]
    return tuple(runs)


def _question(report: SuiteReport, cell: int) -> str | None:
    """Return the prompt of a cell's runs; None if it is not known."""
    first = next(report.results(report.plan.indices(cell)), None)
    asked = asked_text(report.plan.case(cell), first)
    return abridge(asked, 2 * TEXT_CHARACTERS) or None


# JSON.


def render_json(explained: Sequence[Explanation]) -> str:
    """Return one line of JSON with the fields of each `Explanation` and of every run."""
    cells = []
    for explanation in explained:
        cell = {field.name: getattr(explanation, field.name) for field in fields(explanation)}
        cell["runs"] = [_run_fields(run) for run in explanation.runs]
        cell["base_runs"] = [_run_fields(run) for run in explanation.base_runs]
        cells.append(cell)
    return stdout_json({"schema_version": SCHEMA_VERSION, "cells": cells})


def _run_fields(run: RunView) -> Mapping[str, Any]:
    """Return the fields of a run in the JSON.

    A `confirming` run was made because the cell was a suspect. A `recorded` run was answered from a
    journal instead of the provider; a `reused` one is recorded because nothing that its answer
    depends on has changed. `output` is the beginning of the answer, `thoughts` that of what the
    model thought before it, and `whole` lists files in the results folder with answers that were
    too long for the journal.
    """
    result, response, answer = run.first, run.first.response, run.answer
    return {
        "run": result.run,
        "confirming": run.confirming,
        "status": result.status,
        "score": result.score,
        "threshold": result.threshold,
        "latency_s": result.latency_s,
        "first_token_s": response and response.slowest_first_token_s,
        "cost_usd": result.cost_usd,
        "usage": response and response.tokens,
        "model": response and response.model,
        "finish_reason": response and response.finish_reason,
        "recorded": result.recorded,
        "reused": result.reused,
        "grades": result.grades,
        "error": result.error,
        "output": None if answer is None else shorten(answer, TEXT_CHARACTERS),
        "thoughts": response and shorten(response.thoughts, TEXT_CHARACTERS),
        "whole": run.files,
        "context": run.context,
        "metadata": run.metadata,
    }


# Text and Markdown.


@dataclass(frozen=True, slots=True)
class _Section:
    """A titled part of an explanation: a text or a diff, lines, or groups of runs that ended alike.

    `shown` has the answers of other sections, which are not repeated with the runs.
    """

    title: str
    text: str = ""
    diff: Sequence[str] = ()
    lines: Sequence[str] = ()
    runs: Sequence[RunView] = ()
    shown: Collection[str | None] = ()
    left_out: str = ""


def _sections(cell: Explanation) -> Iterator[_Section]:
    if cell.asked:
        yield _Section("Asked", cell.asked)
    if cell.asked_on_base and cell.asked_on_base != cell.asked:
        yield _Section("Asked on the base", cell.asked_on_base)
    shown: list[str | None] = []
    if cell.main_answer is not None:
        nearest = [run for run in cell.runs if run.first.run == cell.nearest_run]
        yield _section_of_answers(cell.main_answer, cell.main_answer_of, nearest)
        shown = [cell.main_answer.text, *(run.answer for run in nearest)]
    yield _section_of_runs("Runs here", cell.runs, shown)
    if cell.base_reports:
        lines = [_base_line(entry, cell) for entry in cell.base_reports]
        yield _Section("On the base, report by report", lines=lines)
    if cell.base_runs:
        yield _section_of_runs("Runs of the newest of them", cell.base_runs, shown)


def _section_of_answers(
    main: BaseAnswer, source: str | None, nearest: Sequence[RunView]
) -> _Section:
    """Return main's answer, compared with the nearest one that failed here, if there is one."""
    missed = []
    if main.missed:
        missed.append(f"{_mark(passed=False)} {main.missed}")
    answer = main.text or "(empty)"
    for run in nearest:
        title = f"Answer on {source} (-) and of run {run.first.run} here (+)"
        here = shorten(run.answer or "(empty)", TEXT_CHARACTERS)
        if here != answer:
            return _Section(title, diff=difference_lines(answer, here), lines=missed)
    return _Section(f"Answer on {source}", answer, lines=missed)


def _section_of_runs(
    title: str, runs: Sequence[RunView], shown: Collection[str | None]
) -> _Section:
    """Return the runs of a side; those that ended alike are one, and failed ones come first."""
    merged = merge_similar(alike(run.first for run in runs[:MOST]))
    merged.sort(key=lambda run: run.status == "passed")
    more = ""
    if len(runs) > MOST:
        more = f"… and {number_of(len(runs) - MOST, 'more run')} in report.json"
    return _Section(f"{title} ({len(runs):,})", runs=merged, shown=shown, left_out=more)


def _base_line(entry: BaseEvidence, cell: Explanation) -> str:
    """`0123456, 3 h older: 10 of 10, pooled`."""
    name = short_sha(entry.report.revision or entry.report.id)
    age_s = cell.started_at - entry.report.started_at
    if age_s >= 1:
        name = f"{name}, {duration(age_s)} older"
    return f"{name}: {entry.sentence}"


def render_text(explained: Sequence[Explanation]) -> str:
    """Return text for a terminal, in which no name or answer can move the cursor or give commands
    to a CI runner.
    """
    several = len({each.suite for each in explained}) > 1
    cells = ["\n".join(_text_lines(each, several_suites=several)) for each in explained]
    return without_commands("\n\n".join(cells)) + "\n"


def _text_lines(cell: Explanation, *, several_suites: bool) -> Iterator[str]:
    title = f"{_name(cell.case)} on {_name(cell.variant)}"
    if several_suites:
        title = f"{title} in {_name(cell.suite)}"
    yield f"{title}  {_name(cell.place)}".rstrip()
    yield from map(_line, cell.facts)
    for section in _sections(cell):
        yield ""
        yield _line(section.title)
        for line in (*section.text.splitlines(), *section.diff, *section.lines):
            yield f"  {_line(line)}"
        for run in section.runs:
            yield f"{_MARKS[run.status]} {_run_line(run)}"
            for line in (*_reasons(run), *_left_behind(run)):
                yield f"    {_line(line)}"
            response = run.first.response
            if response is not None and response.turns:
                for line in turn_lines(response):
                    yield f"    {_line(line)}"
            elif _is_shown(run, section.shown):
                yield "    answer: see above"
            elif run.answer is not None:
                yield f"    answer: {_line(run.answer) or '(empty)'}"
            for line in (run.diff or "").splitlines()[:MOST]:
                yield f"    {visible(line)}"
            for file in run.files:
                yield f"    all of it: {_line(file)}"
            for line in _context_lines(run):
                yield f"    {_line(line)}"
        if section.left_out:
            yield section.left_out


def _is_shown(run: RunView, shown: Collection[str | None]) -> bool:
    """Return True if the answer of some runs, or one that is like it, stands in another section."""
    return any(each.answer in shown for each in (run, *run.variations))


def _line(text: str) -> str:
    return one_line(text, LINE_CHARACTERS)


def _name(text: str) -> str:
    return name_of(text, LINE_CHARACTERS)


def render_markdown(explained: Sequence[Explanation]) -> str:
    """Return Markdown in which foreign text formats, links and notifies nothing."""
    several = len({each.suite for each in explained}) > 1
    cells = ["\n".join(_paragraphs(each, several_suites=several)).strip() for each in explained]
    return "\n\n".join(cells) + "\n"


def _paragraphs(cell: Explanation, *, several_suites: bool) -> Iterator[str]:
    title = f"### {code(cell.case)} on {code(cell.variant)}"
    if several_suites:
        title += f" in {code(cell.suite)}"
    yield title
    if cell.place:
        yield f"\n{code(cell.place)}"
    for fact in cell.facts:
        yield f"\n{plain(fact)}"
    for section in _sections(cell):
        yield f"\n**{plain(section.title)}**\n"
        if section.text:
            yield fence(section.text)
        if section.diff:
            yield fence("\n".join(section.diff), "diff")
        for line in section.lines:
            yield f"- {plain(line)}"
        for run in section.runs:
            yield from _details(run, section.shown)
        if section.left_out:
            yield f"\n{section.left_out}"


def _details(run: RunView, shown: Collection[str | None]) -> Iterator[str]:
    yield f"<details>\n<summary>{_MARKS[run.status]} {plain(_run_line(run))}</summary>\n"
    for line in _reasons(run):
        yield f"- {code(line)}"
    if left_behind := _left_behind(run):
        yield f"\n{fence(chr(10).join(left_behind))}"
    if _is_shown(run, shown):
        yield "\nThe answer is above.\n"
    else:
        yield f"\n{fence(shorten(run.answer or '(nothing)', TEXT_CHARACTERS))}\n"
    if run.diff:
        yield f"{fence(shorten(run.diff, TEXT_CHARACTERS), 'diff')}\n"
    for file in run.files:
        yield f"All of it is in {code(file)}.\n"
    if lines := list(_context_lines(run)):
        yield f"{fence(chr(10).join(lines))}\n"
    yield "</details>"


def _run_line(run: RunView) -> str:
    """`run 4 failed, 850 ms, $0.0012, confirm run`, `runs 1, 2 and 3 failed alike, 850 ms to 1.20
    s`.
    """
    parts = [run.title, *run.facts]
    response = run.first.response
    if response and response.model:
        parts.append(one_line(response.model, NAME_CHARACTERS))
    if response and response.finish_reason:
        parts.append(f"finish reason {one_line(response.finish_reason, NAME_CHARACTERS)}")
    return ", ".join(parts)


def _reasons(run: RunView) -> Iterator[str]:
    """Yield the error, or the verdict and reason of each grade."""
    if run.error:
        yield run.error
    yield from run.frames
    yield from _grade_lines(run.grades)


def _grade_lines(grades: Iterable[Grade], indent: str = "") -> Iterator[str]:
    for grade in failed_first(grades):
        said = grade.grader
        if grade.reason:  # runs that ended alike may have several
            said = grade.introduce(grade.text)
        line = f"{indent}{_mark(passed=grade.passed)} {said}"
        if facts := grade_facts(grade):
            line += f" ({facts})"
        yield line
        for holds, text in statement_lines(grade):
            yield f"{indent}↳ {_mark(passed=holds)} {text}"
        yield from _grade_lines(grade.parts, f"{indent}↳ ")


def _mark(*, passed: bool) -> str:
    return _MARKS["passed"] if passed else _MARKS["failed"]


def _left_behind(run: RunView) -> list[str]:
    """Return the last lines of a verifier's output, or of stderr or of a stack if a run crashed
    outside of Python code.

    A Python crash is shown with its frames instead.
    """
    if run.test_output is not None:
        return run.test_output.splitlines()
    if run.detail is None or run.frames:
        return []
    reasons = " ".join(reason.text for reason in reasons_of(run.first))
    lines = [line for line in run.detail.splitlines() if line.strip()]
    return [line for line in lines[-SOME:] if line.strip() not in reasons]


def _context_lines(run: RunView) -> Iterator[str]:
    """Yield the texts that were retrieved for an answer, and its metadata."""
    if run.context is not None:
        yield f"context: {number_of(len(run.context), 'text')}"
        for line in passage_lines(run.context):
            yield f"  {line}"
    yield from metadata_lines(run.metadata)
