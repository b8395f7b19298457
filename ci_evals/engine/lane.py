"""One provider's queue: its fresh runs, its retries, and when it wants to be left alone."""

import heapq
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ci_evals.engine.slots import Claim
from ci_evals.providers.base import Provider, ProviderOptions


class Attempt(NamedTuple):
    """The next thing to do: attempt `number` (from 1) of one slot."""

    slot: int
    number: int


class Lane:
    """What is left to do at one provider.

    Args:
        options: the provider's settings.
        provider: what answers.
        fresh: slots that have not been tried, in order.
        limit: how many calls of this provider may be under way.
        claim: its part in the global slots.
        clock: seconds from any starting point, never going back.
    """

    def __init__(
        self,
        options: ProviderOptions,
        provider: Provider,
        fresh: Iterator[int],
        *,
        limit: int,
        claim: Claim,
        clock: Callable[[], float],
    ) -> None:
        self.options = options
        self.provider = provider
        self.limit = limit
        self.claim = claim
        self._paused_until = 0.0
        self._fresh = fresh
        self._clock = clock
        self._retries: list[tuple[float, Attempt]] = []

    @property
    def retrying(self) -> int:
        """How many runs wait for another attempt."""
        return len(self._retries)

    @property
    def paused(self) -> bool:
        return self._paused_until > self._clock()

    def take(self) -> Attempt | float | None:
        """The next attempt, or the seconds until there may be one, or None when nothing is left."""
        now = self._clock()
        if now < self._paused_until:
            return self._paused_until - now
        if self._retries and self._retries[0][0] <= now:
            return heapq.heappop(self._retries)[1]
        if len(self._retries) < 4 * self.limit:  # beyond that, fresh runs would only join the queue of retries
            slot = next(self._fresh, None)
            if slot is not None:
                return Attempt(slot, 1)
        return self._retries[0][0] - now if self._retries else None

    def put_back(self, attempt: Attempt) -> None:
        """Return an attempt that was taken but not made."""
        heapq.heappush(self._retries, (0.0, attempt))

    def retry(self, attempt: Attempt, delay_s: float) -> None:
        """Try a run again after `delay_s` seconds."""
        heapq.heappush(self._retries, (self._clock() + delay_s, Attempt(attempt.slot, attempt.number + 1)))

    def pause(self, seconds: float) -> None:
        """Leave the whole provider alone for a while."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)
