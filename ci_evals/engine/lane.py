"""One provider's queue: its fresh runs, its retries, its pace, and whether it is worth calling at all."""

import asyncio
import heapq
from collections.abc import Callable, Iterator

from msgspec import Struct

from ci_evals.engine import retry
from ci_evals.engine.breaker import Breaker
from ci_evals.engine.pace import Pace
from ci_evals.engine.slots import Claim
from ci_evals.errors import ProviderError
from ci_evals.providers.base import Provider, ProviderOptions
from ci_evals.response import Response, Usage

LONGEST_OUTAGE_S = 60.0  # that is waited for before a provider is probed: as long as windows of quotas mostly are


class Attempt(Struct, frozen=True, order=True, gc=False):
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
        retries: further attempts after a refused or lost call.
        pace: when it may be called; shared by a `limit_group`.
        turn: held by the worker that asks `pace`; shared likewise.
        claim: its part in the global slots.
        price: what an answer cost, in USD, or None where that is not known.
        clock: seconds from any starting point, never going back.
    """

    def __init__(  # noqa: PLR0913  a lane is where these meet
        self,
        options: ProviderOptions,
        provider: Provider,
        fresh: Iterator[int],
        *,
        limit: int,
        retries: int,
        pace: Pace,
        turn: asyncio.Lock,
        claim: Claim,
        price: Callable[[Response], float | None],
        clock: Callable[[], float],
    ) -> None:
        self.options = options
        self.provider = provider
        self.limit = limit
        self.retries = retries
        self.pace = pace
        self.turn = turn
        self.claim = claim
        self.price = price
        self.breaker = Breaker(limit=limit, attempts=retries + 1)
        self._fresh = fresh
        self._clock = clock
        self._retries: list[tuple[float, Attempt]] = []
        self._probe: Attempt | None = None
        self._probe_at = 0.0
        self._down_since: float | None = None

    def queue(self, fresh: Iterator[int]) -> None:
        """Go on with further slots; how the provider has fared stays known."""
        self._fresh = fresh

    @property
    def retrying(self) -> int:
        """How many runs wait for another attempt."""
        return len(self._retries)

    @property
    def given_up(self) -> bool:
        return self.breaker.state == "open"

    def take(self) -> Attempt | float | None:
        """The next attempt, or the seconds until there may be one, or None when nothing is left."""
        state = self.breaker.state
        if state == "probing" and (wait_s := self._until_probe()) > 0:
            return wait_s
        if self._retries and (state != "closed" or self._retries[0][0] <= self._clock()):
            attempt = heapq.heappop(self._retries)[1]
        elif len(self._retries) < 4 * self.limit and (slot := next(self._fresh, None)) is not None:
            attempt = Attempt(slot, 1)  # with more waiting than that, fresh runs would only join the queue
        else:
            return self._retries[0][0] - self._clock() if self._retries else None
        if state == "probing":
            self._probe = attempt
        return attempt

    def may_call(self, attempt: Attempt) -> bool:
        """Whether an attempt that was taken a while ago is still worth making."""
        return self.breaker.state == "closed" or attempt == self._probe

    def put_back(self, attempt: Attempt) -> None:
        """Return an attempt that was not made."""
        heapq.heappush(self._retries, (0.0, attempt))

    def not_called(self, attempt: Attempt) -> None:
        """An attempt that was admitted ended before it called."""
        self.pace.failed()
        if attempt == self._probe:
            self._probe = None

    def _until_probe(self) -> float:
        if self._probe:
            return 0.1  # somebody is trying it
        return self._probe_at - self._clock()

    def answered(self, usage: Usage | None, tokens: int) -> None:
        """A call that was admitted with `tokens` brought an answer."""
        self._probe = self._down_since = None
        self.breaker.answered()
        self.pace.answered(usage, tokens)

    def lost(self, attempt: Attempt, error: ProviderError, latency_s: float, draw: Callable[[], float]) -> bool:
        """Decide about a call that brought no answer; True if it will be tried again."""
        delay_s = retry.delay_s(attempt.number, error.retry_after_s, draw)
        if error.kind == "rate_limit" or error.retry_after_s is not None:
            self.pace.refused(error.retry_after_s, delay_s, latency_s)
        else:
            self.pace.failed()
        if self._is_outage(error):
            self.breaker.outlasting()
        has_another = error.retryable and attempt.number <= self.retries
        if not has_another or self.breaker.state != "closed":
            self._note_end(attempt, error)
        if not has_another or self.given_up:
            return False
        heapq.heappush(self._retries, (self._clock() + delay_s, Attempt(attempt.slot, attempt.number + 1)))
        return True

    def _is_outage(self, error: ProviderError) -> bool:
        """Whether nothing has come for long but word that the provider is down, and when to ask again.

        With their calls that far apart, hardly any runs end that the breaker could count.
        """
        if self.options.own_code or error.kind != "server" or error.retry_after_s is None:
            return False
        now = self._clock()
        if self._down_since is None:
            self._down_since = now
        return now - self._down_since >= LONGEST_OUTAGE_S

    def _note_end(self, attempt: Attempt, error: ProviderError) -> None:
        """Tell the breaker of a run that ended without an answer, or of an attempt in an outage."""
        if self.options.own_code and error.kind in ("server", "rejected"):
            self._probe = None
            self.breaker.answered()  # the system under test is there, and how it fails is what is judged
        elif self.breaker.state == "closed" or attempt == self._probe:  # not what was under way before the outage
            self._probe = None
            self.breaker.gave_up(error)
            if self.given_up:
                self.pace.learn_anew()
            self._probe_at = self._clock() + retry.delay_s(self.breaker.probes + 1, None, lambda: 1.0)
