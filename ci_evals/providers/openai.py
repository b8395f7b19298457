"""Any OpenAI-compatible chat endpoint: `POST {base_url}/chat/completions`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from pydantic import TypeAdapter

from ci_evals.errors import ProviderError
from ci_evals.model.request import Request
from ci_evals.model.response import Message, Part, Response, ToolCall, Usage
from ci_evals.providers.answer import encode_json, read_arguments
from ci_evals.providers.base import Provider, Resources
from ci_evals.providers.http_messages import END_OF_STREAM, Event, Reply, kind_of, readable
from ci_evals.providers.model_api import Endpoint, ModelOptions
from ci_evals.providers.parts import attach


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAI(ModelOptions):
    """OpenAI's chat completions, or any endpoint that speaks like them."""

    kind: ClassVar[str] = "openai"
    default_key_variable: ClassVar[str] = "OPENAI_API_KEY"
    vendor_host: ClassVar[str] = "api.openai.com"
    key_header: ClassVar[str] = "Authorization"
    key_prefix: ClassVar[str] = "Bearer "

    base_url: str = "https://api.openai.com/v1"

    def open(self, resources: Resources) -> Provider:
        fields: dict[str, Any] = {"model": self.model}
        if self.stream:
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        fields |= self.params
        return ChatCompletions(self.endpoint(resources, "chat/completions", fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings(OpenAI):
    """OpenAI's embeddings, or any endpoint that speaks like them: one vector for each text of the
    input.
    """

    kind: ClassVar[str] = "embeddings"
    reserved: ClassVar[tuple[str, ...]] = ("model", "input", "encoding_format")
    embeds: ClassVar[bool] = True

    def problems(self, folder: Path) -> list[str]:
        found = ModelOptions.problems(self, folder)
        if self.stream:
            found.append("stream: embeddings are not streamed; leave it out")
        return found

    def open(self, resources: Resources) -> Provider:
        fields = {"model": self.model, **self.params}
        return EmbeddingsEndpoint(self.endpoint(resources, "embeddings", fields))


class ChatCompletions:
    """The live chat endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._takes_schema = "response_format" not in endpoint.fields

    async def answer(self, request: Request) -> Response:
        folder = self._endpoint.folder
        fields = {"messages": [_turn(message, folder) for message in request.messages]}
        if request.schema is not None and self._takes_schema:
            reply = await self._post_with_schema(fields, request.schema, request.timeout_s)
        else:
            reply = await self._endpoint.post(fields, request.timeout_s)
        if reply.events is None:
            completion = self._endpoint.read(_completion(), reply)
        else:
            completion = self._assemble(reply.events)
        if not completion.choices:
            raise self._no_choice(completion.error)
        choice = completion.choices[0]
        usage, cost_usd = None, reply.cost_usd
        if completion.usage is not None:
            usage = completion.usage.tokens
            if cost_usd is None:
                cost_usd = completion.usage.cost_usd
        tool_calls: tuple[ToolCall, ...] = ()
        if choice.message.tool_calls:
            tool_calls = tuple(map(_tool_call, choice.message.tool_calls))
        return Response(
            output=_text(choice.message.content) or choice.message.refusal or "",
            tool_calls=tool_calls,
            usage=usage,
            model=completion.model,
            finish_reason=choice.finish_reason,
            cost_usd=cost_usd,
            first_token_s=completion.first_token_s,
        )

    async def _post_with_schema(
        self, fields: Mapping[str, Any], schema: Mapping[str, Any], timeout_s: float
    ) -> Reply:
        """Constrain the answer to a schema, unless the endpoint turns out not to support that."""
        json_schema = {
            "name": "answer",
            "schema": schema,
            "strict": True,
        }
        response_format = {"type": "json_schema", "json_schema": json_schema}
        try:
            return await self._endpoint.post(
                {**fields, "response_format": response_format}, timeout_s
            )
        except ProviderError as error:
            if error.status not in (400, 422):
                raise
        self._takes_schema = False
        return await self._endpoint.post(fields, timeout_s)

    def _assemble(self, events: Sequence[Event]) -> "_Completion":
        """Return a streamed completion as if it had come at once.

        Raises:
            ProviderError: it was broken off, or an event has another shape.
        """
        text = refusal = ""
        calls: list[_Call] = []
        model = usage = finish_reason = first_token_s = None
        for chunk, after_s in self._endpoint.read_events(_chunk(), events):
            if chunk.error is not None:
                raise self._stream_error(chunk.error)
            model = chunk.model or model
            usage = chunk.usage or usage
            for choice in chunk.choices or ():
                if choice.index != 0:
                    continue
                finish_reason = choice.finish_reason or finish_reason
                delta = choice.delta
                if delta is None:
                    continue
                has_content = delta.content or delta.refusal or delta.tool_calls
                if has_content and first_token_s is None:
                    first_token_s = after_s
                text += _text(delta.content)
                refusal += delta.refusal or ""
                for piece in delta.tool_calls or ():
                    _add_piece(calls, piece)
        has_end = any(event.data == END_OF_STREAM for event in events)
        if finish_reason is None and not has_end:
            raise self._endpoint.broken_off()
        message = _Message(text, refusal, calls)
        choices = [_Choice(message, finish_reason)]
        return _Completion(choices, model, usage, first_token_s=first_token_s)

    def _stream_error(self, error: object) -> ProviderError:
        match error:
            case {"message": str(), "code": int()}:
                return self._no_choice(error)
            case {"message": str(message)} | str(message):
                return self._endpoint.broken_off(message)
            case _:
                return self._endpoint.broken_off()

    def _no_choice(self, error: object) -> ProviderError:
        """Return the error in an answer of status 200, as gateways give it.

        The real status is in the body, if anywhere.
        """
        host = self._endpoint.host
        match error:
            case {"message": str(message), "code": int(code)} if 400 <= code < 600:
                text = f"{host} answered {code}: {readable(message)}"
                return ProviderError(kind_of(code), text, status=code)
            case {"message": str(message)} | str(message):
                why = f": {readable(message)}"
            case _:
                why = ": is this a chat completions endpoint?"
        return ProviderError("bad_answer", f"{host} answered without a choice{why}")


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
        vectors = sorted(answer.data or (), key=lambda vector: vector.index)
        if len(vectors) != len(texts):
            found = f"{len(vectors)} embeddings of {len(texts)} texts"
            text = f"{self._endpoint.host} answered with {found}: is this an embeddings endpoint?"
            raise ProviderError("bad_answer", text)
        usage = None
        if answer.usage is not None:
            usage = answer.usage.tokens
        return Response(
            encode_json([vector.embedding for vector in vectors]).decode(),
            usage=usage,
            model=answer.model,
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
    return turn


def _part(part: Part, folder: Path) -> dict[str, Any]:
    if part.source is None:
        return {"type": "text", "text": part.text}
    sent = attach(part, folder)
    if sent.is_image:
        return {"type": "image_url", "image_url": {"url": sent.data_url}}
    if sent.url is not None:
        advice = "put it beside the suite and name its path"
        text = f"chat completions take no address of a file ({sent.url}): {advice}"
        raise ProviderError("rejected", readable(text))
    return {"type": "file", "file": {"filename": sent.name, "file_data": sent.data_url}}


def _call_fields(call: ToolCall) -> dict[str, Any]:
    arguments = call.arguments
    if not isinstance(arguments, str):
        arguments = encode_json(arguments).decode()
    function = {"name": call.name, "arguments": arguments}
    return {
        "id": call.id,
        "type": "function",
        "function": function,
    }


# The fields of an answer that are read.


@dataclass(slots=True)
class _Function:
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


@dataclass(slots=True)
class _Custom:
    name: str
    input: str = ""


@dataclass(slots=True)
class _Call:
    """A tool call, or a piece of one; `index` tells the calls of a stream apart."""

    id: str | None = None
    function: _Function | None = None
    custom: _Custom | None = None
    index: int | None = None


@dataclass(slots=True)
class _Part:
    text: str | None = None
    refusal: str | None = None


@dataclass(slots=True)
class _Message:
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


@dataclass(slots=True)
class _Choice:
    message: _Message
    finish_reason: str | None = None


@dataclass(slots=True)
class _InputDetails:
    cached_tokens: int | None = None


@dataclass(slots=True)
class _Usage:
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _InputDetails | None = None
    cost: Any = None

    @property
    def cost_usd(self) -> float | None:
        """The cost of the answer, as OpenRouter tells it."""
        if isinstance(self.cost, int | float) and 0 <= self.cost < math.inf:
            return float(self.cost)
        return None

    @property
    def tokens(self) -> Usage:
        cached_tokens = None
        if self.prompt_tokens_details is not None:
            cached_tokens = self.prompt_tokens_details.cached_tokens
        return Usage(self.prompt_tokens or 0, self.completion_tokens or 0, cached_tokens or 0)


@dataclass(slots=True)
class _Completion:
    choices: list[_Choice] | None = None
    model: str | None = None
    usage: _Usage | None = None
    error: Any = None
    first_token_s: float | None = None


@dataclass(slots=True)
class _ChoiceDelta:
    delta: _Message | None = None
    index: int = 0
    finish_reason: str | None = None


@dataclass(slots=True)
class _Chunk:
    choices: list[_ChoiceDelta] | None = None
    model: str | None = None
    usage: _Usage | None = None
    error: Any = None


@dataclass(slots=True)
class _Vector:
    embedding: list[float]
    index: int = 0


@dataclass(slots=True)
class _Vectors:
    data: list[_Vector] | None = None
    model: str | None = None
    usage: _Usage | None = None


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
        return "".join(part.text or part.refusal or "" for part in content)
    return content or ""


def _tool_call(call: _Call) -> ToolCall:
    if call.function is not None:
        arguments: Mapping[str, Any] | str = call.function.arguments or ""
        if isinstance(arguments, str):
            arguments = read_arguments(arguments)
        return ToolCall(call.function.name or "", arguments, call.id)
    if call.custom is not None:
        return ToolCall(call.custom.name, call.custom.input, call.id)
    return ToolCall("", {}, call.id)


def _add_piece(calls: list[_Call], piece: _Call) -> None:
    """Add a piece of a streamed tool call to the call that it belongs to, or as a new one.

    Some endpoints send whole calls, without an index or all with index 0: an id of its own makes
    another call, too.
    """
    function = piece.function or _Function()
    for call in reversed(calls):
        same_index = piece.index is None or call.index == piece.index
        if not same_index:
            continue
        if piece.id and call.id and piece.id != call.id:
            break
        assert call.function is not None
        call.id = call.id or piece.id
        call.function.name = call.function.name or function.name
        call.function.arguments = _join(call.function.arguments, function.arguments)
        return
    new = _Function(function.name, function.arguments)
    calls.append(_Call(piece.id, new, index=piece.index))


def _join(
    arguments: str | dict[str, Any] | None, more: str | dict[str, Any] | None
) -> str | dict[str, Any] | None:
    if isinstance(arguments, str) and isinstance(more, str):
        return arguments + more
    return more or arguments
