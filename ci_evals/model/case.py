"""Cases, and the prompts and variants that they run on."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from annotated_types import Ge, Le, MaxLen
from pydantic import AfterValidator, BeforeValidator, Field, GetPydanticSchema, Strict
from pydantic_core import core_schema

from ci_evals.model.fields import (
    Bool,
    Day,
    Many,
    Name,
    NonEmpty,
    OneOrMore,
    Options,
    Positive,
    Seconds,
    Share,
)
from ci_evals.model.response import Message, Part, Role
from ci_evals.model.rules import RunBudget

Expectations = Annotated[Sequence[Any], GetPydanticSchema(lambda *_: core_schema.any_schema())]
"""Graders in any spelling, each checked by itself; in a checked suite, `grading.Expectation`s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOverrides(Options):
    """Provider settings for one case.

    A model API is called with this `model`, and with these `params` added to its own; the team's
    own code gets both in its request. `recorded` is a file that answers instead of any provider.
    """

    model: Annotated[NonEmpty | None, Field(description="Instead of the provider's.")] = None
    params: Annotated[
        Mapping[str, Any], Field(description="Added to the provider's own; these win.")
    ] = field(default_factory=dict)
    timeout_s: Annotated[
        Seconds | None, Field(description="Seconds that a call of this case may take.")
    ] = None
    recorded: Annotated[
        NonEmpty | None, Field(description="A journal or stored response that answers instead.")
    ] = None


NO_OVERRIDES = CaseOverrides()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task folder; its instruction is the case's input, and `digest` identifies all its files.

    `repository` is the address or the absolute path of the repository that the agent works in.
    """

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
    repository: str | None = None
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class RecordingFile:
    """A file with recorded answers, and the digest of its content."""

    path: Path
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTurn(Options):
    """One turn of a scripted conversation."""

    user: Annotated[NonEmpty, Field(description="The user's words.")]
    expect: Annotated[Expectations, Field(description="Expected of the answer to this turn.")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedUser(Options):
    """A user played by another provider, for at most `max_turns` turns.

    `provider` is the name of a provider, or the settings of one for the user alone; in a checked
    suite, the provider's options.
    """

    provider: Annotated[
        Any, Field(description="The name of the provider that plays the user, or its settings.")
    ]
    persona: Annotated[NonEmpty, Field(description="Who the user is, and how they talk.")]
    goal: Annotated[
        NonEmpty, Field(description="What the user wants; the conversation ends when they have it.")
    ]
    max_turns: Annotated[int, Strict(), Ge(1), Le(100)] = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine(Options):
    """A case that is known to fail: it runs and is shown, but blocks nothing."""

    example: ClassVar[str] = "{reason: known since Monday, until: 2026-12-31}"

    reason: Annotated[
        NonEmpty, Field(description="Why it is known to fail, or where the fix is tracked.")
    ]
    until: Annotated[
        Day,
        Field(
            description="The last day; afterwards it still blocks nothing, and a warning says so."
        ),
    ]


Scope = Literal["run", "case", "suite"]
_AnyValue = Annotated[Any, GetPydanticSchema(lambda *_: core_schema.any_schema())]


@dataclass(frozen=True, slots=True)
class Fixture(Options):
    """An entry of `setup`, which prepares something for runs and removes it after them.

    A function returns a mapping of vars, or yields it: the code after `yield` is the teardown. A
    command reads a JSON object from stdin and writes its vars as a JSON object to stdout.
    """

    example: ClassVar[str] = "{python: fixtures:shop, scope: case}"

    python: Annotated[
        _AnyValue, Field(description="`module:function`; in Python, also the function itself.")
    ] = None
    _: KW_ONLY
    command: Annotated[
        str | Many[str], Field(description="The program that sets it up, instead of a function.")
    ] = ()
    teardown: Annotated[
        str | Many[str], Field(description="The program that tears down what `command` set up.")
    ] = ()
    scope: Annotated[
        Scope,
        Field(description="Set up for each run, once for a case on each variant, or once."),
    ] = "run"
    timeout_s: Annotated[
        Seconds, Field(description="Seconds that the setup may take, and also the teardown.")
    ] = 60.0


def _list_fixtures(value: Any) -> Any:
    """Return the value of `setup` as a list of fixtures or their mappings."""
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        value = [value]
    listed = []
    for entry in value:
        if isinstance(entry, str) or callable(entry):
            listed.append({"python": entry})
        else:
            listed.append(entry)
    return listed


_Fixtures = Annotated[Sequence[Fixture], AfterValidator(tuple), BeforeValidator(_list_fixtures)]
Setup = Annotated[Sequence[Fixture] | Any, GetPydanticSchema(lambda _, handler: handler(_Fixtures))]
"""One fixture or a list: functions, their names or mappings; a tuple in a checked suite."""


_SET_BY_LOADER = {"set_by_loader": True}  # not a key of the file


@dataclass(frozen=True, slots=True, kw_only=True)
class Case(Options):
    """One input and what is expected of the answer.

    In Python, `expect` takes graders of `ci_evals.graders`, functions, objects with
    `grade(answer)`, or mappings as in YAML; the suite's own are added. In a checked suite, every
    case has an `id`, `matrix` is part of `vars`, and `expect` has the `Expectation`s of suite and
    case. The loader sets the last four fields.
    """

    id: Annotated[
        str, MaxLen(200), Field(description="Unique; made from the question if left out.")
    ] = ""
    description: str | None = None
    input: Annotated[
        Any,
        Field(description="Sent as it is if the suite has no prompts: text or any JSON value."),
    ] = None
    vars: Annotated[Mapping[str, Any], Field(description="Values for the prompts' templates.")] = (
        field(default_factory=dict)
    )
    matrix: Annotated[
        Mapping[Name, OneOrMore[Any]],
        Field(description="Vars with several values: a case for every combination."),
    ] = field(default_factory=dict)
    messages: Annotated[Many[Message], Field(description="A conversation to continue.")] = ()
    turns: Annotated[
        Many[UserTurn], Field(description="A conversation: the user's words, turn by turn.")
    ] = ()
    user: Annotated[
        SimulatedUser | None, Field(description="A simulated user that talks to the provider.")
    ] = None
    expect: Annotated[
        Expectations, Field(description="What a good answer looks like: all of it must hold.")
    ] = ()
    threshold: Annotated[
        Share | None, Field(description="Pass on a weighted mean score instead of on every grader.")
    ] = None
    tags: Many[Name] = ()
    providers: Annotated[
        Many[NonEmpty], Field(description="The providers that it runs on; default: all.")
    ] = ()
    prompts: Annotated[
        Many[NonEmpty], Field(description="The prompts that it runs with; default: all.")
    ] = ()
    runs: Annotated[
        Positive | None, Field(description="Runs of this case; overrides the suite and --runs.")
    ] = None
    min_pass_rate: Annotated[Share | None, Field(description="A bar for this case alone.")] = None
    critical: Annotated[
        Bool,
        Field(
            description="A regression of this case, or its missed bar, is red"
            " regardless of the rest of the gate."
        ),
    ] = False
    quarantine: Annotated[
        Quarantine | None,
        Field(description="It is known to fail: it runs and is shown, but blocks nothing."),
    ] = None
    timeout_s: Seconds | None = None
    setup: Annotated[
        Setup, Field(description="Functions or commands that set up its runs and give them vars.")
    ] = ()
    budget: Annotated[
        RunBudget | None, Field(description="The limits of a run, instead of budget.per_run.")
    ] = None
    overrides: Annotated[CaseOverrides, Field(description="Provider settings for this case.")] = (
        field(default_factory=lambda: NO_OVERRIDES)  # a default would be copied for each case
    )
    metadata: Mapping[str, Any] = field(default_factory=dict)
    recording: RecordingFile | None = field(default=None, metadata=_SET_BY_LOADER)
    task: Task | None = field(default=None, metadata=_SET_BY_LOADER)
    file: str = field(default="", metadata=_SET_BY_LOADER)
    line: int | None = field(default=None, metadata=_SET_BY_LOADER)

    def __post_init__(self) -> None:
        if not self.file:
            file, line = written_at(2)
            object.__setattr__(self, "file", file)
            object.__setattr__(self, "line", line)

    @property
    def is_conversation(self) -> bool:
        """True if a run consists of several calls."""
        return bool(self.turns) or self.user is not None

    def runs_on(self, variant: "Variant") -> bool:
        """Return True if its choice of providers and prompts includes a variant."""
        if self.providers and variant.provider not in self.providers:
            return False
        return not self.prompts or variant.prompt in self.prompts


def written_at(depth: int) -> tuple[str, int]:
    """Return the file and line of the call `depth` frames above the caller."""
    frame = sys._getframe(depth + 1)  # noqa: SLF001  `inspect.stack` would read the source of every frame
    path = Path(frame.f_code.co_filename)
    try:
        return path.relative_to(Path.cwd()).as_posix(), frame.f_lineno
    except (OSError, ValueError):
        return path.as_posix(), frame.f_lineno


PromptTurns: TypeAlias = tuple[tuple[Role, str | Sequence[Part]], ...]
"""Turns of a role and a Jinja2 source, or parts whose texts are sources."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A named template, or a function that makes one for each case.

    Args:
        name: its name.
        turns: the template; empty if a function makes it.
        function: `module:function`, or a file of JavaScript.
        made: the templates that the function made, by the id of the case.
    """

    name: str
    turns: PromptTurns = ()
    function: str | None = None
    made: Mapping[str, PromptTurns] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Variant:
    """One provider with one prompt: a column of the matrix.

    `prompt` is None when the suite has no prompts.
    """

    provider: str
    prompt: str | None = None

    def __str__(self) -> str:
        if not self.prompt:
            return self.provider
        return f"{self.provider} · {self.prompt}"
