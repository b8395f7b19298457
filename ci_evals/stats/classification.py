"""How well predicted labels fit the true ones.

Source of all: C. J. van Rijsbergen, Information Retrieval (1979), chapter 7; the macro average weighs labels alike.
"""

from ci_evals.stats.agreement import Confusion


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
    """The harmonic mean of precision and recall. None where the label was neither true nor predicted."""
    i = table.labels.index(label)
    mentions = table.true_counts[i] + table.predicted_counts[i]
    return 2 * table.counts[i][i] / mentions if mentions else None


def macro_f1(table: Confusion) -> float | None:
    """The mean of F1 over the labels that occur. None of nothing."""
    scores = [score for label in table.labels if (score := f1(table, label)) is not None]
    return sum(scores) / len(scores) if scores else None
