"""Agreement of two who label the same things: a judge and people, or an answer and the truth."""

from collections import Counter
from collections.abc import Iterable
from math import sqrt
from statistics import NormalDist

from msgspec import Struct

from ci_evals.stats.beta import beta_quantile
from ci_evals.stats.intervals import Estimate, Interval


class Confusion(Struct, frozen=True):
    """How often each label was given for each true one: rows are the truth, columns what was predicted."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """How many things were labelled."""
        return sum(map(sum, self.counts))

    @property
    def agreed(self) -> int:
        """How many of them alike."""
        return sum(row[i] for i, row in enumerate(self.counts))

    @property
    def true_counts(self) -> tuple[int, ...]:
        """How often each label was true."""
        return tuple(map(sum, self.counts))

    @property
    def predicted_counts(self) -> tuple[int, ...]:
        """How often each label was predicted."""
        return tuple(map(sum, zip(*self.counts, strict=True)))

    @property
    def is_one_sided(self) -> bool:
        """Whether one label was predicted for everything although several were true."""
        return self.size in self.predicted_counts and self.size not in self.true_counts


def confusion(pairs: Iterable[tuple[str, str]], labels: Iterable[str] = ()) -> Confusion:
    """Count (truth, predicted) pairs. `labels` come first, in their order; others that occur follow sorted."""
    cells = Counter(pairs)
    listed = tuple(dict.fromkeys(labels))
    names = listed + tuple(sorted({label for pair in cells for label in pair} - set(listed)))
    return Confusion(names, tuple(tuple(cells[true, predicted] for predicted in names) for true in names))


def cohen_kappa(table: Confusion, confidence: float = 0.95) -> Estimate | None:
    """Agreement beyond chance, with a two-sided interval. None where chance alone would always agree, or of nothing.

    Full agreement, or none at all, leaves the large-sample error without meaning (zero after any number of labels):
    there the share that agrees has its Clopper-Pearson bound instead, and kappa that of it. No interval where one side
    gave a single label: kappa is then 0 whatever the other did.
    Source: J. Cohen, Educ. Psychol. Meas. 20 (1960); its error, J. L. Fleiss, J. Cohen and B. S. Everitt, "Large
    sample standard errors of kappa and weighted kappa", Psychol. Bull. 72 (1969), equation 13.
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
        return Estimate(kappa, Interval((beta_quantile(tail, size, 1) - chance) / (1 - chance), 1.0))
    if not table.agreed:
        return Estimate(kappa, Interval(kappa, (beta_quantile(1 - tail, 1, size) - chance) / (1 - chance)))
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
