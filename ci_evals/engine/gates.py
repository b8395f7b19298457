"""The reasons why a call has to wait, each for itself."""

import math
from typing import NamedTuple, Protocol

CATCH_UP_S = 0.25  # what a late call may be made up for; far less than any quota's burst
POLL_S = 0.005  # when to ask again if nobody can know

PROBE_CALLS = 16
PROBE_JOIN_S = 0.015
PROBE_S = 0.25

FIRST_GROWTH_CALLS = 10  # answers after which a rate that was only guessed has doubled
GROWTH_CALLS = 200  # answers after which a rate that is bounded from both sides has reached its upper bound
GROWTH_S = 120.0  # seconds of calling after which it has, too, so that a low rate does not take its time for ever
OUTDATED = 1.5  # growth after which an upper bound would have been met if it still held
LEAST_SPAN_S = 0.25  # between turns: shorter spans tell of chance and bursts instead of a rate
SUSTAINED_CALLS = 3  # and so do fewer calls
CONTRADICTIONS = 5  # more than turns that fit
CONTRADICTION = 1.5  # how much slower than a rate that was let through
LEAST_SPREAD = 0.05  # bounds this near to each other are as good as one
DRIFT = 1.2  # how far bounds may have moved from one refusal to the next
FIRST_TRIAL_TURNS = 3  # refusals after which a rate that is bounded from both sides is held against a higher one
TRIAL_TURNS = 12  # and further ones, each time that this one was refused, too
TRIAL = 2.0  # how much higher it is
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
        self._waited_s = 0.0  # since the last of the first calls went
        self._asked_at = 0.0

    def wait_s(self, now: float, tokens: int) -> float:  # noqa: ARG002
        calls = self._calls
        if calls.admitted < self._first or calls.admitted - calls.under_way >= self._first:
            return 0.0
        # A busy process asks late, and has read no answer meanwhile.
        self._waited_s += min(now - self._asked_at, POLL_S)
        self._asked_at = now
        return min(POLL_S, (PROBE_JOIN_S if calls.admitted < self._limit else PROBE_S) - self._waited_s)

    def take(self, now: float, tokens: int) -> None:  # noqa: ARG002
        if self._calls.admitted < self._first:
            self._asked_at = now


class _Known(NamedTuple):
    """What is known of a rate. A turn, which is a refusal that tells something about it, makes a new one."""

    since: float  # the last turn
    base: float = math.inf  # what calls start from after a turn
    lower: float = 0.0
    upper: float | None = None
    guessed: bool = True  # no turn yet
    sustained: float = 0.0  # the highest rate that was let through from one turn to the next
    contradictions: int = 0
    until_trial: int = FIRST_TRIAL_TURNS  # turns

    @property
    def trying(self) -> bool:
        return not self.until_trial

    def rate(self, progress: float, answers: int) -> float:
        """At what rate calls go, after so many answers since the last turn."""
        if self.trying:
            return TRIAL * self.base
        if self.upper is None:
            return self.base * (1 + (answers / FIRST_GROWTH_CALLS) ** 2)
        spread = max(LEAST_SPREAD, self.upper / self.base - 1)
        return self.base * (1 + spread * progress**2)

    def turned(self, now: float, sent: float, rate: float) -> "_Known":
        """What is known after another refusal: calls went at `rate` in the end, and at `sent` since the last turn."""
        contradictions = self.contradictions + (1 if sent < self.sustained / CONTRADICTION else -1)
        known = self._replace(since=now, contradictions=max(0, contradictions))
        if self.upper is None:
            return known._replace(upper=rate)
        if self.trying:
            until_trial = 0 if sent > CONTRADICTION * self.upper else TRIAL_TURNS
            return known._replace(upper=max(self.upper, sent), until_trial=until_trial)
        return known._replace(upper=min(rate, self.upper * DRIFT), until_trial=self.until_trial - 1)

    def outgrown(self, now: float, rate: float) -> "_Known":
        """What is left to know at a rate that is far above the upper bound, and not refused."""
        return self._replace(since=now, base=rate, upper=None, until_trial=FIRST_TRIAL_TURNS)


class LearntRate(Spacing):
    """A rate that is enforced but not told, found by bisection.

    The bucket is empty at every refusal. So what was let through between two refusals, over the time between them, is
    at most the quota's rate, and the rate of calling at a refusal is at least that. Calls go at the geometric mean of
    both bounds; with answers and time the rate grows as a square, slowly where it is known and fast where it is not.

    A provider that refuses now and then whatever the rate, or a process that stood still for seconds, makes both bounds
    far too low, and every further refusal seems to confirm them. So from time to time they are held against a trial: a
    far higher rate. An enforced rate refuses that at once; else the bounds go up with what was let through. Bounds
    that are not met any more, as when others leave more of a quota free, are given up. And where nothing at all is let
    through, nothing is learnt: the provider is closed, at whatever rate it is called.

    Args:
        admitted: the calls that went out before the first refusal.
        since: when the first of them went.
        now: the time of the refusal.
    """

    def __init__(self, admitted: int, since: float, now: float) -> None:
        super().__init__(math.inf, now)
        self.answers = 0  # since the last turn
        self._known = self._before = _Known(since)
        self._sent = admitted  # since the last turn
        self._let_through = 0  # from the turn before to the last one
        self._span_s = 0.0
        self._resumed_at = self._taken_at = now

    def take(self, now: float, tokens: int) -> None:
        self._resumed_at += max(0.0, now - max(self.free_at, self._taken_at))  # a time without calls proves nothing
        self._taken_at = now
        progress = self._progress(now)
        self.per_second = self._known.rate(progress, self.answers)
        if self._known.upper is not None and progress > OUTDATED and self.answers > FIRST_GROWTH_CALLS:
            self._known = self._known.outgrown(now, self.per_second)
            self._sent = self._let_through = self.answers = 0
        self._sent += 1
        super().take(now, tokens)

    def refused(self, now: float, sent_at: float, wait_s: float, resume_at: float) -> None:
        """A call that went out at `sent_at` was refused; refusals of one burst count as one."""
        self.free_at = self._resumed_at = resume_at
        if sent_at < self._known.since:
            self._let_through -= 1
        elif self._sent > 1 and (self._known.guessed or now - self._known.since >= LEAST_SPAN_S):
            self._turn(now, wait_s)
        else:  # nothing else was called, or too much at once
            self._sent = max(0, self._sent - 1)
            return
        if self._let_through > 0:
            self._bound_below(wait_s)
        elif self._let_through == 0:  # refusals that come later still are of older calls
            self._known = self._before

    @property
    def refuted(self) -> bool:
        """Whether refusals keep coming at rates far below one that was let through: then it is no rate that is kept."""
        return self._known.contradictions >= CONTRADICTIONS

    def _progress(self, now: float) -> float:
        """How far the rate has grown towards its upper bound, which is 1."""
        return self.answers / GROWTH_CALLS + max(0.0, now - self._resumed_at) / GROWTH_S

    def _turn(self, now: float, wait_s: float) -> None:
        """Begin anew at the first refusal of a burst."""
        known = self._before = self._known
        if known.guessed:  # the quota lets so much through in the time until it is there again
            self._span_s = now - known.since + max(wait_s, POLL_S)
            self._known = known._replace(since=now, guessed=False)
        else:
            if known.upper is not None and self._let_through >= SUSTAINED_CALLS:
                known = known._replace(sustained=max(known.sustained, self._let_through / self._span_s))
            self._span_s = now - known.since
            rate = known.rate(self._progress(now), self.answers)
            self._known = known.turned(now, self._sent / self._span_s, rate)
        self._let_through, self._sent = self._sent - 1, 0
        self.answers = 0

    def _bound_below(self, wait_s: float) -> None:
        known, lower = self._known, self._let_through / self._span_s
        base = lower
        if known.upper is not None:
            lower = min(known.upper, max(lower, self._before.lower / DRIFT))
            base = math.sqrt(lower * known.upper)
            known = known._replace(lower=lower)
        self._known = known._replace(base=max(base, 1 / max(LONGEST_INTERVAL_S, wait_s)))
