"""Outages: a round of a report that failed as one, and reports of the base branch."""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from math import fsum
from typing import NamedTuple

from ci_evals.gate.baseline import (
    BaseCell,
    Baseline,
    BrokenVariant,
    LostReport,
    ReportedCell,
    ReportRef,
    add_tallies,
    group_by_variant,
)
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.stats.exact_tests import stratified_lower
from ci_evals.stats.thresholds import (
    BROKEN_BASE_REPORTS,
    FAILED_ROUND_P,
    MIN_UNANSWERED_SHARE,
    OUTAGE_REPORT_P,
    PASSLESS_REPORT_P,
)


class FailedRound(NamedTuple):
    """One run of every cell that failed as one, and all `others` of the same cells."""

    run: int
    inside: Tally
    others: Tally


def failed_rounds(report: SuiteReport) -> Mapping[Variant, FailedRound]:
    """Find the variants of which one round failed more than the other rounds of the same cells do.

    An outage strikes at one time, whatever the case; a change of the behaviour shows in every
    round. Of several such rounds the surest counts. No baseline is needed.
    """
    found = {}
    for variant in report.plan.variants:
        by_cell = []
        for cell in report.cells_of(variant):
            passed = {}
            for run, index in enumerate(report.plan.indices(cell), 1):
                record = report.records.get(index)
                if record and record.graded and not record.recorded:
                    passed[run] = record.status == "passed"
            by_cell.append(passed)
        worst = worst_round(by_cell)
        if worst is not None:
            found[variant] = worst
    return found


def worst_round(by_cell: Sequence[Mapping[int, bool]]) -> FailedRound | None:
    """Return the round that failed as one, if there is one.

    Args:
        by_cell: of each cell, whether each of its graded runs passed, by the number of the run.
    """
    rounds = sorted({run for passed in by_cell for run in passed})
    totals = [sum(passed.values()) for passed in by_cell]
    surest, least = None, 1.0
    for run in rounds:
        tables = []
        for passed, total in zip(by_cell, totals, strict=True):
            if run in passed:
                others = total - passed[run]
                tables.append((int(passed[run]), 1, others, len(passed) - 1))
        p = stratified_lower(tables)
        if p < least:
            inside = add_tallies(Tally(*table[:2]) for table in tables)
            outside = add_tallies(Tally(*table[2:]) for table in tables)
            surest, least = FailedRound(run, inside, outside), p
    if least * len(rounds) > FAILED_ROUND_P:
        return None
    return surest


def unanswered_runs(
    report: ReportRef, cells: Sequence[ReportedCell]
) -> Mapping[Variant, LostReport]:
    """Return the variants of a base report of which a quarter of the runs had no answer.

    Runs that failed without an answer then do not count as a baseline; fewer are failures, as they
    are on the side that is compared.
    """
    found = {}
    for variant, chosen in group_by_variant(cells).items():
        runs = add_tallies(cell.planned for cell in chosen)
        unanswered = sum(cell.unanswered for cell in chosen)
        if unanswered and unanswered >= MIN_UNANSWERED_SHARE * runs.graded:
            found[variant] = LostReport(
                report=report,
                provider=variant.provider,
                prompt=variant.prompt,
                runs=runs,
                unanswered=unanswered,
            )
    return found


def find_lost_reports(base: Baseline) -> Baseline:
    """Mark the reports of a baseline that look like an outage, variant by variant.

    They count for nothing. Such a report has no passed run, or is below all others together. Where
    the newest one and the one before it are like that, the base branch itself is broken, and
    nothing can be compared with the variant.
    """
    ids = [ref.id for ref in base.reports]
    passed_somewhere = {
        each.report for cell in base.cells.values() for each in cell.history.evidence if each.passed
    }
    marked: dict[CellKey, BaseCell] = {}
    newest_lost: list[LostReport] = []
    broken: list[BrokenVariant] = []
    for variant, chosen in base.by_variant.items():
        found = _find_outages_of_base(ids, list(chosen.values()), passed_somewhere)
        if not found.lost:
            continue
        for key, cell in chosen.items():
            marked[key] = replace(cell, history=replace(cell.history, lost=found.lost))
        newest = [
            LostReport(
                report=ref,
                provider=variant.provider,
                prompt=variant.prompt,
                runs=_runs_in(ref, chosen.values()),
            )
            for ref in base.reports
            if ref.id in found.newest
        ]
        newest_lost += newest
        if len(newest) >= BROKEN_BASE_REPORTS:
            broken.append(
                BrokenVariant(
                    provider=variant.provider,
                    prompt=variant.prompt,
                    since=newest[-1].report,
                    runs=add_tallies(each.runs for each in newest),
                )
            )
    if not marked:
        return base
    cells = {**base.cells, **marked}
    first = _newest_that_counts(ids, cells.values())
    return replace(
        base,
        cells=cells,
        reports=base.reports[first:],
        lost=(*base.lost, *newest_lost),
        broken=tuple(broken),
    )


def _newest_that_counts(ids: Sequence[str], cells: Collection[BaseCell]) -> int:
    """Return the number of the newest report that counts for a cell; the oldest if none does."""
    counting = set()
    for cell in cells:
        for each in cell.history.evidence:
            if each.graded and each.report not in cell.history.lost:
                counting.add(each.report)
    for number, id_ in enumerate(ids):
        if id_ in counting:
            return number
    return len(ids) - 1


RunsByCell = Mapping[int, Tally]
"""The graded runs of a variant's cells, by the number of the cell."""


class _OutagesOfBase(NamedTuple):
    """The reports of one variant that do not count, by their ids.

    Args:
        lost: all of them.
        newest: those that are newer than all that count.
    """

    lost: frozenset[str] = frozenset()
    newest: frozenset[str] = frozenset()


def _find_outages_of_base(
    ids: Sequence[str], cells: Sequence[BaseCell], passed_somewhere: Container[str]
) -> _OutagesOfBase:
    """Find the reports of one variant that do not count.

    The newest ones may be low because the base branch has fallen, which only later reports can
    tell from an outage: they count unless they have collapsed.

    Args:
        ids: the reports of all variants, newest first.
        cells: the cells of the variant.
        passed_somewhere: the reports in which any run of any variant passed.
    """
    by_report: dict[str, dict[int, Tally]] = defaultdict(dict)
    for number, cell in enumerate(cells):
        for each in cell.history.evidence:
            if each.graded:
                by_report[each.report][number] = each.tally
    known = [id_ for id_ in ids if id_ in by_report]
    lost = set()
    for id_ in known:
        others = [runs for other, runs in by_report.items() if other != id_]
        if is_outage(by_report[id_], others, known_to_pass=id_ in passed_somewhere):
            lost.add(id_)
    if not lost:
        return _OutagesOfBase()
    history = add_runs([runs for id_, runs in by_report.items() if id_ not in lost])
    for id_ in list(takewhile(lambda id_: id_ in lost, known)):
        if not has_collapsed(by_report[id_], history):
            lost.remove(id_)
    newest = takewhile(lambda id_: id_ in lost, known)
    return _OutagesOfBase(frozenset(lost), frozenset(newest))


def is_outage(runs: RunsByCell, others: Sequence[RunsByCell], *, known_to_pass: bool) -> bool:
    """Return True if a report looks like an outage beside all others of the same cells.

    Without any that let expect passes, it does if nothing of any variant passed.

    Args:
        runs: those of the report.
        others: those of each other report. A report without a pass is held against those that have
            some: against each other, all of them would look usual.
        known_to_pass: a run of another variant passed in the report.
    """
    level = OUTAGE_REPORT_P
    if not any(tally.passed for tally in runs.values()):
        level = PASSLESS_REPORT_P
        others = [each for each in others if any(tally.passed for tally in each.values())]
    history = add_runs(others)
    expected = _expected_passes(runs, history)
    if not expected:
        return level == PASSLESS_REPORT_P and not known_to_pass
    if _passes(runs, history) >= expected:
        return False  # the usual case, at no cost
    tables = [(*tally, *history[cell]) for cell, tally in runs.items() if cell in history]
    return stratified_lower(tables) < level


def has_collapsed(runs: RunsByCell, history: RunsByCell) -> bool:
    """Return True if fewer than half of the runs passed that others let expect."""
    expected = _expected_passes(runs, history)
    return not expected or 2 * _passes(runs, history) < expected


def _expected_passes(runs: RunsByCell, history: RunsByCell) -> float:
    """Return how many of the runs pass at the rates of the same cells elsewhere."""
    return fsum(
        tally.graded * history[cell].rate for cell, tally in runs.items() if cell in history
    )


def _passes(runs: RunsByCell, history: RunsByCell) -> int:
    """Return how many of the runs passed, of the cells that have others."""
    return sum(tally.passed for cell, tally in runs.items() if cell in history)


def add_runs(reports: Iterable[RunsByCell]) -> RunsByCell:
    """Return the graded runs of each cell in all reports together."""
    passed: dict[int, int] = defaultdict(int)
    graded: dict[int, int] = defaultdict(int)
    for report in reports:
        for cell, tally in report.items():
            passed[cell] += tally.passed
            graded[cell] += tally.graded
    return {cell: Tally(passed[cell], runs) for cell, runs in graded.items()}


def _runs_in(report: ReportRef, cells: Collection[BaseCell]) -> Tally:
    """Return all graded runs of some cells in one report."""
    found = []
    for cell in cells:
        found += [each.tally for each in cell.history.evidence if each.report == report.id]
    return add_tallies(found)
