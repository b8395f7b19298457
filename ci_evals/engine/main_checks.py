"""Grades the answers in a journal by the checks of another version of their suite."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ci_evals.engine.cells import Cells, PreparedCell
from ci_evals.engine.grading import RunOutcome, grade_answer
from ci_evals.engine.journal import decode_entry, read_lines, restore_output
from ci_evals.engine.judges import ask_each
from ci_evals.engine.setup import OpenSuite, open_suite
from ci_evals.model.fingerprint import digest
from ci_evals.model.plan import plan_runs
from ci_evals.model.request import Answer
from ci_evals.model.result import Grade, Judging, Result
from ci_evals.model.ruler import StoredAnswers
from ci_evals.suite.types import CheckedSuite


class KeptGrades:
    """Grades in a file, so that a resumed invocation pays no judge twice.

    An answer is known by its line in the journal and by the checks that graded it.

    Args:
        path: the file.
        resume: continue the file; otherwise it begins anew.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self._path = path
        self._passed: dict[str, bool] = {}
        if not resume:
            path.unlink(missing_ok=True)
        elif path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                with suppress(ValueError):  # a kill has torn it
                    answer, passed = json.loads(line)
                    self._passed[answer] = passed

    def get(self, answer: str) -> bool | None:
        """Return whether an answer passes; None if it has not been graded."""
        return self._passed.get(answer)

    def add(self, answer: str, *, passed: bool) -> None:
        """Keep the grade of an answer."""
        self._passed[answer] = passed
        self._path.parent.mkdir(parents=True, exist_ok=True)  # main may not have run at all
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([answer, passed]) + "\n")


@dataclass(frozen=True, slots=True)
class _Stored:
    """An answer in the journal, and the cell of the suite whose checks grade it."""

    cell: PreparedCell
    result: Result
    key: str


async def grade_stored(
    suite: CheckedSuite,
    answers: StoredAnswers,
    kept: KeptGrades,
    note_judging: Callable[[Judging], None],
) -> list[bool | None]:
    """Grade answers by the checks of a suite, and return whether each passes.

    Where a judge is the same as before, its grade is taken over. None for an answer that could not
    be graded, and for one that fixtures took part in: what graders would look at is gone.

    Args:
        suite: the suite.
        answers: the answers.
        kept: the grades of earlier invocations, to which the new ones are added.
        note_judging: called with the calls of judges for each answer that they have graded.

    Raises:
        ConfigError: a judge or a grader cannot be opened.
        StorageError: the journal, or the rest of a long answer, cannot be read.
    """
    cells = Cells(suite, plan_runs(suite.cases, suite.columns, suite.runs))
    plan = cells.plan
    numbers = {key: number for number, key in enumerate(plan.keys)}
    own_checks = {case.id: suite.check_fingerprints(case) for case in suite.cases}
    stored = []
    lines = read_lines(answers.journal, answers.offsets)
    for name, line in zip(answers.cells, lines, strict=True):
        number = numbers[name]
        checks = suite.case_fingerprint(plan.row(number))
        key = digest([line.decode(), checks])
        stored.append(_Stored(cells.cell(number), decode_entry(line), key))
    async with open_suite(suite, calls=False) as opened:

        async def grade(answer: _Stored) -> bool | None:
            cell, result = answer.cell, answer.result
            if cell.setup:
                return None
            if (passed := kept.get(answer.key)) is not None:
                return passed
            earlier = dict(zip(answers.checks.get(cell.case.id, ()), result.grades, strict=False))
            known = [earlier.get(check) for check in own_checks[cell.case.id]]
            outcome = await _grade(cell, result, known, opened, answers.journal.parent)
            if outcome.judging is not None:
                note_judging(outcome.judging)
            if outcome.status == "errored":
                return None
            passed = outcome.status == "passed"
            kept.add(answer.key, passed=passed)
            return passed

        return await ask_each(stored, grade, at_once=suite.max_concurrency)


async def _grade(
    cell: PreparedCell,
    result: Result,
    known: Sequence[Grade | None],
    opened: OpenSuite,
    folder: Path,
) -> RunOutcome:
    assert result.response is not None
    response = restore_output(result.response, folder)
    answer = Answer(cell.request(result.run), response, result.latency_s, result.cost_usd)
    return await grade_answer(answer, opened.judges, known, opened.executor)
