"""Expectations of an answer, the graders that check it, and their findings."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ci_evals.errors import Place
from ci_evals.model.request import Answer, Request
from ci_evals.model.response import Response

USUAL_WEIGHT = 1.0


def join_got(reason: str, got: str | None) -> str:
    """Return a reason with what the answer has: `does not contain 'Paris', got 'Lyon'`."""
    if got is None:
        return reason
    return f"{reason}, got {got}"


@dataclass(frozen=True, slots=True)
class Classified:
    """The predicted and the true label of an answer.

    `scores` are the scores by label that the answer itself gives.
    """

    task: str
    truth: str
    predicted: str
    scores: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that a judge checked against the context.

    `holds` is the judge's answer, and `texts` are the numbers, from 1, of the texts that support
    it. For a rubric that judges the texts themselves, a statement is about one text.
    """

    text: str
    holds: bool
    texts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A grader's result, before its name, negation and weight are added.

    `reason` says what was expected or missed, and `got` what the answer has instead, quoted.
    `detail` is the stack of what the grader raised. A finding that is not `conclusive` fails under
    `not_`, too: the grader raised, or the answer has nothing for it to look at.
    """

    passed: bool
    score: float
    reason: str
    got: str | None = None
    classified: Classified | None = None
    orders_judge: bool = False
    statements: tuple[Statement, ...] = ()
    detail: str | None = None
    conclusive: bool = True

    @property
    def sentence(self) -> str:
        """The reason with what the answer has."""
        return join_got(self.reason, self.got)


class Grader(Protocol):
    """Judges an answer. May be async; an exception is a failed check."""

    def grade(self, answer: Answer) -> Finding | Awaitable[Finding]: ...

    def prepare(self) -> None: ...


class Models(Protocol):
    """The models that graders may ask."""

    async def ask(self, grader: "Asking", request: Request) -> Response:
        """Ask the model that a grader names; the time-out of the request is the model's own.

        Raises:
            GradingError: no answer could be had.
        """
        ...


class Asking(Protocol):
    """A grader that asks a model, and names it."""

    @property
    def provider(self) -> str | None: ...

    @property
    def embeds(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Expectation:
    """One entry of `expect`: a grader with its YAML name, its weight and what it applies to.

    Args:
        name: the YAML name, such as `contains` or `not_contains`.
        grader: what judges the answer.
        negated: whether the grader must not pass.
        weight: its share of the case's score.
        place: where it is written; kept only for graders that need more than an answer.
        title: its name in reports, if it has one of its own.
        metric: the metric that its score is part of.
        turn: the turn that it judges, from 1; None judges the whole conversation.
        transform: what turns an answer into the value that the grader sees.
        template: what is written, where it has templates over vars that only the `setup` of a run
            gives; the grader has them unfilled.
    """

    name: str
    grader: Grader
    negated: bool = False
    weight: float = USUAL_WEIGHT
    place: Place | None = None
    title: str | None = None
    metric: str | None = None
    turn: int | None = None
    transform: str | None = None
    template: Any = None

    @property
    def shown_name(self) -> str:
        return self.title or self.name
