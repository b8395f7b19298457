"""By how much a variant as a whole differs from its base: pass rate, score, cost, tokens, latency."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import fsum

from msgspec import Struct

from ci_evals.stats.differences import rate_difference, ratio_of_totals, score_difference
from ci_evals.stats.intervals import Estimate
from ci_evals.stats.scores import ScoreSums
from ci_evals.stats.stratified import Counts
from ci_evals.verdict.history import CellFigures, Totals

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
    tables: Mapping[Counts, int], head: Sequence[CellFigures], base: Sequence[CellFigures], confidence: float
) -> Differences:
    """Compare matched cells. Intervals are two-sided.

    Args:
        tables: how many cells have the same counts.
        head: what the runs of each cell took; of one cell at least.
        base: the same of the cells that these are compared with.
        confidence: of each interval, in (0, 1).
    """
    scores, costs, tokens, latencies = zip(*head, strict=True)
    base_scores, base_costs, base_tokens, base_latencies = zip(*base, strict=True)
    both_scores = Counter(zip(scores, base_scores, strict=True))
    medians = [
        (mine, theirs)
        for mine, theirs in zip(latencies, base_latencies, strict=True)
        if mine is not None and theirs is not None
    ]
    return Differences(
        pass_rate=_difference(rate_difference(tables, confidence)),
        score=_difference(score_difference(_score_sums(both_scores), confidence)),
        cost=_ratio(costs, base_costs, confidence),
        tokens=_ratio(tokens, base_tokens, confidence),
        latency=_latency(medians, confidence),
    )


def _score_sums(scores: Mapping[tuple[Totals, Totals], int]) -> Mapping[tuple[ScoreSums, ScoreSums], int]:
    return {(ScoreSums(*head), ScoreSums(*base)): count for (head, base), count in scores.items()}


def _ratio(head: Iterable[Totals], base: Iterable[Totals], confidence: float) -> Difference | None:
    """Of what one run took on average, over the cells where both sides know it."""
    means = [
        (total / runs, base_total / base_runs)
        for (runs, total, _), (base_runs, base_total, _) in zip(head, base, strict=True)
        if runs and base_runs
    ]
    return _difference(ratio_of_totals(means, confidence))


def _latency(medians: Sequence[tuple[float, float]], confidence: float) -> Difference | None:
    """Of the cells' medians in seconds; None where both sides come to 0 ms, of which a ratio would be noise."""
    head, base = (fsum([median[side] for median in medians]) for side in (0, 1))
    if max(head, base) < _LEAST_LATENCY_S * len(medians):
        return None
    return _difference(ratio_of_totals(medians, confidence))


def _difference(estimate: Estimate | None) -> Difference | None:
    if estimate is None:
        return None
    return Difference(estimate.value, *(estimate.interval or ()))
