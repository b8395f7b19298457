"""Suite files as tests, one for each case."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ci_evals.api import load_suite
from ci_evals.errors import CiEvalsError
from ci_evals.format import one_line
from ci_evals.gate.compare import Comparison
from ci_evals.gate.wording.comparisons import cell_sentence
from ci_evals.library import Report
from ci_evals.model.result import Status
from ci_evals.model.rules import Gate
from ci_evals.pytest_plugin import OUTCOME
from ci_evals.pytest_plugin.marked import changes_of, evaluate_in_thread
from ci_evals.reports.view import CellView, Failures, cell_views, place_of
from ci_evals.suite.load import load_suite as read_suite
from ci_evals.suite.types import CheckedSuite

_ANSWER_CHARACTERS = 500


class SuiteFile(pytest.File):
    """A suite file. Its cases are run together when the first of them is due.

    With pytest-xdist or --maxfail, each case is run on its own: workers would run the same cases,
    and a failure could not save the others.
    """

    suite: CheckedSuite | None = None
    report: Report | None = None

    def collect(self) -> Iterator["CaseTest"]:
        try:
            # Without keys: `pytest --collect-only` must work everywhere.
            suite = read_suite(self.path, {}, offline=True)
        except CiEvalsError as error:
            raise self.CollectError(str(error)) from None
        for case in suite.cases:
            yield CaseTest.from_parent(self, name=case.id, line=case.line)

    def result_for(self, item: "CaseTest") -> Report:
        """Return a report that has the case of a test, running the suite if necessary."""
        is_worker = hasattr(self.config, "workerinput")
        if is_worker or self.config.getoption("maxfail"):
            return self._run(item, [item.name])
        if self.report is None:
            names = [each.name for each in self.session.items if each.parent is self]
            self.report = self._run(self, names)
        return self.report

    def _run(self, owner: pytest.Item | pytest.Collector, cases: Sequence[str]) -> Report:
        if self.suite is None:
            self.suite = load_suite(self.path)
        return evaluate_in_thread(owner, self.suite, cases=cases)


class CaseTest(pytest.Item):
    """One case of a suite on all its variants."""

    def __init__(self, *, line: int | None, **others: Any) -> None:
        super().__init__(**others)
        self.line = line

    def runtest(self) -> None:
        """Fail if a cell is below its bar, was not graded, or regressed."""
        suite = self.parent
        assert isinstance(suite, SuiteFile)
        report = suite.result_for(self)
        cells = [cell for cell in cell_views(report.judged) if cell.case.id == self.name]
        if not cells:
            pytest.fail("was not run", pytrace=False)
        tallies = []
        problems = []
        for cell in cells:
            tallies.append(_variant_prefix(cell, report) + cell.tally)
            if cell.below_bar or not cell.counts.graded:
                problems.append(_describe(cell, report))
        problems += _regressions(report, self.name)
        self.user_properties.append((OUTCOME, ", ".join(tallies)))
        for change in changes_of(report, self.name):
            self.user_properties.append((OUTCOME, f"  {change}"))
        if not problems:
            return
        quarantine = cells[0].case.quarantine
        if quarantine:
            reason = one_line(quarantine.reason)
            pytest.xfail(f"in quarantine until {quarantine.until}: {reason}")
        pytest.fail("\n".join(problems), pytrace=False)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show an error that the user can act on without a traceback."""
        if isinstance(excinfo.value, CiEvalsError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        line = None
        if self.line is not None:
            line = self.line - 1  # pytest counts from 0
        return self.path, line, self.name


def _variant_prefix(cell: CellView, report: Report) -> str:
    if len(report.plan.variants) == 1:
        return ""
    return f"{cell.variant}: "


def _regressions(report: Report, case: str) -> list[str]:
    """Return sentences on the regressions of a case that make the gate fail."""
    comparison = report.comparison
    if not isinstance(comparison, Comparison):
        return []
    gate = report.gate or Gate()
    regressions = []
    for cell in comparison.select("regressed"):
        if cell.case != case:
            continue
        is_milder = gate.on_regression == "warn" or cell.key in comparison.waived
        if cell.critical or not is_milder:
            regressions.append(cell_sentence(comparison, cell))
    return regressions


def _describe(cell: CellView, report: Report) -> str:
    """Describe a cell. The first line is the reason, as pytest's short summary shows that."""
    status: Status = "failed"
    if cell.outcome == "errored":
        status = "errored"
    prefix = _variant_prefix(cell, report)
    lines = [f"{prefix}{cell.tally}  {place_of(cell.case)}"]
    failures = Failures.of(cell.results(status))
    if failures.most_frequent:
        lines.insert(0, f"{prefix}{one_line(failures.most_frequent)}")
    lines += [f"    {reason}" for reason in failures.lines()]
    run = cell.run(status)
    if run and run.answer is not None:
        answer = one_line(run.answer, _ANSWER_CHARACTERS)
        if not answer:
            answer = "(empty)"
        lines.append(f"    answer of run {run.first.run}: {answer}")
    return "\n".join(lines)
