"""Requests to the API of a CI system: repeats them after limits and failures, checks answers."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, BinaryIO, Final, TypeVar

import aiohttp
from pydantic import TypeAdapter, ValidationError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception
from yarl import URL

from ci_evals.errors import HostError
from ci_evals.model.fields import first_problem
from ci_evals.providers.http_client import why_lost

T = TypeVar("T")

Sleep = Callable[[float], Awaitable[None]]

MAX_ATTEMPTS: Final = 5
TIMEOUT: Final = aiohttp.ClientTimeout(total=30, connect=10)
DOWNLOAD_TIMEOUT: Final = aiohttp.ClientTimeout(total=600, sock_connect=10, sock_read=60)

_FIRST_RETRY_S = 1.0
_LIMIT_S = 60.0  # GitHub's advice for a rate limit that names no time


class Patience:
    """Repeats requests after rate limits and failures, within a total time.

    Args:
        sleep: waits for a number of seconds.
        total_s: the longest time to wait for all requests together, in seconds.
    """

    def __init__(self, sleep: Sleep, total_s: float) -> None:
        self.sleep = sleep
        self._left_s = total_s

    async def retry(
        self,
        call: Callable[[], Awaitable[T]],
        kinds: Collection[str] = ("rate_limited", "unreachable"),
    ) -> T:
        """Return what `call` returns, repeating it after a `HostError` of these kinds.

        Raises:
            HostError: it failed for good or too often, or the wait is longer than the time left.
        """

        def can_succeed(error: BaseException) -> bool:
            return isinstance(error, HostError) and error.kind in kinds

        def must_stop(state: RetryCallState) -> bool:
            return state.attempt_number >= MAX_ATTEMPTS or state.upcoming_sleep > self._left_s

        def spend(state: RetryCallState) -> None:
            self._left_s -= state.upcoming_sleep

        retrying = AsyncRetrying(
            sleep=self.sleep,
            retry=retry_if_exception(can_succeed),
            wait=_wait_s,
            stop=must_stop,
            before_sleep=spend,
            reraise=True,
        )
        return await retrying(call)


def _wait_s(state: RetryCallState) -> float:
    """Return the seconds to wait: as long as the answer asks for, else twice the last wait."""
    assert state.outcome is not None
    error = state.outcome.exception()
    assert isinstance(error, HostError)
    if error.wait_s is not None:
        return error.wait_s
    first_s = _FIRST_RETRY_S
    if error.kind == "rate_limited":
        first_s = _LIMIT_S
    return first_s * 2.0 ** (state.attempt_number - 1)


@contextmanager
def network_errors(url: URL) -> Iterator[None]:
    """Turn aiohttp's errors into ours, without addresses: signed ones are secrets."""
    try:
        yield
    except TimeoutError as error:
        raise HostError("unreachable", f"no answer from {url.host}: it took too long") from error
    except (aiohttp.ClientError, OSError) as error:
        raise HostError("unreachable", f"no answer from {url.host}: {why_lost(error)}") from error


def decode(answer: Any, kind: TypeAdapter[T], host: str) -> T:
    """Return an answer of `host` as `kind`, else raise `HostError("unexpected")`."""
    try:
        return kind.validate_python(answer)
    except ValidationError as error:
        raise HostError(
            "unexpected", f"{host}'s answer differs from its documentation: {first_problem(error)}"
        ) from error


async def check_redirect(url: URL) -> None:
    """Check the target of a redirect, whose answer is saved for code under test to see.

    Raises:
        HostError: it is a link-local address, where clouds hand out the credentials of a machine.
    """
    if url.host is None:
        raise HostError("unexpected", "a redirect without a host is refused")
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except OSError:
        return  # the request fails as well, or a proxy knows the name
    for _, _, _, _, address in found:
        # An IPv6 address may name its interface: `fe80::1%eth0`.
        if ip_address(str(address[0]).partition("%")[0]).is_link_local:
            raise HostError(
                "unexpected", f"a redirect to the link-local address {url.host} is refused"
            )


async def save_body(response: aiohttp.ClientResponse, file: BinaryIO, max_bytes: int) -> None:
    """Write the body of a response to a file.

    Raises:
        HostError: it has more than `max_bytes`.
    """
    async for chunk in response.content.iter_any():
        if file.tell() + len(chunk) > max_bytes:
            raise HostError("too_large", f"the download has more than {max_bytes:,} bytes")
        file.write(chunk)
