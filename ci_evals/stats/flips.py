"""What repeating runs would show: at least one pass, passes only, another verdict."""

from collections import Counter
from collections.abc import Iterable
from math import comb, fsum


def pass_at_k(passed: int, runs: int, k: int) -> float | None:
    """The chance that of `k` runs drawn from these at least one passed. None for more than there are.

    Source: M. Chen et al., "Evaluating large language models trained on code" (2021), equation 1.
    """
    return None if k > runs else 1 - comb(runs - passed, k) / comb(runs, k)


def pass_hat_k(passed: int, runs: int, k: int) -> float | None:
    """pass^k: the chance that `k` runs drawn from these all passed. None for more than there are.

    Source: S. Yao et al., "τ-bench" (2024), section 5.1.
    """
    return None if k > runs else comb(passed, k) / comb(runs, k)


def flip_rate(passed: int, runs: int) -> float | None:
    """The chance that two runs of this cell disagree: the unbiased estimate of 2p(1-p). None with fewer than two."""
    return None if runs < 2 else 2 * passed * (runs - passed) / (runs * (runs - 1))


def suite_flip_rate(cells: Iterable[tuple[int, int]]) -> float | None:
    """The mean flip rate, from (passed, runs) of each cell. None where no cell has two runs."""
    rates = [
        (rate, count)
        for (passed, runs), count in Counter(cells).items()
        if (rate := flip_rate(passed, runs)) is not None
    ]
    size = sum(count for _, count in rates)
    return fsum(rate * count for rate, count in rates) / size if size else None
