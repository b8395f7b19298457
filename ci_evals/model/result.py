"""The result of a run: its grades or its error, and the cost of judges."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, NamedTuple

from pydantic import TypeAdapter

from ci_evals import registry
from ci_evals.faults import ErrorKind
from ci_evals.format import cite
from ci_evals.model.grading import USUAL_WEIGHT, Classified, Statement
from ci_evals.model.response import Message, Response

Status = Literal["passed", "failed", "errored"]
BudgetFigure = Literal["cost", "tokens"]

_IN_OTHER_WORDS: Final = frozenset(("python", "javascript", "judge"))
"""Graders of ours whose reasons are the words of a function or a model."""

_QUOTED_CHARACTERS: Final = 100
"""The beginning of an answer in a line about it."""


@dataclass(frozen=True, slots=True)
class Grade:
    """The finding of one grader. `score` is in [0, 1].

    `reason` says what was missed without anything of this answer, and `sentence` the same with what
    the answer has; see `Finding`. `turn` is the turn that was judged, from 1; None for the whole
    answer. `grader` is the grader's own name or its type, and `metric` the
    metric that the score counts towards. `orders_judge` is true if the answer seems to give orders
    to its judge. `judge_passed` is the judge's verdict before any `not_`; None without a judge.
    `parts` are the grades of the parts of `any_of` and `all_of`, `statements` the statements that a
    judge checked, `transform` the transform that was applied to the answer, and `detail` the stack
    of an exception in the grader.
    """

    grader: str
    passed: bool
    score: float
    reason: str
    sentence: str | None = None
    weight: float = USUAL_WEIGHT
    classified: Classified | None = None
    orders_judge: bool = False
    judge_passed: bool | None = None
    metric: str | None = None
    parts: tuple["Grade", ...] = ()
    statements: tuple[Statement, ...] = ()
    transform: str | None = None
    detail: str | None = None
    turn: int | None = None

    @property
    def text(self) -> str:
        """The sentence; without one, the reason."""
        return self.sentence or self.reason

    @property
    def speaks_for_itself(self) -> bool:
        """True if its reason is a sentence of ours, which needs no name in front of it.

        The names of graders of the team, of judges and of other packages say whose words follow.
        """
        name = self.grader.removeprefix("not_")
        return name in registry.GRADERS.own and name not in _IN_OTHER_WORDS

    def introduce(self, text: str) -> str:
        """Put the grader's name in front of its reason or sentence, unless that speaks for
        itself: `judge: judged fail: …`.
        """
        if self.speaks_for_itself:
            return text
        return f"{self.grader}: {text}"


class Reason(NamedTuple):
    """A reason why a run did not pass, in the words that every format shows.

    Attributes:
        missed: what was missed, without anything of the answer: `people is not 2`. Runs with the
            same fault share this text, even if their answers differ.
        sentence: the same with what the answer has, if it is a value: `people is "two", expected
            2`. For a place that shows the answer, too.
        text: for a line without the answer: the sentence, and if that is the same as `missed`, the
            beginning of the answer: `no "refund" in the answer: "We issue store credit. …"`.
    """

    missed: str
    sentence: str
    text: str


def reason_of(grade: Grade, response: Response | None) -> Reason:
    """Return the reason of a failed grade of a response."""
    missed = grade.introduce(grade.reason)
    if grade.sentence is not None:
        sentence = grade.introduce(grade.sentence)
        return Reason(missed, sentence, sentence)
    if response is None:
        return Reason(missed, missed, missed)
    output = response.output
    if grade.turn is not None and grade.turn <= len(response.turns):
        output = response.turns[grade.turn - 1].response.output
    return Reason(missed, missed, f"{missed}: {cite(output, _QUOTED_CHARACTERS)}")


def every_grade(grades: Iterable[Grade]) -> Iterator[Grade]:
    """Yield grades, each one before its parts."""
    for grade in grades:
        yield grade
        if grade.parts:
            yield from every_grade(grade.parts)


@dataclass(frozen=True, slots=True)
class RunError:
    """The error of a run without a good answer or a verdict.

    `detail` is a traceback or the end of stderr. `cause` is the underlying error: the most frequent
    one of an outage, or the last message of a provider that was given up or a judge that did not
    answer.
    """

    kind: ErrorKind
    message: str
    status: int | None = None
    detail: str | None = None
    cause: str | None = None

    @property
    def is_of_grading(self) -> bool:
        """True if there was an answer that could not be graded."""
        return self.kind in ("grader", "judge")

    @property
    def sentence(self) -> str:
        """The message, with the cause of an outage."""
        sentence = self.message or self.kind
        if self.kind == "outage" and self.cause:
            sentence += f"; most often: {self.cause}"
        return sentence


@dataclass(frozen=True, slots=True)
class Judging:
    """The calls to models that judged a run.

    `unpriced` is the number of calls with an unknown price; `cost_usd` is the cost of the others,
    None if there are no others.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    unpriced: int = 0

    def __add__(self, other: "Judging") -> "Judging":
        cost_usd = self.cost_usd
        if cost_usd is None:
            cost_usd = other.cost_usd
        elif other.cost_usd is not None:
            cost_usd += other.cost_usd
        return Judging(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=cost_usd,
            unpriced=self.unpriced + other.unpriced,
        )

    @property
    def priced(self) -> int:
        """The number of calls with a known price."""
        return self.calls - self.unpriced


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one run: one line of the journal.

    `threshold` is the score that it needed; None if every grader had to pass. `latency_s` is the
    duration of the last attempt, in seconds; `repeated_for` is the reason for further attempts.
    `cost_usd` is None if the price is unknown. `budget_violations` are the limits of
    `budget.per_run` that it exceeded, and `budget_unknown` the figures, `cost` or `tokens`, that
    the provider did not report. `recorded` is true if its answer came from a journal instead of the
    provider, and `reused` if it did because nothing that the answer depends on has changed.
    `judging` are the calls of models that judged it, which are not part of `cost_usd`. A result
    with an `error` is `failed` if the system under test broke, and `errored` without a verdict.

    `messages` are the question: the rendered prompt, or the case's own input if the suite has no
    prompts; for a conversation, the messages before its first turn. The middle of long ones is left
    out.

    `setup_vars` are the vars from its setup that JSON can express and that may be kept: grading the
    answer again needs them. `teardown_error` is the error of a teardown after it.
    """

    fingerprint: str
    case: str
    provider: str
    prompt: str | None = None
    run: int
    status: Status
    score: float | None = None
    threshold: float | None = None
    started_at: float
    latency_s: float
    attempts: int = 1
    repeated_for: str | None = None
    cost_usd: float | None = None
    response: Response | None = None
    grades: tuple[Grade, ...] = ()
    error: RunError | None = None
    budget_violations: tuple[str, ...] = ()
    budget_unknown: tuple[BudgetFigure, ...] = ()
    recorded: bool = False
    reused: bool = False
    judging: Judging | None = None
    messages: tuple[Message, ...] = ()
    setup_vars: Mapping[str, Any] | None = None
    teardown_error: str | None = None

    @property
    def is_broken_off(self) -> bool:
        """True if the run failed before `response` was complete."""
        if self.error is None or self.response is None or self.error.kind == "outage":
            return False
        return not self.error.is_of_grading


@cache
def _result_adapter() -> TypeAdapter[Result]:
    return TypeAdapter(Result)


def encode_result(result: Result) -> bytes:
    """Return a result as one line of JSON, for the journal and report.json.

    Raises:
        PydanticSerializationError: the result has a value that JSON cannot express.
    """
    # Without defaults, which would be most of a line: journals have a line for each run.
    return _result_adapter().dump_json(result, exclude_defaults=True, fallback=repr)


def decode_result(line: bytes) -> Result:
    """Return the result in a line of JSON.

    Raises:
        pydantic.ValidationError: the line is damaged.
    """
    return _result_adapter().validate_json(line)
