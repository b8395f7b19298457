"""The runs of a cell that report.html shows: those worth a look, and those that ended alike as one."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ci_evals.model import Grade, Result, Status
from ci_evals.report import Report
from ci_evals.reports.alike import common_grades, ended, verdicts_of
from ci_evals.reports.figures import seconds, span, usd
from ci_evals.reports.findings import JudgedCell, answer_text, detail_text, failed_runs, results_of, why
from ci_evals.reports.text import shortened, visible

MAX_GRADES = 50
_MAX_RUNS = 3
_ANSWER_CHARACTERS = 8000


class ShownRuns(Struct, frozen=True):
    """Runs that nothing tells apart but their number, what they took, and what was said of that in their favour."""

    results: tuple[Result, ...]
    answer: str | None
    detail: str | None
    reasons: tuple[str, ...]

    @property
    def status(self) -> Status:
        return self.results[0].status

    @property
    def grades(self) -> Sequence[Grade]:
        """The grades of all, without a reason that is not that of all."""
        return common_grades(result.grades[:MAX_GRADES] for result in self.results)

    @property
    def more_grades(self) -> int:
        return len(self.results[0].grades) - len(self.grades)

    @property
    def title(self) -> str:
        """`Run 2 failed`, `Runs 1, 2 and 3 failed alike`."""
        return ended([result.run for result in self.results], self.status).capitalize()

    @property
    def facts(self) -> str:
        """`1.10 s to 1.20 s · $0.0010 · 1 to 5 attempts`."""
        latency = span((result.latency_s for result in self.results), seconds)
        cost = span((result.cost_usd for result in self.results if result.cost_usd is not None), usd)
        attempts = span((result.attempts for result in self.results), "{:,}".format)
        return " · ".join(filter(None, (latency, cost, f"{attempts} attempts" if attempts != "1" else "")))


def shown_runs(results: Iterable[Result]) -> list[ShownRuns]:
    """Put runs together that ended for the same reasons with the same answer, in the order of the first of each."""
    alike: dict[object, list[Result]] = {}
    for result in results:
        scores = tuple(grade.score for grade in result.grades)
        look = (_reasons(result), verdicts_of(result.grades), scores, answer_text(result), detail_text(result))
        alike.setdefault(look, []).append(result)
    return [_shown(tuple(group)) for group in alike.values()]


def runs_worth_a_look(report: Report, cell: JudgedCell) -> tuple[tuple[Result, ...], int]:
    """The first runs that show what became of a cell, and how many of the kind there are."""
    if cell.outcome in ("failed", "flaky"):
        more = report.confirmation.by_cell[cell.cell].failed if report.confirmation else 0
        return failed_runs(report, cell.cell, _MAX_RUNS), cell.counts.failed + more
    if cell.outcome == "errored":
        return results_of(report, cell.cell, "errored", _MAX_RUNS), cell.counts.errored
    shown = results_of(report, cell.cell, "passed", 1)
    return shown, len(shown)


def _shown(results: tuple[Result, ...]) -> ShownRuns:
    answer, detail = answer_text(results[0]), detail_text(results[0])
    return ShownRuns(
        results,
        None if answer is None else shortened(answer, _ANSWER_CHARACTERS),
        None if detail is None else visible(detail),
        _reasons(results[0]),
    )


def _reasons(result: Result) -> tuple[str, ...]:
    """Why there was nothing to grade."""
    return why(result) if result.error is not None else ()
