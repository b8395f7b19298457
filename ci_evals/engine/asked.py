"""Providers that are asked while a run is under way: each at its pace, with its retries."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import count
from typing import TypeVar

import msgspec

from ci_evals.engine import retry
from ci_evals.engine.breaker import Breaker
from ci_evals.engine.pace import Pace
from ci_evals.errors import ProviderError, StorageError
from ci_evals.model import Request
from ci_evals.providers.base import Provider, ProviderOptions
from ci_evals.response import Response

T = TypeVar("T")
R = TypeVar("R")


class Asked:
    """One provider that is asked while a run is under way: by a grader, as a user, as a stage, or which it prefers.

    A call to it takes place within the slot of the run that is judged, so that the suite's `max_concurrency` holds.

    Args:
        options: its settings.
        provider: what answers.
        pace: when it may be called; shared by a `limit_group`, and by the lane of the same provider.
        turn: held by who asks `pace`; shared likewise.
        limit: how many of its calls may be under way.
        retries: further attempts after a refused or lost call.
        timeout_s: seconds that a call may take; None for those of the request.
        price: what an answer cost, in USD, or None where that is not known.
        draw: returns a uniform number in [0, 1).
    """

    def __init__(  # noqa: PLR0913  here these meet
        self,
        options: ProviderOptions,
        provider: Provider,
        *,
        pace: Pace,
        turn: asyncio.Lock,
        limit: int,
        retries: int,
        timeout_s: float | None,
        price: Callable[[Response], float | None],
        draw: Callable[[], float],
    ) -> None:
        self.options = options
        self.price = price
        self._provider = provider
        self._pace = pace
        self._turn = turn
        self._calls = asyncio.Semaphore(limit)
        self._retries = retries
        self._timeout_s = timeout_s
        self._draw = draw
        self._probe = asyncio.Lock()
        self._breaker = Breaker(limit=limit, attempts=retries + 1)

    async def answer(self, request: Request) -> Response:
        """Call until there is an answer, or no further attempt.

        Raises:
            ProviderError: there is no answer.
            StorageError: a file in the answer cannot be kept.
        """
        if self._timeout_s is not None:
            request = msgspec.structs.replace(request, timeout_s=self._timeout_s)
        for attempt in count(1):
            async with self._calls, self._outage() as is_probe:
                if self._breaker.state == "open":
                    raise ProviderError("given_up", self._breaker.reason)
                tokens = await admitted(self._pace, self._turn, request)
                start = time.perf_counter()
                try:
                    response = await self._provider.answer(request)
                except StorageError:
                    raise
                except Exception as raised:  # noqa: BLE001  a provider is not our code
                    error = ProviderError.of(raised)
                else:
                    self._pace.answered(response.usage, tokens)
                    self._breaker.answered()
                    return response
                delay_s = self._lost(error, attempt, time.perf_counter() - start, is_probe=is_probe)
            if delay_s is None:
                raise error
            await asyncio.sleep(delay_s)
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def _outage(self) -> AsyncIterator[bool]:
        """In an outage one call at a time tries whether it is over, after a growing pause, and the others wait for it.

        Gives whether this call is the one.
        """
        if self._breaker.state == "probing":
            async with self._probe:
                if self._breaker.state == "probing":
                    await asyncio.sleep(retry.delay_s(self._breaker.probes + 1, None, lambda: 1.0))
                    yield True
                    return
        yield False

    def _lost(self, error: ProviderError, attempt: int, latency_s: float, *, is_probe: bool) -> float | None:
        """Note a call without an answer; returns the seconds to wait before the next, or None if it was the last."""
        delay_s = retry.delay_s(attempt, error.retry_after_s, self._draw)
        if error.kind == "rate_limit" or error.retry_after_s is not None:
            self._pace.refused(error.retry_after_s, delay_s, latency_s)
        else:
            self._pace.failed()
        is_closed = self._breaker.state == "closed"
        if error.retryable and attempt <= self._retries and is_closed:
            return delay_s
        if is_closed or is_probe:  # not what was under way before the outage
            self._breaker.gave_up(error)
        return None


async def ask_each(items: Iterable[T], ask: Callable[[T], Awaitable[R]], *, at_once: int) -> list[R]:
    """What comes of asking about each item, in the order of the items, with so many under way at once."""
    slots = asyncio.Semaphore(at_once)

    async def ask_about(item: T) -> R:
        async with slots:
            return await ask(item)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask_about(item)) for item in items]
    return [task.result() for task in tasks]


async def admitted(pace: Pace, turn: asyncio.Lock, request: Request) -> int:
    """Wait until a call may be made; returns the tokens that it was admitted with."""
    tokens = pace.expected_tokens(request.messages)
    async with turn:
        while (wait_s := pace.admit(tokens)) > 0:  # noqa: ASYNC110  a pace says when, and nobody tells it earlier
            await asyncio.sleep(wait_s)
    return tokens
