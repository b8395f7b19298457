"""One call to a provider: its pace, its further attempts, and when the provider is given up."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, Protocol, TypeVar

from ci_evals.engine.executors import stopwatch
from ci_evals.engine.rate_limit import Permit, RateLimiter
from ci_evals.errors import ProviderError, StorageError
from ci_evals.model.case import Request
from ci_evals.model.response import Response
from ci_evals.providers.base import Provider

BACKOFF_S, LONGEST_BACKOFF_S = 0.5, 30.0
LONGEST_RETRY_AFTER_S = 300.0  # a provider that asks for more has refused for good

MOST_REFUSED_FOR_GOOD = 5  # calls in a row
MOST_LOST = 10  # calls in a row with all their attempts, or as many as may be under way
MOST_REFUSED, LONGEST_SILENCE_S = 10, 120.0  # attempts in a row, and the time that they took

_OVERLOADED = frozenset({502, 503, 504, 529})
_FOR_GOOD = frozenset(
    {401, 402, 403, 404}
)  # wrong key, no credit, no such model: waiting doesn't help

P = ParamSpec("P")
T = TypeVar("T")


class LostError(Exception):
    """A call got no answer.

    Args:
        error: why not.
        cause: the same, or what the provider had been given up for.
        started_at: when the last attempt began, in seconds since 1970.
        latency_s: how long it took.
        attempts: how many there were, at least 1.
    """

    def __init__(
        self,
        error: ProviderError,
        cause: ProviderError,
        started_at: float,
        latency_s: float,
        attempts: int,
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.cause = cause
        self.started_at = started_at
        self.latency_s = latency_s
        self.attempts = attempts


class StoppedError(Exception):
    """The run was stopped before the call, or before another attempt."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """An answer. The last of the `attempts` began at `started_at` (seconds since 1970) and took
    `latency_s`.
    """

    response: Response
    started_at: float
    latency_s: float
    attempts: int


class Semaphore(Protocol):
    """A limit on calls under way."""

    async def acquire(self) -> Any: ...

    def release(self) -> None: ...


class Slot:
    """One of the slots: held while calls are made, given back while they wait for another
    attempt.
    """

    def __init__(self, slots: Semaphore) -> None:
        self._slots = slots
        self._held = False

    async def take(self) -> None:
        await self._slots.acquire()
        self._held = True

    def give_back(self) -> None:
        if self._held:
            self._held = False
            self._slots.release()


class Calls:
    """Makes the calls to one provider: of runs, of graders, or as a simulated user.

    Args:
        provider: what answers.
        limiter: decides when it may be called; shared by a limit group.
        limit: how many calls may be under way.
        retries: further attempts of a call. If there are any, refusals don't count while the
            provider is paced.
        own_code: whether this is the team's own code under test, so that its errors are what is
            judged.
        max_tokens: the length of an answer that is asked for.
        clock: seconds from any starting point, never going back.
        draw: returns a uniform number in [0, 1).
    """

    def __init__(  # noqa: PLR0913  settings of a provider
        self,
        provider: Provider,
        limiter: RateLimiter,
        *,
        limit: int,
        retries: int,
        own_code: bool = False,
        max_tokens: int | None = None,
        clock: Callable[[], float],
        draw: Callable[[], float],
    ) -> None:
        self.breaker = Breaker(max(MOST_LOST, limit), clock)
        self.retrying = 0  # calls that wait for another attempt
        self._provider = provider
        self._limiter = limiter
        self._retries = retries
        self._own_code = own_code
        self._max_tokens = max_tokens
        self._draw = draw
        self._reached = False  # until then a lost connection means a wrong address and no outage
        self._waits = Waits()

    async def call(self, request: Request, slot: Slot, *, continued: bool = False) -> CallResult:
        """Call until there is an answer or no further attempt.

        Args:
            request: what is asked.
            slot: held by the caller.
            continued: the call goes on with a conversation, of which a stop ends only further
                attempts.

        Raises:
            LostError: there is no answer.
            StoppedError: the run was stopped first.
            StorageError: a file in the answer can't be kept.
        """
        attempts = counted = 0
        try:
            with self._limiter.watch(), self.breaker.watch():
                while True:
                    permit = await self._permit(request, can_stop=not continued or attempts > 0)
                    attempts += 1
                    with stopwatch() as watch:
                        answer = await self._attempt(request, permit)
                        started_at, latency_s = watch.started_at, watch.elapsed_s
                    if isinstance(answer, Response):
                        return CallResult(answer, started_at, latency_s, attempts)
                    counted += self._record_failure(permit, answer)
                    if not self._is_worth_another(answer, counted):
                        self._record_loss(answer)
                        raise LostError(answer, answer, started_at, latency_s, attempts)
                    await self._wait(slot, self._delay_s(counted, answer.retry_after_s))
        except EndedError:
            if (cause := self.breaker.cause) is None:
                raise StoppedError from None
            given_up = ProviderError("given_up", self.breaker.reason)
            raise LostError(given_up, cause, time.time(), 0.0, max(1, attempts)) from None

    async def _permit(self, request: Request, *, can_stop: bool) -> Permit:
        if can_stop or self.breaker.cause:
            return await self._waits.hold(self._limiter.acquire, request.messages, self._max_tokens)
        return await self._limiter.acquire(request.messages, self._max_tokens)

    async def _attempt(self, request: Request, permit: Permit) -> Response | ProviderError:
        try:
            answer = await self._provider.answer(request)
        except (StorageError, asyncio.CancelledError):
            self._limiter.record_end(permit)
            raise
        except Exception as raised:  # noqa: BLE001  a provider is not our code: its crash is its error
            return ProviderError.of(raised)
        response = replace(answer, usage=answer.tokens) if answer.usage is None else answer
        self._reached = True
        self._limiter.record_answer(permit, response.usage)
        self.breaker.record_answer()
        return response

    async def _wait(self, slot: Slot, delay_s: float) -> None:
        """Wait for the next attempt, with the slot given back meanwhile."""
        slot.give_back()
        self.retrying += 1
        try:
            await self._waits.hold(asyncio.sleep, delay_s)
            await self._waits.hold(slot.take)
        finally:
            self.retrying -= 1

    def stop(self) -> None:
        """Begin no further call or attempt; calls that are under way end."""
        self._waits.end()

    def _record_failure(self, permit: Permit, error: ProviderError) -> bool:
        """Report a failed attempt to limiter and breaker; return True if it counts as one."""
        if self._is_refusal(error):
            self._limiter.record_refusal(permit)
            self.breaker.record_refusal(error)
            return not permit.is_paced or not self._retries
        if _got_past_limits(error):
            self._limiter.record_answer(permit)
            self.breaker.record_let_through()
        else:
            self._limiter.record_end(permit)
        self._reached |= error.status is not None
        return True

    def _is_refusal(self, error: ProviderError) -> bool:
        """Return True for what a limit or an overload looks like; what the team's own code says is
        judged instead.
        """
        if error.kind == "rate_limit" or self._own_code:
            return error.kind == "rate_limit"
        if error.kind == "network":
            return self._reached
        return error.kind == "server" and error.status in _OVERLOADED

    def _is_worth_another(self, error: ProviderError, counted: int) -> bool:
        too_late = (error.retry_after_s or 0.0) > LONGEST_RETRY_AFTER_S
        return (
            error.retryable
            and counted <= self._retries
            and not too_late
            and self.breaker.cause is None
        )

    def _record_loss(self, error: ProviderError) -> None:
        """Report a call without an answer to the breaker."""
        if self._own_code and error.kind in ("server", "rejected") and not has_no_credit(error):
            self.breaker.record_answer()  # the system under test is there, and how it fails is what is judged
        else:
            self.breaker.record_loss(error, is_refusal=self._is_refusal(error))
        if self.breaker.cause:
            self._waits.end()

    def _delay_s(self, attempts: int, retry_after_s: float | None) -> float:
        """Return the seconds to wait before the next attempt.

        Exponential backoff with full jitter (M. Brooker, "Exponential Backoff And Jitter", AWS
        Architecture Blog, 2015). A `Retry-After` is kept, with a little on top so that not
        everybody returns at the same moment; one that is shorter than any backoff is lengthened by
        it, as some providers ask for no time at all.
        """
        backoff_s = min(LONGEST_BACKOFF_S, BACKOFF_S * 2.0 ** max(0, attempts - 1)) * self._draw()
        if retry_after_s is None:
            return backoff_s
        return retry_after_s + (backoff_s if retry_after_s < BACKOFF_S else 0.1 * self._draw())


def has_no_credit(error: ProviderError) -> bool:
    """Return True if an account behind the provider is used up, which says nothing about the code
    that called it.
    """
    return error.kind == "rejected" and error.status in (402, 429)


def _got_past_limits(error: ProviderError) -> bool:
    """Return True if a failure shows that the call got past all limits.

    Keys are often checked before limits, a 408 may be a proxy's, a 429 that is rejected is an
    account without credit, and a 502 or above says that nobody is there.
    """
    if error.kind in ("server", "rejected"):
        return error.status is not None and error.status not in (408, 429) and error.status < 502
    return error.kind == "bad_answer"


class Breaker:
    """A circuit breaker: opens when a provider refuses for good, loses every call, or is silent for
    long.

    Args:
        most_lost: lost calls in a row after which it opens.
        clock: seconds from any starting point, never going back.
    """

    def __init__(self, most_lost: int, clock: Callable[[], float]) -> None:
        self.cause: ProviderError | None = None
        """The error that opened it; None while it is closed."""
        self.reason = ""
        self._most_lost = most_lost
        self._clock = clock
        self._for_good = self._lost = self._refused = 0  # in a row
        self._silent_since = self._idle_since = clock()
        self._longest_wait_s = 0.0
        self._calls = 0

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Count a call while the context lasts; idle time is not silence."""
        if not self._calls:
            self._silent_since += self._clock() - self._idle_since
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._idle_since = self._clock()

    def record_answer(self) -> None:
        """Record an answer."""
        self._for_good = self._lost = 0
        self.record_let_through()

    def record_let_through(self) -> None:
        """Record an attempt that got past all limits, answered or not."""
        self._refused, self._longest_wait_s = 0, 0.0

    def record_refusal(self, error: ProviderError) -> None:
        """Record a refusal; open after many in a row that took long."""
        now = self._clock()
        if not self._refused:
            self._silent_since = now
        self._refused += 1
        if (asked_for_s := error.retry_after_s or 0.0) <= LONGEST_RETRY_AFTER_S:
            self._longest_wait_s = max(self._longest_wait_s, asked_for_s)
        if (
            self._refused >= MOST_REFUSED
            and now - self._silent_since > LONGEST_SILENCE_S + self._longest_wait_s
        ):
            self._open(error, self._refused)

    def record_loss(self, error: ProviderError, *, is_refusal: bool) -> None:
        """Record a call without an answer; open after too many in a row."""
        if (
            has_no_credit(error)
            or error.status in _FOR_GOOD
            or (error.retry_after_s or 0.0) > LONGEST_RETRY_AFTER_S
        ):
            self._for_good += 1
        elif not is_refusal and error.kind in ("server", "network", "timeout"):
            self._lost += 1
        if self._for_good >= MOST_REFUSED_FOR_GOOD or self._lost >= self._most_lost:
            self._open(error, max(self._for_good, self._lost))

    def _open(self, error: ProviderError, failures: int) -> None:
        if self.cause is None:
            self.cause = error
            self.reason = f"given up after {failures} failures in a row: {error.message}"


class EndedError(Exception):
    """A wait was ended early."""


class Waits:
    """Waits that can be ended early, all at once."""

    def __init__(self) -> None:
        self.ended = False
        self._timeouts: set[asyncio.Timeout] = set()

    async def hold(self, wait: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Wait for it; raises `EndedError` as soon as waits are ended."""
        if self.ended:
            raise EndedError
        try:
            async with asyncio.timeout(None) as timeout:
                self._timeouts.add(timeout)
                try:
                    return await wait(*args, **kwargs)
                finally:
                    self._timeouts.discard(timeout)
        except TimeoutError:
            raise EndedError from None

    def end(self) -> None:
        if self.ended:  # a time-out that is expiring can't be told to expire again
            return
        self.ended = True
        now = asyncio.get_running_loop().time()
        for timeout in self._timeouts:
            timeout.reschedule(now)
