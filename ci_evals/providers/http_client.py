"""Calls over HTTP: makes them, reads headers and bodies, and names what went wrong."""

import json
import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from io import BytesIO
from typing import TypeVar

import aiohttp
from pydantic import TypeAdapter, ValidationError
from yarl import URL

from ci_evals.errors import ErrorKind, ProviderError
from ci_evals.format import one_line
from ci_evals.model.fields import first_problem, is_complete_url
from ci_evals.providers.answer import plain_json
from ci_evals.providers.base import Resources
from ci_evals.providers.tokens import Token, TokenCommand
from ci_evals.redaction import MASK, SHORTEST

MAX_BYTES = 50 * 1024 * 1024
END_OF_STREAM = "[DONE]"
"""The data of the last event of OpenAI's streams, and of many after them."""

_PLACE_CHARACTERS = 200
_REFUSAL_BYTES = 64 * 1024
_LARGE_BYTES = 1024 * 1024  # from here on aiohttp wants a file

_KINDS: Mapping[int, ErrorKind] = {
    401: "auth",
    403: "auth",
    408: "server",
    409: "server",
    429: "rate_limit",
}
_CREDENTIAL = re.compile("auth|key|token|secret|cookie|password", re.IGNORECASE)
_FIELD_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_RETRY_DELAY = re.compile(
    rb'"retryDelay":\s*"([\d.]+)s"'
)  # Google's RetryInfo, which stands in the body
_TAGS = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^<>]*>", re.IGNORECASE | re.DOTALL)

T = TypeVar("T")


def open_session(max_connections: int) -> aiohttp.ClientSession:
    """Return the session of all providers; a proxy is taken from the environment. Each call sets
    its own time-out.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=max_connections),
        cookie_jar=aiohttp.DummyCookieJar(),
        # Not always: where it trusts the environment, aiohttp also sends the passwords of ~/.netrc.
        trust_env=any(
            name.lower() in ("http_proxy", "https_proxy", "all_proxy") for name in os.environ
        ),
    )


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request."""

    method: str
    url: URL
    headers: Mapping[str, str]
    data: bytes | None = None

    def bearing(self, value: str) -> "Call":
        """Return the call with a bearer token."""
        return replace(self, headers={**self.headers, "Authorization": f"Bearer {value}"})


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event, which came `after_s` seconds after the request."""

    data: str
    name: str
    after_s: float


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to an HTTP request, of a status in 2xx; `events` are those of a stream, None of
    any other answer.
    """

    body: bytes
    headers: Mapping[str, str]
    events: Sequence[Event] | None = None

    @property
    def cost_usd(self) -> float | None:
        """The cost that a gateway such as LiteLLM tells in a header; None if there is none."""
        return number_in(self.headers.get("x-litellm-response-cost"))


async def send(
    resources: Resources,
    call: Call,
    *,
    timeout_s: float,
    max_bytes: int = MAX_BYTES,
    token: Token | None = None,
) -> Reply:
    """Make a call and return its answer. No redirect is followed, so that a key stays where it
    belongs.

    Args:
        resources: the engine's.
        call: the request.
        timeout_s: seconds that the answer may take.
        max_bytes: the longest body that is read.
        token: is sent with it; one that is refused is fetched anew, once.

    Raises:
        ProviderError: there was no answer, one outside of 2xx, or a longer one than `max_bytes`; or
            no token.
    """
    if token is None:
        return await _send(resources, call, timeout_s, max_bytes)
    value = await token.get()
    try:
        return await _send(resources, call.bearing(value), timeout_s, max_bytes)
    except ProviderError as error:
        if error.status != 401:
            raise
    value = await token.get(refused=value)
    return await _send(resources, call.bearing(value), timeout_s, max_bytes)


async def _send(resources: Resources, call: Call, timeout_s: float, max_bytes: int) -> Reply:
    url, data, start = call.url, call.data, time.perf_counter()
    try:
        async with resources.session.request(
            call.method,
            url,
            headers=call.headers,
            data=data if data is None or len(data) < _LARGE_BYTES else BytesIO(data),
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=timeout_s),
        ) as response:
            resources.observe(response.headers)
            if not 200 <= response.status < 300:
                raise await _refusal(response, call.headers)
            if response.content_type == "text/event-stream":
                events = _EventReader(start)
                body = await _read(response, max_bytes, events.feed)
                reply = Reply(body, response.headers, events.read)
            else:
                reply = Reply(await _read(response, max_bytes), response.headers)
    except TimeoutError as error:
        raise ProviderError(
            "timeout", f"{place_of(url)} did not answer within {timeout_s:g} s"
        ) from error
    except (aiohttp.ClientError, OSError) as error:
        raise ProviderError(
            "network", f"no answer from {_address(url, error)}: {why_lost(error)}"
        ) from error
    if len(reply.body) > max_bytes:
        raise ProviderError(
            "bad_answer", f"{place_of(url)} answered with more than {max_bytes:,} bytes"
        )
    return reply


def decode(adapter: TypeAdapter[T], body: bytes, host: str | None) -> T:
    """Read a JSON answer, replacing stray bytes and lone surrogates in it.

    Raises:
        ProviderError: it is not valid JSON, or of another shape.
    """
    with suppress(ValidationError):
        return adapter.validate_json(body)
    try:
        value = json.loads(body.decode("utf-8-sig", "replace"), strict=False)
        return adapter.validate_python(plain_json(value))
    except (ValueError, RecursionError) as error:
        problem = first_problem(error) if isinstance(error, ValidationError) else error
        what = (
            "HTML, not JSON" if body.lstrip()[:1] == b"<" else f"something unexpected ({problem})"
        )
        start = readable(body[:4000].decode("utf-8", "replace")) or "an empty body"
        raise ProviderError("bad_answer", f"{host} answered with {what}: {start}") from error


# Settings and headers.


def url_problems(key: str, url: str) -> list[str]:
    """Return what is wrong with an address that must be complete, or a variable that was not filled
    in.
    """
    return (
        []
        if is_complete_url(url) or url.startswith("${")
        else [f"{key}: is not a complete address; write it as https://host/path"]
    )


def header_problems(headers: Mapping[str, str]) -> list[str]:
    """Return which header names and values HTTP cannot carry; the values are not shown, they may be
    secret.
    """
    return [
        f"headers.{name}: a name takes letters, digits and '-', a value no line breaks or other control characters"
        for name, value in headers.items()
        if not (_FIELD_NAME.fullmatch(name) and value.isprintable())
    ]


def token_problems(token: TokenCommand | None, headers: Mapping[str, str]) -> list[str]:
    """Return what stands in the way of a token."""
    taken = [name for name in headers if token is not None and name.lower() == "authorization"]
    return [f"headers.{name}: the `token` is sent there: leave one of them out" for name in taken]


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return how long the server asks to be left alone, in seconds: `retry-after-ms`, or
    `Retry-After` of RFC 9110.
    """
    if (milliseconds := number_in(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    if (seconds := number_in(headers.get("Retry-After"))) is not None:
        return seconds
    until = date_in(headers.get("Retry-After"))
    return max(0.0, (until - now).total_seconds()) if until else None


def number_in(text: str | None) -> float | None:
    """Return a header's number if it can measure a time or a count: finite, not negative."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def date_in(text: str | None) -> datetime | None:
    """Return a header's HTTP date (RFC 9110), taken as UTC where it names no zone."""
    try:
        date = parsedate_to_datetime(text or "")
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


# Answers.


def kind_of(status: int) -> ErrorKind:
    """Return the sort of failure that a status outside 2xx stands for."""
    return _KINDS.get(status, "server" if status >= 500 else "rejected")


def readable(text: str, limit: int = 300) -> str:
    """Return a server's text as `one_line` does, and without tags if it is HTML."""
    return one_line(_TAGS.sub(" ", text[:4000]) if text.lstrip().startswith("<") else text, limit)


def authority(host: str | None, port: int | None) -> str:
    """Return `localhost:8000`, `[::1]:8000`."""
    return f"[{host}]:{port}" if host and ":" in host else f"{host}:{port}"


def place_of(url: URL) -> str:
    """Return `localhost:8000/chat`: a usual port is left out, and so is all that may be secret in
    an address.
    """
    host = f"[{url.host}]" if url.host and ":" in url.host else url.host
    at = host if url.is_default_port() else authority(url.host, url.port)
    return one_line(f"{at}{url.path.rstrip('/')}", _PLACE_CHARACTERS)


def why_lost(error: Exception) -> str:
    """Return what prevented or broke a connection, without aiohttp's URLs, which may hold
    credentials.
    """
    cause = getattr(error, "os_error", error)
    if isinstance(cause, ConnectionRefusedError):
        return "the connection was refused; is a server running there?"
    reason = getattr(cause, "strerror", None) or str(cause).partition("url=")[0]
    if (
        isinstance(cause, OSError) and cause.errno and reason.startswith("Connect call failed")
    ):  # asyncio's own words
        reason = os.strerror(cause.errno)
    return readable(reason) or type(error).__name__


async def _read(
    response: aiohttp.ClientResponse, enough: int, feed: Callable[[bytes], None] = lambda _: None
) -> bytes:
    """Read the body until it is complete or longer than `enough` bytes; `feed` gets each chunk as
    it comes.
    """
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        feed(chunk)
        if len(body) > enough:
            break
    return bytes(body)


class _EventReader:
    """Reads server-sent events as they come, by the WHATWG's HTML standard, section 9.2.6.

    Args:
        start: when the request was made, by `time.perf_counter`.
    """

    def __init__(self, start: float) -> None:
        self.read: list[Event] = []
        self._start = start
        self._line: list[bytes] = []
        self._data: list[str] = []
        self._name = ""
        self._after_cr = False

    def feed(self, chunk: bytes) -> None:
        """Read what came next."""
        if self._after_cr:  # the line that it ended is read: a line feed here belongs to it
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        *ended, rest = re.split(rb"\r\n|\n|\r", chunk)
        for line in ended:
            self._read_line(
                b"".join((*self._line, line)).decode("utf-8", "replace").removeprefix("\ufeff")
            )
            self._line = []
        self._line.append(rest)

    def _read_line(self, line: str) -> None:
        if not line:
            if self._data:
                after_s = round(time.perf_counter() - self._start, 6)
                self.read.append(Event("\n".join(self._data), self._name or "message", after_s))
            self._data, self._name = [], ""
            return
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
        elif name == "event":
            self._name = value.removeprefix(" ")


async def _refusal(response: aiohttp.ClientResponse, sent: Mapping[str, str]) -> ProviderError:
    """Return the error that a status outside 2xx stands for, in the server's own words."""
    status, place = response.status, place_of(response.url)
    if 300 <= status < 400:
        text = f"{place} answered {status}, a redirect, which is not followed: check the provider's `base_url` or `url`"
        return ProviderError(
            "rejected", text, status=status
        )  # where to is said by nobody that has to be believed
    try:
        body = await _read(response, _REFUSAL_BYTES)
    except (aiohttp.ClientError, OSError):
        body = b""  # the status says enough
    kind = (
        "rejected" if status == 429 and b"insufficient_quota" in body else kind_of(status)
    )  # no credit: final
    message = _message(body) or body.decode("utf-8", "replace") or response.reason or "no message"
    for name, value in sent.items():  # the server may repeat a credential
        if _CREDENTIAL.search(name) and (words := value.split()) and len(words[-1]) >= SHORTEST:
            message = message.replace(words[-1], MASK)
    wait_s = retry_after_s(
        response.headers, date_in(response.headers.get("Date")) or datetime.now(UTC)
    )
    if wait_s is None and (delay := _RETRY_DELAY.search(body)):
        wait_s = number_in(delay[1].decode())
    return ProviderError(
        kind, f"{place} answered {status}: {readable(message)}", status=status, retry_after_s=wait_s
    )


def _message(body: bytes) -> str | None:
    """Return the message of an error in any of the usual shapes: `error.message`, `error`,
    `message` or `detail`.
    """
    try:
        answer = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    match (
        answer[0] if isinstance(answer, list) and answer else answer
    ):  # Google wraps some errors in a list
        case (
            {"error": {"message": str(text)}}
            | {"error": str(text)}
            | {"message": str(text)}
            | {"detail": str(text)}
        ):
            return text
        case _:
            return None


def _address(url: URL, error: Exception) -> str:
    """Return `localhost:8000/chat`, and the proxy, if it was that which could not be reached."""
    asked = (url.raw_host, url.port)
    reached = (getattr(error, "host", url.raw_host), getattr(error, "port", url.port))
    through = "" if reached == asked else f" through the proxy {authority(*reached)}"
    return place_of(url) + through
