"""How much the head differs from the base over the cells that both have, each difference with its interval."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import fsum, hypot, sqrt

from ci_evals.stats.intervals import Estimate, Interval, t_quantile
from ci_evals.stats.pass_rate import pass_rate
from ci_evals.stats.scores import ScoreSums
from ci_evals.stats.stratified import Strata


def ratio_of_totals(head: Sequence[float], base: Sequence[float], confidence: float = 0.95) -> Estimate | None:
    """The head's total over the base's, from the amounts of the same cells: cost, tokens, median latency.

    The noise is that between cells, linearised: amounts go up and down together, and what counts is how far a cell's
    head is from ratio times base. No interval with one cell; None where the base's total is not above 0.
    Source: W. G. Cochran, Sampling Techniques (1977), section 6.4, with Student's t for a sample of C cells.
    """
    size, base_total = len(base), fsum(base)
    if base_total <= 0:
        return None
    ratio = fsum(head) / base_total
    if size < 2:
        return Estimate(ratio, None)
    squares = [(residual := mine - ratio * theirs) * residual for mine, theirs in zip(head, base, strict=True)]
    error = sqrt(sum(squares) * size / (size - 1)) / base_total
    half = t_quantile((1 + confidence) / 2, size - 1) * error
    return Estimate(ratio, Interval(max(0.0, ratio - half), ratio + half))


def rate_difference(cells: Strata, confidence: float = 0.95) -> Estimate | None:
    """The head's pass rate minus the base's, over cells with runs on both sides. None without any.

    Each side has the gate's bounds on its own rate, for the noise between runs; they are combined so that the interval
    stays within [-1, 1] and does not vanish where everything passed.
    Source: G. Y. Zou and A. Donner, "Construction of confidence limits about effect measures", Stat. Med. 27 (2008),
    equation 2.
    """
    heads: Counter[tuple[int, int]] = Counter()
    bases: Counter[tuple[int, int]] = Counter()
    for (head_passed, head_runs, base_passed, base_runs), count in Counter(cells).items():
        if head_runs and base_runs:
            heads[head_passed, head_runs] += count
            bases[base_passed, base_runs] += count
    head, base = pass_rate(heads), pass_rate(bases)
    if head is None or base is None:
        return None
    one_sided = (1 + confidence) / 2
    h, b = head.bounds(one_sided), base.bounds(one_sided)
    h_rate, b_rate, difference = float(head.rate), float(base.rate), float(head.rate - base.rate)
    lower = difference - hypot(h_rate - h.lower, b.upper - b_rate)
    upper = difference + hypot(h.upper - h_rate, b_rate - b.lower)
    return Estimate(difference, Interval(max(-1.0, lower), min(1.0, upper)))


def score_difference(
    cells: Iterable[tuple[ScoreSums, ScoreSums]] | Mapping[tuple[ScoreSums, ScoreSums], int], confidence: float = 0.95
) -> Estimate | None:
    """The head's mean score minus the base's, over cells with runs on both sides. None without any.

    From (head, base) of each cell, or how many cells have these. The noise is that between runs of the same cell on
    the same side, where each cell has three runs or more on the two sides to show it; as with pass rates, one run that
    goes wholly the other way is added to each side, so that a few steady cells do not make it zero. Else it is that
    between cells' differences; then one cell has no interval.
    Source: the standard error of a difference of stratified means, Cochran, Sampling Techniques (1977), section 5.4,
    with variances pooled over the two sides of a cell.
    """
    kinds = [(head, base, count) for (head, base), count in Counter(cells).items() if head.runs and base.runs]
    if not kinds:
        return None
    size = sum(count for _, _, count in kinds)
    differences = [(head.total / head.runs - base.total / base.runs, count) for head, base, count in kinds]
    difference = fsum(each * count for each, count in differences) / size
    degrees = sum((head.runs + base.runs - 2) * count for head, base, count in kinds)
    if all(head.runs + base.runs > 2 for head, base, _ in kinds):
        variance = fsum(_variance(head, base) * count for head, base, count in kinds)
        variance += _added_run((head.runs, count) for head, _, count in kinds)
        variance += _added_run((base.runs, count) for _, base, count in kinds)
    elif size > 1:
        variance = size / (size - 1) * fsum((each - difference) ** 2 * count for each, count in differences)
        degrees = size - 1
    else:
        return Estimate(difference, None)
    half = t_quantile((1 + confidence) / 2, degrees) * sqrt(variance) / size
    return Estimate(difference, Interval(max(-1.0, difference - half), min(1.0, difference + half)))


def _variance(head: ScoreSums, base: ScoreSums) -> float:
    """The variance of the difference of a cell's two means."""
    between_runs = (head.deviations + base.deviations) / (head.runs + base.runs - 2)
    return between_runs * (1 / head.runs + 1 / base.runs)


def _added_run(runs: Iterable[tuple[int, int]]) -> float:
    """The squared weight of one run among cells of so many, from (runs, how many cells): 1 over their harmonic mean."""
    kinds = list(runs)
    return (fsum(count / n for n, count in kinds) / sum(count for _, count in kinds)) ** 2
