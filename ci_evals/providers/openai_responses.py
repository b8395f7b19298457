"""OpenAI's responses API: `POST {base_url}/responses`."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Required

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from ci_evals.errors import ProviderError
from ci_evals.model.request import Request, ToolDefinition
from ci_evals.model.response import Message, Part, Passage, Response, ToolCall, Usage
from ci_evals.providers.answer import (
    arguments_text,
    as_context,
    as_steps,
    encode_json,
    read_arguments,
)
from ci_evals.providers.base import NativeMessage, ToolRequest
from ci_evals.providers.http_messages import Event
from ci_evals.providers.model_api import Endpoint
from ci_evals.providers.parts import attach

_FIRST_TOKENS = frozenset(
    [
        "response.output_text.delta",
        "response.refusal.delta",
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
    ]
)
_LAST_EVENTS = frozenset(["response.completed", "response.incomplete", "response.failed"])
_LEFT_TO_CALLER = ("computer_call", "local_shell_call", "shell_call", "apply_patch_call")
"""Calls of built-in tools that the caller has to run."""


class ResponsesEndpoint:
    """The live endpoint. It sends the whole conversation with each request."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._text = endpoint.fields.get("text") or {}

    async def answer(self, request: Request) -> Response:
        items: list[dict[str, Any]] = []
        for message in request.messages:
            items += _items(message, self._endpoint.folder)
        fields: dict[str, Any] = {"input": items}
        if request.tools:
            declared = self._endpoint.fields.get("tools", ())
            fields["tools"] = [*declared, *map(_definition, request.tools)]
        if request.schema is None or "format" in self._text:
            reply = await self._endpoint.post(fields, request.timeout_s)
        else:
            text_format = {
                "type": "json_schema",
                "name": "answer",
                "schema": request.schema,
                "strict": True,
            }
            constraint = {"text": {**self._text, "format": text_format}}
            reply = await self._endpoint.post_with_schema(fields, constraint, request.timeout_s)
        first_token_s = None
        if reply.events is None:
            answer = self._endpoint.read(_answer(), reply)
        else:
            answer, first_token_s = self._assemble(reply.events)
        output = self._output_of(answer)
        usage = None
        metadata: dict[str, Any] = {}
        counts = answer.get("usage")
        if counts is not None:
            usage = _tokens(counts)
            reasoning_tokens = (counts.get("output_tokens_details") or {}).get("reasoning_tokens")
            if reasoning_tokens:
                metadata["reasoning_tokens"] = reasoning_tokens
        request_step = {"kind": "model_request", "name": answer.get("model"), "usage": usage}
        steps_taken = [request_step]
        for item in output:
            steps_taken += _steps(item)
        try:
            steps = as_steps(steps_taken)
            context = _context(output)
        except ValueError as error:
            raise ProviderError("bad_answer", f"{self._endpoint.host}: {error}") from error
        response = Response(
            output="".join(map(_text, output)),
            tool_calls=tuple(call for item in output for call in _tool_calls(item)),
            usage=usage,
            model=answer.get("model"),
            finish_reason=_finish_reason(answer),
            cost_usd=reply.cost_usd,
            steps=steps,
            context=context,
            metadata=metadata,
            first_token_s=first_token_s,
        )
        if request.tools and response.tool_calls:
            return ToolRequest.of(response, output)
        return response

    def _assemble(self, events: Sequence[Event]) -> "tuple[_Answer, float | None]":
        """Return the answer in the last event, and the seconds to its first token.

        Raises:
            ProviderError: the stream broke off, or an event has another shape.
        """
        first_token_s = None
        answer: _Answer | None = None
        for event, after_s in self._endpoint.read_events(_event(), events):
            kind = event.get("type")
            if kind == "error":
                raise self._endpoint.reported(event.get("error") or event)
            if kind in _FIRST_TOKENS and first_token_s is None:
                first_token_s = after_s
            if kind in _LAST_EVENTS:
                answer = event.get("response")
        if answer is None:
            raise self._endpoint.broken_off()
        return answer, first_token_s

    def _output_of(self, answer: "_Answer") -> "Sequence[_Item]":
        """Return the items of an answer.

        Raises:
            ProviderError: the answer is an error, or has no items.
        """
        error, output = answer.get("error"), answer.get("output")
        if error is not None:
            raise self._endpoint.reported(error)
        status = answer.get("status")
        if status == "failed":
            raise self._endpoint.reported(None)
        if status in ("cancelled", "queued", "in_progress"):
            text = f"{self._endpoint.host} answered with the status {status!r} and without an error"
            raise ProviderError("bad_answer", text)
        if output is None:
            text = f"{self._endpoint.host} answered without output: is this a responses endpoint?"
            raise ProviderError("bad_answer", text)
        return output


# What is sent.


def _items(message: Message, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the input items of a message: its content, and each tool call or result."""
    if isinstance(message, NativeMessage):
        yield from message.native
        return
    if message.role == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message.tool_call_id,
            "output": message.text,
        }
        return
    if isinstance(message.content, str):
        if message.content or not message.tool_calls:
            yield {"role": message.role, "content": message.content}
    elif message.role == "assistant":  # its parts are never files, and would need another type
        yield {"role": message.role, "content": message.text}
    else:
        parts = [_part(part, folder) for part in message.content]
        yield {"role": message.role, "content": parts}
    for call in message.tool_calls:
        yield {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": arguments_text(call),
        }


def _definition(tool: ToolDefinition) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,  # strict mode makes every parameter required
    }


def _part(part: Part, folder: Path) -> dict[str, Any]:
    if part.source is None:
        return {"type": "input_text", "text": part.text}
    sent = attach(part, folder)
    if sent.is_image:
        return {"type": "input_image", "image_url": sent.data_url, "detail": "auto"}
    if sent.url is not None:
        return {"type": "input_file", "file_url": sent.url}
    return {"type": "input_file", "filename": sent.name, "file_data": sent.data_url}


# The fields of an answer that are read.


class _Content(TypedDict, total=False):
    type: str
    text: str | None
    refusal: str | None


class _SearchResult(TypedDict, total=False):
    """A result of a file search: a part of a file."""

    __pydantic_config__ = ConfigDict(extra="ignore")  # type: ignore[misc]  # pydantic reads it from a TypedDict

    file_id: str | None
    filename: str | None
    score: float | None
    text: str | None


class _CodeOutput(TypedDict, total=False):
    logs: str | None
    url: str | None


class _Item(TypedDict, total=False):
    """An item of the output. It has the fields of its type, and others that are sent back
    unchanged.
    """

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]  # pydantic reads it from a TypedDict

    type: Required[str]
    id: str | None
    status: str | None
    content: list[_Content] | None
    summary: list[_Content] | None
    call_id: str | None
    name: str | None
    arguments: str | None
    input: str | None
    output: Any
    error: Any
    action: Any
    operation: Any
    queries: list[str] | None
    results: list[_SearchResult] | None
    code: str | None
    outputs: list[_CodeOutput] | None
    revised_prompt: str | None


class _InputDetails(TypedDict, total=False):
    cached_tokens: int | None


class _OutputDetails(TypedDict, total=False):
    reasoning_tokens: int | None


class _Usage(TypedDict, total=False):
    input_tokens: int | None
    output_tokens: int | None
    input_tokens_details: _InputDetails | None
    output_tokens_details: _OutputDetails | None


class _Incomplete(TypedDict, total=False):
    reason: str | None


class _Answer(TypedDict, total=False):
    status: str | None
    error: Any
    incomplete_details: _Incomplete | None
    model: str | None
    output: list[_Item] | None
    usage: _Usage | None


class _Event(TypedDict, total=False):
    """An event of a stream; an error has its fields in `error` or at the top."""

    type: str
    response: _Answer | None
    error: Any
    code: Any
    message: Any


@cache
def _answer() -> TypeAdapter[_Answer]:
    return TypeAdapter(_Answer)


@cache
def _event() -> TypeAdapter[_Event]:
    return TypeAdapter(_Event)


def _finish_reason(answer: _Answer) -> str | None:
    """Return why an answer is incomplete, else its status."""
    details = answer.get("incomplete_details")
    if details is not None and details.get("reason"):
        return details["reason"]
    return answer.get("status")


def _tokens(usage: _Usage) -> Usage:
    """Return the tokens; output tokens include reasoning."""
    cached_tokens = 0
    details = usage.get("input_tokens_details")
    if details is not None:
        cached_tokens = details.get("cached_tokens") or 0
    return Usage(usage.get("input_tokens") or 0, usage.get("output_tokens") or 0, cached_tokens)


def _text(item: _Item) -> str:
    """Return the text or the refusal of a message; empty for other items."""
    if item["type"] != "message":
        return ""
    return _join(item.get("content"))


def _join(contents: list[_Content] | None, between: str = "") -> str:
    texts = [content.get("text") or content.get("refusal") or "" for content in contents or ()]
    return between.join(texts)


def _tool_calls(item: _Item) -> Iterator[ToolCall]:
    """Yield the call that an item leaves to the caller, if any."""
    kind = item["type"]
    id_ = item.get("call_id") or item.get("id")
    if kind in ("function_call", "mcp_approval_request"):
        yield ToolCall(item.get("name") or "", read_arguments(item.get("arguments")), id_)
    elif kind == "custom_tool_call":
        yield ToolCall(item.get("name") or "", item.get("input") or "", id_)
    elif kind in _LEFT_TO_CALLER:
        action = item.get("action") or item.get("operation")
        arguments: Mapping[str, Any] = {}
        if isinstance(action, dict):
            arguments = action
        yield ToolCall(kind.removesuffix("_call"), arguments, id_)


def _steps(item: _Item) -> Iterator[dict[str, Any]]:
    """Yield the step of an item, if any: a summary of reasoning, or a call of a built-in tool."""
    kind = item["type"]
    step: dict[str, Any] = {"kind": "tool_call", "name": kind.removesuffix("_call")}
    match kind:
        case "reasoning":
            summary = _join(item.get("summary"), "\n") or _join(item.get("content"), "\n")
            if summary:
                yield {"kind": "message", "name": "reasoning", "result": summary}
            return
        case "web_search_call":
            step["arguments"], step["result"] = _search(item.get("action"))
        case "file_search_call":
            step["arguments"] = {"queries": item.get("queries") or []}
            step["result"] = item.get("results")
        case "code_interpreter_call":
            step["arguments"] = {"code": item.get("code") or ""}
            outputs = item.get("outputs") or ()
            step["result"] = "\n".join(
                output.get("logs") or output.get("url") or "" for output in outputs
            )
        case "image_generation_call":
            step["arguments"] = {"prompt": item.get("revised_prompt") or ""}
        case "mcp_call":
            step["name"] = item.get("name") or "mcp"
            step["arguments"] = item.get("arguments") or ""
            step["result"] = item.get("output")
        case _:
            return
    error = item.get("error")
    if error is not None:
        step["error"] = _error_text(error)
    elif item.get("status") in ("failed", "incomplete"):
        step["error"] = item["status"]
    yield step


def _search(action: Any) -> tuple[dict[str, Any], list[Any] | None]:
    """Return the arguments of a web search, and its sources if the request includes them."""
    if not isinstance(action, dict):
        return {}, None
    arguments = {}
    for name in ("query", "queries", "url", "pattern"):
        if action.get(name) is not None:
            arguments[name] = action[name]
    sources = action.get("sources")
    if not isinstance(sources, list):
        sources = None
    return arguments, sources


def _error_text(error: Any) -> str:
    match error:
        case str():
            return error
        case {"message": str(message)}:
            return message
        case _:
            return encode_json(error).decode()


def _context(output: Sequence[_Item]) -> tuple[Passage, ...] | None:
    """Return the results of file searches; None if the API does not include them."""
    passages: list[_SearchResult] | None = None
    for item in output:
        results = item.get("results")
        if item["type"] == "file_search_call" and results is not None:
            passages = [*(passages or ()), *results]
    if passages is None:
        return None
    return as_context([_passage(result) for result in passages])


def _passage(result: _SearchResult) -> dict[str, Any]:
    return {
        "text": result.get("text") or "",
        "id": result.get("filename") or result.get("file_id"),
        "score": result.get("score"),
    }
