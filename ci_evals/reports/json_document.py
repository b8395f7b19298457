"""report.json as it is read back: what is needed of it, decoded and checked, whoever wrote it."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from ci_evals.matrix import CellKey
from ci_evals.model import Result, Variant
from ci_evals.report import Looks, Resumption, SuiteInfo
from ci_evals.reports.comparison_entries import CellComparisonEntry, HistoryEntry
from ci_evals.verdict.comparison import VariantComparison
from ci_evals.verdict.gate import Verdict
from ci_evals.verdict.history import NO_RUNS, ReportRef, Tally
from ci_evals.verdict.pairing import CellComparison

MOST_RUNS: Final = 2_000_000
"""No more planned runs than this are believed: a few digits must not take all memory."""

_YEAR_10000_S: Final = 253_402_300_800
_MOST_AMOUNT: Final = 1e12  # seconds, USD or score of one run: sums of such amounts stay numbers


class SavedCell(Struct, frozen=True):
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
    evidence: Tally = NO_RUNS
    confirming: Tally = NO_RUNS
    history: tuple[tuple[int, int, int], ...] = ()
    comparison: CellComparisonEntry | None = None

    @property
    def key(self) -> CellKey:
        return self.case, self.provider, self.prompt


class SavedComparison(Struct, frozen=True):
    missing: str | None
    name: str | None
    baseline: tuple[ReportRef, ...]
    confirm_runs: int
    alpha: float | None
    variants: tuple[VariantComparison, ...]
    removed: tuple[CellComparison, ...]


class Document(Struct, frozen=True):
    """What a report.json was made of; what version 1 does not have may be left out. See `ReportDocument`."""

    schema_version: Literal[1, 2]
    suite: SuiteInfo
    started_at: float
    duration_s: float
    interrupted: str | None
    verdict: Verdict
    gate: Mapping[str, Any] | None
    variants: tuple[Variant, ...]
    cells: tuple[SavedCell, ...]
    results: tuple[msgspec.Raw, ...]
    resumption: Resumption | None = None
    looks: Looks | None = None
    settled: Literal["pass", "borderline", "fail"] | None = None
    comparison: SavedComparison | None = None
    history: HistoryEntry = HistoryEntry((), ())


def decoded(content: bytes, oldest: int) -> Document:
    """What is needed of a report.json.

    Raises:
        ValueError: it is none, of a version before the `oldest` or after this one, or has numbers that no report has.
    """
    document = msgspec.json.decode(content, type=Document)
    if document.schema_version < oldest:
        raise ValueError(f"it is of schema version {document.schema_version}")
    _check_course(document)
    _check(document)
    _check_history(document)
    return document


def check_amounts(result: Result) -> None:
    """Refuse amounts that no run has, and that cannot be summed up.

    Raises:
        ValueError: there is one.
    """
    judging_usd = result.judging.cost_usd if result.judging else None
    amounts = (result.latency_s, result.cost_usd, result.score, judging_usd, *(grade.score for grade in result.grades))
    if any(amount is not None and abs(amount) > _MOST_AMOUNT for amount in amounts):
        raise ValueError(f"run {result.run} of {result.case!r} has a latency, cost or score that makes no sense")


def _check_course(document: Document) -> None:
    """Refuse a time that no calendar has, and looks that were not agreed on."""
    if not 0 <= document.started_at < _YEAR_10000_S:
        raise ValueError("it was started at no time that a calendar has")
    looks = document.looks
    if looks is not None and not (looks.rounds and 0 <= looks.taken <= len(looks.rounds)):
        raise ValueError("more looks were taken than agreed on, or none was agreed on")


def _check(document: Document) -> None:
    """Refuse numbers that no report has, and that mathematics and layout would stumble over."""
    tallies = [tally for cell in document.cells for tally in (cell.evidence, cell.confirming)]
    tallies += [Tally(passed, graded) for cell in document.cells for _, passed, graded in cell.history]
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
    if any(found.p is not None and not (found.head.graded and found.base.graded) for found in compared):
        raise ValueError("a cell was tested without graded runs on both sides")
    if any(chance is not None and not 0 <= chance <= 1 for chance in chances):
        raise ValueError("a fraction is not between 0 and 1")
    if document.comparison and document.comparison.alpha is not None and not 0 < document.comparison.alpha < 0.5:
        raise ValueError("the accepted chance of a false alarm makes no sense")


def _check_history(document: Document) -> None:
    """Refuse counts of reports that the history does not have, and a history that is not of the baseline's reports."""
    reports, comparison = document.history.reports, document.comparison
    earlier = range(len(reports))
    if any(place not in earlier for cell in document.cells for place, _, _ in cell.history):
        raise ValueError("a cell's history names a report that `history.reports` does not have")
    known = {ref.id for ref in comparison.baseline} if comparison else set()
    if strange := {ref.id for ref in reports} - known:
        raise ValueError(f"its history has a report that it was not compared with: {min(strange)!r}")
