"""Outages while a report's own runs were made: one round, or all planned runs of a variant, that failed as one."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ci_evals.gate.baseline import LARGEST_SUPPORT, Baseline, HeadCell
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


class FailedRound(NamedTuple):
    """One run of every cell that failed as one, and all `others` of the same cells."""

    run: int
    inside: Tally
    others: Tally


def failed_rounds(report: SuiteReport) -> Mapping[Variant, FailedRound]:
    """Find the variants of which one round failed more than the other rounds of the same cells do.

    An outage strikes at one time, whatever the case; a change of the behaviour shows in every round. Of several such
    rounds the surest counts. No baseline is needed.
    """
    plan, found = report.plan, {}
    for variant in plan.variants:
        by_cell = []
        for cell in report.cells_of(variant):
            numbered = ((run, report.records.get(index)) for run, index in enumerate(plan.indices(cell), 1))
            fresh = ((run, record) for run, record in numbered if record and record.graded and not record.recorded)
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
    """Planned runs that failed as one, and the repeats of those of the `cells` that were run again."""

    cells: int
    planned: Tally
    repeated: Tally


def outages(head: Sequence[HeadCell], base: Baseline, alpha: float) -> Mapping[Variant, Outage]:
    """Find the variants that look worse because of an outage while their planned runs were made.

    Half of their cells are suspects, the repeats of these show no drop, and are better than the planned runs.

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
        dropped = stratified_lower((*cell.head.confirming, *cell.pooled) for cell in repeated) <= NO_DROP
        recovered = stratified_lower((*cell.head.planned, *cell.head.confirming) for cell in repeated) <= RECOVERY
        if worse and recovered and not dropped:
            planned, confirming = (cell.head.planned for cell in repeated), (cell.head.confirming for cell in repeated)
            found[variant] = Outage(len(repeated), sum_of(planned), sum_of(confirming))
    return found
