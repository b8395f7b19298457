"""What classifying graders found, counted so that metrics of the whole suite follow from it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from zlib import crc32

from ci_evals.model import Classified

GROUPS = 50
"""Cases fall into so many groups: how much a metric depends on single groups tells how sure it is."""

MAX_LABELS = 200
OTHER = "(other)"
"""What labels beyond `MAX_LABELS` are counted as: what a model answers may be anything."""


class Labelled:
    """The labels of one variant's runs in one task: what was true, what was predicted, and with which scores."""

    def __init__(self) -> None:
        self.pairs: Counter[tuple[int, str, str]] = Counter()
        self.scores: dict[str, list[tuple[int, float, bool]]] = {}
        self._labels: set[str] = set()

    def add(self, case: str, found: Classified) -> None:
        """Count one run of a case."""
        group = crc32(case.encode(errors="replace")) % GROUPS
        truth, predicted = self._known(found.truth), self._known(found.predicted)
        self.pairs[group, truth, predicted] += 1
        for label, score in (found.scores or {}).items():
            if (known := self._known(label)) != OTHER:
                self.scores.setdefault(known, []).append((group, score, truth == known))

    @property
    def groups(self) -> tuple[int, ...]:
        """The groups that have a run."""
        return tuple(sorted({group for group, _, _ in self.pairs}))

    def pairs_without(self, group: int | None) -> Mapping[tuple[str, str], int]:
        """How often each (truth, predicted) came, with one group left out, or with all of them."""
        counted: Counter[tuple[str, str]] = Counter()
        for (each, truth, predicted), count in self.pairs.items():
            if each != group:
                counted[truth, predicted] += count
        return counted

    def scores_without(self, label: str, group: int | None) -> Iterator[tuple[float, bool]]:
        """The scores of a label, each with whether it was true, without one group."""
        return ((score, is_it) for each, score, is_it in self.scores.get(label, ()) if each != group)

    def _known(self, label: str) -> str:
        if label in self._labels:
            return label
        if len(self._labels) >= MAX_LABELS:
            return OTHER
        self._labels.add(label)
        return label
