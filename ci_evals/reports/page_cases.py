"""The contents of a case on report.html: the values that its template renders.

All texts are cleaned and shortened here, so the template only escapes them.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, fields, replace
from functools import cache
from statistics import median
from typing import Any, Final
from zlib import crc32

from ci_evals.format import (
    abridge,
    keep_units,
    number_of,
    one_line,
    run_numbers,
    seconds,
    shorten,
    usd,
    visible,
)
from ci_evals.graders.base import Composite, GraderOptions
from ci_evals.model.case import Variant
from ci_evals.model.grading import USUAL_WEIGHT, Expectation
from ci_evals.model.response import LIMITS_REACHED, Passage, Response, Step, Turn
from ci_evals.model.result import Grade, Result, Status, every_grade
from ci_evals.reports.answer_forms import (
    MAX_CHARACTERS,
    Node,
    elements_of,
    json_text,
    mark,
    mark_difference,
    text_of,
)
from ci_evals.reports.charts import Spark, spark
from ci_evals.reports.findings import base_now_clause, brief_chance, brief_tally
from ci_evals.reports.summary import Summary, once_per_summary
from ci_evals.reports.view import (
    MANY,
    TEXT_CHARACTERS,
    CaseView,
    CellView,
    RunView,
    address_of,
    alike,
    asked_text,
    failed_first,
    input_text,
    label_passages,
    metadata_lines,
    place_of,
    run_again,
    statement_lines,
)
from ci_evals.suite.configs import DEFAULT_NAMES

NAME_CHARACTERS: Final = 200
REASON_CHARACTERS: Final = 1000

_LONG_CHARACTERS = 1500  # only the beginning of a longer answer is seen at first
_LONG_LINES = 25
_PART_CHARACTERS = 2000  # of a step, a turn or a retrieved text
_MAX_THOUGHTS = 4000  # characters, of the beginning and the end
_MAX_ITEMS = 100  # steps, turns, statements
_MAX_RUNS = 12  # groups of runs that ended alike
_MAX_VARIATIONS = 12  # similar answers, in addition to the one that is shown
_FILE = re.compile(r"files/[0-9a-f]{64}\.txt")  # the only link targets that results may choose
_RUN_ORDER: tuple[Status, ...] = ("failed", "errored", "passed")
_SHOWN_ELSEWHERE = ("name", "metric", "weight", "of")


@dataclass(frozen=True, slots=True)
class PageRow:
    """A case in the list.

    Attributes:
        case: the case, with its cells in the order of the variants.
        worst: the cell that decided the place of the case in the list.
        unfolded: its details are open at first.
        shows_reason: False if the heading above it has the reason.
    """

    case: CaseView
    worst: CellView
    unfolded: bool
    shows_reason: bool


@dataclass(frozen=True, slots=True)
class PageCase:
    """A case with its details.

    Attributes:
        worst: the cell that decided the place of the case in the list.
        reason: the reason why the worst cell failed.
        change: its passed and graded runs on the base and here over all variants, if it changed.
        base_now: those of main in the same minutes, next to `change`; empty if there are none.
        input: the input of the case, unless the prompt contains it.
        asked: the prompt of all its cells; empty if they differ.
        explain: the command that shows the details, if they had no room; else empty.
    """

    worst: CellView
    id: str
    address: str
    unfolded: bool
    tags: Sequence[str]
    renamed_from: str
    change: str
    base_now: str
    reason: str
    description: str
    place: str
    quarantine: str
    input: str
    asked: str
    expected: Sequence["PageExpectation"]
    cells: Sequence["PageCell"]
    explain: str

    @property
    def cells_with_details(self) -> Sequence["PageCell"]:
        """The cells whose details had room, the worst one first."""
        cells = [cell for cell in self.cells if cell.details is not None]
        return sorted(cells, key=lambda cell: not cell.is_worst)


@dataclass(frozen=True, slots=True)
class PageCell:
    """A cell in the row of its case; confirm runs are counted, too.

    Attributes:
        gaps: the number of variants just before it that do not have the case.
        label: the part of the variant's name that differs from the others. Both it and `variant`
            are empty if there is only one variant.
        rate: the pass rate. Rows can be sorted by it, by `cost` in USD, and by `latency`, the
            median of the graded runs in seconds.
        details: None if there is no room for them.
    """

    view: CellView
    column: int
    gaps: int
    is_worst: bool
    label: str
    variant: str
    tally: str
    rate: str
    cost: str
    latency: str
    spark: Spark | None
    details: "CellDetails | None"


@dataclass(frozen=True, slots=True)
class CellDetails:
    """The details of a cell.

    Attributes:
        asked: its prompt; empty if all cells of the case have the same.
        answer_key: a key that is equal for cells with equal first answers; empty without one.
        base_key: the key of the base's answer; empty if it is not known.
        before: the base's answer, unless a run is shown next to it.
        before_name: where the base's answer is from.
        before_missed: the unmet expectations of the base's answer, if they are known.
        strip: the status of each run, if any did not pass.
    """

    asked: str
    finding: str
    answer_key: str
    base_key: str
    before: "PageAnswer | None"
    before_name: str
    before_missed: str
    strip: Sequence[Status]
    runs: Sequence["PageRun"]
    more_runs: str
    failed_graders: Sequence[str]
    commands: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class PageRun:
    """Runs that ended alike.

    Attributes:
        thoughts: what the model thought in the first of the runs, before its answer.
        answer: None without one. A conversation has `turns` instead, unless it is compared.
        before: the base's answer, for the first run that failed.
        characters: the length of the answer's text, if tool calls are shown below it; else None.
        context: the texts that were retrieved.
        test_output: the last lines of a task's verifier.
        diff: a coding agent's work, its lines marked.
        more_texts: the number of retrieved texts that were left out.
        variations: answers of other runs that differ in few words.
        more_variations: the number of variations that were left out.
    """

    status: Status
    numbers: Sequence[int]
    title: str
    facts: str
    unfolded: bool
    error: str | None
    frames: Sequence[str]
    failed: Sequence["PageGrade"]
    passed: Sequence["PageGrade"]
    thoughts: str
    turns: Sequence["PageTurn"]
    answer: "PageAnswer | None"
    before: "PageAnswer | None"
    characters: int | None
    steps: Sequence["PageStep"]
    files: Sequence[str]
    context: Sequence["PageText"]
    more_texts: int
    metadata: str
    detail: str
    test_output: str
    diff: Sequence[Node]
    variations: Sequence["PageVariation"]
    more_variations: int

    @property
    def numbers_alike(self) -> Sequence[int]:
        """The numbers of the runs with exactly this answer, without the first one."""
        elsewhere = {number for other in self.variations for number in other.numbers}
        return [number for number in self.numbers[1:] if number not in elsewhere]

    @property
    def other_answers(self) -> str:
        """`2 other answers differ in few words`."""
        number = len(self.variations) + self.more_variations
        if number == 1:
            return "1 other answer differs in few words"
        return f"{number:,} other answers differ in few words"


@dataclass(frozen=True, slots=True)
class PageVariation:
    """The answer of some runs, with the words marked that differ from the answer shown."""

    numbers: Sequence[int]
    title: str
    nodes: Sequence[Node]


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """An answer.

    Attributes:
        nodes: its elements, in which passages and words are marked.
        is_text: it is shown as plain text.
        is_long: only its beginning is seen at first.
        is_cut: the page has only a part of it.
        raw: the original text, if it is not shown as plain text.
    """

    nodes: Sequence[Node]
    is_text: bool
    is_long: bool
    is_cut: bool
    raw: str


@dataclass(frozen=True, slots=True)
class PageGrade:
    """A grade with its statements, and with the grades that it is composed of.

    Attributes:
        speaks_for_itself: the reason needs no name in front of it.
        judge: the verdict of a model on the answer, `pass` or `fail`; empty without one.
    """

    grader: str
    speaks_for_itself: bool
    passed: bool
    judge: str
    score: str
    reason: str
    statements: Sequence[tuple[bool, str]]
    parts: Sequence["PageGrade"]


@dataclass(frozen=True, slots=True)
class PageText:
    """A text that was retrieved, with the statements that judges found there."""

    label: str
    text: str
    statements: Sequence[tuple[bool, str]]


@dataclass(frozen=True, slots=True)
class PageTurn:
    """A user's message, and the answer to it."""

    is_failed: bool
    user: str
    thoughts: str
    answer: PageAnswer
    facts: str
    steps: Sequence["PageStep"]


@dataclass(frozen=True, slots=True)
class PageStep:
    """A step of an agent; `path` draws its place in the run's time, if known."""

    kind: str
    name: str
    agent: str
    facts: str
    arguments: str
    result: str
    error: str
    path: str


@dataclass(frozen=True, slots=True)
class PageExpectation:
    """A grader with its options in words, and the graders that it is composed of."""

    name: str
    options: str
    parts: Sequence["PageExpectation"]


def page_case(row: PageRow, *, has_room: bool = True) -> PageCase:
    """Return the contents of a case, with its details only if there is room for them."""
    worst, case, cells = row.worst, row.worst.case, row.case.cells
    change = base_now = reason = quarantine = ""
    description = renamed_from = given = asked = explain = ""
    if worst.changed and row.case.base.graded:
        change = f"{brief_tally(row.case.base)} → {brief_tally(row.case.head)}"
        if len(cells) > 1:
            change += f" on {len(cells)} variants{_chance_of_case(row)}"
        base_now = one_line(base_now_clause(worst.summary, row.case), NAME_CHARACTERS)
    if row.shows_reason:
        reason = _reason(worst)
    if case.description:
        description = one_line(case.description, REASON_CHARACTERS)
    if worst.renamed_from:
        renamed_from = one_line(worst.renamed_from, NAME_CHARACTERS)
    if case.quarantine:
        why = one_line(case.quarantine.reason, REASON_CHARACTERS)
        quarantine = f"In quarantine until {case.quarantine.until}: {why}"
    details: Sequence[CellDetails | None] = [None] * len(cells)
    expected: Sequence[PageExpectation] = ()
    if has_room:
        all_results = [view.results() for view in cells]
        questions = [
            _asked(view, results) for view, results in zip(cells, all_results, strict=True)
        ]
        given = shorten(input_text(case), MAX_CHARACTERS)
        if given in questions[0]:
            given = ""
        if len(set(questions)) == 1:
            asked = questions[0]
            questions = [""] * len(questions)
        shown_answer = ""
        if worst.outcome != "passed" and worst.failed_run is not None:
            shown_answer = _key_of(worst.failed_run.answer)
        details = [
            _details(view, results, question, shown_answer, is_worst=view is worst)
            for view, results, question in zip(cells, all_results, questions, strict=True)
        ]
        expected = _expectations(case.expect)
    else:
        _, explain = next(_commands(worst))
    return PageCase(
        worst=worst,
        id=one_line(case.id, NAME_CHARACTERS),
        address=address_of(case.id),
        unfolded=row.unfolded,
        tags=[one_line(tag, NAME_CHARACTERS) for tag in dict.fromkeys(case.tags)],
        renamed_from=renamed_from,
        change=change,
        base_now=base_now,
        reason=reason,
        description=description,
        place=one_line(place_of(case), NAME_CHARACTERS),
        quarantine=quarantine,
        input=given,
        asked=asked,
        expected=expected,
        cells=list(_cells(row, details)),
        explain=explain,
    )


def _chance_of_case(row: PageRow) -> str:
    """Return `, p < 0.001` for a case that is worse over its variants; else nothing."""
    comparison = row.worst.summary.compared
    found = comparison.by_case.get(row.case.case.id) if comparison else None
    if found is None:
        return ""
    return f", {brief_chance(found.adjusted_p)}"


# Columns.


@once_per_summary
def columns_of(summary: Summary) -> Sequence[tuple[str, str]]:
    """Return the distinguishing parts of each variant's provider and prompt."""
    variants = summary.report.plan.variants
    providers = _differences(variant.provider for variant in variants)
    prompts = _differences(variant.prompt or "" for variant in variants)
    columns = []
    for variant in variants:
        provider, prompt = providers[variant.provider], prompts[variant.prompt or ""]
        if not provider and not prompt:
            provider = one_line(variant.provider, NAME_CHARACTERS)
        columns.append((provider, prompt))
    return columns


def _differences(names: Iterable[str]) -> Mapping[str, str]:
    """Return each name without the words that all names begin with; empty for a single name."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) == 1:
        return {distinct[0]: ""}
    words_of = [re.findall(r"[^\W_]*[\W_]*", name) for name in distinct]
    start = 0
    for words in zip(*words_of, strict=False):
        if len(set(words)) > 1:
            break
        start += len(words[0])
    if start in map(len, distinct):
        start = 0  # one name is the beginning of all others, so nothing would be left of it
    return {name: one_line(name[start:], NAME_CHARACTERS) for name in distinct}


# A cell.


def _cells(row: PageRow, details: Sequence[CellDetails | None]) -> Iterator[PageCell]:
    next_column = 0
    for view, each in zip(row.case.cells, details, strict=True):
        column = view.cell % len(view.summary.report.plan.variants)
        yield _cell(view, each, column, column - next_column, is_worst=view is row.worst)
        next_column = column + 1


def _cell(
    view: CellView, details: CellDetails | None, column: int, gaps: int, *, is_worst: bool
) -> PageCell:
    report = view.summary.report
    runs = view.all_runs
    label = variant = rate = cost = latency = ""
    tally: str = view.outcome
    if len(report.plan.variants) > 1:
        label = " · ".join(filter(None, columns_of(view.summary)[column]))
        variant = one_line(str(view.variant), NAME_CHARACTERS)
    if runs.graded:
        tally = f"{runs.passed:,}/{runs.graded:,}"
        rate = f"{runs.rate:.4g}"
    records = report.records_of((view.cell,))
    costs = [record.cost_usd for record in records if record.cost_usd is not None]
    if costs:
        cost = f"{sum(costs):.3g}"
    latencies_s = [record.latency_s for record in records if record.status != "errored"]
    if latencies_s:
        latency = f"{median(latencies_s):.3g}"
    return PageCell(
        view=view,
        column=column,
        gaps=gaps,
        is_worst=is_worst,
        label=label,
        variant=variant,
        tally=tally,
        rate=rate,
        cost=cost,
        latency=latency,
        spark=spark(view.summary.compared, view.key, runs),
        details=details,
    )


def _reason(view: CellView) -> str:
    """Return the most frequent reason why runs of a cell did not pass."""
    reason = ""
    errored = view.run("errored") if view.counts.errored else None
    if view.failures.missed:
        reason, _ = view.failures.shared[0]
    elif errored is not None and errored.error:
        reason = errored.error
    return one_line(reason, REASON_CHARACTERS)


def _sentence(text: str) -> str:
    return keep_units(one_line(text, REASON_CHARACTERS))


# Details.


def _asked(view: CellView, results: Sequence[Result]) -> str:
    text = asked_text(view.case, next(iter(results), None))
    return visible(abridge(text, MAX_CHARACTERS))


def _details(
    view: CellView, results: Sequence[Result], asked: str, shown_answer: str, *, is_worst: bool
) -> CellDetails:
    """Return the details of a cell.

    The first run of the worst cell is unfolded, and runs that did not pass, unless they only repeat
    its answer, whose key is `shown_answer`.

    If the first run failed, it is shown next to the base's answer, if that is known.
    """
    runs = alike(results)
    if len(runs) > 1:
        from ci_evals.reports.similar_runs import merge_similar

        runs = merge_similar(runs)
        if view.before is not None and view.failed_run is not None:
            nearest = view.failed_run.numbers[0]
            runs.sort(key=lambda run: nearest not in run.numbers)
        runs.sort(key=lambda run: _RUN_ORDER.index(run.status))
    before = before_name = before_missed = None
    if view.before is not None:
        before = view.before.text
        before_name = one_line(view.summary.label_of(view.before), NAME_CHARACTERS)
        before_missed = one_line(view.before.missed, REASON_CHARACTERS)
    base_key = _key_of(before)
    shown_runs: list[PageRun] = []
    for run in runs[:_MAX_RUNS]:
        is_first = not shown_runs
        is_news = run.status != "passed" and (is_worst or _key_of(run.answer) != shown_answer)
        unfolded = is_news or (is_worst and is_first)
        compared_with = None
        if is_first and run.status == "failed" and run.answer is not None:
            compared_with, before = before, None
        shown_runs.append(_run(run, view.case.expect, compared_with, unfolded=unfolded))
    more_runs = ""
    strip: Sequence[Status] = ()
    if len(results) > 1 and runs[0].status != "passed":
        strip = [result.status for result in results[:_MAX_ITEMS]]
    if len(runs) > _MAX_RUNS:
        more = number_of(len(runs) - _MAX_RUNS, "more kind")
        more_runs = f"… and {more} of runs in results.jsonl."
    return CellDetails(
        asked=asked,
        finding=_sentence(view.finding),
        answer_key=_key_of(runs[0].answer) if runs else "",
        base_key=base_key,
        before=None if before is None else _answer(before, ()),
        before_name=before_name or "",
        before_missed=before_missed or "",
        strip=strip,
        runs=shown_runs,
        more_runs=more_runs,
        failed_graders=_failed_graders(runs),
        commands=list(_commands(view)),
    )


def _key_of(answer: str | None) -> str:
    """Return a key that is equal for equal answers."""
    if answer is None:
        return ""
    # Only the beginning of the base's answers is kept, so only beginnings can be compared.
    if len(answer) > TEXT_CHARACTERS:
        answer = answer[:TEXT_CHARACTERS]
    return f"{crc32(answer.encode('utf-8', 'replace')):x}"


def _failed_graders(runs: Sequence[RunView]) -> list[str]:
    names: dict[str, None] = {}
    for run in runs:
        for grade in run.first.grades:
            if not grade.passed:
                names[one_line(grade.grader, NAME_CHARACTERS)] = None
    return list(names)


def _commands(view: CellView) -> Iterator[tuple[str, str]]:
    """Yield the label and text of commands for a cell."""
    case = shlex.quote(view.case.id)
    run = _run_command(view.summary)
    explain_options, run_options = _command_options(view.summary)[view.variant]
    yield "Explain", visible(f"ci-evals explain {case}{explain_options}")
    if run:
        yield "Run this case", visible(f"{run} --case {case}{run_options}")


@once_per_summary
def _run_command(summary: Summary) -> str:
    """Return the command that runs the suite; empty for cases of pytest or Python, which
    `ci-evals run` cannot run.
    """
    file = summary.report.suite.file
    if not _is_config(file):
        return ""
    return run_again(file)


@once_per_summary
def _command_options(summary: Summary) -> Mapping[Variant, tuple[str, str]]:
    """Return the options with which `explain` and `run` find the cells of each variant."""
    report = summary.report
    options = {}
    for variant in report.plan.variants:
        explain: list[str] = []
        run: list[str] = []
        if _is_config(report.suite.file) and report.suite.file not in DEFAULT_NAMES:
            explain += ["--config", report.suite.file]
        if len(report.plan.variants) > 1:
            explain += ["--provider", variant.provider]
            run += ["--providers", variant.provider]
            if variant.prompt:
                explain += ["--prompt", variant.prompt]
        options[variant] = _as_options(explain), _as_options(run)
    return options


def _as_options(words: Sequence[str]) -> str:
    return "".join(f" {shlex.quote(word)}" for word in words)


def _is_config(file: str) -> bool:
    return file.endswith((".yaml", ".yml", ".json"))


# A run.


def _run(
    run: RunView, expect: Sequence[Any], compared_with: str | None, *, unfolded: bool
) -> PageRun:
    response = run.first.response
    facts = run.facts
    if response is not None and response.model:
        facts.append(one_line(response.model, NAME_CHARACTERS))
    if response is not None and response.finish_reason in LIMITS_REACHED:
        facts.append(f"finish reason {response.finish_reason}")
    turns: Sequence[PageTurn] = ()
    steps: Sequence[PageStep] = ()
    answer = before = characters = None
    thoughts = ""
    context: Sequence[PageText] = ()
    more_texts = 0
    if response is not None and response.turns:
        turns = [
            _turn(
                turn,
                _passages(expect, turn.response.output, number),
                is_failed=number == run.failed_turn,
            )
            for number, turn in enumerate(response.turns[:_MAX_ITEMS], 1)
        ]
    elif response is not None:
        steps = list(_steps(response))
        if response.thoughts:
            thoughts = _shown_thoughts(response.thoughts)
    if response is not None and compared_with is not None:
        before, answer = _compare(compared_with, run, _passages(expect, response.output))
        if run.answer != response.output and not response.turns:
            characters = len(visible(response.output))
    elif response is not None and not response.turns:
        answer = _answer(response.output, _passages(expect, response.output))
    if passages := run.context:
        context = list(_context(run.grades, passages))
        more_texts = len(passages[MANY:])
    return PageRun(
        status=run.status,
        numbers=run.numbers,
        title=run.title.capitalize(),
        facts=_sentence(" · ".join(facts)),
        unfolded=unfolded,
        error=run.error,
        frames=run.frames,
        failed=[_grade(grade) for grade in run.grades if not grade.passed],
        passed=[_grade(grade) for grade in run.grades if grade.passed],
        thoughts=thoughts,
        turns=turns,
        answer=answer,
        before=before,
        characters=characters,
        steps=steps,
        files=[file for file in run.files if _FILE.fullmatch(file)],
        context=context,
        more_texts=more_texts,
        metadata="\n".join(metadata_lines(run.metadata)),
        detail=visible(run.detail or ""),
        test_output=visible(run.test_output or ""),
        diff=list(_diff(run.diff or "")),
        variations=[_variation(run, other) for other in run.variations[:_MAX_VARIATIONS]],
        more_variations=len(run.variations[_MAX_VARIATIONS:]),
    )


def _diff(diff: str) -> Iterator[Node]:
    """Yield the lines of a diff, the added and removed ones marked."""
    for line in visible(shorten(diff, MAX_CHARACTERS)).splitlines(keepends=True):
        if line.startswith("+"):
            yield ("ins", line)
        elif line.startswith("-"):
            yield ("del", line)
        else:
            yield line


def _variation(run: RunView, other: RunView) -> PageVariation:
    """Return the answer of some runs, compared with the one that is shown."""
    from ci_evals.reports.similar_runs import difference

    nodes: list[Node] = []
    for kind, text in difference(run, other):
        match kind:
            case "same":
                nodes.append(visible(text))
            case "old":
                nodes.append(("del", visible(text)))
            case "new":
                nodes.append(("ins", visible(text)))
    return PageVariation(other.numbers, run_numbers(other.numbers).capitalize(), nodes)


def _answer(text: str, passages: Iterable["_Passage"]) -> PageAnswer:
    if not text:
        return _page_answer((), ())
    raw = shorten(text, MAX_CHARACTERS)
    is_cut = len(text) > MAX_CHARACTERS
    nodes = elements_of(visible(text))
    if nodes is None:
        return _page_answer((raw,), passages, is_cut=is_cut)
    return _page_answer(nodes, passages, raw, is_cut=is_cut)


def _page_answer(
    nodes: Sequence[Node], passages: Iterable["_Passage"], raw: str = "", *, is_cut: bool = False
) -> PageAnswer:
    passages = list(passages)
    nodes = mark(nodes, [each.text for each in passages if not each.is_forbidden])
    nodes = mark(nodes, [each.text for each in passages if each.is_forbidden], "s")
    return PageAnswer(nodes=nodes, is_text=not raw, is_long=_is_long(nodes), is_cut=is_cut, raw=raw)


def _is_long(nodes: Sequence[Node]) -> bool:
    text = text_of(nodes)
    return len(text) > _LONG_CHARACTERS or text.count("\n") > _LONG_LINES


def _compare(
    before: str, run: RunView, passages: Sequence["_Passage"]
) -> tuple[PageAnswer, PageAnswer]:
    """Return the base's answer and the run's answer, with differing words marked.

    No words are marked if the base's answer was too long to be kept in full.
    """
    old = _answer(before, passages)
    new = _answer(run.answer or "", passages)
    if len(before) > TEXT_CHARACTERS:
        return old, new
    old_nodes, new_nodes = mark_difference(old.nodes, new.nodes)
    return replace(old, nodes=old_nodes), replace(new, nodes=new_nodes)


@dataclass(frozen=True, slots=True)
class _Passage:
    """A passage of an answer that a grader looks for, or that it forbids."""

    text: str
    is_forbidden: bool


def _passages(
    expect: Sequence[Any], output: str, turn: int | None = None, *, is_negated: bool = False
) -> list[_Passage]:
    """Return the passages of an answer, or of one of its turns, that its graders look for."""
    passages = []
    for each in expect:
        if not isinstance(each, Expectation) or each.transform or each.turn not in (None, turn):
            continue
        is_forbidden = each.negated != is_negated
        if isinstance(each.grader, Composite):
            passages += _passages(each.grader.of, output, turn, is_negated=is_forbidden)
        elif isinstance(each.grader, GraderOptions):
            for text in each.grader.find_in(output):
                passages.append(_Passage(visible(text), is_forbidden))
    return passages


def _grade(grade: Grade) -> PageGrade:
    text = f"{grade.score:.2f}"
    if not grade.weight:
        text = f"{text} (for information)"
    elif grade.weight != USUAL_WEIGHT:
        text = f"{text} (weight {grade.weight:g})"
    judge = ""
    if grade.judge_passed is not None:
        judge = "pass" if grade.judge_passed else "fail"
    return PageGrade(
        grader=one_line(grade.grader, NAME_CHARACTERS),
        speaks_for_itself=grade.speaks_for_itself,
        passed=grade.passed,
        judge=judge,
        score=text,
        reason=one_line(grade.text, REASON_CHARACTERS),
        statements=statement_lines(grade),
        parts=[_grade(part) for part in failed_first(grade.parts)],
    )


def _context(grades: Sequence[Grade], passages: Sequence[Passage]) -> Iterator[PageText]:
    found: dict[int, list[tuple[bool, str]]] = {}
    for grade in every_grade(grades):
        for statement in grade.statements[:_MAX_ITEMS]:
            text = one_line(f"{grade.grader}: {statement.text}", REASON_CHARACTERS)
            for number in statement.texts:
                found.setdefault(number, []).append((statement.holds, text))
    labelled = label_passages(passages, _PART_CHARACTERS)
    for number, (label, text) in enumerate(labelled, 1):
        yield PageText(label, text, found.get(number, ()))


def _turn(turn: Turn, passages: Sequence[_Passage], *, is_failed: bool) -> PageTurn:
    facts = [seconds(turn.latency_s)]
    if turn.cost_usd is not None:
        facts.append(usd(turn.cost_usd))
    thoughts = ""
    if turn.response.thoughts:
        thoughts = _shown_thoughts(turn.response.thoughts)
    return PageTurn(
        is_failed=is_failed,
        user=shorten(turn.user, _PART_CHARACTERS),
        thoughts=thoughts,
        answer=_answer(turn.response.output, passages),
        facts=_sentence(" · ".join(facts)),
        steps=list(_steps(turn.response)),
    )


def _shown_thoughts(thoughts: str) -> str:
    from ci_evals.graders.thoughts import without_tags

    return visible(abridge(without_tags(thoughts), _MAX_THOUGHTS))


def _steps(response: Response) -> Iterator[PageStep]:
    """Yield the steps of an agent, and its tool calls if the steps have none."""
    steps = list(response.steps or ())
    if response.diff is not None:  # it is shown by itself
        steps = [step for step in steps if step.result != response.diff]
    if not any(step.kind == "tool_call" for step in steps):
        steps += [Step("tool_call", call.name, call.arguments) for call in response.tool_calls]
    total_s = sum(step.duration_s or 0.0 for step in steps)
    is_timed = total_s > 0 and sum(step.duration_s is not None for step in steps) > 1
    start_s = 0.0
    for step in steps[:_MAX_ITEMS]:
        path = ""
        taken_s = step.duration_s or 0.0
        if is_timed:
            start = 100 * start_s / total_s
            width = max(0.5, 100 * taken_s / total_s)
            path = f"M{start:.1f} 1h{width:.1f}"
        yield _step(step, path)
        start_s += taken_s


def _step(step: Step, path: str) -> PageStep:
    facts = []
    if step.alias is not None:
        facts.append(one_line(step.alias, NAME_CHARACTERS))
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
        path=path,
    )


# Expectations.


def _expectations(expect: Sequence[Any]) -> list[PageExpectation]:
    """Return the known expectations: a report that was read back has none."""
    return [_expectation(each) for each in expect if isinstance(each, Expectation)]


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
    parts: Sequence[PageExpectation] = ()
    if isinstance(grader, Composite):
        parts = _expectations(grader.of)
    name = one_line(expectation.shown_name, NAME_CHARACTERS)
    return PageExpectation(name, " · ".join(options), parts)


@cache
def _fields_shown(grader: type) -> Sequence[Field[Any]]:
    return [field for field in fields(grader) if field.name not in _SHOWN_ELSEWHERE]


def _options(grader: GraderOptions) -> Iterator[str]:
    """Yield the options that are set, the grader's main option first and without its name."""
    set_options = {}
    kind: type = type(grader)
    for field in _fields_shown(kind):
        value = getattr(grader, field.name)
        if value is not None and value != field.default:
            set_options[field.name] = one_line(json_text(value), REASON_CHARACTERS)
    if grader.short in set_options:
        yield set_options.pop(grader.short)
    for name, text in set_options.items():
        yield f"{name.replace('_', ' ')} {text}"
