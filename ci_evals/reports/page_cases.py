"""The contents of a case on report.html, as values that its template and its script both turn into
elements.

All texts are cleaned and cut here. JSON has the same fields, but for those that have their default.
"""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from statistics import median_high
from typing import Any, Final

from markupsafe import Markup

from ci_evals.format import (
    abridge,
    keep_units,
    number_of,
    one_line,
    seconds,
    shorten,
    usd,
    visible,
)
from ci_evals.gate.compare import CellKind
from ci_evals.graders.base import GraderOptions
from ci_evals.graders.composite import Composite
from ci_evals.model.grading import USUAL_WEIGHT, Expectation
from ci_evals.model.report import Tally
from ci_evals.model.response import Passage, Response, Step, Turn
from ci_evals.model.result import Grade, Status, every_grade
from ci_evals.reports.answer_forms import MAX_CHARACTERS, as_json, as_markdown, as_table, json_text
from ci_evals.reports.charts import Spark, spark
from ci_evals.reports.view import (
    CellOutcome,
    CellView,
    RunView,
    address_of,
    alike,
    asked_text,
    input_text,
    metadata_lines,
    passage_lines,
    place_of,
    statement_lines,
)
from ci_evals.reports.word_diff import Piece, word_diff
from ci_evals.suite.configs import DEFAULT_NAMES

CHANGES: Final[Mapping[CellKind, str]] = {
    "regressed": "regressed",
    "suspect": "possibly worse",
    "fixed": "fixed",
    "flaky": "varies",
    "unchanged": "unchanged",
    "new": "new",
    "edited": "edited",
    "not compared": "not compared",
}
"""The findings of a comparison in the words of the filter, for cells that are in the report."""

NAME_CHARACTERS: Final = 200
REASON_CHARACTERS: Final = 1000

_PART_CHARACTERS = 2000  # of a step, a turn, a retrieved text, and of answers that are compared
_MAX_ITEMS = 100  # steps, turns, statements
_MAX_RUNS = 12  # that ended each in another way
_FILE = re.compile(r"files/[0-9a-f]{64}\.txt")  # the only links that a report may have
_RUN_ORDER: tuple[Status, ...] = ("failed", "errored", "passed")
_SHOWN_ELSEWHERE = ("name", "metric", "weight", "of")


@dataclass(frozen=True, slots=True)
class PageRow:
    """A case in the list.

    Attributes:
        cells: its cells, in the order of the variants.
        worst: the one that decided where the case is in the list.
        unfolded: its details are seen at once.
        shows_reason: False where the reason that it failed is above it.
    """

    cells: Sequence[CellView]
    worst: CellView
    unfolded: bool
    shows_reason: bool


@dataclass(frozen=True, slots=True)
class PageGrade:
    """A grade; `parts` are the grades that it is made of."""

    grader: str
    passed: bool = True
    score: str = "1.00"
    reason: str = ""
    statements: tuple[tuple[bool, str], ...] = ()
    parts: "tuple[PageGrade, ...]" = ()


@dataclass(frozen=True, slots=True)
class PageStep:
    """A step of an agent. `path` draws its place in the run's time, where that is known."""

    kind: str
    name: str = ""
    agent: str = ""
    facts: str = ""
    arguments: str = ""
    result: str = ""
    error: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """An answer with its tool calls, and how it was found.

    Attributes:
        markdown, json, table: other forms of it, as far as it has these.
    """

    text: str = ""
    markdown: tuple[Any, ...] = ()
    json: str | None = None
    table: Sequence[Sequence[str]] | None = None
    steps: tuple[PageStep, ...] = ()


@dataclass(frozen=True, slots=True)
class PageTurn:
    """One turn of a conversation."""

    user: str
    answer: str
    facts: str = ""
    steps: tuple[PageStep, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRun:
    """Runs that ended alike.

    Attributes:
        title: `Runs 1, 2 and 3 failed alike`.
        facts: score, time, cost.
        turns: a conversation, which has no `answer` of its own.
        files: where answers are that are too long for the report.
        context: the texts that were retrieved, each with the statements that judges found there.
    """

    status: Status
    numbers: tuple[int, ...]
    title: str
    facts: str
    unfolded: bool = False
    error: str = ""
    frames: tuple[str, ...] = ()
    grades: tuple[PageGrade, ...] = ()
    turns: tuple[PageTurn, ...] = ()
    answer: PageAnswer | None = None
    files: tuple[str, ...] = ()
    context: tuple[tuple[str, tuple[tuple[bool, str], ...]], ...] = ()
    metadata: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageDetails:
    """The details that unfold below a cell.

    Attributes:
        asked: what was sent, the prompt rendered; empty if it is that of the whole case.
        finding: what became of the cell.
        diff: the words that changed since the base's answer, if the two have enough in common.
        before: the base's answer.
        compared_run: the run whose answer is compared.
        strip: the status of each run, where any did not pass.
        runs: all runs, those that ended alike as one.
        more_runs: how many of these are left out, in words.
        failed_graders: the graders that a run failed.
        commands: what can be run to know more, each with what it does.
    """

    asked: str = ""
    finding: str = ""
    diff: tuple[Piece, ...] = ()
    before: str | None = None
    compared_run: int | None = None
    strip: tuple[Status, ...] = ()
    runs: tuple[PageRun, ...] = ()
    more_runs: str = ""
    failed_graders: tuple[str, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCell:
    """One case on one variant: a field of its row.

    Attributes:
        column: the number of the variant.
        variant, address: its name and its place on the page; empty if there is one variant only.
        tally: `3/12`, or what became of the cell instead.
        tenths: the pass rate in tenths, of which only 0 is 0 and only 1 is 10.
        rate, cost, latency: what rows are sorted by: a share, USD and the median of seconds; empty
            if it is not known.
        details: None where there is no room for them.
    """

    column: int
    variant: str = ""
    address: str = ""
    outcome: CellOutcome
    tally: str
    change: str = ""
    tenths: int | None = None
    rate: str = ""
    cost: str = ""
    latency: str = ""
    spark: Spark | None = None
    details: PageDetails | None = None


@dataclass(frozen=True, slots=True)
class PageExpectation:
    """A grader with its options in words, and the graders that it is made of."""

    name: str
    options: str = ""
    parts: "tuple[PageExpectation, ...]" = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCase:
    """One case with its cells.

    Attributes:
        outcome: that of the worst cell, as are `finding` and `reason`.
        finding: what became of it since the base, where it is better or worse.
        reason: why a run did not pass.
        worst: the column of the worst cell.
        asked: what all cells were asked; empty if they were asked different things.
    """

    id: str
    address: str
    outcome: CellOutcome
    unfolded: bool = False
    critical: bool = False
    tags: tuple[str, ...] = ()
    renamed_from: str = ""
    finding: str = ""
    reason: str = ""
    description: str = ""
    place: str = ""
    quarantine: str = ""
    input: str = ""
    asked: str = ""
    expected: tuple[PageExpectation, ...] = ()
    worst: int
    cells: tuple[PageCell, ...]

    @property
    def columns(self) -> list[PageCell | None]:
        """The cells by column; None where the case does not run on a variant."""
        columns: list[PageCell | None] = [None] * (1 + max(cell.column for cell in self.cells))
        for cell in self.cells:
            columns[cell.column] = cell
        return columns

    @property
    def by_weight(self) -> list[PageCell]:
        """The cells in the order in which they unfold: the worst one first."""
        return sorted(self.cells, key=lambda cell: cell.column != self.worst)


def page_case(row: PageRow, *, has_room: bool = True) -> PageCase:
    """Return what the page shows of a case; what unfolds only if there is room for it."""
    worst, case = row.worst, row.worst.case
    cells = [_cell(view) for view in row.cells]
    finding = reason = quarantine = ""
    if worst.changed:
        finding = _sentence(worst.finding)
    if row.shows_reason:
        reason = _reason(worst)
    if case.quarantine:
        why = one_line(case.quarantine.reason, REASON_CHARACTERS)
        quarantine = f"In quarantine until {case.quarantine.until}: {why}"
    shown = PageCase(
        id=one_line(case.id, NAME_CHARACTERS),
        address=address_of(case.id),
        outcome=outcome_of(worst),
        unfolded=row.unfolded,
        critical=worst.critical,
        tags=tuple(one_line(tag, NAME_CHARACTERS) for tag in dict.fromkeys(case.tags)),
        renamed_from=one_line(worst.renamed_from or "", NAME_CHARACTERS),
        finding=finding,
        reason=reason,
        description=one_line(case.description or "", REASON_CHARACTERS),
        place=one_line(place_of(case), NAME_CHARACTERS),
        quarantine=quarantine,
        worst=_column(worst),
        cells=tuple(cells),
    )
    if not has_room:
        return shown
    details = [_details(view, is_worst=view is worst) for view in row.cells]
    asked = details[0].asked
    given = shorten(input_text(case), MAX_CHARACTERS)
    if given in asked:
        given = ""
    if all(each.asked == asked for each in details):
        details = [replace(each, asked="") for each in details]
    else:
        asked = ""
    cells = [replace(cell, details=each) for cell, each in zip(cells, details, strict=True)]
    expected = _expectations(case.expect)
    return replace(shown, input=given, asked=asked, expected=expected, cells=tuple(cells))


def to_json(value: Any) -> Markup:
    """Return JSON for a `<script>`: no text in it ends that element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_fields_of)
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704  nothing in it is HTML


def _fields_of(value: Any) -> dict[str, Any]:
    found = {}
    for name, default in _defaults(value.__class__):
        item = getattr(value, name)
        if item != default:
            found[name] = item
    return found


@cache
def _defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((each.name, each.default) for each in fields(kind))


# A cell.


def _cell(view: CellView) -> PageCell:
    """Return the field of a cell in its row; confirm runs count."""
    report = view.summary.report
    runs = view.counts.tally
    if report.confirmation:
        further = report.confirmation.counts((view.cell,))
        runs = Tally(runs.passed + further.passed, runs.graded + further.graded)
    tally: str = view.outcome
    rate, tenths = "", None
    if runs.graded:
        tally = f"{runs.passed:,}/{runs.graded:,}"
        rate = f"{runs.rate:.4g}"
        tenths = round(10 * runs.rate)
        if 0 < runs.passed < runs.graded:
            tenths = min(9, max(1, tenths))
    cost = latency = variant = address = ""
    records = report.records_of((view.cell,))
    costs = [record.cost_usd for record in records if record.cost_usd is not None]
    if costs:
        cost = f"{sum(costs):.3g}"
    if records:
        latency = f"{median_high(record.latency_s for record in records):.3g}"
    if len(report.plan.variants) > 1:
        variant = one_line(str(view.variant), NAME_CHARACTERS)
        address = view.address
    change = ""
    if view.found:
        change = CHANGES.get(view.found.kind, "")
    return PageCell(
        column=_column(view),
        variant=variant,
        address=address,
        outcome=outcome_of(view),
        tally=tally,
        change=change,
        tenths=tenths,
        rate=rate,
        cost=cost,
        latency=latency,
        spark=spark(view.summary.compared, view.key, runs),
    )


def _column(view: CellView) -> int:
    return view.cell % len(view.summary.report.plan.variants)


def outcome_of(view: CellView) -> CellOutcome:
    """Return what became of a cell; one that regressed has failed, whatever its bar."""
    if view.found is not None and view.found.kind == "regressed":
        return "failed"
    return view.outcome


def _reason(view: CellView) -> str:
    """Return the most frequent reason that a run of a cell did not pass."""
    reason = ""
    errored = view.run("errored") if view.counts.errored else None
    if view.failures.reasons:
        reason, _ = view.failures.reasons[0]
    elif errored is not None and errored.error:
        reason = errored.error
    return one_line(reason, REASON_CHARACTERS)


def _sentence(text: str) -> str:
    return keep_units(one_line(text, REASON_CHARACTERS))


# What unfolds.


def _details(view: CellView, *, is_worst: bool) -> PageDetails:
    results = view.results()
    runs = sorted(alike(results), key=lambda run: _RUN_ORDER.index(run.status))
    before: str | None = None
    diff: Sequence[Piece] = ()
    compared_run = None
    failed = [run for run in runs if run.status == "failed"]
    if failed:
        compared_run = failed[0].numbers[0]
    if view.key in view.summary.before:
        before = visible(view.summary.before[view.key])
        if failed and failed[0].answer is not None:
            diff = word_diff(before, shorten(failed[0].answer, _PART_CHARACTERS)) or ()
    strip: tuple[Status, ...] = ()
    if len(results) > 1 and runs[0].status != "passed":
        strip = tuple(result.status for result in results[:_MAX_ITEMS])
    more_runs = ""
    if len(runs) > _MAX_RUNS:
        more = number_of(len(runs) - _MAX_RUNS, "more kind")
        more_runs = f"… and {more} of runs in results.jsonl."
    asked = asked_text(view.case, next(iter(results), None))
    return PageDetails(
        asked=visible(abridge(asked, MAX_CHARACTERS)),
        finding=_sentence(view.finding),
        diff=tuple(diff),
        before=before,
        compared_run=compared_run,
        strip=strip,
        runs=tuple(
            _run(run, unfolded=run.status != "passed" or (is_worst and number == 0))
            for number, run in enumerate(runs[:_MAX_RUNS])
        ),
        more_runs=more_runs,
        failed_graders=_failed_graders(runs),
        commands=tuple(_commands(view)),
    )


def _failed_graders(groups: Iterable[RunView]) -> tuple[str, ...]:
    names = [
        one_line(grade.grader, NAME_CHARACTERS)
        for run in groups
        for grade in run.first.grades
        if not grade.passed
    ]
    return tuple(dict.fromkeys(names))


def _commands(view: CellView) -> Iterator[tuple[str, str]]:
    """Yield commands that tell more of a cell, with what they do."""
    report = view.summary.report
    file = report.suite.file
    several_variants = len(report.plan.variants) > 1
    is_config = file.endswith((".yaml", ".yml", ".json"))
    words = ["ci-evals", "explain", view.case.id]
    if is_config and file not in DEFAULT_NAMES:
        words += ["--config", file]
    if several_variants:
        words += ["--provider", view.variant.provider]
        if view.variant.prompt:
            words += ["--prompt", view.variant.prompt]
    yield "Explain", visible(shlex.join(words))
    if is_config:  # cases of pytest and of Python are run by what they are part of
        words = ["ci-evals", "run", file, "--case", view.case.id]
        if several_variants:
            words += ["--providers", view.variant.provider]
        yield "Run this case", visible(shlex.join(words))


# A run.


def _run(run: RunView, *, unfolded: bool) -> PageRun:
    grades = run.grades
    turns: tuple[PageTurn, ...] = ()
    answer = None
    response = run.first.response
    if response is not None and response.turns:
        turns = tuple(map(_turn, response.turns[:_MAX_ITEMS]))
    elif response is not None:
        answer = _answer(run, response)
    return PageRun(
        status=run.status,
        numbers=tuple(run.numbers),
        title=run.title.capitalize(),
        facts=_sentence(" · ".join(run.facts)),
        unfolded=unfolded,
        error=run.error or "",
        frames=tuple(run.frames),
        grades=tuple(map(_grade, grades)),
        turns=turns,
        answer=answer,
        files=tuple(file for file in run.files if _FILE.fullmatch(file)),
        context=tuple(_context(run.context or (), grades)),
        metadata="\n".join(metadata_lines(run.metadata)),
        detail=visible(run.detail or ""),
    )


def _answer(run: RunView, response: Response) -> PageAnswer:
    text = visible(response.output)
    return PageAnswer(
        text=shorten(run.answer or "", MAX_CHARACTERS),
        markdown=as_markdown(text),
        json=as_json(text),
        table=as_table(text),
        steps=_steps(response),
    )


def _grade(grade: Grade) -> PageGrade:
    text = f"{grade.score:.2f}"
    if not grade.weight:
        text = f"{text} (for information)"
    elif grade.weight != USUAL_WEIGHT:
        text = f"{text} (weight {grade.weight:g})"
    return PageGrade(
        grader=one_line(grade.grader, NAME_CHARACTERS),
        passed=grade.passed,
        score=text,
        reason=one_line(grade.sentence, REASON_CHARACTERS),
        statements=tuple(statement_lines(grade)),
        parts=tuple(map(_grade, grade.parts)),
    )


def _context(
    passages: Sequence[Passage], grades: Iterable[Grade]
) -> Iterator[tuple[str, tuple[tuple[bool, str], ...]]]:
    """Yield the texts that were retrieved, each with the statements that judges found there."""
    found: dict[int, list[tuple[bool, str]]] = {}
    for grade in every_grade(grades):
        for statement in grade.statements[:_MAX_ITEMS]:
            text = one_line(f"{grade.grader}: {statement.text}", REASON_CHARACTERS)
            for number in statement.texts:
                found.setdefault(number, []).append((statement.holds, text))
    for number, line in enumerate(passage_lines(passages, _PART_CHARACTERS), 1):
        yield line, tuple(found.get(number, ()))


def _turn(turn: Turn) -> PageTurn:
    facts = [seconds(turn.latency_s)]
    if turn.cost_usd is not None:
        facts.append(usd(turn.cost_usd))
    return PageTurn(
        user=shorten(turn.user, _PART_CHARACTERS),
        answer=shorten(turn.response.output, MAX_CHARACTERS),
        facts=_sentence(" · ".join(facts)),
        steps=_steps(turn.response),
    )


def _steps(response: Response) -> tuple[PageStep, ...]:
    steps = response.steps or ()
    total_s = sum(step.duration_s or 0.0 for step in steps)
    is_timed = total_s > 0 and sum(step.duration_s is not None for step in steps) > 1
    shown = []
    start_s = 0.0
    for step in steps[:_MAX_ITEMS]:
        page_step = _step(step)
        taken_s = step.duration_s or 0.0
        if is_timed:
            start = 100 * start_s / total_s
            width = max(0.5, 100 * taken_s / total_s)
            page_step = replace(page_step, path=f"M{start:.1f} 1h{width:.1f}")
        shown.append(page_step)
        start_s += taken_s
    return tuple(shown)


def _step(step: Step) -> PageStep:
    facts = []
    if step.duration_s is not None:
        facts.append(seconds(step.duration_s))
    if step.usage:
        facts.append(number_of(step.usage.total_tokens, "token"))
    arguments = ""
    if step.arguments:
        arguments = shorten(json_text(step.arguments), _PART_CHARACTERS)
    return PageStep(
        kind=step.kind.replace("_", " "),
        name=one_line(step.name, NAME_CHARACTERS),
        agent=one_line(step.agent or "", NAME_CHARACTERS),
        facts=" · ".join(facts),
        arguments=arguments,
        result=shorten(step.result or "", _PART_CHARACTERS),
        error=one_line(step.error or "", REASON_CHARACTERS),
    )


# What is expected of an answer.


def _expectations(expect: Sequence[Any]) -> tuple[PageExpectation, ...]:
    """Return expectations, as far as they are known: a report that was read back has none."""
    return tuple(_expectation(each) for each in expect if isinstance(each, Expectation))


def _expectation(expectation: Expectation) -> PageExpectation:
    grader = expectation.grader
    options: list[str] = []
    if isinstance(grader, GraderOptions):
        options += _options(grader)
    if expectation.turn is not None:
        options.append(f"in turn {expectation.turn}")
    if expectation.weight != USUAL_WEIGHT:
        options.append(f"weight {expectation.weight:g}")
    if expectation.metric:
        options.append(f"metric {one_line(expectation.metric, NAME_CHARACTERS)}")
    parts: tuple[PageExpectation, ...] = ()
    if isinstance(grader, Composite):
        parts = _expectations(grader.of)
    name = one_line(expectation.shown_name, NAME_CHARACTERS)
    return PageExpectation(name, " · ".join(options), parts)


def _options(grader: GraderOptions) -> Iterator[str]:
    """Yield the options that are set, the short one first and without its name."""
    set_options = {}
    for field in fields(grader):
        value = getattr(grader, field.name)
        if value is not None and value != field.default and field.name not in _SHOWN_ELSEWHERE:
            set_options[field.name] = one_line(json_text(value), REASON_CHARACTERS)
    if grader.short in set_options:
        yield set_options.pop(grader.short)
    for name, text in set_options.items():
        yield f"{name.replace('_', ' ')} {text}"
