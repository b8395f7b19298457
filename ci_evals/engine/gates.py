"""The reasons why a call has to wait, each for itself."""

import math
from typing import Protocol

from ci_evals.engine.limits import Allowance
from ci_evals.engine.retry import LONGEST_RETRY_AFTER_S

CATCH_UP_S = 0.25  # what a late call may be made up for; far less than any quota's burst
POLL_S = 0.005  # when to ask again if nobody can know

PROBE_CALLS = 16
PROBE_JOIN_S = 0.01
PROBE_S = 0.25

FIRST_GROWTH_CALLS = 10  # answers after which a rate that was only guessed has doubled
GROWTH_CALLS = 200  # answers after which a rate that is bounded from both sides has reached its upper bound
CONTRADICTIONS = 5
CONTRADICTION = 1.5  # how much slower than a rate that was let through
LEAST_SPREAD = 0.05  # bounds this near to each other are as good as one
DRIFT = 1.2  # how far bounds may have moved from one refusal to the next
FIRST_TRIAL_TURNS = 3  # refusals after which a rate that is bounded from both sides is held against a higher one
TRIAL_TURNS = 12  # and further ones, each time that this one was refused, too
TRIAL = 2.0  # how much higher it is
TRUST = 0.05  # how far one answer moves a count of what is left upwards
LONGEST_INTERVAL_S = 2.0  # between calls at a learnt rate, unless the provider itself asks for longer waits


class Gate(Protocol):
    """One reason to wait."""

    def wait_s(self, now: float, tokens: int) -> float:
        """Seconds until a call of so many tokens should ask again; 0 or less: it may go now."""

    def take(self, now: float, tokens: int) -> None:
        """A call goes now."""


class Calls(Protocol):
    """What was let out so far."""

    admitted: int
    under_way: int


class Spacing:
    """A rate kept by even spacing (virtual scheduling, ITU-T I.371), so that jitter never meets an empty bucket."""

    def __init__(self, per_second: float, now: float) -> None:
        self.per_second = per_second
        self.free_at = now

    def wait_s(self, now: float, tokens: int) -> float:  # noqa: ARG002  requests are counted here
        return self.free_at - now

    def take(self, now: float, tokens: int) -> None:  # noqa: ARG002
        self.space(now, 1)

    def space(self, now: float, amount: float) -> None:
        self.free_at = max(self.free_at, now - CATCH_UP_S) + amount / self.per_second


class TokenSpacing(Spacing):
    """The same by tokens. What a call takes is known only afterwards, so the first one goes alone, to learn from."""

    def __init__(self, per_second: float, now: float, calls: Calls) -> None:
        super().__init__(per_second, now)
        self._calls = calls

    def wait_s(self, now: float, tokens: int) -> float:
        wait_s = super().wait_s(now, tokens)
        none_back = self._calls.under_way == self._calls.admitted > 0
        return max(wait_s, POLL_S) if none_back else wait_s

    def take(self, now: float, tokens: int) -> None:
        self.space(now, tokens)

    def settle(self, expected: int, taken: int) -> None:
        """Put right what was reserved for a call, now that its tokens are known."""
        self.free_at += (taken - expected) / self.per_second


class Probe:
    """Holds a start back until it is known not to run into a tight limit, for a quarter of a second at most.

    The first calls go at once, the first ones of the other workers a moment later, and nobody calls twice before the
    first calls are back. That costs nearly nothing where there is no limit, and spares a round of refusals where
    there is.
    """

    def __init__(self, limit: int, calls: Calls) -> None:
        self._first = min(PROBE_CALLS, limit)
        self._limit = limit
        self._calls = calls
        self._out_at = 0.0  # when the last of the first calls went

    def wait_s(self, now: float, tokens: int) -> float:  # noqa: ARG002
        calls, out_s = self._calls, now - self._out_at
        if calls.admitted < self._first or calls.admitted - calls.under_way >= self._first:
            return 0.0
        return min(POLL_S, (PROBE_JOIN_S if calls.admitted < self._limit else PROBE_S) - out_s)

    def take(self, now: float, tokens: int) -> None:  # noqa: ARG002
        if self._calls.admitted < self._first:
            self._out_at = now


class LearntRate(Spacing):
    """A rate that is enforced but not told, found by bisection.

    The bucket is empty at every refusal. So what was let through between two refusals, over the time between them, is
    at most the quota's rate, and the rate of calling at a refusal is at least that. Calls go at the geometric mean of
    both bounds; with the answers the rate grows as a square, slowly where it is known and fast where it is not.

    A provider that refuses now and then whatever the rate, or a process that stood still for seconds, makes both bounds
    far too low, and every further refusal seems to confirm them. So from time to time they are held against a trial: a
    far higher rate. An enforced rate refuses that at once; else the bounds go up with what was let through.

    Args:
        admitted: the calls that went out before the first refusal.
        since: when the first of them went.
        now: the time of the refusal.
    """

    def __init__(self, admitted: int, since: float, now: float) -> None:
        super().__init__(math.inf, now)
        self.answers = 0  # since the last refusal
        self._base = 0.0
        self._lower = 0.0
        self._upper: float | None = None
        self._sent = admitted
        self._since = since
        self._let_through = 0
        self._span_s = 0.0
        self._lower_before = 0.0
        self._guessing = True
        self._sustained = 0.0  # the highest rate that was let through from one refusal to the next
        self._contradictions = 0
        self._until_trial = FIRST_TRIAL_TURNS  # turns
        self._trying = False

    def take(self, now: float, tokens: int) -> None:
        self._sent += 1
        self.per_second = self._rate()
        super().take(now, tokens)

    def refused(self, now: float, sent_at: float, wait_s: float, resume_at: float) -> None:
        """A call that went out at `sent_at` was refused; refusals of one burst count as one."""
        if self._guessing or sent_at >= self._since:
            self._turn(now, wait_s)
        self._let_through -= 1
        lower = max(self._let_through, 0) / self._span_s
        if self._upper is None:
            self._base = lower
        else:
            self._lower = min(self._upper, max(lower, self._lower_before))
            self._base = math.sqrt(self._lower * self._upper)
        self._base = max(self._base, 1 / max(LONGEST_INTERVAL_S, wait_s))
        self.free_at = resume_at

    @property
    def refuted(self) -> bool:
        """Whether refusals keep coming at rates far below one that was let through: then it is no rate that is kept."""
        return self._contradictions >= CONTRADICTIONS

    def _turn(self, now: float, wait_s: float) -> None:
        """Begin anew at the first refusal of a burst."""
        if self._guessing:  # the quota lets so much through in the time until it is there again
            self._span_s = now - self._since + max(wait_s, POLL_S)
            self._guessing = False
        else:
            if self._upper is not None:  # the span before was one from refusal to refusal, and is over now
                self._sustained = max(self._sustained, self._let_through / self._span_s)
            self._span_s = max(now - self._since, POLL_S)
            self._contradictions += self._sent / self._span_s < self._sustained / CONTRADICTION
            self._upper = self._bound_above(self._sent / self._span_s)
        self._lower_before = self._lower / DRIFT
        self._let_through, self._sent = self._sent, 0
        self._since = now
        self.answers = 0

    def _bound_above(self, let_through: float) -> float:
        """The upper bound after another refusal; decides whether a trial is next."""
        if self._upper is None:
            return self._rate()
        if self._trying:
            self._trying = let_through > CONTRADICTION * self._upper
            self._until_trial = TRIAL_TURNS
            return max(self._upper, let_through)
        self._until_trial -= 1
        self._trying = not self._until_trial
        return min(self._rate(), self._upper * DRIFT)

    def _rate(self) -> float:
        if self._trying:
            return TRIAL * self._base
        if self._upper is None:
            return self._base * (1 + (self.answers / FIRST_GROWTH_CALLS) ** 2)
        spread = max(LEAST_SPREAD, self._upper / self._base - 1)
        return self._base * (1 + spread * (self.answers / GROWTH_CALLS) ** 2)


class Told:
    """An allowance that the provider tells with its answers."""

    def __init__(self, by_tokens: bool) -> None:  # noqa: FBT001
        self.by_tokens = by_tokens
        self._limit = self._left = self._reset_at = math.inf
        self._told_at = self._per_second = self._window_s = 0.0

    def renew(self, allowance: Allowance, others: int, now: float) -> None:
        """Take the newest word; `others` is what calls under way may still take from it.

        Answers overtake each other: an older word that says more than a newer one is hardly believed.
        """
        expected, told = self._at(now), allowance.remaining - others
        self._left = told if told < expected else expected + TRUST * (min(told, self._limit) - expected)
        self._told_at = now
        self._limit = math.inf if allowance.limit is None else allowance.limit
        self._window_s = min(allowance.reset_s, LONGEST_RETRY_AFTER_S)
        self._reset_at = now + self._window_s
        refills = allowance.refills and allowance.limit is not None and allowance.reset_s > 0
        missing = self._limit - allowance.remaining - 1  # what remains was rounded down
        self._per_second = max(0.0, missing) / allowance.reset_s if refills else 0.0

    def wait_s(self, now: float, tokens: int) -> float:
        missing = min(self._need(tokens), self._limit) - self._at(now)
        if missing <= 0:
            return 0.0
        until_reset = self._reset_at - now
        return min(until_reset, missing / self._per_second) if self._per_second else until_reset

    def take(self, now: float, tokens: int) -> None:
        self._left, self._told_at = self._at(now) - self._need(tokens), now

    def _need(self, tokens: int) -> int:
        return tokens if self.by_tokens else 1

    def _at(self, now: float) -> float:
        """What is left by now."""
        if now >= self._reset_at:
            self._reset_at = now + max(self._window_s, 1.0)
            self._left, self._told_at = self._limit, now
        return min(self._limit, self._left + self._per_second * (now - self._told_at))
