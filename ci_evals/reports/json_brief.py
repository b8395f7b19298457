"""What `--format json` prints: the verdict, and what a script needs to act on it."""

from typing import Literal

from msgspec import Struct

from ci_evals.report import SuiteInfo
from ci_evals.reports.comparison_entries import ComparisonEntry, comparison_entry
from ci_evals.reports.findings import JudgedCell, error_groups, reasons, results_of, troubled_cells
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
from ci_evals.reports.json_text import printed
from ci_evals.reports.summary import Summary
from ci_evals.verdict.gate import Verdict


class FailingEntry(CellEntry, frozen=True, kw_only=True):
    """A cell that did not simply pass, with the reasons of its runs, the most frequent first."""

    why: tuple[str, ...]


class ErrorEntry(Struct, frozen=True):
    """Errored runs of one variant with the same reason."""

    provider: str
    prompt: str | None
    runs: int
    message: str


class BriefDocument(Struct, frozen=True, kw_only=True):
    """What `--format json` prints: the verdict, and what a script needs to act on it."""

    schema_version: Literal[2]
    suite: SuiteInfo
    started_at: float
    duration_s: float
    interrupted: str | None
    resumption: ResumptionEntry | None
    verdict: Verdict
    comparison: ComparisonEntry | None
    totals: TotalsEntry
    variants: tuple[VariantEntry, ...]
    failing: tuple[FailingEntry, ...]
    errors: tuple[ErrorEntry, ...]


def render_json(summary: Summary) -> str:
    """One line of JSON for scripts that read stdout; see `BriefDocument`."""
    report = summary.report
    document = BriefDocument(
        schema_version=SCHEMA_VERSION,
        suite=report.suite,
        started_at=report.started_at,
        duration_s=report.duration_s,
        interrupted=report.interrupted,
        resumption=resumption_entry(report),
        verdict=summary.verdict,
        comparison=comparison_entry(summary),
        totals=totals_entry(report),
        variants=variant_entries(summary),
        failing=tuple(_failing(summary, cell) for cell in troubled_cells(summary)),
        errors=tuple(
            ErrorEntry(group.variant.provider, group.variant.prompt, group.runs, group.message)
            for group in error_groups(report)
        ),
    )
    return printed(document)


def _failing(summary: Summary, cell: JudgedCell) -> FailingEntry:
    status: Literal["failed", "errored"] = "errored" if cell.outcome == "errored" else "failed"
    results = results_of(summary.report, cell.cell, status)
    return FailingEntry(**cell_fields(summary, cell), why=tuple(reason for reason, _ in reasons(results)))
