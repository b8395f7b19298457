"""Expectations of an answer, the graders that check it, and their findings."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ci_evals.errors import Place
from ci_evals.model.request import Answer, Request
from ci_evals.model.response import Response

USUAL_WEIGHT = 1.0


@dataclass(frozen=True, slots=True)
class Classified:
    """The predicted and the true label of an answer.

    `scores` are the answer's own scores by label.
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

    `reason` says what was missed without anything of this answer, so that equal failures have equal
    reasons: `people is not 2`. `sentence` says the same with what the answer has, `people is "two",
    expected 2`; it is None where that would be the whole answer. `detail` is the stack of an
    exception in the grader. A finding that is not `conclusive` fails even under `not_`: the grader
    raised, or the answer has nothing for it to check.
    """

    passed: bool
    score: float
    reason: str
    sentence: str | None = None
    classified: Classified | None = None
    orders_judge: bool = False
    statements: tuple[Statement, ...] = ()
    detail: str | None = None
    conclusive: bool = True

    @property
    def text(self) -> str:
        """The sentence; without one, the reason."""
        return self.sentence or self.reason


class Grader(Protocol):
    """Judges an answer. May be async; an exception is a failed check."""

    def grade(self, answer: Answer) -> Finding | Awaitable[Finding]: ...

    def prepare(self) -> None: ...


class Models(Protocol):
    """The models that graders may use."""

    async def ask(self, grader: "Asking", request: Request) -> Response:
        """Ask the model that a grader names, with the time-out of that model.

        Raises:
            GradingError: there is no answer.
        """
        ...


class Asking(Protocol):
    """A grader that names a model to ask."""

    @property
    def provider(self) -> str | None: ...

    @property
    def embeds(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Expectation:
    """One entry of `expect`: a grader with its YAML name, its weight and its scope.

    Args:
        name: the YAML name, such as `contains` or `not_contains`.
        grader: judges the answer.
        negated: True if the grader must not pass.
        weight: its share of the case's score.
        place: where it is written, for graders that need more than an answer.
        title: its own name in reports, if any.
        metric: the metric that its score is part of.
        turn: the turn that it judges, from 1; None for the whole conversation.
        transform: converts an answer into the value that the grader sees.
        template: the entry as written, if it has templates over vars that only the `setup` of a run
            gives; they are not filled in in `grader`.
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
