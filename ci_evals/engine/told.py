"""What a provider tells of its limits, as one more reason to wait."""

import math

from ci_evals.engine.limits import Allowance
from ci_evals.engine.retry import LONGEST_RETRY_AFTER_S

TRUST = 0.05  # how far one answer moves a count of what is left upwards
ASK_AGAIN_S = 1.0  # answers under way may tell that there is more left


class Told:
    """An allowance that the provider tells with its answers."""

    def __init__(self, by_tokens: bool) -> None:  # noqa: FBT001
        self.by_tokens = by_tokens
        self._limit = self._left = self._reset_at = math.inf
        self._told_at = self._per_second = self._window_s = 0.0
        self._least = math.inf  # that was told since nothing else was under way
        self._all_back = False  # whether the last word came when nothing was under way
        self._awaited = False  # whether a reset was waited for, and nothing was told since
        self.in_vain = False  # whether that did not help: then it is no limit that is kept

    def renew(self, allowance: Allowance, others: int, now: float) -> None:
        """Take the newest word; `others` is what calls under way may still take from it.

        Answers overtake each other: an older word that says more than a newer one is hardly believed. The least that
        was told is, once all answers are there.
        """
        expected, told = self._at(now), allowance.remaining - others
        self.in_vain |= self._awaited and allowance.remaining < 1 <= expected
        self._awaited = False
        self._left = told if told < expected else expected + TRUST * (min(told, self._limit) - expected)
        self._least = min(self._least, allowance.remaining)
        self._all_back = not others
        if self._all_back:
            self._left, self._least = max(self._left, self._least), math.inf
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
        until_reset = min(self._reset_at - now, ASK_AGAIN_S)
        return min(until_reset, missing / self._per_second) if self._per_second else until_reset

    def take(self, now: float, tokens: int) -> None:
        self._left, self._told_at = self._at(now) - self._need(tokens), now
        self._all_back = False

    def _need(self, tokens: int) -> int:
        return tokens if self.by_tokens else 1

    def _at(self, now: float) -> float:
        """What is left by now."""
        if now >= self._reset_at:
            self._awaited = self._all_back and self._left < 1
            self._reset_at = now + max(self._window_s, 1.0)
            self._left, self._told_at = self._limit, now
        return min(self._limit, self._left + self._per_second * (now - self._told_at))
