"""report.json: everything that is known of a run, for machines; the format that baselines are read from."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ci_evals.model import Gate, Result
from ci_evals.report import SuiteInfo
from ci_evals.reports.findings import JudgedCell, judged_cells
from ci_evals.reports.json_entries import (
    SCHEMA_VERSION,
    CellEntry,
    ResumptionEntry,
    TotalsEntry,
    VariantEntry,
    cell_fields,
    encode,
    resumption_entry,
    totals_entry,
    variant_entries,
)
from ci_evals.reports.summary import Summary
from ci_evals.schema_text import schema_text
from ci_evals.verdict.gate import Verdict

CHUNK_BYTES = 256 * 1024


class ReportDocument(Struct, frozen=True, kw_only=True):
    """report.json as a whole. `results` are the lines of the journal in plan order."""

    schema_version: Literal[1]
    suite: SuiteInfo
    started_at: float
    duration_s: float
    interrupted: str | None
    resumption: ResumptionEntry | None
    verdict: Verdict
    gate: Gate | None
    totals: TotalsEntry
    variants: tuple[VariantEntry, ...]
    cells: tuple[CellEntry, ...]
    results: tuple[Result, ...]


def render(summary: Summary) -> Iterator[bytes]:
    """report.json, one cell and one result to the line; results are copied from the journal as they are.

    Cells and results, the last two fields, are written while they are made: nothing is held of them.
    """
    document = _document(summary)
    *facts, cells, results = ReportDocument.__struct_fields__
    yield b"{" + b",\n".join(_member(name, getattr(document, name)) for name in facts)
    for name, lines in ((cells, map(_cell_line, judged_cells(summary))), (results, summary.report.lines())):
        yield b",\n" + encode(name) + b": [\n"
        yield from _chunks(lines)
        yield b"\n]"
    yield b"}\n"


def schema() -> bytes:
    """The JSON Schema of report.json."""
    return schema_text(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "ci-evals report, schema version 1",
            **msgspec.json.schema(ReportDocument),
        }
    )


def _document(summary: Summary) -> ReportDocument:
    """The facts: all but the cells and the results."""
    report = summary.report
    return ReportDocument(
        schema_version=SCHEMA_VERSION,
        suite=report.suite,
        started_at=report.started_at,
        duration_s=report.duration_s,
        interrupted=report.interrupted,
        resumption=resumption_entry(report),
        verdict=summary.verdict,
        gate=summary.gate,
        totals=totals_entry(report),
        variants=variant_entries(summary),
        cells=(),
        results=(),
    )


def _member(name: str, value: Any) -> bytes:
    if isinstance(value, tuple):
        return encode(name) + b": [\n" + b",\n".join(map(encode, value)) + b"\n]"
    return encode(name) + b": " + encode(value)


def _cell_line(cell: JudgedCell) -> bytes:
    return encode(CellEntry(**cell_fields(cell)))


def _chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines with commas between them, in chunks of about `CHUNK_BYTES`."""
    chunk: list[bytes] = []
    size = 0
    separator = b""
    for line in lines:
        chunk.append(line.rstrip())
        size += len(line)
        if size >= CHUNK_BYTES:
            yield separator + b",\n".join(chunk)
            chunk, size, separator = [], 0, b",\n"
    if chunk:
        yield separator + b",\n".join(chunk)
