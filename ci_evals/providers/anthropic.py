"""Anthropic's messages API: `POST {base_url}/v1/messages`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import TypeAdapter

from ci_evals.model.case import Request
from ci_evals.model.response import Message, Part, Response, ToolCall, Usage
from ci_evals.providers.answer import read_arguments
from ci_evals.providers.base import Provider, Resources
from ci_evals.providers.http_client import Event
from ci_evals.providers.model_api import Endpoint, ModelOptions, turns_of
from ci_evals.providers.parts import attach

_VERSION = "2023-06-01"
_MAX_TOKENS = 1024  # the API wants a number


@dataclass(frozen=True, slots=True, kw_only=True)
class Anthropic(ModelOptions):
    """A Claude model. `params.max_tokens` is 1024 when left out."""

    kind: ClassVar[str] = "anthropic"
    default_key_variable: ClassVar[str] = "ANTHROPIC_API_KEY"
    vendor_host: ClassVar[str] = "api.anthropic.com"
    key_header: ClassVar[str] = "x-api-key"

    base_url: str = "https://api.anthropic.com"

    def open(self, resources: Resources) -> Provider:
        streaming = {"stream": True} if self.stream else {}
        fields = {"model": self.model, "max_tokens": _MAX_TOKENS, **streaming, **self.params}
        return Messages(
            self.endpoint(resources, "v1/messages", fields, {"anthropic-version": _VERSION})
        )


class Messages:
    """The live endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def answer(self, request: Request) -> Response:
        body: dict[str, Any] = {
            "messages": [
                _turn(turn, self._endpoint.resources.folder) for turn in turns_of(request.messages)
            ]
        }
        if system := "\n\n".join(
            message.text for message in request.messages if message.role == "system"
        ):
            body["system"] = system
        reply = await self._endpoint.post(body, request.timeout_s)
        first_token_s = None
        if reply.events is None:
            message = self._endpoint.read(_message, reply)
        else:
            message, first_token_s = self._assemble(reply.events)
        return Response(
            output="".join(block.text for block in message.content if block.type == "text"),
            tool_calls=tuple(
                ToolCall(block.name, block.input or {}, block.id)
                for block in message.content
                if block.type == "tool_use"
            ),
            usage=message.usage.tokens if message.usage else None,
            model=message.model,
            finish_reason=message.stop_reason,
            cost_usd=reply.cost_usd,
            first_token_s=first_token_s,
        )

    def _assemble(self, events: Sequence[Event]) -> "tuple[_Message, float | None]":
        """Return a streamed message as if it had come at once, and when its first token came.

        Raises:
            ProviderError: it was broken off, or an event has another shape.
        """
        start = _Message([])
        blocks: dict[int, _Block] = {}
        parts: dict[int, list[str]] = {}  # of texts and of arguments
        stop_reason = first_token_s = None
        usage: dict[str, int] = {}
        for event, after_s in self._endpoint.read_events(_event, events):
            if event.type == "error":
                raise self._endpoint.broken_off(event.error.message if event.error else "")
            if event.message is not None:
                start = event.message
            if event.content_block is not None:
                blocks[event.index] = event.content_block
            for counted in (event.message and event.message.usage, event.usage):
                usage |= (
                    {name: count for name, count in asdict(counted).items() if count}
                    if counted
                    else {}
                )
            if (delta := event.delta) is not None:
                stop_reason = delta.stop_reason or stop_reason
                parts.setdefault(event.index, []).append(delta.text or delta.partial_json)
                if first_token_s is None and (delta.text or delta.partial_json):
                    first_token_s = after_s
        if stop_reason is None:
            raise self._endpoint.broken_off()
        content = [_whole(blocks[index], "".join(parts.get(index, ()))) for index in sorted(blocks)]
        return _Message(content, start.model, stop_reason, _Usage(**usage)), first_token_s


def _whole(block: "_Block", told: str) -> "_Block":
    """Return a block with what its deltas told: its text, or the JSON of a tool's arguments."""
    if block.type != "tool_use":
        return replace(block, text=block.text + told)
    return replace(block, input=read_arguments(told)) if told else block


def _turn(messages: Sequence[Message], folder: Path) -> dict[str, Any]:
    message = messages[0]
    if message.role == "tool":
        results = [
            {"type": "tool_result", "tool_use_id": each.tool_call_id, "content": each.text}
            for each in messages
        ]
        return {"role": "user", "content": results}
    if not message.tool_calls and isinstance(message.content, str):
        return {"role": message.role, "content": message.content}
    blocks = [_block(part, folder) for part in message.parts]
    return {"role": message.role, "content": [*blocks, *map(_tool_use, message.tool_calls)]}


def _block(part: Part, folder: Path) -> dict[str, Any]:
    if part.source is None:
        return {"type": "text", "text": part.text}
    sent = attach(part, folder)
    source = {"type": "base64", "media_type": sent.media_type, "data": sent.base64}
    if sent.url is not None:
        source = {"type": "url", "url": sent.url}
    elif sent.media_type == "text/plain":
        source = {"type": "text", "media_type": sent.media_type, "data": sent.text}
    return (
        {"type": "image", "source": source}
        if sent.is_image
        else {"type": "document", "source": source, "title": sent.name}
    )


def _tool_use(call: ToolCall) -> dict[str, Any]:
    arguments = {"arguments": call.arguments} if isinstance(call.arguments, str) else call.arguments
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


# The answer, as far as it is needed.


@dataclass(frozen=True, slots=True)
class _Block:
    type: str
    text: str = ""
    id: str | None = None
    name: str = ""
    input: Any = None


@dataclass(frozen=True, slots=True)
class _Usage:
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None

    @property
    def tokens(self) -> Usage:
        """All tokens: `input_tokens` leaves out those that were written to the cache or read from
        it.
        """
        cached = self.cache_read_input_tokens or 0
        written = self.cache_creation_input_tokens or 0
        return Usage(self.input_tokens + written + cached, self.output_tokens, cached)


@dataclass(frozen=True, slots=True)
class _Message:
    content: list[_Block]
    model: str | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None


@dataclass(frozen=True, slots=True)
class _Delta:
    text: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Error:
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Event:
    type: str
    index: int = -1
    message: "_Message | None" = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None
    error: _Error | None = None


_message = TypeAdapter(_Message)
_event = TypeAdapter(_Event)
