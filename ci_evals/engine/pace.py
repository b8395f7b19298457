"""When a provider may be called next, by the limits that were declared, that it tells, and that it only enforces."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from ci_evals.engine.gates import LONGEST_INTERVAL_S, PROBE_CALLS, Gate, LearntRate, Probe, Spacing, TokenSpacing
from ci_evals.engine.limits import allowances
from ci_evals.engine.retry import LONGEST_RETRY_AFTER_S
from ci_evals.engine.told import Told
from ci_evals.response import Message, Usage

DEFAULT_OUTPUT_TOKENS = 256
SHORTEST_WAIT_S = 0.001  # event loops wake up to a clock tick early, and would only ask again at once
FIRST_TRY_S = 0.05  # between calls when two in a row were refused; twice as long after each further one
MOST_UNPACED = 16  # refusals more than answers: chance alone does not come so far
TELLING_ANSWERS = 10  # a provider that says nothing about its limits in so many answers never does


class _Open:
    """A gate that is never closed: pauses are kept as long as there is any gate."""

    def wait_s(self, now: float, tokens: int) -> float:  # noqa: ARG002
        return 0.0

    def take(self, now: float, tokens: int) -> None:
        pass


_PAUSES = _Open()


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
        self.counts_tokens = bool(tpm)  # whether `admit` and `answered` want to know the tokens of a call
        self._clock = clock
        self._wall_clock = wall_clock
        self._since = clock()
        self._paused_until = self._since
        self._refusals = 0  # in a row, each of a call that went after the one before was known
        self._refused_at = -math.inf
        self._next_try_at = self._since
        self._requests = Spacing(rpm / 60, self._since) if rpm else None
        self._tokens = TokenSpacing(tpm / 60, self._since, self) if tpm else None
        self._learnt: LearntRate | None = None
        self._no_rate = False
        self._before = 0  # calls that tell nothing about a rate
        self._unpaced = 0  # refusals since no rate is kept, less the answers
        self._told: dict[str, Told] = {}
        self._untold = 0
        self._answers = self._input_tokens = self._output_tokens = 0
        declared: list[Gate] = [gate for gate in (self._requests, self._tokens) if gate]
        self._gates: list[Gate] = declared or [Probe(limit, self)]

    def admit(self, tokens: int = 0) -> float:
        """0.0 if a call may go out now, and then it is counted as under way; else the seconds to ask again after.

        Nothing is held for who must wait, so let one caller ask at a time and the others queue behind it.
        """
        if self._gates:
            now = self._clock()
            if not self.admitted:
                self._since = now
            closed_until = max(self._paused_until, self._next_try_at)
            wait_s = max(closed_until - now, *(gate.wait_s(now, tokens) for gate in self._gates))
            if wait_s > 0:
                return max(wait_s, SHORTEST_WAIT_S)
            if self._refusals > 1:
                self._next_try_at = now + self._try_after_s
            for gate in self._gates:
                gate.take(now, tokens)
        self.under_way += 1
        self.admitted += 1
        return 0.0

    def answered(self, usage: Usage | None = None, tokens: int = 0) -> None:
        """A call was let through, mostly with an answer; `tokens` is what it was admitted with."""
        self.under_way -= 1
        if self._gates:
            self._refusals, self._next_try_at = 0, self._paused_until
            self._unpaced = max(0, self._unpaced - 1)
            self._learn(usage, tokens)

    def failed(self) -> None:
        """A call ended with nothing that tells about limits: whether it got as far as that is not known."""
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
        if now - latency_s >= self._refused_at:
            self._refusals, self._refused_at = self._refusals + 1, now
            self._next_try_at = now + self._try_after_s
        wait_s = min(default_wait_s if retry_after_s is None else retry_after_s, LONGEST_RETRY_AFTER_S)
        self._paused_until = max(self._paused_until, now + wait_s)
        if self._no_rate:
            self._doubt()
        else:
            self._narrow_down(now, latency_s, wait_s)

    def learn_anew(self) -> None:
        """Forget what refusals so far told about a rate, as when one of those that share the pace is given up."""
        self._gates = [gate for gate in self._gates if gate is not self._learnt]
        self._no_rate, self._learnt, self._unpaced = False, None, 0
        self._before, self._since = self.admitted, self._clock()

    def _doubt(self) -> None:
        """Look for a rate anew if without one most calls are refused."""
        self._unpaced += 1
        if self._unpaced >= MOST_UNPACED:
            self.learn_anew()

    def _narrow_down(self, now: float, latency_s: float, wait_s: float) -> None:
        if self._learnt is None:
            self._learnt = LearntRate(self.admitted - self._before, self._since, now)
            self._gates = [gate for gate in self._gates if not isinstance(gate, Probe | _Open)]
            self._gates += [_PAUSES, self._learnt]
        self._learnt.refused(now, now - latency_s, wait_s, self._paused_until)
        if self._learnt.refuted:
            self._gates.remove(self._learnt)
            self._no_rate = True

    def observe(self, headers: Mapping[str, str]) -> None:
        """Take note of what an answer or a refusal says about limits; call this before reporting it."""
        if self._untold >= TELLING_ANSWERS:
            return
        told = False
        for allowance in allowances(headers, datetime.fromtimestamp(self._wall_clock(), UTC)):
            told = True
            others = max(0, self.under_way - 1) * (self.estimate(0, None) if allowance.by_tokens else 1)
            if allowance.name not in self._told:
                self._told[allowance.name] = Told(allowance.by_tokens)
                self._gates.append(self._told[allowance.name])
                self.counts_tokens |= allowance.by_tokens
            gate = self._told[allowance.name]
            gate.renew(allowance, others, self._clock())
            if gate.in_vain and gate in self._gates:
                self._gates.remove(gate)
        self._untold = 0 if told else self._untold + (not self._told)

    def expected_tokens(self, messages: Iterable[Message], max_tokens: int | None = None) -> int:
        """What `admit` wants to know of a call with these messages: 0 where no tokens are counted."""
        if not self.counts_tokens:
            return 0
        return self.estimate(sum(len(message.content) for message in messages), max_tokens)

    def estimate(self, text_length: int, max_tokens: int | None) -> int:
        """The tokens that a call will probably take: from the answers so far, else from its length in characters."""
        if not self._answers:
            return text_length // 4 + (max_tokens or DEFAULT_OUTPUT_TOKENS)
        output = self._output_tokens // self._answers
        return max(text_length // 4, self._input_tokens // self._answers) + output

    @property
    def _try_after_s(self) -> float:
        """While nothing but refusals comes, calls go one by one, further and further apart, whatever was asked for."""
        return min(FIRST_TRY_S * 2 ** min(self._refusals - 2, 16), LONGEST_INTERVAL_S) if self._refusals > 1 else 0.0

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
