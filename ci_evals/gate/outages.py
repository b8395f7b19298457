"""Outages: a round, or all planned runs, of a report that failed as one; reports of the base branch
that collapsed.
"""

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from math import fsum
from typing import NamedTuple

from ci_evals.gate.baseline import (
    LARGEST_SUPPORT,
    NO_RUNS,
    Baseline,
    Evidence,
    HeadCell,
    LostReport,
    ReportRef,
)
from ci_evals.gate.compare import comparable_cells, fall, sum_of
from ci_evals.model.case import Variant
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.stats.exact_tests import stratified_lower

ROUND_FAILED = 0.001
"""A round failed as one where its p, times the number of rounds, is at or below this."""
NO_DROP = 0.01
"""Repeats with a higher p show no drop."""
RECOVERY = 0.05
"""Repeats are better than the planned runs of the same cells with a p at or below this."""
COLLAPSE = 1e-6
"""A report of the base branch with fewer than half of the passes of its history is an outage where
p is below this.
"""
NO_PASS = 0.001
"""The same of a report without a passed run, whose history has some."""
UNANSWERED_SHARE = Fraction(1, 4)
"""Where as many runs of the base branch failed without an answer, these do not count."""


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
    plan, found = report.plan, {}
    for variant in plan.variants:
        by_cell = []
        for cell in report.cells_of(variant):
            numbered = (
                (run, report.records.get(index)) for run, index in enumerate(plan.indices(cell), 1)
            )
            fresh = (
                (run, record)
                for run, record in numbered
                if record and record.graded and not record.recorded
            )
            by_cell.append({run: record.status == "passed" for run, record in fresh})
        if (worst := worst_round(by_cell)) is not None:
            found[variant] = worst
    return found


def worst_round(by_cell: Sequence[Mapping[int, bool]]) -> FailedRound | None:
    """Return the round that failed as one, if there is one.

    Args:
        by_cell: of each cell, whether each of its graded runs passed, by the number of the run.
    """
    rounds = sorted({run for passed in by_cell for run in passed})
    surest, least = None, 1.0
    for run in rounds:
        cells = [passed for passed in by_cell if run in passed]
        inside = [Tally(int(passed[run]), 1) for passed in cells]
        others = [Tally(sum(passed.values()) - passed[run], len(passed) - 1) for passed in cells]
        tables = ((*own, *other) for own, other in zip(inside, others, strict=True))
        if (p := stratified_lower(tables, largest_support=LARGEST_SUPPORT)) < least:
            surest, least = FailedRound(run, sum_of(inside), sum_of(others)), p
    return surest if least * len(rounds) <= ROUND_FAILED else None


class Outage(NamedTuple):
    """Planned runs that failed as one, and the repeats of those of the `cells` that were run
    again.
    """

    cells: int
    planned: Tally
    repeated: Tally


def outages(head: Sequence[HeadCell], base: Baseline, alpha: float) -> Mapping[Variant, Outage]:
    """Find the variants that look worse because of an outage while their planned runs were made.

    Half of their cells are suspects, the repeats of these show no drop, and are better than the
    planned runs.

    Args:
        head: the cells of the report, with their confirm runs.
        base: the baseline.
        alpha: the gate's level: what would not be red needs no outage to explain it.
    """
    matched = comparable_cells(head, base)
    found = {}
    for variant in dict.fromkeys(cell.head.variant for cell in matched):
        cells = [cell for cell in matched if cell.head.variant == variant]
        suspicious = [cell for cell in cells if cell.suspicious]
        repeated = [cell for cell in suspicious if cell.head.confirmed]
        if 2 * len(suspicious) < len(cells) or not repeated:
            continue
        worse = fall([(cell.head.planned, cell.base.history) for cell in cells]).p <= alpha
        # Suspects have the best histories of all cells, so the newest report by itself has its say
        # here, too.
        dropped = (
            fall([(cell.head.confirming, cell.base.history) for cell in repeated]).p <= NO_DROP
        )
        recovered = (
            stratified_lower((*cell.head.planned, *cell.head.confirming) for cell in repeated)
            <= RECOVERY
        )
        if worse and recovered and not dropped:
            planned, confirming = (
                (cell.head.planned for cell in repeated),
                (cell.head.confirming for cell in repeated),
            )
            found[variant] = Outage(len(repeated), sum_of(planned), sum_of(confirming))
    return found


def unanswered_runs(report: ReportRef, cells: Sequence[HeadCell]) -> Mapping[Variant, LostReport]:
    """Return the variants of which a quarter of the runs failed without an answer, in a report of
    the base branch.

    These runs do not count as a baseline; fewer are failures, as they are on the side that is
    compared.
    """
    found = {}
    for variant in dict.fromkeys(cell.variant for cell in cells):
        mine = [cell for cell in cells if cell.variant == variant]
        runs, unanswered = (
            sum_of(cell.planned for cell in mine),
            sum(cell.unanswered for cell in mine),
        )
        if unanswered and unanswered >= UNANSWERED_SHARE * runs.graded:
            found[variant] = LostReport(
                report=report,
                provider=variant.provider,
                prompt=variant.prompt,
                runs=runs,
                unanswered=unanswered,
            )
    return found


def find_lost_reports(base: Baseline) -> Baseline:
    """Mark the reports of a baseline that look like an outage, variant by variant: they count for
    nothing.

    Such a report has no passed run, or fewer than half of those that its history lets expect. Where
    the report before it is like that, too, and either has passes, both count: the base branch is
    like that now.
    """
    ids = [ref.id for ref in base.reports]
    passed_somewhere = {
        each.report for cell in base.cells.values() for each in cell.history.evidence if each.passed
    }
    cells, lost_of = dict(base.cells), {}
    for variant in base.variants:
        keys = [key for key in base.cells if Variant(*key[1:]) == variant]
        evidence = [base.cells[key].history.evidence for key in keys]
        if lost := _lost_reports(ids, evidence, passed_somewhere):
            lost_of[variant] = lost
            cells |= {
                key: replace(cells[key], history=replace(cells[key].history, lost=lost))
                for key in keys
            }
    if not lost_of:
        return base
    histories = [cell.history for cell in cells.values()]
    counting = {
        each.report
        for one in histories
        for each in one.evidence
        if each.graded and each.report not in one.lost
    }
    newest = next((number for number, id_ in enumerate(ids) if id_ in counting), len(ids) - 1)
    return replace(
        base,
        cells=cells,
        reports=base.reports[newest:],
        lost=(*base.lost, *_newest_lost(base, lost_of)),
    )


def _lost_reports(
    ids: Sequence[str], evidence: Sequence[Sequence[Evidence]], passed_somewhere: Container[str]
) -> frozenset[str]:
    """Return the reports of one variant that do not count, from those of its cells."""
    by_report: dict[str, list[tuple[int, Tally]]] = defaultdict(list)
    for cell, each in (
        (cell, each) for cell, found in enumerate(evidence) for each in found if each.graded
    ):
        by_report[each.report].append((cell, each.tally))
    totals = {id_: sum_of(tally for _, tally in runs) for id_, runs in by_report.items()}
    if all(2 * total.passed >= total.graded for total in totals.values()):
        return frozenset()  # the usual case, at no cost
    lost: set[str] = set()
    before, before_collapsed = "", False
    history: dict[int, Tally] = defaultdict(lambda: NO_RUNS)
    for id_ in (id_ for id_ in reversed(ids) if id_ in by_report):  # the oldest first
        runs, counting = by_report[id_], [id_]
        passed = totals[id_].passed
        tables = [(*tally, *history[cell]) for cell, tally in runs if history[cell].graded]
        expected = fsum(table[1] * table[2] / table[3] for table in tables)
        level = COLLAPSE if passed else NO_PASS
        collapsed = id_ not in passed_somewhere and not expected
        if 2 * sum(table[0] for table in tables) < expected:
            collapsed = stratified_lower(tables, largest_support=LARGEST_SUPPORT) < level
        if collapsed and before_collapsed and (passed or totals[before].passed):
            counting += {before} & lost
            lost.discard(before)
        elif collapsed:
            lost.add(id_)
            counting = []
        for cell, tally in chain.from_iterable(by_report[each] for each in counting):
            history[cell] = sum_of((history[cell], tally))
        before, before_collapsed = id_, collapsed
    return frozenset(lost)


def _newest_lost(base: Baseline, lost_of: Mapping[Variant, Container[str]]) -> Iterator[LostReport]:
    """Yield the lost reports that are newer than all that count."""
    for variant, lost in lost_of.items():
        cells = [
            cell.history.evidence
            for key, cell in base.cells.items()
            if Variant(*key[1:]) == variant
        ]
        for ref in base.reports:
            if ref.id not in lost:
                break
            runs = [each.tally for found in cells for each in found if each.report == ref.id]
            yield LostReport(
                report=ref, provider=variant.provider, prompt=variant.prompt, runs=sum_of(runs)
            )
