"""Agreement of predicted labels with the true ones.

Source of all: C. J. van Rijsbergen, Information Retrieval (1979), chapter 7; the macro average
weighs labels alike.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import sqrt
from statistics import NormalDist

from ci_evals.stats.distributions import beta_quantile, t_quantile
from ci_evals.stats.rates import Estimate, Interval


@dataclass(frozen=True, slots=True)
class Confusion:
    """A confusion matrix: rows are true labels, columns predicted ones."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """The number of labelled things."""
        return sum(map(sum, self.counts))

    @property
    def agreed(self) -> int:
        """The number of things that both sides labelled alike."""
        return sum(row[i] for i, row in enumerate(self.counts))

    @property
    def true_counts(self) -> tuple[int, ...]:
        """The number of things of each true label."""
        return tuple(map(sum, self.counts))

    @property
    def predicted_counts(self) -> tuple[int, ...]:
        """The number of things that were given each label."""
        return tuple(map(sum, zip(*self.counts, strict=True)))

    @property
    def is_one_sided(self) -> bool:
        """Return True if one label was predicted for everything although several were true."""
        return self.size in self.predicted_counts and self.size not in self.true_counts


def confusion(pairs: Iterable[tuple[str, str]], labels: Iterable[str] = ()) -> Confusion:
    """Count (truth, predicted) pairs.

    `labels` come first, in their order; others that occur follow sorted.
    """
    cells = Counter(pairs)
    names = list(dict.fromkeys(labels))
    others = {label for pair in cells for label in pair}.difference(names)
    names += sorted(others)
    rows = [tuple(cells[truth, predicted] for predicted in names) for truth in names]
    return Confusion(tuple(names), tuple(rows))


def cohen_kappa(table: Confusion, confidence: float = 0.95) -> Estimate | None:
    """Agreement beyond chance, with a two-sided interval.

    κ = (p - e) / (1 - e), of the share p that agrees and the share e that would by chance. None
    where chance alone would always agree, or of nothing.

    Full agreement, or none at all, leaves the large-sample error without meaning (zero after any
    number of labels): there the share that agrees has its Clopper-Pearson bound instead, and kappa
    that of it. No interval where one side gave a single label: kappa is then 0 whatever the other
    did.
    Source: J. Cohen, Educ. Psychol. Meas. 20 (1960); its error, J. L. Fleiss, J. Cohen and B. S.
    Everitt, "Large sample standard errors of kappa and weighted kappa", Psychol. Bull. 72 (1969),
    equation 13.
    """
    size = table.size
    if not size:
        return None
    rows, columns = table.true_counts, table.predicted_counts
    chance = sum(row * column for row, column in zip(rows, columns, strict=True)) / size**2
    if chance == 1:
        return None
    kappa = (table.agreed / size - chance) / (1 - chance)
    tail = (1 - confidence) / 2
    if size in rows or size in columns:
        return Estimate(kappa, None)
    if table.agreed == size:
        least_share = beta_quantile(tail, size, 1)
        return Estimate(kappa, Interval((least_share - chance) / (1 - chance), 1.0))
    if table.agreed == 0:
        most_share = beta_quantile(1 - tail, 1, size)
        return Estimate(kappa, Interval(kappa, (most_share - chance) / (1 - chance)))
    half = -NormalDist().inv_cdf(tail) * _kappa_error(table, kappa, chance)
    return Estimate(kappa, Interval(max(-1.0, kappa - half), min(1.0, kappa + half)))


def _kappa_error(table: Confusion, kappa: float, chance: float) -> float:
    """Return the standard error of kappa: Fleiss, Cohen and Everitt, equation 13."""
    size = table.size
    rows = [count / size for count in table.true_counts]
    columns = [count / size for count in table.predicted_counts]
    alike = unlike = 0.0
    for i, row in enumerate(table.counts):
        for j, count in enumerate(row):
            share = count / size
            if i == j:
                alike += share * (1 - (rows[i] + columns[i]) * (1 - kappa)) ** 2
            else:
                unlike += share * (columns[i] + rows[j]) ** 2
    spread = alike + (1 - kappa) ** 2 * unlike - (kappa - chance * (1 - kappa)) ** 2
    return sqrt(max(0.0, spread) / size) / (1 - chance)


def accuracy(table: Confusion) -> float | None:
    """The share that is right. None of nothing."""
    return _share(table.agreed, table.size)


def precision(table: Confusion, label: str) -> float | None:
    """Of those predicted to be `label`, the share that is. None where it was never predicted."""
    i = table.labels.index(label)
    return _share(table.counts[i][i], table.predicted_counts[i])


def recall(table: Confusion, label: str) -> float | None:
    """Of those that are `label`, the share predicted so. None where it was never true."""
    i = table.labels.index(label)
    return _share(table.counts[i][i], table.true_counts[i])


def f1(table: Confusion, label: str) -> float | None:
    """The harmonic mean of precision and recall.

    None where the label was neither true nor predicted.
    """
    i = table.labels.index(label)
    mentions = table.true_counts[i] + table.predicted_counts[i]
    return _share(2 * table.counts[i][i], mentions)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def macro_f1(table: Confusion) -> float | None:
    """The mean of F1 over the labels that occur. None of nothing."""
    scores = [f1(table, label) for label in table.labels]
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else None


def roc_auc(scored: Iterable[tuple[float, bool]]) -> float | None:
    """The area under the ROC curve, from (score, is positive).

    It is the chance that a positive outscores a negative; equal scores count half. None where there
    are no positives, or no negatives.
    Source: the Mann-Whitney statistic; J. A. Hanley and B. J. McNeil, Radiology 143 (1982).
    """
    wins = 0.0
    positives = negatives = 0
    for _, tied in groupby(sorted(scored), key=lambda pair: pair[0]):
        group = [is_positive for _, is_positive in tied]
        tied_positives = sum(group)
        tied_negatives = len(group) - tied_positives
        wins += tied_positives * (negatives + tied_negatives / 2)
        positives += tied_positives
        negatives += tied_negatives
    if not positives or not negatives:
        return None
    return wins / (positives * negatives)


FEWEST_PARTS = 5


def jackknife_bounds(value: float, without: Sequence[float], confidence: float) -> Interval | None:
    """Bounds of a statistic in [0, 1]; None with fewer than `FEWEST_PARTS` parts.

    Source: B. Efron, R. Tibshirani, An Introduction to the Bootstrap (1993), chapter 11, with
    Student's t.

    Args:
        value: the statistic of all data.
        without: the same without the first part, without the second, …
        confidence: of each bound, in (0.5, 1).
    """
    parts = len(without)
    if parts < FEWEST_PARTS:
        return None
    mean = sum(without) / parts
    squares = sum((each - mean) ** 2 for each in without)
    error = sqrt((parts - 1) / parts * squares)
    half = t_quantile(confidence, parts - 1) * error
    return Interval(max(0.0, value - half), min(1.0, value + half))
