"""The pace of calls to a provider that refuses many, and when a provider is given up.

Pure: the time of every event is an argument. docs/decisions/0011 has the reasons.
"""

import math
from collections import deque
from dataclasses import dataclass

from ci_evals.errors import ProviderError
from ci_evals.faults import ErrorKind
from ci_evals.format import duration, number_of

WEIGHT = 1 / 16  # of the newest outcome in the share of refusals
PACED_ABOVE = 0.3  # share of refusals among recent outcomes
DOUBLED_AFTER = 3  # times the answers that a pace was learnt from
MOST_LEARNT_FROM = 100  # answers, so that a pace recovers quickly after an outage
NO_QUOTA = 0.4  # of a pace that held: refusals below that don't depend on the pace
LONGEST_INTERVAL_S = 3.0  # between calls at a learnt pace
LONGEST_PROBE_GAP_S = 0.5  # between calls while none is let through
CATCH_UP_S = 0.25  # of lateness that is made up for: far less than any quota's burst

LONGEST_RETRY_AFTER_S = 300.0  # a provider that asks for more has refused for good
MOST_REFUSED_FOR_GOOD = 5  # calls in a row
MOST_LOST = 10  # calls in a row with all their attempts, or as many as may be under way
MOST_REFUSED, LONGEST_SILENCE_S = 10, 120.0  # attempts in a row, and the time that they took

# A wrong key, no credit, no such model: waiting doesn't help.
_FOR_GOOD: frozenset[ErrorKind] = frozenset({"auth", "no_credit", "not_found"})
_LOST: frozenset[ErrorKind] = frozenset({"server", "network", "timeout", "upstream"})


@dataclass(slots=True, eq=False)
class Permit:
    """One call that may go out, with the number of tokens expected."""

    sent_at: float
    tokens: int
    is_paced: bool
    refused: bool | None = None  # None while it is under way


class Pace:
    """Paces calls when many of them are refused.

    A turn lasts from one reopening after refusals to the next. The number of calls that got
    through, divided by the duration of the turn, is the provider's rate, whether it fills a bucket
    or opens windows. From there the pace grows until calls are refused again.
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
            self._refusals_in_a_row += 1
            self._refused_at = now
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
            self._end_turn(permit, now)
        self._let_through += 1
        self._since_learnt += 1

    def _end_turn(self, permit: Permit, now: float) -> None:
        self._learn(min(now, self._closed_at + LONGEST_INTERVAL_S), self._let_through)
        self._best_rate = max(self._best_rate, min(self._rate, self._previous_rate))
        self._previous_rate = self._rate
        self._turn_started_at = now
        self._let_through = 0
        self._refusals_in_a_row = 0
        if not self._learnt_from:
            self._stop_pacing()
        elif self.is_paced and self._rate < NO_QUOTA * self._best_rate:
            self._stop_pacing()  # refusals don't depend on the pace
            self._threshold = (1 + self._threshold) / 2
        elif self.is_paced:
            self.next_at = max(self.next_at, permit.sent_at + 1 / self._rate)

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
            if permit.refused:
                share += weight
            elif weight > 0 and permit.refused is None:
                under_way += 1
            weight *= 1 - WEIGHT
        return share, under_way

    def _learn(self, until: float, let_through: float) -> None:
        duration_s = max(until - self._turn_started_at, 0.001)
        self._rate = max(1 / LONGEST_INTERVAL_S, let_through / duration_s)
        self._learnt_from = min(self._let_through, MOST_LEARNT_FROM)
        self._since_learnt = 0

    def _stop_pacing(self) -> None:
        self.is_paced = False
        self.next_at = -math.inf
        self._recent.clear()

    def _gap_s(self) -> float:
        """Return the seconds until the next call; more with each refusal in a row."""
        growth = self._since_learnt / (DOUBLED_AFTER * max(1, self._learnt_from))
        rate = self._rate * (1 + growth**2)
        if not self._refusals_in_a_row:
            return 1 / rate
        probe_gap_s = 2.0 ** min(self._refusals_in_a_row - 1, 60) / rate
        return max(1 / rate, min(LONGEST_PROBE_GAP_S, probe_gap_s))


class Breaker:
    """A circuit breaker.

    It opens when a provider refuses for good, loses every call, or is silent for long.

    Args:
        most_lost: lost calls in a row after which it opens.
        now: seconds from any starting point, never going back.
    """

    def __init__(self, most_lost: int, now: float) -> None:
        self.cause: ProviderError | None = None
        """The error that opened it; None while it is closed."""
        self.reason = ""
        self._most_lost = most_lost
        self._for_good = self._lost = self._refused = 0  # in a row
        self._silent_since = now
        self._longest_wait_s = 0.0

    @property
    def gives_up_at(self) -> float | None:
        """The time after which one more refusal opens it; None unless it is closed and many in a
        row were refused.
        """
        if self._refused < MOST_REFUSED or self.cause is not None:
            return None
        return self._silent_since + LONGEST_SILENCE_S + self._longest_wait_s

    def skip(self, idle_s: float) -> None:
        """Leave out time in which nobody called: it is not silence."""
        self._silent_since += idle_s

    def record_answer(self) -> None:
        """Record an answer."""
        self._for_good = self._lost = self._refused = 0
        self._longest_wait_s = 0.0

    def record_let_through(self) -> None:
        """Record an attempt that got past all limits, but was not answered."""
        self._refused = 0
        self._longest_wait_s = 0.0

    def record_refusal(self, error: ProviderError, now: float) -> None:
        """Record a refusal; open after many in a row that took long."""
        if not self._refused:
            self._silent_since = now
        self._refused += 1
        retry_after_s = error.retry_after_s or 0.0
        if retry_after_s <= LONGEST_RETRY_AFTER_S:
            self._longest_wait_s = max(self._longest_wait_s, retry_after_s)
        gives_up_at = self.gives_up_at
        if gives_up_at is not None and now > gives_up_at:
            silence = duration(now - self._silent_since)
            attempts = number_of(self._refused, "attempt")
            self._open(error, f"given up: still {error.short} after {silence}, {attempts}")

    def record_loss(self, error: ProviderError, *, is_refusal: bool) -> None:
        """Record a call without an answer; open after too many in a row."""
        retry_after_s = error.retry_after_s or 0.0
        if error.kind in _FOR_GOOD or retry_after_s > LONGEST_RETRY_AFTER_S:
            self._for_good += 1
        elif not is_refusal and error.kind in _LOST:
            self._lost += 1
        if self._for_good >= MOST_REFUSED_FOR_GOOD or self._lost >= self._most_lost:
            failures = max(self._for_good, self._lost)
            self._open(error, f"given up after {failures} failures in a row")

    def _open(self, error: ProviderError, reason: str) -> None:
        if self.cause is None:
            self.cause = error
            self.reason = f"{reason}: {error.message}"
