"""GitLab's API for a job: waits out limits and failures, and sends the token to its host only."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar
from urllib.parse import quote

import aiohttp
from pydantic import TypeAdapter
from yarl import URL

from ci_evals.errors import ConfigError, HostError
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
from ci_evals.plugins.gitlab.context import GitLabContext
from ci_evals.providers.http_client import Proxies, read_proxies
from ci_evals.providers.http_headers import date_in, retry_after_s
from ci_evals.providers.http_messages import readable

T = TypeVar("T")

MAX_ITEMS: Final = 10_000

_PER_PAGE = 100
_MAX_REDIRECTS = 5
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_NO_PROJECT = "404 Project Not Found"
"""GitLab's answer if a token may not see the project, or may not read its artifacts."""


class _Answer(NamedTuple):
    value: Any
    next_page: URL | None


class GitLab:
    """Calls GitLab about one project.

    Paths are relative to `/projects/ID/`, or to the root if they start with a slash.

    Every method raises `HostError`. Reads and deletions are repeated after rate limits and
    failures, `create` after rate limits only, and `edit` never, since its text may be stale by
    then.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        proxies: Proxies,
        api_url: str,
        project_id: str,
        credential: Mapping[str, str],
        patience: Patience,
    ) -> None:
        self.sleep = patience.sleep
        self.retry = patience.retry
        self._session = session
        self._proxies = proxies
        self._api_url = api_url
        self._origin = URL(api_url).origin()
        self._project_id = project_id
        self._credential = credential

    async def get(self, path: str, kind: type[T], **query: str | int) -> T:
        """Return one answer, decoded as `kind`."""
        answer = await self.retry(partial(self._send, "GET", self._url(path, query)))
        return decode(answer.value, TypeAdapter(kind), "GitLab")

    async def list(
        self, path: str, kind: type[T], *, limit: int = MAX_ITEMS, **query: str | int
    ) -> tuple[T, ...]:
        """Return the items of a list, following the `Link` headers from page to page.

        Args:
            path, kind: as for `get`.
            limit: no more items than this.
            query: parameters in addition to `per_page`.
        """
        adapter = TypeAdapter(kind)
        items: list[T] = []
        url: URL | None = self._url(path, {"per_page": min(limit, _PER_PAGE), **query})
        while url is not None and len(items) < limit:
            answer = await self.retry(partial(self._send, "GET", url))
            if not isinstance(answer.value, list):
                raise HostError("unexpected", "GitLab's answer is not the documented list")
            items += [decode(item, adapter, "GitLab") for item in answer.value]
            url = answer.next_page
        return tuple(items[:limit])

    async def create(self, path: str, data: Mapping[str, Any], kind: type[T]) -> T:
        """Post `data`. After the error `unreachable`, it may or may not have been created."""
        post = partial(self._send, "POST", self._url(path), data)
        answer = await self.retry(post, kinds=("rate_limited",))
        return decode(answer.value, TypeAdapter(kind), "GitLab")

    async def edit(self, path: str, data: Mapping[str, Any]) -> None:
        """Put `data`, once."""
        await self._send("PUT", self._url(path), data)

    async def delete(self, path: str) -> None:
        """Delete a resource. It is not an error if it is gone already."""
        try:
            await self.retry(partial(self._send, "DELETE", self._url(path)))
        except HostError as error:
            if error.kind != "missing":
                raise

    async def read_file(self, file: str, ref: str, copy: BinaryIO, max_bytes: int) -> bool:
        """Save a file of the repository at a commit; return False if it is not there."""
        path = f"repository/files/{quote(file, safe='')}/raw"
        try:
            await self.download(path, copy, max_bytes, ref=ref)
        except HostError as error:
            if error.kind == "missing":
                return False
            raise
        return True

    async def download(self, path: str, file: BinaryIO, max_bytes: int, **query: str | int) -> None:
        """Save the file at `path`, or where it redirects to, at most `max_bytes`, into an empty
        `file`.

        The token is not sent to another address.
        """

        async def save() -> None:
            file.seek(0)
            file.truncate()
            url = self._url(path, query)
            credential = self._credential
            for _ in range(_MAX_REDIRECTS):
                moved = await self._save_from(url, credential, file, max_bytes)
                if moved is None:
                    return
                await check_redirect(moved)
                url, credential = moved, {}
            raise HostError("unexpected", f"{self._origin.host} redirects without end")

        await self.retry(save)

    async def _save_from(
        self, url: URL, headers: Mapping[str, str], file: BinaryIO, max_bytes: int
    ) -> URL | None:
        """Save the body of an answer. If it is a redirect instead, return its target."""
        with network_errors(url):
            async with self._session.get(
                url,
                proxy=self._proxies.find(url),
                headers=headers,
                timeout=DOWNLOAD_TIMEOUT,
                allow_redirects=False,  # aiohttp would send the token along
            ) as response:
                if response.status in _REDIRECTS and "Location" in response.headers:
                    return url.join(URL(response.headers["Location"], encoded=True))
                if response.status != 200:
                    content = await response.read()
                    _raise_for_status(url.host, response.status, response.headers, content)
                await save_body(response, file, max_bytes)
        return None

    async def _send(self, method: str, url: URL, data: Mapping[str, Any] | None = None) -> _Answer:
        if url.origin() != self._origin:  # a `Link` header may lead elsewhere
            raise HostError(
                "unexpected", f"{self._origin.host} points to {url.host}: no token is sent there"
            )
        with network_errors(url):
            async with self._session.request(
                method,
                url,
                proxy=self._proxies.find(url),
                headers=self._credential,
                json=data,
                allow_redirects=False,
            ) as response:
                content = await response.read()
                next_page = None
                if "next" in response.links:
                    next_page = URL(str(response.links["next"]["url"]), encoded=True)
        _raise_for_status(url.host, response.status, response.headers, content)
        if not content:
            return _Answer(None, None)
        try:
            value = json.loads(content)
        except ValueError:
            raise HostError("unexpected", "GitLab's answer is not JSON") from None
        return _Answer(value, next_page)

    def _url(self, path: str, query: Mapping[str, str | int] | None = None) -> URL:
        if not path.startswith("/"):
            path = f"/projects/{quote(self._project_id, safe='')}/{path}"
        return URL(f"{self._api_url}{path}", encoded=True).update_query(query or {})


def _raise_for_status(
    host: str | None, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    """Raise HostError unless the answer is a success."""
    if 200 <= status < 300:
        return
    message = _message_in(body)
    text = readable(message, 200) or "no message"
    if status == 429:
        date = date_in(headers.get("Date")) or datetime.now(UTC)
        wait_s = retry_after_s(headers, date)
        limited = f"{host} limits the rate of requests (429)"
        if wait_s:
            limited += f"; the next is allowed in {wait_s:,.0f} s"
        raise HostError("rate_limited", limited, wait_s=wait_s)
    if status >= 500 or status == 408:
        raise HostError("unreachable", f"{host} answered {status}: {text}")
    answered = f"GitLab answered {status}: {text}"
    if status == 401:
        raise HostError("expired", answered)
    if status == 403 or message == _NO_PROJECT:
        raise HostError("forbidden", answered)
    if status in (404, 410):
        raise HostError("missing", answered)
    if status == 413:
        raise HostError("too_large", answered)
    if 400 <= status < 500:
        raise HostError("rejected", answered)
    raise HostError("unexpected", answered)


def _message_in(body: bytes) -> str:
    """Return the message of an error, which is in one of three fields."""
    text = body[:4000].decode("utf-8", "replace")
    try:
        answer = json.loads(text)
    except ValueError:
        return text
    if not isinstance(answer, dict):
        return text
    for name in ("error_description", "message", "error"):
        if isinstance(answer.get(name), str):
            return str(answer[name])
    return text


@asynccontextmanager
async def connect(
    context: GitLabContext,
    project_id: str,
    *,
    sleep: Sleep = asyncio.sleep,
    patience_s: float = 300.0,
) -> AsyncIterator[GitLab]:
    """Connect to GitLab for the job of a context, in an HTTP session of its own.

    The access token is sent, or the job's token if there is none.

    Args:
        context: the job, with the address of the API and the tokens.
        project_id: the project to ask about.
        sleep: waits for a number of seconds.
        patience_s: the longest time to wait for limits and outages altogether, in seconds.

    Raises:
        HostError: the context has no token or project, or a variable does not name a proxy.
    """
    if not project_id:
        raise HostError("forbidden", "CI_PROJECT_ID is not set: this is not a job of GitLab CI")
    try:
        proxies = read_proxies()
    except ConfigError as error:
        raise HostError("unreachable", str(error)) from error
    async with aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": "ci-evals"},
        timeout=TIMEOUT,
        requote_redirect_url=False,  # the signature of a download's address covers its quoting
    ) as session:
        patience = Patience(sleep, patience_s)
        credential = _credential(context.token, context.job_token)
        yield GitLab(session, proxies, context.api_url, project_id, credential, patience)


def _credential(token: Secret | None, job_token: Secret | None) -> Mapping[str, str]:
    """Return the header that authenticates requests."""
    if token is not None:
        return {"PRIVATE-TOKEN": token.reveal()}
    if job_token is not None:
        return {"JOB-TOKEN": job_token.reveal()}
    raise HostError("forbidden", "CI_JOB_TOKEN is not set, nor is GITLAB_TOKEN")
