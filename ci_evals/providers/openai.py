"""Any OpenAI-compatible chat endpoint: `POST {base_url}/chat/completions`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pydantic import TypeAdapter

from ci_evals.errors import ProviderError
from ci_evals.model.case import Request
from ci_evals.model.response import Message, Part, Response, ToolCall, Usage
from ci_evals.providers.answer import encode_json, read_arguments
from ci_evals.providers.base import Provider, Resources
from ci_evals.providers.http_client import END_OF_STREAM, Event, Reply, kind_of, readable
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
        streaming = (
            {"stream": True, "stream_options": {"include_usage": True}} if self.stream else {}
        )
        fields = {"model": self.model, **streaming, **self.params}
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
        return (
            [*found, "stream: embeddings are not streamed; leave it out"] if self.stream else found
        )

    def open(self, resources: Resources) -> Provider:
        return EmbeddingsEndpoint(
            self.endpoint(resources, "embeddings", {"model": self.model, **self.params})
        )


class ChatCompletions:
    """The live chat endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._takes_schema = True

    async def answer(self, request: Request) -> Response:
        fields = {
            "messages": [
                _turn(message, self._endpoint.resources.folder) for message in request.messages
            ]
        }
        if request.schema is None:
            reply = await self._endpoint.post(fields, request.timeout_s)
        else:
            reply = await self._post_with_schema(fields, request.schema, request.timeout_s)
        first_token_s = None
        if reply.events is None:
            completion = self._endpoint.read(_completion, reply)
        else:
            completion, first_token_s = self._assemble(reply.events)
        if not completion.choices:
            raise _no_choice(completion.error, self._endpoint.url.host)
        choice = completion.choices[0]
        message = choice.message
        return Response(
            output=_text(message.content) or message.refusal or "",
            tool_calls=tuple(map(_tool_call, message.tool_calls)) if message.tool_calls else (),
            usage=completion.usage.tokens if completion.usage else None,
            model=completion.model,
            finish_reason=choice.finish_reason,
            cost_usd=completion.usage.cost_usd
            if reply.cost_usd is None and completion.usage
            else reply.cost_usd,
            first_token_s=first_token_s,
        )

    async def _post_with_schema(
        self, fields: Mapping[str, Any], schema: Mapping[str, Any], timeout_s: float
    ) -> Reply:
        """Constrain the answer to a schema, unless the endpoint turns out not to know how."""
        if self._takes_schema and "response_format" not in self._endpoint.fields:
            named = {"name": "answer", "schema": schema, "strict": True}
            constrained = {
                **fields,
                "response_format": {"type": "json_schema", "json_schema": named},
            }
            try:
                return await self._endpoint.post(constrained, timeout_s)
            except ProviderError as error:
                if error.status not in (400, 422):
                    raise
                self._takes_schema = False
        return await self._endpoint.post(fields, timeout_s)

    def _assemble(self, events: Sequence[Event]) -> "tuple[_Completion, float | None]":
        """Return a streamed completion as if it had come at once, and when its first token came.

        Raises:
            ProviderError: it was broken off, or an event has another shape.
        """
        text: list[str] = []
        refusal: list[str] = []
        calls: list[_CallInProgress] = []
        model = usage = finish_reason = first_token_s = None
        for chunk, after_s in self._endpoint.read_events(_chunk, events):
            match chunk.error:
                case None:
                    pass
                case {"message": str(), "code": int()}:
                    raise _no_choice(chunk.error, self._endpoint.url.host)
                case {"message": str(why)} | str(why):
                    raise self._endpoint.broken_off(why)
                case _:
                    raise self._endpoint.broken_off()
            model, usage = chunk.model or model, chunk.usage or usage
            for choice in chunk.choices or ():
                if choice.index:
                    continue
                finish_reason = choice.finish_reason or finish_reason
                delta = choice.delta or _Delta()
                if first_token_s is None and (delta.content or delta.refusal or delta.tool_calls):
                    first_token_s = after_s
                text.append(_text(delta.content))
                refusal.append(delta.refusal or "")
                for part in delta.tool_calls or ():
                    _add(calls, part)
        if finish_reason is None and all(event.data != END_OF_STREAM for event in events):
            raise self._endpoint.broken_off()
        said = [_Call(each.id, _Function(each.name, "".join(each.arguments))) for each in calls]
        message = _Message("".join(text), "".join(refusal), said)
        return _Completion([_Choice(message, finish_reason)], model, usage), first_token_s


class EmbeddingsEndpoint:
    """The live embeddings endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def answer(self, request: Request) -> Response:
        given: Any = request.input
        texts = [str(text) for text in given] if isinstance(given, list | tuple) else [str(given)]
        answer, cost_usd = await self._endpoint.ask({"input": texts}, _vectors, request.timeout_s)
        vectors = sorted(answer.data or (), key=lambda vector: vector.index)
        if len(vectors) != len(texts):
            text = f"{self._endpoint.url.host} answered with {len(vectors)} embeddings of {len(texts)} texts"
            raise ProviderError("bad_answer", f"{text}: is this an embeddings endpoint?")
        return Response(
            encode_json([vector.embedding for vector in vectors]).decode(),
            usage=answer.usage.tokens if answer.usage else None,
            model=answer.model,
            cost_usd=cost_usd,
        )


def _turn(message: Message, folder: Path) -> dict[str, Any]:
    said = (
        message.content
        if isinstance(message.content, str)
        else [_part(part, folder) for part in message.content]
    )
    turn: dict[str, Any] = {"role": message.role, "content": said}
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
        text = f"chat completions take no address of a file ({sent.url}): put it beside the suite and name its path"
        raise ProviderError("rejected", readable(text))
    return {"type": "file", "file": {"filename": sent.name, "file_data": sent.data_url}}


def _call_fields(call: ToolCall) -> dict[str, Any]:
    arguments = (
        call.arguments if isinstance(call.arguments, str) else encode_json(call.arguments).decode()
    )
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


# The answers, as far as they are needed.


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    arguments: str | dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Custom:
    name: str
    input: str = ""


@dataclass(frozen=True, slots=True)
class _Call:
    id: str | None = None
    function: _Function | None = None
    custom: _Custom | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    text: str | None = None
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class _Message:
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


@dataclass(frozen=True, slots=True)
class _Choice:
    message: _Message
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class _InputDetails:
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class _Usage:
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _InputDetails | None = None
    cost: Any = None

    @property
    def cost_usd(self) -> float | None:
        """The cost of the answer, as OpenRouter tells it."""
        return (
            float(self.cost)
            if isinstance(self.cost, int | float) and 0 <= self.cost < math.inf
            else None
        )

    @property
    def tokens(self) -> Usage:
        details = self.prompt_tokens_details
        return Usage(
            self.prompt_tokens or 0,
            self.completion_tokens or 0,
            (details and details.cached_tokens) or 0,
        )


@dataclass(frozen=True, slots=True)
class _Completion:
    choices: list[_Choice] | None = None
    model: str | None = None
    usage: _Usage | None = None
    error: Any = None


@dataclass(frozen=True, slots=True)
class _Vector:
    embedding: list[float]
    index: int = 0


@dataclass(frozen=True, slots=True)
class _Vectors:
    data: list[_Vector] | None = None
    model: str | None = None
    usage: _Usage | None = None


@dataclass(frozen=True, slots=True)
class _CallDelta:
    index: int | None = None
    id: str | None = None
    function: "_FunctionDelta | None" = None


@dataclass(frozen=True, slots=True)
class _FunctionDelta:
    name: str | None = None
    arguments: str | None = None


@dataclass(frozen=True, slots=True)
class _Delta:
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[_CallDelta] | None = None


@dataclass(frozen=True, slots=True)
class _ChoiceDelta:
    delta: _Delta | None = None
    index: int = 0
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Chunk:
    choices: list[_ChoiceDelta] | None = None
    model: str | None = None
    usage: _Usage | None = None
    error: Any = None


@dataclass(slots=True)
class _CallInProgress:
    """A tool call whose parts are still coming."""

    index: int | None
    id: str | None
    name: str = ""
    arguments: list[str] = field(default_factory=list)


_completion = TypeAdapter(_Completion)
_chunk = TypeAdapter(_Chunk)
_vectors = TypeAdapter(_Vectors)


def _text(content: str | list[_Part] | None) -> str:
    if isinstance(content, list):
        return "".join(part.text or part.refusal or "" for part in content)
    return content or ""


def _tool_call(call: _Call) -> ToolCall:
    if call.function is not None:
        arguments = call.function.arguments or ""
        decoded = read_arguments(arguments) if isinstance(arguments, str) else arguments
        return ToolCall(call.function.name, decoded, call.id)
    if call.custom is not None:
        return ToolCall(call.custom.name, call.custom.input, call.id)
    return ToolCall("", {}, call.id)


def _add(calls: list[_CallInProgress], part: _CallDelta) -> None:
    """Add a part of a tool call to the call that it belongs to, or as a new one.

    Some endpoints send whole calls, without an index or all with index 0: an id of its own makes
    another call, too.
    """
    known = next(
        (call for call in reversed(calls) if part.index is None or call.index == part.index), None
    )
    if known is None or (part.id and known.id and part.id != known.id):
        calls.append(known := _CallInProgress(part.index, part.id))
    known.id = known.id or part.id
    if part.function is not None:
        known.name = known.name or part.function.name or ""
        known.arguments.append(part.function.arguments or "")


def _no_choice(error: object, host: str | None) -> ProviderError:
    """Return the error in an answer of status 200, as gateways give it: the real status is in the
    body, if anywhere.
    """
    match error:
        case {"message": str(message), "code": int(code)} if 400 <= code < 600:
            return ProviderError(
                kind_of(code), f"{host} answered {code}: {readable(message)}", status=code
            )
        case {"message": str(message)} | str(message):
            return ProviderError(
                "bad_answer", f"{host} answered without a choice: {readable(message)}"
            )
        case _:
            return ProviderError(
                "bad_answer",
                f"{host} answered without a choice: is this a chat completions endpoint?",
            )
