"""Anthropic's messages API: `POST {base_url}/v1/messages`."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from pydantic import TypeAdapter

from ci_evals.model.request import Request, ToolDefinition
from ci_evals.model.response import Message, Part, Response, ToolCall, Usage
from ci_evals.providers.answer import arguments_object, read_arguments
from ci_evals.providers.base import (
    NativeMessage,
    Provider,
    Resources,
    ToolRequest,
    ToolResult,
)
from ci_evals.providers.http_messages import Event
from ci_evals.providers.model_api import Endpoint, ModelOptions, system_texts_of, turns_of
from ci_evals.providers.parts import attach

_VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 1024  # the API requires a number


@dataclass(frozen=True, slots=True, kw_only=True)
class Anthropic(ModelOptions):
    """A Claude model. `params.max_tokens` is 1024 when left out."""

    kind: ClassVar[str] = "anthropic"
    default_key_variable: ClassVar[str] = "ANTHROPIC_API_KEY"
    vendor_host: ClassVar[str] = "api.anthropic.com"
    key_header: ClassVar[str] = "x-api-key"

    base_url: str = "https://api.anthropic.com"

    def open(self, resources: Resources) -> Provider:
        fields: dict[str, Any] = {"model": self.model, "max_tokens": DEFAULT_MAX_TOKENS}
        if self.stream:
            fields["stream"] = True
        fields |= self.params
        headers = {"anthropic-version": _VERSION}
        return Messages(self.endpoint(resources, "v1/messages", fields, headers))


class Messages:
    """The live endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def answer(self, request: Request) -> Response:
        folder = self._endpoint.folder
        turns = [_turn(turn, folder) for turn in turns_of(request.messages)]
        fields: dict[str, Any] = {"messages": turns}
        system = system_texts_of(request.messages)
        if any(system):
            fields["system"] = "\n\n".join(system)
        if request.tools:
            declared = self._endpoint.fields.get("tools", ())
            fields["tools"] = [*declared, *map(_definition, request.tools)]
        reply = await self._endpoint.post(fields, request.timeout_s)
        if reply.events is None:
            message = self._endpoint.read(_message(), reply)
        else:
            message = self._assemble(reply.events)
        text = ""
        tool_calls = []
        for block in message.content:
            if block.type == "text":
                text += block.text
            elif block.type == "tool_use":
                tool_calls.append(block.call)
        usage = None
        if message.usage is not None:
            usage = message.usage.tokens
        response = Response(
            output=text,
            tool_calls=tuple(tool_calls),
            usage=usage,
            model=message.model,
            finish_reason=message.stop_reason,
            cost_usd=reply.cost_usd,
            first_token_s=message.first_token_s,
        )
        if request.tools and tool_calls:
            blocks = [block.sent_back for block in message.content]
            return ToolRequest.of(response, [block for block in blocks if block is not None])
        return response

    def _assemble(self, events: Sequence[Event]) -> "_Message":
        """Return a streamed message in the form of one that is not streamed.

        Raises:
            ProviderError: the stream broke off, or an event has another shape.
        """
        model = stop_reason = first_token_s = None
        blocks: dict[int, _Block] = {}
        counts: dict[str, Any] = {}
        for event, after_s in self._endpoint.read_events(_event(), events):
            if event.type == "error":
                raise self._endpoint.reported(event.error)
            if event.message is not None:
                model = event.message.model
                counts |= _nonzero_counts(event.message.usage)
            counts |= _nonzero_counts(event.usage)
            if event.content_block is not None:
                blocks[event.index] = event.content_block
            delta = event.delta
            stop_reason = delta.stop_reason or stop_reason
            if delta.text or delta.partial_json:
                if first_token_s is None:
                    first_token_s = after_s
                block = blocks.setdefault(event.index, _Block("text"))
                block.text += delta.text
                block.written += delta.partial_json
            if event.index in blocks:
                blocks[event.index].thinking += delta.thinking
                blocks[event.index].signature += delta.signature
        if stop_reason is None:
            raise self._endpoint.broken_off()
        content = [blocks[index] for index in sorted(blocks)]
        for block in content:
            if block.written:
                block.input = block.written
        return _Message(content, model, stop_reason, _Usage(**counts), first_token_s)


def _nonzero_counts(usage: "_Usage | None") -> dict[str, Any]:
    """Return the counts of one event; other events of the same stream have the others."""
    if usage is None:
        return {}
    counts = {each.name: getattr(usage, each.name) for each in fields(usage)}
    return {name: count for name, count in counts.items() if count}


def _turn(messages: Sequence[Message], folder: Path) -> dict[str, Any]:
    message = messages[0]
    if message.role == "tool":
        return {"role": "user", "content": [_tool_result(each) for each in messages]}
    if isinstance(message, NativeMessage):
        return {"role": message.role, "content": message.native}
    if not message.tool_calls and isinstance(message.content, str):
        return {"role": message.role, "content": message.content}
    blocks = [_block(part, folder) for part in message.parts]
    calls = [_tool_use(call) for call in message.tool_calls]
    return {"role": message.role, "content": blocks + calls}


def _tool_result(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": message.tool_call_id,
        "content": message.text,
    }
    if isinstance(message, ToolResult) and message.is_error:
        fields["is_error"] = True
    return fields


def _definition(tool: ToolDefinition) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters,
    }


def _block(part: Part, folder: Path) -> dict[str, Any]:
    if part.source is None:
        return {"type": "text", "text": part.text}
    sent = attach(part, folder)
    if sent.url is not None:
        source = {"type": "url", "url": sent.url}
    elif sent.media_type == "text/plain":
        source = {
            "type": "text",
            "media_type": sent.media_type,
            "data": sent.text,
        }
    else:
        source = {
            "type": "base64",
            "media_type": str(sent.media_type),
            "data": sent.base64,
        }
    if sent.is_image:
        return {"type": "image", "source": source}
    return {
        "type": "document",
        "source": source,
        "title": sent.name,
    }


def _tool_use(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": call.id,
        "name": call.name,
        "input": arguments_object(call),
    }


# The fields of an answer that are read.


@dataclass(slots=True)
class _Block:
    type: str
    text: str = ""
    id: str | None = None
    name: str = ""
    input: Any = None
    thinking: str = ""
    signature: str = ""
    data: str = ""
    written: str = ""
    """The JSON of a streamed `input` so far."""

    @property
    def call(self) -> ToolCall:
        return ToolCall(self.name, read_arguments(self.input), self.id)

    @property
    def sent_back(self) -> dict[str, Any] | None:
        """The block in the form that is sent back with the results of tools; None for blocks of
        Anthropic's own tools.
        """
        match self.type:
            case "text":
                return {"type": "text", "text": self.text}
            case "thinking":
                return {
                    "type": "thinking",
                    "thinking": self.thinking,
                    "signature": self.signature,
                }
            case "redacted_thinking":
                return {"type": "redacted_thinking", "data": self.data}
            case "tool_use":
                return _tool_use(self.call)
            case _:
                return None


@dataclass(slots=True)
class _CacheCreation:
    ephemeral_1h_input_tokens: int = 0


@dataclass(slots=True)
class _Usage:
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation: _CacheCreation | None = None

    @property
    def tokens(self) -> Usage:
        """All tokens. The API's `input_tokens` excludes tokens of the cache."""
        cached = self.cache_read_input_tokens or 0
        written = self.cache_creation_input_tokens or 0
        for_an_hour = 0
        if self.cache_creation is not None:
            for_an_hour = min(self.cache_creation.ephemeral_1h_input_tokens, written)
        input_tokens = self.input_tokens + written + cached
        return Usage(input_tokens, self.output_tokens, cached, written, for_an_hour)


@dataclass(slots=True)
class _Message:
    content: list[_Block]
    model: str | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None
    first_token_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Delta:
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""
    stop_reason: str | None = None


@dataclass(slots=True)
class _Event:
    type: str
    index: int = -1
    message: "_Message | None" = None
    content_block: _Block | None = None
    delta: _Delta = _Delta()
    usage: _Usage | None = None
    error: dict[str, Any] = field(default_factory=dict)


@cache
def _message() -> TypeAdapter[_Message]:
    return TypeAdapter(_Message)


@cache
def _event() -> TypeAdapter[_Event]:
    return TypeAdapter(_Event)
