"""Main's grades of the change's answers, as they come in during an invocation."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Self

from ci_evals.gate.cells import cell_key, match_variants
from ci_evals.model.case import Case, Variant
from ci_evals.model.plan import CellKey, RunPlan
from ci_evals.model.report import RunRecord, SuiteReport
from ci_evals.model.ruler import DroppedCase, MainRules, RuledCell, Ruler, StoredAnswers
from ci_evals.stats.thresholds import MAX_DROPPED_SHARE
from ci_evals.suite.types import CheckedSuite


class _MainName(NamedTuple):
    """The name of a case in main's suite, and its fingerprint there."""

    case: str
    fingerprint: str


class StoredRun(NamedTuple):
    """A graded run of a cell, and the start of its line in the journal; None if it has no answer:
    the code under test failed.
    """

    cell: int
    run: int
    offset: int | None


def _stored_runs(
    plan: RunPlan, records: Mapping[int, RunRecord], cells: Iterable[int]
) -> Iterator[StoredRun]:
    """Yield the graded runs of some cells of a plan."""
    for cell in cells:
        for run, index in enumerate(plan.indices(cell), plan.first_runs[cell]):
            record = records.get(index)
            if record is not None and record.graded:
                yield StoredRun(cell, run, None if record.unanswered else record.offset)


@dataclass
class Ruling:
    """Grades the answers of the change by main's checks, where it has edited or dropped them.

    Args:
        main: the branch and its commit.
        rules: what main's suite asks and expects.
        suite: the suite of the change.
        edited: by row, the names of the cases that ask what main asks, and check it otherwise.
        dropped: the cases of main that the change has deleted or reworded, critical ones first.
    """

    main: str
    rules: MainRules
    suite: CheckedSuite
    edited: Mapping[int, _MainName]
    dropped: Sequence[str]
    _passed: dict[int, dict[int, bool | None]] = field(default_factory=dict)
    _asked: list[DroppedCase] = field(default_factory=list)

    @classmethod
    def of(cls, main: str, rules: MainRules, suite: CheckedSuite) -> Self:
        edited = dict(_edited_cases(rules, suite))
        return cls(main, rules, suite, edited, _dropped_cases(rules, suite))

    # Cases whose checks differ.

    def ungraded(self, reports: Iterable[SuiteReport]) -> Sequence[StoredRun]:
        """Return the runs in some reports of the suite that main has not graded yet."""
        return [
            run
            for report in reports
            for run in _stored_runs(report.plan, report.records, self._edited_cells(report.plan))
            if run.run not in self._passed.get(run.cell, {})
        ]

    def _edited_cells(self, plan: RunPlan) -> Iterator[int]:
        for row in self.edited:
            yield from plan.cells_of_row(row)

    def ask(self, runs: Sequence[StoredRun], journal: Path) -> StoredAnswers:
        """Return what is asked of main to have the answers of runs in a journal graded."""
        names = {row: name.case for row, name in self.edited.items()}
        checks = {
            name: self.suite.check_fingerprints(self.suite.cases[row])
            for row, name in names.items()
        }
        return self._ask(runs, journal, names, checks)

    def note(self, runs: Sequence[StoredRun], passed: Sequence[bool | None]) -> None:
        """Note main's grades of the answers of runs; a run without an answer has failed."""
        for run, passes in _with_unanswered(runs, passed):
            self._passed.setdefault(run.cell, {})[run.run] = passes

    # Cases that only main has.

    @property
    def dropped_to_ask(self) -> Sequence[str]:
        """The dropped cases that are asked: not all of them, for each costs calls."""
        return self.dropped[: max(1, int(MAX_DROPPED_SHARE * len(self.rules.cases)))]

    def suite_of_dropped(self, cases: Sequence[Case]) -> CheckedSuite:
        """Return the change's suite with cases of main instead of its own.

        A reworded case has the name of the change's own, so all have names that no case has.
        """
        renamed = [replace(case, id=f"{case.id} (of main)") for case in cases]
        return replace(self.suite, cases=renamed)

    def runs_of_dropped(
        self, plan: RunPlan, records: Mapping[int, RunRecord]
    ) -> Sequence[StoredRun]:
        """Return the runs of cases of main."""
        return list(_stored_runs(plan, records, range(len(plan))))

    def ask_dropped(
        self, cases: Sequence[Case], runs: Sequence[StoredRun], journal: Path
    ) -> StoredAnswers:
        """Return what is asked of main to have the answers to cases of main graded."""
        return self._ask(runs, journal, {row: case.id for row, case in enumerate(cases)}, {})

    def note_dropped(
        self, cases: Sequence[Case], runs: Sequence[StoredRun], passed: Sequence[bool | None]
    ) -> None:
        """Note main's grades of the answers to cases of main."""
        by_row: dict[int, list[bool]] = {}
        for run, passes in _with_unanswered(runs, passed):
            if passes is not None:
                by_row.setdefault(run.cell // len(self.suite.columns), []).append(passes)
        for row, grades in by_row.items():
            name = cases[row].id
            critical = self.rules.settings.cases[name].critical
            dropped = DroppedCase(
                case=name, critical=critical, passed=sum(grades), graded=len(grades)
            )
            self._asked.append(dropped)

    # Both.

    def _ask(
        self,
        runs: Iterable[StoredRun],
        journal: Path,
        names: Mapping[int, str],
        checks: Mapping[str, Sequence[str]],
    ) -> StoredAnswers:
        columns = self.suite.columns
        matched: Mapping[Variant, Variant] = match_variants(columns, self.rules.variants)
        cells, offsets = [], []
        for run in runs:
            if run.offset is not None:
                row, column = divmod(run.cell, len(columns))
                # The checks of a case are the same on every variant.
                variant = matched.get(columns[column], self.rules.variants[0])
                cells.append(cell_key(names[row], variant))
                offsets.append(run.offset)
        return StoredAnswers(journal=journal, cells=cells, offsets=offsets, checks=checks)

    def ruler(self, keys: Sequence[CellKey]) -> Ruler:
        """Return all grades so far.

        Args:
            keys: the names of the cells in the report.
        """
        cells = []
        for cell, grades in self._passed.items():
            case, provider, prompt = keys[cell]
            known = {run: passes for run, passes in grades.items() if passes is not None}
            if known:  # otherwise, its own grades are all there is
                ruled = RuledCell(
                    case=case,
                    provider=provider,
                    prompt=prompt,
                    fingerprint=self.edited[cell // len(self.suite.columns)].fingerprint,
                    passed=known,
                )
                cells.append(ruled)
        return Ruler(
            main=self.main,
            gate=self.rules.gate,
            cells=tuple(cells),
            dropped=tuple(self._asked),
            dropped_unasked=len(self.dropped) - len(self._asked),
        )


def _with_unanswered(
    runs: Iterable[StoredRun], passed: Iterable[bool | None]
) -> Iterator[tuple[StoredRun, bool | None]]:
    """Yield each run with the grade of its answer; False if it has none."""
    grades = iter(passed)
    for run in runs:
        yield run, False if run.offset is None else next(grades)


def _edited_cases(rules: MainRules, suite: CheckedSuite) -> Iterator[tuple[int, _MainName]]:
    """Yield the rows of cases that ask what a case of main asks, and check the answer otherwise.

    A case of main that is gone may be the same under another name.
    """
    mine = {case.id for case in suite.cases}
    gone = {
        _question(case.fingerprint): name for name, case in rules.cases.items() if name not in mine
    }
    for row, case in enumerate(suite.cases):
        fingerprint = suite.case_fingerprint(row)
        name = case.id
        if name not in rules.cases:
            name = gone.get(_question(fingerprint), name)
        theirs = rules.cases.get(name)
        if (
            theirs is not None
            and theirs.fingerprint != fingerprint
            and _question(theirs.fingerprint) == _question(fingerprint)
        ):
            yield row, _MainName(name, theirs.fingerprint)


def _dropped_cases(rules: MainRules, suite: CheckedSuite) -> Sequence[str]:
    """Return the cases of main that no case of a suite asks, critical ones first.

    None if only a part of the suite was selected.
    """
    if suite.selection is not None:
        return ()
    asked = {_question(suite.case_fingerprint(row)) for row in range(len(suite.cases))}
    dropped = [
        name for name, case in rules.cases.items() if _question(case.fingerprint) not in asked
    ]
    return sorted(dropped, key=lambda name: not rules.settings.cases[name].critical)


def _question(fingerprint: str) -> str:
    """Return the half of a fingerprint that identifies the question."""
    return fingerprint.partition(".")[0]
