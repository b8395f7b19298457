"""report.json: everything that is known of a run, for machines; the format that baselines are read from."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ci_evals.model import Result
from ci_evals.report import Looks, Report, SuiteInfo
from ci_evals.reports.comparison_entries import ComparisonEntry, HistoryEntry, comparison_entry, history_entry
from ci_evals.reports.findings import judged_cells
from ci_evals.reports.json_entries import (
    SCHEMA_VERSION,
    CellEntry,
    ResumptionEntry,
    TotalsEntry,
    VariantEntry,
    cell_fields,
    resumption_entry,
    totals_entry,
    variant_entries,
)
from ci_evals.reports.json_text import encode
from ci_evals.reports.summary import Summary
from ci_evals.rules import Gate
from ci_evals.schema_text import schema_text
from ci_evals.verdict.gate import Verdict
from ci_evals.verdict.head import stream_head_cells, trend_point
from ci_evals.verdict.history import PerRun, Tally, TrendPoint, carried

REPORT = "report.json"
CHUNK_BYTES = 64 * 1024


class SavedCellEntry(CellEntry, frozen=True, kw_only=True):
    """A cell with what later reports compare themselves with.

    `fingerprint` identifies what the case asks and how it is judged. `evidence` are its passed and graded runs without
    those that repeat a record, `confirming` the further ones that it got as a suspect, `confirmed` whether these are
    all there, `history` the counts of earlier reports: the place of the report in `history.reports`, passed, graded.
    """

    fingerprint: str
    critical: bool
    evidence: Tally
    confirming: Tally
    confirmed: bool
    per_run: PerRun
    history: tuple[tuple[int, int, int], ...]


class ReportDocument(Struct, frozen=True, kw_only=True):
    """report.json as a whole. `results` are the lines of the journal in plan order, those of confirm runs last.

    `looks` says after which rounds it could have ended, `settled` the verdict that the runs which were left out could
    not have changed. `history` is what the baseline handed on, `trend_point` what this report adds to it.
    """

    schema_version: Literal[2]
    id: str
    suite: SuiteInfo
    started_at: float
    duration_s: float
    interrupted: str | None
    resumption: ResumptionEntry | None
    looks: Looks | None
    settled: Literal["pass", "borderline", "fail"] | None
    verdict: Verdict
    gate: Gate | None
    comparison: ComparisonEntry | None
    trend_point: TrendPoint
    history: HistoryEntry
    totals: TotalsEntry
    variants: tuple[VariantEntry, ...]
    cells: tuple[SavedCellEntry, ...]
    results: tuple[Result, ...]


def render(summary: Summary) -> Iterator[bytes]:
    """report.json, one cell and one result to the line; results are copied from the journal as they are.

    Cells and results, the last two fields, are written while they are made: nothing is held of them.
    """
    found = _facts(summary)
    *facts, cells, results = ReportDocument.__struct_fields__
    yield b"{" + b",\n".join(_member(name, getattr(found, name)) for name in facts)
    for name, lines in ((cells, _cell_lines(summary)), (results, _result_lines(summary.report))):
        yield b",\n" + encode(name) + b": [\n"
        yield from _chunks(lines)
        yield b"\n]"
    yield b"}\n"


def schema() -> bytes:
    """The JSON Schema of report.json."""
    return schema_text(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "ci-evals report, schema version 2",
            **msgspec.json.schema(ReportDocument),
        }
    )


def _facts(summary: Summary) -> ReportDocument:
    """All but the cells and the results."""
    report = summary.report
    return ReportDocument(
        schema_version=SCHEMA_VERSION,
        id=report.id,
        suite=report.suite,
        started_at=report.started_at,
        duration_s=report.duration_s,
        interrupted=report.interrupted,
        resumption=resumption_entry(report),
        looks=report.looks,
        settled=report.settled,
        verdict=summary.verdict,
        gate=summary.gate,
        comparison=comparison_entry(summary),
        trend_point=trend_point(report),
        history=history_entry(summary),
        totals=totals_entry(report),
        variants=variant_entries(summary),
        cells=(),
        results=(),
    )


def _member(name: str, value: Any) -> bytes:
    if isinstance(value, tuple):
        return encode(name) + b": [\n" + b",\n".join(map(encode, value)) + b"\n]"
    return encode(name) + b": " + encode(value)


def _cell_lines(summary: Summary) -> Iterator[bytes]:
    comparison = summary.compared
    places = {ref.id: place for place, ref in enumerate(history_entry(summary).reports)}
    heads = stream_head_cells(summary.report, summary.gate)
    for cell, head in zip(judged_cells(summary), heads, strict=True):
        handed_on = carried(comparison.base_of(head.key), head.fingerprint) if comparison else ()
        yield encode(
            SavedCellEntry(
                **cell_fields(summary, cell),
                fingerprint=head.fingerprint or "",
                critical=head.critical,
                evidence=head.planned,
                confirming=head.confirming,
                confirmed=head.confirmed,
                per_run=head.per_run,
                history=tuple(
                    (places[each.report], each.passed, each.graded) for each in handed_on if each.report in places
                ),
            )
        )


def _result_lines(report: Report) -> Iterator[bytes]:
    yield from report.lines()
    if report.confirmation is not None:
        yield from report.confirmation.lines()


def _chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines with commas between them, in chunks of about `CHUNK_BYTES`."""
    chunk: list[bytes] = []
    size = 0
    separator = b""
    for line in lines:
        chunk.append(line)
        size += len(line)
        if size >= CHUNK_BYTES:
            yield separator + b",\n".join(chunk)
            chunk, size, separator = [], 0, b",\n"
    if chunk:
        yield separator + b",\n".join(chunk)
