"""Main's grades of the change's answers, as they come in during an invocation."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from ci_evals.gate.cells import cell_key, match_variants
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport
from ci_evals.model.ruler import MainRules, RuledCell, Ruler, StoredAnswers
from ci_evals.suite.types import CheckedSuite


class _MainName(NamedTuple):
    """The name of a case in main's suite, and its fingerprint there."""

    case: str
    fingerprint: str


class StoredRun(NamedTuple):
    """An answer of a cell of the report: its run, and the start of its line in the journal."""

    cell: int
    run: int
    offset: int


@dataclass
class Ruling:
    """Grades the answers of cases whose checks the change has edited by those of main.

    Args:
        main: the branch and its commit.
        rules: what main's suite asks and expects.
        suite: the suite of the change.
        names: by row, the names of the cases that ask what main asks, and check it otherwise.
    """

    main: str
    rules: MainRules
    suite: CheckedSuite
    names: Mapping[int, _MainName]
    _passed: dict[int, dict[int, bool | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, main: str, rules: MainRules, suite: CheckedSuite) -> Self:
        return cls(main, rules, suite, dict(_edited_cases(rules, suite)))

    def ungraded(self, reports: Iterable[SuiteReport]) -> Sequence[StoredRun]:
        """Return the answers in some reports of the suite that main has not graded yet."""
        return [run for report in reports for run in self._answers(report) if self._is_new(run)]

    def _answers(self, report: SuiteReport) -> Iterator[StoredRun]:
        plan = report.plan
        for row in self.names:
            for cell in plan.cells_of_row(row):
                for place, index in enumerate(plan.indices(cell)):
                    record = report.records.get(index)
                    if record is not None and record.graded:
                        run = plan.first_runs[cell] + place
                        if record.unanswered:  # there is nothing to grade
                            self._passed.setdefault(cell, {})[run] = False
                        else:
                            yield StoredRun(cell, run, record.offset)

    def _is_new(self, run: StoredRun) -> bool:
        return run.run not in self._passed.get(run.cell, {})

    def ask(self, runs: Sequence[StoredRun], journal: Path) -> StoredAnswers:
        """Return what is asked of main to have answers in a journal graded."""
        columns = self.suite.columns
        matched = match_variants(columns, self.rules.variants)
        cells = []
        for run in runs:
            row, column = divmod(run.cell, len(columns))
            # The checks of a case are the same on every variant.
            variant = matched.get(columns[column], self.rules.variants[0])
            cells.append(cell_key(self.names[row].case, variant))
        return StoredAnswers(
            journal=journal,
            cells=cells,
            offsets=[run.offset for run in runs],
            checks={
                name.case: self.suite.check_fingerprints(self.suite.cases[row])
                for row, name in self.names.items()
            },
        )

    def note(self, runs: Sequence[StoredRun], passed: Sequence[bool | None]) -> None:
        """Note main's grades of some answers."""
        for run, passes in zip(runs, passed, strict=True):
            self._passed.setdefault(run.cell, {})[run.run] = passes

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
                    fingerprint=self.names[cell // len(self.suite.columns)].fingerprint,
                    passed=known,
                )
                cells.append(ruled)
        return Ruler(main=self.main, gate=self.rules.gate, cells=tuple(cells))


def _edited_cases(rules: MainRules, suite: CheckedSuite) -> Iterator[tuple[int, _MainName]]:
    """Yield the rows of cases that ask what a case of main asks, and check the answer otherwise.

    A case of main that is gone may be the same under another name.
    """
    mine = {case.id for case in suite.cases}
    gone = {
        _question(case.fingerprint): id_ for id_, case in rules.cases.items() if id_ not in mine
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


def _question(fingerprint: str) -> str:
    """Return the half of a fingerprint that identifies the question."""
    return fingerprint.partition(".")[0]
