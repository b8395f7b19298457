"""What is expected of an answer, who judges it, and what they find."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Protocol

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
    """The label of an answer beside the true one; `scores` are those that the answer itself gives
    to labels.
    """

    task: str
    truth: str
    predicted: str
    scores: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that a judge looked for in the context: whether it holds, and by which texts,
    numbered from 1.

    Where the texts themselves are judged, it says of one what it is good for.
    """

    text: str
    holds: bool
    texts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """What a grader finds, before its name, negation and weight are added.

    `reason` says what was expected or missed, and `got` what the answer has instead, quoted.
    """

    passed: bool
    score: float
    reason: str
    got: str | None = None
    classified: Classified | None = None
    orders_judge: bool = False
    statements: tuple[Statement, ...] = ()

    @property
    def sentence(self) -> str:
        """The reason with what the answer has."""
        return join_got(self.reason, self.got)


class Grader(Protocol):
    """Judges an answer. May be async; whatever it raises makes the run `errored`."""

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
    """A grader that asks a model, as far as it says which one."""

    @property
    def provider(self) -> str | None: ...

    @property
    def embeds(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Expectation:
    """One entry of `expect`: a grader by its YAML name (`contains`, `not_contains`), and what it
    counts for.

    `place` is where it is written, kept of those graders that need more than an answer. `title` is
    what reports call it, if it has a name of its own; `metric` the metric that its score is part
    of; `turn` the one whose answer it judges, from 1, instead of the whole conversation;
    `transform` what makes of an answer what the grader sees.
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

    @property
    def shown_name(self) -> str:
        return self.title or self.name
