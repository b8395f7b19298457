"""The mock behind an OpenAI-compatible HTTP endpoint, so that a config can be tried without a
key.
"""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import Field, TypeAdapter, ValidationError

from ci_evals.errors import ErrorKind, ProviderError, UsageError
from ci_evals.model.case import Case
from ci_evals.model.fields import first_problem
from ci_evals.model.request import Request
from ci_evals.model.response import Message, Response, ToolCall, Usage
from ci_evals.providers.http_messages import END_OF_STREAM, authority
from ci_evals.providers.mock import MODEL, Mock, MockProvider

Log = Callable[[str], None]

_MAX_REQUEST_BYTES = 50 * 1024 * 1024
_TIMEOUT_S = 3600.0
_ERROR_TYPES: dict[ErrorKind, str] = {"server": "server_error", "rate_limit": "rate_limit_error"}


@dataclass(frozen=True, slots=True)
class _Part:
    type: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class _Message:
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[_Part] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""

    @property
    def turn(self) -> Message:
        match self.role:
            case "developer":
                return Message("system", self.text)
            case "function":
                return Message("tool", self.text)
            case role:
                return Message(role, self.text)


@dataclass(frozen=True, slots=True)
class _Body:
    model: str
    messages: Annotated[list[_Message], Field(min_length=1)]
    stream: bool | None = None
    n: int | None = None


async def serve(options: Mock, host: str, port: int, *, log: Log) -> None:
    """Serve until cancelled. `log` gets the URL to use as `base_url`, then a line per request.

    Raises:
        UsageError: the address cannot be listened on.
    """
    async with run_server(options, host=host, port=port, log=log) as url:
        log(f"mock server at {url} (Ctrl-C ends it)")
        await asyncio.Event().wait()


@asynccontextmanager
async def run_server(
    options: Mock, *, host: str = "127.0.0.1", port: int = 0, log: Log | None = None
) -> AsyncIterator[str]:
    """Serve for as long as the context lasts; gives the URL that clients use as `base_url`.

    Raises:
        UsageError: the address cannot be listened on.
    """
    runner = web.AppRunner(application(options, log), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            reason = reason.rpartition(": ")[2]  # asyncio says more before it
            advice = "try another --host, or another --port, of which 0 takes any"
            raise UsageError(f"cannot listen on {host}:{port}: {reason}; {advice}") from error
        bound_port = runner.addresses[0][1]
        yield f"http://{authority(host, bound_port)}/v1"
    finally:
        await runner.cleanup()


def application(options: Mock, log: Log | None = None) -> web.Application:
    """Return the endpoint as an aiohttp application.

    It knows no cases: the last user message finds the answer.
    """
    endpoint = _Endpoint(options, log or (lambda _: None))
    app = web.Application(client_max_size=_MAX_REQUEST_BYTES)
    app.router.add_post("/v1/chat/completions", endpoint.complete)
    app.router.add_get("/v1/models", endpoint.models)
    app.router.add_route("*", "/{path:.*}", endpoint.not_found)
    return app


class _Endpoint:
    def __init__(self, options: Mock, log: Log) -> None:
        self._provider = MockProvider(options)
        self._log = log
        self._ids = count(1)
        self._asked: Counter[str] = Counter()
        self._body = TypeAdapter(_Body)

    async def complete(self, http: web.Request) -> web.StreamResponse:
        try:
            body = self._parse(await http.read())
            response = await self._provider.answer(self._request(body))
        except ValueError as error:
            return self._refuse(http, 400, "invalid_request_error", str(error))
        except ProviderError as error:
            headers = {}
            if error.retry_after_s is not None:
                headers["Retry-After"] = f"{error.retry_after_s:g}"
            kind = _ERROR_TYPES.get(error.kind, "invalid_request_error")
            return self._refuse(http, error.status or 400, kind, error.message, headers)
        completion = _completion(response, body.model, f"chatcmpl-mock-{next(self._ids)}")
        if body.stream:
            return await self._stream(http, completion)
        return self._reply(http, 200, completion)

    async def models(self, http: web.Request) -> web.Response:
        model = {
            "id": MODEL,
            "object": "model",
            "created": 0,
            "owned_by": "ci-evals",
        }
        return self._reply(http, 200, {"object": "list", "data": [model]})

    async def not_found(self, http: web.Request) -> web.Response:
        served = "POST /v1/chat/completions and GET /v1/models; a base_url ends in /v1"
        text = f"{http.method} {http.path} is not served: there are {served}"
        return self._refuse(http, 404, "invalid_request_error", text)

    def _parse(self, raw: bytes) -> _Body:
        try:
            body = self._body.validate_json(raw)
        except ValidationError as error:
            problem = first_problem(error)
            raise ValueError(f"the request is not in the documented shape: {problem}") from None
        if body.n not in (None, 1):
            raise ValueError("the mock server gives one choice: leave 'n' out or set it to 1")
        return body

    def _request(self, body: _Body) -> Request:
        text = ""
        for message in body.messages:
            if message.role == "user":
                text = message.text
        self._asked[text] += 1  # the same question again is another run, with draws of its own
        turns = tuple(message.turn for message in body.messages)
        return Request(text, turns, Case(id=""), self._asked[text], _TIMEOUT_S)

    async def _stream(self, http: web.Request, completion: dict[str, Any]) -> web.StreamResponse:
        """Answer word by word; the usage comes last, even if it was not asked for."""
        self._log(f"{http.method} {http.path!r} 200")
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(http)
        for chunk in _chunks(completion):
            await stream.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await stream.write(f"data: {END_OF_STREAM}\n\n".encode())
        return stream

    def _refuse(
        self,
        http: web.Request,
        status: int,
        kind: str,
        message: str,
        headers: dict[str, str] | None = None,
    ) -> web.Response:
        error = {
            "message": message,
            "type": kind,
            "param": None,
            "code": None,
        }
        return self._reply(http, status, {"error": error}, headers)

    def _reply(
        self,
        http: web.Request,
        status: int,
        body: dict[str, Any],
        headers: dict[str, str] | None = None,
    ) -> web.Response:
        self._log(f"{http.method} {http.path!r} {status}")
        return web.json_response(body, status=status, headers=headers)


def _completion(response: Response, model: str, completion_id: str) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": response.output,
        "refusal": None,
    }
    if response.tool_calls:
        message["content"] = response.output or None
        message["tool_calls"] = [
            _tool_call(call, index) for index, call in enumerate(response.tool_calls)
        ]
    usage = response.usage or Usage()
    return {
        "id": completion_id,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": response.finish_reason,
                "logprobs": None,
            }
        ],
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
        },
    }


def _chunks(completion: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the chunks of a completion."""
    choice = completion["choices"][0]
    message = choice["message"]
    shared = {**completion, "object": "chat.completion.chunk"}

    def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choices = [
            {
                "index": 0,
                "delta": delta,
                "finish_reason": finish_reason,
                "logprobs": None,
            }
        ]
        return {
            **shared,
            "choices": choices,
            "usage": None,
        }

    yield chunk({"role": "assistant", "content": ""})
    for word in re.findall(r"\s*\S+\s*$|\s*\S+", message["content"] or ""):
        yield chunk({"content": word})
    for index, call in enumerate(message.get("tool_calls", ())):
        yield chunk({"tool_calls": [{"index": index, **call}]})
    yield chunk({}, choice["finish_reason"])
    yield {**shared, "choices": []}


def _tool_call(call: ToolCall, index: int) -> dict[str, Any]:
    arguments = call.arguments
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    function = {"name": call.name, "arguments": arguments}
    return {
        "id": call.id or f"call_{index}",
        "type": "function",
        "function": function,
    }
