"""Makes HTTP calls with aiohttp, reads the answers, and describes errors."""

import json
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from urllib.request import proxy_bypass

import aiohttp
from yarl import URL

from ci_evals.errors import ConfigError, Problem, ProviderError
from ci_evals.faults import Reported, kind_of_status, read_error
from ci_evals.providers.base import Resources
from ci_evals.providers.http_headers import date_in, number_in, retry_after_s
from ci_evals.providers.http_messages import (
    Call,
    Event,
    EventReader,
    HttpCredentials,
    Reply,
    authority,
    place_of,
    readable,
)
from ci_evals.redaction import MASK, SHORTEST

MAX_BYTES = 50 * 1024 * 1024
_REFUSAL_BYTES = 64 * 1024
_LARGE_BYTES = 1024 * 1024  # aiohttp warns about larger bodies that are not files

_CREDENTIAL = "auth|key|token|secret|cookie|password"


def open_session(resources: Resources) -> aiohttp.ClientSession:
    """Return the session of all providers.

    It sets no time-outs, because each call has its own. It leaves proxies to each call, too: with
    `trust_env`, aiohttp would ignore ALL_PROXY, and send the passwords of ~/.netrc.
    """
    session = aiohttp.ClientSession(
        # aiohttp's own limit is 100 connections: further calls would wait unnoticed.
        connector=aiohttp.TCPConnector(limit=resources.max_concurrency),
        # A cookie of one run must not affect another.
        cookie_jar=aiohttp.DummyCookieJar(),
    )
    resources.stack.push_async_callback(session.close)
    return session


@dataclass(frozen=True, slots=True)
class Proxies:
    """The proxies of the environment, by the scheme of the called URL."""

    by_scheme: Mapping[str, URL]

    def find(self, url: URL) -> URL | None:
        """Return the proxy for a call; None for a direct connection."""
        proxy = self.by_scheme.get(url.scheme)
        if proxy is None or proxy_bypass(url.host or ""):
            return None
        return proxy


def read_proxies() -> Proxies:
    """Return the proxies that the environment sets for `http` and `https`.

    Raises:
        ConfigError: a variable does not name an HTTP proxy.
    """
    variables = {name.lower(): name for name, value in os.environ.items() if value}
    problems: list[Problem] = []
    proxies: dict[str, URL] = {}
    for scheme in ("http", "https"):
        variable = variables.get(f"{scheme}_proxy") or variables.get("all_proxy")
        if variable is None:
            continue
        proxy = _proxy_at(os.environ[variable])
        if proxy is None:  # the value is not shown: it may hold a password
            text = (
                f"{variable} is not the URL of an HTTP proxy: write http://HOST:PORT, or unset it"
            )
            problems.append(Problem("", None, "", text, variable))
        else:
            proxies[scheme] = proxy
    if problems:
        raise ConfigError(dict.fromkeys(problems))
    return Proxies(proxies)


def _proxies_of_run(_resources: Resources) -> Proxies:
    return read_proxies()


def _proxy_at(text: str) -> URL | None:
    try:
        url = URL(text)
    except ValueError:
        return None
    if url.scheme not in ("http", "https") or not url.host:
        return None
    return url


class HttpClient:
    """Makes the calls of one provider. See `http_messages.HttpSender`.

    Args:
        resources: the engine's.
        credentials: authorize its calls, if the headers don't.
        max_bytes: the longest body that is read.
        event_readers: by content type, factories of readers for streams that are not server-sent
            events. Each gets the time of the request by `time.perf_counter`.
    """

    def __init__(
        self,
        resources: Resources,
        credentials: HttpCredentials | None = None,
        max_bytes: int = MAX_BYTES,
        event_readers: Mapping[str, Callable[[float], EventReader]] | None = None,
    ) -> None:
        self._session = resources.shared(open_session)
        self._proxies = resources.shared(_proxies_of_run)
        self._observe = resources.observe
        self._max_bytes = max_bytes
        self._event_readers = {"text/event-stream": ServerSentEventReader, **(event_readers or {})}
        self._credentials = credentials

    def send(self, call: Call, timeout_s: float) -> Awaitable[Reply]:
        if self._credentials is None:
            return self._send(call, call.headers, timeout_s)
        return self._send_authorized(call, self._credentials, timeout_s)

    async def _send_authorized(
        self, call: Call, credentials: HttpCredentials, timeout_s: float
    ) -> Reply:
        headers = await credentials.authorize(call)
        try:
            return await self._send(call, headers, timeout_s)
        except ProviderError as error:
            if error.status != credentials.expired_status:
                raise
            if not await credentials.renew(headers):
                raise
        headers = await credentials.authorize(call)
        return await self._send(call, headers, timeout_s)

    async def _send(self, call: Call, headers: Mapping[str, str], timeout_s: float) -> Reply:
        start = time.perf_counter()
        data: bytes | BytesIO | None = call.data
        if isinstance(data, bytes) and len(data) >= _LARGE_BYTES:
            data = BytesIO(data)
        try:
            async with self._session.request(
                call.method,
                call.url,
                proxy=self._proxies.find(call.url),
                headers=headers,
                data=data,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
            ) as response:
                self._observe(response.headers)
                if not 200 <= response.status < 300:
                    raise await _refusal(response, headers)
                events = None
                content_type = response.content_type
                if content_type in self._event_readers:
                    reader = self._event_readers[content_type](start)
                    events = reader.events
                    body = await _read(response, self._max_bytes, reader.feed)
                else:
                    body = await _read(response, self._max_bytes)
        except TimeoutError as error:
            text = f"{place_of(call.url)} did not answer within {timeout_s:g} s"
            raise ProviderError("timeout", text) from error
        except (aiohttp.ClientError, OSError) as error:
            text = f"no answer from {_address(call.url, error)}: {why_lost(error)}"
            raise ProviderError("network", text) from error
        if len(body) > self._max_bytes:
            text = f"{place_of(call.url)} answered with more than {self._max_bytes:,} bytes"
            raise ProviderError("bad_answer", text)
        return Reply(body, response.headers, events)


def why_lost(error: Exception) -> str:
    """Return why a connection failed or broke.

    aiohttp's own text would show the URL, which may hold credentials.
    """
    cause = getattr(error, "os_error", error)
    if isinstance(cause, ConnectionRefusedError):
        return "the connection was refused; is a server running there?"
    reason = getattr(cause, "strerror", None) or str(cause).partition("url=")[0]
    if isinstance(cause, OSError) and cause.errno and reason.startswith("Connect call failed"):
        reason = os.strerror(cause.errno)  # asyncio's own text repeats the address
    return readable(reason) or type(error).__name__


async def _read(
    response: aiohttp.ClientResponse, enough: int, feed: Callable[[bytes], None] | None = None
) -> bytes:
    """Read the body until it is complete or longer than `enough` bytes.

    Args:
        response: the answer.
        enough: bytes.
        feed: gets each chunk as it comes.
    """
    body = bytearray()
    while chunk := await response.content.readany():
        body += chunk
        if feed is not None:
            feed(chunk)
        if len(body) > enough:
            break
    return bytes(body)


class ServerSentEventReader:
    """Reads server-sent events as they arrive (WHATWG's HTML standard, section 9.2.6).

    Args:
        start: the time of the request by `time.perf_counter`.
    """

    def __init__(self, start: float) -> None:
        self.events: list[Event] = []
        self._start = start
        self._line: list[bytes] = []
        self._data: list[str] = []
        self._name = ""
        self._after_cr = False

    def feed(self, chunk: bytes) -> None:
        """Read the next chunk."""
        if self._after_cr:  # the line is complete; a line feed here belongs to the same line end
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        *ended, rest = re.split(rb"\r\n|\n|\r", chunk)
        for line in ended:
            complete = b"".join([*self._line, line])
            self._line = []
            self._read_line(complete.decode("utf-8", "replace").removeprefix("\ufeff"))
        self._line.append(rest)

    def _read_line(self, line: str) -> None:
        if not line:
            if self._data:
                after_s = round(time.perf_counter() - self._start, 6)
                self.events.append(Event("\n".join(self._data), self._name or "message", after_s))
            self._data = []
            self._name = ""
            return
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
        elif name == "event":
            self._name = value.removeprefix(" ")


async def _refusal(response: aiohttp.ClientResponse, sent: Mapping[str, str]) -> ProviderError:
    """Return the error for a status outside 2xx, with the server's own message.

    Args:
        response: the answer.
        sent: the headers of the request, whose credentials the server may repeat.
    """
    status, place = response.status, place_of(response.url)
    if 300 <= status < 400:
        # Its target is not shown: a user who follows it could send the key to somebody else.
        advice = "check the provider's `base_url` or `url`"
        text = f"{place} answered {status}, a redirect, which is not followed: {advice}"
        return ProviderError("not_found", text, status=status)
    try:
        body = await _read(response, _REFUSAL_BYTES)
    except (aiohttp.ClientError, OSError):
        body = b""  # the status says enough
    written = body.decode("utf-8", "replace")
    reported = _error_in(written)
    message = reported.message or written or response.reason or "no message"
    for name, value in sent.items():
        if re.search(_CREDENTIAL, name, re.IGNORECASE):
            credential = value.strip().rpartition(" ")[2]
            if len(credential) >= SHORTEST:
                message = message.replace(credential, MASK)
    return ProviderError(
        kind_of_status(status, reported),
        f"{place} answered {status}: {readable(message)}",
        status=status,
        retry_after_s=_retry_after_s(response.headers, body),
    )


def _retry_after_s(headers: Mapping[str, str], body: bytes) -> float | None:
    """Return the seconds to wait before a retry, measured by the server's clock."""
    now = date_in(headers.get("Date")) or datetime.now(UTC)
    wait_s = retry_after_s(headers, now)
    if wait_s is None:
        # Google sends no header, but a `RetryInfo` in the body.
        google = re.search(rb'"retryDelay":\s*"([\d.]+)s"', body)
        if google:
            wait_s = number_in(google[1].decode())
    return wait_s


def _error_in(body: str) -> Reported:
    try:
        return read_error(json.loads(body))
    except (ValueError, RecursionError):
        return Reported()


def _address(url: URL, error: Exception) -> str:
    """Return `localhost:8000/chat`, with the proxy if that could not be reached."""
    host = getattr(error, "host", url.raw_host)
    port = getattr(error, "port", url.port)
    if (host, port) == (url.raw_host, url.port):
        return place_of(url)
    return f"{place_of(url)} through the proxy {authority(host, port)}"
