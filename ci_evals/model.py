"""The nouns of ci-evals: frozen values without I/O. `docs/architecture.md` has the vocabulary.

Those that every run is made of cannot hold themselves, and spare the garbage collector the look (`gc=False`).
"""

from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from msgspec import Meta, Struct

from ci_evals.bounds import Filled, Positive
from ci_evals.errors import ErrorKind, Place
from ci_evals.response import Message, Response, Role
from ci_evals.rules import Allowance

Status = Literal["passed", "failed", "errored"]


# What goes to a provider, and what graders get.


class Request(Struct, gc=False, frozen=True):
    """One run as a provider sees it.

    Args:
        input: the rendered prompt, or the case's own `input` (any JSON value) when the suite has no prompts.
        messages: the same as a conversation, for chat endpoints.
        case: the case that is run.
        run: its run number, from 1.
        timeout_s: seconds that the call may take.
        schema: the JSON Schema that the answer must fit, for providers that can hold a model to one.
    """

    input: Any
    messages: tuple[Message, ...]
    case: "Case"
    run: int
    timeout_s: float
    schema: Mapping[str, Any] | None = None


class Answer(Struct, gc=False, frozen=True):
    """A response together with what graders may ask about it."""

    request: Request
    response: Response
    latency_s: float
    cost_usd: float | None


# What judges an answer.


USUAL_WEIGHT = 1.0  # one object for all, so that msgspec sees that it is the default and leaves it out


class Classified(Struct, frozen=True, omit_defaults=True):
    """What an answer was labelled, and what is right; `scores` is what the answer itself gives each label."""

    task: str
    truth: str
    predicted: str
    scores: Mapping[str, float] | None = None


class Grade(Struct, gc=False, frozen=True, omit_defaults=True):
    """What one grader found. `score` is in [0, 1]; `reason` says what was expected and what was there.

    `orders_judge` is whether the answer seems to give orders to the model that judged it.
    """

    grader: str
    passed: bool
    score: float
    reason: str
    weight: float = USUAL_WEIGHT
    classified: Classified | None = None
    orders_judge: bool = False


class Finding(Struct, gc=False, frozen=True):
    """A grader's bare judgement, before its name, negation and weight are put to it."""

    passed: bool
    score: float
    reason: str
    classified: Classified | None = None
    orders_judge: bool = False


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


class Expectation(Struct, frozen=True):
    """One entry of `expect`: a grader by its YAML name (`contains`, `not_contains`), and what it counts for.

    `place` is where it is written, kept of those graders that need more than an answer.
    """

    name: str
    grader: Grader
    negated: bool = False
    weight: float = USUAL_WEIGHT
    place: Place | None = None


# What is asked.


class CaseOverrides(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Provider settings for one case.

    A model API is called with this `model` and with these `params` beside its own; the team's own code finds both in
    its request. `recorded` is a file that answers instead of any provider.
    """

    model: Annotated[Filled | None, Meta(description="Instead of the provider's.")] = None
    params: Annotated[Mapping[str, Any], Meta(description="Beside the provider's own; they win.")] = {}
    timeout_s: Annotated[Positive | None, Meta(description="Seconds that a call of this case may take.")] = None
    recorded: Annotated[Filled | None, Meta(description="A journal or stored response that answers instead.")] = None


NO_OVERRIDES = CaseOverrides()


class Task(Struct, frozen=True, kw_only=True):
    """A task folder: what is to be done there is the case's input; `digest` identifies all files in it."""

    folder: Path
    digest: str
    image: str | None = None
    has_dockerfile: bool = False
    cpus: float | None = None
    memory_mb: int | None = None
    setup: tuple[str, ...] = ()
    agent_timeout_s: float | None = None
    verifier_timeout_s: float | None = None
    build_timeout_s: float | None = None


class Cassette(Struct, frozen=True):
    """A file with recorded answers, and what identifies its content."""

    path: Path
    digest: str


class SimulatedUser(Struct, frozen=True, kw_only=True):
    """A user that another provider plays, for at most `max_turns` turns. `provider` are that provider's options."""

    provider: Any
    persona: str
    goal: str
    max_turns: int


class Case(Struct, frozen=True, kw_only=True):
    """One input and what is expected of the answer. `file` and `line` are where the user wrote it."""

    id: str
    vars: Mapping[str, Any] = {}
    input: Any = None
    messages: tuple[Message, ...] = ()
    expect: tuple[Expectation, ...] = ()
    threshold: float | None = None
    tags: tuple[str, ...] = ()
    runs: int | None = None
    min_pass_rate: float | None = None
    critical: bool = False
    timeout_s: float | None = None
    overrides: CaseOverrides = NO_OVERRIDES
    cassette: Cassette | None = None
    task: Task | None = None
    turns: tuple[str, ...] = ()
    user: SimulatedUser | None = None
    allowance: Allowance | None = None
    description: str | None = None
    metadata: Mapping[str, Any] = {}
    file: str = ""
    line: int | None = None

    @property
    def is_conversation(self) -> bool:
        """Whether a run of it is more than one call."""
        return bool(self.turns) or self.user is not None


class Prompt(Struct, frozen=True):
    """A template by name: a list of (role, Jinja2 source) turns."""

    name: str
    turns: tuple[tuple[Role, str], ...]


class Variant(Struct, frozen=True):
    """One provider with one prompt: a column of the matrix. `prompt` is None when the suite has no prompts."""

    provider: str
    prompt: str | None = None

    def __str__(self) -> str:
        return f"{self.provider} · {self.prompt}" if self.prompt else self.provider


# What became of a run.


class RunError(Struct, gc=False, frozen=True, omit_defaults=True):
    """Why a run has no good answer. `detail` is a traceback or the end of stderr."""

    kind: ErrorKind
    message: str
    status: int | None = None
    detail: str | None = None


class Judging(Struct, gc=False, frozen=True, omit_defaults=True):
    """What the models that judged a run took. `unpriced` calls are those whose price is not known."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0

    def __add__(self, other: "Judging") -> "Judging":
        return Judging(*(getattr(self, name) + getattr(other, name) for name in Judging.__struct_fields__))

    @property
    def priced(self) -> int:
        """The calls whose price is known."""
        return self.calls - self.unpriced

    @property
    def known_cost_usd(self) -> float | None:
        """What these cost; None when there are none."""
        return self.cost_usd if self.priced else None


class Result(Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one run; one line of the journal.

    `latency_s` is the time of the last attempt, in seconds; `cost_usd` is None when the price is not known.
    `budget_violations` says which bounds of `budget.per_run` it exceeded; `recorded` that its answer came from a
    journal instead of the provider; `judging` what models that judged it took, which is no part of `cost_usd`. A
    result with an `error` is `failed` when the system under test broke, `errored` when no verdict could be had.
    """

    fingerprint: str
    case: str
    provider: str
    prompt: str | None = None
    run: int
    status: Status
    score: float | None = None
    started_at: float
    latency_s: float
    attempts: int = 1
    cost_usd: float | None = None
    response: Response | None = None
    grades: tuple[Grade, ...] = ()
    error: RunError | None = None
    budget_violations: tuple[str, ...] = ()
    recorded: bool = False
    judging: Judging | None = None
