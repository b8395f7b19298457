"""The response of a provider, and the messages, tool calls, steps and files that it is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, WithJsonSchema

from ci_evals.model.fields import Many, Options

MAX_TOKENS: Final = 2**53
"""The most tokens that a provider may claim: every JSON reader keeps whole numbers up to here."""

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model asked for. `arguments` is what it gave: a mapping, or its raw text if
    that is no JSON.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None


_Source = Annotated[
    str | bytes | None, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]})
]
"""A path or URL as YAML names it, or the bytes that Python has at hand."""


@dataclass(frozen=True, slots=True)
class Part(Options):
    """A part of a message: one of text, an image, and another file.

    An image or a file is a path from the suite's folder, a URL, or bytes. `media_type` is known by
    the name of a file; `sha256` is that of its content, and found out, not written.
    """

    text: str | None = None
    image: _Source = None
    file: _Source = None
    media_type: str | None = None
    sha256: str | None = field(default=None, metadata={"found": True})

    @property
    def source(self) -> str | bytes | None:
        """The image or the file."""
        return self.file if self.image is None else self.image

    @property
    def shown(self) -> str:
        """The part as text: `[image cat.png]`."""
        if self.source is None:
            return self.text or ""
        kind = "file" if self.image is None else "image"
        return (
            f"[{kind} {self.media_type if isinstance(self.source, bytes) else self.source[:200]}]"
        )


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
        return (
            self.content
            if isinstance(self.content, str)
            else "\n".join(part.shown for part in self.content)
        )

    @property
    def parts(self) -> Sequence[Part]:
        """The message as parts."""
        if isinstance(self.content, str):
            return (Part(text=self.content),) if self.content else ()
        return self.content


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them. `cached_tokens` are those of the input that were read
    from its cache.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
        )


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that was retrieved for an answer: a document, or a part of one."""

    text: str
    id: str | None = None
    score: float | None = None


Detail = Literal["cost", "steps", "context", "first_token"]
"""What a response may have beside the answer. Not every provider tells it, and some graders need
it.
"""

StepKind = Literal["message", "model_request", "tool_call", "agent"]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that an agent did on its way to an answer.

    Args:
        kind: a message, a request to a model, a call of a tool that was carried out, or the start
            of a (sub-)agent.
        name: the tool, the model, the agent, or the role of a message.
        arguments: what a tool or an agent was given: a mapping, or its raw text if that is no JSON.
        result: what came of it, as text: a tool's result, a message, what a model said.
        error: why it failed; None if it did not.
        usage: its tokens.
        duration_s: how long it took, in seconds.
        agent: the sub-agent that did it; None for the agent itself.
    """

    kind: StepKind
    name: str = ""
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    result: str | None = None
    error: str | None = None
    usage: Usage | None = None
    duration_s: float | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """Audio, an image or any other file, with its media type, such as `audio/wav`.

    In journals and reports `data` is left out; `path` is then where it is in the results folder,
    `sha256` and `size` (in bytes) say what it was.
    """

    data: bytes = b""
    media_type: str = "application/octet-stream"
    sha256: str | None = None
    size: int = 0
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """The answer of a provider.

    `cost_usd` only if the provider itself named a price; `reward` is a task verifier's. `steps` is
    None if it does not tell how it came to its answer, `context` if it does not tell what was
    retrieved for it; `metadata` is whatever else it tells, as JSON values. `first_token_s` is when
    the first of a streamed answer came, in seconds after the request.

    Of a conversation, `turns` has what was said and done; `output` is then the last answer,
    `tool_calls` and `usage` are those of all turns. `files` is what the answer was made of beside
    text.

    `whole` is the path, in the results folder, of an output that is too long for journals and
    reports: `output` has its beginning then, and a last line that says so.
    """

    output: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    model: str | None = None
    finish_reason: str | None = None
    cost_usd: float | None = None
    steps: tuple[Step, ...] | None = None
    reward: float | None = None
    turns: "tuple[Turn, ...]" = ()
    files: tuple[Content, ...] = ()
    whole: str | None = None
    context: tuple[Passage, ...] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    first_token_s: float | None = None

    @property
    def slowest_first_token_s(self) -> float | None:
        """The longest wait for a first token, of all turns if it was a conversation; None if one
        was not measured.
        """
        if not self.turns:
            return self.first_token_s
        waits = [turn.response.first_token_s for turn in self.turns]
        known = [wait_s for wait_s in waits if wait_s is not None]
        return max(known) if len(known) == len(waits) else None

    @property
    def passages(self) -> tuple[Passage, ...] | None:
        """The retrieved texts, those of all turns if it was a conversation; None if nothing is told
        about them.
        """
        if self.context is not None or not self.turns:
            return self.context
        told = [passages for turn in self.turns if (passages := turn.response.passages) is not None]
        return (
            tuple(dict.fromkeys(passage for passages in told for passage in passages))
            if told
            else None
        )

    @property
    def steps_taken(self) -> "tuple[Step, ...] | None":
        """Every step, those of all turns if it was a conversation; None if one of them does not
        tell its steps.
        """
        if self.steps is not None or not self.turns:
            return self.steps
        known = [turn.response.steps_taken for turn in self.turns]
        return (
            None
            if any(steps is None for steps in known)
            else tuple(step for steps in known for step in steps or ())
        )

    @property
    def tokens(self) -> Usage | None:
        """The tokens of the response: as its provider counted them, else those of its steps."""
        if self.usage is not None or not self.steps:
            return self.usage
        counted = [step.usage for step in self.steps if step.usage is not None]
        return sum(counted, Usage()) if counted else None

    @property
    def calls_made(self) -> tuple[ToolCall, ...]:
        """Every tool call on the way, sub-agents' too; where no steps are known, those that were
        asked for last.
        """
        made = tuple(
            ToolCall(step.name, step.arguments)
            for step in self.steps or ()
            if step.kind == "tool_call"
        )
        if not made and self.steps is None:
            made = tuple(call for turn in self.turns for call in turn.response.calls_made)
        return made or self.tool_calls


GOAL_REACHED = (
    "goal_reached"  # the `finish_reason` of a conversation whose simulated user got what it wanted
)


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange of a conversation: what the user said, and what came back."""

    user: str
    response: Response
    latency_s: float = 0.0
    cost_usd: float | None = None
