"""How well a score puts the positive ones before the negative ones."""

from collections.abc import Iterable
from itertools import groupby


def roc_auc(scored: Iterable[tuple[float, bool]]) -> float | None:
    """The area under the ROC curve, from (score, is positive): the chance that a positive outscores a negative.

    Equal scores count half. None where there are no positives, or no negatives.
    Source: the Mann-Whitney statistic; J. A. Hanley and B. J. McNeil, Radiology 143 (1982).
    """
    wins = 0.0
    positives = negatives = 0
    for _, tied in groupby(sorted(scored), key=lambda pair: pair[0]):
        group = [positive for _, positive in tied]
        here = sum(group)
        wins += here * (negatives + (len(group) - here) / 2)
        positives += here
        negatives += len(group) - here
    return wins / (positives * negatives) if positives and negatives else None
