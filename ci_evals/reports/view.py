"""Views of runs, cells and cases for people.

A fact about a run or a cell is worked out here, once; each page decides whether and where it is
shown.
"""

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote

from ci_evals.format import (
    number_of,
    one_line,
    percent,
    run_numbers,
    score,
    seconds,
    shorten,
    span,
    usd,
    visible,
)
from ci_evals.gate.bars import ScopeVerdict
from ci_evals.gate.baseline import ReportedCell, add_tallies
from ci_evals.gate.cells import CellComparison
from ci_evals.gate.compare import Change
from ci_evals.gate.run_errors import same_reason
from ci_evals.gate.wording.comparisons import cell_finding, tally_text
from ci_evals.model.case import Case, Variant
from ci_evals.model.grading import USUAL_WEIGHT
from ci_evals.model.report import Tally
from ci_evals.model.response import Message, Passage, Response, ToolCall, Turn
from ci_evals.model.result import (
    Grade,
    Reason,
    Result,
    RunError,
    Status,
    every_grade,
    reason_of,
)
from ci_evals.model.rules import Gate
from ci_evals.reports.summary import BaseAnswer, Summary, once_per_summary
from ci_evals.stats.rates import flip_rate
from ci_evals.suite.configs import DEFAULT_NAMES
from ci_evals.user_code.crashes import is_their_own, seen_from_here

T = TypeVar("T")

CellOutcome = Literal["passed", "flaky", "failed", "errored", "not run"]

# Limits of foreign texts and long lists on all pages.

NAME_CHARACTERS: Final = 100
"""The longest name inside a sentence."""
LINE_CHARACTERS: Final = 300
"""The longest text on one line: a reason, a retrieved text, a line of code."""
TEXT_CHARACTERS: Final = 2000
"""The longest text on several lines: a question, an answer, a traceback."""
FEW: Final = 3
"""The most names in a sentence, and the most examples."""
SOME: Final = 10
"""The most reasons, and the most entries of a list that is not folded."""
MANY: Final = 20
"""The most retrieved texts, statements or facts of a single answer."""
MOST: Final = 200
"""The most entries of any list."""


# Runs.


@dataclass(frozen=True)
class RunView:
    """One run, or several that ended alike: they differ only in number, time and cost.

    Args:
        results: at least one, in the order of their numbers.
        confirming: they were made because the cell was a suspect.
        variations: the runs among them whose answers differ from the first one in few words.
    """

    results: tuple[Result, ...]
    confirming: bool = False
    variations: tuple["RunView", ...] = ()

    @cached_property
    def first(self) -> Result:
        return self.results[0]

    @property
    def numbers(self) -> list[int]:
        return [result.run for result in self.results]

    @property
    def status(self) -> Status:
        return self.first.status

    @property
    def title(self) -> str:
        """`run 2 failed`, `runs 1, 2 and 3 failed alike`, `runs 1 and 2 failed with similar
        answers`.
        """
        title = f"{run_numbers(self.numbers)} {self.status}"
        if self.variations:
            title += " with similar answers"
        elif len(self.results) > 1:
            title += " alike"
        return title

    @property
    def error(self) -> str | None:
        """The error that left nothing to grade; None if there was an answer."""
        error = self.first.error
        if error is None:
            return None
        return one_line(error.sentence, LINE_CHARACTERS)

    @property
    def frames(self) -> list[str]:
        """The last frames of the team's code, if it crashed."""
        return frames_of(_stack_of(self.first))

    @property
    def test_output(self) -> str | None:
        """The last lines that a task's verifier printed about work that it rejected."""
        response = self.first.response
        if response is None or response.test_failure is None:
            return None
        return response.test_failure.output or None

    @property
    def diff(self) -> str | None:
        """What a coding agent changed, as git shows it; None if nothing is known of it."""
        response = self.first.response
        if response is None:
            return None
        return response.diff

    @property
    def detail(self) -> str | None:
        """The end of the traceback or stderr of an error or a failed check."""
        stack = _stack_of(self.first)
        if not stack:
            return None
        return stack[-TEXT_CHARACTERS:]

    @property
    def answer(self) -> str | None:
        """The text, then a line for each tool call; of a conversation, both sides. None without an
        answer.
        """
        return answer_text(self.first)

    @property
    def failed_turn(self) -> int | None:
        """The number of the first turn of a conversation that failed, which is the last one unless
        a check names another; None without such a turn.
        """
        response = self.first.response
        if response is None or not response.turns or self.status != "failed":
            return None
        number = len(response.turns)
        for grade in self.first.grades:
            if not grade.passed and grade.turn is not None:
                number = min(number, grade.turn)
        return number

    @property
    def evidence(self) -> str | None:
        """The answer; of a conversation, only the turn that failed."""
        response, number = self.first.response, self.failed_turn
        if response is None or number is None:
            return self.answer
        return "\n".join(lines_of_turn(response.turns[number - 1]))

    @property
    def files(self) -> tuple[str, ...]:
        """The files in the results folder with answers that are too long for the journal."""
        response = self.first.response
        if response is None:
            return ()
        files: dict[str, None] = {}
        for answer in (response, *(turn.response for turn in response.turns)):
            if answer.whole:
                files[answer.whole] = None
        return tuple(files)

    @property
    def grades(self) -> list[Grade]:
        """The grades that all runs share, without reasons that not all of them share."""
        return _common_grades([result.grades for result in self.results])

    @property
    def context(self) -> tuple[Passage, ...] | None:
        """The texts that were retrieved for the answer; None if nothing is known about them."""
        response = self.first.response
        if response is None:
            return None
        return response.passages

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The provider's metadata that all answers share, without the diff."""
        response = self.first.response
        if response is None:
            return {}
        shared = dict(response.metadata)
        if response.diff is not None:
            shared.pop("diff")
        for result in self.results[1:]:
            other = result.response.metadata if result.response else {}
            for key in list(shared):
                if other.get(key) != shared[key]:
                    del shared[key]
        return shared

    @property
    def score(self) -> str:
        """`score 0.50 (threshold 0.8)`; empty if every grader had to pass, and all or none did."""
        scores = [result.score for result in self.results if result.score is not None]
        threshold = self.first.threshold
        if not scores:
            return ""
        if threshold is not None:
            return f"score {span(scores, score)} (threshold {threshold:g})"
        if all(value in (0, 1) for value in scores):  # the status says as much
            return ""
        return f"score {span(scores, score)}"

    @property
    def facts(self) -> list[str]:
        """`score 0.50`, `1.10 s to 1.20 s`, `first token 0.20 s`, `$0.0010`, `25 tokens`, `3
        attempts`, `recorded`, and which budgets were exceeded.
        """
        first = self.first
        latencies_s = [result.latency_s for result in self.results]
        attempts = [result.attempts for result in self.results]
        costs_usd = [result.cost_usd for result in self.results if result.cost_usd is not None]
        waits_s: list[float] = []
        tokens: list[int] = []
        for result in self.results:
            response = result.response
            if response and response.slowest_first_token_s is not None:
                waits_s.append(response.slowest_first_token_s)
            if response and response.tokens:
                tokens.append(response.tokens.total_tokens)
        facts = []
        if scores := self.score:
            facts.append(scores)
        facts.append(span(latencies_s, seconds))
        if waits_s:
            facts.append(f"first token {span(waits_s, seconds)}")
        if costs_usd:
            facts.append(span(costs_usd, usd))
        if tokens and max(tokens) == 1:
            facts.append("1 token")
        elif any(tokens):
            facts.append(f"{span(tokens, '{:,}'.format)} tokens")
        if max(attempts) > 1:
            facts.append(f"{span(attempts, '{:,}'.format)} attempts")
        if first.reused:
            facts.append("reused")
        elif first.recorded:
            facts.append("recorded")
        return [*facts, *first.budget_violations]


def alike(results: Iterable[Result], *, confirming: bool = False) -> list[RunView]:
    """Group runs that ended alike, in the order of the first of each group."""
    return [RunView(tuple(group), confirming) for group in group_by(results, _ending)]


def group_by(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Group items with the same key, in the order of the first item of each group."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _ending(result: Result) -> Hashable:
    """Return a key that is equal for runs that ended alike. Reasons of passed grades are ignored:
    a judge words them in a new way each time.
    """
    ending: list[Hashable] = [result.status, result.error, result.recorded, result.reused]
    for grade in every_grade(result.grades):
        ending += [grade.grader, grade.score]
        if not grade.passed:
            ending += [grade.reason, grade.sentence]
    response = result.response
    if response is not None:
        ending += [answer_text(result), response.model, response.finish_reason]
        ending += [(passage.id, passage.text) for passage in response.passages or ()]
    return tuple(ending)


def reasons_of(result: Result) -> tuple[Reason, ...]:
    """Return the reasons why a run did not pass: its error, or each failed grade."""
    if result.error is not None:
        text = one_line(result.error.sentence, LINE_CHARACTERS)
        return (Reason(text, text, text),)
    reasons: list[Reason] = []
    quotes_answer = False
    for grade in result.grades:
        if grade.passed or not grade.weight:
            continue
        reason = reason_of(grade, result.response)
        if quotes_answer:  # once is enough
            reason = reason._replace(text=reason.sentence)
        quotes_answer = quotes_answer or reason.text != reason.sentence
        reasons.append(Reason(*(one_line(text, LINE_CHARACTERS) for text in reason)))
    text = ""
    if result.score is not None and result.threshold is not None:
        relation = "at least" if result.status == "passed" else "below"
        text = f"score {score(result.score)}, {relation} the threshold of {result.threshold:g}"
    elif not reasons and result.score is None:
        text = "no grader says why"
    elif not reasons:
        text = f"the score {result.score:.2f} is below its bar"
    if text:
        reasons.append(Reason(text, text, text))
    return tuple(reasons)


def answer_text(result: Result) -> str | None:
    """Return the answer of a run: the text, then a line for each tool call; None without one."""
    response = result.response
    if response is None:
        return None
    if response.turns:
        return "\n".join(turn_lines(response))
    return _response_text(response)


def turn_lines(response: Response) -> Iterator[str]:
    """Yield the lines of the user and the assistant in each turn of a conversation."""
    for turn in response.turns:
        yield from lines_of_turn(turn)


def lines_of_turn(turn: Turn) -> Iterator[str]:
    """Yield the lines of the user and the assistant in a turn."""
    yield f"user: {turn.user}"
    yield f"assistant: {_response_text(turn.response)}"


def _last_text(response: Response) -> str:
    """Return the answer of a run; of a conversation, the last one."""
    if response.turns:
        return _response_text(response.turns[-1].response)
    return _response_text(response)


def _response_text(response: Response) -> str:
    return _with_calls(response.output, response.list_calls())


def _with_calls(text: str, calls: Sequence[ToolCall]) -> str:
    lines = []
    if text:
        lines.append(text)
    lines += [f"→ {call.name} {_json(call.arguments)}" for call in calls[:MOST]]
    if len(calls) > MOST:
        lines.append(f"… and {number_of(len(calls) - MOST, 'more tool call')}")
    return "\n".join(lines)


def _json(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError):
        return repr(value)


_FRAME = re.compile(r'^[ |]*File "(.+)", line (\d+), in (.+)\n[ |]*(\S.*)', re.MULTILINE)


def _stack_of(result: Result) -> str | None:
    """Return the stack of a run's error, or of the first check that raised; None without one."""
    if result.error is not None:
        return result.error.detail
    for grade in every_grade(result.grades):
        if grade.detail and not grade.passed:
            return grade.detail
    return None


def frames_of(stack: str | None) -> list[str]:
    """Return the last frames of the team's code in a stack: `agent.py:12 in book: seat =
    flight["seat"]`.
    """
    if not stack:
        return []
    frames = []
    for file, line, name, code in _FRAME.findall(stack):
        if is_their_own(file):
            text = f"{seen_from_here(file)}:{line} in {name}: {code}"
            frames.append(one_line(text, LINE_CHARACTERS))
    return frames[-FEW:]


# Grades, and what was retrieved.


def _common_grades(of_each: Sequence[Sequence[Grade]]) -> list[Grade]:
    """Return the grades of runs with equal verdicts, without the parts that differ."""
    common = []
    for same in zip(*of_each, strict=True):
        first, *others = same
        reason, sentence = first.reason, first.sentence
        statements, parts = first.statements, first.parts
        for other in others:
            if other.reason != first.reason:
                reason, sentence = "", None
            if other.sentence != first.sentence:
                sentence = None
            if other.statements != first.statements:
                statements = ()
        if others and parts:
            parts = tuple(_common_grades([grade.parts for grade in same]))
        common.append(
            replace(first, reason=reason, sentence=sentence, statements=statements, parts=parts)
        )
    return common


def failed_first(grades: Iterable[Grade]) -> list[Grade]:
    """Return grades with the failed ones first."""
    return sorted(grades, key=lambda grade: grade.passed)


def grade_facts(grade: Grade) -> str:
    """`score 0.50, weight 2, metric tone`: what is not obvious from the verdict; may be empty."""
    facts = []
    if grade.score not in (0, 1):
        facts.append(f"score {score(grade.score)}")
    if grade.weight == 0:
        facts.append("weight 0: for information")
    elif grade.weight != USUAL_WEIGHT:
        facts.append(f"weight {grade.weight:g}")
    if grade.metric:
        facts.append(f"metric {one_line(grade.metric, NAME_CHARACTERS)}")
    if grade.transform:
        facts.append(f"transform {one_line(grade.transform, NAME_CHARACTERS)}")
    return ", ".join(facts)


def statement_lines(grade: Grade) -> list[tuple[bool, str]]:
    """Return each statement of a grade: True if it holds, and `Refunds take days. (text 1)`."""
    lines = []
    for each in grade.statements[:MANY]:
        text = one_line(each.text, LINE_CHARACTERS)
        numbers = ", ".join(map(str, each.texts))
        if len(each.texts) == 1:
            text += f" (text {numbers})"
        elif numbers:
            text += f" (texts {numbers})"
        lines.append((each.holds, text))
    more = grade.statements[MANY:]
    if more:
        all_hold = all(each.holds for each in more)
        lines.append((all_hold, f"… and {len(more):,} more"))
    return lines


def passage_lines(passages: Sequence[Passage], characters: int = LINE_CHARACTERS) -> list[str]:
    """Return the retrieved texts, each on a line: `1. policy.md (0.83): Refunds take …`."""
    lines = [f"{label} {text}" for label, text in label_passages(passages, characters)]
    if len(passages) > MANY:
        lines.append(f"… and {number_of(len(passages) - MANY, 'more text')}")
    return lines


def label_passages(passages: Sequence[Passage], characters: int) -> Iterator[tuple[str, str]]:
    """Yield `1. policy.md (0.83):` and the text of each of the first passages."""
    for number, passage in enumerate(passages[:MANY], 1):
        label = ""
        if passage.id:
            label += f" {one_line(passage.id, NAME_CHARACTERS)}"
        if passage.score is not None:
            label += f" ({passage.score:.4g})"
        if label:
            label += ":"
        yield f"{number}.{label}", one_line(passage.text, characters)


def metadata_lines(metadata: Mapping[str, Any]) -> list[str]:
    """Return an answer's metadata, one line per key: `trace: 7f3a`."""
    lines = [
        f"{one_line(name, NAME_CHARACTERS)}: {one_line(_json(value), LINE_CHARACTERS)}"
        for name, value in metadata.items()
    ]
    if len(lines) > MANY:
        lines[MANY:] = [f"… and {number_of(len(lines) - MANY, 'more key')}"]
    return lines


# Cells.


@dataclass(frozen=True, slots=True)
class Failures:
    """The reasons of a cell's failed runs, including confirm runs.

    Attributes:
        runs: the number of failed runs.
        missed: each `Reason.missed` with the number of its runs, the most frequent first.
        reasons: each reason in the same way, told apart by `Reason.sentence`: that of its first
            run.
        cause: a key of the reason that all runs share, answers aside; None if they differ.
        graders: the names of the graders that failed.
        error: the first error that left a run without an answer.
        answer: the beginning of the first answer that more than half of the runs gave alike; None
            if they differ.
        alike: the number of these runs.
    """

    runs: int = 0
    missed: tuple[tuple[str, int], ...] = ()
    reasons: tuple[tuple[Reason, int], ...] = ()
    cause: Hashable = None
    graders: tuple[str, ...] = ()
    error: RunError | None = None
    answer: str | None = None
    alike: int = 0

    @classmethod
    def of(cls, results: Iterable[Result]) -> "Failures":
        """Count the reasons of results that did not pass."""
        missed: Counter[str] = Counter()
        sentences: Counter[str] = Counter()
        reasons: dict[str, Reason] = {}
        causes: set[Hashable] = set()
        graders: set[str] = set()
        answers: list[str] = []
        error = None
        runs = 0
        for result in results:
            of_run = reasons_of(result)
            # A reason counts once per run, even if several graders give it.
            missed.update(dict.fromkeys([reason.missed for reason in of_run], 1))
            sentences.update(dict.fromkeys([reason.sentence for reason in of_run], 1))
            for reason in of_run:
                reasons.setdefault(reason.sentence, reason)
            if result.error is None:
                causes.add(tuple(reason.missed for reason in of_run))
                graders.update(grade.grader for grade in result.grades if not grade.passed)
                if result.response is not None:
                    answers.append(shorten(_last_text(result.response), TEXT_CHARACTERS))
            else:
                causes.add(same_reason(result.error))
                error = error or result.error
            runs += 1
        answer, alike = _common_answer(answers, runs)
        return cls(
            runs=runs,
            missed=tuple(missed.most_common()),
            reasons=tuple((reasons[text], count) for text, count in sentences.most_common()),
            cause=causes.pop() if len(causes) == 1 else None,
            graders=tuple(sorted(graders)),
            error=error,
            answer=answer,
            alike=alike,
        )

    @property
    def most_frequent(self) -> str:
        """The most frequent reason, for a line without the answer; empty if there is none."""
        if not self.reasons:
            return ""
        return self.reasons[0][0].text

    @property
    def shared(self) -> Sequence[tuple[str, int]]:
        """Each `missed` with the number of its runs, as a sentence if all of them share it."""
        sentences: dict[str, list[str]] = {}
        for reason, _ in self.reasons:
            sentences.setdefault(reason.missed, []).append(reason.sentence)
        counted = []
        for missed, count in self.missed:
            text = missed
            if len(sentences[missed]) == 1:
                text = sentences[missed][0]
            counted.append((text, count))
        return counted

    def lines(self, most: int = SOME, *, of_each_run: bool = True) -> list[str]:
        """Return at most `most` reasons, and a line that counts those left out. If the runs differ,
        each reason has its share: `2 of 3 failed runs: people is "two", expected 2`.

        Args:
            most: the most reasons.
            of_each_run: list what each run has instead; else what they have in common.
        """
        counted = self.shared
        if of_each_run:
            counted = [(reason.sentence, count) for reason, count in self.reasons]
        shared_by_all = all(count == self.runs for _, count in counted)
        lines = []
        for reason, count in counted[:most]:
            if shared_by_all:
                lines.append(reason)
            else:
                lines.append(f"{count:,} of {self.runs:,} failed runs: {reason}")
        if len(counted) > most:
            lines.append(f"… and {number_of(len(counted) - most, 'other reason')}")
        return lines


def _common_answer(answers: Sequence[str], runs: int) -> tuple[str | None, int]:
    """Return the first of the answers that more than half of the runs gave alike, and their number;
    None and 0 if there is no such answer.
    """
    largest: Sequence[str] = answers
    if len(set(answers)) > 1:
        from ci_evals.reports.similar_answers import group_alike

        largest = max(group_alike(answers, str), key=len)
    if 2 * len(largest) <= runs:
        return None, 0
    return largest[0], len(largest)


@dataclass(frozen=True, eq=False, kw_only=True)
class CellView(ReportedCell):
    """One case on one variant, with its bar and its comparison.

    Args:
        found: its comparison with the base; None without one.
        summary: the summary that it is part of.
    """

    found: CellComparison | None
    summary: Summary = field(repr=False)

    @cached_property
    def bar(self) -> float:
        """The pass rate that it must reach."""
        return bar_of(self.case, self.variant, self.summary.gate)

    @property
    def below_bar(self) -> bool:
        """Return True if its share of passed runs is below its bar, even if only by chance."""
        share = self.counts.pass_rate
        return share is not None and share < self.bar

    @cached_property
    def outcome(self) -> CellOutcome:
        """The outcome of the cell.

        A cell is `errored` if it has no graded run. It is `failed` if no run passed, or if it is
        below its bar and the gate says that the bar is missed. Any other cell with failed runs is
        `flaky`.
        """
        counts = self.counts
        if not counts.graded and not counts.errored:
            return "not run"
        if not counts.graded:
            return "errored"
        if not counts.failed:
            return "passed"
        if not counts.passed:
            return "failed"
        if self.below_bar and self._misses_bar:
            return "failed"
        return "flaky"

    @property
    def marked_outcome(self) -> CellOutcome:
        """The outcome in report.html, where a regressed cell has failed even above its bar."""
        if self.is_named:
            return "failed"
        return self.outcome

    @property
    def _misses_bar(self) -> bool:
        """Return True if the gate says that a bar which covers the cell is missed."""
        return any(covers(scope, self) for scope in _missed_bars(self.summary))

    @property
    def tally(self) -> str:
        """`3 of 5 runs passed`, of the graded runs, and the outcomes of the others."""
        counts = self.counts
        if counts.errored == counts.planned == 1:
            return "1 run errored"
        if counts.errored and counts.errored == counts.planned:
            return f"all {counts.errored:,} runs errored"
        parts = [f"{counts.passed:,} of {number_of(counts.graded, 'run')} passed"]
        if counts.errored:
            parts.append(f"{counts.errored:,} errored")
        if counts.missing:
            parts.append(f"{counts.missing:,} not run")
        return ", ".join(parts)

    @property
    def finding(self) -> str:
        """The comparison's result, or its passed runs here and on the base."""
        comparison, found = self.summary.compared, self.found
        text = self.tally
        flips = flip_rate(self.counts.passed, self.counts.graded)
        if self.outcome == "flaky" and flips is not None:
            text = f"{text}, flip rate {percent(round(flips, 3))}"
        if found is None or comparison is None:
            return text
        if self.changed:
            return cell_finding(comparison, found)
        if self.all_runs.graded > self.counts.graded:
            text += f", {tally_text(self.all_runs)} with confirm runs"
        separator = "; "
        if found.kind == "edited":
            text += "; edited, so not compared"
            separator = ": "
        if found.base.graded:
            text += f"{separator}{tally_text(found.base)} on {comparison.baseline.label}"
        return text

    @cached_property
    def all_runs(self) -> Tally:
        """Its graded runs, confirm runs and further rounds included."""
        runs = self.counts.tally
        confirmation = self.summary.report.confirmation
        if confirmation is None:
            return runs
        further = confirmation.counts((self.cell,))
        return Tally(runs.passed + further.passed, runs.graded + further.graded)

    @property
    def changed(self) -> bool:
        """Return True if it regressed, was fixed, or is a suspect."""
        return self.found is not None and self.found.kind in ("regressed", "suspect", "fixed")

    @property
    def change(self) -> Change | None:
        """The change since the base; None without a comparison."""
        if self.found is None or self.summary.compared is None:
            return None
        return self.summary.compared.change(self.found)

    @property
    def renamed_from(self) -> str | None:
        if self.found is None:
            return None
        return self.found.renamed_from

    @property
    def is_named(self) -> bool:
        """Return True if the comparison named it: it regressed."""
        return self.found is not None and self.found.kind == "regressed"

    @property
    def is_critical_regression(self) -> bool:
        """Return True if its regression alone makes the gate red."""
        return self.found is not None and self.is_named and self.found.critical

    @cached_property
    def address(self) -> str:
        """The fragment of report.html that leads to it."""
        if len(self.summary.report.plan.variants) == 1:
            return address_of(self.case.id)
        return address_of(self.case.id, self.variant)

    @property
    def before(self) -> BaseAnswer | None:
        """The base's answer, if it is known."""
        return self.summary.before.get(self.key)

    @property
    def failures(self) -> Failures:
        """The reasons of its failed runs."""
        return _failures(self.summary).get(self.cell, Failures())

    @property
    def cause(self) -> Hashable:
        """A key of the reason that all failed runs share, answers aside; None if they differ.

        A missing answer counts as such a reason only if no run passed.
        """
        if self.failures.error and self.counts.passed:
            return None
        return self.failures.cause

    @property
    def common_error(self) -> RunError | None:
        """The error that ended every graded run without an answer, if there is one."""
        if self.cause is None:
            return None
        return self.failures.error

    def results(self, *statuses: Status, most: int | None = None) -> list[Result]:
        """Read its results from the journal, the confirm runs last.

        Args:
            statuses: the statuses to read; none means all.
            most: the most results to read.
        """
        results: list[Result] = []
        report = self.summary.report
        for part in (report, report.confirmation):
            if part is None:
                continue
            indices = []
            for index in part.plan.indices(self.cell):
                record = part.records.get(index)
                if record and (not statuses or record.status in statuses):
                    indices.append(index)
            if most is not None:
                indices = indices[: most - len(results)]
            results += part.results(indices)
        return results

    @cached_property
    def failed_run(self) -> RunView | None:
        """The failed run whose answer is nearest to the base's, or the first one without that."""
        if self.before is None:
            return self.run("failed")
        results = self.results("failed", most=MANY)
        if not results:
            return None
        runs = [RunView((result,)) for result in results]
        answers = [run.answer or "" for run in runs]
        from ci_evals.reports.similar_answers import nearest

        _, position = nearest([self.before.text], answers)
        return runs[position]

    def run(self, status: Status) -> RunView | None:
        """Return the first run with this status, if there is one."""
        results = self.results(status, most=1)
        if not results:
            return None
        return RunView(tuple(results))


@once_per_summary
def cell_views(summary: Summary) -> Sequence[CellView]:
    """Return every cell that has runs, in plan order."""
    known = summary.compared.by_key if summary.compared else {}
    views = []
    for cell in summary.cells:
        found = known.get(cell.key)
        # A reported cell's `vars` are just its fields, as it has no cached property.
        views.append(CellView(**vars(cell), found=found, summary=summary))
    return views


@once_per_summary
def _failures(summary: Summary) -> Mapping[int, Failures]:
    """Read the failed results once, cell by cell, and keep only their reasons: the answers of a
    large report would not fit into memory.
    """
    confirmation = summary.report.confirmation
    failures = {}
    for view in cell_views(summary):
        failed = view.counts.failed
        if confirmation:
            failed += confirmation.by_cell[view.cell].failed
        if failed:
            failures[view.cell] = Failures.of(view.results("failed"))
    return failures


@once_per_summary
def _missed_bars(summary: Summary) -> Sequence[ScopeVerdict]:
    blocking = {"fail"}
    if summary.gate is not None and summary.gate.on_borderline == "fail":
        blocking.add("borderline")
    return [scope for scope in summary.verdict.scopes if scope.status in blocking]


def covers(scope: ScopeVerdict, cell: ReportedCell) -> bool:
    """Return True if a scope's bar applies to a cell, by the same rules as `bar_of`."""
    if scope.kind == "case" or cell.case.min_pass_rate is not None:
        return scope.kind == "case" and scope.name == cell.case.id
    match scope.kind:
        case "suite":
            return True
        case "variant":
            return scope.name == str(cell.variant)
        case "provider":
            return scope.name == cell.variant.provider
        case "tag":
            return scope.name in cell.case.tags
        case _:
            return False


def bar_of(case: Case, variant: Variant, gate: Gate | None) -> float:
    """Return the case's own bar, else the gate's strictest bar that covers the cell, else 1."""
    if case.min_pass_rate is not None:
        return case.min_pass_rate
    if gate is None:
        return 1.0
    bars = [gate.min_pass_rate, gate.min_case_pass_rate, gate.providers.get(variant.provider)]
    bars += map(gate.tag_bar, case.tags)
    set_bars = [bar for bar in bars if bar is not None]
    return max(set_bars, default=1.0)


# Cases.


@dataclass(frozen=True)
class CaseView:
    """One case with its cells, or some of them."""

    case: Case
    cells: tuple[CellView, ...]

    @property
    def critical(self) -> bool:
        """Return True if the regression of one of its cells alone makes the gate red."""
        return any(cell.is_critical_regression for cell in self.cells)

    @property
    def variants(self) -> Sequence[Variant]:
        return [cell.variant for cell in self.cells]

    @cached_property
    def base(self) -> Tally:
        """The base's runs that its cells were compared with."""
        return add_tallies([found.base for found in self._compared])

    @cached_property
    def head(self) -> Tally:
        """The runs of its compared cells; if none was compared, the planned runs of all cells."""
        compared = self._compared
        if not compared:
            return add_tallies([cell.counts.tally for cell in self.cells])
        return add_tallies([found.head for found in compared])

    @cached_property
    def base_now(self) -> Tally:
        """The runs that main made of its cells in the same minutes as some here."""
        found = [cell.found for cell in self.cells if cell.found is not None]
        return add_tallies([each.main_now for each in found])

    @property
    def is_broken(self) -> bool:
        """Return True if most of its runs here failed."""
        head = self.head
        return 2 * head.passed < head.graded

    @property
    def fall(self) -> float:
        """The fall of its pass rate, from 100 % if the case was not compared."""
        base, head = self.base, self.head
        if not head.graded:
            return 0.0
        before = 1.0
        if base.graded:
            before = base.rate
        return before - head.rate

    @cached_property
    def _compared(self) -> Sequence[CellComparison]:
        comparisons = [cell.found for cell in self.cells if cell.found is not None]
        return [comparison for comparison in comparisons if comparison.p is not None]


def case_views(cells: Iterable[CellView]) -> list[CaseView]:
    """Return the cases of some cells, in the order of their first cells."""
    groups = group_by(cells, lambda cell: cell.case.id)
    return [CaseView(group[0].case, tuple(group)) for group in groups]


@once_per_summary
def every_case(summary: Summary) -> Mapping[str, CaseView]:
    """Return the cases by id, each with all its cells."""
    return {case.case.id: case for case in case_views(cell_views(summary))}


def place_of(case: Case) -> str:
    """Return the place where the user wrote a case: `evals.yaml:12`."""
    if case.line is None:
        return case.file
    return f"{case.file}:{case.line}"


def address_of(case: str, variant: Variant | None = None, run: int | None = None) -> str:
    """Return the fragment of report.html's URL for a case, its cell on a variant, or a run of it.

    Pass a variant only if there are several.
    """
    return fragment(case=case, on=variant, run=run)


def fragment(**choices: object) -> str:
    """Return the fragment of report.html's URL with these choices, leaving out empty ones."""
    parts = []
    for name, value in choices.items():
        if value:
            # The same characters as encodeURIComponent, which report.js uses.
            quoted = quote(str(value), safe="!~*'()", errors="replace")
            parts.append(f"{name}={quoted}")
    return "&".join(parts)


def run_again(file: str, *options: str) -> str:
    """Return the command that runs a suite again, with its file unless `run` finds it by itself.

    `ci-evals run --failed`, `ci-evals run evals/bot.yaml --case refund`
    """
    words = ["ci-evals", "run"]
    if file not in DEFAULT_NAMES:
        words.append(file)
    return visible(shlex.join([*words, *options]))


def input_text(case: Case) -> str:
    """Return the question of a case: its input, its conversation or its vars."""
    if case.user is not None:
        return f"{case.user.persona}\nwants: {case.user.goal}"
    if case.turns:
        return "\n".join(f"user: {turn.user}" for turn in case.turns)
    if isinstance(case.input, Message):
        return case.input.text
    if case.input is not None:
        return _json(case.input)
    if case.messages:
        return _messages_text(case.messages)
    return "\n".join(f"{name}: {_json(value)}" for name, value in case.vars.items())


def asked_text(case: Case, result: Result | None) -> str:
    """Return the messages that a run sent, or the case's question if they are not known."""
    if result is None or not result.messages:
        return input_text(case)
    sent = _messages_text(result.messages)
    if case.is_conversation:
        return f"{sent}\n{input_text(case)}"
    return sent


def question_text(case: Case, result: Result | None) -> str:
    """Return the last message of the user, or the case's question if no message is known.

    It is empty for a conversation, whose answer has both sides.
    """
    if case.is_conversation:
        return ""
    for message in reversed(result.messages if result else ()):
        if message.role == "user":
            return message.text
    return input_text(case)


def _messages_text(messages: Sequence[Message]) -> str:
    if len(messages) == 1 and messages[0].role == "user":
        return messages[0].text
    lines = (f"{each.role}: {_with_calls(each.text, each.tool_calls)}" for each in messages)
    return "\n".join(lines)
