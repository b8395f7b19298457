"""Agreement of predicted labels with the true ones.

Source of all: C. J. van Rijsbergen, Information Retrieval (1979), chapter 7; the macro average
weighs labels alike.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import sqrt
from operator import itemgetter, mul
from statistics import NormalDist

from ci_evals.stats.distributions import beta_quantile, t_quantile
from ci_evals.stats.rates import Estimate, Interval
from ci_evals.stats.thresholds import CONFIDENCE, JACKKNIFE_MIN_GROUPS


@dataclass(frozen=True, slots=True)
class Confusion:
    """A confusion matrix: rows are true labels, columns predicted ones."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """The number of labelled things."""
        return sum(self.true_counts)

    @property
    def agreed(self) -> int:
        """The number of things with the same label on both sides: the sum of the diagonal."""
        return sum(row[i] for i, row in enumerate(self.counts))

    @property
    def true_counts(self) -> tuple[int, ...]:
        """The number of things of each true label: the sums of the rows."""
        return tuple(sum(row) for row in self.counts)

    @property
    def predicted_counts(self) -> tuple[int, ...]:
        """The number of things that were given each label: the sums of the columns."""
        columns = zip(*self.counts, strict=True)
        return tuple(sum(column) for column in columns)

    @property
    def is_one_sided(self) -> bool:
        """Return True if one label was predicted for everything although several were true."""
        size = self.size
        return size in self.predicted_counts and size not in self.true_counts


def confusion(pairs: Iterable[tuple[str, str]], labels: Iterable[str] = ()) -> Confusion:
    """Count (truth, predicted) pairs.

    `labels` come first, in their order; others that occur follow sorted.
    """
    cells = Counter(pairs)
    seen: set[str] = set()
    for pair in cells:
        seen.update(pair)
    names = list(dict.fromkeys(labels))
    names += sorted(seen.difference(names))
    rows = []
    for truth in names:
        row = tuple(cells[truth, predicted] for predicted in names)
        rows.append(row)
    return Confusion(tuple(names), tuple(rows))


def cohen_kappa(table: Confusion, confidence: float = CONFIDENCE) -> Estimate | None:
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
    if size == 0:
        return None
    rows = table.true_counts
    columns = table.predicted_counts
    alike_by_chance = sum(map(mul, rows, columns))
    chance = alike_by_chance / size**2
    if chance == 1:
        return None
    kappa = (table.agreed / size - chance) / (1 - chance)
    if size in rows or size in columns:
        return Estimate(kappa, None)

    tail = (1 - confidence) / 2
    if table.agreed == size:
        least_share = beta_quantile(tail, size, 1)
        lower = (least_share - chance) / (1 - chance)
        return Estimate(kappa, Interval(lower, 1.0))
    if table.agreed == 0:
        most_share = beta_quantile(1 - tail, 1, size)
        upper = (most_share - chance) / (1 - chance)
        return Estimate(kappa, Interval(kappa, upper))
    z = NormalDist().inv_cdf(1 - tail)
    half = z * _kappa_error(table, kappa, chance)
    lower = max(-1.0, kappa - half)
    upper = min(1.0, kappa + half)
    return Estimate(kappa, Interval(lower, upper))


def _kappa_error(table: Confusion, kappa: float, chance: float) -> float:
    """Return the standard error of kappa: Fleiss, Cohen and Everitt, equation 13."""
    size = table.size
    rows = [count / size for count in table.true_counts]
    columns = [count / size for count in table.predicted_counts]
    disagreement = 1 - kappa
    alike = 0.0
    unlike = 0.0
    for i, row in enumerate(table.counts):
        for j, count in enumerate(row):
            share = count / size
            if i == j:
                weight = 1 - (rows[i] + columns[i]) * disagreement
                alike += share * weight**2
            else:
                weight = columns[i] + rows[j]
                unlike += share * weight**2
    expected = kappa - chance * disagreement
    spread = alike + disagreement**2 * unlike - expected**2
    variance = max(0.0, spread) / size
    return sqrt(variance) / (1 - chance)


def accuracy(table: Confusion) -> float | None:
    """The share of correct predictions; None without any."""
    if table.size == 0:
        return None
    return table.agreed / table.size


def precision(table: Confusion, label: str) -> float | None:
    """The share of predictions of `label` that are correct; None if it was never predicted."""
    i = table.labels.index(label)
    predicted = table.predicted_counts[i]
    if predicted == 0:
        return None
    return table.counts[i][i] / predicted


def recall(table: Confusion, label: str) -> float | None:
    """The share of true `label`s that were predicted as such; None if it was never true."""
    i = table.labels.index(label)
    true = table.true_counts[i]
    if true == 0:
        return None
    return table.counts[i][i] / true


def f1(table: Confusion, label: str) -> float | None:
    """The harmonic mean of precision and recall.

    None where the label was neither true nor predicted.
    """
    i = table.labels.index(label)
    mentions = table.true_counts[i] + table.predicted_counts[i]
    if mentions == 0:
        return None
    return 2 * table.counts[i][i] / mentions


def macro_f1(table: Confusion) -> float | None:
    """The mean F1 of the labels that occur; None without any."""
    scores = []
    for label in table.labels:
        score = f1(table, label)
        if score is not None:
            scores.append(score)
    if not scores:
        return None
    return sum(scores) / len(scores)


def roc_auc(scored: Iterable[tuple[float, bool]]) -> float | None:
    """The area under the ROC curve, from (score, is positive).

    It is the chance that a positive outscores a negative; equal scores count half. None where there
    are no positives, or no negatives.
    Source: the Mann-Whitney statistic; J. A. Hanley and B. J. McNeil, Radiology 143 (1982).
    """
    by_score = sorted(scored, key=itemgetter(0))
    wins = 0.0
    positives = 0
    negatives = 0
    for _, tied in groupby(by_score, key=itemgetter(0)):
        labels = [is_positive for _, is_positive in tied]
        tied_positives = labels.count(True)
        tied_negatives = labels.count(False)
        wins += tied_positives * (negatives + tied_negatives / 2)
        positives += tied_positives
        negatives += tied_negatives
    if not positives or not negatives:
        return None
    return wins / (positives * negatives)


def jackknife_bounds(value: float, without: Sequence[float], confidence: float) -> Interval | None:
    """Bounds of a statistic in [0, 1]; None with fewer than `JACKKNIFE_MIN_GROUPS` parts.

    Source: B. Efron, R. Tibshirani, An Introduction to the Bootstrap (1993), chapter 11, with
    Student's t.

    Args:
        value: the statistic of all data.
        without: the same without the first part, without the second, …
        confidence: of each bound, in (0.5, 1).
    """
    parts = len(without)
    if parts < JACKKNIFE_MIN_GROUPS:
        return None
    mean = sum(without) / parts
    squares = sum((replicate - mean) ** 2 for replicate in without)
    variance = (parts - 1) / parts * squares
    half = t_quantile(confidence, parts - 1) * sqrt(variance)
    lower = max(0.0, value - half)
    upper = min(1.0, value + half)
    return Interval(lower, upper)
