"""Results that are there already: which of a journal's runs still answer the suite as it is now."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import msgspec

from ci_evals.columns import Columns
from ci_evals.engine.cells import Cells
from ci_evals.engine.journal import Journal
from ci_evals.engine.journal_lines import decode, read_lines, scan
from ci_evals.matrix import CellKey, Matrix
from ci_evals.model import Result
from ci_evals.redaction import Redactor
from ci_evals.report import Resumption


class Resumer:
    """Takes over results of journals into columns; of several results of one run a graded one, and the first of them.

    Args:
        matrix: the plan.
        columns: where results are counted; slots that have one already are left alone.
        cells: knows the fingerprints of the plan.
        redactor: takes secrets out of names, as it did in journals.
        keep_errored: whether an errored run counts as done instead of being tried again.
        until: where in the journal that is gone on with this invocation's own lines begin, in bytes.
    """

    def __init__(
        self,
        matrix: Matrix,
        columns: Columns,
        cells: Cells,
        redactor: Redactor,
        *,
        keep_errored: bool,
        until: int | None = None,
    ) -> None:
        self._redactor = redactor
        self._until = until
        self._matrix = matrix
        self._columns = columns
        self._cells = cells
        self._keep_errored = keep_errored
        self._fingerprints: dict[int, str] = {}
        self._kept: set[int] = set()
        self._errored: dict[int, tuple[Path, int]] = {}
        self._changed: set[int] = set()
        self._torn: list[str] = []
        self.ended_at = 0.0
        """When the last of the runs that were taken over ended, in seconds since the epoch."""

    @property
    def resumption(self) -> Resumption:
        """How many runs were kept, are tried again, or run anew because something changed."""
        retried = self._errored.keys() - self._kept
        return Resumption(
            kept=len(self._kept),
            retried=len(retried),
            changed=len(self._changed - self._kept - retried),
            torn=tuple(self._torn),
        )

    def go_on(self, journal: Journal) -> None:
        """Take over the results that `journal` itself holds; a torn last line is cut off."""

        def found(result: Result, _line: bytes, offset: int) -> None:
            if self._until is not None and offset >= self._until:
                return
            if (slot := self._slot_to_keep(result, journal.path, offset)) is not None:
                self._record(slot, result, offset)

        scanned = scan(journal.path, found)
        if scanned.torn:
            journal.cut(scanned.end)
            self._torn.append(journal.path.as_posix())

    def take_over(self, paths: Iterable[Path], journal: Journal) -> None:
        """Copy results of other journals into `journal`."""
        for path in paths:

            def found(result: Result, line: bytes, offset: int, path: Path = path) -> None:
                if (slot := self._slot_to_keep(result, path, offset)) is not None:
                    self._record(slot, result, journal.copy(line))

            if scan(path, found).torn:
                self._torn.append(path.as_posix())
        if self._keep_errored:
            for slot in sorted(self._errored.keys() - self._kept):
                path, offset = self._errored[slot]
                (line,) = read_lines(path, (offset,))
                self._record(slot, decode(line), journal.copy(line))
                self._kept.add(slot)

    def _record(self, slot: int, result: Result, offset: int) -> None:
        self._columns.record(slot, result, offset)
        self.ended_at = max(self.ended_at, result.started_at + result.latency_s)

    def _slot_to_keep(self, result: Result, path: Path, offset: int) -> int | None:
        """The slot that a result is taken over into, or None; an errored one is only noted."""
        number = self._numbers.get((result.case, result.provider, result.prompt))
        if number is None:
            return None
        place = result.run - self._matrix.first_run(number)
        if not 0 <= place < self._matrix.runs(number):
            return None
        slot = self._matrix.first_slots[number] + place
        if self._columns.status[slot]:
            return None
        if result.fingerprint != self._fingerprint(number):
            self._changed.add(slot)
            return None
        if result.status == "errored":
            self._errored[slot] = path, offset
            return None
        self._kept.add(slot)
        return slot

    @cached_property
    def _numbers(self) -> dict[CellKey, int]:
        """The cells by what journals call them: by their names, and by what these are without secrets."""
        named = {self._matrix.key(number): number for number in range(len(self._matrix))}
        try:
            if not self._redactor.finds(msgspec.json.encode(list(named))):
                return named
        except UnicodeEncodeError:  # a lone surrogate in a name
            pass
        return {self._redactor.clean(key): number for key, number in named.items()} | named

    def _fingerprint(self, number: int) -> str:
        if (known := self._fingerprints.get(number)) is None:
            known = self._fingerprints[number] = self._cells.cell(number).fingerprint
        return known
