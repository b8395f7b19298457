"""Serves the mock at the endpoints of model APIs, so that a config can be tried without a key."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from ci_evals.errors import ProviderError, UsageError
from ci_evals.model.case import Case
from ci_evals.model.fields import first_problem
from ci_evals.model.request import Request
from ci_evals.model.response import Message
from ci_evals.providers.http_messages import authority
from ci_evals.providers.mock import MODEL, Mock, MockProvider
from ci_evals.providers.mock_apis import (
    AnthropicMessages,
    BedrockConverse,
    ChatCompletions,
    EmbeddingsBody,
    GenerateContent,
    ModelApi,
    Responses,
    openai_error,
    render_embeddings,
)

Log = Callable[[str], None]

_MAX_REQUEST_BYTES = 50 * 1024 * 1024
_TIMEOUT_S = 3600.0
_SERVED = (
    "POST /v1/chat/completions, /v1/responses, /v1/embeddings (a base_url ends in /v1),"
    " /v1/messages, /v1/models/MODEL:generateContent, /v1beta/models/MODEL:generateContent,"
    " /v1/projects/PROJECT/locations/LOCATION/publishers/google/models/MODEL:generateContent and"
    " /model/MODEL/converse, and GET /v1/models"
)
_BASE = "/{base:(?:v1/)?}"
"""The start of paths to which SDKs add the version themselves: the URL of this server, which ends
in /v1, serves as their base_url, too.
"""


async def serve(options: Mock, host: str, port: int, *, log: Log) -> None:
    """Serve until cancelled. `log` gets the URL to use as `base_url`, then a line per request.

    Raises:
        UsageError: the address cannot be used.
    """
    async with run_server(options, host=host, port=port, log=log) as url:
        log(f"mock server at {url} (Ctrl-C ends it)")
        await asyncio.Event().wait()


@asynccontextmanager
async def run_server(
    options: Mock, *, host: str = "127.0.0.1", port: int = 0, log: Log | None = None
) -> AsyncIterator[str]:
    """Serve while the context lasts; yield the URL that clients use as `base_url`.

    Raises:
        UsageError: the address cannot be used.
    """
    runner = web.AppRunner(application(options, log), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            reason = reason.rpartition(": ")[2]  # asyncio's text repeats the address before it
            advice = "try another --host or --port (0 takes any free port)"
            raise UsageError(f"cannot listen on {host}:{port}: {reason}; {advice}") from error
        bound_port = runner.addresses[0][1]
        yield f"http://{authority(host, bound_port)}/v1"
    finally:
        await runner.cleanup()


def application(options: Mock, log: Log | None = None) -> web.Application:
    """Return the endpoints as an aiohttp application.

    It has no cases: the last user message selects the answer.
    """
    endpoint = _Endpoint(options, log or (lambda _: None))
    app = web.Application(client_max_size=_MAX_REQUEST_BYTES)
    gemini = GenerateContent()
    google = "{method:generateContent|streamGenerateContent}"
    vertex = "/v1/projects/{project}/locations/{location}/publishers/google/models/{model}"
    for path, api in (
        ("/v1/chat/completions", ChatCompletions()),
        ("/v1/responses", Responses()),
        (f"{_BASE}v1/messages", AnthropicMessages()),
        (f"{_BASE}{{version:v1|v1alpha|v1beta}}/{{model:models/.+}}:{google}", gemini),
        (f"{vertex}:{google}", gemini),
        ("/model/{model}/{method:converse|converse-stream}", BedrockConverse()),
    ):
        app.router.add_post(path, partial(endpoint.answer, api, TypeAdapter(api.body)))
    app.router.add_post("/v1/embeddings", endpoint.embed)
    app.router.add_get(f"{_BASE}{{version:v1|v1alpha|v1beta}}/models", endpoint.models)
    app.router.add_get(f"{_BASE}{{version:v1|v1alpha|v1beta}}/models/{{model}}", endpoint.model)
    app.router.add_route("*", "/{path:.*}", endpoint.not_found)
    return app


class _Endpoint:
    def __init__(self, options: Mock, log: Log) -> None:
        self._provider = MockProvider(options)
        self._log = log
        self._ids = count(1)
        self._times_asked: Counter[str] = Counter()
        self._embeddings = TypeAdapter(EmbeddingsBody)

    async def answer(
        self, api: ModelApi, adapter: TypeAdapter[Any], http: web.Request
    ) -> web.StreamResponse:
        """Answer in the shape of a model API, at once or as a stream."""
        try:
            body = _parse(adapter, await http.read())
            response = await self._provider.answer(self._request(body.turns))
        except ValueError as error:
            return self._reply(http, 400, api.error(400, None, str(error)))
        except ProviderError as error:
            headers = {}
            if error.retry_after_s is not None:
                headers["Retry-After"] = f"{error.retry_after_s:g}"
            status = error.status or 400
            refusal = api.error(status, error.kind, error.message)
            return self._reply(http, status, refusal, headers)
        if "model" in http.match_info:  # Google and AWS have it in the path, others in the body
            model = http.match_info["model"].rpartition("/")[2]
            is_streamed = http.match_info["method"] in ("streamGenerateContent", "converse-stream")
        else:
            model, is_streamed = body.model, bool(body.stream)
        answer = api.render(response, model, next(self._ids))
        if is_streamed:
            return await self._stream(http, api, answer)
        return self._reply(http, 200, answer)

    async def embed(self, http: web.Request) -> web.Response:
        """Answer with vectors."""
        try:
            body = _parse(self._embeddings, await http.read())
        except ValueError as error:
            return self._reply(http, 400, openai_error(None, str(error)))
        return self._reply(http, 200, render_embeddings(body))

    async def models(self, http: web.Request) -> web.Response:
        """List the one model, in the shapes of all APIs at once."""
        model = _describe_model(MODEL)
        return self._reply(http, 200, {"object": "list", "data": [model], "models": [model]})

    async def model(self, http: web.Request) -> web.Response:
        """Describe a model of any name, as each answers."""
        return self._reply(http, 200, _describe_model(http.match_info["model"]))

    async def not_found(self, http: web.Request) -> web.Response:
        text = f"{http.method} {http.path} is not served; available: {_SERVED}"
        return self._reply(http, 404, openai_error(None, text))

    def _request(self, turns: Sequence[Message]) -> Request:
        text = ""
        for turn in turns:
            if turn.role == "user":
                text = turn.text
        if turns[-1].role != "tool":
            # The same question again is another run, with its own draws of faults.
            self._times_asked[text] += 1
        return Request(text, tuple(turns), Case(id=""), self._times_asked[text], _TIMEOUT_S)

    async def _stream(
        self, http: web.Request, api: ModelApi, answer: dict[str, Any]
    ) -> web.StreamResponse:
        self._log(f"{http.method} {http.path!r} 200")
        stream = web.StreamResponse(headers={"Content-Type": api.stream_type})
        await stream.prepare(http)
        for name, data in api.events(answer):
            await stream.write(api.frame(name, data))
        if api.end_of_stream:
            await stream.write(f"data: {api.end_of_stream}\n\n".encode())
        return stream

    def _reply(
        self,
        http: web.Request,
        status: int,
        body: dict[str, Any],
        headers: dict[str, str] | None = None,
    ) -> web.Response:
        self._log(f"{http.method} {http.path!r} {status}")
        return web.json_response(body, status=status, headers=headers)


def _describe_model(name: str) -> dict[str, Any]:
    return {
        "id": name,
        "name": f"models/{name}",
        "object": "model",
        "created": 0,
        "owned_by": "ci-evals",
    }


def _parse(body: TypeAdapter[Any], raw: bytes) -> Any:
    """Return the body of a request.

    Raises:
        ValueError: the body has another shape.
    """
    try:
        return body.validate_json(raw)
    except ValidationError as error:
        problem = first_problem(error)
        raise ValueError(f"the request is not in the documented shape: {problem}") from None
