"""Answers whose checks the change has edited, as main's checks grade them.

A change is free to edit its checks, but not to clear itself by that. So what is worse by main's
checks alone never blocks, and never goes unsaid.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ci_evals.gate.bars import judge_scopes
from ci_evals.gate.baseline import add_tallies
from ci_evals.gate.cells import CellComparison
from ci_evals.gate.compare import Comparison
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.model.ruler import RuledCell, Ruler
from ci_evals.model.rules import Gate
from ci_evals.stats.exact_tests import fisher_lower, stratified_lower


@dataclass(frozen=True, slots=True)
class GradedTwice:
    """The same answers by both sides' checks: how many `mains` and the change's `own` ones pass."""

    mains: int
    own: int
    answers: int


@dataclass(frozen=True)
class EditedChecks:
    """A report whose checks are not main's, with main's grades of its answers.

    Args:
        report: all results.
        ruler: main's grades.
        comparison: the comparison with main, by these grades; None if there is none.
    """

    report: SuiteReport
    ruler: Ruler
    comparison: Comparison | None

    @cached_property
    def graded_twice(self) -> GradedTwice:
        """The planned answers that both sides' checks have graded."""
        mains = own = answers = 0
        for cell, ruled in self._ruled_cells():
            for run in self._planned(cell):
                record = self.report.records.get(self.report.plan.index(cell, run))
                passed = ruled.passed.get(run)
                if record is not None and record.graded and passed is not None:
                    answers += 1
                    mains += passed
                    own += record.status == "passed"
        return GradedTwice(mains, own, answers)

    @property
    def are_looser(self) -> bool:
        """Return True if they pass answers for which main's gate or the comparison would be red."""
        graded = self.graded_twice
        if graded.mains >= graded.own:
            return False
        return bool(self.excused_cells or self.excused_variants or self._is_red_by_main)

    @property
    def _is_red_by_main(self) -> bool:
        """Return True if the answers miss a bar of main's gate by its checks.

        Bars of metrics are left out: they hold scores, and main gives passes here. What reports
        have in common is, too: it would only widen the bounds.
        """
        tallies = [counts.tally for counts in self.report.by_cell]
        for cell, ruled in self._ruled_cells():
            planned = [ruled.passed[run] for run in self._planned(cell) if run in ruled.passed]
            tallies[cell] = Tally(sum(planned), len(planned))
        scopes = judge_scopes(self.report, tallies, self.ruler.gate or Gate(), {})
        return any(each.status == "fail" and each.kind != "metric" for each in scopes)

    @cached_property
    def excused_cells(self) -> frozenset[CellKey]:
        """The cells that got worse by main's checks, and not by the change's own."""
        if self.comparison is None:
            return frozenset()
        alpha = self.comparison.alpha
        return frozenset(
            cell.key
            for cell in self.comparison.select("regressed")
            if cell.key in self.ruler.by_key
            and fisher_lower(*self._own_runs(cell), *cell.base) > alpha
        )

    @cached_property
    def excused_variants(self) -> frozenset[Variant]:
        """The variants that are worse as a whole by main's checks, and not by the change's own."""
        if self.comparison is None:
            return frozenset()
        ruled = {cell.variant for cell in self.ruler.cells}
        found = set()
        for worse in self.comparison.worse_variants():
            cells = [cell for cell in self.comparison.cells if cell.variant == worse.variant]
            tables = [(*self._own_runs(cell), *cell.base) for cell in cells if cell.p is not None]
            if worse.variant in ruled and stratified_lower(tables) > self.comparison.alpha:
                found.add(worse.variant)
        return frozenset(found)

    def _own_runs(self, cell: CellComparison) -> Tally:
        """Return all fresh runs of a cell by the change's own checks."""
        report = self.report
        number = self._numbers[cell.key]
        runs = [report.fresh(number)]
        if report.confirmation is not None:
            runs.append(report.confirmation.fresh(number))
        return add_tallies(runs)

    def _ruled_cells(self) -> Iterator[tuple[int, RuledCell]]:
        for ruled in self.ruler.cells:
            number = self._numbers.get(ruled.key)
            if number is not None and self.report.plan.case(number).quarantine is None:
                yield number, ruled

    def _planned(self, cell: int) -> range:
        """Return the numbers of a cell's planned runs."""
        first = self.report.plan.first_runs[cell]
        return range(first, first + self.report.plan.runs(cell))

    @cached_property
    def _numbers(self) -> dict[CellKey, int]:
        return {key: number for number, key in enumerate(self.report.plan.keys)}


def edited_checks(report: SuiteReport, comparison: Comparison | None) -> EditedChecks | None:
    """Return the report with main's grades of its answers; None if there are none."""
    if report.ruler is None or not report.ruler.cells:
        return None
    return EditedChecks(report, report.ruler, comparison)
