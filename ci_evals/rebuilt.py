"""A report as it was, from its report.json: so that what shows a report can show one of another day."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ci_evals.columns import Columns
from ci_evals.errors import StorageError
from ci_evals.matrix import CellKey, Matrix
from ci_evals.model import Case, Result, Variant
from ci_evals.report import Looks, Report, SuiteInfo
from ci_evals.reports.json_report import REPORT
from ci_evals.rules import Gate

_MOST_RUNS = 1_000_000
"""Nobody runs a cell more often; a damaged file may say so."""


class _Cell(Struct, frozen=True):
    case: str
    provider: str
    prompt: str | None
    bar: float
    planned: int
    tags: tuple[str, ...] = ()
    file: str = ""
    line: int | None = None
    fingerprint: str = ""
    critical: bool = False

    @property
    def key(self) -> CellKey:
        return self.case, self.provider, self.prompt


class _Document(Struct, frozen=True):
    """What is needed of a report.json; all that version 1 does not have may be left out."""

    suite: SuiteInfo
    started_at: float
    duration_s: float
    cells: tuple[_Cell, ...]
    results: tuple[msgspec.Raw, ...]
    interrupted: str | None = None
    looks: Looks | None = None
    settled: Literal["pass", "borderline", "fail"] | None = None
    gate: Mapping[str, Any] | None = None


def rebuilt(path: Path) -> tuple[Report, Gate | None]:
    """The report that a report.json was made from, and the rules that it was judged by.

    It does not know what its cases asked.

    Args:
        path: the file, or the folder that it is in; one that `read_report` reads.

    Raises:
        StorageError: it does not fit together.
    """
    path = path / REPORT if path.is_dir() else path
    try:
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
        return _report(document), _gate(document.gate)
    except (OSError, ValueError) as error:  # all that msgspec raises is one of ValueError
        raise StorageError(f"{path}: is no whole report of ci-evals: {error}") from error


def _report(document: _Document) -> Report:
    cells = {cell.key: cell for cell in document.cells}
    if not cells:
        raise ValueError("it has no cells")
    if any(not 0 <= cell.planned <= _MOST_RUNS for cell in document.cells):
        raise ValueError(f"a cell has a number of planned runs that is not between 0 and {_MOST_RUNS:,}")
    variants = [Variant(*key) for key in dict.fromkeys(cell.key[1:] for cell in document.cells)]
    rows: dict[str, list[_Cell]] = {}
    for cell in document.cells:
        rows.setdefault(cell.case, []).append(cell)
    cases = [_case(row) for row in rows.values()]
    numbers = {
        (case.id, variant.provider, variant.prompt): row * len(variants) + column
        for row, case in enumerate(cases)
        for column, variant in enumerate(variants)
    }
    matrix = Matrix(cases, variants, 1, only={numbers[key] for key in cells})
    planned, further = _sorted(document.results, matrix, numbers)
    fingerprints = [row[0].fingerprint for row in rows.values()]

    def report(matrix: Matrix, lines: Mapping[int, bytes], **more: Any) -> Report:
        columns = Columns(matrix.total)
        for slot, line in lines.items():
            columns.record(slot, _decode(line), offset=slot)

        def read(slots: Iterable[int]) -> Iterator[bytes]:
            return (lines[slot] for slot in slots)

        return Report(
            document.suite,
            matrix,
            columns,
            read=read,
            decode=_decode,
            started_at=document.started_at,
            duration_s=document.duration_s,
            fingerprint_of=fingerprints.__getitem__,
            **more,
        )

    confirmation = report(*_confirmation(matrix, further)) if further else None
    return report(
        matrix,
        planned,
        interrupted=document.interrupted,
        looks=document.looks,
        settled=document.settled,
        confirmation=confirmation,
    )


def _case(row: list[_Cell]) -> Case:
    """The case of some cells; a bar that they share is its own."""
    bars = {cell.bar for cell in row}
    first = row[0]
    return Case(
        id=first.case,
        tags=first.tags,
        runs=max(cell.planned for cell in row),
        min_pass_rate=bars.pop() if len(bars) == 1 else None,
        critical=first.critical,
        file=first.file,
        line=first.line,
    )


def _sorted(
    lines: Iterable[msgspec.Raw], matrix: Matrix, numbers: Mapping[CellKey, int]
) -> tuple[dict[int, bytes], dict[int, dict[int, bytes]]]:
    """The planned results by slot, and those of confirm runs by cell and by their place after the planned ones."""
    planned: dict[int, bytes] = {}
    further: dict[int, dict[int, bytes]] = {}
    for line in lines:
        result = _decode(line)
        cell = numbers.get((result.case, result.provider, result.prompt))
        place = result.run - 1
        if cell is None:
            raise ValueError(f"it has a result of the case {result.case!r}, but no such cell")
        if not 0 <= place < _MOST_RUNS:
            raise ValueError(f"a result has the run number {result.run}")
        if place < matrix.runs(cell):
            planned[matrix.first_slots[cell] + place] = bytes(line)
        else:
            further.setdefault(cell, {})[place - matrix.runs(cell)] = bytes(line)
    return planned, further


def _confirmation(matrix: Matrix, further: Mapping[int, Mapping[int, bytes]]) -> tuple[Matrix, dict[int, bytes]]:
    runs = 1 + max(place for lines in further.values() for place in lines)
    more = Matrix(matrix.cases, matrix.variants, runs, only=set(further), after=matrix)
    return more, {
        more.first_slots[cell] + place: line for cell, lines in further.items() for place, line in lines.items()
    }


def _gate(rules: Mapping[str, Any] | None) -> Gate | None:
    """The rules; what a later version may have added to them is left out."""
    if rules is None:
        return None
    known = {name: value for name, value in rules.items() if name in Gate.__struct_fields__}
    return msgspec.convert(known, Gate)


_decode = msgspec.json.Decoder(Result).decode
