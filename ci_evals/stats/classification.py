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
    """Count (truth, predicted) pairs. `labels` come first, in their order; others that occur follow
    sorted.
    """
    cells = Counter(pairs)
    listed = tuple(dict.fromkeys(labels))
    names = listed + tuple(sorted({label for pair in cells for label in pair} - set(listed)))
    return Confusion(
        names, tuple(tuple(cells[true, predicted] for predicted in names) for true in names)
    )


def cohen_kappa(table: Confusion, confidence: float = 0.95) -> Estimate | None:
    """Agreement beyond chance, with a two-sided interval. None where chance alone would always
    agree, or of nothing.

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
        return Estimate(
            kappa, Interval((beta_quantile(tail, size, 1) - chance) / (1 - chance), 1.0)
        )
    if not table.agreed:
        return Estimate(
            kappa, Interval(kappa, (beta_quantile(1 - tail, 1, size) - chance) / (1 - chance))
        )
    half = -NormalDist().inv_cdf(tail) * _kappa_error(table, kappa, chance)
    return Estimate(kappa, Interval(max(-1.0, kappa - half), min(1.0, kappa + half)))


def _kappa_error(table: Confusion, kappa: float, chance: float) -> float:
    size = table.size
    rows = [count / size for count in table.true_counts]
    columns = [count / size for count in table.predicted_counts]
    alike = unlike = 0.0
    for i, row in enumerate(table.counts):
        for j, count in enumerate(row):
            if i == j:
                alike += count / size * (1 - (rows[i] + columns[i]) * (1 - kappa)) ** 2
            else:
                unlike += count / size * (columns[i] + rows[j]) ** 2
    spread = alike + (1 - kappa) ** 2 * unlike - (kappa - chance * (1 - kappa)) ** 2
    return sqrt(max(0.0, spread) / size) / (1 - chance)


def accuracy(table: Confusion) -> float | None:
    """The share that is right. None of nothing."""
    return table.agreed / table.size if table.size else None


def precision(table: Confusion, label: str) -> float | None:
    """Of those predicted to be `label`, the share that is. None where it was never predicted."""
    i = table.labels.index(label)
    predicted = table.predicted_counts[i]
    return table.counts[i][i] / predicted if predicted else None


def recall(table: Confusion, label: str) -> float | None:
    """Of those that are `label`, the share predicted so. None where it was never true."""
    i = table.labels.index(label)
    true = table.true_counts[i]
    return table.counts[i][i] / true if true else None


def f1(table: Confusion, label: str) -> float | None:
    """The harmonic mean of precision and recall. None where the label was neither true nor
    predicted.
    """
    i = table.labels.index(label)
    mentions = table.true_counts[i] + table.predicted_counts[i]
    return 2 * table.counts[i][i] / mentions if mentions else None


def macro_f1(table: Confusion) -> float | None:
    """The mean of F1 over the labels that occur. None of nothing."""
    scores = [score for label in table.labels if (score := f1(table, label)) is not None]
    return sum(scores) / len(scores) if scores else None


def roc_auc(scored: Iterable[tuple[float, bool]]) -> float | None:
    """The area under the ROC curve, from (score, is positive): the chance that a positive outscores
    a negative.

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


FEWEST_PARTS = 5


def jackknife_bounds(value: float, without: Sequence[float], confidence: float) -> Interval | None:
    """Bounds of a statistic in [0, 1], each at `confidence`; None with fewer than `FEWEST_PARTS`
    parts.

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
    error = sqrt((parts - 1) / parts * sum((each - mean) ** 2 for each in without))
    reach = t_quantile(confidence, parts - 1) * error
    return Interval(max(0.0, value - reach), min(1.0, value + reach))
