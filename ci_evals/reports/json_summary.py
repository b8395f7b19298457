"""report.json read back into what it was made of, so that any format can be made from it later, elsewhere."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import structs

from ci_evals.columns import Columns
from ci_evals.matrix import CellKey, Matrix
from ci_evals.model import Case, Result, Variant
from ci_evals.report import CellReport, Counts, Report, Resumption
from ci_evals.reports.findings import bar_of
from ci_evals.reports.json_entries import CellComparisonEntry, CellEntry, ResumptionEntry, VariantComparisonEntry
from ci_evals.reports.json_report import ReportFacts, SavedCellEntry
from ci_evals.reports.summary import Summary
from ci_evals.rules import Gate
from ci_evals.verdict.comparison import Comparison, NoComparison, VariantComparison, usual
from ci_evals.verdict.history import BaseCell, Baseline, Evidence
from ci_evals.verdict.pairing import CellComparison

MOST_RUNS: Final = 2_000_000
"""No more planned runs than this are believed: a few digits must not take all memory."""

_DECODER: Final = msgspec.json.Decoder(Result)


class _File(ReportFacts, frozen=True, kw_only=True):
    """report.json with its results as they are written."""

    results: tuple[msgspec.Raw, ...]


class _Line(NamedTuple):
    """A run of a cell, decoded and as it is written."""

    cell: int
    result: Result
    raw: msgspec.Raw


def read(content: bytes) -> Summary:
    """The summary that a report.json was made from. Of its cases it has what a report shows, and not what was asked.

    Raises:
        ValueError: it is no report.json of this version, or contradicts itself; so does every other content, be it
            made by an enemy.
    """
    try:
        document = msgspec.json.decode(content, type=_File)
        _check(document)
        report = _report(document)
    except (msgspec.DecodeError, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from error
    return Summary(
        report,
        document.verdict,
        document.gate,
        _comparison(document),
        {
            _key(cell): found.before
            for cell in document.cells
            if (found := cell.comparison) and found.before is not None
        },
    )


def _key(cell: CellEntry) -> CellKey:
    return cell.case, cell.provider, cell.prompt


def _check(document: _File) -> None:
    """Refuse numbers that no report has, and that mathematics and layout would stumble over."""
    tallies = [tally for cell in document.cells for tally in (cell.evidence, cell.confirming)]
    chances: list[float | None] = [cell.bar for cell in document.cells]
    compared: list[CellComparisonEntry | CellComparison] = [
        cell.comparison for cell in document.cells if cell.comparison
    ]
    compared += document.comparison.removed if document.comparison else ()
    for found in compared:
        tallies += found.head, found.base
        chances += found.p, found.adjusted_p
    variants = document.comparison.variants if document.comparison else ()
    for each in variants:
        chances += each.p, each.adjusted_p, each.head_rate, each.base_rate
    for point in document.history.trend:
        chances += [variant.pass_rate for variant in point.variants]
    for scope in document.verdict.scopes:
        chances += scope.bar, scope.rate, scope.lower, scope.upper
    if any(not 0 <= tally.passed <= tally.graded <= MOST_RUNS for tally in tallies):
        raise ValueError("a count of runs makes no sense")
    if any(chance is not None and not 0 <= chance <= 1 for chance in chances):
        raise ValueError("a fraction is not between 0 and 1")
    if document.comparison and document.comparison.alpha is not None and not 0 < document.comparison.alpha < 0.5:
        raise ValueError("the accepted chance of a false alarm makes no sense")


def _report(document: _File) -> Report:
    matrix, numbers = _matrix(document)
    planned: dict[int, _Line] = {}
    further: dict[int, list[_Line]] = defaultdict(list)
    for raw in document.results:
        result = _DECODER.decode(raw)
        cell = numbers.get((result.case, result.provider, result.prompt))
        if cell is None or not 1 <= result.run <= MOST_RUNS:
            raise ValueError(f"run {result.run} of {result.case!r} is of no cell of the report")
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
        resumption=_resumption(document.resumption),
        looks=document.looks,
        settled=document.settled,
        confirmation=_confirmation(document, matrix, further) if further else None,
    )


def _resumption(entry: ResumptionEntry | None) -> Resumption | None:
    """What the report took over."""
    if entry is None:
        return None
    return Resumption(kept=entry.kept, retried=entry.retried, changed=entry.changed, torn=entry.torn)


def _confirmation(document: _File, after: Matrix, further: Mapping[int, Sequence[_Line]]) -> Report:
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


def _filled(document: _File, matrix: Matrix, lines: Mapping[int, _Line], **more: Any) -> Report:
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


def _fingerprints(document: _File) -> Sequence[str]:
    """Of each row of the matrix."""
    return list({cell.case: cell.fingerprint for cell in document.cells}.values())


def _matrix(document: _File) -> tuple[Matrix, Mapping[CellKey, int]]:
    """The plan, and which number each cell has in it."""
    variants = tuple(dict.fromkeys(Variant(entry.provider, entry.prompt) for entry in document.variants))
    runs = {_key(cell): cell.planned for cell in document.cells}
    by_case: dict[str, list[SavedCellEntry]] = defaultdict(list)
    for cell in document.cells:
        by_case[cell.case].append(cell)
    if len(by_case) * len(variants) > MOST_RUNS or sum(runs.values()) > MOST_RUNS or min(runs.values(), default=0) < 0:
        raise ValueError(f"its cells and runs are not between none and {MOST_RUNS:,}")
    cases = tuple(_case(cells, document.gate) for cells in by_case.values())
    keys = ((case.id, variant.provider, variant.prompt) for case in cases for variant in variants)
    numbers = {key: number for number, key in enumerate(keys)}
    if strange := runs.keys() - numbers.keys():
        raise ValueError(f"a cell is of no variant: {min(map(str, strange))}")
    only = {numbers[key] for key, planned in runs.items() if planned}
    matrix = Matrix(cases, variants, 1, only=only)
    if matrix.total > MOST_RUNS:
        raise ValueError(f"it has more than {MOST_RUNS:,} runs")
    return matrix, numbers


def _case(cells: Sequence[SavedCellEntry], gate: Gate | None) -> Case:
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
    cell = CellReport(0, case, Variant(entry.provider, entry.prompt), Counts(0, 0, 0, 0))
    return case if bar_of(cell, gate) == entry.bar else structs.replace(case, min_pass_rate=entry.bar)


def _comparison(document: _File) -> Comparison | NoComparison | None:
    entry = document.comparison
    if entry is None:
        return None
    if entry.missing is not None or entry.alpha is None:
        return NoComparison(entry.missing or "no baseline")
    if not entry.baseline:
        raise ValueError("its comparison is with no report")
    variants = tuple(_variant_comparison(each) for each in entry.variants)
    cells = (*_cell_comparisons(document.cells), *entry.removed)
    return Comparison(
        baseline=Baseline(
            suite=document.suite.name,
            name=entry.name or "the baseline",
            reports=entry.baseline,
            cells=_base_cells(cells, variants, entry.baseline[0].id),
            trend=document.history.trend,
        ),
        confirm_runs=entry.confirm_runs,
        usual_runs=usual(
            cell.evidence.graded for cell in document.cells if cell.comparison and cell.comparison.p is not None
        ),
        alpha=entry.alpha,
        variants=variants,
        cells=cells,
    )


def _base_cells(
    cells: Iterable[CellComparison], variants: Iterable[VariantComparison], report: str
) -> Mapping[CellKey, BaseCell]:
    """The baseline's cells, as far as the comparison tells: their names, and their runs as those of one report."""
    base = {(each.provider, each.prompt): (each.base_provider, each.base_prompt) for each in variants}
    return {
        (cell.renamed_from or cell.case, *base.get(cell.key[1:], cell.key[1:])): BaseCell(
            None, (Evidence(report, *cell.base),)
        )
        for cell in cells
        if cell.kind != "new"
    }


def _variant_comparison(entry: VariantComparisonEntry) -> VariantComparison:
    fields = VariantComparison.__struct_fields__
    return VariantComparison(**{name: getattr(entry, name) for name in fields})


def _cell_comparisons(cells: Iterable[SavedCellEntry]) -> Iterator[CellComparison]:
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
