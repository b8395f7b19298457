"""A GitHub on loopback that keeps state, limits and GitHub's own description of its API."""

import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, NamedTuple

from aiohttp import web
from loopback import on_loopback
from yarl import URL

from fakes.github_contract import Exchange, violations
from fakes.github_routes import ROUTES, Asked, RefusedError, error_answer, json_answer
from fakes.github_state import REPOSITORY, State, Token
from fakes.virtual_time import VirtualTime

TOKEN = "ghs_0123456789abcdefghijABCDEFGHIJ012345"
REQUESTS_PER_HOUR = 1_000
WRITES_PER_MINUTE = 80
_WRITES = frozenset(("POST", "PATCH", "PUT"))


class Call(NamedTuple):
    """A request as it arrived: `path` is below the base path, and has its query."""

    method: str
    path: str
    at: float


class Fault(NamedTuple):
    """An answer in place of the real one; with `after`, the request takes effect all the same.

    A `status` of None breaks the connection.
    """

    matches: Callable[[str, str], bool]
    status: int | None
    headers: Mapping[str, str] = {}
    message: str = "Server Error"
    after: bool = False


class FakeGitHub:
    """GitHub at `api_url` with one repository, `acme/app`; `state` is its data.

    People open artifacts at `site_url`.

    `calls` has the requests. The next `lagging_lists` lists of comments are a minute old.

    Args:
        time: passes only as the fake's users wait.
        base_path: `/api/v3` as on an Enterprise Server.
        latency_s: seconds that a "request" or "answer" takes on its way.
    """

    def __init__(
        self,
        time: VirtualTime,
        base_path: str = "",
        latency_s: Callable[[str], float] = lambda _leg: 0.0,
    ) -> None:
        self.time = time
        self.calls: list[Call] = []
        self.broken: list[str] = []
        self.lagging_lists = 0
        self.storage_requests: list[Mapping[str, str]] = []
        self.storage_headers: Mapping[str, str] = {}
        self.api_url = ""
        self.site_url = ""
        self.state = State("", time.now)
        self.state.tokens[TOKEN] = Token()
        self._base_path = base_path
        self._latency_s = latency_s
        self._faults: deque[Fault] = deque()
        self.storage_url = ""
        self._used: Counter[int] = Counter()  # requests, by hour
        self._written_at: deque[float] = deque()

    def fails(self, *faults: Fault) -> None:
        """Answer the next requests that match with these, each once, in turn."""
        self._faults.extend(faults)

    def asked(self, method: str, pattern: str = "") -> list[Call]:
        """The requests of a method whose path matches."""
        return [
            call for call in self.calls if call.method == method and re.search(pattern, call.path)
        ]

    async def respond(self, request: web.Request) -> web.StreamResponse:
        sent = await request.read()
        await self._travel("request")
        self.state.now = self.time.now
        path = request.path.removeprefix(self._base_path)
        self.calls.append(
            Call(
                request.method,
                path + (f"?{request.query_string}" if request.query else ""),
                self.time.now,
            )
        )
        if not request.path.startswith(self._base_path):
            self.broken.append(f"{request.path} is not below {self._base_path}")
        fault = self._fault_for(request.method, path)
        if fault is None or fault.after:
            answer = self._limited(request) or self._routed(request, path, sent)
        if fault:
            if fault.status is None:
                return await self._cut(request)
            answer = error_answer(fault.status, fault.message, fault.headers)
        self._finish(request, answer)
        body = answer.body if isinstance(answer.body, bytes) else b""
        exchange = Exchange(
            request.method, path, request.query, sent, answer.status, answer.headers, body
        )
        self.broken.extend(violations(exchange))
        await self._travel("answer")
        return answer

    async def store(self, request: web.Request) -> web.StreamResponse:
        """The other host, where downloads are."""
        self.storage_requests.append(request.headers.copy())
        if (
            TOKEN in str(request.headers)
            or TOKEN in str(request.url)
            or "Authorization" in request.headers
        ):
            self.broken.append("the token was sent to the storage")
        fault = self._fault_for("STORAGE", request.path)
        if fault and fault.status:
            return error_answer(fault.status, fault.message, fault.headers)
        artifact = self.state.artifacts[int(request.match_info["id"])]
        kind = "text/html" if artifact.name.endswith(".html") else "application/zip"
        return web.Response(body=artifact.content, content_type=kind, headers=self.storage_headers)

    async def open_artifact(self, request: web.Request) -> web.StreamResponse:
        """The address of an artifact on GitHub's pages, for somebody who is logged in."""
        return self.redirect_to_storage(int(request.match_info["id"]))

    async def _travel(self, leg: str) -> None:
        if (seconds := self._latency_s(leg)) > 0:
            await self.time.sleep(seconds)

    async def _cut(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    def _fault_for(self, method: str, path: str) -> Fault | None:
        for fault in self._faults:
            if fault.matches(method, path):
                self._faults.remove(fault)
                return fault
        return None

    def _limited(self, request: web.Request) -> web.Response | None:
        """GitHub's limits: 1,000 requests an hour, 80 writes a minute."""
        hour = int(self.time.now // 3600)
        self._used[hour] += 1
        if self._used[hour] > REQUESTS_PER_HOUR:
            return error_answer(403, "API rate limit exceeded for installation.")
        if request.method in _WRITES:
            while self._written_at and self._written_at[0] <= self.time.now - 60:
                self._written_at.popleft()
            if len(self._written_at) >= WRITES_PER_MINUTE:
                return error_answer(
                    403, "You have exceeded a secondary rate limit.", {"retry-after": "60"}
                )
            self._written_at.append(self.time.now)
        return None

    def _finish(self, request: web.Request, answer: web.Response) -> None:
        hour = int(self.time.now // 3600)
        answer.headers["Date"] = format_datetime(
            datetime.fromtimestamp(self.time.now, UTC), usegmt=True
        )
        answer.headers.setdefault("x-ratelimit-limit", str(REQUESTS_PER_HOUR))
        answer.headers.setdefault(
            "x-ratelimit-remaining", str(max(0, REQUESTS_PER_HOUR - self._used[hour]))
        )
        answer.headers.setdefault("x-ratelimit-reset", str((hour + 1) * 3600))

    def _routed(self, request: web.Request, path: str, sent: bytes) -> web.Response:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        token = self.state.tokens.get(given) if scheme.lower() in ("bearer", "token") else None
        if token is None:
            return error_answer(401, "Bad credentials")
        for method, pattern, handler in ROUTES:
            found = re.fullmatch(pattern, path)
            if found and method == request.method:
                try:
                    return handler(self, Asked(request, token, found, sent))
                except RefusedError as refused:
                    return refused.answer
        return error_answer(404, "Not Found")

    def redirect_to_storage(self, artifact_id: int) -> web.Response:
        return web.Response(
            status=302, headers={"Location": f"{self.storage_url}/signed/{artifact_id}?sig=a%2Fb"}
        )

    def page(self, asked: Asked, items: list[Any], key: str | None = None) -> web.Response:
        """One page of a list, with `Link` to the others."""
        query = asked.request.query
        per_page = min(int(query.get("per_page", "30")), 100)
        number = int(query.get("page", "1"))
        last = max(1, -(-len(items) // per_page))
        shown = items[(number - 1) * per_page : number * per_page]
        url = URL(self.api_url).join(URL(asked.request.path_qs))
        links = {"next": number + 1, "last": last} if number < last else {"first": 1}
        link = ", ".join(f'<{url.update_query(page=to)}>; rel="{rel}"' for rel, to in links.items())
        return json_answer(
            {"total_count": len(items), key: shown} if key else shown, headers={"Link": link}
        )


@asynccontextmanager
async def github(
    time: VirtualTime | None = None,
    base_path: str = "",
    latency_s: Callable[[str], float] = lambda _leg: 0.0,
) -> AsyncIterator[FakeGitHub]:
    """A fake GitHub on loopback. Leaving fails if a request or answer breaks GitHub's contract."""
    fake = FakeGitHub(time or VirtualTime(), base_path, latency_s)
    async with AsyncExitStack() as stack:
        api = await _served(stack, "/{path:.*}", fake.respond)
        fake.api_url = fake.state.api_url = api + base_path
        fake.storage_url = await _served(stack, "/signed/{id}", fake.store)
        run = f"/{REPOSITORY}/actions/runs/{{run}}"
        fake.site_url = await _served(stack, f"{run}/artifacts/{{id}}", fake.open_artifact)
        yield fake
    assert not fake.broken, "\n".join(fake.broken)


async def _served(stack: AsyncExitStack, path: str, handler: Callable[[web.Request], Any]) -> str:
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", path, handler)
    return await stack.enter_async_context(on_loopback(app))
