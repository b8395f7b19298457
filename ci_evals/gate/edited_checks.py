"""Answers whose checks the change has edited, as main's checks grade them.

A change is free to edit its checks, but not to clear itself by that. So what is worse by main's
checks alone never blocks, and never goes unsaid.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ci_evals.gate.bars import judge_scopes
from ci_evals.gate.baseline import reported_cells
from ci_evals.gate.compare import Comparison, compare
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import RunRecord, SuiteReport, Tally
from ci_evals.model.ruler import RuledCell, Ruler
from ci_evals.model.rules import Gate


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
        rules: the change's own rules for merging.
    """

    report: SuiteReport
    ruler: Ruler
    comparison: Comparison | None
    rules: Gate

    @cached_property
    def by_cell(self) -> Mapping[CellKey, GradedTwice]:
        """The planned answers of each cell that both sides' checks have graded."""
        found = {}
        for number, ruled in self._ruled_cells():
            both = [*self._both(self.report, number, ruled)]
            mains, own = [sum(passed) for passed in zip(*both, strict=True)] or (0, 0)
            found[ruled.key] = GradedTwice(mains, own, len(both))
        return found

    @property
    def graded_twice(self) -> GradedTwice:
        """All of these answers."""
        return _add(self.by_cell.values())

    @property
    def looser(self) -> GradedTwice:
        """The answers of the cells of which the change's own checks pass more."""
        return _add(cell for cell in self.by_cell.values() if cell.own > cell.mains)

    @property
    def stricter(self) -> GradedTwice:
        """The answers of the cells of which the change's own checks pass fewer."""
        return _add(cell for cell in self.by_cell.values() if cell.own < cell.mains)

    @property
    def hide_something(self) -> bool:
        """Return True if they pass answers for which main's gate or the comparison would be red."""
        if self.excused_cells or self.excused_variants:
            return True
        return bool(self.looser.answers) and self._is_red_by_main

    @property
    def _is_red_by_main(self) -> bool:
        """Return True if the answers miss a bar of main's gate by its checks.

        Bars of metrics are left out: they hold scores, and main gives passes here. What reports
        have in common is, too: it would only widen the bounds.
        """
        tallies = [counts.tally for counts in self.report.by_cell]
        for number, ruled in self._ruled_cells():
            cell = self.by_cell[ruled.key]
            tallies[number] = Tally(cell.mains, cell.answers)
        scopes = judge_scopes(self.report, tallies, self.ruler.gate or Gate(), {})
        return any(each.status == "fail" and each.kind != "metric" for each in scopes)

    @cached_property
    def excused_cells(self) -> frozenset[CellKey]:
        """The cells that got worse by main's checks, and not by the change's own."""
        if self.comparison is None or self._by_own is None:
            return frozenset()
        worse = {cell.key for cell in self._by_own.select("regressed")}
        looser = {key for key, cell in self.by_cell.items() if cell.own > cell.mains}
        by_main = {cell.key for cell in self.comparison.select("regressed")}
        return frozenset(by_main & looser - worse)

    @cached_property
    def excused_variants(self) -> frozenset[Variant]:
        """The variants that are worse as a whole by main's checks, and not by the change's own."""
        if self.comparison is None or self._by_own is None:
            return frozenset()
        worse = {each.variant for each in self._by_own.worse_variants()}
        by_main = self.comparison.worse_variants()
        looser = {Variant(*key[1:]) for key, cell in self.by_cell.items() if cell.own > cell.mains}
        return frozenset({each.variant for each in by_main} & looser - worse)

    @cached_property
    def _by_own(self) -> Comparison | None:
        """The comparison by the change's own checks, of the same cells with the same runs."""
        if self.comparison is None:
            return None
        cells = []
        for ruled in self.ruler.cells:
            number = self._numbers.get(ruled.key)
            if number is not None:
                cells.append(replace(ruled, passed=dict(self._own(number, ruled))))
        own = replace(self.report, ruler=replace(self.ruler, cells=tuple(cells)))
        return compare(
            reported_cells(own, self.rules),
            self.comparison.baseline,
            confirm_runs=self.comparison.confirm_runs,
            rules=self.rules,
            is_selection=self.report.suite.selection is not None,
            main_now=self.report.main_now,
        )

    def _own(self, number: int, ruled: RuledCell) -> Iterator[tuple[int, bool]]:
        """Yield the number of each run that main has graded, and whether it passes here."""
        for report in (self.report, self.report.confirmation):
            if report is not None:
                for run, record in _graded(report, number):
                    if run in ruled.passed:
                        yield run, record.status == "passed"

    def _both(
        self, report: SuiteReport, number: int, ruled: RuledCell
    ) -> Iterator[tuple[bool, bool]]:
        """Yield whether each graded run of a cell passes main's checks, and the change's own."""
        for run, record in _graded(report, number):
            if run in ruled.passed:
                yield ruled.passed[run], record.status == "passed"

    def _ruled_cells(self) -> Iterator[tuple[int, RuledCell]]:
        for ruled in self.ruler.cells:
            number = self._numbers.get(ruled.key)
            if number is not None and self.report.plan.case(number).quarantine is None:
                yield number, ruled

    @cached_property
    def _numbers(self) -> dict[CellKey, int]:
        return {key: number for number, key in enumerate(self.report.plan.keys)}


def _graded(report: SuiteReport, cell: int) -> Iterator[tuple[int, RunRecord]]:
    """Yield the number and the record of each graded run of a cell."""
    plan = report.plan
    for run, index in enumerate(plan.indices(cell), plan.first_runs[cell]):
        record = report.records.get(index)
        if record is not None and record.graded:
            yield run, record


def _add(cells: Iterable[GradedTwice]) -> GradedTwice:
    mains = own = answers = 0
    for cell in cells:
        mains += cell.mains
        own += cell.own
        answers += cell.answers
    return GradedTwice(mains, own, answers)


def edited_checks(
    report: SuiteReport, comparison: Comparison | None, rules: Gate
) -> EditedChecks | None:
    """Return the report with main's grades of its answers; None if there are none."""
    if report.ruler is None or not report.ruler.cells:
        return None
    return EditedChecks(report, report.ruler, comparison, rules)
