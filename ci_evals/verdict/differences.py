"""By how much a variant as a whole differs from its base: pass rate, score, cost, tokens, latency."""

from collections.abc import Sequence

from msgspec import Struct

from ci_evals.stats.differences import rate_difference, ratio_of_totals, score_difference
from ci_evals.stats.intervals import Estimate
from ci_evals.stats.scores import ScoreSums
from ci_evals.verdict.history import CellFigures, Totals

Table = tuple[int, int, int, int]
"""Head passed, head runs, base passed, base runs."""


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


def differences(cells: Sequence[tuple[Table, CellFigures, CellFigures]], confidence: float) -> Differences:
    """Compare matched cells: of each its counts, and what head and base runs took. Intervals are two-sided."""
    scores = [(ScoreSums(*head.scores), ScoreSums(*base.scores)) for _, head, base in cells]
    latencies = [
        (head.latency_median_s, base.latency_median_s)
        for _, head, base in cells
        if head.latency_median_s is not None and base.latency_median_s is not None
    ]
    return Differences(
        pass_rate=_difference(rate_difference((table for table, _, _ in cells), confidence)),
        score=_difference(score_difference((pair for pair in scores if pair[0].runs and pair[1].runs), confidence)),
        cost=_ratio([(head.cost, base.cost) for _, head, base in cells], confidence),
        tokens=_ratio([(head.tokens, base.tokens) for _, head, base in cells], confidence),
        latency=_difference(ratio_of_totals(latencies, confidence)),
    )


def _ratio(cells: Sequence[tuple[Totals, Totals]], confidence: float) -> Difference | None:
    """Of what one run took on average, over the cells where both sides know it."""
    means = [(head.total / head.runs, base.total / base.runs) for head, base in cells if head.runs and base.runs]
    return _difference(ratio_of_totals(means, confidence))


def _difference(estimate: Estimate | None) -> Difference | None:
    if estimate is None:
        return None
    return Difference(estimate.value, *(estimate.interval or ()))
