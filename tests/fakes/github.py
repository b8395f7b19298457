"""A GitHub on loopback that keeps state, limits and GitHub's own description of its API."""

import json
import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, NamedTuple

from aiohttp import web
from yarl import URL

from fakes.github_contract import Exchange, example, violations
from fakes.github_state import REPOSITORY, State, Token
from fakes.virtual_time import VirtualTime

TOKEN = "ghs_0123456789abcdefghijABCDEFGHIJ012345"
MAX_COMMENT_BYTES = 262_144
REQUESTS_PER_HOUR = 1_000
WRITES_PER_MINUTE = 80
_WRITES = frozenset(("POST", "PATCH", "PUT"))


class Call(NamedTuple):
    """A request as it arrived: `path` is below the base path, and has its query."""

    method: str
    path: str
    at: float


class Fault(NamedTuple):
    """An answer in place of the real one. With `after`, what was asked for has happened all the same.

    A `status` of None breaks the connection.
    """

    matches: Callable[[str, str], bool]
    status: int | None
    headers: Mapping[str, str] = {}
    message: str = "Server Error"
    after: bool = False


class FakeGitHub:
    """GitHub with one repository, `acme/app`. `api_url` is where, `state` what it knows, `calls` what it was asked.

    The next `lagging_lists` lists of comments are of a minute ago.

    Args:
        time: passes only as the fake's users wait.
        base_path: `/api/v3` as on an Enterprise Server.
        latency_s: from "request" or "answer" to how long that takes on its way.
    """

    def __init__(
        self, time: VirtualTime, base_path: str = "", latency_s: Callable[[str], float] = lambda _leg: 0.0
    ) -> None:
        self.time = time
        self.calls: list[Call] = []
        self.broken: list[str] = []
        self.lagging_lists = 0
        self.storage_requests: list[Mapping[str, str]] = []
        self.api_url = ""
        self.state = State("", time.now)
        self.state.tokens[TOKEN] = Token()
        self._base_path = base_path
        self._latency_s = latency_s
        self._faults: deque[Fault] = deque()
        self._storage_url = ""
        self._used: Counter[int] = Counter()  # requests, by hour
        self._written_at: deque[float] = deque()

    def fails(self, *faults: Fault) -> None:
        """Answer the next requests that match with these, each once, in turn."""
        self._faults.extend(faults)

    def asked(self, method: str, pattern: str = "") -> list[Call]:
        """The requests of a method whose path matches."""
        return [call for call in self.calls if call.method == method and re.search(pattern, call.path)]

    async def respond(self, request: web.Request) -> web.StreamResponse:
        sent = await request.read()
        await self._travel("request")
        self.state.now = self.time.now
        path = request.path.removeprefix(self._base_path)
        self.calls.append(
            Call(request.method, path + (f"?{request.query_string}" if request.query else ""), self.time.now)
        )
        if not request.path.startswith(self._base_path):
            self.broken.append(f"{request.path} is not below {self._base_path}")
        fault = self._fault_for(request.method, path)
        if fault is None or fault.after:
            answer = self._limited(request) or self._routed(request, path, sent)
        if fault:
            if fault.status is None:
                return await self._cut(request)
            answer = _error(fault.status, fault.message, fault.headers)
        self._finish(request, answer)
        body = answer.body if isinstance(answer.body, bytes) else b""
        exchange = Exchange(request.method, path, request.query, sent, answer.status, answer.headers, body)
        self.broken.extend(violations(exchange))
        await self._travel("answer")
        return answer

    async def store(self, request: web.Request) -> web.StreamResponse:
        """The other host, where downloads are."""
        self.storage_requests.append(request.headers.copy())
        if TOKEN in str(request.headers) or TOKEN in str(request.url) or "Authorization" in request.headers:
            self.broken.append("the token was sent to the storage")
        fault = self._fault_for("STORAGE", request.path)
        if fault and fault.status:
            return _error(fault.status, fault.message, fault.headers)
        return web.Response(body=self.state.artifacts[int(request.match_info["id"])].content)

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
            return _error(403, "API rate limit exceeded for installation.")
        if request.method in _WRITES:
            while self._written_at and self._written_at[0] <= self.time.now - 60:
                self._written_at.popleft()
            if len(self._written_at) >= WRITES_PER_MINUTE:
                return _error(403, "You have exceeded a secondary rate limit.", {"retry-after": "60"})
            self._written_at.append(self.time.now)
        return None

    def _finish(self, request: web.Request, answer: web.Response) -> None:
        hour = int(self.time.now // 3600)
        answer.headers["Date"] = format_datetime(datetime.fromtimestamp(self.time.now, UTC), usegmt=True)
        answer.headers.setdefault("x-ratelimit-limit", str(REQUESTS_PER_HOUR))
        answer.headers.setdefault("x-ratelimit-remaining", str(max(0, REQUESTS_PER_HOUR - self._used[hour])))
        answer.headers.setdefault("x-ratelimit-reset", str((hour + 1) * 3600))

    def _routed(self, request: web.Request, path: str, sent: bytes) -> web.Response:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        token = self.state.tokens.get(given) if scheme.lower() in ("bearer", "token") else None
        if token is None:
            return _error(401, "Bad credentials")
        for method, pattern, handler in _ROUTES:
            found = re.fullmatch(pattern, path)
            if found and method == request.method:
                return handler(self, _Asked(request, token, found, sent))
        return _error(404, "Not Found")

    def redirect_to_storage(self, artifact_id: int) -> web.Response:
        return web.Response(status=302, headers={"Location": f"{self._storage_url}/signed/{artifact_id}?sig=a%2Fb"})

    def page(self, asked: "_Asked", items: list[Any], key: str | None = None) -> web.Response:
        """One page of a list, with `Link` to the others."""
        query = asked.request.query
        per_page = min(int(query.get("per_page", "30")), 100)
        number = int(query.get("page", "1"))
        last = max(1, -(-len(items) // per_page))
        shown = items[(number - 1) * per_page : number * per_page]
        url = URL(self.api_url).join(URL(asked.request.path_qs))
        links = {"next": number + 1, "last": last} if number < last else {"first": 1}
        link = ", ".join(f'<{url.update_query(page=to)}>; rel="{rel}"' for rel, to in links.items())
        return _json({"total_count": len(items), key: shown} if key else shown, headers={"Link": link})


class _Asked(NamedTuple):
    request: web.Request
    token: Token
    found: re.Match[str]
    sent: bytes

    def number(self, name: str) -> int:
        return int(self.found[name])


def _json(value: Any, status: int = 200, headers: Mapping[str, str] = {}) -> web.Response:
    return web.Response(
        body=json.dumps(value).encode(),
        status=status,
        headers=headers,
        content_type="application/json",
        charset="utf-8",
    )


def _error(status: int, message: str, headers: Mapping[str, str] = {}) -> web.Response:
    answer = {"message": message, "documentation_url": "https://docs.github.com/rest", "status": str(status)}
    return _json(answer, status, headers)


_NOT_ACCESSIBLE = "Resource not accessible by integration"


def _user(fake: FakeGitHub, asked: _Asked) -> web.Response:
    if asked.token.login is None:
        return _error(403, _NOT_ACCESSIBLE)
    return _json(example("private-user") | {"login": asked.token.login})


def _list_comments(fake: FakeGitHub, asked: _Asked) -> web.Response:
    number = asked.number("number")
    if number not in fake.state.pulls:
        return _error(404, "Not Found")
    listed = fake.state.comments_of(number)
    if fake.lagging_lists:
        fake.lagging_lists -= 1
        listed = [each for each in listed if each.at < fake.time.now - 60]
    return fake.page(asked, [fake.state.comment_answer(each) for each in listed])


def _body_or_error(asked: _Asked) -> str | web.Response:
    if not asked.token.may_comment:
        return _error(403, _NOT_ACCESSIBLE)
    body = json.loads(asked.sent).get("body", "")
    if len(body.encode()) > MAX_COMMENT_BYTES:
        problem = {
            "resource": "IssueComment",
            "code": "unprocessable",
            "field": "data",
            "message": "Body is too long (maximum is 65536 characters)",
        }
        answer = {"message": "Validation Failed", "errors": [problem], "documentation_url": "https://docs.github.com"}
        return _json(answer, 422)
    return str(body)


def _create_comment(fake: FakeGitHub, asked: _Asked) -> web.Response:
    if asked.number("number") not in fake.state.pulls:
        return _error(404, "Not Found")
    body = _body_or_error(asked)
    if isinstance(body, web.Response):
        return body
    author = asked.token.login or asked.token.bot
    answer = fake.state.comment_answer(fake.state.add_comment(asked.number("number"), author, body))
    return _json(answer, 201, {"Location": answer["url"]})


def _get_comment(fake: FakeGitHub, asked: _Asked) -> web.Response:
    comment = fake.state.comments.get(asked.number("id"))
    return _json(fake.state.comment_answer(comment)) if comment else _error(404, "Not Found")


def _edit_comment(fake: FakeGitHub, asked: _Asked) -> web.Response:
    comment = fake.state.comments.get(asked.number("id"))
    if comment is None:
        return _error(404, "Not Found")
    body = _body_or_error(asked)
    if isinstance(body, web.Response):
        return body
    comment.body, comment.at = body, fake.time.now
    comment.versions.append(body)
    return _json(fake.state.comment_answer(comment))


def _delete_comment(fake: FakeGitHub, asked: _Asked) -> web.Response:
    if not asked.token.may_comment:
        return _error(403, _NOT_ACCESSIBLE)
    comment = fake.state.comments.pop(asked.number("id"), None)
    if comment is None:
        return _error(404, "Not Found")
    fake.state.deleted.append(comment)
    return web.Response(status=204)


def _get_pull(fake: FakeGitHub, asked: _Asked) -> web.Response:
    pull = fake.state.pulls.get(asked.number("number"))
    return _json(fake.state.pull_answer(pull)) if pull else _error(404, "Not Found")


def _list_pulls(fake: FakeGitHub, asked: _Asked) -> web.Response:
    query = asked.request.query
    head, state = query.get("head"), query.get("state", "open")
    matching = [
        pull
        for pull in fake.state.pulls.values()
        if state in ("all", pull.state)
        and (head is None or head == f"{(pull.head_repository or '').partition('/')[0]}:{pull.head_ref}")
    ]
    return fake.page(asked, [fake.state.pull_answer(pull, "pull-request-simple-items") for pull in matching])


def _compare(fake: FakeGitHub, asked: _Asked) -> web.Response:
    base, _, head = asked.found["basehead"].partition("...")
    answer = fake.state.comparison_answer(base, head)
    return _json(answer) if answer else _error(404, "Not Found")


def _commits(fake: FakeGitHub, asked: _Asked) -> web.Response:
    ancestry = fake.state.ancestry(asked.request.query.get("sha", ""))
    return (
        fake.page(asked, [fake.state.commit_answer(sha) for sha in ancestry]) if ancestry else _error(404, "Not Found")
    )


def _run(fake: FakeGitHub, asked: _Asked) -> web.Response:
    run = fake.state.runs.get(asked.number("id"))
    return _json(fake.state.run_answer(run)) if run else _error(404, "Not Found")


def _artifacts(fake: FakeGitHub, asked: _Asked) -> web.Response:
    if not asked.token.may_read_actions:
        return _error(403, _NOT_ACCESSIBLE)
    name = asked.request.query.get("name")
    run = asked.found.groupdict().get("id")
    matching = [
        artifact
        for artifact in sorted(fake.state.artifacts.values(), key=lambda artifact: -artifact.id)
        if name in (None, artifact.name) and run in (None, str(artifact.run.id))
    ]
    return fake.page(asked, [fake.state.artifact_answer(artifact) for artifact in matching], "artifacts")


def _zip(fake: FakeGitHub, asked: _Asked) -> web.Response:
    if not asked.token.may_read_actions:
        return _error(403, _NOT_ACCESSIBLE)
    artifact = fake.state.artifacts.get(asked.number("id"))
    if artifact is None:
        return _error(404, "Not Found")
    return _error(410, "Artifact has expired") if artifact.expired else fake.redirect_to_storage(artifact.id)


_REPO = f"/repos/{REPOSITORY}"
_Handler = Callable[[FakeGitHub, _Asked], web.Response]
_ROUTES: tuple[tuple[str, str, _Handler], ...] = (
    ("GET", "/user", _user),
    ("GET", rf"{_REPO}/issues/(?P<number>\d+)/comments", _list_comments),
    ("POST", rf"{_REPO}/issues/(?P<number>\d+)/comments", _create_comment),
    ("GET", rf"{_REPO}/issues/comments/(?P<id>\d+)", _get_comment),
    ("PATCH", rf"{_REPO}/issues/comments/(?P<id>\d+)", _edit_comment),
    ("DELETE", rf"{_REPO}/issues/comments/(?P<id>\d+)", _delete_comment),
    ("GET", rf"{_REPO}/pulls/(?P<number>\d+)", _get_pull),
    ("GET", rf"{_REPO}/pulls", _list_pulls),
    ("GET", rf"{_REPO}/compare/(?P<basehead>[^/]+)", _compare),
    ("GET", rf"{_REPO}/commits", _commits),
    ("GET", rf"{_REPO}/actions/runs/(?P<id>\d+)", _run),
    ("GET", rf"{_REPO}/actions/runs/(?P<id>\d+)/artifacts", _artifacts),
    ("GET", rf"{_REPO}/actions/artifacts", _artifacts),
    ("GET", rf"{_REPO}/actions/artifacts/(?P<id>\d+)/zip", _zip),
)


@asynccontextmanager
async def github(
    time: VirtualTime | None = None,
    base_path: str = "",
    latency_s: Callable[[str], float] = lambda _leg: 0.0,
) -> AsyncIterator[FakeGitHub]:
    """A fake GitHub on loopback. Leaving fails if anything was sent or answered that GitHub does not know."""
    fake = FakeGitHub(time or VirtualTime(), base_path, latency_s)
    async with AsyncExitStack() as stack:
        api = await _served(stack, "/{path:.*}", fake.respond)
        fake.api_url = fake.state.api_url = api + base_path
        fake._storage_url = await _served(stack, "/signed/{id}", fake.store)
        yield fake
    assert not fake.broken, "\n".join(fake.broken)


async def _served(stack: AsyncExitStack, path: str, handler: Callable[[web.Request], Any]) -> str:
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", path, handler)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return f"http://127.0.0.1:{runner.addresses[0][1]}"
