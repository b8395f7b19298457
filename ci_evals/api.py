"""Run a suite from Python."""

import asyncio
import functools
import itertools
import math
import os
import tempfile
import weakref
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, Unpack
from uuid import uuid4

from ci_evals.engine.journal import JOURNAL
from ci_evals.errors import UsageError
from ci_evals.executors import ExecutorOptions, parse_executor
from ci_evals.files import check_folder
from ci_evals.invocation import Invocation, Watcher
from ci_evals.library import Report, as_baseline
from ci_evals.model.plan import plan_runs
from ci_evals.model.report import SuiteReport
from ci_evals.model.result import Result
from ci_evals.reports.files import write_reports
from ci_evals.reports.read import with_answers
from ci_evals.reports.summary import Summary, summarize
from ci_evals.session import execute
from ci_evals.suite import load
from ci_evals.suite.checks import describe_size
from ci_evals.suite.load import UNLIMITED
from ci_evals.suite.overrides import Overrides, apply_overrides
from ci_evals.suite.types import CheckedSuite, Suite
from ci_evals.user_code.threads import is_async


@dataclass(frozen=True, slots=True)
class EvalStarted:
    """The suite is checked and its runs begin. `total` is the number of planned runs."""

    suite: str
    cases: int
    variants: int
    total: int


@dataclass(frozen=True, slots=True)
class RunFinished:
    """One run has finished, as number `done` of `total`."""

    result: Result
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class EvalCompleted:
    """All runs have finished. Always the last event."""

    report: Report


Event: TypeAlias = EvalStarted | RunFinished | EvalCompleted


OnResult = Callable[[Result], None]


def load_suite(path: Path | str, *, environ: Mapping[str, str] | None = None) -> CheckedSuite:
    """Read and check a config, to look at it or to run it more than once.

    Args:
        path: the config file.
        environ: where `${NAME}` is looked up; default: `os.environ`. A `.env` file next to the
            config adds to it.

    Raises:
        ConfigError: with every problem of the file, its datasets and its environment.
    """
    if environ is None:
        environ = os.environ
    return load.load_suite(Path(path), environ)


def check_suite(suite: Suite) -> CheckedSuite:
    """Check a suite that was written in Python, without running it. Keys may be missing.

    Raises:
        ConfigError: with every problem, each with the place where it is written.
    """
    return load.check_suite(suite, {}, offline=True)


class EventSettings(TypedDict, total=False):
    """The settings of `evaluate_events`, all of which may be left out or None.

    Attributes:
        runs: executions of every cell, in place of the suite's value; a case's own `runs` still
            wins.
        max_concurrency: calls under way at once, in place of the suite's value, including graders
            that wait; `math.inf` for no limit.
        providers: the names of the providers to run, or one name; default: all.
        cases: the ids of the cases to run, or one id; `refund*` is a pattern of ids. Default: all.
        executor: where the team's own code runs, in place of the suite's: `local`, `ray` or
            `ray://host:port`.
        out: a folder for the journal and the reports; without it nothing is left on disk.
        baseline: an earlier report to compare with, or a path with saved ones. Cases that look
            worse are run again, and the verdict takes regressions into account.
        run_id: identifies the run in journal and reports, such as a CI system's id of it; default:
            a random one.
        environ: where `${NAME}` is looked up; default: `os.environ`.
    """

    runs: int | None
    max_concurrency: float | None
    providers: Iterable[str] | str | None
    cases: Iterable[str] | str | None
    executor: ExecutorOptions | str | None
    out: Path | str | None
    baseline: Report | Path | str | None
    run_id: str | None
    environ: Mapping[str, str] | None


class EvaluateSettings(EventSettings, total=False):
    """The settings of `evaluate` and `evaluate_sync`: `EventSettings`, and `on_result`.

    Attributes:
        on_result: a plain function, called on the event loop with each run as it finishes; keep it
            short.
    """

    on_result: OnResult | None


def evaluate(
    suite_or_path: Suite | Path | str, **settings: Unpack[EvaluateSettings]
) -> Coroutine[Any, Any, Report]:
    """Run a suite and return its report: `await evaluate(suite, runs=3)`.

    Args:
        suite_or_path: a suite, or the config file of one.
        settings: see `EvaluateSettings` and `EventSettings`.

    Raises:
        TypeError: there is no such setting; raised by the call itself.
        ConfigError: the suite cannot be run as it is; nothing was called.
        UsageError: an argument makes no sense; nothing was called.
        StorageError: the journal or a report cannot be written, or the baseline not read.
    """
    _check_names("evaluate", settings.keys(), EvaluateSettings.__optional_keys__)

    async def run() -> Report:
        return await _evaluate(_suite(suite_or_path, settings), settings)

    return run()


def evaluate_sync(
    suite_or_path: Suite | Path | str, **settings: Unpack[EvaluateSettings]
) -> Report:
    """Run a suite as `evaluate` does, for code without an event loop.

    Raises:
        TypeError, ConfigError, StorageError: as `evaluate`.
        UsageError: also where an event loop runs, as in a notebook.
    """
    _check_names("evaluate_sync", settings.keys(), EvaluateSettings.__optional_keys__)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(evaluate(suite_or_path, **settings))
    raise UsageError("evaluate_sync: an event loop is running here: `await evaluate(…)` instead")


def evaluate_events(
    suite_or_path: Suite | Path | str, **settings: Unpack[EventSettings]
) -> AsyncGenerator[Event, None]:
    """Run a suite as `evaluate` does, and yield events.

    The events are `EvalStarted`, a `RunFinished` for each run, and `EvalCompleted`. Leaving the
    loop early ends the evaluation; close the iterator (`contextlib.aclosing`) to end it at once.

    Raises:
        TypeError, ConfigError, UsageError, StorageError: as `evaluate`.
    """
    _check_names("evaluate_events", settings.keys(), EventSettings.__optional_keys__)

    # A generator of its own: names are checked by the call, not by the first step of the loop.
    async def follow() -> AsyncGenerator[Event, None]:
        suite = _suite(suite_or_path, settings)
        total = plan_runs(suite.cases, suite.columns, suite.runs).total
        finished: asyncio.Queue[Result | None] = asyncio.Queue()
        evaluation = _evaluate(suite, {**settings, "on_result": finished.put_nowait})
        task = asyncio.create_task(evaluation)
        task.add_done_callback(lambda _: finished.put_nowait(None))  # also wakes the loop on errors
        try:
            yield EvalStarted(suite.name, len(suite.cases), len(suite.columns), total)
            for done in itertools.count(1):
                result = await finished.get()
                if result is None:
                    break
                yield RunFinished(result, done, total)
            yield EvalCompleted(await task)
        finally:
            task.cancel()
            await asyncio.wait([task])

    return follow()


def _check_names(function: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise TypeError for an unknown argument, as Python does for a function that lists its own."""
    for name in names:
        if name not in known:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


async def _evaluate(suite: CheckedSuite, settings: EvaluateSettings) -> Report:
    on_result = settings.get("on_result")
    if on_result is not None:
        _check_listener(on_result)
    invocation = Invocation(
        suite=suite,
        journal=Path(),
        run_id=settings.get("run_id") or uuid4().hex,
    )
    saved = settings.get("baseline")
    if saved is not None:
        baseline = as_baseline(saved, suite.name)
        invocation = replace(invocation, baseline=baseline)
    out = settings.get("out")
    if out is None:
        return await _run_with_temporary_journal(invocation, on_result)
    check_folder(Path(out))
    # Made absolute before code under test may change the working folder; reads no file.
    folder = Path(out).absolute()  # noqa: ASYNC240
    invocation = replace(invocation, journal=folder / JOURNAL, files=folder)
    report, _ = await execute(invocation, watcher=_Listener(on_result))
    summary = _summarize(report, invocation)
    write_reports(summary, folder, suite.formats)
    return Report(summary)


def _check_listener(on_result: OnResult) -> None:
    if not callable(on_result):
        raise UsageError(f"on_result: expected a plain function, got {on_result!r}")
    if is_async(on_result):
        raise UsageError(
            "on_result: expected a plain function, got an async one:"
            " follow `evaluate_events` to await something for each run"
        )


async def _run_with_temporary_journal(invocation: Invocation, on_result: OnResult | None) -> Report:
    """Run a suite with a journal that is deleted when its report is garbage-collected: the report
    reads answers from it.
    """
    handle, name = tempfile.mkstemp(prefix="ci-evals-", suffix=".jsonl")
    os.close(handle)
    journal = Path(name)
    remove = functools.partial(journal.unlink, missing_ok=True)
    invocation = replace(invocation, journal=journal)
    try:
        report, _ = await execute(invocation, watcher=_Listener(on_result))
    except BaseException:
        remove()
        raise
    weakref.finalize(report, remove)
    return Report(_summarize(report, invocation))


class _Listener(Watcher):
    """Passes results on to a function of the caller."""

    def __init__(self, on_result: OnResult | None) -> None:
        self._on_result = on_result

    def note_result(self, result: Result) -> None:
        if self._on_result is not None:
            self._on_result(result)


def _summarize(report: SuiteReport, invocation: Invocation) -> Summary:
    suite = invocation.suite
    confirm_runs = suite.confirm_runs
    summary = summarize(report, suite.gate, invocation.baseline, confirm_runs=confirm_runs)
    return with_answers(summary)


def _suite(suite_or_path: Suite | Path | str, settings: EventSettings) -> CheckedSuite:
    overrides = _overrides(settings)
    environ = settings.get("environ")
    if environ is None:
        environ = os.environ
    if isinstance(suite_or_path, Suite):
        suite = apply_overrides(load.check_suite(suite_or_path, environ), overrides)
        too_large = describe_size(suite)
        if too_large is not None:
            raise UsageError(too_large)
        return suite
    if isinstance(suite_or_path, str | os.PathLike):
        return load.load_suite(Path(suite_or_path), environ, overrides)
    raise UsageError(f"expected a suite or the path of one, not {suite_or_path!r:.200}")


def _overrides(settings: EventSettings) -> Overrides:
    max_concurrency = settings.get("max_concurrency")
    if max_concurrency == math.inf:
        max_concurrency = UNLIMITED
    executor = settings.get("executor")
    if isinstance(executor, str):
        try:
            executor = parse_executor(executor)
        except ValueError as error:
            raise UsageError(f"executor: {error}") from None
    return Overrides(
        runs=_at_least_one("runs", settings.get("runs")),
        max_concurrency=_at_least_one("max_concurrency", max_concurrency),
        providers=_names("providers", "the name of a provider", settings.get("providers")),
        cases=_names("cases", "the id of a case", settings.get("cases")),
        executor=executor,
    )


def _at_least_one(name: str, value: float | None) -> int | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise UsageError(f"{name}={value!r:.200}: expected a whole number of at least 1")


def _names(argument: str, noun: str, value: Iterable[str] | str | None) -> tuple[str, ...] | None:
    """Return one name or several as a tuple; raise UsageError for anything else."""
    if value is None:
        return None
    if isinstance(value, str):
        return (value,)
    names = tuple(value)
    if names and all(isinstance(name, str) for name in names):
        return names
    raise UsageError(f"{argument}={value!r:.200}: expected {noun}, or several")
