"""What is planned: the cells of a suite and their runs, by number."""

from array import array
from bisect import bisect_right
from collections.abc import Container, Sequence
from itertools import accumulate

from ci_evals.model import Case, Variant

CellKey = tuple[str, str, str | None]
"""Case id, provider and prompt: what a cell is called across reports."""


class Matrix:
    """Cases × variants × runs, numbered in plan order: case by case, variant by variant, run by run.

    A *cell* is numbered from 0 to `len(matrix) - 1`, a *slot* (one run of one cell) from 0 to `total - 1`.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        variants: Sequence[Variant],
        runs: int,
        only: Container[int] | None = None,
        after: "Matrix | None" = None,
    ) -> None:
        """Lay out the matrix.

        Args:
            cases: its rows.
            variants: its columns.
            runs: how often each cell runs; a case's own `runs` wins.
            only: cells that are not in it have no runs.
            after: a plan of the same cells that this one adds `runs` to, whatever a case says: run numbers go on
                where those of its cells end.
        """
        self.cases = cases
        self.variants = variants
        self._after = after
        width = len(variants)
        counts = [
            (runs if after is not None else case.runs or runs) if only is None or row * width + column in only else 0
            for row, case in enumerate(cases)
            for column in range(width)
        ]
        self.first_slots = array("Q", accumulate(counts, initial=0))
        self._runs_of_each = counts[0] if len(set(counts)) == 1 else None  # None: of some more than of others

    def __len__(self) -> int:
        return len(self.first_slots) - 1

    @property
    def total(self) -> int:
        """The number of planned runs."""
        return self.first_slots[-1]

    def row(self, cell: int) -> int:
        """The number of a cell's case."""
        return cell // len(self.variants)

    def case(self, cell: int) -> Case:
        return self.cases[self.row(cell)]

    def variant(self, cell: int) -> Variant:
        return self.variants[cell % len(self.variants)]

    def key(self, cell: int) -> CellKey:
        """What a cell is called across reports."""
        variant = self.variant(cell)
        return self.case(cell).id, variant.provider, variant.prompt

    def runs(self, cell: int) -> int:
        return self.first_slots[cell + 1] - self.first_slots[cell]

    def first_run(self, cell: int) -> int:
        """The number of a cell's first run: 1, or what follows the plan that this one adds to."""
        return 1 if self._after is None else self._after.first_run(cell) + self._after.runs(cell)

    def slots(self, cell: int) -> range:
        return range(self.first_slots[cell], self.first_slots[cell + 1])

    def cell_of(self, slot: int) -> int:
        if self._runs_of_each:
            return slot // self._runs_of_each
        return bisect_right(self.first_slots, slot) - 1
