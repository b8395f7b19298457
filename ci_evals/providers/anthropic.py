"""Anthropic's messages API: `POST {base_url}/v1/messages`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import TypeAdapter

from ci_evals.model.case import Request
from ci_evals.model.response import Message, Response, ToolCall, Usage
from ci_evals.providers.base import Provider, Resources
from ci_evals.providers.model_api import Endpoint, ModelOptions, turns_of

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
        fields = {"model": self.model, "max_tokens": _MAX_TOKENS, **self.params}
        return Messages(self.endpoint(resources, "v1/messages", fields, {"anthropic-version": _VERSION}))


class Messages:
    """The live endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def answer(self, request: Request) -> Response:
        body: dict[str, Any] = {"messages": [_turn(turn) for turn in turns_of(request.messages)]}
        if system := "\n\n".join(message.content for message in request.messages if message.role == "system"):
            body["system"] = system
        message, cost_usd = await self._endpoint.ask(body, _message, request.timeout_s)
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
            cost_usd=cost_usd,
        )


def _turn(messages: Sequence[Message]) -> dict[str, Any]:
    message = messages[0]
    if message.role == "tool":
        results = [
            {"type": "tool_result", "tool_use_id": each.tool_call_id, "content": each.content} for each in messages
        ]
        return {"role": "user", "content": results}
    if not message.tool_calls:
        return {"role": message.role, "content": message.content}
    text = [{"type": "text", "text": message.content}] if message.content else []
    return {"role": message.role, "content": [*text, *map(_tool_use, message.tool_calls)]}


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
        """All tokens: `input_tokens` leaves out those that were written to the cache or read from it."""
        cached = self.cache_read_input_tokens or 0
        written = self.cache_creation_input_tokens or 0
        return Usage(self.input_tokens + written + cached, self.output_tokens, cached)


@dataclass(frozen=True, slots=True)
class _Message:
    content: list[_Block]
    model: str | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None


_message = TypeAdapter(_Message)
