"""The response of a provider, with its messages, tool calls, steps and files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, WithJsonSchema

from ci_evals.model.fields import Many, Options

MAX_TOKENS: Final = 2**53
"""The maximum number of tokens in a response: every JSON reader keeps integers up to here."""

GOAL_REACHED: Final = "goal_reached"
"""The `finish_reason` of a conversation whose simulated user reached its goal."""

LIMITS_REACHED: Final = frozenset({"max_turns", "max_budget_usd", "timeout"})
"""The `finish_reason`s of agents that were stopped at a limit, and whose work was graded."""

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of a model. `arguments` are a mapping, or the model's text if it is not a JSON
    object; `alias` is that of its step.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None
    alias: str | None = field(default=None, compare=False)  # does not make it another call


_Source = Annotated[
    str | bytes | None, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]})
]
"""A path or URL as in YAML, or bytes in Python."""


@dataclass(frozen=True, slots=True)
class Part(Options):
    """A part of a message: text, an image, or another file.

    An image or a file is a path from the suite's folder, a URL, or bytes. `media_type` is guessed
    from the name of a file by default; `sha256`, of its content, is set by the loader.
    """

    text: str | None = None
    image: _Source = None
    file: _Source = None
    media_type: str | None = None
    sha256: str | None = field(default=None, metadata={"set_by_loader": True})

    @property
    def source(self) -> str | bytes | None:
        """The image or the file; None for text."""
        if self.image is None:
            return self.file
        return self.image

    @property
    def shown(self) -> str:
        """The part as text: `[image cat.png]`."""
        if self.source is None:
            return self.text or ""
        kind = "image"
        if self.image is None:
            kind = "file"
        name = self.media_type
        if isinstance(self.source, str):
            name = self.source[:200]
        return f"[{kind} {name}]"


@dataclass(frozen=True, slots=True)
class Message(Options):
    """One turn of a conversation."""

    role: Role
    content: str | Many[Part] = ""
    tool_calls: Many[ToolCall] = ()
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """The words of the message, with images and files by name."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.shown for part in self.content)

    @property
    def parts(self) -> Sequence[Part]:
        """The message as parts."""
        if not isinstance(self.content, str):
            return self.content
        if not self.content:
            return ()
        return (Part(text=self.content),)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as counted by the provider.

    Attributes:
        input_tokens: all that it read, from its cache or not.
        output_tokens: all that it wrote, thoughts included.
        cached_tokens: input tokens that were read from its cache.
        cache_write_tokens: input tokens that were written to its cache.
        hour_write_tokens: those of them that stay there for an hour, which cost more.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    hour_write_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.hour_write_tokens + other.hour_write_tokens,
        )


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that was retrieved for an answer: a document, or a part of one."""

    text: str
    id: str | None = None
    score: float | None = None


Detail = Literal["cost", "steps", "context", "first_token"]
"""Details of a response that only some providers return and some graders need."""

StepKind = Literal["message", "model_request", "tool_call", "agent"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an agent on its way to an answer.

    Args:
        kind: a message, a request to a model, a finished tool call, or the start of a (sub-)agent.
        name: the tool, the model, the agent, or the role of a message.
        arguments: the arguments of a tool or an agent: a mapping, or the model's text if it is not
            a JSON object.
        result: its result as text: a tool's result, a message, a model's reply.
        error: why it failed; None if it did not.
        usage: its tokens.
        duration_s: its duration in seconds.
        agent: the sub-agent that made it; None for the agent itself.
        alias: another name of the tool, which expectations may use as well.
    """

    kind: StepKind
    name: str = ""
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    result: str | None = None
    error: str | None = None
    usage: Usage | None = None
    duration_s: float | None = None
    agent: str | None = None
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """Audio, an image or any other file, with its media type, such as `audio/wav`.

    Journals and reports omit `data`; they have its `path` in the results folder, its `sha256` and
    its `size` in bytes.
    """

    data: bytes = b""
    media_type: str = "application/octet-stream"
    sha256: str | None = None
    size: int = 0
    path: str | None = None


@dataclass(frozen=True, slots=True)
class TestFailure:
    """What a task's verifier printed about work that it rejected.

    Args:
        test: the test that failed, such as `test_total`; None if the output names none.
        output: the last lines that it printed.
    """

    __test__: ClassVar[bool] = False  # pytest would collect it

    test: str | None = None
    output: str = ""


@dataclass(frozen=True, slots=True)
class Response:
    """The answer of a provider.

    Args:
        output: the text.
        tool_calls: the tool calls of the model; for a conversation, of all turns.
        usage: the tokens; for a conversation, of all turns.
        model: the model that answered, by the provider's name for it.
        finish_reason: the provider's reason for the end of the answer.
        cost_usd: the cost, if the provider itself reports it.
        steps: the steps of the agent; None if unknown.
        reward: the score that a task's verifier gave.
        test_failure: what the verifier printed, if it did not give the full reward.
        turns: the exchanges of a conversation; `output` is then the last answer.
        files: the files of the answer.
        whole: the path, in the results folder, of an output that is too long for journals and
            reports. `output` then has its beginning, and a last line that says so.
        context: the passages that were retrieved for the answer; None if unknown.
        metadata: anything else that the provider returns, as JSON values.
        first_token_s: the time to the first token of a streamed answer, in seconds.
        thoughts: what the model wrote before the text to think, with its tags.
    """

    output: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    model: str | None = None
    finish_reason: str | None = None
    cost_usd: float | None = None
    steps: tuple[Step, ...] | None = None
    reward: float | None = None
    test_failure: TestFailure | None = None
    turns: "tuple[Turn, ...]" = ()
    files: tuple[Content, ...] = ()
    whole: str | None = None
    context: tuple[Passage, ...] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    first_token_s: float | None = None
    thoughts: str = ""

    @property
    def diff(self) -> str | None:
        """The diff of a coding agent's work; None for an answer without one."""
        diff = self.metadata.get("diff")
        if self.reward is None or not isinstance(diff, str):
            return None
        return diff

    @property
    def slowest_first_token_s(self) -> float | None:
        """The longest wait for a first token in any turn; None if one was not measured."""
        if not self.turns:
            return self.first_token_s
        slowest_s = 0.0
        for turn in self.turns:
            if turn.response.first_token_s is None:
                return None
            slowest_s = max(slowest_s, turn.response.first_token_s)
        return slowest_s

    @property
    def passages(self) -> tuple[Passage, ...] | None:
        """The retrieved texts of all turns, each once; None if they are unknown."""
        if self.context is not None or not self.turns:
            return self.context
        is_known = False
        distinct: dict[Passage, None] = {}
        for turn in self.turns:
            passages = turn.response.passages
            if passages is not None:
                is_known = True
                distinct.update(dict.fromkeys(passages))
        if not is_known:
            return None
        return tuple(distinct)

    @property
    def steps_taken(self) -> "tuple[Step, ...] | None":
        """The steps of all turns; None if the steps of one of them are unknown."""
        if self.steps is not None or not self.turns:
            return self.steps
        taken: list[Step] = []
        for turn in self.turns:
            steps = turn.response.steps_taken
            if steps is None:
                return None
            taken += steps
        return tuple(taken)

    @property
    def tokens(self) -> Usage | None:
        """The tokens counted by the provider, else the sum over the steps."""
        if self.usage is not None or not self.steps:
            return self.usage
        total = None
        for step in self.steps:
            if step.usage is not None:
                total = step.usage + (total or Usage())
        return total

    def list_calls(self, *, include_failed: bool = True) -> tuple[ToolCall, ...]:
        """Return every tool call of the steps or turns, sub-agents' too; without any, `tool_calls`.

        Args:
            include_failed: also those whose step has an error; a call without a step has none.
        """
        calls = [
            ToolCall(step.name, step.arguments, alias=step.alias)
            for step in self.steps or ()
            if step.kind == "tool_call" and (include_failed or step.error is None)
        ]
        if self.steps is None:
            for turn in self.turns:
                calls += turn.response.list_calls(include_failed=include_failed)
        if self.steps and not include_failed:
            return tuple(calls)  # `tool_calls` may be the failed ones
        return tuple(calls) or self.tool_calls


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange of a conversation: the user's words and the response."""

    user: str
    response: Response
    latency_s: float = 0.0
    cost_usd: float | None = None
