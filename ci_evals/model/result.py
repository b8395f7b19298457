"""The result of a run: its grades or its error, and the cost of judging it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter

from ci_evals.errors import ErrorKind
from ci_evals.model.grading import USUAL_WEIGHT, Classified, Statement, join_got
from ci_evals.model.response import Message, Response

Status = Literal["passed", "failed", "errored"]
BudgetFigure = Literal["cost", "tokens"]


@dataclass(frozen=True, slots=True)
class Grade:
    """The finding of one grader. `score` is in [0, 1].

    `reason` says what was expected or missed, and `got` what the answer has instead, quoted; grades
    with the same `reason` are alike. `grader` is the name of the grader, its own or that of its
    type, and `metric` the metric that the score is part of. `orders_judge` is true if the answer
    seems to give orders to the model that judged it, and `judge_passed` the verdict of that model
    on the answer, before any `not_`; None without a judge. `parts` are the grades of which `any_of`
    and `all_of` are made, `statements` what a judge found statement by statement, `transform` what
    made of the answer what the grader saw, and `detail` the stack of what the grader raised.
    """

    grader: str
    passed: bool
    score: float
    reason: str
    got: str | None = None
    weight: float = USUAL_WEIGHT
    classified: Classified | None = None
    orders_judge: bool = False
    judge_passed: bool | None = None
    metric: str | None = None
    parts: tuple["Grade", ...] = ()
    statements: tuple[Statement, ...] = ()
    transform: str | None = None
    detail: str | None = None

    @property
    def sentence(self) -> str:
        """The reason with what the answer has."""
        return join_got(self.reason, self.got)


def every_grade(grades: Iterable[Grade]) -> Iterator[Grade]:
    """Yield grades, each one before its parts."""
    for grade in grades:
        yield grade
        if grade.parts:
            yield from every_grade(grade.parts)


@dataclass(frozen=True, slots=True)
class RunError:
    """The reason why a run has no good answer.

    `detail` is a traceback or the end of stderr. `cause` is the error behind this one: of an
    outage, what most runs failed with; of a provider that was given up or a judge that did not
    answer, its last message.
    """

    kind: ErrorKind
    message: str
    status: int | None = None
    detail: str | None = None
    cause: str | None = None

    @property
    def is_of_grading(self) -> bool:
        """Return True if there was an answer, and it could not be judged."""
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

    `unpriced` counts those whose price is not known; `cost_usd` is the cost of all others, None if
    there are no others.
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
        """The calls whose price is known."""
        return self.calls - self.unpriced


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one run: one line of the journal.

    `threshold` is what its score had to reach, None if every grader had to pass. `latency_s` is the
    time of the last attempt, in seconds; `repeated_for` says why there was more than one.
    `cost_usd` is None if the price is not known.
    `budget_violations` says which bounds of `budget.per_run` it exceeded, and `budget_unknown`
    which of its figures, `cost` or `tokens`, the provider did not report. `recorded` is true if its
    answer came from a journal instead of the provider, and `reused` if that is because nothing on
    which the answer depends has changed. `judging` is what models that judged it took, which is not
    part of `cost_usd`. A result with an `error` is `failed` if the system under test broke, and
    `errored` if no verdict could be had.

    `messages` is what was asked: the rendered prompt, or the case's own input if the suite has no
    prompts; of a conversation, what came before its first turn. The middle of long ones is left
    out.

    `setup_vars` are the vars that its setup gave, as far as JSON can say them and they may be kept:
    an answer that is graded again has them. `teardown_error` says which teardown failed after it.
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
        """Return True if `response` is only what there was of it when the run failed."""
        if self.error is None or self.response is None or self.error.kind == "outage":
            return False
        return not self.error.is_of_grading


@cache
def _result_adapter() -> TypeAdapter[Result]:
    return TypeAdapter(Result)


def encode_result(result: Result) -> bytes:
    """Return a result as one line of JSON, as the journal and report.json have it.

    Raises:
        PydanticSerializationError: it holds what JSON cannot express.
    """
    return _result_adapter().dump_json(result, exclude_defaults=True, fallback=repr)


def decode_result(line: bytes) -> Result:
    """Return the result in a line of JSON.

    Raises:
        pydantic.ValidationError: the line is damaged.
    """
    return _result_adapter().validate_json(line)
