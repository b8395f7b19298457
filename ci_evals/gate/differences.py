"""Differences of a variant as a whole from its base: pass rate, score, cost, tokens, latency."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Literal

from ci_evals.gate.baseline import PerRun
from ci_evals.stats.differences import rate_difference, ratio_of_totals, score_difference
from ci_evals.stats.exact_tests import Table
from ci_evals.stats.rates import Estimate

LEAST_LATENCY_S = 0.0005  # what is less is shown as 0 ms

RatioFigure = Literal["cost", "latency"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference or a ratio with its one-sided bounds; None where there is too little to tell."""

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

    def ratio(self, figure: RatioFigure) -> Difference | None:
        """Return the ratio of a figure that a gate can limit."""
        match figure:
            case "cost":
                return self.cost
            case "latency":
                return self.latency


def differences(
    tables: Sequence[Table],
    head: Sequence[PerRun],
    base: Sequence[PerRun],
    confidence: float,
    overdispersion: float = 1.0,
) -> Differences:
    """Compare matched cells.

    Args:
        tables: the runs of each cell on both sides.
        head: the averages of each cell's runs; of one cell at least.
        base: the same of the cells that these are compared with.
        confidence: of each bound by itself, in (0, 1).
        overdispersion: how much more pass rates vary than those of independent runs would.
    """
    pairs = list(zip(head, base, strict=True))
    scores = [(mine.scores, theirs.scores) for mine, theirs in pairs]
    return Differences(
        pass_rate=_difference(rate_difference(tables, confidence, overdispersion)),
        score=_difference(score_difference(scores, confidence)),
        cost=_ratio([(mine.cost_usd, theirs.cost_usd) for mine, theirs in pairs], confidence),
        tokens=_ratio([(mine.tokens, theirs.tokens) for mine, theirs in pairs], confidence),
        latency=_latency_ratio(
            [(mine.latency_median_s, theirs.latency_median_s) for mine, theirs in pairs], confidence
        ),
    )


_Amounts = Sequence[tuple[float | None, float | None]]
"""(head, base) of each cell; None where not known."""


def _ratio(amounts: _Amounts, confidence: float) -> Difference | None:
    """Compare the totals of an amount over the cells where both sides know it."""
    head, base = _known(amounts)
    return _difference(ratio_of_totals(head, base, confidence))


def _latency_ratio(amounts: _Amounts, confidence: float) -> Difference | None:
    """Compare latencies; None if both sides round to 0 ms, as their ratio would be noise."""
    head, base = _known(amounts)
    if max(fsum(head), fsum(base)) < LEAST_LATENCY_S * len(head):
        return None
    return _difference(ratio_of_totals(head, base, confidence))


def _known(amounts: _Amounts) -> tuple[list[float], list[float]]:
    """Return the amounts of head and base in the cells where both are known."""
    head, base = [], []
    for mine, theirs in amounts:
        if mine is not None and theirs is not None:
            head.append(mine)
            base.append(theirs)
    return head, base


def _difference(estimate: Estimate | None) -> Difference | None:
    if estimate is None:
        return None
    if estimate.interval is None:
        return Difference(estimate.value)
    return Difference(estimate.value, *estimate.interval)
