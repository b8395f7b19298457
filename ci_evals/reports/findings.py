"""What a reviewer looks for in a report: cells below their bar, flaky cells, errors by reason."""

from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ci_evals.columns import STATUSES
from ci_evals.errors import ErrorKind
from ci_evals.matrix import CellKey
from ci_evals.model import Case, Result, Status, Variant
from ci_evals.report import CellReport, Counts, Report
from ci_evals.reports.figures import number_of
from ci_evals.reports.summary import Summary
from ci_evals.reports.text import one_line
from ci_evals.response import Response
from ci_evals.rules import Gate
from ci_evals.stats.flips import flip_rate
from ci_evals.verdict.unanswered import same_reason

Outcome = Literal["passed", "flaky", "failed", "errored", "not run"]

REASON_CHARACTERS = 300
DETAIL_CHARACTERS = 2000
MAX_CASES_OF_ERROR = 3
MAX_CALLS_SHOWN = 100


class JudgedCell(Struct, frozen=True):
    """One case on one variant, held against the pass rate that it must reach."""

    cell: int
    case: Case
    variant: Variant
    counts: Counts
    bar: float

    @property
    def key(self) -> CellKey:
        return self.case.id, self.variant.provider, self.variant.prompt

    @property
    def outcome(self) -> Outcome:
        """`failed` is below the bar, `flaky` within it but with failed runs, `errored` without any graded run."""
        return _outcome(self.counts, self.bar)

    @property
    def flip_rate(self) -> float | None:
        """The chance that two of its runs disagree; None with fewer than two."""
        return flip_rate(self.counts.passed, self.counts.graded)

    @property
    def tally(self) -> str:
        """`3 of 5 runs passed`, of the runs that were graded, and what became of the others."""
        counts = self.counts
        if counts.errored and not counts.graded and not counts.missing:
            return f"{'all ' if counts.errored > 1 else ''}{number_of(counts.errored, 'run')} errored"
        parts = [f"{counts.passed:,} of {counts.graded:,} {'run' if counts.graded == 1 else 'runs'} passed"]
        parts += [f"{counts.errored:,} errored"] if counts.errored else []
        parts += [f"{counts.missing:,} not run"] if counts.missing else []
        return ", ".join(parts)


class Findings(Struct, frozen=True):
    """The cells that need a look. `failed` and `flaky` have the lowest share of passed runs first."""

    failed: tuple[JudgedCell, ...]
    flaky: tuple[JudgedCell, ...]
    errored: tuple[JudgedCell, ...]


class ErrorGroup(Struct, frozen=True):
    """Errored runs of one variant that ended for the same reason, in the words of the first.

    `cases` are those that they are runs of, in plan order; `kind` is None where no error was noted.
    """

    runs: int
    variant: Variant
    message: str
    cases: tuple[Case, ...]
    kind: ErrorKind | None


class _Ended(Struct, frozen=True):
    """What the runs of an `ErrorGroup` have in common."""

    variant: Variant
    kind: ErrorKind | None
    reason: Hashable


def judged_cells(summary: Summary, variant: Variant | None = None) -> Iterator[JudgedCell]:
    """Every cell in plan order, or those of one variant, with its bar."""
    report = summary.report
    cells = report.cells if variant is None else report.cells_among(report.cells_of(variant))
    return _judged(cells, summary.gate)


def troubled_cells(summary: Summary, variant: Variant | None = None) -> Iterator[JudgedCell]:
    """Those of `judged_cells` of which a run failed, or none was graded: all others passed, whatever their bar."""
    report = summary.report
    cells = range(len(report.matrix)) if variant is None else report.cells_of(variant)
    chosen = [cell for cell in cells if (counts := report.by_cell[cell]).failed or not counts.passed]
    return _judged(report.cells_among(chosen), summary.gate)


def findings(summary: Summary) -> Findings:
    """The cells that did not simply pass, by what became of them."""
    by_outcome: dict[Outcome, list[JudgedCell]] = {"failed": [], "flaky": [], "errored": []}
    for cell in troubled_cells(summary):
        if (named := by_outcome.get(cell.outcome)) is not None:
            named.append(cell)
    for outcome in ("failed", "flaky"):
        by_outcome[outcome].sort(key=_share)
    return Findings(tuple(by_outcome["failed"]), tuple(by_outcome["flaky"]), tuple(by_outcome["errored"]))


def results_of(report: Report, cell: int, status: Status, limit: int | None = None) -> tuple[Result, ...]:
    """The results of a cell that ended with this status; only the first `limit` if there is one."""
    code = STATUSES.index(status)
    slots = [slot for slot in report.matrix.slots(cell) if report.columns.status[slot] == code]
    return tuple(report.results(slots[:limit]))


def failed_runs(report: Report, cell: int, limit: int | None = None) -> tuple[Result, ...]:
    """The failed results of a cell, those of its confirm runs included; only the first `limit` if there is one."""
    planned = results_of(report, cell, "failed", limit)
    if report.confirmation is None:
        return planned
    return (planned + results_of(report.confirmation, cell, "failed", limit))[:limit]


def why(result: Result) -> tuple[str, ...]:
    """Why a run did not pass: its error, or each failed grade as `contains: expected 'Paris', got 'Lyon'`."""
    if result.error is not None:
        return (one_line(result.error.message or result.error.kind, REASON_CHARACTERS),)
    failed = tuple(
        one_line(f"{grade.grader}: {grade.reason}", REASON_CHARACTERS) for grade in result.grades if not grade.passed
    )
    if failed:
        return failed
    return ("no grader says why",) if result.score is None else (f"the score {result.score:.2f} is below its bar",)


def reasons(results: Iterable[Result]) -> list[tuple[str, int]]:
    """Every distinct reason with the number of runs that it stopped, the most frequent first."""
    return Counter(reason for result in results for reason in dict.fromkeys(why(result))).most_common()


def counted_reasons(results: Sequence[Result], limit: int) -> list[str]:
    """The reasons of failed runs as lines, `2 of 3 failed runs: contains: …` where they differ.

    At most `limit`, and one more to say how many were left out.
    """
    counted = reasons(results)
    same = len(results) == 1 or all(count == len(results) for _, count in counted)
    lines = [
        reason if same else f"{count:,} of {len(results):,} failed runs: {reason}" for reason, count in counted[:limit]
    ]
    left_out = len(counted) - len(lines)
    return [*lines, f"… and {number_of(left_out, 'other reason')}"] if left_out else lines


def error_groups(report: Report) -> list[ErrorGroup]:
    """Errored runs by variant and reason, the largest group first."""
    code = STATUSES.index("errored")
    slots = array("Q", (slot for slot, status in enumerate(report.columns.status) if status == code))
    words: dict[_Ended, str] = {}
    runs_of: dict[_Ended, Counter[int]] = {}
    for slot, result in zip(slots, report.results(slots), strict=True):
        message, error = why(result)[0], result.error
        variant = Variant(result.provider, result.prompt)
        how = _Ended(variant, error.kind, same_reason(error)) if error else _Ended(variant, None, message)
        words.setdefault(how, message)
        runs_of.setdefault(how, Counter())[report.matrix.cell_of(slot)] += 1
    groups = (
        ErrorGroup(cells.total(), how.variant, words[how], tuple(map(report.matrix.case, cells)), how.kind)
        for how, cells in runs_of.items()
    )
    return sorted(groups, key=lambda group: -group.runs)


def place_of(case: Case) -> str:
    """Where the user wrote a case: `evals.yaml:12`."""
    return f"{case.file}:{case.line}" if case.line else case.file


def over_budget(report: Report, limit: int) -> tuple[Result, ...]:
    """The first `limit` runs, in plan order, that took more than `budget.per_run` allows."""
    count = min(limit, report.columns.budget_violations)
    return tuple(islice((result for result in report.results() if result.budget_violations), count)) if count else ()


def input_text(case: Case) -> str:
    """What a case asks, for a person: its input, its conversation or its vars."""
    if case.user is not None:
        return f"{case.user.persona}\nwants: {case.user.goal}"
    if case.turns:
        return "\n".join(f"user: {line}" for line in case.turns)
    if case.messages and case.input is None:
        return "\n".join(f"{message.role}: {message.content}" for message in case.messages)
    if case.input is not None:
        return _plain(case.input)
    return "\n".join(f"{name}: {_plain(value)}" for name, value in case.vars.items())


def answer_text(result: Result) -> str | None:
    """What came back: the text, then a line for each of the first tool calls; None if there was no answer."""
    if result.response is None:
        return None
    if turns := result.response.turns:
        return "\n".join(f"user: {turn.user}\nassistant: {_said(turn.response)}" for turn in turns)
    return _said(result.response)


def _said(response: Response) -> str:
    made = response.calls_made
    calls = [f"→ {call.name} {_plain(call.arguments)}" for call in made[:MAX_CALLS_SHOWN]]
    more = [f"… and {number_of(len(made) - len(calls), 'more tool call')}"] if len(made) > len(calls) else []
    return "\n".join(filter(None, [response.output, *calls, *more]))


def detail_text(result: Result) -> str | None:
    """The end of what a run without a good answer left behind: a traceback, stderr."""
    return result.error.detail[-DETAIL_CHARACTERS:] if result.error and result.error.detail else None


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        return repr(value)


@lru_cache(maxsize=4096)  # thousands of cells share a few
def _outcome(counts: Counts, bar: float) -> Outcome:
    share = counts.pass_rate
    if share is None:
        return "errored" if counts.errored else "not run"
    if share < bar:
        return "failed"
    return "flaky" if counts.failed else "passed"


def _judged(cells: Iterable[CellReport], gate: Gate | None) -> Iterator[JudgedCell]:
    for cell in cells:
        yield JudgedCell(cell.cell, cell.case, cell.variant, cell.counts, bar_of(cell.case, cell.variant, gate))


def bar_of(case: Case, variant: Variant, gate: Gate | None) -> float:
    """The case's own bar, else the strictest of the gate's that cover the cell, else every run."""
    if case.min_pass_rate is not None:
        return case.min_pass_rate
    if gate is None:
        return 1.0
    covering = (gate.min_pass_rate, gate.providers.get(variant.provider), *map(gate.tag_bar, case.tags))
    return max((bar for bar in covering if bar is not None), default=1.0)


def _share(cell: JudgedCell) -> float:
    return cell.counts.pass_rate or 0.0
