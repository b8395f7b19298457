"""Overdispersion: successive reports of the same cells vary more than independent runs would.

One retrieval index, one judge or one slow hour moves many cells at once. Tests that take runs as
independent then find changes too often.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ci_evals.stats.differences import ScoreSums
from ci_evals.stats.exact_tests import failure_weight
from ci_evals.stats.thresholds import (
    OVERDISPERSION_MAX_TERM,
    OVERDISPERSION_MIN_REPORTS,
    OVERDISPERSION_PRIOR_PAIRS,
    SHARED_LUCK_PRIOR_VARIANCE,
)

Counts = tuple[int, int]
"""(passed, graded) of a cell in a report; (0, 0) if it was not run."""


def overdispersion(reports: Sequence[Sequence[Counts]]) -> float:
    """Return the ratio of the variance between reports to that of independent runs, at least 1.

    φ = max(1, (Σ min(d²/v, 10) + 5) / (A - 1 + 5)) over the A - 1 successive pairs of A reports: d
    is the difference of their pass rates, summed over cells by the weights of `weighted_lower`, v
    its variance if runs were independent. Differences of successive reports, because a lasting step
    of the base branch counts once that way, and no pair counts for more than 10: that was no luck.

    Args:
        reports: the same cells in the same order in each, newest report first. 1 with fewer than
            `OVERDISPERSION_MIN_REPORTS`.
    """
    if len(reports) < OVERDISPERSION_MIN_REPORTS:
        return 1.0
    sums = [_add(cell) for cell in zip(*reports, strict=True)]
    squares = 0.0
    for newer, older in pairwise(reports):
        difference = variance = 0.0
        for change in _changes(newer, older, sums):
            weight = failure_weight(change.passed, change.failed)
            difference += weight * change.difference
            variance += weight**2 * change.variance
        squares += _squared_error(difference, variance)
    return _with_prior(squares, len(reports) - 1)


def score_overdispersion(reports: Sequence[Sequence[ScoreSums]]) -> float:
    """Return what `overdispersion` returns for the scores of runs.

    d is the difference of two reports' mean scores, summed over cells, each of which counts alike;
    its variance is that of the scores within each cell, over all reports together.

    Args:
        reports: the same cells in the same order in each, newest report first.
    """
    if len(reports) < OVERDISPERSION_MIN_REPORTS:
        return 1.0
    variances = [_variance_of_a_run(cell) for cell in zip(*reports, strict=True)]
    squares = 0.0
    for newer, older in pairwise(reports):
        difference = variance = 0.0
        for one, other, of_one_run in zip(newer, older, variances, strict=True):
            if one.runs and other.runs and of_one_run:
                difference += one.total / one.runs - other.total / other.runs
                variance += of_one_run * (1 / one.runs + 1 / other.runs)
        squares += _squared_error(difference, variance)
    return _with_prior(squares, len(reports) - 1)


def _squared_error(difference: float, variance: float) -> float:
    """Return the square of a difference in units of its variance; 1 if nothing can vary."""
    if not variance:
        return 1.0
    return min(difference**2 / variance, OVERDISPERSION_MAX_TERM)


def _with_prior(squares: float, pairs: int) -> float:
    """Return the mean of the squares of so many pairs, and of the assumed ones, at least 1."""
    prior = OVERDISPERSION_PRIOR_PAIRS
    return max(1.0, (squares + prior) / (pairs + prior))


def _variance_of_a_run(reports: Iterable[ScoreSums]) -> float:
    """Return the variance of the scores of a cell in all reports; 0 with fewer than two."""
    together = ScoreSums()
    for sums in reports:
        together += sums
    if together.runs < 2:
        return 0.0
    return together.deviations / (together.runs - 1)


class _Change(NamedTuple):
    """A cell from one report to the next.

    Args:
        difference: of its pass rates.
        variance: of this difference, if runs were independent.
        runs: those of either report, their harmonic mean if they differ.
        passed: its passed runs in all reports.
        failed: its failed runs in all reports.
    """

    difference: float
    variance: float
    runs: float
    passed: int
    failed: int


def _changes(
    newer: Sequence[Counts], older: Sequence[Counts], sums: Sequence[Counts]
) -> Iterator[_Change]:
    """Yield the cells that both reports have, if they ever passed and ever failed."""
    for one, other, (passed, graded) in zip(newer, older, sums, strict=True):
        failed = graded - passed
        if not one[1] or not other[1] or not passed or not failed:
            continue
        inverse_runs = 1 / one[1] + 1 / other[1]
        of_one_run = passed * failed / (graded * (graded - 1))
        yield _Change(
            difference=one[0] / one[1] - other[0] / other[1],
            variance=of_one_run * inverse_runs,
            runs=2 / inverse_runs,
            passed=passed,
            failed=failed,
        )


def _add(cell: Sequence[Counts]) -> Counts:
    """Return all runs of a cell."""
    return sum(passed for passed, _ in cell), sum(runs for _, runs in cell)


def shared_luck(cases: Iterable[Sequence[Sequence[Counts]]]) -> float:
    """Return how much more the passes of a case vary between reports than those of its cells.

    φ = max(1, (Σ d² + 5) / (Σ v + 5)) over cases and successive pairs of reports: d is the
    difference of the case's passes over its variants, v its variance if variants were independent.

    Args:
        cases: of each case its reports, newest first, and of each report the same cells in the same
            order.
    """
    squares = variances = 0.0
    for reports in cases:
        sums = [_add(cell) for cell in zip(*reports, strict=True)]
        for newer, older in pairwise(reports):
            difference = 0.0
            for change in _changes(newer, older, sums):
                difference += change.runs * change.difference
                variances += change.runs**2 * change.variance
            squares += difference**2
    prior = SHARED_LUCK_PRIOR_VARIANCE
    return max(1.0, (squares + prior) / (variances + prior))
