"""HTTP requests and answers: their types and checks."""

import json
import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError
from yarl import URL

from ci_evals.errors import ProviderError
from ci_evals.format import one_line
from ci_evals.model.fields import first_problem, is_complete_url
from ci_evals.providers.answer import plain_json
from ci_evals.providers.base import Credentials, TokenCommand
from ci_evals.providers.http_headers import number_in

END_OF_STREAM = "[DONE]"
"""The data of the last event of OpenAI's streams, and of many compatible ones."""

_PLACE_CHARACTERS = 200

T = TypeVar("T")


class Call(NamedTuple):
    """One HTTP request."""

    method: str
    url: URL
    headers: Mapping[str, str]
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event that arrived `after_s` seconds after the request."""

    data: str
    name: str
    after_s: float


class Reply(NamedTuple):
    """The answer to an HTTP request, with a 2xx status; `events` is None unless it is a stream."""

    body: bytes
    headers: Mapping[str, str]
    events: Sequence[Event] | None = None

    @property
    def cost_usd(self) -> float | None:
        """The cost in the header of a gateway such as LiteLLM; None without such a header."""
        return number_in(self.headers.get("x-litellm-response-cost"))


class HttpCredentials(Credentials, Protocol):
    """Authorizes the calls of providers."""

    expired_status: int
    """The status of an answer to credentials that have expired."""

    async def authorize(self, call: Call) -> Mapping[str, str]:
        """Return the headers of a call, including its authorization.

        Raises:
            ProviderError: there are no credentials.
        """
        ...

    async def renew(self, refused: Mapping[str, str]) -> bool:
        """Replace the credentials of a refused call; return False if there are no others.

        Several calls that were refused with the same credentials renew them once.

        Args:
            refused: the headers of the call.

        Raises:
            ProviderError: there are no credentials any more.
        """
        ...


class EventReader(Protocol):
    """Reads the events of a stream as they arrive."""

    events: list[Event]
    """The events so far."""

    def feed(self, chunk: bytes) -> None:
        """Read the next chunk.

        Raises:
            ProviderError: the data is not a stream of events.
        """
        ...


class HttpSender(Protocol):
    """Makes the calls of one provider."""

    def send(self, call: Call, timeout_s: float) -> Awaitable[Reply]:
        """Make a call and return its answer. Redirects are not followed, because they could lead
        the key to another host.

        Args:
            call: the request.
            timeout_s: seconds that the answer may take.

        Raises:
            ProviderError: there are no credentials, there was no answer, or the answer has a status
                outside 2xx or is too long.
        """
        ...


def decode(adapter: TypeAdapter[T], body: bytes, host: str | None) -> T:
    """Read a JSON answer, replacing stray bytes and lone surrogates in it.

    Raises:
        ProviderError: the answer is not valid JSON, or has another shape.
    """
    try:
        return adapter.validate_json(body)
    except ValidationError:
        pass  # perhaps because of stray bytes or lone surrogates
    try:
        value = json.loads(body.decode("utf-8-sig", "replace"), strict=False)
        return adapter.validate_python(plain_json(value))
    except (ValueError, RecursionError) as error:
        start = readable(body[:4000].decode("utf-8", "replace")) or "an empty body"
        if body.lstrip().startswith(b"<"):
            what = "HTML, not JSON"
        elif isinstance(error, ValidationError):
            what = f"something unexpected ({first_problem(error)})"
        else:
            what = f"something unexpected ({error})"
        raise ProviderError("bad_answer", f"{host} answered with {what}: {start}") from error


# Settings.


def url_problems(key: str, url: str) -> list[str]:
    """Return the problems of an address; a variable that is not filled in is accepted."""
    if is_complete_url(url) or url.startswith("${"):
        return []
    return [f"{key}: is not a complete address; write it as https://host/path"]


def authorization_problems(headers: Mapping[str, str], why: str) -> list[str]:
    """Return the problem of an `Authorization` header in addition to credentials.

    Args:
        headers: the headers of the config.
        why: the text of the problem.
    """
    return [f"headers.{name}: {why}" for name in headers if name.lower() == "authorization"]


def token_problems(token: TokenCommand | None, headers: Mapping[str, str]) -> list[str]:
    """Return the problems of headers that conflict with a token."""
    if token is None:
        return []
    return authorization_problems(headers, "the `token` uses this header: remove one of them")


# Answers and addresses in messages.


def readable(text: str, limit: int = 300) -> str:
    """Return a server's text on one line, without tags if it is HTML."""
    if text.lstrip().startswith("<"):
        tags = r"<(script|style)\b.*?</\1\s*>|<[^<>]*>"
        text = re.sub(tags, " ", text[:4000], flags=re.IGNORECASE | re.DOTALL)
    return one_line(text, limit)


def authority(host: str | None, port: int | None) -> str:
    """Return `localhost:8000`, `[::1]:8000`."""
    if host and ":" in host:
        host = f"[{host}]"
    return f"{host}:{port}"


def place_of(url: URL) -> str:
    """Return `localhost:8000/chat`, without a default port, user or query: these may be secret."""
    place = authority(url.host, url.port)
    if url.is_default_port():
        place = place.rpartition(":")[0]
    return one_line(f"{place}{url.path.rstrip('/')}", _PLACE_CHARACTERS)
