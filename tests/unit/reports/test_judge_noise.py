"""The example of docs/running.md: what `judge check` prints of a results folder."""

from collections.abc import Sequence
from pathlib import Path

from factories import grade_of, result_of
from suites import ECHO, ONE_CASE, write_suite

from ci_evals.engine.cells import Cells
from ci_evals.engine.grading import RunOutcome
from ci_evals.engine.regrading import GradedAnswer, JudgedAnswers, Regrading, SecondGrade
from ci_evals.model.plan import plan_runs
from ci_evals.model.report import Tally
from ci_evals.model.result import Judging, Status
from ci_evals.reports.judge_noise import render_judge_noise, report_noise
from ci_evals.suite.load import load_suite

DOCS = Path(__file__).parents[3] / "docs"


def test_the_example_in_the_docs_is_what_is_printed(tmp_path: Path) -> None:
    suite = load_suite(write_suite(tmp_path, [ONE_CASE], providers=[ECHO]), {})
    cell = Cells(suite, plan_runs(suite.cases, suite.columns, 3)).cell(0)
    judging = Judging(calls=1, cost_usd=0.0006)

    def graded_twice(
        before: Status,
        after: Status,
        reason: str = "",
        case: str = "capital",
        run: int = 1,
        further: Sequence[Status] = (),
    ) -> SecondGrade:
        first = grade_of(passed=before == "passed")
        result = result_of(case, before, run=run, grades=(first,))
        second = grade_of(passed=after == "passed", reason=reason)
        outcome = RunOutcome(after, grades=(second,), judging=judging)
        outcomes = [RunOutcome(status, judging=judging) for status in further]
        return SecondGrade(GradedAnswer(cell, result), outcome, outcomes)

    regrading = Regrading(suite, (), tmp_path)
    regrading.seen += [
        graded_twice(
            "failed",
            "passed",
            "judged pass: it apologises",
            "refund-3",
            2,
            further=("passed", "failed", "failed", "passed"),
        ),
        graded_twice(
            "passed",
            "failed",
            "judged fail: no next step is named",
            "late",
            further=("failed", "failed", "passed", "failed"),
        ),
        *[graded_twice("passed", "passed") for _ in range(38)],
    ]
    tallies = [Tally(3, 3)] * 30 + [Tally(2, 3)] * 7 + [Tally(1, 3)] + [Tally(0, 3)] * 2
    answers = [regrading.seen[0].answer] * 120
    found = JudgedAnswers(answers, 0, tallies, cases=40, runs=3, samples=1)
    text = render_judge_noise(report_noise(found, 40, regrading), "table")
    assert f"```text\n{text}```\n" in (DOCS / "running.md").read_text("utf-8")
