"""Main's grades of the change's answers, as they come in during an invocation."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple, Self

from ci_evals.engine.cells import Cells
from ci_evals.gate.cells import cell_key, match_variants
from ci_evals.model.case import Case, Variant
from ci_evals.model.plan import RunPlan, plan_runs
from ci_evals.model.report import RunRecord, SuiteReport
from ci_evals.model.ruler import DroppedCase, MainRules, RuledCell, Ruler, StoredAnswers
from ci_evals.model.settings import CaseSettings
from ci_evals.stats.thresholds import MAX_DROPPED_SHARE
from ci_evals.suite.types import CheckedSuite

_OF_MAIN: Final = " (of main)"


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
        for run, index in plan.numbered(cell):
            record = records.get(index)
            if record is None or not record.graded:
                continue
            offset: int | None = record.offset
            if record.unanswered:
                offset = None
            yield StoredRun(cell, run, offset)


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
        matched = _match_cases(rules, suite)
        edited = dict(_edited_cases(rules, suite, matched))
        dropped = _dropped_cases(rules, suite, frozenset(matched.values()))
        return cls(main, rules, suite, edited, dropped)

    @property
    def _cases_of_main(self) -> Mapping[str, CaseSettings]:
        return self.rules.settings.cases

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

    def ask(self, runs: Sequence[StoredRun], plan: RunPlan, journal: Path) -> StoredAnswers:
        """Return what is asked of main to have the answers of runs in a journal graded."""
        names = {row: name.case for row, name in self.edited.items()}
        checks = {
            name: self.suite.check_fingerprints(self.suite.cases[row])
            for row, name in names.items()
        }
        return self._ask(runs, plan, journal, names, checks)

    def note(self, runs: Sequence[StoredRun], passed: Sequence[bool | None]) -> None:
        """Note main's grades of the answers of runs; a run without an answer has failed."""
        for run, passes in _with_unanswered(runs, passed):
            self._passed.setdefault(run.cell, {})[run.run] = passes

    # Cases that only main has.

    @property
    def dropped_to_ask(self) -> Sequence[str]:
        """The dropped cases that are asked: not all of them, for each costs calls."""
        return self.dropped[: max(1, int(MAX_DROPPED_SHARE * len(self._cases_of_main)))]

    def suite_of_dropped(self, cases: Sequence[Case]) -> CheckedSuite:
        """Return the change's suite with cases of main instead of its own.

        A reworded case has the name of the change's own, so all have names that no case has. Those
        are left out that the change's prompts cannot ask.
        """
        askable = [case for case in cases if self._can_ask(case)]
        return replace(
            self.suite, cases=[replace(case, id=f"{case.id}{_OF_MAIN}") for case in askable]
        )

    def _can_ask(self, case: Case) -> bool:
        suite = replace(self.suite, cases=[case])
        cells = Cells(suite, plan_runs(suite.cases, suite.columns, 1))
        try:
            for number in range(len(cells.plan)):
                cells.cell(number)
        except Exception:  # noqa: BLE001  a template over vars that main's case does not have
            return False
        return True

    def runs_of_dropped(
        self, plan: RunPlan, records: Mapping[int, RunRecord]
    ) -> Sequence[StoredRun]:
        """Return the runs of cases of main."""
        return list(_stored_runs(plan, records, range(len(plan))))

    def ask_dropped(self, runs: Sequence[StoredRun], plan: RunPlan, journal: Path) -> StoredAnswers:
        """Return what is asked of main to have the answers to cases of main graded."""
        names = {row: _name_on_main(case) for row, case in enumerate(plan.cases)}
        return self._ask(runs, plan, journal, names, {})

    def note_dropped(
        self, runs: Sequence[StoredRun], plan: RunPlan, passed: Sequence[bool | None]
    ) -> None:
        """Note main's grades of the answers to cases of main."""
        grades: dict[str, list[bool]] = {}
        for run, passes in _with_unanswered(runs, passed):
            if passes is not None:
                grades.setdefault(_name_on_main(plan.case(run.cell)), []).append(passes)
        self._asked = [
            DroppedCase(
                case=name,
                fingerprint=self._cases_of_main[name].fingerprint,
                critical=self._cases_of_main[name].critical,
                passed=sum(of_case),
                graded=len(of_case),
            )
            for name, of_case in grades.items()
        ]

    # Both.

    def _ask(
        self,
        runs: Iterable[StoredRun],
        plan: RunPlan,
        journal: Path,
        names: Mapping[int, str],
        checks: Mapping[str, Sequence[str]],
    ) -> StoredAnswers:
        matched: Mapping[Variant, Variant] = match_variants(plan.variants, self.rules.variants)
        cells, offsets = [], []
        for run in runs:
            if run.offset is not None:
                # The checks of a case are the same on every variant.
                variant = matched.get(plan.variant(run.cell), self.rules.variants[0])
                cells.append(cell_key(names[plan.row(run.cell)], variant))
                offsets.append(run.offset)
        return StoredAnswers(journal=journal, cells=cells, offsets=offsets, checks=checks)

    def ruler(self, plan: RunPlan) -> Ruler:
        """Return all grades so far, of the cells of a plan of the suite."""
        cells = []
        for cell, grades in self._passed.items():
            case, provider, prompt = plan.key(cell)
            known = {run: passes for run, passes in grades.items() if passes is not None}
            if known:  # otherwise, its own grades are all there is
                ruled = RuledCell(
                    case=case,
                    provider=provider,
                    prompt=prompt,
                    fingerprint=self.edited[plan.row(cell)].fingerprint,
                    passed=known,
                )
                cells.append(ruled)
        theirs = self.rules.grader_files
        files = [name for name, own in self.suite.grader_files.items() if theirs.get(name) != own]
        return Ruler(
            main=self.main,
            gate=self.rules.gate,
            cells=tuple(cells),
            files=tuple(sorted(files)),
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


def _match_cases(rules: MainRules, suite: CheckedSuite) -> Mapping[int, str]:
    """Return the case of main that asks the same as the case in each row, where there is one.

    One of the same name comes first, then one under another name; none counts twice. Unlike for
    settings, a name by itself says nothing: it may have been given to another question.
    """
    questions = [suite.strictness.cases[case.id].question for case in suite.cases]
    theirs = {name: case.question for name, case in rules.settings.cases.items()}
    matched = {
        row: case.id
        for row, case in enumerate(suite.cases)
        if theirs.get(case.id) == questions[row]
    }
    left: dict[str, list[str]] = {}
    for name in theirs.keys() - set(matched.values()):
        left.setdefault(theirs[name], []).append(name)
    for row, question in enumerate(questions):
        if row not in matched and left.get(question):
            matched[row] = min(left[question])
            left[question].remove(matched[row])
    return matched


def _edited_cases(
    rules: MainRules, suite: CheckedSuite, matched: Mapping[int, str]
) -> Iterator[tuple[int, _MainName]]:
    """Yield the rows of cases that ask what a case of main asks, and check the answer otherwise."""
    for row, name in matched.items():
        theirs = rules.settings.cases[name].fingerprint
        if theirs != suite.case_fingerprint(row):
            yield row, _MainName(name, theirs)


def _dropped_cases(rules: MainRules, suite: CheckedSuite, asked: Container[str]) -> Sequence[str]:
    """Return the cases of main that no case of a suite asks, critical ones first.

    None if only a part of the suite was selected. Those in quarantine are known to fail.
    """
    if suite.selection is not None:
        return ()
    known = rules.settings.cases
    dropped = [name for name in known if name not in asked and not known[name].quarantined]
    return sorted(dropped, key=lambda name: not known[name].critical)


def _name_on_main(case: Case) -> str:
    return case.id.removesuffix(_OF_MAIN)
