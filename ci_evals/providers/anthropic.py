"""Anthropic's messages API: `POST {base_url}/v1/messages`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import TypeAdapter

from ci_evals.model.case import Request
from ci_evals.model.response import Message, Response, ToolCall, Usage
from ci_evals.providers.base import Provider, Resources
from ci_evals.providers.http_client import Endpoint, ModelOptions

_VERSION = "2023-06-01"
_MAX_TOKENS = 1024  # the API wants a number


@dataclass(frozen=True, slots=True, kw_only=True)
class Anthropic(ModelOptions):
    """A Claude model. `params.max_tokens` is 1024 when left out."""

    kind: ClassVar[str] = "anthropic"
    default_key_variable: ClassVar[str] = "ANTHROPIC_API_KEY"
    vendor_host: ClassVar[str] = "api.anthropic.com"

    base_url: str = "https://api.anthropic.com"

    def open(self, resources: Resources) -> Provider:
        key = {"x-api-key": self.api_key.reveal().strip()} if self.api_key else {}
        headers = {"anthropic-version": _VERSION, **key}
        fields = {"model": self.model, "max_tokens": _MAX_TOKENS, **self.params}
        return Messages(self.endpoint(resources, "v1/messages", headers, fields))


class Messages:
    """The live endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def answer(self, request: Request) -> Response:
        body: dict[str, Any] = {"messages": _turns(request.messages)}
        if system := "\n\n".join(message.content for message in request.messages if message.role == "system"):
            body["system"] = system
        message = await self._endpoint.ask(body, _message, request.timeout_s)
        return Response(
            output="".join(block.text for block in message.content if block.type == "text"),
            tool_calls=tuple(
                ToolCall(block.name, block.input or {}, block.id)
                for block in message.content
                if block.type == "tool_use"
            ),
            usage=_usage(message.usage),
            model=message.model,
            finish_reason=message.stop_reason,
        )


def _turns(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return the conversation without its system turns; the results of one round of tools belong in one turn."""
    turns: list[dict[str, Any]] = []
    in_results = False
    for message in messages:
        if message.role == "system":
            continue
        if message.role == "tool":
            result = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content}
            if in_results:
                turns[-1]["content"].append(result)
            else:
                turns.append({"role": "user", "content": [result]})
        else:
            turns.append({"role": message.role, "content": _content(message)})
        in_results = message.role == "tool"
    return turns


def _content(message: Message) -> str | list[dict[str, Any]]:
    if not message.tool_calls:
        return message.content
    text = [{"type": "text", "text": message.content}] if message.content else []
    return [*text, *map(_made, message.tool_calls)]


def _made(call: ToolCall) -> dict[str, Any]:
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


@dataclass(frozen=True, slots=True)
class _Message:
    content: list[_Block]
    model: str | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None


_message = TypeAdapter(_Message)


def _usage(usage: _Usage | None) -> Usage | None:
    """Anthropic's `input_tokens` leaves out what was written to the cache and read from it."""
    if usage is None:
        return None
    cached = usage.cache_read_input_tokens or 0
    written = usage.cache_creation_input_tokens or 0
    return Usage(usage.input_tokens + written + cached, usage.output_tokens, cached)
