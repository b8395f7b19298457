"""The rate limiter of a provider: limits from the suite, from headers, and from refusals."""

import asyncio
import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from ci_evals.engine.pace import CATCH_UP_S, Pace, Permit
from ci_evals.model.response import Message, Usage
from ci_evals.providers.http_headers import date_in, number_in

START_CALLS, START_S = 16, 0.25
"""The most calls under way in the first moment, so that a tight limit shows early."""
LONGEST_RESET_S = 60.0  # headers are not believed beyond that
DEFAULT_OUTPUT_TOKENS = 256


class RateLimiter:
    """Decides when the next call may go out. The members of a limit group share one.

    Each permit must be reported once: to `record_answer`, `record_refusal` or `record_end`.

    Args:
        rpm: declared requests per minute.
        tpm: declared tokens per minute.
        clock: seconds from any starting point, never going back.
        wall_clock: seconds since 1970, for headers that hold dates.
    """

    def __init__(
        self,
        *,
        rpm: float | None = None,
        tpm: float | None = None,
        clock: Callable[[], float],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.under_way = 0
        self._clock = clock
        self._wall_clock = wall_clock
        self._requests = _Spacing(rpm / 60) if rpm else None
        self._tokens = _Spacing(tpm / 60) if tpm else None
        self._header_limits: dict[str, _HeaderLimit] = {}
        self._pace = Pace(clock())
        self._waiting: deque[_Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._started_at: float | None = None
        self._returned = self._let_through = 0
        self._input_tokens = self._output_tokens = 0
        self._usages = 0  # answers with the number of their tokens
        self._callers = 0
        self._idle_since = clock()

    @property
    def next_at(self) -> float:
        """The earliest time of the next call while refusals pace the provider."""
        return self._pace.next_at

    def enter(self) -> None:
        """Count a caller until `leave`; time without callers says nothing about the pace."""
        if not self._callers:
            self._pace.skip(self._clock() - self._idle_since)
        self._callers += 1

    def leave(self) -> None:
        """Stop counting a caller."""
        self._callers -= 1
        if not self._callers:
            self._idle_since = self._clock()

    def acquire_now(
        self, messages: Sequence[Message] = (), max_tokens: int | None = None
    ) -> Permit | None:
        """Return a permit if a call may go out at once and nobody waits for one."""
        if self._waiting:
            return None
        return self._let_out(messages, max_tokens)

    async def acquire(
        self, messages: Sequence[Message] = (), max_tokens: int | None = None
    ) -> Permit:
        """Wait until a call may go out. A cancelled caller takes nothing."""
        ticket: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(ticket, messages, max_tokens))
        self._let_out_waiting()
        try:
            return await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled():
                self.record_end(ticket.result())
            raise

    def record_answer(self, permit: Permit, usage: Usage | None = None) -> None:
        """Report a call that got past all limits: with an answer, or with another error."""
        self._let_through += 1
        self._pace.record_answer(permit, self._clock())
        if usage is not None:
            self._input_tokens += usage.input_tokens
            self._output_tokens += usage.output_tokens
            self._usages += 1
            if self._tokens is not None:
                self._tokens.take(self._clock(), usage.total_tokens - permit.tokens)
        self.record_end(permit)

    def record_refusal(self, permit: Permit) -> None:
        """Report a call that was refused for a limit or an overload."""
        self._pace.record_refusal(permit, self._clock())
        self.record_end(permit)

    def record_end(self, permit: Permit) -> None:
        """Report a call that says nothing about limits: it was lost, or cancelled."""
        if permit.refused is None:
            permit.refused = False
        self.under_way -= 1
        self._returned += 1
        if self._waiting:
            self._let_out_waiting()

    def observe(self, headers: Mapping[str, str]) -> None:
        """Read limits from the headers of an answer or a refusal."""
        for source in _SOURCES:
            if source.remaining in headers:
                self._observe_limits(headers)
                return

    def _observe_limits(self, headers: Mapping[str, str]) -> None:
        for allowance in allowances(headers, datetime.fromtimestamp(self._wall_clock(), UTC)):
            limit = self._header_limits.setdefault(allowance.name, _HeaderLimit())
            limit.update(allowance, self._clock())

    def _free_at(self, now: float, tokens: int) -> float:
        """Return the earliest time of the next call; a report may change it."""
        if self._started_at is None:
            self._started_at = now
        free_at = self._pace.next_at
        if self._let_through < START_CALLS <= self.under_way:
            free_at = max(free_at, self._started_at + START_S)
        if self._requests is not None:
            free_at = max(free_at, self._requests.free_at)
        if self._tokens is not None:
            if self.under_way and not self._returned:
                free_at = math.inf  # the first call goes alone, to show how many tokens calls take
            else:
                free_at = max(free_at, self._tokens.free_at)
        for limit in self._header_limits.values():
            free_at = max(free_at, limit.free_at(now, tokens, self.under_way))
        return free_at

    def _let_out(self, messages: Sequence[Message], max_tokens: int | None) -> Permit | None:
        """Return a permit if the limits allow a call now."""
        now, tokens = self._clock(), self._expected_tokens(messages, max_tokens)
        if self._free_at(now, tokens) > now:
            return None
        permit = Permit(now, tokens, self._pace.is_paced)
        self._pace.take(permit, now)
        if self._requests is not None:
            self._requests.take(now, 1)
        if self._tokens is not None:
            self._tokens.take(now, tokens)
        for limit in self._header_limits.values():
            limit.sent += 1
        self.under_way += 1
        return permit

    def _let_out_waiting(self) -> None:
        """Let waiting calls out in order, and set a timer for the first that has to wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            first = self._waiting[0]
            if not first.ticket.done():  # else it was cancelled
                permit = self._let_out(first.messages, first.max_tokens)
                if permit is None:
                    self._wait_for(first)
                    return
                first.ticket.set_result(permit)
            self._waiting.popleft()

    def _wait_for(self, first: "_Waiting") -> None:
        now = self._clock()
        wait_s = self._free_at(now, self._expected_tokens(first.messages, first.max_tokens)) - now
        if wait_s < math.inf:  # else only a report can change it
            wait_s = max(wait_s, 0.001)  # event loops wake up a little early
            self._timer = first.ticket.get_loop().call_later(wait_s, self._let_out_waiting)

    def _expected_tokens(self, messages: Sequence[Message], max_tokens: int | None) -> int:
        """Estimate the tokens of a call from its length and earlier answers; 0 if none count."""
        if self._tokens is None and not self._header_limits:
            return 0
        tokens = sum(len(message.text) for message in messages) // 4
        if not self._usages:
            return tokens + (max_tokens or DEFAULT_OUTPUT_TOKENS)
        mean_input = self._input_tokens // self._usages
        return max(tokens, mean_input) + self._output_tokens // self._usages


class _Waiting(NamedTuple):
    """A call that waits for its permit."""

    ticket: "asyncio.Future[Permit]"
    messages: Sequence[Message]
    max_tokens: int | None


class _Spacing:
    """A declared rate, kept by even spacing."""

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second
        self.free_at = -math.inf

    def take(self, now: float, amount: float) -> None:
        is_late = now - self.free_at > CATCH_UP_S
        start = now if is_late else self.free_at
        self.free_at = start + amount / self.per_second


@dataclass(frozen=True, slots=True)
class Allowance:
    """The calls or tokens that may still be sent, from the headers of one answer.

    Args:
        name: which of a provider's limits this is.
        by_tokens: counts tokens, else requests.
        refills: `limit` is filled up evenly until `reset_s` has passed, else at once when it has.
        limit: the most there can be; infinite if unknown.
        remaining: what was left when the answer was sent.
        reset_s: seconds until `limit` is there again.
    """

    name: str
    by_tokens: bool
    refills: bool
    limit: float
    remaining: float
    reset_s: float


class _HeaderLimit:
    """A limit read from headers. It is ignored once waiting for its reset has been in vain."""

    def __init__(self) -> None:
        self.sent = 0  # calls since the last reset
        self._by_tokens = False
        self._limit = self._left = math.inf
        self._at = 0.0  # when that was read
        self._reset_at = math.inf
        self._per_second = 0.0
        self._awaited = self._in_vain = False

    def update(self, allowance: Allowance, now: float) -> None:
        """Take over what an answer said at `now`."""
        if self._awaited and allowance.remaining < 1 <= allowance.limit - self.sent:
            self._in_vain = True
        self._awaited = False
        self._by_tokens = allowance.by_tokens
        self._limit = allowance.limit
        self._left = allowance.remaining
        self._at = now
        self._reset_at = now + min(allowance.reset_s, LONGEST_RESET_S)
        self._per_second = 0.0
        if allowance.refills and allowance.limit < math.inf and allowance.reset_s > 0:
            missing = allowance.limit - allowance.remaining - 1  # what remains was rounded down
            self._per_second = max(0.0, missing) / allowance.reset_s

    def free_at(self, now: float, tokens: int, under_way: int) -> float:
        """Return the earliest time of a call; a later answer may change it."""
        if self._in_vain:
            return -math.inf
        if now >= self._reset_at:
            self._left = self._limit
            self._at = now
            self._reset_at = math.inf
            self.sent = 0
        cost = tokens if self._by_tokens else 1
        left = min(self._limit, self._left + self._per_second * (now - self._at))
        uncounted = cost * under_way  # calls under way may not be counted yet
        missing = min(cost, self._limit) + uncounted - left
        if missing <= 0:
            return -math.inf
        self._awaited = not under_way
        if not self._per_second:
            return self._reset_at
        return min(self._reset_at, now + missing / self._per_second)


class _Source:
    """The headers with which a provider describes one limit.

    Args:
        names: their names, with `{}` for `remaining`, `limit` or `reset`.
        by_tokens: counts tokens, else requests.
        refills: see `Allowance`.
    """

    def __init__(self, names: str, *, by_tokens: bool = False, refills: bool = False) -> None:
        self.name = names
        self.remaining = names.format("remaining")
        self.limit = names.format("limit")
        self.reset = names.format("reset")
        self.by_tokens = by_tokens
        self.refills = refills


_SOURCES = (
    _Source("x-ratelimit-{}-requests", refills=True),  # OpenAI and those who copy it
    _Source("x-ratelimit-{}-tokens", by_tokens=True, refills=True),
    _Source("anthropic-ratelimit-requests-{}", refills=True),
    _Source("anthropic-ratelimit-tokens-{}", by_tokens=True, refills=True),
    _Source("anthropic-ratelimit-input-tokens-{}", by_tokens=True, refills=True),
    _Source("anthropic-ratelimit-output-tokens-{}", by_tokens=True, refills=True),
    _Source("x-ratelimit-{}"),
    _Source("ratelimit-{}"),  # IETF draft-ietf-httpapi-ratelimit-headers-06
)
_AMOUNT = r"(?a)(\d+(?:\.\d+)?)(ms|us|µs|h|m|s|d)"
_DURATION = r"(?a)(?:\d{1,15}(?:\.\d{1,15})?(?:ms|us|µs|h|m|s|d))+"
_UNITS_S = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_EPOCH = 1e8  # a larger number is a date, not a duration: seconds since 1970, or milliseconds
_EPOCH_MS = 1e11


def allowances(headers: Mapping[str, str], now: datetime) -> Iterator[Allowance]:
    """Yield every allowance in the headers of one answer, without those that can't be read.

    Args:
        headers: with names in any case if the mapping ignores it, else in lower case.
        now: the time to measure dates from if the answer has no `Date`.
    """
    for source in _SOURCES:
        if source.remaining not in headers:
            continue
        remaining = number_in(headers[source.remaining])
        limit = number_in(headers.get(source.limit))
        sent_at = date_in(headers.get("date")) or now
        reset_s = _until(headers.get(source.reset, ""), sent_at)
        if remaining is None or reset_s is None:
            continue
        if limit is None:
            limit = math.inf
        if limit:  # some send 0 for what they don't limit
            yield Allowance(
                source.name, source.by_tokens, source.refills, limit, remaining, reset_s
            )


def _until(text: str, now: datetime) -> float | None:
    """Return the seconds until a reset.

    It is written as `1s`, `6m0s`, `120ms`, a number of seconds, an epoch, or a date of RFC 3339.
    """
    text = text.strip()
    number = number_in(text)
    if number is not None:
        if number < _EPOCH:
            return number
        if number > _EPOCH_MS:
            number /= 1000
        return max(0.0, number - now.timestamp())
    if re.fullmatch(_DURATION, text):
        return sum(float(amount) * _UNITS_S[unit] for amount, unit in re.findall(_AMOUNT, text))
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - now).total_seconds())
