"""Grades stored answers of a suite again, to show how often its judges change their mind."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, product
from pathlib import Path

from ci_evals.engine.cells import Cells, PreparedCell
from ci_evals.engine.fixtures import SetupError, fill_recorded
from ci_evals.engine.grading import RunOutcome, grade_answer
from ci_evals.engine.journal import read_results, restore_output
from ci_evals.engine.judges import ask_each
from ci_evals.engine.setup import OpenSuite, open_suite
from ci_evals.errors import UsageError
from ci_evals.graders.judge import MAX_SAMPLES, LlmJudge
from ci_evals.graders.scoring import model_graders, passes, score_of
from ci_evals.graders.thoughts import settle_thoughts
from ci_evals.model.case import Case
from ci_evals.model.plan import CellKey, plan_runs
from ci_evals.model.report import RunRecord, SuiteReport, Tally
from ci_evals.model.request import Answer
from ci_evals.model.result import Grade, Judging, Result
from ci_evals.suite.types import CheckedSuite


@dataclass(frozen=True, slots=True)
class GradedAnswer:
    """A stored answer with its grades, and the cell that it belongs to."""

    cell: PreparedCell
    result: Result

    @property
    def judge_calls(self) -> int:
        """The number of model calls that grading takes, if no reply has to be asked for again."""
        calls = 0
        for grader in model_graders(self.cell.case.expect):
            if isinstance(grader, LlmJudge):
                calls += grader.samples
            else:
                calls += 1
        return calls


@dataclass(frozen=True, slots=True)
class JudgedAnswers:
    """The answers of a report that judges have graded.

    Args:
        answers: the failed ones first, then the passed ones, each in plan order.
        outdated: the number of further answers, whose question or graders have changed since.
        tallies: the passed and the graded answers of each cell.
        cases: how many cases have a judge.
        runs: the planned runs of most cells.
        samples: the opinions behind each grade; None if judges differ in it.
    """

    answers: Sequence[GradedAnswer]
    outdated: int
    tallies: Sequence[Tally]
    cases: int
    runs: int
    samples: int | None

    @property
    def more_samples(self) -> int | None:
        """Three times the samples, as an odd number; None if judges differ or may take no more."""
        if self.samples is None or self.samples > MAX_SAMPLES // 3:
            return None
        if self.samples % 2 == 0:
            return 3 * self.samples + 1  # an even number could end in a tie
        return 3 * self.samples

    def spread(self, number: int) -> Sequence[GradedAnswer]:
        """Choose answers at even distances, so that failed and passed ones and all cases are
        represented in proportion.

        This is a systematic sample: W. G. Cochran, Sampling Techniques (1977), chapter 8.
        """
        total = len(self.answers)
        number = min(number, total)
        return [self.answers[(2 * place + 1) * total // (2 * number)] for place in range(number)]


def find_judged_answers(suite: CheckedSuite, report: SuiteReport, journal: Path) -> JudgedAnswers:
    """Find the answers of a report that judges have graded.

    Cases in quarantine are left out, and so are confirm runs, whose cases were chosen for their
    failures.

    Raises:
        UsageError: the suite has no judge.
        StorageError: the journal cannot be read.
    """
    judges: dict[str, Sequence[LlmJudge]] = {}
    for case in suite.cases:
        judges_of_case = _judges_of(case)
        if judges_of_case and case.quarantine is None:
            judges[case.id] = judges_of_case
    if not judges:
        raise UsageError(
            f"{suite.file} has no judge to check: add one to `expect`, as in `- judge: polite`"
        )
    planned: dict[CellKey, int] = {}
    tallies: list[Tally] = []
    for cell, runs_of_cell in enumerate(report.plan.counts):
        if runs_of_cell and report.plan.case(cell).id in judges:
            planned[report.plan.key(cell)] = runs_of_cell
            tallies.append(_tally_answers(report.records_of([cell])))
    answers, outdated = _match(suite, _read_planned(journal, planned))
    samples = {judge.samples for case, _, _ in planned for judge in judges[case]}
    same_samples = None
    if len(samples) == 1:
        [same_samples] = samples
    runs = 0
    if planned:
        [(runs, _)] = Counter(planned.values()).most_common(1)
    cases = len({case for case, _, _ in planned})
    return JudgedAnswers(answers, outdated, tallies, cases, runs, same_samples)


def _judges_of(case: Case) -> Sequence[LlmJudge]:
    return [grader for grader in model_graders(case.expect) if isinstance(grader, LlmJudge)]


def _tally_answers(records: Iterable[RunRecord]) -> Tally:
    """Count the passed and the graded runs that have an answer."""
    statuses = [record.status for record in records if not record.unanswered]
    passed = statuses.count("passed")
    return Tally(passed, passed + statuses.count("failed"))


def _read_planned(
    journal: Path, planned: Mapping[CellKey, int]
) -> Mapping[CellKey, Sequence[Result]]:
    """Read the graded answers to the planned runs of some cells. The last result of a run counts.

    Raises:
        StorageError: the journal cannot be read.
    """
    latest: dict[CellKey, dict[int, Result]] = {}
    for _, result in read_results(journal):
        key = (result.case, result.provider, result.prompt)
        if result.run <= planned.get(key, 0):
            latest.setdefault(key, {})[result.run] = result
    graded = {}
    for key, by_run in latest.items():
        in_order = [by_run[run] for run in sorted(by_run)]
        graded[key] = [
            result for result in in_order if result.response and result.status != "errored"
        ]
    return graded


def _match(
    suite: CheckedSuite, results: Mapping[CellKey, Sequence[Result]]
) -> tuple[Sequence[GradedAnswer], int]:
    """Return the answers whose question and graders are unchanged, and the number of others."""
    passed = []
    failed = []
    cells = Cells(suite, plan_runs(suite.cases, suite.columns, suite.runs))
    for number, key in enumerate(cells.plan.keys):
        for result in results.get(key, ()):
            cell = cells.cell(number)
            if result.fingerprint != cell.fingerprint:
                continue
            if cell.setup:
                try:
                    cell = fill_recorded(cells, cell, result)
                except SetupError:  # counts as outdated: a grader needs vars that were not kept
                    continue
            if result.status == "passed":
                passed.append(GradedAnswer(cell, result))
            else:
                failed.append(GradedAnswer(cell, result))
    answers = [*failed, *passed]
    total = sum(len(of_cell) for of_cell in results.values())
    return answers, total - len(answers)


@dataclass(slots=True)
class SecondGrade:
    """An answer with its second grades, and the outcomes of further ones if the verdict changed."""

    answer: GradedAnswer
    outcome: RunOutcome
    further: list[RunOutcome] = field(default_factory=list)

    @property
    def is_judged(self) -> bool:
        return self.outcome.status != "errored"

    @property
    def is_changed(self) -> bool:
        """Return True if the second verdict differs from the first one."""
        return self.is_judged and self.outcome.status != self.answer.result.status

    @property
    def further_tally(self) -> Tally:
        """The passed and the graded ones of the further outcomes."""
        statuses = [outcome.status for outcome in self.further]
        passed = statuses.count("passed")
        return Tally(passed, passed + statuses.count("failed"))


class Regrading:
    """Grades answers again with the graders of their suite.

    Args:
        suite: the suite.
        answers: the answers to grade.
        folder: the folder of their journal, with the rest of long answers.
        further: how often to grade an answer once more after its verdict has changed.
    """

    def __init__(
        self,
        suite: CheckedSuite,
        answers: Sequence[GradedAnswer],
        folder: Path,
        *,
        further: int = 0,
    ) -> None:
        self.seen: list[SecondGrade] = []
        """The grades so far, in the order in which they came."""
        self._suite = suite
        self._answers = answers
        self._folder = folder
        self._further = further
        self._last_run = max((each.result.run for each in answers), default=0)

    async def run(self) -> None:
        """Grade all answers, `max_concurrency` at a time, then those whose verdict has changed.

        Raises:
            ConfigError: a judge or a grader cannot be opened.
            StorageError: the rest of a long answer is missing.
        """
        async with open_suite(self._suite, calls=False) as opened:

            async def regrade(answer: GradedAnswer) -> None:
                outcome = await self._grade(answer, opened, 1)
                self.seen.append(SecondGrade(answer, outcome))

            async def grade_further(again: tuple[SecondGrade, int]) -> None:
                second, number = again
                second.further.append(await self._grade(second.answer, opened, number))

            at_once = self._suite.max_concurrency
            await ask_each(self._answers, regrade, at_once=at_once)
            changed = [each for each in self.seen if each.is_changed]
            numbers = range(2, 2 + self._further)
            await ask_each(product(changed, numbers), grade_further, at_once=at_once)

    async def _grade(self, answer: GradedAnswer, opened: OpenSuite, number: int) -> RunOutcome:
        result = answer.result
        assert result.response is not None
        whole = restore_output(result.response, self._folder)
        response = settle_thoughts(whole, keep=answer.cell.keeps_thoughts)
        # A run number of its own, so that no seeded draw or cache repeats an earlier grade.
        request = answer.cell.request(number * self._last_run + result.run)
        again = Answer(request, response, result.latency_s, result.cost_usd)
        if not answer.cell.setup:
            return await grade_answer(again, opened.judges, executor=opened.executor)
        return await self._ask_judges_alone(again, result.grades, opened)

    async def _ask_judges_alone(
        self, answer: Answer, known: Sequence[Grade], opened: OpenSuite
    ) -> RunOutcome:
        """Ask only the judges of an answer. Its other grades stay: their graders may need what its
        setup made, which was torn down.
        """
        case = answer.request.case
        judging = [any(model_graders([expectation])) for expectation in case.expect]
        judges = tuple(compress(case.expect, judging))
        request = replace(answer.request, case=replace(case, expect=judges))
        outcome = await grade_answer(
            replace(answer, request=request), opened.judges, executor=opened.executor
        )
        if outcome.status == "errored":
            return outcome
        new = iter(outcome.grades)
        grades = []
        for grade, is_of_judge in zip(known, judging, strict=True):
            if is_of_judge:
                grades.append(next(new))
            else:
                grades.append(grade)
        outcome.grades = tuple(grades)
        outcome.score = score_of(grades)
        outcome.status = "passed" if passes(grades, case.threshold) else "failed"
        return outcome

    @property
    def judging(self) -> Judging:
        """The calls, tokens and cost of models so far."""
        total = Judging()
        for each in self.seen:
            for outcome in (each.outcome, *each.further):
                if outcome.judging is not None:
                    total += outcome.judging
        return total
