"""GitHub's API as a job uses it: limits and failures are waited for, and the token goes to the
API's own host only.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, BinaryIO, Final, TypeVar

import aiohttp
import gidgethub.aiohttp
from gidgethub import GitHubException, HTTPException
from gidgethub.sansio import create_headers, decipher_response
from pydantic import TypeAdapter, ValidationError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception
from yarl import URL

from ci_evals.errors import GitHubError, GitHubErrorKind
from ci_evals.github.context import Context, Repository
from ci_evals.model.fields import Secret, first_problem
from ci_evals.providers.http_client import why_lost
from ci_evals.providers.http_headers import date_in, number_in, retry_after_s
from ci_evals.providers.http_messages import readable

T = TypeVar("T")

Sleep = Callable[[float], Awaitable[None]]

MAX_ATTEMPTS: Final = 5
MAX_ITEMS: Final = 10_000

_PER_PAGE = 100
_USER_AGENT = "ci-evals"
_API_VERSION = "2022-11-28"
_TIMEOUT = aiohttp.ClientTimeout(total=30, connect=10)
_DOWNLOAD_TIMEOUT = aiohttp.ClientTimeout(total=600, sock_connect=10, sock_read=60)
_FIRST_RETRY_S = 1.0
_SECONDARY_LIMIT_S = 60.0  # GitHub's advice for a limit that names no time


@dataclass(frozen=True, slots=True)
class User:
    login: str


@dataclass(frozen=True, slots=True)
class WorkflowRun:
    """A workflow run. `name` is that of the workflow."""

    id: int
    event: str
    head_sha: str
    html_url: str
    status: str | None = None
    conclusion: str | None = None
    head_branch: str | None = None
    head_repository: Repository | None = None
    run_attempt: int = 1
    name: str | None = None


class Patience:
    """Repeats requests that a rate limit or a failure has stopped, and waits a bounded time for all
    of them together.

    Args:
        sleep: how to wait.
        total_s: how many seconds may be waited.
    """

    def __init__(self, sleep: Sleep, total_s: float) -> None:
        self.sleep = sleep
        self._left_s = total_s

    async def retry(
        self,
        call: Callable[[], Awaitable[T]],
        kinds: Collection[str] = ("rate_limited", "unreachable"),
    ) -> T:
        """Return what `call` returns, repeating it after a `GitHubError` of these kinds.

        Raises:
            GitHubError: it failed for good, too often, or waiting would take longer than is left.
        """

        def spend(state: RetryCallState) -> None:
            self._left_s -= state.upcoming_sleep

        retrying = AsyncRetrying(
            sleep=self.sleep,
            retry=retry_if_exception(
                lambda error: isinstance(error, GitHubError) and error.kind in kinds
            ),
            wait=_wait_s,
            stop=lambda state: (
                state.attempt_number >= MAX_ATTEMPTS or state.upcoming_sleep > self._left_s
            ),
            before_sleep=spend,
            reraise=True,
        )
        return await retrying(call)


def _wait_s(state: RetryCallState) -> float:
    """Return how long GitHub asks to be left alone, else twice as long as the last time, in
    seconds.
    """
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, GitHubError)
    if error.wait_s is not None:
        return error.wait_s
    first_s = _SECONDARY_LIMIT_S if error.kind == "rate_limited" else _FIRST_RETRY_S
    return first_s * 2.0 ** (state.attempt_number - 1)


def _raise_retryable(
    host: str | None, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    """Raise `GitHubError` of the kinds `rate_limited` and `unreachable`, after which the same
    request may succeed.
    """
    text = body[:4000].decode("utf-8", "replace")
    if status in (403, 429) and "resource not accessible" not in text.lower():
        wait_s = _asked_s(headers)
        if wait_s is not None or status == 429 or "rate limit" in text.lower():
            until = f"; the next is allowed in {wait_s:,.0f} s" if wait_s else ""
            message = f"{host} limits the rate of requests ({status}){until}"
            raise GitHubError("rate_limited", message, wait_s=wait_s)
    if status >= 500 or status == 408:
        raise GitHubError(
            "unreachable", f"{host} answered {status}: {readable(text, 100) or 'no message'}"
        )


def _asked_s(headers: Mapping[str, str]) -> float | None:
    date = date_in(headers.get("Date")) or datetime.now(UTC)
    if (asked_s := retry_after_s(headers, date)) is not None:
        return asked_s
    reset = number_in(headers.get("x-ratelimit-reset"))
    if number_in(headers.get("x-ratelimit-remaining")) != 0 or reset is None:
        return None
    return max(0.0, reset - date.timestamp()) + 1  # the second itself still counts


class _Requests(gidgethub.aiohttp.GitHubAPI):
    """gidgethub's requests. Reads and deletions are repeated here; of other writes, the caller
    decides.
    """

    def __init__(
        self, session: aiohttp.ClientSession, api_url: str, token: Secret, patience: Patience
    ) -> None:
        super().__init__(session, _USER_AGENT, base_url=api_url)
        self._origin = URL(api_url).origin()
        self._token = token
        self._patience = patience

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> tuple[int, Mapping[str, str], bytes]:
        send = partial(self._send, method, url, headers, body)
        return await (self._patience.retry(send) if method in ("GET", "DELETE") else send())

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        target = URL(url, encoded=True)
        if (
            target.origin() != self._origin
        ):  # as a `Link` header may have it; aiohttp minds redirects
            raise GitHubError(
                "unexpected",
                f"{self._origin.host} points to {target.host}: the token is not sent there",
            )
        sent = {
            **headers,
            "authorization": f"Bearer {self._token.reveal()}",
            "x-github-api-version": _API_VERSION,
        }
        with _lost(target):
            async with self._session.request(
                method, target, headers=sent, data=body or None
            ) as response:
                content = await response.read()
        _raise_retryable(target.host, response.status, response.headers, content)
        return response.status, response.headers, content

    async def location(self, url: str) -> URL:
        """Return where `url` redirects to: an address that is valid for a minute only."""
        headers = create_headers(self.requester, oauth_token=self._token.reveal())
        with _lost(URL(url)):
            async with self._session.get(url, headers=headers, allow_redirects=False) as response:
                content = await response.read()
        _raise_retryable(response.url.host, response.status, response.headers, content)
        if response.status != 302 or "Location" not in response.headers:
            decipher_response(response.status, response.headers, content)
            raise GitHubError(
                "unexpected", f"GitHub answered {response.status} where a redirect was expected"
            )
        return URL(response.headers["Location"], encoded=True)


@contextmanager
def _lost(url: URL) -> Iterator[None]:
    """Turn aiohttp's errors into ours, without addresses: a signed one is a secret."""
    try:
        yield
    except TimeoutError as error:
        raise GitHubError("unreachable", f"no answer from {url.host}: it took too long") from error
    except (aiohttp.ClientError, OSError) as error:
        raise GitHubError("unreachable", f"no answer from {url.host}: {why_lost(error)}") from error


class GitHub:
    """Calls GitHub about one repository. Paths start behind `/repos/OWNER/NAME/`, or at the root
    with a slash.

    Every method raises `GitHubError`. Reads and deletions are repeated after rate limits and
    failures, `create` after rate limits only, and `edit` never: what it writes may have become
    stale.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        api_url: str,
        repository: str,
        token: Secret,
        patience: Patience,
    ) -> None:
        self.repository = repository
        self.sleep = patience.sleep
        self.retry = patience.retry
        self._session = session
        self._token = token
        self._api_url = api_url.rstrip("/")
        self._requests = _Requests(session, api_url, token, patience)

    async def get(self, path: str, kind: type[T], **query: str | int) -> T:
        """Return one answer, decoded as `kind`."""
        with self._errors():
            answer = await self._requests.getitem(self._url(path), {"query": query})
        return decode(answer, TypeAdapter(kind))

    async def list(
        self,
        path: str,
        kind: type[T],
        *,
        key: str | None = None,
        limit: int = MAX_ITEMS,
        **query: str | int,
    ) -> tuple[T, ...]:
        """Return the items of a list, page by page as the `Link` headers lead.

        Args:
            path, kind: as for `get`.
            key: the field that holds the list, if it is not the answer itself.
            limit: no more items than this.
            query: parameters beside `per_page`.
        """
        parameters: dict[str, Any] = {"query": {"per_page": min(limit, _PER_PAGE), **query}}
        adapter = TypeAdapter(kind)
        found: list[T] = []
        with self._errors():
            async for item in self._requests.getiter(self._url(path), parameters, iterable_key=key):
                found.append(decode(item, adapter))
                if len(found) == limit:
                    break
        return tuple(found)

    async def create(self, path: str, data: Mapping[str, Any], kind: type[T]) -> T:
        """Post `data`. After an `unreachable` it is not known whether it was created."""

        async def post() -> T:
            with self._errors():
                answer = await self._requests.post(self._url(path), data=data)
            return decode(answer, TypeAdapter(kind))

        return await self.retry(post, kinds=("rate_limited",))

    async def edit(self, path: str, data: Mapping[str, Any]) -> None:
        """Patch with `data`, once."""
        with self._errors():
            await self._requests.patch(self._url(path), data=data)

    async def delete(self, path: str) -> None:
        """Delete; what is gone already is no error."""
        try:
            with self._errors():
                await self._requests.delete(self._url(path))
        except GitHubError as error:
            if error.kind != "missing":
                raise

    async def login(self) -> str | None:
        """Return whose token this is; None for an installation's (`GITHUB_TOKEN`), which GitHub
        does not tell.
        """
        try:
            return (await self.get("/user", User)).login
        except GitHubError as error:
            if error.kind == "forbidden":
                return None
            raise GitHubError(error.kind, f"it is not known whose the token is: {error}") from error

    async def download(self, path: str, file: BinaryIO, max_bytes: int) -> None:
        """Save what `path` redirects to, at most `max_bytes`, into an empty `file`. The token stays
        with the API.
        """

        async def save() -> None:
            with self._errors():
                url = await self._requests.location(self._url(path).partition("{")[0])
            file.seek(0)
            file.truncate()
            with _lost(url):
                async with self._session.get(url, timeout=_DOWNLOAD_TIMEOUT) as response:
                    _raise_retryable(url.host, response.status, response.headers, b"")
                    if response.status in (
                        401,
                        403,
                    ):  # the address is valid for a minute: another one may be
                        raise GitHubError(
                            "unreachable", f"{url.host} refused a download ({response.status})"
                        )
                    if response.status != 200:
                        raise GitHubError(
                            "missing", f"{url.host} answered {response.status} to a download"
                        )
                    async for chunk in response.content.iter_any():
                        if file.tell() + len(chunk) > max_bytes:
                            raise GitHubError(
                                "too_large", f"the download has more than {max_bytes:,} bytes"
                            )
                        file.write(chunk)

        await self.retry(save)

    def _url(self, path: str) -> str:
        start = path if path.startswith("/") else f"/repos/{self.repository}/{path}"
        return f"{self._api_url}{start}{{?query*}}"

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn gidgethub's errors into ours."""
        try:
            yield
        except HTTPException as error:
            status = int(error.status_code)
            message = readable(str(error).replace(self._token.reveal(), "***"))
            hint = (
                " (the token may not do this; see the job's `permissions`)" if status == 403 else ""
            )
            raise GitHubError(
                _kind(status, message), f"GitHub answered {status}: {message}{hint}"
            ) from None
        except (GitHubException, ValueError, LookupError, TypeError, AttributeError) as error:
            # gidgethub reads an answer that is not what GitHub documents
            raise GitHubError(
                "unexpected", f"GitHub's answer cannot be read: {type(error).__name__}"
            ) from None


def _kind(status: int, message: str) -> GitHubErrorKind:
    if status in (401, 403):
        return "forbidden"
    if status in (404, 410):
        return "missing"
    if status == 413 or (status == 422 and "too long" in message):
        return "too_large"
    return "rejected" if 400 <= status < 500 else "unexpected"


def decode(answer: Any, kind: TypeAdapter[T]) -> T:
    """Return `answer` as `kind`, else raise `GitHubError("unexpected")`."""
    try:
        return kind.validate_python(answer)
    except ValidationError as error:
        raise GitHubError(
            "unexpected", f"GitHub's answer is not what it documents: {first_problem(error)}"
        ) from error


@asynccontextmanager
async def connect(
    context: Context, *, sleep: Sleep = asyncio.sleep, patience_s: float = 300.0
) -> AsyncIterator[GitHub]:
    """Yield GitHub as the context's job sees it, with a session of its own.

    Args:
        context: says where the API is and has the token.
        sleep: how to wait.
        patience_s: how many seconds may be spent on waiting for limits and outages, all in all.

    Raises:
        GitHubError: the context has no token or no repository.
    """
    if context.repository is None or context.token is None:
        raise GitHubError("forbidden", str(context.unusable))
    async with aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=True,
        timeout=_TIMEOUT,
        requote_redirect_url=False,
    ) as session:
        yield GitHub(
            session, context.api_url, context.repository, context.token, Patience(sleep, patience_s)
        )
