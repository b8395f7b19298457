"""Differences of a variant as a whole from its base: pass rate, score, cost, tokens, latency."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Literal

from ci_evals.gate.baseline import PerRun
from ci_evals.stats.differences import rate_difference, ratio_of_totals, score_difference
from ci_evals.stats.exact_tests import Table
from ci_evals.stats.rates import Estimate

_LEAST_LATENCY_S = 0.0005  # what is less is shown as 0 ms


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference or a ratio with its one-sided bounds; without them where there is too little to
    tell.
    """

    value: float
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """Head against base over the cells that both have; None where a side does not know the figure.

    `pass_rate` and `score` are differences of fractions, head minus base. The others are ratios,
    head to base: of the cost and the tokens of a run, and of the cells' median latencies (None if
    both sides' mean is below half a millisecond).
    """

    pass_rate: Difference | None = None
    score: Difference | None = None
    cost: Difference | None = None
    tokens: Difference | None = None
    latency: Difference | None = None


def differences(
    tables: Sequence[Table], head: Sequence[PerRun], base: Sequence[PerRun], confidence: float
) -> Differences:
    """Compare matched cells.

    Args:
        tables: the runs of each cell on both sides.
        head: what a run of each cell comes to; of one cell at least.
        base: the same of the cells that these are compared with.
        confidence: of each bound by itself, in (0, 1).
    """

    def ratio(name: Literal["cost_usd", "tokens", "latency_median_s"]) -> Estimate | None:
        pairs = [
            (getattr(mine, name), getattr(theirs, name))
            for mine, theirs in zip(head, base, strict=True)
        ]
        known = [
            (mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None
        ]
        heads, bases = [mine for mine, _ in known], [theirs for _, theirs in known]
        if name == "latency_median_s" and max(fsum(heads), fsum(bases)) < _LEAST_LATENCY_S * len(
            known
        ):
            return None  # both sides come to 0 ms: a ratio would be noise
        return ratio_of_totals(heads, bases, confidence)

    scores = [(mine.scores, theirs.scores) for mine, theirs in zip(head, base, strict=True)]
    return Differences(
        pass_rate=_difference(rate_difference(tables, confidence)),
        score=_difference(score_difference(scores, confidence)),
        cost=_difference(ratio("cost_usd")),
        tokens=_difference(ratio("tokens")),
        latency=_difference(ratio("latency_median_s")),
    )


def _difference(estimate: Estimate | None) -> Difference | None:
    return None if estimate is None else Difference(estimate.value, *(estimate.interval or ()))
