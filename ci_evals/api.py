"""Run a suite from Python."""

import asyncio
import functools
import math
import os
import tempfile
import weakref
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

from ci_evals.engine.journal import JOURNAL
from ci_evals.errors import UsageError
from ci_evals.library import Report, as_baseline
from ci_evals.model.plan import plan_runs
from ci_evals.model.report import SuiteReport
from ci_evals.model.result import Result
from ci_evals.reports.files import write_reports
from ci_evals.reports.read import with_answers
from ci_evals.reports.summary import Summary, summarize
from ci_evals.session import Invocation, Watcher, execute
from ci_evals.suite import load
from ci_evals.suite.executor import ExecutorOptions, parse_executor
from ci_evals.suite.load import UNLIMITED
from ci_evals.suite.overrides import Overrides, apply_overrides
from ci_evals.suite.types import CheckedSuite, Suite
from ci_evals.user_code import is_async


@dataclass(frozen=True, slots=True)
class EvalStarted:
    """The suite is checked and its runs begin. `total` is the number of planned runs."""

    suite: str
    cases: int
    variants: int
    total: int


@dataclass(frozen=True, slots=True)
class RunFinished:
    """One run has its result; `done` of `total` have by now."""

    result: Result
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class EvalCompleted:
    """Everything that was to run did. Always the last event."""

    report: Report


Event: TypeAlias = EvalStarted | RunFinished | EvalCompleted


OnResult = Callable[[Result], None]


def load_suite(path: Path | str, *, environ: Mapping[str, str] | None = None) -> CheckedSuite:
    """Read and check a config, to look at it or to run it more than once.

    Args:
        path: the config file.
        environ: where `${NAME}` is looked up; `os.environ` unless given. A `.env` file beside the
            config adds to it.

    Raises:
        ConfigError: with every problem of the file, its datasets and its environment.
    """
    return load.load_suite(Path(path), os.environ if environ is None else environ)


def check_suite(suite: Suite) -> CheckedSuite:
    """Check a suite that was written in Python, without running it: keys may be missing.

    Raises:
        ConfigError: with every problem, each with the place where it is written.
    """
    return load.check_suite(suite, {}, offline=True)


async def evaluate(  # noqa: PLR0913  what can be set is set by name
    suite_or_path: Suite | Path | str,
    *,
    runs: int | None = None,
    max_concurrency: float | None = None,
    providers: Iterable[str] | str | None = None,
    cases: Iterable[str] | str | None = None,
    executor: ExecutorOptions | str | None = None,
    out: Path | str | None = None,
    baseline: Report | Path | str | None = None,
    on_result: OnResult | None = None,
    run_id: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Report:
    """Run a suite and return its report.

    Args:
        suite_or_path: a suite, or the config file of one.
        runs: executions of every cell, in place of the suite's value; a case's own `runs` still
            wins.
        max_concurrency: calls under way at once, graders that wait included, likewise; `math.inf`
            for no limit.
        providers: the names of those to run, or one name; all of them unless given.
        cases: the ids of those to run, or one id, likewise; `refund*` is a pattern of ids.
        executor: where the team's own code runs, in place of the suite's: `local`, `ray` or
            `ray://host:port`.
        out: a folder for the journal and the reports; without it nothing is left on disk.
        baseline: an earlier report, or where some are saved, to compare with: cases that look worse
            are run again, and the verdict takes regressions into account.
        on_result: a plain function, called with each run as it finishes, on the event loop, so keep
            it short.
        run_id: identifies the run in journal and reports, such as by the id that a CI system gave
            it.
        environ: where `${NAME}` is looked up; `os.environ` unless given.

    Raises:
        ConfigError: the suite cannot be run as it is; nothing was called.
        UsageError: an argument makes no sense; nothing was called.
        StorageError: the journal or a report cannot be written, or the baseline not read.
    """
    suite = _suite(
        suite_or_path, _overrides(runs, max_concurrency, providers, cases, executor), environ
    )
    return await _evaluate(suite, out, baseline, on_result, run_id)


def evaluate_sync(  # noqa: PLR0913  as above
    suite_or_path: Suite | Path | str,
    *,
    runs: int | None = None,
    max_concurrency: float | None = None,
    providers: Iterable[str] | str | None = None,
    cases: Iterable[str] | str | None = None,
    executor: ExecutorOptions | str | None = None,
    out: Path | str | None = None,
    baseline: Report | Path | str | None = None,
    on_result: OnResult | None = None,
    run_id: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Report:
    """Run a suite as `evaluate` does, for code without an event loop.

    Raises:
        UsageError: also where an event loop runs, as in a notebook.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise UsageError(
            "evaluate_sync: an event loop is running here: `await evaluate(…)` instead"
        )
    return asyncio.run(
        evaluate(
            suite_or_path,
            runs=runs,
            max_concurrency=max_concurrency,
            providers=providers,
            cases=cases,
            executor=executor,
            out=out,
            baseline=baseline,
            on_result=on_result,
            run_id=run_id,
            environ=environ,
        )
    )


async def evaluate_events(  # noqa: PLR0913  as above
    suite_or_path: Suite | Path | str,
    *,
    runs: int | None = None,
    max_concurrency: float | None = None,
    providers: Iterable[str] | str | None = None,
    cases: Iterable[str] | str | None = None,
    executor: ExecutorOptions | str | None = None,
    out: Path | str | None = None,
    baseline: Report | Path | str | None = None,
    run_id: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncGenerator[Event, None]:
    """Run a suite as `evaluate` does: yield `EvalStarted`, a `RunFinished` for each run, and
    `EvalCompleted`.

    Whoever leaves the loop early ends the evaluation; close the iterator (`contextlib.aclosing`) to
    have it end there.

    Raises:
        ConfigError, UsageError, StorageError: as `evaluate`.
    """
    suite = _suite(
        suite_or_path, _overrides(runs, max_concurrency, providers, cases, executor), environ
    )
    total = plan_runs(suite.cases, suite.columns, suite.runs).total
    finished: asyncio.Queue[Result | None] = asyncio.Queue()
    task = asyncio.create_task(_evaluate(suite, out, baseline, finished.put_nowait, run_id))
    task.add_done_callback(lambda _: finished.put_nowait(None))
    try:
        yield EvalStarted(suite.name, len(suite.cases), len(suite.columns), total)
        done = 0
        while (result := await finished.get()) is not None:
            done += 1
            yield RunFinished(result, done, total)
        yield EvalCompleted(await task)
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _evaluate(
    suite: CheckedSuite,
    out: Path | str | None,
    baseline: Report | Path | str | None,
    on_result: OnResult | None,
    run_id: str | None,
) -> Report:
    if on_result is not None and (not callable(on_result) or is_async(on_result)):
        what = "an async one: follow `evaluate_events` to await something for each run"
        raise UsageError(
            f"on_result: expected a plain function, got {what if callable(on_result) else repr(on_result)}"
        )
    invocation = Invocation(
        suite=suite,
        journal=Path(),
        run_id=run_id or uuid4().hex,
        baseline=None if baseline is None else as_baseline(baseline, suite.name),
    )
    if out is None:
        return await _run_with_temporary_journal(invocation, on_result)
    folder = Path(out).absolute()  # noqa: ASYNC240  before code under test may go elsewhere; it reads no file
    invocation = replace(invocation, journal=folder / JOURNAL, files=folder)
    summary = _summarize(await execute(invocation, watcher=_Listener(on_result)), invocation)
    write_reports(summary, folder, suite.formats)
    return Report.of(summary)


async def _run_with_temporary_journal(invocation: Invocation, on_result: OnResult | None) -> Report:
    """Run a suite with a journal that is gone as soon as its report is."""
    handle, name = tempfile.mkstemp(prefix="ci-evals-", suffix=".jsonl")
    os.close(handle)
    remove = functools.partial(Path(name).unlink, missing_ok=True)
    try:
        report = await execute(
            replace(invocation, journal=Path(name)), watcher=_Listener(on_result)
        )
    except BaseException:
        remove()
        raise
    weakref.finalize(report, remove)
    return Report.of(_summarize(report, invocation))


class _Listener(Watcher):
    """Passes results on."""

    def __init__(self, on_result: OnResult | None) -> None:
        self._on_result = on_result

    def note_result(self, result: Result) -> None:
        if self._on_result is not None:
            self._on_result(result)


def _summarize(report: SuiteReport, invocation: Invocation) -> Summary:
    suite = invocation.suite
    return with_answers(
        summarize(report, suite.gate, invocation.baseline, confirm_runs=suite.confirm_runs)
    )


def _suite(
    suite_or_path: Suite | Path | str, overrides: Overrides, environ: Mapping[str, str] | None
) -> CheckedSuite:
    environ = os.environ if environ is None else environ
    if isinstance(suite_or_path, Suite):
        return apply_overrides(load.check_suite(suite_or_path, environ), overrides)
    if isinstance(suite_or_path, str | os.PathLike):
        return load.load_suite(Path(suite_or_path), environ, overrides)
    raise UsageError(f"expected a suite or the path of one, not {suite_or_path!r:.200}")


def _overrides(
    runs: int | None,
    max_concurrency: float | None,
    providers: Iterable[str] | str | None,
    cases: Iterable[str] | str | None,
    executor: ExecutorOptions | str | None,
) -> Overrides:
    most = UNLIMITED if max_concurrency == math.inf else max_concurrency
    return Overrides(
        runs=_at_least_one("runs", runs),
        max_concurrency=_at_least_one("max_concurrency", most),
        providers=_names("providers", providers),
        cases=_names("cases", cases),
        executor=_executor(executor) if isinstance(executor, str) else executor,
    )


def _executor(text: str) -> ExecutorOptions:
    try:
        return parse_executor(text)
    except ValueError as error:
        raise UsageError(f"executor: {error}") from None


def _at_least_one(name: str, value: float | None) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise UsageError(f"{name}={value!r:.200}: expected a whole number of at least 1")


def _names(argument: str, given: Iterable[str] | str | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names or not all(isinstance(name, str) for name in names):
        noun = "the name of a provider" if argument == "providers" else "the id of a case"
        raise UsageError(f"{argument}={given!r:.200}: expected {noun}, or several")
    return names
