"""By how much a variant as a whole differs from its base: pass rate, score, cost, tokens, latency."""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ci_evals.stats.differences import rate_difference, ratio_of_totals, score_difference
from ci_evals.stats.intervals import Estimate
from ci_evals.stats.scores import ScoreSums
from ci_evals.stats.stratified import Counts
from ci_evals.verdict.history import CellFigures, Totals


class Difference(Struct, frozen=True, omit_defaults=True):
    """A difference or a ratio with its two-sided interval; without one where there is too little to tell."""

    value: float
    lower: float | None = None
    upper: float | None = None


class Differences(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Head against base over the cells that both have; None where a side does not know the figure.

    `pass_rate` and `score` are differences of fractions, head minus base. The others are ratios, head to base: of the
    cost and the tokens of a run, and of the cells' median latencies.
    """

    pass_rate: Difference | None = None
    score: Difference | None = None
    cost: Difference | None = None
    tokens: Difference | None = None
    latency: Difference | None = None


def differences(
    tables: Mapping[Counts, int], figures: Sequence[tuple[CellFigures, CellFigures]], confidence: float
) -> Differences:
    """Compare matched cells. Intervals are two-sided.

    Args:
        tables: how many cells have the same counts.
        figures: what head and base runs of each cell took.
        confidence: of each interval, in (0, 1).
    """
    latencies = [
        (head.latency_median_s, base.latency_median_s)
        for head, base in figures
        if head.latency_median_s is not None and base.latency_median_s is not None
    ]
    scores = Counter([(head.scores, base.scores) for head, base in figures])
    return Differences(
        pass_rate=_difference(rate_difference(tables, confidence)),
        score=_difference(score_difference(_score_sums(scores), confidence)),
        cost=_ratio([(head.cost, base.cost) for head, base in figures], confidence),
        tokens=_ratio([(head.tokens, base.tokens) for head, base in figures], confidence),
        latency=_difference(ratio_of_totals(latencies, confidence)),
    )


def _score_sums(scores: Mapping[tuple[Totals, Totals], int]) -> Mapping[tuple[ScoreSums, ScoreSums], int]:
    return {(ScoreSums(*head), ScoreSums(*base)): count for (head, base), count in scores.items()}


def _ratio(cells: Sequence[tuple[Totals, Totals]], confidence: float) -> Difference | None:
    """Of what one run took on average, over the cells where both sides know it."""
    means = [(head.total / head.runs, base.total / base.runs) for head, base in cells if head.runs and base.runs]
    return _difference(ratio_of_totals(means, confidence))


def _difference(estimate: Estimate | None) -> Difference | None:
    if estimate is None:
        return None
    return Difference(estimate.value, *(estimate.interval or ()))
