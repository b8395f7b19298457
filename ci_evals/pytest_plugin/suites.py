"""Suite files as tests: one for each case."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci_evals.api import load_suite
from ci_evals.errors import CiEvalsError
from ci_evals.format import one_line
from ci_evals.gate.compare import Comparison
from ci_evals.gate.wording import cell_sentence
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
    """A suite. Its cases are run together when the first of them is due, unless tests are shared
    among processes.
    """

    suite: CheckedSuite | None = None
    report: Report | None = None

    def collect(self) -> Iterator["CaseTest"]:
        try:
            suite = read_suite(self.path, {}, offline=True)
        except CiEvalsError as error:
            raise self.CollectError(str(error)) from None
        for case in suite.cases:
            yield CaseTest.from_parent(self, name=case.id, line=case.line)

    def result_for(self, item: "CaseTest") -> Report:
        """Return the report that has the case of a test, running what is due."""
        together = not hasattr(self.config, "workerinput") and not self.config.getoption("maxfail")
        if together and self.report is not None:
            return self.report
        chosen = (
            [each for each in self.session.items if each.parent is self] if together else [item]
        )
        self.suite = self.suite or load_suite(self.path)
        owner = self if together else item
        self.report = evaluate_in_thread(owner, self.suite, cases=[each.name for each in chosen])
        return self.report


class CaseTest(pytest.Item):
    """One case of a suite on all its variants."""

    def __init__(self, *, line: int | None, **others: Any) -> None:
        super().__init__(**others)
        self.line = line

    def runtest(self) -> None:
        """Fail where a cell is below its bar, or has no verdict."""
        suite = self.parent
        assert isinstance(suite, SuiteFile)
        report = suite.result_for(self)
        summary = report.judged
        cells = [cell for cell in cell_views(summary) if cell.case.id == self.name]
        tallies = ", ".join(_variant_prefix(cell, report) + cell.tally for cell in cells)
        self.user_properties.append((OUTCOME, tallies))
        changes = changes_of(report, self.name)
        self.user_properties += [(OUTCOME, f"  {change}") for change in changes]
        bad = [_account(cell, report) for cell in cells if cell.below_bar or not cell.counts.graded]
        bad += _regressions(report, self.name)
        quarantine = next((cell.case.quarantine for cell in cells), None)
        if bad and quarantine:
            pytest.xfail(f"in quarantine until {quarantine.until}: {one_line(quarantine.reason)}")
        if bad or not cells:
            pytest.fail("\n".join(bad) or "was not run", pytrace=False)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show an error that the user can act on without its traceback."""
        if isinstance(excinfo.value, CiEvalsError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, self.line and self.line - 1, self.name


def _variant_prefix(cell: CellView, report: Report) -> str:
    return f"{cell.variant}: " if len(report.plan.variants) > 1 else ""


def _regressions(report: Report, case: str) -> list[str]:
    """Return the regressions of a case that the gate does not let pass."""
    comparison = report.comparison
    if not isinstance(comparison, Comparison):
        return []
    red = (report.gate or Gate()).on_regression == "fail"
    found = (
        cell
        for cell in comparison.select("regressed")
        if cell.case == case and (red or cell.critical)
    )
    return [cell_sentence(comparison, cell) for cell in found]


def _account(cell: CellView, report: Report) -> str:
    """Describe a cell as the command line does."""
    status: Status = "errored" if cell.outcome == "errored" else "failed"
    lines = [f"{cell.case.id}: {_variant_prefix(cell, report)}{cell.tally}  {place_of(cell.case)}"]
    lines += [f"    {reason}" for reason in Failures.of(cell.results(status)).lines()]
    run = cell.run(status)
    if run and run.answer is not None:
        answer = one_line(run.answer, _ANSWER_CHARACTERS) or "(empty)"
        lines.append(f"    answer of run {run.first.run}: {answer}")
    return "\n".join(lines)
