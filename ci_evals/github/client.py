"""GitHub's API for one repository: paging, limits, typed answers and typed errors."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from ci_evals.errors import GitHubError, GitHubErrorKind
from ci_evals.github.answers import read
from ci_evals.github.context import Context
from ci_evals.github.patience import Clock, Patience, Sleep
from ci_evals.providers.base import Secret
from ci_evals.providers.wire import readable

if TYPE_CHECKING:
    import aiohttp
    from gidgethub import HTTPException

T = TypeVar("T")

PER_PAGE = 100
MAX_ITEMS = 10_000
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_PERMISSION_HINT = "the token may not do this; see the job's `permissions`"


class GitHub:
    """Asks GitHub about one repository. Paths start behind `/repos/OWNER/NAME/`, or at the root with a slash.

    Every method raises `GitHubError`. Reads and deletions are repeated after failures, and everything after a rate
    limit, as long as `patience` lasts.
    """

    def __init__(
        self, session: "aiohttp.ClientSession", api_url: str, repository: str, token: Secret, patience: Patience
    ) -> None:
        from ci_evals.github.transport import Transport

        self.repository = repository
        self.patience = patience
        self._session = session
        self._token = token
        self._api_url = api_url.rstrip("/")
        self._https = api_url.startswith("https:")
        self._api = Transport(session, api_url, token, patience)

    async def get(self, path: str, kind: type[T], what: str, **query: str | int) -> T:
        """One answer, read as `kind`; `what` names it in errors."""
        with self._errors():
            answer = await self._api.getitem(self._url(path), {"query": query})
        return read(answer, kind, what)

    async def every(
        self, path: str, kind: type[T], what: str, *, key: str | None = None, limit: int = MAX_ITEMS, **query: str | int
    ) -> tuple[T, ...]:
        """The items of a list, page by page as the `Link` headers lead.

        Args:
            path, kind, what: as for `get`.
            key: the field that holds the list, if it is not the answer itself.
            limit: no more items than this.
            query: parameters beside `per_page`.
        """
        parameters: dict[str, Any] = {"query": {"per_page": min(limit, PER_PAGE), **query}}
        found: list[T] = []
        with self._errors():
            async for item in self._api.getiter(self._url(path), parameters, iterable_key=key):
                found.append(read(item, kind, what))
                if len(found) == limit:
                    break
        return tuple(found)

    async def create(self, path: str, data: Mapping[str, Any], kind: type[T], what: str) -> T:
        """Post `data`. After an `unreachable` it is not known whether it was created."""

        async def post(_attempt: int) -> T:
            await self.patience.space_writes()
            with self._errors():
                answer = await self._api.post(self._url(path), data=data)
            return read(answer, kind, what)

        return await self.patience.insist(post, only_undone=True)

    async def edit(
        self, path: str, make: Callable[[], Awaitable[Mapping[str, Any] | None]], kind: type[T], what: str
    ) -> T | None:
        """Patch with what `make` returns; if that is None, nothing is done.

        Before each attempt `make` is called anew and directly before the request, so that what it has read is fresh.
        """

        async def patch(_attempt: int) -> T | None:
            await self.patience.space_writes()
            data = await make()
            if data is None:
                return None
            with self._errors():
                answer = await self._api.patch(self._url(path), data=data)
            return read(answer, kind, what)

        return await self.patience.insist(patch)

    async def delete(self, path: str) -> None:
        """Delete; what is gone already is no error."""
        await self.patience.space_writes()
        try:
            with self._errors():
                await self._api.delete(self._url(path))
        except GitHubError as error:
            if error.kind != "missing":
                raise

    async def login(self) -> str | None:
        """Whose token this is; None for an installation's (`GITHUB_TOKEN`), which GitHub does not tell."""
        from ci_evals.github.answers import User

        try:
            return (await self.get("/user", User, "user")).login
        except GitHubError as error:
            if error.kind == "forbidden":
                return None
            raise

    async def download(self, path: str, file: BinaryIO, max_bytes: int) -> None:
        """Save what `path` redirects to, at most `max_bytes`, into an empty `file`. The token stays with the API."""
        from ci_evals.github import transport

        async def save(_attempt: int) -> None:
            location = await self._location(path)
            file.seek(0)
            file.truncate()
            await transport.download(self._session, location, file, max_bytes, https=self._https)

        await self.patience.insist(save)

    async def _location(self, path: str) -> str:
        """Where `path` redirects to: an address that is valid for a minute only."""
        from gidgethub import RedirectionException
        from gidgethub.sansio import create_headers, decipher_response, format_url

        url = format_url(self._url(path), {"query": {}})
        with self._errors():
            status, headers, body = await self._api._request("GET", url, create_headers("ci-evals"))  # noqa: SLF001
            try:
                decipher_response(status, headers, body)
            except RedirectionException:
                if location := headers.get("Location"):
                    return location
        raise GitHubError("unexpected", f"GitHub answered {status} where a redirect was expected")

    def _url(self, path: str) -> str:
        start = path if path.startswith("/") else f"/repos/{self.repository}/{path}"
        return f"{self._api_url}{start}{{?query*}}"  # whole: gidgethub 5.3 would drop the path of an Enterprise Server

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Make gidgethub's errors ours."""
        from gidgethub import GitHubException, HTTPException

        try:
            yield
        except HTTPException as error:
            raise self._error(error) from None
        except (GitHubException, ValueError, LookupError, TypeError, AttributeError) as error:
            # gidgethub reads an answer that is not what GitHub documents
            raise GitHubError("unexpected", f"GitHub's answer cannot be read: {type(error).__name__}") from None

    def _error(self, error: "HTTPException") -> GitHubError:
        status = int(error.status_code)
        message = readable(str(error).replace(self._token.reveal(), "***"))
        kind = _kind(status, message)
        hint = f" ({_PERMISSION_HINT})" if status == 403 else ""
        return GitHubError(kind, f"GitHub answered {status}: {message}{hint}")


@asynccontextmanager
async def connected(
    context: Context, *, sleep: Sleep = asyncio.sleep, clock: Clock = time.time, patience_s: float = 300.0
) -> AsyncIterator[GitHub]:
    """GitHub as the context's job sees it, with a session of its own.

    Args:
        context: says where the API is and has the token.
        sleep, clock: how waiting is done, and the time in seconds since the epoch.
        patience_s: how many seconds may be spent on waiting for limits and outages, all in all.

    Raises:
        GitHubError: the context has no token or no repository.
    """
    import aiohttp

    proxies = any(name.lower() in _PROXIES for name in os.environ)  # where aiohttp looks, too
    if (reason := context.unusable) or context.repository is None or context.token is None:
        raise GitHubError("forbidden", str(reason))
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), trust_env=proxies) as session:
        patience = Patience(sleep, clock, patience_s)
        yield GitHub(session, context.api_url, context.repository, context.token, patience)


def _kind(status: int, message: str) -> GitHubErrorKind:
    if status in (401, 403):
        return "forbidden"
    if status in (404, 410):
        return "missing"
    if status == 413 or (status == 422 and "too long" in message):
        return "too_large"
    return "rejected" if 400 <= status < 500 else "unexpected"
