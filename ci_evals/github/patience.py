"""How long to wait for GitHub: what its limits ask for, the time between writes, and when to give up."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeVar

from ci_evals.errors import GitHubError, GitHubErrorKind
from ci_evals.providers.headers import date_in, number_in, retry_after_s

T = TypeVar("T")

Sleep = Callable[[float], Awaitable[None]]
Clock = Callable[[], float]

WRITE_SPACING_S: Final = 1.0
MAX_ATTEMPTS: Final = 5
_SECONDARY_S: Final = 60.0
_FIRST_RETRY_S: Final = 1.0
_LIMIT_TEXTS: Final = (b"rate limit", b"abuse detection")
_NO_PERMISSION: Final = b"resource not accessible"


class Refusal(Exception):  # noqa: N818  it becomes an error only when nothing else is left to try
    """A call that may be tried again.

    Args:
        kind: what is raised in the end.
        message: one line for a person.
        wait_s: how long GitHub asks to be left alone, in seconds; None leaves it to the caller.
        undone: whether it is certain that the call had no effect.
    """

    def __init__(
        self, kind: GitHubErrorKind, message: str, *, wait_s: float | None = None, undone: bool = False
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.wait_s = wait_s
        self.undone = undone

    def final(self) -> GitHubError:
        return GitHubError(self.kind, str(self))


class Reply(NamedTuple):
    """An answer as it arrived."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def limit_wait_s(reply: Reply, attempt: int, now: float) -> float | None:
    """How long a rate limit asks to wait, in seconds; None if the reply is no rate limit.

    Args:
        reply: any answer.
        attempt: how often the call was made, from 1.
        now: seconds since the epoch, for answers without a date of their own.
    """
    body = reply.body.lower()
    if reply.status not in (403, 429) or _NO_PERMISSION in body:
        return None
    date = date_in(reply.headers.get("Date")) or datetime.fromtimestamp(now, UTC)
    asked_s = retry_after_s(reply.headers, date)
    if asked_s is not None:
        return asked_s
    reset = number_in(reply.headers.get("x-ratelimit-reset"))
    if number_in(reply.headers.get("x-ratelimit-remaining")) == 0 and reset is not None:
        return max(0.0, reset - date.timestamp()) + 1  # the second itself still counts
    if reply.status == 429 or any(text in body for text in _LIMIT_TEXTS):
        return _SECONDARY_S * 2.0 ** (attempt - 1)
    return None


class Patience:
    """Waits, but not for ever: what it waited for GitHub's limits and failures adds up.

    Args:
        sleep, clock: how to wait and what the time is, in seconds since the epoch.
        total_s: seconds of waiting for everything that is asked through one client.
    """

    def __init__(self, sleep: Sleep = asyncio.sleep, clock: Clock = time.time, total_s: float = 300.0) -> None:
        self.sleep = sleep
        self.clock = clock
        self._left_s = total_s
        self._wrote_at: float | None = None
        self._writing = asyncio.Lock()

    async def insist(self, call: Callable[[int], Awaitable[T]], *, only_undone: bool = False) -> T:
        """What `call` returns, which is repeated as long as it raises `Refusal`.

        Args:
            call: is given the number of the attempt, from 1.
            only_undone: whether a refused call may have had an effect that is not to be had twice.

        Raises:
            GitHubError: the last refusal: there were too many, or it asks for more waiting than is left.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                return await call(attempt)
            except Refusal as refusal:
                if only_undone and not refusal.undone:
                    raise refusal.final() from refusal
                await self._wait(refusal, attempt)

    async def _wait(self, refusal: Refusal, attempt: int) -> None:
        wait_s = refusal.wait_s if refusal.wait_s is not None else _FIRST_RETRY_S * 2.0 ** (attempt - 1)
        if attempt >= MAX_ATTEMPTS:
            raise refusal.final() from refusal
        if wait_s > self._left_s:
            raise GitHubError(refusal.kind, f"{refusal}; not waiting {wait_s:,.0f} s for it") from refusal
        self._left_s -= wait_s
        await self.sleep(wait_s)

    async def space_writes(self) -> None:
        """Wait until a second has passed since the last write."""
        async with self._writing:
            if self._wrote_at is not None:
                since_s = self.clock() - self._wrote_at
                if 0 <= since_s < WRITE_SPACING_S:
                    await self.sleep(WRITE_SPACING_S - since_s)
            self._wrote_at = self.clock()
