"""Any OpenAI-compatible chat endpoint: `POST {base_url}/chat/completions`."""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from ci_evals.errors import ProviderError
from ci_evals.model import Request
from ci_evals.providers.base import Provider, Resources
from ci_evals.providers.wire import Endpoint, ModelOptions, kind_of, readable
from ci_evals.response import Message, Response, ToolCall, Usage


class OpenAI(ModelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="openai"):
    """OpenAI's chat completions, or any endpoint that speaks like them."""

    default_key_variable: ClassVar[str] = "OPENAI_API_KEY"
    vendor_host: ClassVar[str] = "api.openai.com"

    base_url: str = "https://api.openai.com/v1"

    def open(self, resources: Resources) -> Provider:
        return ChatCompletions(self.opened(resources, "chat/completions"))

    def opened(self, resources: Resources, path: str) -> Endpoint:
        """What is at `path` below the base URL, with the key and the fields of every call."""
        key = {"Authorization": f"Bearer {self.api_key.reveal().strip()}"} if self.api_key else {}
        return self.endpoint(resources, path, key, {"model": self.model, **self.params})


class ChatCompletions:
    """The live endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._takes_schema = True

    async def answer(self, request: Request) -> Response:
        fields = {"messages": [_turn(message) for message in request.messages]}
        if request.schema is None:
            completion = await self._endpoint.ask(fields, _decoder, request.timeout_s)
        else:
            completion = await self._held(fields, request.schema, request.timeout_s)
        if not completion.choices:
            raise _no_choice(completion.error, self._endpoint.url.host)
        choice = completion.choices[0]
        message = choice.message
        return Response(
            output=_text(message.content) or message.refusal or "",
            tool_calls=tuple(map(_tool_call, message.tool_calls)) if message.tool_calls else (),
            usage=_usage(completion.usage),
            model=completion.model,
            finish_reason=choice.finish_reason,
        )

    async def _held(self, fields: Mapping[str, Any], schema: Mapping[str, Any], timeout_s: float) -> "_Completion":
        """Hold the model to a schema, unless the endpoint turns out not to know how."""
        if self._takes_schema and "response_format" not in self._endpoint.fields:
            held = {**fields, "response_format": _held_to(schema)}
            try:
                return await self._endpoint.ask(held, _decoder, timeout_s)
            except ProviderError as error:
                if error.status not in (400, 422):
                    raise
                self._takes_schema = False
        return await self._endpoint.ask(fields, _decoder, timeout_s)


def _held_to(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}


def _turn(message: Message) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        turn["tool_calls"] = [_asked(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        turn["tool_call_id"] = message.tool_call_id
    return turn


def _asked(call: ToolCall) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, str) else msgspec.json.encode(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


# The answer, as far as it is needed.


class _Function(Struct, gc=False):
    name: str
    arguments: str | dict[str, Any] | None = None


class _Custom(Struct, gc=False):
    name: str
    input: str = ""


class _Call(Struct, gc=False):
    id: str | None = None
    function: _Function | None = None
    custom: _Custom | None = None


class _Part(Struct, gc=False):
    text: str | None = None
    refusal: str | None = None


class _Message(Struct, gc=False):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Struct, gc=False):
    message: _Message
    finish_reason: str | None = None


class _InputDetails(Struct, gc=False):
    cached_tokens: int | None = None


class _Usage(Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _InputDetails | None = None


class _Completion(Struct, gc=False):
    choices: list[_Choice] | None = None
    model: str | None = None
    usage: _Usage | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Completion)


def _text(content: str | list[_Part] | None) -> str:
    if isinstance(content, list):
        return "".join(part.text or part.refusal or "" for part in content)
    return content or ""


def _tool_call(call: _Call) -> ToolCall:
    if call.function is not None:
        arguments = call.function.arguments or ""
        decoded = tool_arguments(arguments) if isinstance(arguments, str) else arguments
        return ToolCall(call.function.name, decoded, call.id)
    if call.custom is not None:
        return ToolCall(call.custom.name, call.custom.input, call.id)
    return ToolCall("", {}, call.id)


def tool_arguments(text: str) -> Mapping[str, Any] | str:
    """The arguments that a model wrote for a tool: decoded if they are a JSON object, else their text as it is."""
    if not text.strip():
        return {}
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def _usage(usage: _Usage | None) -> Usage | None:
    if usage is None:
        return None
    details = usage.prompt_tokens_details
    cached = details.cached_tokens if details is not None else None
    return Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0, cached or 0)


def _no_choice(error: object, host: str | None) -> ProviderError:
    """A gateway's answer of status 200 whose model failed: the status is in the body, if anywhere."""
    match error:
        case {"message": str(message), "code": int(code)} if 400 <= code < 600:
            return ProviderError(kind_of(code), f"{host} answered {code}: {readable(message)}", status=code)
        case {"message": str(message)} | str(message):
            return ProviderError("bad_answer", f"{host} answered without a choice: {readable(message)}")
        case _:
            return ProviderError(
                "bad_answer", f"{host} answered without a choice: is this a chat completions endpoint?"
            )
