"""The process that runs main's code: reads plans line by line from stdin, and answers on stdout.

It is started as a file by the parent's interpreter, and takes ci-evals from where the parent has
it. Stdin is its lifeline: at the end of that, it ends together with everything that it started.
Both are JSON.
"""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO
from uuid import uuid4

from pydantic import TypeAdapter

from ci_evals.engine.journal import headers
from ci_evals.engine.runner import Run
from ci_evals.errors import CiEvalsError, ConfigError, UsageError, describe_exception
from ci_evals.files import write_atomically
from ci_evals.merge_base.environment import is_of_change
from ci_evals.model.report import Checkout
from ci_evals.model.result import Result
from ci_evals.providers.subprocess import kill_all
from ci_evals.reports import report_json
from ci_evals.reports.summary import summarize
from ci_evals.session import Invocation, Watcher, execute, halve_budget, halve_limits
from ci_evals.suite.environment import read_dotenv
from ci_evals.suite.load import load_suite
from ci_evals.suite.overrides import Overrides, apply_overrides
from ci_evals.suite.types import CheckedSuite

_JOURNAL = "main.jsonl"
_REPORT = "main.json"
"""The names of main's files. Whatever looks for the change's journal or report, in a folder or in
an artifact, must not find main's.
"""
_PROBLEM_CHARACTERS = 10_000  # the parent reads no line of any length
_ENDED = 137  # the exit code that shells report for SIGKILL


@dataclass(frozen=True, slots=True, kw_only=True)
class MainPlan:
    """What to run of main's suite.

    Args:
        config: main's suite file.
        out: the folder for its journal and report.
        revision: main's commit.
        root: the root of the user's checkout, whose modules must not be used.
        overrides: values that win over main's suite; they select no cases.
        cases: the ids of the cases to run, if main has them; None for all.
        takes_turns: the change runs after main, which leaves half of the budget to it; otherwise,
            both run at once, and half of the calls and of the rates are main's.
        resume: continue the journal of an earlier process.
    """

    config: Path
    out: Path
    revision: str
    root: Path
    overrides: Overrides
    cases: Sequence[str] | None
    takes_turns: bool
    resume: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What became of a plan.

    Args:
        suite: the name of main's suite.
        report: the path of main's report.json.
        interrupted: why not everything was run; None if it was.
        foreign: files of the change that main's code has imported.
    """

    suite: str
    report: str
    interrupted: str | None
    foreign: Sequence[str]


class _Answers:
    """Writes answers to the parent, one a line."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def send(self, answer: Mapping[str, Any]) -> None:
        self._stream.write(json.dumps(answer).encode() + b"\n")
        self._stream.flush()

    def send_problem(self, text: str) -> None:
        """Say why a plan could not be run. The parent takes secrets out, and shortens the rest."""
        self.send({"problem": text[:_PROBLEM_CHARACTERS]})


class _Spending(Watcher):
    """Tells the parent what all runs have cost so far, since a budget covers both sides."""

    def __init__(self, answers: _Answers) -> None:
        self._answers = answers
        self._run: Run | None = None

    def watch(self, run: Run) -> AbstractAsyncContextManager[None]:
        self._run = run
        return super().watch(run)

    def note_result(self, result: Result) -> None:
        del result
        if self._run is not None:
            spending = self._run.spending
            self._answers.send({"spent": [spending.cost_usd, spending.tokens]})


def serve() -> None:
    """Run plans until stdin ends."""
    # Copies with other numbers: code under test must neither read the plans nor write answers.
    plans = os.fdopen(os.dup(0), "rb")
    answers = _Answers(os.fdopen(os.dup(1), "wb"))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    received: SimpleQueue[MainPlan] = SimpleQueue()
    threading.Thread(target=_read, args=(plans, received), daemon=True).start()
    while True:
        plan = received.get()
        try:
            ran = _run(plan, answers)
        except ConfigError as error:
            answers.send_problem(str(error.problems[0]))
        except CiEvalsError as error:
            answers.send_problem(str(error))
        except Exception as error:  # noqa: BLE001  main's own code may raise anything
            answers.send_problem(describe_exception(error))
        else:
            answers.send({"ran": asdict(ran)})


def _read(plans: BinaryIO, received: SimpleQueue[MainPlan]) -> None:
    for line in plans:
        received.put(TypeAdapter(MainPlan).validate_json(line))
    kill_all()
    os._exit(_ENDED)


def _run(plan: MainPlan, answers: _Answers) -> Ran:
    for name, value in read_dotenv(plan.config.parent).items():
        os.environ.setdefault(name, value)  # as for the change's code
    suite = _select(_load(plan), plan.cases)
    journal, path = plan.out / _JOURNAL, plan.out / _REPORT
    invocation = Invocation(
        suite=suite,
        journal=journal,
        resume=plan.resume and _is_of(journal, plan.revision),
        checkout=Checkout(plan.revision),
        run_id=uuid4().hex,
        files=plan.out,
    )
    path.unlink(missing_ok=True)  # an earlier one is no evidence of this commit
    report = asyncio.run(execute(invocation, watcher=_Spending(answers))).report
    write_atomically(path, report_json.render(summarize(report, suite.gate)))
    return Ran(
        suite=suite.name,
        report=str(path),
        interrupted=report.interrupted,
        foreign=_foreign_modules(plan.root),
    )


def _is_of(journal: Path, revision: str) -> bool:
    """Return True if a journal has runs of this commit of main only."""
    return journal.exists() and all(
        header.suite.revision == revision for header in headers(journal)
    )


def _load(plan: MainPlan) -> CheckedSuite:
    suite = load_suite(plan.config, os.environ, plan.overrides)
    if plan.takes_turns:
        suite = replace(suite, budget=halve_budget(suite.budget))
    else:
        suite = halve_limits(suite)
    return replace(suite, max_runs=None, stop_early=False)


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
