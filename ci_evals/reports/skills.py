"""Variants with and without their skills, compared by the case: pass rate, cost and steps."""

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from ci_evals.format import name_of, number_of, usd
from ci_evals.gate.wording.comparisons import signed
from ci_evals.model.case import Variant
from ci_evals.model.report import SuiteReport
from ci_evals.model.rules import Gate
from ci_evals.reports.summary import Note, Summary, common_luck
from ci_evals.stats.differences import rate_difference

_Pairs = Sequence[tuple[int, int]]
"""The cells of cases that ran with and without skills."""


class _Means(NamedTuple):
    """The mean amounts of a run with and without skills, over so many cases."""

    skilled: float
    without: float
    cases: int

    def coverage(self, pairs: _Pairs) -> str:
        """`, known in 3 of these cases`; empty if the amounts are known in all."""
        if self.cases == len(pairs):
            return ""
        return f", known in {self.cases:,} of these cases"


def skills_notes(summary: Summary) -> Iterator[Note]:
    """Yield `with skill against without skill, over 40 cases: +22.0 points (+10.4 to +33.1),
    +$0.040 a run ($0.12 instead of $0.080), +3 steps a run (8 instead of 5)`.
    """
    report = summary.report
    for without in report.plan.variants:
        name = report.suite.without_skills.get(without.provider)
        if name is not None:
            skilled = Variant(name, without.prompt)
            pairs = _pairs(report, skilled, without)
            if pairs:
                yield Note("Skills", _sentence(summary, skilled, without, pairs), brief=True)


def _pairs(report: SuiteReport, skilled: Variant, without: Variant) -> _Pairs:
    """Return the cells of the cases that were graded on both variants, except in quarantine."""
    if skilled not in report.plan.variants:
        return []
    graded = {cell for cell in report.judged_cells if report.by_cell[cell].graded}
    both = zip(report.cells_of(skilled), report.cells_of(without), strict=True)
    return [pair for pair in both if graded.issuperset(pair)]


def _sentence(summary: Summary, skilled: Variant, without: Variant, pairs: _Pairs) -> str:
    clauses = [_rate_clause(summary, skilled, without, pairs)]
    costs = _means(summary.report, pairs, _costs_usd)
    if costs is not None:
        # Equal means may differ in their last digit, and would then show a sign.
        more_usd = round(costs.skilled - costs.without, 12)
        sign = "-" if more_usd < 0 else "+"
        both = f"{usd(costs.skilled)} instead of {usd(costs.without)}"
        clauses.append(f"{sign}{usd(abs(more_usd))} a run ({both}{costs.coverage(pairs)})")
    steps = _means(summary.report, pairs, _steps)
    if steps is not None:
        more = round(steps.skilled - steps.without, 1)
        noun = "step" if abs(more) == 1 else "steps"
        both = f"{round(steps.skilled, 1):g} instead of {round(steps.without, 1):g}"
        clauses.append(f"{more:+g} {noun} a run ({both}{steps.coverage(pairs)})")
    names = f"{name_of(skilled)} against {name_of(without)}"
    return f"{names}, over {number_of(len(pairs), 'case')}: {', '.join(clauses)}"


def _rate_clause(summary: Summary, skilled: Variant, without: Variant, pairs: _Pairs) -> str:
    """`+22.0 points (-3.4 to +41.0, so these runs cannot tell them apart)`."""
    by_cell = summary.report.by_cell
    tables = [(*by_cell[head].tally, *by_cell[base].tally) for head, base in pairs]
    luck = common_luck(summary)
    overdispersion = max(luck.get(skilled, 1.0), luck.get(without, 1.0))
    confidence = (summary.gate or Gate()).confidence
    estimate = rate_difference(tables, confidence, overdispersion)
    assert estimate is not None  # all cells have graded runs
    assert estimate.interval is not None
    lower, upper = estimate.interval
    text = f"{signed(100 * lower, 1)} to {signed(100 * upper, 1)}"
    if lower <= 0 <= upper:
        text += ", so these runs cannot tell them apart"
    return f"{signed(100 * estimate.value, 1)} points ({text})"


def _means(
    report: SuiteReport,
    pairs: _Pairs,
    amounts_of: Callable[[SuiteReport, int], Sequence[float]],
) -> _Means | None:
    """Return the mean amounts of a run over the cases where both sides know them; None without any.

    Args:
        report: has the runs.
        pairs: the cells of each case.
        amounts_of: returns the known amounts of the runs of a cell.
    """
    skilled = []
    without = []
    for skilled_cell, other_cell in pairs:
        with_skills = amounts_of(report, skilled_cell)
        others = amounts_of(report, other_cell)
        if with_skills and others:
            skilled.append(fmean(with_skills))
            without.append(fmean(others))
    if not skilled:
        return None
    return _Means(fmean(skilled), fmean(without), len(skilled))


def _costs_usd(report: SuiteReport, cell: int) -> list[float]:
    records = report.records_of((cell,))
    return [each.cost_usd for each in records if each.graded and each.cost_usd is not None]


def _steps(report: SuiteReport, cell: int) -> list[int]:
    """Return the number of steps of each graded run; as for `max_steps`, messages do not count."""
    numbers = []
    for result in report.results(report.plan.indices(cell)):
        if result.status == "errored" or result.response is None:
            continue
        steps = result.response.steps_taken
        if steps is not None:
            numbers.append([step.kind == "message" for step in steps].count(False))
    return numbers
