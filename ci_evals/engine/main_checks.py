"""Grades the answers in a journal by the checks of another version of their suite."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ci_evals.engine.cells import Cells, PreparedCell
from ci_evals.engine.grading import RunOutcome, grade_answer
from ci_evals.engine.journal import decode_entry, read_lines, restore_output
from ci_evals.engine.judges import ask_each
from ci_evals.engine.setup import OpenSuite, open_suite
from ci_evals.model.plan import plan_runs
from ci_evals.model.request import Answer
from ci_evals.model.result import Grade, Judging, Result
from ci_evals.model.ruler import StoredAnswers
from ci_evals.suite.types import CheckedSuite


async def grade_stored(
    suite: CheckedSuite, answers: StoredAnswers, note_judging: Callable[[Judging], None]
) -> list[bool | None]:
    """Grade answers by the checks of a suite, and return whether each passes.

    Where a judge is the same as before, its grade is taken over. None for an answer that could not
    be graded, and for one that fixtures took part in: what graders would look at is gone.

    Args:
        suite: the suite.
        answers: the answers.
        note_judging: called with the calls of judges for each answer that they have graded.

    Raises:
        ConfigError: a judge or a grader cannot be opened.
        StorageError: the journal, or the rest of a long answer, cannot be read.
    """
    cells = Cells(suite, plan_runs(suite.cases, suite.columns, suite.runs))
    numbers = {key: number for number, key in enumerate(cells.plan.keys)}
    own_checks = {case.id: suite.check_fingerprints(case) for case in suite.cases}
    lines = read_lines(answers.journal, answers.offsets)
    stored = [
        (cells.cell(numbers[key]), decode_entry(line))
        for key, line in zip(answers.cells, lines, strict=True)
    ]
    async with open_suite(suite, calls=False) as opened:

        async def grade(answer: tuple[PreparedCell, Result]) -> bool | None:
            cell, result = answer
            if cell.setup:
                return None
            earlier = dict(zip(answers.checks.get(cell.case.id, ()), result.grades, strict=False))
            known = [earlier.get(check) for check in own_checks[cell.case.id]]
            outcome = await _grade(cell, result, known, opened, answers.journal.parent)
            if outcome.judging is not None:
                note_judging(outcome.judging)
            if outcome.status == "errored":
                return None
            return outcome.status == "passed"

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
