"""A provider's rate limiter: limits that are declared, told in headers, or shown by refusals
alone.
"""

import asyncio
import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from ci_evals.model.response import Message, Usage
from ci_evals.providers.http_messages import date_in, number_in

WEIGHT = 1 / 16  # of the newest outcome in the share of refusals
PACED_ABOVE = 0.3  # share of refusals among recent outcomes
DOUBLED_AFTER = 3  # times the answers that a pace was learnt from
MOST_LEARNT_FROM = 100  # answers, so that a pace recovers quickly after an outage
NO_QUOTA = 0.4  # of a pace that held: refusals below that don't depend on the pace
LONGEST_INTERVAL_S = 3.0  # between calls at a learnt pace
LONGEST_PROBE_GAP_S = 0.5  # between calls while none is let through

START_CALLS, START_S = (
    16,
    0.25,
)  # the most calls under way at first, and for how long: a tight limit shows
CATCH_UP_S = 0.25  # of lateness that is made up for: far less than any quota's burst
LONGEST_RESET_S = 60.0  # that is waited for because headers tell of it
DEFAULT_OUTPUT_TOKENS = 256


@dataclass(slots=True, eq=False)
class Permit:
    """One call that was let out, and the tokens that it is expected to take."""

    sent_at: float
    tokens: int
    is_paced: bool
    refused: bool | None = None  # None while it is under way


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
        self._clock, self._wall_clock = clock, wall_clock
        self._requests = _Spacing(rpm / 60) if rpm else None
        self._tokens = _Spacing(tpm / 60) if tpm else None
        self._header_limits: dict[str, _HeaderLimit] = {}
        self._pace = _Pace(clock())
        self._turn = asyncio.Lock()  # one call waits for the limits, the others for that one
        self._reported = asyncio.Event()
        self._started_at: float | None = None
        self._returned = self._let_through = 0
        self._usage, self._usages = Usage(), 0  # of all answers that told theirs, and how many did
        self._callers, self._idle_since = 0, clock()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Count a caller while the context lasts; idle time says nothing of a pace."""
        if not self._callers:
            self._pace.skip(self._clock() - self._idle_since)
        self._callers += 1
        try:
            yield
        finally:
            self._callers -= 1
            self._idle_since = self._clock()

    async def acquire(
        self, messages: Sequence[Message] = (), max_tokens: int | None = None
    ) -> Permit:
        """Wait until a call may go out. A caller that is cancelled meanwhile has taken nothing."""
        async with self._turn:
            while True:
                now, tokens = self._clock(), self._expected_tokens(messages, max_tokens)
                if (wait_s := self._free_at(now, tokens) - now) <= 0:
                    return self._let_out(now, tokens)
                self._reported.clear()
                try:
                    async with asyncio.timeout(
                        max(wait_s, 0.001)
                    ):  # event loops wake up a little early
                        await self._reported.wait()
                except TimeoutError:
                    pass

    def record_answer(self, permit: Permit, usage: Usage | None = None) -> None:
        """Report a call that was let through: with an answer, or with an error from behind all
        limits.
        """
        self.record_end(permit)
        self._let_through += 1
        self._pace.record_answer(permit, self._clock())
        if usage:
            self._usage, self._usages = self._usage + usage, self._usages + 1
            if self._tokens:
                self._tokens.take(self._clock(), usage.total_tokens - permit.tokens)

    def record_refusal(self, permit: Permit) -> None:
        """Report a call that was refused for a limit or an overload."""
        self.record_end(permit)
        self._pace.record_refusal(permit, self._clock())

    def record_end(self, permit: Permit) -> None:
        """Report a call that tells nothing of limits: it was lost on the way, or cancelled."""
        permit.refused = False
        self.under_way -= 1
        self._returned += 1
        self._reported.set()

    def observe(self, headers: Mapping[str, str]) -> None:
        """Take note of what the headers of an answer or a refusal tell of limits."""
        for allowance in allowances(headers, datetime.fromtimestamp(self._wall_clock(), UTC)):
            self._header_limits.setdefault(allowance.name, _HeaderLimit()).update(
                allowance, self._clock()
            )

    def _free_at(self, now: float, tokens: int) -> float:
        """Return the time of the next call, unless a report changes that."""
        if self._started_at is None:
            self._started_at = now
        times = [self._pace.next_at]
        if self._let_through < START_CALLS <= self.under_way:
            times.append(self._started_at + START_S)
        if self._requests:
            times.append(self._requests.free_at)
        if (
            self._tokens
        ):  # what calls take is known only afterwards, so that the first one goes alone
            times.append(
                math.inf if self.under_way and not self._returned else self._tokens.free_at
            )
        times += (
            limit.free_at(now, tokens, self.under_way) for limit in self._header_limits.values()
        )
        return max(times)

    def _let_out(self, now: float, tokens: int) -> Permit:
        permit = Permit(now, tokens, self._pace.is_paced)
        self._pace.take(permit, now)
        if self._requests:
            self._requests.take(now, 1)
        if self._tokens:
            self._tokens.take(now, tokens)
        for limit in self._header_limits.values():
            limit.sent += 1
        self.under_way += 1
        return permit

    def _expected_tokens(self, messages: Sequence[Message], max_tokens: int | None) -> int:
        """Estimate the tokens of a call, from its length and the answers so far; 0 if nobody counts
        tokens.
        """
        if not self._tokens and not any(limit.by_tokens for limit in self._header_limits.values()):
            return 0
        tokens = sum(len(message.text) for message in messages) // 4
        if not self._usages:
            return tokens + (max_tokens or DEFAULT_OUTPUT_TOKENS)
        return (
            max(tokens, self._usage.input_tokens // self._usages)
            + self._usage.output_tokens // self._usages
        )


class _Spacing:
    """A declared rate, kept by even spacing."""

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second
        self.free_at = -math.inf

    def take(self, now: float, amount: float) -> None:
        is_late = now - self.free_at > CATCH_UP_S
        self.free_at = (now if is_late else self.free_at) + amount / self.per_second


class _Pace:
    """Paces calls when many of them are refused; docs/decisions/0011 says why in this way.

    A turn lasts from one reopening after refusals to the next. The calls that were let through,
    over the time that this took, are the provider's rate, whether it fills a bucket or opens
    windows. From there the pace grows until calls are refused again.
    """

    def __init__(self, now: float) -> None:
        self.is_paced = False
        self.next_at = -math.inf
        self._recent: deque[Permit] = deque(maxlen=1024)
        self._threshold = PACED_ABOVE
        self._turn_started_at = now
        self._let_through = 0  # calls in this turn
        self._rate = math.inf  # calls per second, as learnt from the last turn
        self._previous_rate = 0.0
        self._best_rate = 0.0  # that held for two turns
        self._learnt_from = 0  # calls let through
        self._since_learnt = 0
        self._refusals_in_a_row = 0
        self._closed_at = 0.0  # the first of them
        self._refused_at = -math.inf  # the last of them

    def skip(self, idle_s: float) -> None:
        """Leave out time in which nobody wanted to call."""
        self._turn_started_at += idle_s
        self._closed_at += idle_s

    def take(self, permit: Permit, now: float) -> None:
        """Record a call that goes out."""
        self._recent.append(permit)
        if self.is_paced:
            self.next_at = max(self.next_at, now - CATCH_UP_S) + self._gap_s()

    def record_refusal(self, permit: Permit, now: float) -> None:
        """Record a refusal; start pacing if most of the recent calls were refused."""
        permit.refused = True
        if permit.sent_at >= self._refused_at:  # refusals of calls that went out together are one
            if not self._refusals_in_a_row:
                self._closed_at = now
            self._refusals_in_a_row, self._refused_at = self._refusals_in_a_row + 1, now
        if not self.is_paced:
            share, under_way = self._look_back(permit)
            if share > self._threshold:
                self.is_paced = True
                self._learn(now, self._let_through + under_way + 0.5)
        if self.is_paced:
            self.next_at = max(self.next_at, now + self._gap_s())

    def record_answer(self, permit: Permit, now: float) -> None:
        """Record a call that was let through; the first one after refusals ends a turn."""
        if self._refusals_in_a_row and permit.sent_at >= self._closed_at:
            self._learn(min(now, self._closed_at + LONGEST_INTERVAL_S), self._let_through)
            self._best_rate = max(self._best_rate, min(self._rate, self._previous_rate))
            self._previous_rate = self._rate
            self._turn_started_at, self._let_through, self._refusals_in_a_row = now, 0, 0
            if not self._learnt_from:
                self._stop_pacing()
            elif (
                self.is_paced and self._rate < NO_QUOTA * self._best_rate
            ):  # refusals don't depend on the pace
                self._stop_pacing()
                self._threshold = (1 + self._threshold) / 2
            elif self.is_paced:
                self.next_at = max(self.next_at, permit.sent_at + 1 / self._rate)
        self._let_through += 1
        self._since_learnt += 1

    def _look_back(self, last: Permit) -> tuple[float, int]:
        """Return the share of refusals among the calls up to `last`, and how many of those are
        still under way.

        Calls count in the order in which they went out, and as let through while they are under
        way: else quick refusals would outnumber slow answers.
        """
        share, weight, under_way = 0.0, 0.0, 0
        for permit in reversed(self._recent):
            if permit is last:
                weight = WEIGHT
            share += weight * bool(permit.refused)
            under_way += weight > 0 and permit.refused is None
            weight *= 1 - WEIGHT
        return share, under_way

    def _learn(self, until: float, let_through: float) -> None:
        self._rate = max(
            1 / LONGEST_INTERVAL_S, let_through / max(until - self._turn_started_at, 0.001)
        )
        self._learnt_from, self._since_learnt = min(self._let_through, MOST_LEARNT_FROM), 0

    def _stop_pacing(self) -> None:
        self.is_paced = False
        self.next_at = -math.inf
        self._recent.clear()

    def _gap_s(self) -> float:
        """Return the seconds until the next call; after refusals in a row there are more each
        time.
        """
        rate = self._rate * (
            1 + (self._since_learnt / (DOUBLED_AFTER * max(1, self._learnt_from))) ** 2
        )
        if not self._refusals_in_a_row:
            return 1 / rate
        return max(
            1 / rate, min(LONGEST_PROBE_GAP_S, 2.0 ** min(self._refusals_in_a_row - 1, 60) / rate)
        )


@dataclass(frozen=True, slots=True)
class Allowance:
    """The calls or tokens that may still be sent, as one answer told it.

    Args:
        name: which of a provider's limits this is.
        by_tokens: counts tokens, else requests.
        refills: `limit` is filled up evenly until `reset_s` has passed, else at once when it has.
        limit: the most there can be; infinite if not told.
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
    """A limit that is told in headers. A reset that was waited for in vain is never believed
    again.
    """

    def __init__(self) -> None:
        self.by_tokens = False
        self.sent = 0  # calls since the last reset
        self._limit = self._left = math.inf
        self._at, self._reset_at, self._per_second = 0.0, math.inf, 0.0
        self._awaited = self._in_vain = False

    def update(self, allowance: Allowance, now: float) -> None:
        self.by_tokens = allowance.by_tokens
        self._in_vain |= self._awaited and allowance.remaining < 1 <= allowance.limit - self.sent
        self._awaited = False
        self._limit, self._left, self._at = allowance.limit, allowance.remaining, now
        self._reset_at = now + min(allowance.reset_s, LONGEST_RESET_S)
        refills = allowance.refills and allowance.limit < math.inf and allowance.reset_s > 0
        missing = allowance.limit - allowance.remaining - 1  # what remains was rounded down
        self._per_second = max(0.0, missing) / allowance.reset_s if refills else 0.0

    def free_at(self, now: float, tokens: int, under_way: int) -> float:
        """Return the time of a call by what was told; a later answer may tell otherwise."""
        if self._in_vain:
            return -math.inf
        if now >= self._reset_at:
            self._left, self._at, self._reset_at = self._limit, now, math.inf
            self.sent = 0
        cost = tokens if self.by_tokens else 1
        left = min(self._limit, self._left + self._per_second * (now - self._at))
        missing = (
            min(cost, self._limit) + cost * under_way - left
        )  # calls under way may not be counted yet
        if missing <= 0:
            return -math.inf
        self._awaited = not under_way
        return (
            min(self._reset_at, now + missing / self._per_second)
            if self._per_second
            else self._reset_at
        )


@dataclass(frozen=True, slots=True)
class _Source:
    """The headers in which a provider tells of one limit; `{}` in `names` is `remaining`, `limit`
    or `reset`.
    """

    names: str
    by_tokens: bool = False
    refills: bool = False

    def read(self, headers: Mapping[str, str], part: str) -> str | None:
        return headers.get(self.names.format(part))


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
_PART = re.compile(r"(?a)(\d+(?:\.\d+)?)(ms|us|µs|h|m|s|d)")
_DURATION = re.compile(r"(?a)(?:\d{1,15}(?:\.\d{1,15})?(?:ms|us|µs|h|m|s|d))+")
_UNITS_S = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_EPOCH = 1e8  # a larger number is a date, not a duration: seconds since 1970, or milliseconds
_EPOCH_MS = 1e11


def allowances(headers: Mapping[str, str], now: datetime) -> Iterator[Allowance]:
    """Read every allowance that the headers of one answer tell; what cannot be read is passed over.

    Args:
        headers: with names in any case if the mapping ignores it, else in lower case.
        now: used where a reset is given as a date and the answer has no `Date` of its own.
    """
    for source in _SOURCES:
        if (told := source.read(headers, "remaining")) is None:
            continue
        remaining, limit = number_in(told), number_in(source.read(headers, "limit"))
        reset_s = _until(source.read(headers, "reset") or "", date_in(headers.get("date")) or now)
        if (
            remaining is not None and reset_s is not None and limit != 0
        ):  # some tell 0 of what they don't limit
            most = math.inf if limit is None else limit
            yield Allowance(
                source.names, source.by_tokens, source.refills, most, remaining, reset_s
            )


def _until(text: str, now: datetime) -> float | None:
    """Return the seconds until a reset: `1s`, `6m0s`, `120ms`, a number of seconds, an epoch, or a
    date of RFC 3339.
    """
    text = text.strip()
    if (number := number_in(text)) is not None:
        if number < _EPOCH:
            return number
        return max(0.0, (number / 1000 if number > _EPOCH_MS else number) - now.timestamp())
    if _DURATION.fullmatch(text):
        return sum(float(amount) * _UNITS_S[unit] for amount, unit in _PART.findall(text))
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return max(0.0, ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds())
