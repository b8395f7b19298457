"""A real HTTP server on loopback that remembers what it was sent and answers as it was told."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from aiohttp import web
from loopback import on_loopback

from ci_evals.engine.resources import open_resources
from ci_evals.model.case import Case
from ci_evals.model.request import Request
from ci_evals.model.response import Message, Response
from ci_evals.providers.base import ProviderOptions, Resources

LONG_S = 60.0
"""For programs, which take their time to start on a busy machine."""
T = TypeVar("T")
Respond = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Seen(NamedTuple):
    """One request as it arrived."""

    method: str
    path: str  # as sent, with its query
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Scripted(NamedTuple):
    """One answer to give; a `body` that is no bytes or text is sent as JSON."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = {}


class FakeServer:
    """Gives the scripted answers in turn and repeats the last; `seen` has all requests in order."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.url = ""
        self._script: deque[Scripted | Respond] = deque()

    def answers(self, *script: Scripted | Respond) -> None:
        """Answer with these from now on; a function is called with the request and answers it."""
        self._script = deque(script)

    async def respond(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(
            Seen(request.method, request.raw_path, request.headers.copy(), await request.read())
        )
        scripted = self._script.popleft() if len(self._script) > 1 else self._script[0]
        if not isinstance(scripted, Scripted):
            return await scripted(request)
        return web.Response(
            body=_encoded(scripted.body), status=scripted.status, headers=_typed(scripted)
        )


@asynccontextmanager
async def serving() -> AsyncIterator[FakeServer]:
    """A fake server on a free port of loopback; `server.url` is where."""
    server = FakeServer()
    app = web.Application(client_max_size=256 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", server.respond)
    async with on_loopback(app) as server.url:
        yield server


def _encoded(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def _typed(scripted: Scripted) -> Mapping[str, str]:
    kind = "text/html" if isinstance(scripted.body, str) else "application/json"
    return {"Content-Type": kind, **scripted.headers}


async def never(request: web.Request) -> web.StreamResponse:
    """Never answers; ends when the client goes."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def event(data: Any, name: str = "") -> bytes:
    """A server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    lines = [f"event: {name}"] if name else []
    return "\n".join([*lines, *(f"data: {line}" for line in text.split("\n")), "", ""]).encode()


def streaming(
    pieces: Iterable[bytes],
    *,
    breaks: bool = False,
    kind: str = "text/event-stream; charset=utf-8",
) -> Respond:
    """Sends each piece by itself, then ends, or drops the connection.

    `kind` is the content type.
    """

    async def respond(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": kind})
        stream.enable_chunked_encoding()
        await stream.prepare(request)
        for piece in pieces:
            await stream.write(piece)
        if breaks:
            assert request.transport is not None
            request.transport.abort()
        return stream

    return respond


@dataclass
class FakeResources:
    """What a provider gets from the engine."""

    folder: Path
    max_concurrency: int
    stack: AsyncExitStack
    observe: Callable[[Mapping[str, str]], None] = lambda _: None
    files: Path | None = None
    made: dict[Any, Any] = field(default_factory=dict)

    def shared(self, make: Callable[[Resources], T]) -> T:
        if make not in self.made:
            self.made[make] = make(self)
        return self.made[make]  # type: ignore[no-any-return]  # `make` made it


@asynccontextmanager
async def fake_resources() -> AsyncIterator[FakeResources]:
    """Resources for one test; what a provider opens is closed in the end."""
    async with AsyncExitStack() as stack:
        yield FakeResources(Path.cwd(), 8, stack)


async def ask(
    options: ProviderOptions, resources: Resources, *messages: Message, **changes: Any
) -> Response:
    """Open a provider and ask it what `request_of` makes of these."""
    return await options.open(resources).answer(request_of(*messages, **changes))


async def ask_in_folder(
    options: ProviderOptions, folder: Path = Path(), request: Request | None = None
) -> Response:
    """Ask a provider that has what the engine gives to those of a suite in a folder."""
    async with open_resources(folder, 4) as resources:
        return await options.open(resources).answer(request or request_of(timeout_s=LONG_S))


async def answered(
    server: FakeServer,
    resources: Resources,
    options: ProviderOptions,
    body: Any,
    *messages: Message,
    **changes: Any,
) -> Response:
    """Ask a provider whose server answers with a body."""
    server.answers(Scripted(body))
    return await ask(options, resources, *messages, **changes)


def request_of(*messages: Message, case: Case | None = None, **changes: Any) -> Request:
    """A request that says hello, with five seconds to answer."""
    turns = messages or (Message("user", "Hello!"),)
    defaults: dict[str, Any] = {"input": turns[-1].content, "run": 1, "timeout_s": 5.0}
    return Request(messages=turns, case=case or Case(id="hello"), **(defaults | changes))
