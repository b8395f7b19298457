"""The cells of a report and their runs: held against their bar, sorted by what changed, and in the
words of people.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar
from urllib.parse import quote

from ci_evals.errors import ErrorKind
from ci_evals.format import UNKNOWN, number_of, one_line, percent, run_numbers, score, span
from ci_evals.gate.bars import ScopeVerdict, VerdictStatus
from ci_evals.gate.compare import CellComparison, CellKind, Comparison, NoComparison
from ci_evals.gate.wording import cell_finding, same_reason, tally_text
from ci_evals.model.case import USUAL_WEIGHT, Case, Variant
from ci_evals.model.report import CellReport, SuiteReport, Tally
from ci_evals.model.response import Message, Passage, Response, ToolCall
from ci_evals.model.result import Grade, Result, RunError, Status, every_grade
from ci_evals.model.rules import Gate
from ci_evals.reports.summary import Summary
from ci_evals.stats.rates import flip_rate
from ci_evals.user_code import is_their_own

T = TypeVar("T")

CellOutcome = Literal["passed", "flaky", "failed", "errored", "not run"]


@dataclass(frozen=True, slots=True)
class JudgedCell(CellReport):
    """One case on one variant with the pass rate that it must reach, and with its comparison, if
    there is one.

    `missed` is True if the gate says that a bar which covers the cell is missed, and not only
    within noise.
    """

    bar: float
    missed: bool
    found: CellComparison | None

    @property
    def below_bar(self) -> bool:
        """Return True if fewer of its graded runs passed than its bar asks for, were it by
        chance.
        """
        share = self.counts.pass_rate
        return share is not None and share < self.bar

    @property
    def outcome(self) -> CellOutcome:
        """`failed` is below a bar that is missed, or without a passed run; any other one with
        failed runs is `flaky`.

        `errored` is one without any graded run.
        """
        if not self.counts.graded:
            return "errored" if self.counts.errored else "not run"
        if self.below_bar and (self.missed or not self.counts.passed):
            return "failed"
        return "flaky" if self.counts.failed else "passed"

    @property
    def tally(self) -> str:
        """`3 of 5 runs passed`, of the runs that were graded, and what became of the others."""
        counts = self.counts
        if counts.errored and not counts.graded and not counts.missing:
            return (
                f"{'all ' if counts.errored > 1 else ''}{number_of(counts.errored, 'run')} errored"
            )
        parts = [f"{counts.passed:,} of {number_of(counts.graded, 'run')} passed"]
        parts += [f"{counts.errored:,} errored"] if counts.errored else []
        parts += [f"{counts.missing:,} not run"] if counts.missing else []
        return ", ".join(parts)

    @property
    def renamed_from(self) -> str | None:
        return self.found.renamed_from if self.found else None

    @property
    def critical(self) -> bool:
        """True if its regression alone makes the gate red."""
        return self.found is not None and self.found.kind == "regressed" and self.found.critical


def judged_cells(summary: Summary, variant: Variant | None = None) -> Iterator[JudgedCell]:
    """Yield every cell that has runs in plan order, or those of one variant."""
    known = summary.compared.by_key if summary.compared else {}
    strict = summary.gate is not None and summary.gate.on_borderline == "fail"
    blocks: tuple[VerdictStatus, ...] = ("fail", "borderline") if strict else ("fail",)
    missed_bars = [scope for scope in summary.verdict.scopes if scope.status in blocks]
    for each in summary.report.cells:
        if variant in (None, each.variant):
            bar = bar_of(each.case, each.variant, summary.gate)
            missed = any(_covers(scope, each) for scope in missed_bars)
            yield JudgedCell(
                each.cell, each.case, each.variant, each.counts, bar, missed, known.get(each.key)
            )


def _covers(scope: ScopeVerdict, cell: CellReport) -> bool:
    """Return True if the bar of a scope is one that `bar_of` holds the cell to."""
    if scope.kind == "case" or cell.case.min_pass_rate is not None:
        return scope.kind == "case" and scope.name == cell.case.id
    names = {
        "variant": (str(cell.variant),),
        "provider": (cell.variant.provider,),
        "tag": cell.case.tags,
    }
    return scope.kind == "suite" or scope.name in names.get(scope.kind, ())


def bar_of(case: Case, variant: Variant, gate: Gate | None) -> float:
    """Return the case's own bar, else the strictest of the gate's that cover the cell, else 1."""
    if case.min_pass_rate is not None:
        return case.min_pass_rate
    if gate is None:
        return 1.0
    by_tag = map(gate.tag_bar, case.tags)
    covering = (
        gate.min_pass_rate,
        gate.min_case_pass_rate,
        gate.providers.get(variant.provider),
        *by_tag,
    )
    return max((bar for bar in covering if bar is not None), default=1.0)


# Beside the baseline.


@dataclass(frozen=True, slots=True)
class Changes:
    """The cells that a reviewer looks at, each in one group, the most important first.

    Attributes:
        regressed, possible, fixed: what the comparison found, the surest first.
        failing, still_failing: other cells that failed, apart those that were below their bar on
            the base branch too.
        failed_some: cells below their bar, but within noise.
        flaky: cells within their bar but with failed runs. These last four have the lowest pass
            rate first.
        errored: cells of which no run was graded.
        quarantined: cells of cases in quarantine, whatever became of them; they are in no other
            group.
        others: cells that passed or did not run.
    """

    regressed: tuple[JudgedCell, ...]
    possible: tuple[JudgedCell, ...]
    fixed: tuple[JudgedCell, ...]
    failing: tuple[JudgedCell, ...]
    still_failing: tuple[JudgedCell, ...]
    failed_some: tuple[JudgedCell, ...]
    flaky: tuple[JudgedCell, ...]
    errored: tuple[JudgedCell, ...]
    quarantined: tuple[JudgedCell, ...]
    others: tuple[JudgedCell, ...]


def changes(summary: Summary) -> Changes:
    """Sort the cells of a report. What is `fixed` may be flaky, too."""
    cells = {cell.key: cell for cell in judged_cells(summary)}

    def of(kind: CellKind) -> tuple[JudgedCell, ...]:
        chosen = summary.compared.select(kind) if summary.compared else ()
        return tuple(cells[each.key] for each in chosen if each.key in cells)

    regressed, possible, fixed = of("regressed"), of("suspect"), of("fixed")
    named = {cell.key for cell in (*regressed, *possible)}
    rest = [
        cell for cell in cells.values() if cell.key not in named and cell.case.quarantine is None
    ]

    def rest_of(*outcomes: CellOutcome) -> list[JudgedCell]:
        chosen = [cell for cell in rest if cell.outcome in outcomes]
        return sorted(chosen, key=lambda cell: cell.counts.pass_rate or 0.0)

    def was_failing(cell: JudgedCell) -> bool:
        found = cell.found
        return found is not None and found.p is not None and found.base.rate < cell.bar

    failed, flaky = rest_of("failed"), rest_of("flaky")
    return Changes(
        regressed=regressed,
        possible=possible,
        fixed=fixed,
        failing=tuple(cell for cell in failed if not was_failing(cell)),
        still_failing=tuple(cell for cell in failed if was_failing(cell)),
        failed_some=tuple(cell for cell in flaky if cell.below_bar),
        flaky=tuple(cell for cell in flaky if not cell.below_bar),
        errored=tuple(rest_of("errored")),
        quarantined=tuple(cell for cell in cells.values() if cell.case.quarantine is not None),
        others=tuple(rest_of("not run", "passed")),
    )


def finding_of(cell: JudgedCell, comparison: Comparison | NoComparison | None) -> str:
    """Say what became of a cell: what the comparison found, or how many of its runs passed here and
    on the base.
    """
    text, found = cell.tally, cell.found
    flips = flip_rate(cell.counts.passed, cell.counts.graded)
    if cell.outcome == "flaky" and flips is not None:
        text = f"{text}, flip rate {percent(round(flips, 3))}"
    if found is None or not isinstance(comparison, Comparison):
        return text
    if found.kind in ("regressed", "suspect", "fixed"):
        return cell_finding(comparison, found)
    before = f"{tally_text(found.base)} on {comparison.baseline.label}" if found.base.graded else ""
    if found.kind == "edited":
        return f"{text}; edited, so not compared" + (f": {before}" if before else "")
    return f"{text}; {before}" if before else text


def brief_tally(tally: Tally) -> str:
    """`29/30`, for a column."""
    return f"{tally.passed:,}/{tally.graded:,}" if tally.graded else UNKNOWN


def brief_chance(p: float | None) -> str:
    """`p = 0.012`, or `p < 0.001`, for a column."""
    if p is None:
        return ""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


_CHANGED = ("new variant", "removed variant", "new", "edited", "renamed", "removed")
_NOT_COMPARED = ("not compared variant", "not compared")


@dataclass(frozen=True, slots=True)
class MatrixChange:
    """Cases or variants that are not those of the baseline: `3 edited`. A name is one text, or an
    old and a new one.
    """

    word: str
    names: tuple[tuple[str, ...], ...]

    @property
    def heading(self) -> str:
        """`3 cases edited`, `1 variant new`."""
        word = self.word.removesuffix(" variant")
        return f"{number_of(len(self.names), 'case' if word == self.word else 'variant')} {word}"


def matrix_changes(comparison: Comparison) -> list[MatrixChange]:
    """List whole variants first, then cases.

    A case that several variants have alike is named once; one that was not compared on some of
    them, with these. A variant that was compared under another name is not removed; only a case of
    it may be. Where nothing at all was compared, that is said elsewhere.
    """
    now = {theirs: mine for mine, theirs in comparison.base_variants.items()}
    here = {cell.variant for cell in comparison.cells if cell.kind != "removed"}
    common = {cell.variant for cell in comparison.cells if cell.kind not in ("new", "removed")}
    compared = {cell.variant for cell in comparison.cells if cell.p is not None}
    cases = {cell.case for cell in comparison.cells if cell.p is not None}
    words = (*_CHANGED, *_NOT_COMPARED) if compared else _CHANGED
    found: dict[str, dict[tuple[str, ...], None]] = {word: {} for word in words}
    for cell in comparison.cells:
        variant = now.get(cell.variant, cell.variant) if cell.kind == "removed" else cell.variant
        if variant not in common and (cell.kind == "new" or variant not in here):
            found[f"{cell.kind} variant"][(str(variant),)] = None
        elif cell.kind == "not compared" and compared and variant not in compared:
            found["not compared variant"][(str(variant),)] = None
        elif cell.kind in found:
            apart = cell.kind == "not compared" and cell.case in cases
            found[cell.kind][(f"{cell.case} on {variant}" if apart else cell.case,)] = None
        if cell.renamed_from is not None:
            found["renamed"][cell.renamed_from, cell.case] = None
    return [MatrixChange(word, tuple(names)) for word, names in found.items() if names]


# Errors.


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Errored runs of one variant that ended for the same reason, in the words of the first.

    `cases` are those that they are runs of, in plan order; `kind` is None where no error was noted.
    `frames` say where the team's code crashed.
    """

    runs: int
    variant: Variant
    message: str
    cases: tuple[Case, ...]
    kind: ErrorKind | None
    frames: tuple[str, ...] = ()


def error_groups(report: SuiteReport) -> list[ErrorGroup]:
    """Group errored runs by variant and reason, the largest group first."""
    cases = {case.id: case for case in report.plan.cases}
    groups: dict[Hashable, list[Result]] = {}
    for result in report.results(report.indices("errored")):
        reason = (
            (result.error.kind, same_reason(result.error)) if result.error else reasons_of(result)
        )
        groups.setdefault((result.provider, result.prompt, reason), []).append(result)
    found = [
        ErrorGroup(
            runs=len(results),
            variant=Variant(results[0].provider, results[0].prompt),
            message=reasons_of(results[0])[0],
            cases=tuple(cases[case] for case in dict.fromkeys(result.case for result in results)),
            kind=results[0].error.kind if results[0].error else None,
            frames=tuple(frames_of(results[0].error)),
        )
        for results in groups.values()
    ]
    return sorted(found, key=lambda group: -group.runs)


# Runs.

_REASON_CHARACTERS = 300
_DETAIL_CHARACTERS = 2000
_MAX_CALLS_SHOWN = 100
_MAX_STATEMENTS_SHOWN = 30
_MAX_PASSAGES_SHOWN = 20
_MAX_METADATA_SHOWN = 20
_MAX_FRAMES = 3


def results_of(
    report: SuiteReport, cell: int, status: Status, limit: int | None = None
) -> tuple[Result, ...]:
    """Return the results of a cell that ended with this status, or the first `limit` of them."""
    return tuple(report.results(report.indices(status, (cell,))[:limit]))


def failed_runs(report: SuiteReport, cell: int, limit: int | None = None) -> tuple[Result, ...]:
    """Return the failed results of a cell, confirm runs included, or the first `limit` of them."""
    planned = results_of(report, cell, "failed", limit)
    if report.confirmation is None:
        return planned
    return (planned + results_of(report.confirmation, cell, "failed", limit))[:limit]


def common_error(report: SuiteReport, cell: JudgedCell) -> RunError | None:
    """Return the error that ended every graded run of a cell without an answer; None if there is no
    such error.
    """
    if cell.counts.passed or not cell.counts.failed:
        return None
    errors = [result.error for result in failed_runs(report, cell.cell)]
    reasons = {error and same_reason(error) for error in errors}
    return errors[0] if len(reasons) == 1 else None


def reasons_of(result: Result, *, with_answer: bool = True) -> tuple[str, ...]:
    """Say why a run did not pass: its error, or each failed grade.

    Args:
        result: the run.
        with_answer: say also what the answer has instead, `equals: expected 'Paris', got 'Lyon'`.
            Without that, runs that failed alike have the same reasons.
    """
    if result.error is not None:
        return (one_line(result.error.message or result.error.kind, _REASON_CHARACTERS),)
    failed = tuple(
        one_line(
            f"{grade.grader}: {grade.sentence if with_answer else grade.reason}", _REASON_CHARACTERS
        )
        for grade in result.grades
        if not grade.passed and grade.weight
    )
    if missed := score_sentence(result):
        return (*failed, missed)
    if failed:
        return failed
    return (
        ("no grader says why",)
        if result.score is None
        else (f"the score {result.score:.2f} is below its bar",)
    )


def score_sentence(result: Result) -> str | None:
    """`score 0.50, below the threshold of 0.8`; None where no score decided."""
    if result.score is None or result.threshold is None:
        return None
    relation = "at least" if result.status == "passed" else "below"
    return f"score {score(result.score)}, {relation} the threshold of {result.threshold:g}"


def count_reasons(results: Iterable[Result], *, with_answer: bool = True) -> list[tuple[str, int]]:
    """Return every distinct reason with the number of runs that it stopped, the most frequent
    first.
    """
    counts = Counter[str]()
    for result in results:
        counts.update(dict.fromkeys(reasons_of(result, with_answer=with_answer), 1))
    return counts.most_common()


def reason_lines(results: Sequence[Result], limit: int, *, with_answer: bool = True) -> list[str]:
    """Return the reasons of failed runs as lines, `2 of 3 failed runs: contains: …` where they
    differ.

    There are at most `limit`, and one more that counts those left out.
    """
    counted = count_reasons(results, with_answer=with_answer)
    same = len(results) == 1 or all(count == len(results) for _, count in counted)
    lines = [
        reason if same else f"{count:,} of {len(results):,} failed runs: {reason}"
        for reason, count in counted[:limit]
    ]
    left_out = len(counted) - len(lines)
    return [*lines, f"… and {number_of(left_out, 'other reason')}"] if left_out else lines


def place_of(case: Case) -> str:
    """Return the place where the user wrote a case: `evals.yaml:12`."""
    return f"{case.file}:{case.line}" if case.line else case.file


def address_of(case: str, variant: Variant | None = None, run: int | None = None) -> str:
    """Return the fragment of report.html that leads to a case, to its cell on a variant, or to a
    run of that.

    The variant is only named where there are several.
    """
    parts = {"case": case, "on": variant, "run": run}
    named = (
        (name, quote(str(value), safe="!~*'()", errors="replace"))
        for name, value in parts.items()
        if value
    )
    return "&".join(
        f"{name}={value}" for name, value in named
    )  # as encodeURIComponent in report.js


def input_text(case: Case) -> str:
    """Return what a case asks: its input, its conversation or its vars."""
    if case.user is not None:
        return f"{case.user.persona}\nwants: {case.user.goal}"
    if case.turns:
        return "\n".join(f"user: {turn.user}" for turn in case.turns)
    if case.messages and case.input is None:
        return _messages_text(case.messages)
    if case.input is not None:
        return case.input.text if isinstance(case.input, Message) else _plain(case.input)
    return "\n".join(f"{name}: {_plain(value)}" for name, value in case.vars.items())


def asked_text(case: Case, result: Result | None) -> str:
    """Return what a run asked, as it was sent; what the case asks, where that is not known."""
    sent = _messages_text(result.messages) if result else ""
    return (
        "\n".join(filter(None, [sent, input_text(case)]))
        if case.is_conversation
        else sent or input_text(case)
    )


def question_text(case: Case, result: Result | None) -> str:
    """Return what the user said last before a run answered; what the case asks, where that is not
    known.

    Of a conversation that is nothing: its answer has both sides.
    """
    if case.is_conversation:
        return ""
    said = [each.text for each in result.messages if each.role == "user"] if result else []
    return said[-1] if said else input_text(case)


def _messages_text(messages: Sequence[Message]) -> str:
    if len(messages) == 1 and messages[0].role == "user":
        return messages[0].text
    return "\n".join(f"{each.role}: {_with_calls(each.text, each.tool_calls)}" for each in messages)


def answer_text(result: Result) -> str | None:
    """Return the answer: the text, then a line for each of the first tool calls; None if there was
    none.
    """
    if result.response is None:
        return None
    if turns := result.response.turns:
        return "\n".join(
            f"user: {turn.user}\nassistant: {_response_text(turn.response)}" for turn in turns
        )
    return _response_text(result.response)


def whole_answers(result: Result) -> tuple[str, ...]:
    """Return the files in the results folder with what was too long for the journal, one for each
    such answer.
    """
    response = result.response
    each = (response, *(turn.response for turn in response.turns)) if response else ()
    return tuple(dict.fromkeys(answer.whole for answer in each if answer.whole))


def _response_text(response: Response) -> str:
    return _with_calls(response.output, response.calls_made)


def _with_calls(text: str, made: Sequence[ToolCall]) -> str:
    calls = [f"→ {call.name} {_plain(call.arguments)}" for call in made[:_MAX_CALLS_SHOWN]]
    more = (
        [f"… and {number_of(len(made) - len(calls), 'more tool call')}"]
        if len(made) > len(calls)
        else []
    )
    return "\n".join(filter(None, [text, *calls, *more]))


def passages_of(result: Result) -> tuple[Passage, ...]:
    """Return the texts that were retrieved for an answer, as far as it tells."""
    return (result.response and result.response.passages) or ()


def passage_lines(found: Sequence[Passage], characters: int) -> list[str]:
    """Return the first retrieved texts, each on a line and cut: `1. policy.md (0.83): Refunds take
    …`.
    """
    lines = []
    for number, passage in enumerate(found[:_MAX_PASSAGES_SHOWN], 1):
        name = one_line(passage.id, 80) if passage.id else ""
        rank = f"({passage.score:.4g})" if passage.score is not None else ""
        label = " ".join(filter(None, (name, rank)))
        lines.append(
            f"{number}. {label}{': ' if label else ''}{one_line(passage.text, characters)}"
        )
    left_out = len(found) - len(lines)
    return [*lines, f"… and {number_of(left_out, 'more text')}"] if left_out else lines


def common_metadata(each: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return what several answers tell alike."""
    first, *others = each
    return {
        key: value
        for key, value in first.items()
        if all(other.get(key) == value for other in others)
    }


def metadata_lines(metadata: Mapping[str, Any]) -> list[str]:
    """Return what else an answer tells, as far as it is shown: `trace: 7f3a`."""
    lines = [
        f"{one_line(name, 80)}: {one_line(_plain(value), _REASON_CHARACTERS)}"
        for name, value in islice(metadata.items(), _MAX_METADATA_SHOWN)
    ]
    left_out = len(metadata) - len(lines)
    return [*lines, f"… and {number_of(left_out, 'more key')}"] if left_out else lines


def detail_text(result: Result) -> str | None:
    """Return the end of what a run left behind instead of a good answer: a traceback, stderr."""
    return (
        result.error.detail[-_DETAIL_CHARACTERS:] if result.error and result.error.detail else None
    )


_FRAME = re.compile(r'^[ |]*File "(.+)", line (\d+), in (.+)\n[ |]*(\S.*)', re.MULTILINE)


def frames_of(error: RunError | None) -> list[str]:
    """Return the last frames of the team's code in a crash: `agent.py:12 in book: seat =
    flight["seat"]`.
    """
    folder = f"{Path.cwd()}{os.sep}"
    frames = [
        one_line(f"{file.removeprefix(folder)}:{line} in {name}: {code}", _REASON_CHARACTERS)
        for file, line, name, code in _FRAME.findall((error.detail or "") if error else "")
        if is_their_own(file)
    ]
    return frames[-_MAX_FRAMES:]


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError):
        return repr(value)


def group_alike(runs: Iterable[T], look: Callable[[T], Hashable]) -> list[list[T]]:
    """Group runs that look the same, in order of the first of each group."""
    groups: dict[Hashable, list[T]] = {}
    for run in runs:
        groups.setdefault(look(run), []).append(run)
    return list(groups.values())


class Scored(Protocol):
    """A run, as far as it has a score."""

    @property
    def score(self) -> float | None: ...
    @property
    def threshold(self) -> float | None: ...


def grades_key(grades: Iterable[Grade]) -> tuple[tuple[str, str | None], ...]:
    """Return what tells runs apart: each grader, and why it failed. Reasons of passed grades are
    ignored.
    """
    return tuple(
        (each.grader, None if each.passed else each.reason) for each in every_grade(grades)
    )


def context_key(context: Iterable[Passage]) -> tuple[tuple[str | None, str], ...]:
    """Return what tells runs apart by what was retrieved for them, whatever its scores."""
    return tuple((passage.id, passage.text) for passage in context)


def scores_text(runs: Iterable[Scored]) -> str:
    """`score 0.50 (threshold 0.8)`, `score 0.50 to 0.75`; empty where every grader had to pass, and
    all or none did.
    """
    scored = [(each.score, each.threshold) for each in runs if each.score is not None]
    threshold = scored[0][1] if scored else None
    if threshold is None and all(value in (0, 1) for value, _ in scored):
        return ""
    bound = f" (threshold {threshold:g})" if threshold is not None else ""
    return f"score {span((value for value, _ in scored), score)}{bound}"


def common_grades(of_each: Iterable[Sequence[Grade]]) -> list[Grade]:
    """Return the grades of runs that have the same verdicts, without reasons that not all of them
    share.
    """

    def common(same: Sequence[Grade]) -> Grade:
        parts = tuple(common_grades(grade.parts for grade in same))
        shown = replace(same[0], parts=parts)
        if len({grade.reason for grade in same}) > 1:
            shown = replace(shown, reason="", got=None)
        if len({grade.got for grade in same}) > 1:
            shown = replace(shown, got=None)
        if len({grade.statements for grade in same}) > 1:
            shown = replace(shown, statements=())
        return shown

    return [common(same) for same in zip(*of_each, strict=True)]


def statement_lines(grade: Grade) -> list[tuple[bool, str]]:
    """Return of the first statements of a grade whether each holds, and its text: `Refunds take 30
    days. (text 1)`.
    """
    shown = [
        (each.holds, f"{one_line(each.text, _REASON_CHARACTERS)}{_in_texts(each.texts)}")
        for each in grade.statements[:_MAX_STATEMENTS_SHOWN]
    ]
    left_out = grade.statements[_MAX_STATEMENTS_SHOWN:]
    return (
        [*shown, (all(each.holds for each in left_out), f"… and {len(left_out):,} more")]
        if left_out
        else shown
    )


def _in_texts(numbers: Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers))
    return f" ({'text' if len(numbers) == 1 else 'texts'} {listed})" if numbers else ""


def grade_facts(grade: Grade) -> str:
    """`score 0.50, weight 2, metric tone`: what a grade's verdict leaves open; empty where that is
    nothing.
    """
    parts = [f"score {score(grade.score)}"] if grade.score not in (0, 1) else []
    if grade.weight != USUAL_WEIGHT:
        parts.append(f"weight {grade.weight:g}" if grade.weight else "weight 0: for information")
    parts += [f"metric {one_line(grade.metric, 80)}"] if grade.metric else []
    parts += [f"transform {one_line(grade.transform, 80)}"] if grade.transform else []
    return ", ".join(parts)


def runs_text(numbers: Sequence[int], status: Status) -> str:
    """`run 2 failed`, `runs 1, 2 and 3 failed alike`; the numbers rise."""
    return f"{run_numbers(numbers)} {status}{' alike' if len(numbers) > 1 else ''}"
