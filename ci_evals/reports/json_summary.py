"""report.json read back into what it was made of, so that any format can be made from it later, elsewhere."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from ci_evals.columns import Columns
from ci_evals.matrix import CellKey, Matrix
from ci_evals.model import Case, Result, Variant
from ci_evals.report import Report
from ci_evals.reports.findings import bar_of
from ci_evals.reports.json_document import (
    MOST_RUNS,
    Document,
    SavedCell,
    SavedComparison,
    check_amounts,
    decoded,
)
from ci_evals.reports.summary import Summary
from ci_evals.rules import Gate
from ci_evals.verdict.comparison import Comparison, NoComparison, usual
from ci_evals.verdict.history import BaseCell, Baseline, Evidence, History
from ci_evals.verdict.pairing import CellComparison

_DECODER: Final = msgspec.json.Decoder(Result)


class _Line(Struct, frozen=True):
    """A run of a cell, decoded and as it is written."""

    cell: int
    result: Result
    raw: msgspec.Raw


def read(content: bytes, *, oldest: int = 1) -> Summary:
    """The summary that a report.json was made from. Of its cases it has what a report shows, and not what was asked.

    Args:
        content: the file, whoever wrote it.
        oldest: the first schema version that will do; those of version 1 know of no comparison.

    Raises:
        ValueError: it is no report.json, or of another version, or contradicts itself.
    """
    try:
        document = decoded(content, oldest)
        gate = _gate(document.gate)
        report = _report(document, gate)
    except (msgspec.DecodeError, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from error
    compared = ((cell.key, cell.comparison) for cell in document.cells)
    before = {key: found.before for key, found in compared if found and found.before is not None}
    return Summary(report, document.verdict, gate, _comparison(document), before)


def _gate(rules: Mapping[str, Any] | None) -> Gate | None:
    """The rules; what a later version may have added to them is left out."""
    if rules is None:
        return None
    known = {name: value for name, value in rules.items() if name in Gate.__struct_fields__}
    return msgspec.convert(known, Gate)


def _report(document: Document, gate: Gate | None) -> Report:
    matrix, numbers = _matrix(document, gate)
    planned: dict[int, _Line] = {}
    further: dict[int, list[_Line]] = defaultdict(list)
    for raw in document.results:
        result = _DECODER.decode(raw)
        cell = numbers.get((result.case, result.provider, result.prompt))
        if cell is None or not 1 <= result.run <= MOST_RUNS:
            raise ValueError(f"run {result.run} of {result.case!r} is of no cell of the report")
        check_amounts(result)
        line = _Line(cell, result, raw)
        if result.run <= matrix.runs(cell):
            planned[matrix.first_slots[cell] + result.run - 1] = line
        else:
            further[cell].append(line)
    return _filled(
        document,
        matrix,
        planned,
        interrupted=document.interrupted,
        resumption=document.resumption,
        looks=document.looks,
        settled=document.settled,
        confirmation=_confirmation(document, matrix, further) if further else None,
    )


def _confirmation(document: Document, after: Matrix, further: Mapping[int, Sequence[_Line]]) -> Report:
    """The runs that suspects got beyond the planned ones."""
    most = max(line.result.run - after.runs(cell) for cell, lines in further.items() for line in lines)
    if most * len(further) > MOST_RUNS:
        raise ValueError(f"it has more than {MOST_RUNS:,} runs")
    matrix = Matrix(after.cases, after.variants, most, only=further.keys(), after=after)
    slots = {
        matrix.first_slots[cell] + line.result.run - matrix.first_run(cell): line
        for cell, lines in further.items()
        for line in lines
    }
    return _filled(document, matrix, slots)


def _filled(document: Document, matrix: Matrix, lines: Mapping[int, _Line], **more: Any) -> Report:
    columns = Columns(matrix.total)
    for slot, line in lines.items():
        columns.record(slot, line.result, offset=slot)
    raws = {slot: bytes(line.raw) for slot, line in lines.items()}

    def read_lines(slots: Iterable[int]) -> Iterator[bytes]:
        return (raws[slot] for slot in slots)

    return Report(
        document.suite,
        matrix,
        columns,
        read=read_lines,
        decode=_DECODER.decode,
        started_at=document.started_at,
        duration_s=document.duration_s,
        fingerprint_of=_fingerprints(document).__getitem__,
        **more,
    )


def _fingerprints(document: Document) -> Sequence[str]:
    """Of each row of the matrix."""
    return list({cell.case: cell.fingerprint for cell in document.cells}.values())


def _matrix(document: Document, gate: Gate | None) -> tuple[Matrix, Mapping[CellKey, int]]:
    """The plan, and which number each cell has in it."""
    variants = tuple(dict.fromkeys(document.variants))
    runs = {cell.key: cell.planned for cell in document.cells}
    by_case: dict[str, list[SavedCell]] = defaultdict(list)
    for cell in document.cells:
        by_case[cell.case].append(cell)
    if len(by_case) * len(variants) > MOST_RUNS or sum(runs.values()) > MOST_RUNS or min(runs.values(), default=0) < 0:
        raise ValueError(f"its cells and runs are not between none and {MOST_RUNS:,}")
    cases = tuple(_case(cells, gate) for cells in by_case.values())
    keys = ((case.id, variant.provider, variant.prompt) for case in cases for variant in variants)
    numbers = {key: number for number, key in enumerate(keys)}
    if strange := runs.keys() - numbers.keys():
        raise ValueError(f"a cell is of no variant: {min(map(str, strange))}")
    only = {numbers[key] for key, planned in runs.items() if planned}
    matrix = Matrix(cases, variants, 1, only=only)
    if matrix.total > MOST_RUNS:
        raise ValueError(f"it has more than {MOST_RUNS:,} runs")
    return matrix, numbers


def _case(cells: Sequence[SavedCell], gate: Gate | None) -> Case:
    """What the cells of a case say of it; a bar that the gate does not explain is the case's own."""
    entry = cells[0]
    case = Case(
        id=entry.case,
        tags=entry.tags,
        runs=max(cell.planned for cell in cells) or None,
        critical=any(cell.critical for cell in cells),
        file=entry.file,
        line=entry.line,
    )
    bar = bar_of(case, Variant(entry.provider, entry.prompt), gate)
    return case if bar == entry.bar else structs.replace(case, min_pass_rate=entry.bar)


def _comparison(document: Document) -> Comparison | NoComparison | None:
    entry = document.comparison
    if entry is None:
        return None
    if entry.missing is not None or entry.alpha is None:
        return NoComparison(entry.missing or "no baseline")
    if not entry.baseline:
        raise ValueError("its comparison is with no report")
    cells = (*_cell_comparisons(document.cells), *entry.removed)
    return Comparison(
        baseline=Baseline(
            suite=document.suite.name,
            name=entry.name or "the baseline",
            reports=entry.baseline,
            cells=_base_cells(document, entry, cells),
            trend=document.history.trend,
        ),
        confirm_runs=entry.confirm_runs,
        usual_runs=usual(
            cell.evidence.graded for cell in document.cells if cell.comparison and cell.comparison.p is not None
        ),
        alpha=entry.alpha,
        variants=entry.variants,
        cells=cells,
    )


def _base_cells(
    document: Document, entry: SavedComparison, cells: Iterable[CellComparison]
) -> Mapping[CellKey, BaseCell]:
    """The baseline's cells, as far as the report tells: their names, and the runs that it carries or has pooled."""
    base = {(each.provider, each.prompt): (each.base_provider, each.base_prompt) for each in entry.variants}
    carrying = {cell.key: cell for cell in document.cells if cell.history}

    def base_cell(cell: CellComparison) -> BaseCell:
        if (saved := carrying.get(cell.key)) is None:
            return BaseCell(None, History((Evidence(entry.baseline[0].id, *cell.base),)))
        reports = document.history.reports
        evidence = (Evidence(reports[place].id, passed, graded) for place, passed, graded in saved.history)
        return BaseCell(saved.fingerprint, History(tuple(evidence)))

    return {cell.base_key(base): base_cell(cell) for cell in cells if cell.kind != "new"}


def _cell_comparisons(cells: Iterable[SavedCell]) -> Iterator[CellComparison]:
    for cell in cells:
        if (found := cell.comparison) is not None:
            yield CellComparison(
                case=cell.case,
                provider=cell.provider,
                prompt=cell.prompt,
                kind=found.kind,
                head=found.head,
                base=found.base,
                base_reports=found.base_reports,
                p=found.p,
                adjusted_p=found.adjusted_p,
                renamed_from=found.renamed_from,
                critical=cell.critical,
            )
