"""The process that runs main's code: reads jobs line by line from stdin, and answers on stdout.

It is started as a file by the parent's interpreter, and takes ci-evals from where the parent has
it. Stdin is its lifeline: at the end of that, it ends together with everything that it started.
The first line names main's suite, each further one is a job. All lines are JSON.
"""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated, Any, BinaryIO, Literal
from uuid import uuid4

from pydantic import Field, TypeAdapter

from ci_evals.engine.journal import MAIN_JOURNAL, headers
from ci_evals.engine.main_checks import KeptGrades, grade_stored
from ci_evals.engine.runner import Run
from ci_evals.errors import CiEvalsError, ConfigError, UsageError, describe_exception
from ci_evals.executors import LOCAL
from ci_evals.files import write_atomically
from ci_evals.invocation import Invocation, Watcher
from ci_evals.merge_base.environment import is_of_change
from ci_evals.model.case import Case
from ci_evals.model.plan import CellKey, plan_runs
from ci_evals.model.report import Checkout, Outcome, RunOnMain, SuiteReport
from ci_evals.model.result import Judging, Result
from ci_evals.model.ruler import MainRules, StoredAnswers
from ci_evals.model.rules import Budget
from ci_evals.providers.subprocess import kill_all
from ci_evals.redaction import Redactor
from ci_evals.reports import report_json
from ci_evals.reports.summary import summarize
from ci_evals.session import execute
from ci_evals.suite.environment import read_dotenv
from ci_evals.suite.load import load_suite
from ci_evals.suite.overrides import Overrides, apply_overrides
from ci_evals.suite.types import CheckedSuite

_REPORT = "main.json"
_GRADES = "grades.jsonl"
_PROBLEM_CHARACTERS = 10_000  # the parent reads no line of any length
_ENDED = 137  # the exit code that shells report for SIGKILL


@dataclass(frozen=True, slots=True, kw_only=True)
class MainSuite:
    """Main's suite, and how it is run.

    Args:
        config: main's suite file.
        out: the folder for its journal and report.
        revision: main's commit.
        root: the root of the user's checkout, whose modules must not be used.
        overrides: values that win over main's suite; they select no cases.
        cases: the ids of the cases to run, if main has them; None for all.
        takes_turns: the two sides never run at once, so that each has half of the budget;
            otherwise, half of the calls and of the rates are main's.
        budget: the change's budget, which bounds main's, too, if the sides take turns.
        resume: continue the journal of an earlier process.
        sources: main's journals of earlier attempts of the same job.
    """

    config: Path
    out: Path
    revision: str
    root: Path
    overrides: Overrides
    cases: Sequence[str] | None
    takes_turns: bool
    budget: Budget
    resume: bool
    sources: Sequence[Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanJob:
    """Run the plan of main's suite once."""

    do: Literal["run the plan"] = "run the plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellsJob:
    """Run some cells beyond the plan of main's suite.

    Args:
        totals: the number of such runs of each cell, those of earlier jobs included.
    """

    totals: Sequence[tuple[CellKey, int]]
    do: Literal["run cells"] = "run cells"


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesJob:
    """Say what main's suite asks and expects."""

    do: Literal["describe"] = "describe"


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesJob:
    """Return cases of main's suite, without what is expected."""

    names: Sequence[str]
    do: Literal["show cases"] = "show cases"


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeJob:
    """Grade answers of the change by main's checks."""

    answers: StoredAnswers
    do: Literal["grade"] = "grade"


Job = Annotated[PlanJob | CellsJob | RulesJob | CasesJob | GradeJob, Field(discriminator="do")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What became of a job.

    Args:
        foreign: files of the change that main's code has imported.
        interrupted: why not everything was run; None if it was.
        suite: the name of main's suite.
        report: the path of main's report.json, of its plan.
        outcomes: the runs beyond the plan of each cell that main has, in order.
        rules: what main's suite asks and expects.
        cases: cases of main's suite, without what is expected.
        passed: whether each answer passes main's checks; None if they could not grade it.
    """

    foreign: Sequence[str] = ()
    interrupted: str | None = None
    suite: str = ""
    report: str = ""
    outcomes: Sequence[tuple[CellKey, Sequence[RunOnMain]]] = ()
    rules: MainRules | None = None
    cases: Sequence[Case] = ()
    passed: Sequence[bool | None] = ()


class _Answers:
    """Writes answers to the parent, one a line."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def send(self, answer: Mapping[str, Any]) -> None:
        self._stream.write(json.dumps(answer).encode() + b"\n")
        self._stream.flush()

    def send_problem(self, text: str) -> None:
        """Say why a job could not be done. The parent takes secrets out, and shortens the rest."""
        self.send({"problem": text[:_PROBLEM_CHARACTERS]})


class _Spending(Watcher):
    """Tells the parent when runs begin, since both sides begin together, and what all runs have
    cost so far, since a budget covers both sides.
    """

    def __init__(self, answers: _Answers) -> None:
        self._answers = answers
        self._runs = self._judge_calls = 0
        self._run: Run | None = None
        self._cost_usd, self._tokens = 0.0, 0
        """What the runs of earlier jobs have cost."""

    def watch(self, run: Run) -> AbstractAsyncContextManager[None]:
        self._cost_usd, self._tokens = self._so_far
        self._run = run
        self._answers.send({"begun": True})
        return super().watch(run)

    @property
    def _so_far(self) -> tuple[float, int]:
        """The cost in USD and the tokens of all runs."""
        if self._run is None:
            return self._cost_usd, self._tokens
        spending = self._run.spending
        return self._cost_usd + spending.cost_usd, self._tokens + spending.tokens

    def note_result(self, result: Result) -> None:
        if not result.recorded:
            self._runs += 1
        if result.judging is not None:
            self._judge_calls += result.judging.calls
        self._send()

    def note_judging(self, judging: Judging) -> None:
        """Count calls of judges that grade answers of the change."""
        self._cost_usd += judging.cost_usd or 0.0
        self._tokens += judging.input_tokens + judging.output_tokens
        self._judge_calls += judging.calls
        self._send()

    def _send(self) -> None:
        cost_usd, tokens = self._so_far
        self._answers.send({"spent": [self._runs, self._judge_calls, cost_usd, tokens]})


def serve() -> None:
    """Do jobs until stdin ends."""
    # Copies with other numbers: code under test must neither read the jobs nor write answers.
    lines = os.fdopen(os.dup(0), "rb")
    answers = _Answers(os.fdopen(os.dup(1), "wb"))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    received: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read, args=(lines, received), daemon=True).start()
    main = None
    while True:
        line = received.get()
        try:
            if main is None:
                main = _Main(TypeAdapter(MainSuite).validate_json(line), answers)
                continue
            done = main.do(TypeAdapter[Job](Job).validate_json(line))
        except ConfigError as error:
            answers.send_problem(str(error.problems[0]))
        except CiEvalsError as error:
            answers.send_problem(str(error))
        except Exception as error:  # noqa: BLE001  main's own code may raise anything
            answers.send_problem(describe_exception(error))
        else:
            answers.send({"done": TypeAdapter(Done).dump_python(done, mode="json")})


def _read(lines: BinaryIO, received: SimpleQueue[bytes]) -> None:
    for line in lines:
        received.put(line)
    kill_all()
    os._exit(_ENDED)


class _Main:
    """Main's suite, which is loaded by the first job."""

    def __init__(self, named: MainSuite, answers: _Answers) -> None:
        self._named = named
        self._spending = _Spending(answers)
        self._resume = named.resume

    @cached_property
    def _loaded(self) -> CheckedSuite:
        """The suite as it is written."""
        named = self._named
        for name, value in read_dotenv(named.config.parent).items():
            os.environ.setdefault(name, value)  # as for the change's code
        suite = load_suite(named.config, os.environ, named.overrides)
        return _select(suite, named.cases)

    @cached_property
    def _suite(self) -> CheckedSuite:
        """The suite as it is run: its plan once, without anything that depends on the results."""
        from ci_evals.alongside import halve_budget, halve_limits

        named, suite = self._named, self._loaded
        if named.takes_turns:
            # Main runs first, so that nobody else counts what it takes from the change's budget.
            suite = replace(suite, budget=halve_budget(_smaller(suite.budget, named.budget)))
        else:
            suite = halve_limits(suite)
        # Elsewhere, nobody would see modules of the change, and the files might not be main's.
        settings = replace(suite.settings, executor=LOCAL)
        return replace(suite, max_runs=None, stop_early=False, confirm_runs=0, settings=settings)

    @cached_property
    def _kept_grades(self) -> KeptGrades:
        """The grades of the change's answers, those of an invocation that is resumed included."""
        return KeptGrades(self._named.out / _GRADES, resume=self._named.resume)

    def do(self, job: Job) -> Done:
        """Do a job, and return what became of it.

        Raises:
            Exception: main's suite cannot be loaded, opened or run.
        """
        match job:
            case PlanJob():
                done = self._run_plan()
            case CellsJob():
                done = self._run_cells(job)
            case RulesJob():
                done = Done(rules=self._loaded.main_rules())
            case CasesJob():
                wanted = frozenset(job.names)
                # A simulated user needs a provider of main's, which the change may not have.
                cases = [
                    replace(case, expect=())
                    for case in self._suite.cases
                    if case.id in wanted and case.user is None
                ]
                done = Done(cases=cases)
            case GradeJob():
                note = self._spending.note_judging
                grading = grade_stored(self._suite, job.answers, self._kept_grades, note)
                done = Done(passed=asyncio.run(grading))
        return replace(done, foreign=_foreign_modules(self._named.root))

    def _run_plan(self) -> Done:
        path = self._named.out / _REPORT
        path.unlink(missing_ok=True)  # an earlier one is no evidence of this commit
        report = self._execute()
        write_atomically(path, report_json.render(summarize(report, self._suite.gate)))
        return Done(suite=self._suite.name, report=str(path), interrupted=report.interrupted)

    def _run_cells(self, job: CellsJob) -> Done:
        # The parent's names are those of reports, without secrets.
        redactor, suite = Redactor(self._suite.secrets), self._suite
        keys = plan_runs(suite.cases, suite.columns, 1).keys
        shown = {redactor.clean(key): key for key in keys}
        totals = {shown[key]: total for key, total in job.totals if key in shown}
        report = self._execute(totals)
        outcomes = []
        for cell, runs in enumerate(report.plan.counts):
            if runs:
                results = report.results(report.plan.indices(cell))
                key = redactor.clean(keys[cell])
                outcomes.append((key, [_run_on_main(result) for result in results]))
        return Done(interrupted=report.interrupted, outcomes=outcomes)

    def _execute(self, beyond_plan: Mapping[CellKey, int] | None = None) -> SuiteReport:
        named, journal = self._named, self._named.out / MAIN_JOURNAL
        of_commit = [path for path in named.sources if _is_of(path, named.revision)]
        invocation = Invocation(
            suite=self._suite,
            beyond_plan=beyond_plan,
            journal=journal,
            resume=self._resume and _is_of(journal, named.revision),
            sources=tuple(of_commit),
            checkout=Checkout(named.revision),
            run_id=uuid4().hex,
            files=named.out,
        )
        self._resume = True  # from now on, the journal is this process's own
        return asyncio.run(execute(invocation, watcher=self._spending)).report


def _run_on_main(result: Result) -> RunOnMain:
    outcome = None
    if result.status != "errored":
        outcome = Outcome(result.status == "passed", result.score)
    return RunOnMain(outcome=outcome, started_at=result.started_at)


def _is_of(journal: Path, revision: str) -> bool:
    """Return True if a journal has runs of this commit of main only."""
    return journal.exists() and all(
        header.suite.revision == revision for header in headers(journal)
    )


def _smaller(one: Budget, other: Budget) -> Budget:
    """Return a budget with the smaller of each limit of an invocation."""

    def least(*limits: float | None) -> float | None:
        return min((limit for limit in limits if limit is not None), default=None)

    return replace(
        one,
        max_cost_usd=least(one.max_cost_usd, other.max_cost_usd),
        max_tokens=least(one.max_tokens, other.max_tokens),
        max_duration_s=least(one.max_duration_s, other.max_duration_s),
    )


def _select(suite: CheckedSuite, cases: Sequence[str] | None) -> CheckedSuite:
    """Return a suite with those of some cases that it has."""
    if cases is None:
        return suite
    wanted = frozenset(cases)
    known = tuple(case.id for case in suite.cases if case.id in wanted)
    if not known:
        raise UsageError("none of these cases is there")
    if len(known) == len(suite.cases):
        return suite
    return apply_overrides(suite, Overrides(cases=known))


def _foreign_modules(root: Path) -> list[str]:
    """Return the files of the change's checkout that were imported."""
    own = Path(__file__).parents[1]
    foreign = []
    for module in tuple(sys.modules.values()):
        place = getattr(module, "__file__", None)
        if isinstance(place, str):
            path = Path(place).resolve()
            if is_of_change(path, root) and not path.is_relative_to(own):
                foreign.append(path.relative_to(root).as_posix())
    return sorted(foreign)
