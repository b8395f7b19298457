"""Outages: planned runs of a report that failed as one, and base reports that collapsed."""

from collections import defaultdict
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import NamedTuple

from ci_evals.gate.baseline import (
    NO_RUNS,
    BaseCell,
    Baseline,
    BrokenVariant,
    LostReport,
    ReportedCell,
    ReportRef,
    add_tallies,
    group_by_variant,
)
from ci_evals.gate.cells import MatchedCell, match_cells
from ci_evals.gate.falls import fall, planned_fall
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.stats.exact_tests import stratified_lower
from ci_evals.stats.thresholds import (
    BROKEN_BASE_REPORTS,
    COLLAPSED_REPORT_P,
    FAILED_ROUND_P,
    MIN_UNANSWERED_SHARE,
    PASSLESS_REPORT_P,
)

NO_DROP = 0.01
"""Repeats with a higher p show no drop."""
RECOVERY = 0.05
"""Repeats are better than the planned runs of the same cells with a p at or below this."""


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


class Outage(NamedTuple):
    """Planned runs that failed as one, and the repeats of the `cells` that were run again."""

    cells: int
    planned: Tally
    repeated: Tally


def find_outages(
    head: Sequence[ReportedCell], base: Baseline, alpha: float
) -> Mapping[Variant, Outage]:
    """Find the variants that look worse because of an outage while their planned runs were made.

    Half of their cells are suspects, the repeats of these show no drop, and are better than the
    planned runs.

    Args:
        head: the cells of the report, with their confirm runs.
        base: the baseline.
        alpha: the gate's level: what would not be red needs no outage to explain it.
    """
    found = {}
    matching = match_cells(head, base)
    for variant, cells in matching.by_variant.items():
        suspicious = [cell for cell in cells if cell.suspicious]
        repeated = [cell for cell in suspicious if cell.head.confirmed]
        if 2 * len(suspicious) < len(cells) or not repeated:
            continue
        planned = planned_fall(cells, matching.overdispersion(variant))
        worse = planned.decisive_p <= alpha
        if worse and _has_recovered(repeated):
            found[variant] = Outage(
                cells=len(repeated),
                planned=add_tallies(cell.head.planned for cell in repeated),
                repeated=add_tallies(cell.head.confirming for cell in repeated),
            )
    return found


def _has_recovered(cells: Sequence[MatchedCell]) -> bool:
    """Return True if repeats show no drop from the base, and are better than the planned runs.

    Suspects have the best histories of all cells, so the newest report by itself has its say here,
    too.
    """
    drop = fall([(cell.head.confirming, cell.base.history) for cell in cells])
    if drop.decisive_p <= NO_DROP:
        return False
    tables = [(*cell.head.planned, *cell.head.confirming) for cell in cells]
    return stratified_lower(tables) <= RECOVERY


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

    They count for nothing. Such a report has no passed run, or fewer than half of those that its
    history lets expect. Where the newest one and the one before it are like that, the base branch
    itself is broken, and nothing can be compared with the variant.
    """
    ids = [ref.id for ref in base.reports]
    passed_somewhere = {
        each.report for cell in base.cells.values() for each in cell.history.evidence if each.passed
    }
    marked: dict[CellKey, BaseCell] = {}
    newest_lost: list[LostReport] = []
    broken: list[BrokenVariant] = []
    for variant, chosen in base.by_variant.items():
        lost, newest = _lost_reports(ids, list(chosen.values()), passed_somewhere)
        if not lost:
            continue
        for key, cell in chosen.items():
            marked[key] = replace(cell, history=replace(cell.history, lost=lost))
        found = [
            LostReport(
                report=ref,
                provider=variant.provider,
                prompt=variant.prompt,
                runs=_runs_in(ref, chosen.values()),
            )
            for ref in base.reports
            if ref.id in newest
        ]
        newest_lost += found
        if len(found) >= BROKEN_BASE_REPORTS:
            broken.append(
                BrokenVariant(
                    provider=variant.provider,
                    prompt=variant.prompt,
                    since=found[-1].report,
                    runs=add_tallies(each.runs for each in found),
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


class _LostIds(NamedTuple):
    """The ids of the reports of one variant that do not count.

    `newest` are those of them that are newer than all that count.
    """

    lost: frozenset[str] = frozenset()
    newest: frozenset[str] = frozenset()


def _lost_reports(
    ids: Sequence[str], cells: Sequence[BaseCell], passed_somewhere: Container[str]
) -> _LostIds:
    """Return the reports of one variant that do not count."""
    by_report: dict[str, dict[int, Tally]] = defaultdict(dict)
    for cell, base in enumerate(cells):
        for each in base.history.evidence:
            if each.graded:
                by_report[each.report][cell] = each.tally
    totals = {id_: add_tallies(runs.values()) for id_, runs in by_report.items()}
    if all(2 * total.passed >= total.graded for total in totals.values()):
        return _LostIds()  # the usual case, at no cost
    lost: set[str] = set()
    newest: set[str] = set()
    history: dict[int, Tally] = defaultdict(lambda: NO_RUNS)
    for id_ in reversed(ids):  # the oldest first
        if id_ not in by_report:
            continue
        if has_collapsed(by_report[id_], history, known_to_pass=id_ in passed_somewhere):
            lost.add(id_)
            newest.add(id_)
        else:
            newest.clear()
            for cell, tally in by_report[id_].items():
                history[cell] = add_tallies((history[cell], tally))
    return _LostIds(frozenset(lost), frozenset(newest))


def has_collapsed(
    runs: Mapping[int, Tally], history: Mapping[int, Tally], *, known_to_pass: bool
) -> bool:
    """Return True if a report looks like an outage compared with older ones of the same cells.

    Without any that let expect passes, it does if nothing of any variant passed.
    """
    tables = []
    for cell, tally in runs.items():
        older = history.get(cell, NO_RUNS)
        if older.graded:
            tables.append((*tally, *older))
    expected = fsum(runs * passed / graded for _, runs, passed, graded in tables)
    passed = sum(table[0] for table in tables)
    if 2 * passed >= expected:
        return not known_to_pass and expected == 0
    level = PASSLESS_REPORT_P
    if any(tally.passed for tally in runs.values()):
        level = COLLAPSED_REPORT_P
    return stratified_lower(tables) < level


def _runs_in(report: ReportRef, cells: Collection[BaseCell]) -> Tally:
    """Return all graded runs of some cells in one report."""
    found = []
    for cell in cells:
        found += [each.tally for each in cell.history.evidence if each.report == report.id]
    return add_tallies(found)
