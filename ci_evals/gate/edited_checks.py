"""Answers whose checks the change has edited, as main's checks grade them.

A change is free to edit its checks, but not to clear itself by that. So what is worse by main's
checks alone never blocks, and never goes unsaid.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from ci_evals.gate.bars import judge_scopes
from ci_evals.gate.baseline import reported_cells
from ci_evals.gate.compare import Comparison, compare
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.model.ruler import RuledCell, Ruler
from ci_evals.model.rules import Gate


@dataclass(frozen=True, slots=True)
class GradedTwice:
    """The same answers by both sides' checks: how many `mains` and the change's `own` ones pass."""

    mains: int
    own: int
    answers: int


class Excused(NamedTuple):
    """The cells, and the variants as a whole, that are worse by main's checks alone."""

    cells: frozenset[CellKey]
    variants: frozenset[Variant]


NOTHING_EXCUSED = Excused(frozenset(), frozenset())


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
            own = _own_grades(self.report, number, ruled)
            mains = sum(ruled.passed[run] for run in own)
            found[ruled.key] = GradedTwice(mains, sum(own.values()), len(own))
        return found

    @property
    def graded_twice(self) -> GradedTwice:
        """All of these answers."""
        return _add(self.by_cell.values())

    @property
    def looser(self) -> GradedTwice:
        """The answers of the cells of which the change's own checks pass more."""
        return _add(self.by_cell[key] for key in self._looser_cells)

    @cached_property
    def _looser_cells(self) -> frozenset[CellKey]:
        return frozenset(key for key, cell in self.by_cell.items() if cell.own > cell.mains)

    @property
    def stricter(self) -> GradedTwice:
        """The answers of the cells of which the change's own checks pass fewer."""
        return _add(cell for cell in self.by_cell.values() if cell.own < cell.mains)

    @property
    def hide_something(self) -> bool:
        """Return True if they pass answers for which main's gate or the comparison would be red."""
        if any(self.excused):
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
        scopes = judge_scopes(self.report, tallies, self.ruler.gate or Gate())
        return any(each.status == "fail" and each.kind != "metric" for each in scopes)

    @cached_property
    def excused(self) -> Excused:
        """What got worse by main's checks, and not by the change's own."""
        if self.comparison is None:
            return NOTHING_EXCUSED
        by_own = self._compare_by_own(self.comparison)
        cells = {cell.key for cell in self.comparison.select("regressed")}
        cells -= {cell.key for cell in by_own.select("regressed")}
        variants = {each.variant for each in self.comparison.worse_variants()}
        variants -= {each.variant for each in by_own.worse_variants()}
        looser_variants = {Variant(*key[1:]) for key in self._looser_cells}
        return Excused(self._looser_cells & cells, frozenset(looser_variants & variants))

    def _compare_by_own(self, comparison: Comparison) -> Comparison:
        """Return the comparison by the change's own checks, of the same cells with the same runs.

        So a cell is excused by the very rules by which it got worse.
        """
        cells = []
        for ruled in self.ruler.cells:
            number = self._numbers.get(ruled.key)
            if number is not None:
                own = _own_grades(self.report, number, ruled)
                if self.report.confirmation is not None:
                    own |= _own_grades(self.report.confirmation, number, ruled)
                cells.append(replace(ruled, passed=own))
        report = replace(self.report, ruler=replace(self.ruler, cells=tuple(cells)))
        return compare(
            reported_cells(report, self.rules),
            comparison.baseline,
            confirm_runs=comparison.confirm_runs,
            rules=self.rules,
            is_selection=report.suite.selection is not None,
            main_now=report.main_now,
        )

    def _ruled_cells(self) -> Iterator[tuple[int, RuledCell]]:
        for ruled in self.ruler.cells:
            number = self._numbers.get(ruled.key)
            if number is not None and self.report.plan.case(number).quarantine is None:
                yield number, ruled

    @cached_property
    def _numbers(self) -> dict[CellKey, int]:
        return {key: number for number, key in enumerate(self.report.plan.keys)}


def _own_grades(report: SuiteReport, cell: int, ruled: RuledCell) -> dict[int, bool]:
    """Return whether each run that main has graded passes the change's own checks, by number."""
    grades = {}
    for run, index in report.plan.numbered(cell):
        record = report.records.get(index)
        if record is not None and record.graded and run in ruled.passed:
            grades[run] = record.status == "passed"
    return grades


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
