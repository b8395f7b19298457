"""Scores in [0, 1]: the stratified test of head against base, from the sums over each cell's runs."""

from collections.abc import Iterable
from math import fsum, sqrt
from statistics import NormalDist
from typing import NamedTuple

_ROUNDING = 1e-12
"""A spread this small beside the scores themselves is what adding floats leaves."""


class ScoreSums(NamedTuple):
    """The scores of one side of one cell: how many, their sum, and the sum of their squares."""

    runs: int
    total: float
    squares: float

    @property
    def deviations(self) -> float:
        """The sum of squared deviations from the mean."""
        if not self.runs:
            return 0.0
        deviations = self.squares - self.total * self.total / self.runs
        return deviations if deviations > _ROUNDING * self.squares else 0.0


def score_lower(cells: Iterable[tuple[ScoreSums, ScoreSums]]) -> float:
    """The p-value for "the head scores worse", from (head, base) of each cell; 1 where no cell can tell.

    If head and base are alike, each cell's pooled scores are dealt out at random: the head's sum T has expectation
    n_head·mean and variance n_head·n_base/n·s². The sum of T - E over cells is taken as normal.
    Source: Pitman's permutation test with its first two moments, stratified; E. L. Lehmann, Nonparametrics (1975),
    sections 1.4 and 3.3.
    """
    excesses, variances = [], []
    for head, base in cells:
        if not (head.runs and base.runs):
            continue
        pooled = ScoreSums(head.runs + base.runs, head.total + base.total, head.squares + base.squares)
        if deviations := pooled.deviations:
            excesses.append(head.total - head.runs * pooled.total / pooled.runs)
            variances.append(head.runs * base.runs / pooled.runs * deviations / (pooled.runs - 1))
    return NormalDist().cdf(fsum(excesses) / sqrt(fsum(variances))) if variances else 1.0


def score_upper(cells: Iterable[tuple[ScoreSums, ScoreSums]]) -> float:
    """The p-value for "the head scores better": `score_lower` with head and base exchanged."""
    return score_lower((base, head) for head, base in cells)
