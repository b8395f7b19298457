"""Any OpenAI-compatible endpoint of chat completions, responses or embeddings."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Required

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from ci_evals.errors import ProviderError
from ci_evals.faults import LOST_FINISHES
from ci_evals.model.request import Request, ToolDefinition
from ci_evals.model.response import Detail, Message, Part, Response, ToolCall, Usage
from ci_evals.providers.answer import arguments_text, encode_json, read_arguments
from ci_evals.providers.base import NativeMessage, Provider, Resources, ToolRequest
from ci_evals.providers.http_messages import END_OF_STREAM, Event
from ci_evals.providers.model_api import Endpoint, ModelOptions
from ci_evals.providers.parts import address_refused, attach

# Thoughts of models behind other endpoints, some of which refuse a tool call without its thoughts.
_THOUGHTS: Final = ("reasoning_content", "reasoning_details")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIOptions(ModelOptions):
    """Settings of all of OpenAI's APIs."""

    default_key_variable: ClassVar[str] = "OPENAI_API_KEY"
    vendor_host: ClassVar[str] = "api.openai.com"
    key_header: ClassVar[str] = "Authorization"
    key_prefix: ClassVar[str] = "Bearer "

    base_url: str = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAI(OpenAIOptions):
    """OpenAI's chat completions or responses, or any compatible endpoint.

    Args:
        api: `chat` for chat completions, or `responses`.
    """

    kind: ClassVar[str] = "openai"

    api: Literal["chat", "responses"] = "chat"

    @property
    def details(self) -> Sequence[Detail]:
        details: list[Detail] = ["cost"]
        if self.stream:
            details.append("first_token")
        if self.tools or self.api == "responses":
            details.append("steps")
        if self.api == "responses":
            details.append("context")
        return details

    def problems(self, folder: Path) -> list[str]:
        problems = OpenAIOptions.problems(self, folder)
        if self.api == "responses":
            if "input" in self.params:
                problems.append("params.input: is set by ci-evals itself; remove it")
            if "background" in self.params:
                problems.append("params.background: ci-evals waits for each answer; remove it")
        return problems

    def open(self, resources: Resources) -> Provider:
        fields: dict[str, Any] = {"model": self.model}
        if self.stream:
            fields["stream"] = True
        if self.api == "responses":
            from ci_evals.providers.openai_responses import ResponsesEndpoint

            fields |= self.params
            return ResponsesEndpoint(self.endpoint(resources, "responses", fields))
        if self.stream:
            # Otherwise, streams have no token counts.
            fields["stream_options"] = {"include_usage": True}
        fields |= self.params
        return ChatEndpoint(self.endpoint(resources, "chat/completions", fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings(OpenAIOptions):
    """OpenAI's embeddings, or any compatible endpoint: one vector for each text of the input."""

    kind: ClassVar[str] = "embeddings"
    reserved: ClassVar[tuple[str, ...]] = ("model", "input", "encoding_format")
    embeds: ClassVar[bool] = True

    def problems(self, folder: Path) -> list[str]:
        problems = OpenAIOptions.problems(self, folder)
        if self.tools:
            problems.append("tools: embeddings models cannot call tools; remove them")
        if self.stream:
            problems.append("stream: embeddings are not streamed; remove it")
        return problems

    def open(self, resources: Resources) -> Provider:
        fields = {"model": self.model, **self.params}
        return EmbeddingsEndpoint(self.endpoint(resources, "embeddings", fields))


class ChatEndpoint:
    """The live chat endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._has_format = "response_format" in endpoint.fields

    async def answer(self, request: Request) -> Response:
        folder = self._endpoint.folder
        fields: dict[str, Any] = {
            "messages": [_turn(message, folder) for message in request.messages]
        }
        if request.tools:
            declared = self._endpoint.fields.get("tools", ())
            fields["tools"] = [*declared, *map(_definition, request.tools)]
        if request.schema is None or self._has_format:
            reply = await self._endpoint.post(fields, request.timeout_s)
        else:
            json_schema = {
                "name": "answer",
                "schema": request.schema,
                "strict": True,
            }
            response_format = {"type": "json_schema", "json_schema": json_schema}
            constraint = {"response_format": response_format}
            reply = await self._endpoint.post_with_schema(fields, constraint, request.timeout_s)
        first_token_s = None
        if reply.events is None:
            completion = self._endpoint.read(_completion(), reply)
        else:
            completion, first_token_s = self._assemble(reply.events)
        choice = self._choice_of(completion)
        message = choice["message"]
        usage, cost_usd = None, reply.cost_usd
        counts = completion.get("usage")
        if counts is not None:
            usage = _tokens(counts)
            if cost_usd is None:
                cost_usd = _cost_usd(counts)
        tool_calls: tuple[ToolCall, ...] = ()
        calls = _calls_in(message)
        if calls:
            tool_calls = tuple(map(_tool_call, calls))
        response = Response(
            output=_text(message.get("content")) or message.get("refusal") or "",
            tool_calls=tool_calls,
            usage=usage,
            model=completion.get("model"),
            finish_reason=choice.get("finish_reason"),
            cost_usd=cost_usd,
            first_token_s=first_token_s,
        )
        if request.tools and tool_calls:
            thoughts = {key: message[key] for key in _THOUGHTS if message.get(key)}
            return ToolRequest.of(response, thoughts)
        return response

    def _assemble(self, events: Sequence[Event]) -> "tuple[_Completion, float | None]":
        """Return a streamed completion in the form of one that is not streamed, and the seconds to
        its first token.

        Raises:
            ProviderError: the stream broke off, or an event has another shape.
        """
        text = refusal = reasoning = ""
        calls: list[_Call] = []
        model = usage = finish_reason = failure = first_token_s = None
        for chunk, after_s in self._endpoint.read_events(_chunk(), events):
            error = chunk.get("error")
            if error is not None:
                raise self._endpoint.reported(error)
            model = chunk.get("model") or model
            usage = chunk.get("usage") or usage
            for choice in chunk.get("choices") or ():
                if choice.get("index", 0) != 0:
                    continue
                finish_reason = choice.get("finish_reason") or finish_reason
                failure = choice.get("error") or failure
                delta = choice.get("delta")
                if delta is None:
                    continue
                content, refused = delta.get("content"), delta.get("refusal")
                pieces = _calls_in(delta)
                if first_token_s is None and (content or refused or pieces):
                    first_token_s = after_s
                text += _text(content)
                reasoning += delta.get("reasoning_content") or ""
                refusal += refused or ""
                for piece in pieces:
                    _add_piece(calls, piece)
        has_end = any(event.data == END_OF_STREAM for event in events)
        if finish_reason is None and failure is None and not has_end:
            raise self._endpoint.broken_off()
        message: _Message = {
            "content": text,
            "refusal": refusal,
            "tool_calls": calls,
            "reasoning_content": reasoning,
        }
        choices: list[_Choice] = [
            {"message": message, "finish_reason": finish_reason, "error": failure}
        ]
        return {"choices": choices, "model": model, "usage": usage}, first_token_s

    def _choice_of(self, completion: "_Completion") -> "_Choice":
        """Return the choice of a completion.

        Raises:
            ProviderError: there is none, or the provider reports an error instead, as gateways do
                with status 200.
        """
        host = self._endpoint.host
        error, choices = completion.get("error"), completion.get("choices")
        if not choices and error is not None:
            raise self._endpoint.reported(error)
        if choices is not None and not choices:
            raise ProviderError("server", f"{host} answered with an empty list of choices")
        if choices is None:
            text = f"{host} answered without a choice: is this a chat completions endpoint?"
            raise ProviderError("bad_answer", text)
        choice = choices[0]
        finish_reason = choice.get("finish_reason")
        if choice.get("error") is not None or finish_reason in LOST_FINISHES:
            raise self._endpoint.reported(choice.get("error"), finish_reason)
        if choice.get("message") is None:
            text = f"{host} answered without a message: is this a chat completions endpoint?"
            raise ProviderError("bad_answer", text)
        return choice


class EmbeddingsEndpoint:
    """The live embeddings endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def answer(self, request: Request) -> Response:
        texts = [str(request.input)]
        if isinstance(request.input, list | tuple):
            texts = [str(text) for text in request.input]
        reply = await self._endpoint.post({"input": texts}, request.timeout_s)
        answer = self._endpoint.read(_vectors(), reply)
        vectors = sorted(answer.get("data") or (), key=lambda vector: vector.get("index", 0))
        if len(vectors) != len(texts):
            received = f"{len(vectors)} embeddings of {len(texts)} texts"
            text = (
                f"{self._endpoint.host} answered with {received}: is this an embeddings endpoint?"
            )
            raise ProviderError("bad_answer", text)
        usage = None
        counts = answer.get("usage")
        if counts is not None:
            usage = _tokens(counts)
        return Response(
            encode_json([vector["embedding"] for vector in vectors]).decode(),
            usage=usage,
            model=answer.get("model"),
            cost_usd=reply.cost_usd,
        )


def _turn(message: Message, folder: Path) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": message.role, "content": message.content}
    if not isinstance(message.content, str):
        turn["content"] = [_part(part, folder) for part in message.content]
    if message.tool_calls:
        turn["tool_calls"] = [_call_fields(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        turn["tool_call_id"] = message.tool_call_id
    if isinstance(message, NativeMessage):
        turn |= message.native
    return turn


def _definition(tool: ToolDefinition) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def _part(part: Part, folder: Path) -> dict[str, Any]:
    if part.source is None:
        return {"type": "text", "text": part.text}
    sent = attach(part, folder)
    if sent.is_image:
        return {"type": "image_url", "image_url": {"url": sent.data_url}}
    if sent.url is not None:
        raise address_refused(sent, "the API of chat completions")
    return {"type": "file", "file": {"filename": sent.name, "file_data": sent.data_url}}


def _call_fields(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments_text(call)}
    return {
        "id": call.id,
        "type": "function",
        "function": function,
    }


# The fields of an answer that are read.


class _Function(TypedDict, total=False):
    name: str | None
    arguments: str | dict[str, Any] | None


class _Custom(TypedDict, total=False):
    name: Required[str]
    input: str


class _Call(TypedDict, total=False):
    """A tool call, or a piece of one; `index` distinguishes the calls of a stream."""

    id: Annotated[str, Field(coerce_numbers_to_str=True)] | None
    function: _Function | None
    custom: _Custom | None
    index: int | None


class _Part(TypedDict, total=False):
    text: str | None
    refusal: str | None


class _Message(TypedDict, total=False):
    content: str | list[_Part] | None
    refusal: str | None
    tool_calls: list[_Call] | None
    function_call: _Function | None
    reasoning_content: str | None
    reasoning_details: Any


class _Choice(TypedDict, total=False):
    message: _Message
    finish_reason: str | None
    error: Any


class _InputDetails(TypedDict, total=False):
    cached_tokens: int | None


class _Usage(TypedDict, total=False):
    prompt_tokens: int | None
    completion_tokens: int | None
    prompt_tokens_details: _InputDetails | None
    cost: Any


class _Completion(TypedDict, total=False):
    choices: list[_Choice] | None
    model: str | None
    usage: _Usage | None
    error: Any


class _ChoiceDelta(TypedDict, total=False):
    delta: _Message | None
    index: int
    finish_reason: str | None
    error: Any


class _Chunk(TypedDict, total=False):
    choices: list[_ChoiceDelta] | None
    model: str | None
    usage: _Usage | None
    error: Any


class _Vector(TypedDict, total=False):
    embedding: Required[list[float]]
    index: int


class _Vectors(TypedDict, total=False):
    data: list[_Vector] | None
    model: str | None
    usage: _Usage | None


@cache
def _completion() -> TypeAdapter[_Completion]:
    return TypeAdapter(_Completion)


@cache
def _chunk() -> TypeAdapter[_Chunk]:
    return TypeAdapter(_Chunk)


@cache
def _vectors() -> TypeAdapter[_Vectors]:
    return TypeAdapter(_Vectors)


def _text(content: str | list[_Part] | None) -> str:
    if isinstance(content, list):
        return "".join(part.get("text") or part.get("refusal") or "" for part in content)
    return content or ""


def _tokens(usage: _Usage) -> Usage:
    cached_tokens = None
    details = usage.get("prompt_tokens_details")
    if details is not None:
        cached_tokens = details.get("cached_tokens")
    input_tokens, output_tokens = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return Usage(input_tokens or 0, output_tokens or 0, cached_tokens or 0)


def _cost_usd(usage: _Usage) -> float | None:
    """Return the cost of the answer, which OpenRouter includes."""
    cost = usage.get("cost")
    if isinstance(cost, int | float) and 0 <= cost < math.inf:
        return float(cost)
    return None


def _calls_in(message: _Message) -> list[_Call]:
    """Return the tool calls of a message or of a piece of one.

    Endpoints with OpenAI's older API return a single `function_call` without an id instead.
    """
    calls, function = message.get("tool_calls"), message.get("function_call")
    if not calls and function is not None:
        return [{"function": function, "index": 0}]
    return calls or []


def _tool_call(call: _Call) -> ToolCall:
    function, custom, id_ = call.get("function"), call.get("custom"), call.get("id")
    if function is not None:
        arguments = read_arguments(function.get("arguments"))
        return ToolCall(function.get("name") or "", arguments, id_)
    if custom is not None:
        return ToolCall(custom["name"], custom.get("input", ""), id_)
    return ToolCall("", {}, id_)


def _add_piece(calls: list[_Call], piece: _Call) -> None:
    """Add a piece of a streamed tool call to the call that it belongs to, or as a new one.

    Some endpoints send whole calls, without an index or all with index 0, so another id also starts
    another call.
    """
    id_, index = piece.get("id"), piece.get("index")
    function = piece.get("function") or {}
    name, arguments = function.get("name"), function.get("arguments")
    for call in reversed(calls):
        if index is not None and call.get("index") != index:
            continue
        if id_ and call.get("id") and id_ != call.get("id"):
            break
        function_so_far = call["function"]
        assert function_so_far is not None
        call["id"] = call.get("id") or id_
        function_so_far["name"] = function_so_far.get("name") or name
        function_so_far["arguments"] = _join(function_so_far.get("arguments"), arguments)
        return
    calls.append({"id": id_, "function": {"name": name, "arguments": arguments}, "index": index})


def _join(
    arguments: str | dict[str, Any] | None, more: str | dict[str, Any] | None
) -> str | dict[str, Any] | None:
    if isinstance(arguments, str) and isinstance(more, str):
        return arguments + more
    return more or arguments
