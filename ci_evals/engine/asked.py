"""Providers that are asked while a run is under way: each at its pace, with its retries."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import TypeVar

import msgspec

from ci_evals.engine.contact import Attempt, Contact, LostError
from ci_evals.errors import ProviderError
from ci_evals.model import Request
from ci_evals.providers.base import ProviderOptions
from ci_evals.response import Response

T = TypeVar("T")
R = TypeVar("R")


class Asked:
    """One provider that is asked while a run is under way: by a grader, as a user, as a stage, or which it prefers.

    A call to it takes place within the slot of the run that is judged, so that the suite's `max_concurrency` holds.

    Args:
        options: its settings.
        contact: makes its calls; shares its pace with the lane of the same provider.
        limit: how many of its calls may be under way.
        timeout_s: seconds that a call may take; None for those of the request.
        price: what an answer cost, in USD, or None where that is not known.
    """

    def __init__(
        self,
        options: ProviderOptions,
        contact: Contact,
        *,
        limit: int,
        timeout_s: float | None,
        price: Callable[[Response], float | None],
    ) -> None:
        self.options = options
        self.price = price
        self._contact = contact
        self._calls = asyncio.Semaphore(limit)
        self._timeout_s = timeout_s
        self._questions = count()
        self._probing = asyncio.Lock()

    async def answer(self, request: Request) -> Response:
        """Call until there is an answer, or no further attempt.

        Raises:
            ProviderError: there is no answer.
            StorageError: a file in the answer cannot be kept.
        """
        if self._timeout_s is not None:
            request = msgspec.structs.replace(request, timeout_s=self._timeout_s)
        attempt = Attempt(next(self._questions), 1)
        while True:
            try:
                async with self._calls, self._turn_in_outage(attempt):
                    if (response := await self._called(attempt, request)) is not None:
                        return response
            except LostError as lost:
                if lost.delay_s is None:
                    raise lost.error from None
                attempt = Attempt(attempt.slot, attempt.number + 1)
                await asyncio.sleep(lost.delay_s)

    async def _called(self, attempt: Attempt, request: Request) -> Response | None:
        """Make an attempt when the provider may be called; None if others found meanwhile that it is gone."""
        contact = self._contact
        if contact.breaker.state == "open":
            raise ProviderError("given_up", contact.breaker.reason)
        tokens = await contact.admitted(attempt, partial(contact.pace.expected_tokens, request.messages))
        if tokens is None:
            return None
        response, _ = await contact.call(attempt, request, tokens)
        return response

    @asynccontextmanager
    async def _turn_in_outage(self, attempt: Attempt) -> AsyncIterator[None]:
        """In an outage one call at a time tries whether it is over; the others wait, in order, for what it finds."""
        contact = self._contact
        if contact.breaker.state == "probing":
            async with self._probing:
                if contact.breaker.state == "probing":
                    await asyncio.sleep(contact.until_probe_s)
                if contact.breaker.state == "probing":  # what was under way before may have been answered meanwhile
                    contact.probe(attempt)
                    yield
                    return
        yield


async def ask_each(items: Iterable[T], ask: Callable[[T], Awaitable[R]], *, at_once: int) -> list[R]:
    """What comes of asking about each item, in the order of the items, with so many under way at once."""
    slots = asyncio.Semaphore(at_once)

    async def ask_about(item: T) -> R:
        async with slots:
            return await ask(item)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask_about(item)) for item in items]
    return [task.result() for task in tasks]
