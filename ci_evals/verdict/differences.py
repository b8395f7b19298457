"""By how much a variant as a whole differs from its base: pass rate, score, cost, tokens, latency."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import fsum
from typing import TypeGuard

from msgspec import Struct

from ci_evals.stats.differences import rate_difference, ratio_of_totals, score_difference
from ci_evals.stats.intervals import Estimate
from ci_evals.stats.stratified import Counts
from ci_evals.verdict.history import PerRun

_LEAST_LATENCY_S = 0.0005  # what is less is shown as 0 ms


class Difference(Struct, frozen=True, omit_defaults=True):
    """A difference or a ratio with its two-sided interval; without one where there is too little to tell."""

    value: float
    lower: float | None = None
    upper: float | None = None


class Differences(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Head against base over the cells that both have; None where a side does not know the figure.

    `pass_rate` and `score` are differences of fractions, head minus base. The others are ratios, head to base: of the
    cost and the tokens of a run, and of the cells' median latencies (None if both sides' mean is below half a
    millisecond).
    """

    pass_rate: Difference | None = None
    score: Difference | None = None
    cost: Difference | None = None
    tokens: Difference | None = None
    latency: Difference | None = None


def differences(
    tables: Mapping[Counts, int], head: Sequence[PerRun], base: Sequence[PerRun], confidence: float
) -> Differences:
    """Compare matched cells. Intervals are two-sided.

    Args:
        tables: how many cells have the same counts.
        head: what a run of each cell comes to; of one cell at least.
        base: the same of the cells that these are compared with.
        confidence: of each interval, in (0, 1).
    """
    scores, costs, tokens, latencies = zip(*head, strict=True)
    base_scores, base_costs, base_tokens, base_latencies = zip(*base, strict=True)
    return Differences(
        pass_rate=_difference(rate_difference(tables, confidence)),
        score=_difference(score_difference(Counter(zip(scores, base_scores, strict=True)), confidence)),
        cost=_ratio(costs, base_costs, confidence),
        tokens=_ratio(tokens, base_tokens, confidence),
        latency=_latency(latencies, base_latencies, confidence),
    )


def _ratio(head: Sequence[float | None], base: Sequence[float | None], confidence: float) -> Difference | None:
    """Of the cells that both sides know."""
    return _difference(ratio_of_totals(*_known(head, base), confidence))


def _latency(head: Sequence[float | None], base: Sequence[float | None], confidence: float) -> Difference | None:
    """Of the cells' medians in seconds; None where both sides come to 0 ms, of which a ratio would be noise."""
    medians, base_medians = _known(head, base)
    if max(fsum(medians), fsum(base_medians)) < _LEAST_LATENCY_S * len(medians):
        return None
    return _difference(ratio_of_totals(medians, base_medians, confidence))


def _known(head: Sequence[float | None], base: Sequence[float | None]) -> tuple[Sequence[float], Sequence[float]]:
    """The cells that both sides know."""
    if _complete(head) and _complete(base):
        return head, base
    pairs = zip(head, base, strict=True)
    known = [(mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None]
    return [mine for mine, _ in known], [theirs for _, theirs in known]


def _complete(side: Sequence[float | None]) -> TypeGuard[Sequence[float]]:
    """Whether it knows every cell, and has none of 0."""
    return all(side)


def _difference(estimate: Estimate | None) -> Difference | None:
    if estimate is None:
        return None
    return Difference(estimate.value, *(estimate.interval or ()))
