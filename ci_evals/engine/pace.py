"""When a provider may be called next, by the limits that were declared, that it tells, and that it only enforces."""

import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from ci_evals.engine.limits import Allowance, allowances
from ci_evals.engine.retry import LONGEST_RETRY_AFTER_S
from ci_evals.model import Usage

CATCH_UP_S = 0.25  # what a late call may be made up for; far less than any quota's burst
POLL_S = 0.005  # when to ask again if nobody can know
DEFAULT_OUTPUT_TOKENS = 256
TELLING_ANSWERS = 10  # a provider that says nothing about its limits in so many answers never does

PROBE_CALLS = 16  # the calls that learn whether there is a tight limit before more follow
PROBE_JOIN_S = 0.02
PROBE_S = 0.25

FIRST_GROWTH_CALLS = 10  # answers after which a rate that was only guessed has doubled
GROWTH_CALLS = 200  # answers after which a rate that was bounded from both sides reaches its upper bound
LEAST_SPREAD = 0.05
FORGET = 1.2  # how far bounds may have moved since the last refusal
LONGEST_INTERVAL_S = 2.0  # between calls at a learnt rate, where the provider itself asks for no longer waits


class Gate(Protocol):
    """One reason to wait."""

    def wait_s(self, now: float, tokens: int) -> float:
        """Seconds until a call of so many tokens should ask again; 0 or less: it may go now."""

    def take(self, now: float, tokens: int) -> None:
        """A call goes now."""


class Pace:
    """Decides when the next call may go out. Needs no limit to be known, and keeps those that are.

    Every call that `admit` lets out must be reported once: to `answered`, `refused` or `failed`.

    Args:
        rpm: declared requests a minute.
        tpm: declared tokens a minute.
        limit: how many calls will be under way at most.
        clock: seconds from any starting point, never going back.
        wall_clock: seconds since 1970, for headers that hold dates.
    """

    def __init__(
        self,
        *,
        rpm: float | None,
        tpm: float | None,
        limit: int,
        clock: Callable[[], float],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.under_way = 0
        self.admitted = 0
        self._clock = clock
        self._wall_clock = wall_clock
        self._since = clock()
        self._paused_until = self._since
        self._requests = Spacing(rpm / 60, self._since) if rpm else None
        self._tokens = TokenSpacing(tpm / 60, self._since) if tpm else None
        self._learnt: LearntRate | None = None
        self._told: dict[str, Told] = {}
        self._untold = 0
        self._answers = self._input_tokens = self._output_tokens = 0
        declared: list[Gate] = [gate for gate in (self._requests, self._tokens) if gate]
        self._gates: list[Gate] = declared or [Probe(self, limit, self._since)]

    @property
    def counts_tokens(self) -> bool:
        """Whether `admit` and `answered` want to know the tokens of a call."""
        return self._tokens is not None or any(told.by_tokens for told in self._told.values())

    def admit(self, tokens: int = 0) -> float:
        """0.0 if a call may go out now, and then it is counted as under way; else the seconds to ask again after.

        Nothing is held for who must wait, so let one caller ask at a time and the others queue behind it.
        """
        if self._gates:
            now = self._clock()
            wait_s = max(self._paused_until - now, *(gate.wait_s(now, tokens) for gate in self._gates))
            if wait_s > 0:
                return wait_s
            for gate in self._gates:
                gate.take(now, tokens)
        self.under_way += 1
        self.admitted += 1
        return 0.0

    def answered(self, usage: Usage | None = None, tokens: int = 0) -> None:
        """A call came back with an answer; `tokens` is what it was admitted with."""
        self.under_way -= 1
        if self._gates:
            self._learn(usage, tokens)

    def failed(self) -> None:
        """A call came back with nothing that tells about limits."""
        self.under_way -= 1

    def refused(self, retry_after_s: float | None, default_wait_s: float, latency_s: float) -> None:
        """A call was refused for a limit: leave the provider alone for a while, then go slower.

        Args:
            retry_after_s: what it asked for, in seconds.
            default_wait_s: what to wait if it did not.
            latency_s: seconds since the call went out.
        """
        self.under_way -= 1
        now = self._clock()
        wait_s = min(default_wait_s if retry_after_s is None else retry_after_s, LONGEST_RETRY_AFTER_S)
        self._paused_until = max(self._paused_until, now + wait_s)
        if self._learnt is None:
            self._learnt = LearntRate(self.admitted, self._since, now)
            self._gates = [gate for gate in self._gates if not isinstance(gate, Probe)] + [self._learnt]
        self._learnt.refused(now, now - latency_s, wait_s, self._paused_until)

    def observe(self, headers: Mapping[str, str]) -> None:
        """Take note of what an answer or a refusal says about limits; call this before reporting it."""
        if self._untold >= TELLING_ANSWERS:
            return
        told = False
        for allowance in allowances(headers, datetime.fromtimestamp(self._wall_clock(), UTC)):
            told = True
            others = max(0, self.under_way - 1) * (self.estimate(0, None) if allowance.by_tokens else 1)
            if allowance.name not in self._told:
                self._told[allowance.name] = gate = Told(allowance.by_tokens)
                self._gates.append(gate)
            self._told[allowance.name].renew(allowance, others, self._clock())
        self._untold = 0 if told else self._untold + (not self._told)

    def estimate(self, text_length: int, max_tokens: int | None) -> int:
        """The tokens that a call will probably take: from the answers so far, else from its length in characters."""
        if not self._answers:
            return text_length // 4 + (max_tokens or DEFAULT_OUTPUT_TOKENS)
        output = self._output_tokens // self._answers
        return max(text_length // 4, self._input_tokens // self._answers) + output

    def _learn(self, usage: Usage | None, tokens: int) -> None:
        if self._learnt:
            self._learnt.answers += 1
        elif self.admitted - self.under_way >= PROBE_CALLS:
            self._gates = [gate for gate in self._gates if not isinstance(gate, Probe)]
        if usage:
            self._answers += 1
            self._input_tokens += usage.input_tokens
            self._output_tokens += usage.output_tokens
        if self._tokens:
            self._tokens.settle(tokens, usage.total_tokens if usage else tokens)


class Probe:
    """Holds a start back until it is known not to run into a tight limit, for a quarter of a second at most.

    The first calls go at once, the other workers' first calls a moment later; nobody calls twice before the first
    calls are back. Costs next to nothing where there is no limit, and saves a whole round of refusals where there is.
    """

    def __init__(self, pace: Pace, limit: int, now: float) -> None:
        self._pace = pace
        self._limit = limit
        self._calls = min(PROBE_CALLS, limit)
        self._started = now

    def wait_s(self, now: float, tokens: int) -> float:  # noqa: ARG002
        pace = self._pace
        if pace.admitted < (self._calls if now < self._started + PROBE_JOIN_S else self._limit):
            return 0.0
        over = pace.admitted - pace.under_way >= self._calls or now >= self._started + PROBE_S
        return 0.0 if over else POLL_S

    def take(self, now: float, tokens: int) -> None:
        pass


class Spacing:
    """Even spacing of requests: a token bucket of which one call may be taken ahead (the GCRA of ITU-T I.371)."""

    def __init__(self, per_second: float, now: float) -> None:
        self.per_second = per_second
        self.free_at = now

    def wait_s(self, now: float, tokens: int) -> float:  # noqa: ARG002
        return self.free_at - now

    def take(self, now: float, tokens: int) -> None:  # noqa: ARG002
        self._space(now, 1)

    def _space(self, now: float, amount: float) -> None:
        self.free_at = max(self.free_at, now - CATCH_UP_S) + amount / self.per_second


class TokenSpacing(Spacing):
    """The same by tokens. They are known only afterwards, so the first call goes alone, to learn from."""

    def __init__(self, per_second: float, now: float) -> None:
        super().__init__(per_second, now)
        self._first_out = self._calibrated = False

    def wait_s(self, now: float, tokens: int) -> float:
        return self.free_at - now

    def take(self, now: float, tokens: int) -> None:
        self._space(now, tokens)

    def settle(self, expected: int, taken: int) -> None:
        """Put right what was taken for a call, now that its tokens are known."""
        self.free_at += (taken - expected) / self.per_second
