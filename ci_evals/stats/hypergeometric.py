"""The hypergeometric distribution: which of all passed runs are the head's, if head and base are alike."""

from functools import lru_cache
from math import fsum

from msgspec import Struct


class Hypergeometric(Struct, frozen=True):
    """How likely the head is to have `least`, `least + 1`, … of the passes. What is below 1e-308 is left out."""

    least: int
    probabilities: tuple[float, ...]

    def at_most(self, k: int) -> float:
        """The chance of k passes or fewer."""
        return min(1.0, fsum(self.probabilities[: max(0, k - self.least + 1)]))

    def at_least(self, k: int) -> float:
        """The chance of k passes or more."""
        return min(1.0, fsum(self.probabilities[max(0, k - self.least) :]))

    def exactly(self, k: int) -> float:
        """The chance of k passes."""
        return self.probabilities[k - self.least] if 0 <= k - self.least < len(self.probabilities) else 0.0


@lru_cache(maxsize=4096)
def hypergeometric(n_head: int, n_base: int, passed: int) -> Hypergeometric:
    """The passes among the head's `n_head` runs, when `passed` of all `n_head + n_base` runs passed.

    Source: the ratio of neighbouring terms, Johnson, Kemp and Kotz, Univariate Discrete Distributions, section 6.2.1.
    It is followed outwards from the mode, so that nothing overflows and the error stays at one rounding per term.
    """
    least, most = max(0, passed - n_base), min(n_head, passed)
    mode = min(most, max(least, (n_head + 1) * (passed + 1) // (n_head + n_base + 2)))
    below, above = [], []
    weight = 1.0
    for k in range(mode, least, -1):
        weight *= k * (n_base - passed + k) / ((n_head - k + 1) * (passed - k + 1))
        if not weight:
            break
        below.append(weight)
    weight = 1.0
    for k in range(mode, most):
        weight *= (n_head - k) * (passed - k) / ((k + 1) * (n_base - passed + k + 1))
        if not weight:
            break
        above.append(weight)
    weights = [*reversed(below), 1.0, *above]
    total = fsum(weights)
    return Hypergeometric(mode - len(below), tuple(weight / total for weight in weights))
