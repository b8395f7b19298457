"""Calls to a provider: paced, retried, and given up when the provider is down."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import TracebackType
from typing import NamedTuple, ParamSpec, Self, TypeVar

from ci_evals.engine.limits import RateLimiter
from ci_evals.engine.pace import LONGEST_RETRY_AFTER_S, MOST_LOST, Breaker, Permit
from ci_evals.engine.slots import Slot, StoppedError
from ci_evals.errors import ProviderError, StorageError
from ci_evals.faults import ErrorKind
from ci_evals.model.request import Request
from ci_evals.model.response import Response, Usage
from ci_evals.providers.base import Provider

BACKOFF_S, LONGEST_BACKOFF_S = 0.5, 30.0

_OVERLOADED = frozenset({502, 503, 504, 529})

# Reasons to end an empty answer that another attempt would only meet again.
_WITHHELD = frozenset(
    {
        "blocklist",
        "content_filter",
        "content_filtered",
        "guardrail_intervened",
        "prohibited_content",
        "recitation",
        "refusal",
        "safety",
        "spii",
    }
)

P = ParamSpec("P")
T = TypeVar("T")

_CRASHES: frozenset[ErrorKind] = frozenset({"crash", "bad_answer"})
# A server responded, but with no answer.
_REFUSALS: frozenset[ErrorKind] = frozenset({"server", "rejected", "not_found"})


class LostError(Exception):
    """A call got no answer.

    Args:
        error: the reason.
        cause: the same error, or the one for which the provider was given up.
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


class SimulatedUserError(Exception):
    """A simulated user could not answer; the provider under test is not to blame."""

    def __init__(self, cause: ProviderError) -> None:
        super().__init__(cause.message)
        self.cause = cause


class Attempts(NamedTuple):
    """The number of attempts of a run, and why the one before the last failed, if any did."""

    number: int = 1
    repeated_for: str | None = None


ONE_ATTEMPT = Attempts()


@dataclass(slots=True)
class CallResult:
    """An answer. The last of the `attempts` began at `started_at` (seconds since 1970) and took
    `latency_s`.
    """

    response: Response
    started_at: float
    latency_s: float
    attempts: Attempts


@dataclass(frozen=True, slots=True)
class Retry:
    """A call that waits for another attempt.

    Args:
        case: the id of its case.
        error: why the last attempt failed.
        at: the end of the wait, by the clock of the calls.
    """

    case: str
    error: ProviderError
    at: float


class Waiting(NamedTuple):
    """The calls to a provider that wait for another attempt; the next one begins in `next_s`.

    The provider is given up in `gives_up_s` if it still refuses calls then; None if it has refused
    too few to tell.
    """

    provider: str
    retries: Sequence[Retry]
    next_s: float
    gives_up_s: float | None = None


class Calls:
    """Makes the calls to one provider: of runs, of graders, or as a simulated user.

    Args:
        provider: what answers.
        limiter: decides when it may be called; shared by a limit group.
        limit: how many calls may be under way.
        retries: further attempts of a call. If there are any, refusals don't count while the
            provider is paced.
        retries_crashes: whether crashes are retried as well.
        retries_empty: whether empty answers are retried; the last one is returned.
        own_code: whether this is the team's own code under test, whose errors are judged.
        keeps_thoughts: whether the thoughts of a model are part of its answer.
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
        retries_crashes: bool = False,
        retries_empty: bool = False,
        own_code: bool = False,
        keeps_thoughts: bool = False,
        max_tokens: int | None = None,
        clock: Callable[[], float],
        draw: Callable[[], float],
    ) -> None:
        self.breaker = Breaker(max(MOST_LOST, limit), clock())
        self.retries: dict[Slot, Retry] = {}  # calls that wait for another attempt
        self._provider = provider
        self._limiter = limiter
        self._most_retries = retries
        self._retries_crashes = retries_crashes
        self._retries_empty = retries_empty
        self._own_code = own_code
        self._keeps_thoughts = keeps_thoughts
        self._max_tokens = max_tokens
        self._clock = clock
        self._draw = draw
        self._reached = False  # until then a lost connection means a wrong address and no outage
        self._waits = Waits()
        self._under_way = 0
        self._idle_since = clock()

    async def call(self, request: Request, slot: Slot, *, continued: bool = False) -> CallResult:
        """Call until there is an answer or no further attempt.

        Args:
            request: what is asked.
            slot: held by the caller.
            continued: the call continues a conversation, so that a stop ends only its retries: a
                conversation that is cut off can't be graded and was paid for nothing.

        Raises:
            LostError: there is no answer.
            StoppedError: the run was stopped first.
            StorageError: a file in the answer can't be kept.
        """
        attempts = counted = 0
        made = ONE_ATTEMPT
        answers: list[Response] = []  # all but the last are empty
        self._enter()
        try:
            while True:
                permit = await self._acquire(request, can_stop=not continued or attempts > 0)
                if attempts:
                    del self.retries[slot]
                attempts += 1
                with Stopwatch() as watch:
                    try:
                        response, error = self._read(await self._provider.answer(request))
                    except (StorageError, asyncio.CancelledError):
                        self._limiter.record_end(permit)  # each permit is reported exactly once
                        raise
                    except Exception as raised:  # noqa: BLE001  a provider is not our code: its crash is its error
                        error = ProviderError.of(raised)
                if error is None or error.kind == "empty":
                    answers.append(self._record_answer(permit, response))
                    counted += 1
                    if error is None or not self._is_worth_another(error, counted):
                        answer = _with_usage(answers)
                        return CallResult(answer, watch.started_at, watch.elapsed_s, made)
                else:
                    counted += self._record_failure(permit, error)
                    if not self._is_worth_another(error, counted):
                        self._record_loss(error)
                        if answers:  # they were paid
                            error.partial = _with_usage(answers)
                        raise LostError(error, error, watch.started_at, watch.elapsed_s, attempts)
                made = Attempts(attempts + 1, error.short)
                delay_s = self._delay_s(counted, error.retry_after_s)
                self.retries[slot] = Retry(request.case.id, error, self._clock() + delay_s)
                await self._wait(slot, delay_s)
        except StoppedError:
            if answers:  # it is empty, but paid
                return CallResult(_with_usage(answers), watch.started_at, watch.elapsed_s, made)
            cause = self.breaker.cause
            if cause is None:  # the run was stopped: the call has no result and may be resumed
                raise
            given_up = ProviderError("given_up", self.breaker.reason, cause=cause.message)
            raise LostError(given_up, cause, time.time(), 0.0, max(1, attempts)) from None
        finally:
            if attempts:
                self.retries.pop(slot, None)
            self._leave()

    @property
    def next_retry_s(self) -> float:
        """The seconds until the next attempt of the calls that wait for one; 0 if none does."""
        at = min((retry.at for retry in self.retries.values()), default=-math.inf)
        return max(0.0, max(at, self._limiter.next_at) - self._clock())

    @property
    def gives_up_s(self) -> float | None:
        """The seconds until a provider that only refuses is given up; None for any other."""
        at = self.breaker.gives_up_at
        if at is None:
            return None
        return max(self.next_retry_s, at - self._clock())

    def stop(self) -> None:
        """Begin no further call or attempt; calls that are under way end."""
        self._waits.end()

    def _enter(self) -> None:
        """Count a call until `_leave`: idle time is not silence."""
        if not self._under_way:
            self.breaker.skip(self._clock() - self._idle_since)
        self._under_way += 1
        self._limiter.enter()

    def _leave(self) -> None:
        self._limiter.leave()
        self._under_way -= 1
        if not self._under_way:
            self._idle_since = self._clock()

    async def _acquire(self, request: Request, *, can_stop: bool) -> Permit:
        """Wait for the rate limiter."""
        can_stop = can_stop or self.breaker.cause is not None
        if can_stop and self._waits.ended:
            raise StoppedError
        permit = self._limiter.acquire_now(request.messages, self._max_tokens)
        if permit is not None:
            return permit
        if can_stop:
            return await self._waits.hold(self._limiter.acquire, request.messages, self._max_tokens)
        return await self._limiter.acquire(request.messages, self._max_tokens)

    async def _wait(self, slot: Slot, delay_s: float) -> None:
        """Wait for the next attempt without the slot, then take it again."""
        slot.give_back()
        await self._waits.hold(asyncio.sleep, delay_s)
        await self._waits.hold(slot.take)

    def _record_answer(self, permit: Permit, response: Response) -> Response:
        """Report an answer to limiter and breaker; return it with the tokens of its steps."""
        self._reached = True
        if response.usage is None and response.steps:
            response = replace(response, usage=response.tokens)
        self._limiter.record_answer(permit, response.usage)
        self.breaker.record_answer()
        return response

    def _record_failure(self, permit: Permit, error: ProviderError) -> bool:
        """Report a failed attempt to limiter and breaker; return True if it counts as one."""
        if self._is_refusal(error):
            self._limiter.record_refusal(permit)
            self.breaker.record_refusal(error, self._clock())
            # While the pace is being found, refusals are expected and say nothing about this call.
            # `retries: 0` still means one attempt.
            return not permit.is_paced or not self._most_retries
        if _got_past_limits(error):
            self._limiter.record_answer(permit)
            self.breaker.record_let_through()
        else:
            self._limiter.record_end(permit)
        if error.status is not None:
            self._reached = True
        return True

    def _read(self, response: Response) -> tuple[Response, ProviderError | None]:
        """Return an answer with its thoughts apart, and what it lacks; None if it is complete."""
        text = response.output
        # Most answers have none, and need no call for it.
        if not self._keeps_thoughts and ("<" in text or "[THINK]" in text):
            from ci_evals.graders.thoughts import settle_thoughts

            response = settle_thoughts(response)
        if not self._retries_empty:
            return response, None
        if response.output.strip() or response.tool_calls or response.files:
            return response, None
        if str(response.finish_reason).lower() in _WITHHELD:
            return response, None
        if response.finish_reason == "model_context_window_exceeded":
            text = "the request left no room for an answer in the model's context window"
            return response, ProviderError("rejected", text)
        if response.thoughts:
            return response, ProviderError("empty", "the answer has only thoughts")
        return response, ProviderError("empty", "the answer is empty")

    def _is_refusal(self, error: ProviderError) -> bool:
        """Return True if the error looks like a limit or an overload.

        For the team's own code, only a rate limit counts; its other errors are judged.
        """
        if error.kind == "rate_limit" or self._own_code:
            return error.kind == "rate_limit"
        if error.kind == "network":
            return self._reached
        return error.kind == "server" and error.status in _OVERLOADED

    def _is_worth_another(self, error: ProviderError, counted: int) -> bool:
        is_passing = error.retryable or (self._retries_crashes and error.kind in _CRASHES)
        too_late = (error.retry_after_s or 0.0) > LONGEST_RETRY_AFTER_S
        is_given_up = self.breaker.cause is not None
        return is_passing and counted <= self._most_retries and not too_late and not is_given_up

    def _record_loss(self, error: ProviderError) -> None:
        """Report a call without an answer to the breaker."""
        if self._own_code and error.kind in _REFUSALS:
            self.breaker.record_answer()  # the system under test responds: its failure is judged
        else:
            self.breaker.record_loss(error, is_refusal=self._is_refusal(error))
        if self.breaker.cause:
            self._waits.end()

    def _delay_s(self, attempts: int, retry_after_s: float | None) -> float:
        """Return the seconds to wait before the next attempt.

        Exponential backoff with full jitter (M. Brooker, "Exponential Backoff And Jitter", AWS
        Architecture Blog, 2015). A `Retry-After` is honored, with a little jitter on top so that
        calls don't all return at the same moment. The backoff is added to a very short one, because
        some providers ask for no wait at all.
        """
        backoff_s = min(LONGEST_BACKOFF_S, BACKOFF_S * 2.0 ** max(0, attempts - 1)) * self._draw()
        if retry_after_s is None:
            return backoff_s
        if retry_after_s < BACKOFF_S:
            return retry_after_s + backoff_s
        return retry_after_s + 0.1 * self._draw()


def _with_usage(answers: Sequence[Response]) -> Response:
    """Return the last of several answers, with the tokens and costs of all that report them."""
    *earlier, last = answers
    usage, cost_usd = last.usage, last.cost_usd
    for answer in earlier:
        if answer.usage is not None:
            usage = answer.usage + (usage or Usage())
        if answer.cost_usd is not None:
            cost_usd = answer.cost_usd + (cost_usd or 0.0)
    return replace(last, usage=usage, cost_usd=cost_usd)


def _got_past_limits(error: ProviderError) -> bool:
    """Return True if a failure shows that the call got past all limits.

    Not so a 408, which may come from a proxy, and a 502 or above, when no server answered. Errors
    of the key or the account are left out as well: these are often checked before limits.
    """
    if error.kind in _REFUSALS:
        return error.status is not None and error.status != 408 and error.status < 502
    return error.kind == "bad_answer"


class Waits:
    """Waits that can be ended early, all at once."""

    def __init__(self) -> None:
        self.ended = False
        self._timeouts: set[asyncio.Timeout] = set()

    async def hold(self, wait: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await `wait(...)`; raise `StoppedError` as soon as waits are ended."""
        if self.ended:
            raise StoppedError
        try:
            async with asyncio.timeout(None) as timeout:
                self._timeouts.add(timeout)
                try:
                    return await wait(*args, **kwargs)
                finally:
                    self._timeouts.discard(timeout)
        except TimeoutError:
            raise StoppedError from None

    def end(self) -> None:
        """End all waits, current and future."""
        if self.ended:  # a time-out that is expiring can't be rescheduled
            return
        self.ended = True
        now = asyncio.get_running_loop().time()
        for timeout in self._timeouts:
            timeout.reschedule(now)


# The latency of an attempt, excluding time spent waiting for a worker.


class Stopwatch:
    """Measures its `with` block, excluding the seconds given to `discount`; enclosing stopwatches
    exclude them as well.

    Attributes:
        started_at: when the block began, in seconds since 1970.
        waited_s: the excluded seconds.
        elapsed_s: how long the rest took, known once the block has ended.
    """

    def __enter__(self) -> Self:
        self.started_at = time.time()
        self.elapsed_s = 0.0
        self.waited_s = 0.0
        self._start = time.perf_counter()
        self._around = _running.get()
        self._token = _running.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _running.reset(self._token)
        self.elapsed_s = max(0.0, time.perf_counter() - self._start - self.waited_s)
        if self._around is not None:
            self._around.waited_s += self.waited_s


_running: ContextVar[Stopwatch | None] = ContextVar("running", default=None)


def discount(waited_s: float) -> None:
    """Exclude seconds spent waiting for a worker from the running stopwatch."""
    watch = _running.get()
    if watch is not None:
        watch.waited_s += waited_s
