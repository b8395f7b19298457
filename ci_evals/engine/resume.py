"""Results that are there already: which of a journal's runs still answer the suite as it is now."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from ci_evals.engine.cells import Cells
from ci_evals.engine.journal import Header, Journal, scan
from ci_evals.engine.shards import key_of
from ci_evals.model import Result
from ci_evals.report import Columns, Matrix, Resumption


class Earlier(Struct):
    """What earlier journals hold, by slot."""

    kept: set[int]
    errored: set[int]
    changed: set[int]

    def counted(self, torn: Sequence[str]) -> Resumption:
        retried = self.errored - self.kept
        return Resumption(
            kept=len(self.kept),
            retried=len(retried),
            changed=len(self.changed - self.kept - retried),
            torn=tuple(torn),
        )


class Resumer:
    """Takes over results of journals into columns.

    Args:
        matrix: the plan.
        columns: where results are counted.
        cells: knows the fingerprints of the plan.
        keep_errored: whether an errored run counts as done instead of being tried again.
    """

    def __init__(self, matrix: Matrix, columns: Columns, cells: Cells, *, keep_errored: bool) -> None:
        self._matrix = matrix
        self._columns = columns
        self._keep_errored = keep_errored
        self._cells = {cells.cell(number).fingerprint: number for number in range(len(matrix))}
        self._by_key = {key_of(matrix.case(number).id, matrix.variant(number)): number for number in range(len(matrix))}
        self._earlier = Earlier(set(), set(), set())
        self._torn: list[str] = []

    @property
    def resumption(self) -> Resumption:
        """How many runs were kept, are tried again, or run anew because something changed."""
        return self._earlier.counted(self._torn)

    def go_on(self, journal: Journal) -> None:
        """Take over the results that `journal` itself holds; a torn last line is cut off."""

        def found(result: Result, _line: bytes, offset: int) -> None:
            if (slot := self._slot_to_keep(result)) is not None:
                self._columns.record(slot, result, offset)

        scanned = scan(journal.path, found)
        if scanned.torn:
            journal.cut(scanned.end)
            self._torn.append(journal.path.as_posix())

    def take_over(self, paths: Iterable[Path], journal: Journal) -> list[Header]:
        """Copy results of other journals into `journal`; returns their headers."""
        headers: list[Header] = []
        for path in paths:

            def found(result: Result, line: bytes, _offset: int) -> None:
                if (slot := self._slot_to_keep(result)) is not None:
                    self._columns.record(slot, result, journal.copy(line))

            scanned = scan(path, found)
            headers.extend(scanned.headers)
            if scanned.torn:
                self._torn.append(path.as_posix())
        return headers

    def _slot_to_keep(self, result: Result) -> int | None:
        """The slot that a result belongs to, or None if it is not taken over."""
        number = self._cells.get(result.fingerprint)
        if number is None:
            number = self._by_key.get((result.case, result.provider, result.prompt))
            if number is not None and result.run <= self._matrix.runs(number):
                self._earlier.changed.add(self._matrix.first_slots[number] + result.run - 1)
            return None
        if result.run > self._matrix.runs(number):
            return None
        slot = self._matrix.first_slots[number] + result.run - 1
        if slot in self._earlier.kept:
            return None
        if result.status == "errored" and not self._keep_errored:
            self._earlier.errored.add(slot)
            return None
        self._earlier.kept.add(slot)
        return slot
