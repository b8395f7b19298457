"""Calls over HTTP: the one place that makes them, names what went wrong, and holds what the model APIs share."""

import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ci_evals.errors import ErrorKind, ProviderError
from ci_evals.providers.base import ProviderOptions, Resources, Secret
from ci_evals.providers.headers import date_in, number_in, retry_after_s
from ci_evals.redaction import MASK, SHORTEST

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

MAX_BYTES = 50 * 1024 * 1024
_REFUSAL_BYTES = 64 * 1024
_ONE_WRITE_BYTES = 1024 * 1024  # aiohttp asks for a file from here on

_KINDS: Mapping[int, ErrorKind] = {401: "auth", 403: "auth", 408: "server", 409: "server", 429: "rate_limit"}
# Patterns that only errors and settings of the rarer kind need: compiled when they are first used.
_CREDENTIAL = "(?i)auth|key|token|secret|cookie|password"
_FIELD_NAME = r"(?a)[\w!#$%&'*+.^`|~-]+"
_RETRY_DELAY = rb'"retryDelay":\s*"([\d.]+)s"'  # Google's RetryInfo, which stands in the body
_ON_THIS_MACHINE = r"(?i)https?://(localhost|127\.|\[::1\])"
_SETTINGS = (  # that are taken for keys of the provider
    "frequency_penalty", "logprobs", "max_completion_tokens", "max_tokens", "presence_penalty", "reasoning_effort",
    "response_format", "seed", "stop", "stop_sequences", "temperature", "thinking", "tool_choice", "tools", "top_k",
    "top_logprobs", "top_p",
)  # fmt: skip
_TAGS = r"(?is)<(script|style)\b.*?</\1\s*>|<[^<>]*>"

T = TypeVar("T")
_encoder = msgspec.json.Encoder()


class ModelOptions(ProviderOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every model API is set up with.

    Args:
        model: the model's name, as the vendor writes it.
        base_url: where the API is; the vendor's own address when left out.
        api_key: the key, if the endpoint wants one.
        params: further fields of the request body, in the vendor's own words.
        headers: further HTTP headers; they win over those that are set by themselves.
    """

    default_key_variable: ClassVar[str]
    vendor_host: ClassVar[str]
    reserved: ClassVar[tuple[str, ...]] = ("model", "messages", "stream")
    settings: ClassVar[Mapping[str, str]] = {name: f"params.{name}" for name in _SETTINGS}

    model: str
    base_url: str
    api_key: Secret | None = None
    params: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}

    @property
    def default_name(self) -> str:
        return f"{self.__struct_config__.tag}:{self.model}"

    @property
    def api_url(self) -> str | None:
        return None if re.match(_ON_THIS_MACHINE, self.base_url) else self.base_url

    @property
    def key_variable(self) -> str | None:
        at_vendor = re.match(rf"https?://([\w.-]+\.)?{re.escape(self.vendor_host)}(?![\w.-])", self.base_url)
        return self.default_key_variable if at_vendor and self.api_key is None else None

    def problems(self, folder: Path) -> list[str]:
        return [
            *(["model: is empty"] if not self.model.strip() else []),
            *url_problems("base_url", self.base_url),
            *(
                f"params.{name}: is set by ci-evals itself; leave it out"
                for name in self.reserved
                if name in self.params
            ),
            *header_problems(self.headers),
        ]

    def endpoint(
        self, resources: Resources, path: str, headers: Mapping[str, str], fields: Mapping[str, Any]
    ) -> "Endpoint":
        """The API at `path` below the base URL, whose own query is kept; `fields` are sent with every call."""
        from multidict import CIMultiDict
        from yarl import URL

        _ = resources.session  # made now, and not while calls are under way
        base = URL(self.base_url)
        merged = CIMultiDict({"Content-Type": "application/json", **headers})
        merged.update(self.headers)
        encoded = {name: msgspec.Raw(encode(value)) for name, value in fields.items()}
        return Endpoint(resources, base.joinpath(*path.split("/")).with_query(base.query), merged, encoded)


class Endpoint(Struct, frozen=True):
    """A model API at one address, with the headers and body fields of every call, encoded once."""

    resources: Resources
    url: "URL"
    headers: Mapping[str, str]
    fields: Mapping[str, msgspec.Raw]

    async def ask(self, fields: Mapping[str, Any], decoder: msgspec.json.Decoder[T], timeout_s: float) -> T:
        """Post `fields` beside those of every call; returns the decoded answer or raises `ProviderError`."""
        call = Call("POST", self.url, self.headers, encode({**self.fields, **fields}))
        answer = await send(self.resources, call, timeout_s=timeout_s)
        return decode(decoder, answer, self.url.host)


class Call(Struct, frozen=True, gc=False):
    method: str
    url: "URL"
    headers: Mapping[str, str]
    data: bytes | None = None


async def send(resources: Resources, call: Call, *, timeout_s: float, max_bytes: int = MAX_BYTES) -> bytes:
    """Make a call and read its answer whole, else raise `ProviderError`. No redirect is followed: a key stays put."""
    url, headers, data = call.url, call.headers, call.data
    try:
        with resources.deadlines.within(timeout_s):
            response = await resources.session.request(
                call.method,
                url,
                headers=headers,
                data=data if data is None or len(data) < _ONE_WRITE_BYTES else BytesIO(data),
                allow_redirects=False,
            )
            try:
                resources.observe(response.headers)
                if not 200 <= response.status < 300:
                    raise await _refusal(response, headers)
                return await _read(response, max_bytes)
            finally:
                if not response.closed:  # as it is when all of it has come
                    response.release()
    except TimeoutError as error:
        raise ProviderError("timeout", f"{url.host} did not answer within {timeout_s:g} s") from error
    except _lost() as error:
        raise ProviderError("network", f"no answer from {_asked(url, error)}: {why_lost(error)}") from error


def encode(value: object) -> bytes:
    """`value` as JSON. A lone surrogate, which UTF-8 cannot hold, is sent as its escape."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, default=msgspec.json.decode).encode()


def decode(decoder: msgspec.json.Decoder[T], body: bytes, host: str | None) -> T:
    """Read a JSON answer, else raise `bad_answer`; stray bytes and lone surrogates in it are replaced."""
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError):
        pass
    try:
        value = json.loads(body.decode("utf-8-sig", "replace"), strict=False)
        return decoder.decode(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        what = "HTML, not JSON" if body.lstrip()[:1] == b"<" else f"something unexpected ({error})"
        start = readable(body[:4000].decode("utf-8", "replace")) or "an empty body"
        raise ProviderError("bad_answer", f"{host} answered with {what}: {start}") from error


def readable(text: str, limit: int = 300) -> str:
    """`text` as one line for a person: without HTML tags and control characters, and not longer than `limit`."""
    bare = re.sub(_TAGS, " ", text[:4000]) if text.lstrip().startswith("<") else text[: 4 * limit]
    line = " ".join("".join(char if char.isprintable() else " " for char in bare).split())
    return line if len(line) <= limit else f"{line[:limit]}…"


def url_problems(key: str, url: str) -> list[str]:
    """What is wrong with an address that must be complete."""
    try:
        parts = urlsplit(url)
        complete = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        complete = False
    return [] if complete else [f"{key}: is no complete address; write it as https://host/path"]


def header_problems(headers: Mapping[str, str]) -> list[str]:
    """Header names and values that HTTP cannot carry; the values are not shown, they may be secret."""
    return [
        f"headers.{name}: a name takes letters, digits and '-', a value no line breaks or other control characters"
        for name, value in headers.items()
        if not (re.fullmatch(_FIELD_NAME, name) and value.isprintable())
    ]


def kind_of(status: int) -> ErrorKind:
    """What sort of failure a status outside 2xx stands for."""
    return _KINDS.get(status, "server" if status >= 500 else "rejected")


async def _read(response: "aiohttp.ClientResponse", max_bytes: int) -> bytes:
    if response.content.is_eof():
        body = response.content.read_nowait()  # it came together with its headers, as nearly every answer does
    else:
        body = await _read_some(response, max_bytes)
    if len(body) > max_bytes:
        raise ProviderError("bad_answer", f"{response.url.host} answered with more than {max_bytes:,} bytes")
    return body


async def _read_some(response: "aiohttp.ClientResponse", enough: int) -> bytes:
    """The body, read until it is complete or longer than `enough` bytes."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > enough:
            break
    return bytes(body)


async def _refusal(response: "aiohttp.ClientResponse", sent: Mapping[str, str]) -> ProviderError:
    """The error that a status outside 2xx stands for, in the server's own words."""
    status, host = response.status, response.url.host
    if 300 <= status < 400:
        target = readable(response.headers.get("Location", "nowhere").partition("?")[0])
        return ProviderError("rejected", f"{host} redirects to {target}; use that address", status=status)
    try:
        body = await _read_some(response, _REFUSAL_BYTES)
    except _lost():
        body = b""  # the status says enough
    kind = "rejected" if status == 429 and b"insufficient_quota" in body else kind_of(status)  # no credit: final
    message = _message(body) or body.decode("utf-8", "replace") or response.reason or "no message"
    wait_s = retry_after_s(response.headers, date_in(response.headers.get("Date")) or datetime.now(UTC))
    if wait_s is None and (delay := re.search(_RETRY_DELAY, body)):
        wait_s = number_in(delay[1].decode())
    return ProviderError(
        kind,
        f"{host} answered {status}: {readable(_without_secrets(message, sent))}",
        status=status,
        retry_after_s=wait_s,
    )


def _message(body: bytes) -> str | None:
    """The message of an error in any of the usual shapes: `error.message`, `error`, `message` or `detail`."""
    try:
        answer = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    match answer[0] if isinstance(answer, list) and answer else answer:  # Google wraps some errors in a list
        case {"error": {"message": str(text)}} | {"error": str(text)} | {"message": str(text)} | {"detail": str(text)}:
            return text
        case _:
            return None


def _without_secrets(text: str, sent: Mapping[str, str]) -> str:
    """`text` without the credentials that were sent, in case the server repeats them."""
    for name, value in sent.items():
        if re.search(_CREDENTIAL, name) and (words := value.split()) and len(words[-1]) >= SHORTEST:
            text = text.replace(words[-1], MASK)
    return text


def _lost() -> tuple[type[Exception], ...]:
    import aiohttp

    return (aiohttp.ClientError, OSError)


def _asked(url: "URL", error: Exception) -> str:
    """`localhost:8000`, and the proxy, if it was that which could not be reached."""
    asked = (url.raw_host, url.port)
    reached = (getattr(error, "host", url.raw_host), getattr(error, "port", url.port))
    through = "" if reached == asked else f" through the proxy {authority(*reached)}"
    return authority(url.host, url.port) + through


def authority(host: str | None, port: int | None) -> str:
    """`localhost:8000`, `[::1]:8000`."""
    return f"[{host}]:{port}" if host and ":" in host else f"{host}:{port}"


def why_lost(error: Exception) -> str:
    """What kept a connection from coming about or broke it, without aiohttp's URLs, which may hold credentials."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, ConnectionRefusedError):
        return "the connection was refused; is a server running there?"
    reason = getattr(cause, "strerror", None) or str(cause).partition("url=")[0]
    if isinstance(cause, OSError) and cause.errno and reason.startswith("Connect call failed"):  # asyncio's own words
        reason = os.strerror(cause.errno)
    return readable(reason) or type(error).__name__
