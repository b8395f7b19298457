"""Reports of schema version 1, which stored the baseline's cells with their own."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import AfterValidator

from ci_evals.gate.baseline import (
    UNMEASURED,
    BaseCell,
    Baseline,
    Evidence,
    History,
    LostReport,
    ReportRef,
    TrendPoint,
    TrendVariant,
)
from ci_evals.gate.compare import NoComparison
from ci_evals.gate.outages import find_lost_reports
from ci_evals.model.case import Case, Variant
from ci_evals.model.fields import Share
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Tally
from ci_evals.model.rules import ConfirmRuns, Gate
from ci_evals.reports.report_json import (
    Averages,
    BaseCellEntry,
    BaseEntry,
    RunsOfReport,
    check_runs,
)
from ci_evals.reports.saved import ContradictionError, Measured, SavedCell, SavedReport, restore
from ci_evals.reports.view import bar_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CellComparison1:
    """A cell of the baseline, stored with the cell that was compared with it."""

    case: str
    provider: str
    prompt: str | None = None
    kind: str
    base: Annotated[Tally, AfterValidator(check_runs)]
    renamed_from: str | None = None
    base_fingerprint: str = ""
    base_per_run: Averages = UNMEASURED
    base_quarantined: bool = False
    base_bar: Share | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantComparison1:
    """The names of a variant here and on the baseline."""

    provider: str
    prompt: str | None = None
    base_provider: str
    base_prompt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison1:
    """The baseline, but for the cells that both sides have."""

    name: str
    baseline: tuple[ReportRef, ...]
    lost: tuple[LostReport, ...] = ()
    confirm_runs: ConfirmRuns
    variants: tuple[VariantComparison1, ...]
    removed: tuple[CellComparison1, ...]
    base_gate: Gate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell1(SavedCell):
    """A cell; its `history` are the runs of earlier reports that may be pooled."""

    bar: Share
    history: tuple[RunsOfReport, ...]
    comparison: CellComparison1 | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint1:
    """One report of the base branch, whose variants all had the same `cases`."""

    report: ReportRef
    cases: str
    variants: tuple[TrendVariant, ...]

    @property
    def point(self) -> TrendPoint:
        """The point as it is read today."""
        variants = [replace(variant, cases=self.cases) for variant in self.variants]
        return TrendPoint(self.report, tuple(variants))


@dataclass(frozen=True, slots=True, kw_only=True)
class Document1(Measured):
    """The fields read from a report.json of schema version 1."""

    schema_version: Literal[1]
    id: str
    cells: tuple[Cell1, ...]
    comparison: Comparison1 | NoComparison | None
    trend: tuple[TrendPoint1, ...]


def restore_schema_1(document: Document1) -> SavedReport:
    """Return the report of a document of schema version 1.

    Raises:
        ContradictionError: see `restore`.
    """
    cells = tuple(_with_plan_and_bar(document))
    base = document.comparison
    if isinstance(base, Comparison1):
        return restore(replace(document, cells=cells), _base(document, base))
    if base is not None:  # version 1 has the whole sentence
        base = NoComparison(base.reason.removeprefix("no baseline: "))
    return restore(replace(document, cells=cells), base)


def _with_plan_and_bar(document: Document1) -> Iterator[Cell1]:
    """Yield the cells with their confirm runs, and with the bar of the case if it has its own."""
    runs: dict[CellKey, int] = {}
    for result in document.results:
        key = result.case, result.provider, result.prompt
        runs[key] = max(result.run, runs.get(key, 0))
    for cell in document.cells:
        case = Case(id=cell.case, tags=cell.tags)
        own_bar = None
        if cell.bar != bar_of(case, Variant(cell.provider, cell.prompt), document.gate):
            own_bar = cell.bar
        confirm_runs = max(0, runs.get(cell.key, 0) - cell.planned)
        yield replace(cell, confirm_runs=confirm_runs, min_pass_rate=own_bar)


def _base(document: Document1, comparison: Comparison1) -> BaseEntry:
    if not comparison.baseline:
        raise ContradictionError("it was compared with no report")
    old_names = {
        (each.provider, each.prompt): (each.base_provider, each.base_prompt)
        for each in comparison.variants
    }
    newest = comparison.baseline[0].id
    found: dict[CellKey, CellComparison1] = {}
    histories: dict[CellKey, tuple[Evidence, ...]] = {}
    for cell in document.cells:
        compared = cell.comparison
        if compared is None or compared.kind == "new":
            continue
        variant = cell.provider, cell.prompt
        key = compared.renamed_from or cell.case, *old_names.get(variant, variant)
        found[key] = compared
        if cell.history and cell.fingerprint == compared.base_fingerprint:
            histories[key] = cell.history
    for compared in comparison.removed:
        found[compared.case, compared.provider, compared.prompt] = compared
    for key, compared in found.items():
        histories.setdefault(key, (Evidence(newest, *compared.base),))
    reports = {lost.report.id: lost.report for lost in comparison.lost}
    reports.update((report.id, report) for report in comparison.baseline)
    marked = find_lost_reports(
        Baseline(
            suite=document.suite.name,
            reports=tuple(reports.values()),
            cells={key: BaseCell("", History(histories[key])) for key in found},
        )
    )
    cells = [
        BaseCellEntry(
            case=key[0],
            provider=key[1],
            prompt=key[2],
            fingerprint=compared.base_fingerprint,
            history=histories[key],
            outages=tuple(marked.cells[key].history.lost),
            per_run=compared.base_per_run,
            quarantined=compared.base_quarantined,
            bar=compared.base_bar,
            answer=compared.before,
        )
        for key, compared in found.items()
    ]
    return BaseEntry(
        name=comparison.name,
        reports=comparison.baseline,
        lost=comparison.lost,
        broken=marked.broken,
        gate=comparison.base_gate,
        confirm_runs=comparison.confirm_runs,
        trend=tuple(each.point for each in document.trend if each.report.id != document.id),
        cells=tuple(cells),
    )
