"""GitHub's API for a job: waits out limits and failures, and sends the token to its host only."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, BinaryIO, Final, TypeVar
from urllib.parse import quote

import aiohttp
import gidgethub.aiohttp
from gidgethub import GitHubException, HTTPException
from gidgethub.sansio import create_headers, decipher_response
from pydantic import TypeAdapter
from yarl import URL

from ci_evals.errors import ConfigError, HostError, HostErrorKind
from ci_evals.model.fields import Secret
from ci_evals.plugins.ci.requests import (
    DOWNLOAD_TIMEOUT,
    TIMEOUT,
    Patience,
    Sleep,
    check_redirect,
    decode,
    network_errors,
    save_body,
)
from ci_evals.plugins.github.context import Context, Repository
from ci_evals.providers.http_client import Proxies, read_proxies
from ci_evals.providers.http_headers import date_in, number_in, retry_after_s
from ci_evals.providers.http_messages import readable

T = TypeVar("T")

MAX_ITEMS: Final = 10_000

_PER_PAGE = 100
_USER_AGENT = "ci-evals"
_API_VERSION = "2022-11-28"
_RAW = "application/vnd.github.raw+json"


@dataclass(frozen=True, slots=True)
class User:
    login: str


@dataclass(frozen=True, slots=True)
class WorkflowRun:
    """A workflow run. `name` is the workflow's name."""

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


def _raise_retryable(
    host: str | None, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    """Raise HostError `rate_limited` or `unreachable` if the request is worth repeating."""
    text = body[:4000].decode("utf-8", "replace")
    # GitHub uses 403 both for rate limits and for a lack of permission.
    if status in (403, 429) and "resource not accessible" not in text.lower():
        wait_s = _requested_wait_s(headers)
        if wait_s is not None or status == 429 or "rate limit" in text.lower():
            message = f"{host} limits the rate of requests ({status})"
            if wait_s:
                message += f"; the next is allowed in {wait_s:,.0f} s"
            raise HostError("rate_limited", message, wait_s=wait_s)
    if status >= 500 or status == 408:
        message = readable(text, 100) or "no message"
        raise HostError("unreachable", f"{host} answered {status}: {message}")


def _requested_wait_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the headers ask to wait; None if they don't."""
    date = date_in(headers.get("Date")) or datetime.now(UTC)
    wait_s = retry_after_s(headers, date)
    if wait_s is not None:
        return wait_s
    reset = number_in(headers.get("x-ratelimit-reset"))
    if number_in(headers.get("x-ratelimit-remaining")) != 0 or reset is None:
        return None
    return max(0.0, reset - date.timestamp()) + 1  # the limit still holds in that very second


class _Requests(gidgethub.aiohttp.GitHubAPI):
    """gidgethub's requests. Repeats reads and deletions; the caller decides about other writes."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        proxies: Proxies,
        api_url: str,
        token: Secret,
        patience: Patience,
    ) -> None:
        super().__init__(session, _USER_AGENT, base_url=api_url)
        self._proxies = proxies
        self._origin = URL(api_url).origin()
        self._token = token
        self._patience = patience

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> tuple[int, Mapping[str, str], bytes]:
        send = partial(self._send, method, url, headers, body)
        if method in ("GET", "DELETE"):
            return await self._patience.retry(send)
        return await send()

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        target = URL(url, encoded=True)
        # A `Link` header may lead elsewhere; for redirects, aiohttp drops the token itself.
        if target.origin() != self._origin:
            raise HostError(
                "unexpected",
                f"{self._origin.host} points to {target.host}: the token is not sent there",
            )
        all_headers = {
            **headers,
            "authorization": f"Bearer {self._token.reveal()}",
            "x-github-api-version": _API_VERSION,
        }
        with network_errors(target):
            async with self._session.request(
                method,
                target,
                proxy=self._proxies.find(target),
                headers=all_headers,
                data=body or None,
            ) as response:
                content = await response.read()
        _raise_retryable(target.host, response.status, response.headers, content)
        return response.status, response.headers, content

    async def location(self, url: str) -> URL:
        """Return the address that `url` redirects to, which is valid for a minute only."""
        headers = create_headers(self.requester, oauth_token=self._token.reveal())
        target = URL(url)
        with network_errors(target):
            async with self._session.get(
                target,
                proxy=self._proxies.find(target),
                headers=headers,
                allow_redirects=False,
            ) as response:
                content = await response.read()
        _raise_retryable(response.url.host, response.status, response.headers, content)
        if response.status != 302 or "Location" not in response.headers:
            decipher_response(response.status, response.headers, content)
            raise HostError(
                "unexpected", f"GitHub answered {response.status} where a redirect was expected"
            )
        return URL(response.headers["Location"], encoded=True)


class GitHub:
    """Calls GitHub about one repository.

    Paths are relative to `/repos/OWNER/NAME/`, or to the root if they start with a slash.

    Every method raises `HostError`. Reads and deletions are repeated after rate limits and
    failures, `create` after rate limits only, and `edit` never, since its text may be stale by
    then.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        proxies: Proxies,
        api_url: str,
        repository: str,
        token: Secret,
        patience: Patience,
    ) -> None:
        self.repository = repository
        self.sleep = patience.sleep
        self.retry = patience.retry
        self._session = session
        self._proxies = proxies
        self._token = token
        self._api_url = api_url.rstrip("/")
        self._requests = _Requests(session, proxies, api_url, token, patience)

    async def get(self, path: str, kind: type[T], **query: str | int) -> T:
        """Return one answer, decoded as `kind`."""
        with self._errors():
            answer = await self._requests.getitem(self._url(path), {"query": query})
        return decode(answer, TypeAdapter(kind), "GitHub")

    async def read_text(self, file: str, ref: str) -> str | None:
        """Return the text of a file of the repository at a commit; None if it is not there."""
        url = self._url(f"contents/{quote(file)}")
        try:
            with self._errors():
                text = await self._requests.getitem(url, {"query": {"ref": ref}}, accept=_RAW)
        except HostError as error:
            if error.kind == "missing":
                return None
            raise
        if not isinstance(text, str):
            raise HostError("unexpected", f"{file} is not a file")
        return text

    async def list(
        self,
        path: str,
        kind: type[T],
        *,
        key: str | None = None,
        limit: int = MAX_ITEMS,
        **query: str | int,
    ) -> tuple[T, ...]:
        """Return the items of a list, following the `Link` headers from page to page.

        Args:
            path, kind: as for `get`.
            key: the field that holds the list, if it is not the answer itself.
            limit: no more items than this.
            query: parameters in addition to `per_page`.
        """
        parameters: dict[str, Any] = {"query": {"per_page": min(limit, _PER_PAGE), **query}}
        adapter = TypeAdapter(kind)
        items: list[T] = []
        with self._errors():
            async for item in self._requests.getiter(self._url(path), parameters, iterable_key=key):
                items.append(decode(item, adapter, "GitHub"))
                if len(items) == limit:
                    break
        return tuple(items)

    async def create(self, path: str, data: Mapping[str, Any], kind: type[T]) -> T:
        """Post `data`. After the error `unreachable`, it may or may not have been created."""

        async def post() -> T:
            with self._errors():
                answer = await self._requests.post(self._url(path), data=data)
            return decode(answer, TypeAdapter(kind), "GitHub")

        return await self.retry(post, kinds=("rate_limited",))

    async def edit(self, path: str, data: Mapping[str, Any]) -> None:
        """Patch with `data`, once."""
        with self._errors():
            await self._requests.patch(self._url(path), data=data)

    async def delete(self, path: str) -> None:
        """Delete a resource. It is not an error if it is gone already."""
        try:
            with self._errors():
                await self._requests.delete(self._url(path))
        except HostError as error:
            if error.kind != "missing":
                raise

    async def login(self) -> str | None:
        """Return the account of the token.

        None for the token of an installation, such as `GITHUB_TOKEN`: GitHub does not say.
        """
        try:
            user = await self.get("/user", User)
        except HostError as error:
            if error.kind == "forbidden":
                return None
            raise
        return user.login

    async def download(self, path: str, file: BinaryIO, max_bytes: int) -> None:
        """Save the file that `path` redirects to, at most `max_bytes`, into an empty `file`.

        The token is not sent to the other address.
        """

        # Both steps are repeated together: the address expires after a minute.
        async def save() -> None:
            with self._errors():
                url = await self._requests.location(self._url(path).partition("{")[0])
            await check_redirect(url)
            file.seek(0)
            file.truncate()
            with network_errors(url):
                async with self._session.get(
                    url,
                    proxy=self._proxies.find(url),
                    timeout=DOWNLOAD_TIMEOUT,
                    allow_redirects=False,
                ) as response:
                    _check_download(url.host, response)
                    await save_body(response, file, max_bytes)

        await self.retry(save)

    def _url(self, path: str) -> str:
        if not path.startswith("/"):
            path = f"/repos/{self.repository}/{path}"
        return f"{self._api_url}{path}{{?query*}}"

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn gidgethub's errors into ours."""
        try:
            yield
        except HTTPException as error:
            status = int(error.status_code)
            reason = readable(str(error).replace(self._token.reveal(), "***"))
            message = f"GitHub answered {status}: {reason}"
            if status == 403:
                message += " (the token may not do this; see the job's `permissions`)"
            raise HostError(_kind(status, reason), message) from None
        except (GitHubException, ValueError, LookupError, TypeError, AttributeError) as error:
            # gidgethub raises these for an answer that GitHub does not document.
            raise HostError(
                "unexpected", f"GitHub's answer cannot be read: {type(error).__name__}"
            ) from None


def _check_download(host: str | None, response: aiohttp.ClientResponse) -> None:
    """Raise HostError unless the response has the content."""
    status = response.status
    _raise_retryable(host, status, response.headers, b"")
    if status in (401, 403):  # the address has expired: `unreachable` asks for another one
        raise HostError("unreachable", f"{host} refused a download ({status})")
    if status != 200:
        raise HostError("missing", f"{host} answered {status} to a download")


def _kind(status: int, message: str) -> HostErrorKind:
    if status in (401, 403):
        return "forbidden"
    if status in (404, 410):
        return "missing"
    if status == 413 or (status == 422 and "too long" in message):
        return "too_large"
    if 400 <= status < 500:
        return "rejected"
    return "unexpected"


@asynccontextmanager
async def connect(
    context: Context, *, sleep: Sleep = asyncio.sleep, patience_s: float = 300.0
) -> AsyncIterator[GitHub]:
    """Connect to GitHub for the job of a context, in an HTTP session of its own.

    Args:
        context: the job, with the address of the API and the token.
        sleep: waits for a number of seconds.
        patience_s: the longest time to wait for limits and outages altogether, in seconds.

    Raises:
        HostError: the context has no token or no repository, or a variable does not name a proxy.
    """
    if context.repository is None or context.token is None:
        raise HostError("forbidden", str(context.unusable))
    try:
        proxies = read_proxies()
    except ConfigError as error:
        raise HostError("unreachable", str(error)) from error
    async with aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=TIMEOUT,
        requote_redirect_url=False,  # the signature of a download's address covers its quoting
    ) as session:
        patience = Patience(sleep, patience_s)
        yield GitHub(session, proxies, context.api_url, context.repository, context.token, patience)
