"""One provider as its calls find it: when the next may go, what a lost one means, and whether to call at all."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct

from ci_evals.engine import retry
from ci_evals.engine.breaker import Breaker
from ci_evals.engine.outage import Outage
from ci_evals.engine.pace import Pace
from ci_evals.errors import ErrorKind, ProviderError, StorageError
from ci_evals.model import Request
from ci_evals.providers.base import Provider
from ci_evals.response import Response, Usage

_FROM_BEHIND_LIMITS: frozenset[ErrorKind] = frozenset({"server", "rejected"})


class Attempt(Struct, frozen=True, order=True, gc=False):
    """The next thing to do: attempt `number` (from 1) of one slot, or of one question beside them."""

    slot: int
    number: int


class LostError(Exception):
    """A call that brought no answer, and took `latency_s`.

    Another attempt is to be made after `delay_s`; None if there is none.
    """

    def __init__(self, error: ProviderError, latency_s: float, delay_s: float | None) -> None:
        super().__init__(error.message)
        self.error = error
        self.latency_s = latency_s
        self.delay_s = delay_s


class Contact:
    """Makes the calls of one provider.

    Args:
        provider: what answers.
        limit: how many calls may be under way.
        retries: further attempts after a refused or lost call.
        pace: when it may be called; shared by a `limit_group`.
        turn: held by who asks `pace`; shared likewise.
        own_code: whether this is the team's own code under test, so that how it fails is what is judged.
        clock: seconds from any starting point, never going back.
        draw: returns a uniform number in [0, 1).
    """

    def __init__(  # noqa: PLR0913  here these meet
        self,
        provider: Provider,
        *,
        limit: int,
        retries: int,
        pace: Pace,
        turn: asyncio.Lock,
        own_code: bool,
        clock: Callable[[], float],
        draw: Callable[[], float],
    ) -> None:
        self.pace = pace
        self.clock = clock
        self.breaker = Breaker(limit=limit, attempts=retries + 1)
        self._provider = provider
        self._retries = retries
        self._turn = turn
        self._own_code = own_code
        self._draw = draw
        self._probe: Attempt | None = None
        self._probe_at = 0.0
        self._outage = Outage()
        self._waiting = 0

    # Before a call.

    @property
    def until_probe_s(self) -> float:
        """Seconds until it may be tried whether an outage is over; 0 or less: now, with `probe`."""
        if self._probe:
            return 0.1  # somebody is trying it
        return self._probe_at - self.clock()

    def probe(self, attempt: Attempt) -> None:
        """This attempt tries whether an outage is over."""
        self._probe = attempt

    def may_call(self, attempt: Attempt) -> bool:
        """Whether an attempt that was taken up a while ago is still worth making."""
        return self.breaker.state == "closed" or attempt == self._probe

    def admit(self, attempt: Attempt, tokens: int) -> bool:
        """Whether a call may go out now, ahead of nobody; then it must be made with `call`, or be `dropped`."""
        self._ask()
        return not self._turn.locked() and self.may_call(attempt) and self.pace.admit(tokens) <= 0

    async def admitted(
        self,
        attempt: Attempt,
        expected_tokens: Callable[[], int],
        *,
        is_wanted: Callable[[], bool] = lambda: True,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> int | None:
        """Wait until a call may go out; one asks at a time, the others queue behind it.

        Returns the tokens that it was admitted with, or None if meanwhile it was no longer wanted, or others found that
        the provider is gone.
        """
        self._ask()
        self._waiting += 1
        admitted: int | None = None
        try:
            async with self._turn:
                while admitted is None and is_wanted() and self.may_call(attempt):
                    tokens = expected_tokens()
                    if (wait_s := self.pace.admit(tokens)) > 0:
                        await sleep(wait_s)
                    else:
                        admitted = tokens
            return admitted
        finally:
            self._waiting -= 1
            if admitted is None:
                self.forgo(attempt)

    def _ask(self) -> None:
        if self._outage.since is not None and not self._waiting:
            self._outage.asked(self.clock())

    # The call and its end, of which the pace hears once.

    async def call(self, attempt: Attempt, request: Request, tokens: int) -> tuple[Response, float]:
        """Make a call that was admitted with `tokens`; returns the answer and the seconds that it took.

        Raises:
            LostError: there is no answer.
            StorageError: a file in the answer cannot be kept.
        """
        start, sent_at = time.perf_counter(), self.clock()  # which ticks coarsely on Windows
        try:
            response = await self._provider.answer(request)
        except (StorageError, asyncio.CancelledError):
            self.dropped(attempt)
            raise
        except Exception as raised:  # noqa: BLE001  a provider is not our code: its crash is this call's error
            latency_s, error = time.perf_counter() - start, ProviderError.of(raised)
            raise LostError(error, latency_s, self.lost(attempt, error, self.clock() - sent_at)) from None
        latency_s = time.perf_counter() - start
        self.answered(response.usage, tokens)
        return response, latency_s

    def dropped(self, attempt: Attempt) -> None:
        """An attempt that was admitted ended without a word from the provider."""
        self.pace.failed()
        self.forgo(attempt)

    def forgo(self, attempt: Attempt) -> None:
        """An attempt that was taken up comes to no call: if it was to try whether an outage is over, another may."""
        if attempt == self._probe:
            self._probe = None

    def answered(self, usage: Usage | None, tokens: int) -> None:
        """A call that was admitted with `tokens` brought an answer."""
        self._probe = None
        self._outage.over()
        self.breaker.answered()
        self.pace.answered(usage, tokens)

    def lost(self, attempt: Attempt, error: ProviderError, latency_s: float) -> float | None:
        """Decide about a call that brought no answer: the seconds until it is tried again, or None if it is not."""
        delay_s = retry.delay_s(attempt.number, error.retry_after_s, self._draw)
        self._outage.expect_call(self.clock() + delay_s)
        if error.kind == "rate_limit" or error.retry_after_s is not None:
            self.pace.refused(error.retry_after_s, delay_s, latency_s)
            if self._outlasts(error):
                self.breaker.outlasting()
        elif _was_let_through(error):
            self._outage.over()
            self.pace.answered()
        else:
            self.pace.failed()
        has_another = error.retryable and attempt.number <= self._retries
        if not has_another or self.breaker.state != "closed":
            self._note_end(attempt, error)
        return delay_s if has_another and self.breaker.state != "open" else None

    def _outlasts(self, refusal: ProviderError) -> bool:
        """Whether nothing has come for long but refusals; how the system under test fails is none."""
        if refusal.kind != "rate_limit" and (refusal.kind != "server" or self._own_code):
            return False
        return self._outage.outlasts(self.clock(), refusal.kind)

    def _note_end(self, attempt: Attempt, error: ProviderError) -> None:
        """Tell the breaker of a run that ended without an answer, or of an attempt in an outage."""
        if self._own_code and error.kind in ("server", "rejected"):
            self._probe = None
            self.breaker.answered()  # the system under test is there, and how it fails is what is judged
        elif self.breaker.state == "closed" or attempt == self._probe:  # not what was under way before the outage
            self._probe = None
            self.breaker.gave_up(error)
            if self.breaker.state == "open":
                self.pace.learn_anew()
            self._probe_at = self.clock() + retry.delay_s(self.breaker.probes + 1, None, lambda: 1.0)


def _was_let_through(error: ProviderError) -> bool:
    """Whether a failure is an answer from behind all limits.

    Keys are often looked at before limits, a 408 may be a proxy's, and with 502 and above somebody says that nobody is
    there.
    """
    if error.kind == "bad_answer":
        return True
    return error.kind in _FROM_BEHIND_LIMITS and error.status not in (None, 408) and error.status < 502
