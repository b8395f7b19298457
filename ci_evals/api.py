"""The library: run a suite from Python."""

import asyncio
import functools
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from uuid import uuid4

from ci_evals.app import write_reports
from ci_evals.config import load
from ci_evals.config.load import Overrides
from ci_evals.engine.journal import JOURNAL
from ci_evals.errors import UsageError
from ci_evals.execution import execute
from ci_evals.model import Result
from ci_evals.order import Order
from ci_evals.report import Report
from ci_evals.reports.summary import summarize
from ci_evals.suite import Suite

OnResult = Callable[[Result], None]


def load_suite(path: Path | str, *, environ: Mapping[str, str] | None = None) -> Suite:
    """Read and check a config, to look at it or to run it more than once.

    Args:
        path: the config file.
        environ: where `${NAME}` is looked up; `os.environ` unless given. A `.env` file beside the config adds to it.

    Raises:
        ConfigError: with every problem of the file, its datasets and its environment.
    """
    return load.load_suite(Path(path), os.environ if environ is None else environ)


async def evaluate(  # noqa: PLR0913  what can be set is set by name
    suite_or_path: Suite | Path | str,
    *,
    runs: int | None = None,
    max_concurrency: int | None = None,
    providers: Iterable[str] | str | None = None,
    out: Path | str | None = None,
    on_result: OnResult | None = None,
    environ: Mapping[str, str] | None = None,
) -> Report:
    """Run a suite and return its report.

    Args:
        suite_or_path: the config file, or a suite that was loaded from one.
        runs: executions of every cell, in place of the suite's value.
        max_concurrency: calls under way at once, likewise.
        providers: the names of those to run, or one name; all of them unless given.
        out: a folder for the journal and the reports; without it nothing is left on disk.
        on_result: called with each finished run in the order of finishing, on the event loop, so keep it short.
        environ: where `${NAME}` is looked up; `os.environ` unless given.

    Raises:
        ConfigError: the suite cannot be run as it is; nothing was called.
        UsageError: an argument makes no sense; nothing was called.
        StorageError: the journal or a report cannot be written.
    """
    overrides = Overrides(
        runs=_at_least_one("runs", runs),
        max_concurrency=_at_least_one("max_concurrency", max_concurrency),
        providers=_names(providers),
    )
    suite = _suite(suite_or_path, overrides, os.environ if environ is None else environ)
    if out is None:
        return await _without_a_trace(suite, on_result)
    folder = Path(out).absolute()  # noqa: ASYNC240  before code under test may go elsewhere; it reads no file
    report = await execute(
        Order(suite=suite, journal=folder / JOURNAL, run_id=uuid4().hex, files=folder), on_result=on_result
    )
    write_reports(summarize(report, suite.gate), folder, suite.formats)
    return report


def evaluate_sync(  # noqa: PLR0913  as above
    suite_or_path: Suite | Path | str,
    *,
    runs: int | None = None,
    max_concurrency: int | None = None,
    providers: Iterable[str] | str | None = None,
    out: Path | str | None = None,
    on_result: OnResult | None = None,
    environ: Mapping[str, str] | None = None,
) -> Report:
    """As `evaluate`, for code without an event loop.

    Raises:
        UsageError: also where an event loop runs, as in a notebook.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise UsageError("evaluate_sync: an event loop is running here: `await evaluate(…)` instead")
    return asyncio.run(
        evaluate(
            suite_or_path,
            runs=runs,
            max_concurrency=max_concurrency,
            providers=providers,
            out=out,
            on_result=on_result,
            environ=environ,
        )
    )


async def _without_a_trace(suite: Suite, on_result: OnResult | None) -> Report:
    """Run a suite with a journal that is gone as soon as its report is."""
    handle, name = tempfile.mkstemp(prefix="ci-evals-", suffix=".jsonl")
    os.close(handle)
    remove = functools.partial(Path(name).unlink, missing_ok=True)
    try:
        report = await execute(Order(suite=suite, journal=Path(name), run_id=uuid4().hex), on_result=on_result)
    except BaseException:
        remove()
        raise
    weakref.finalize(report, remove)
    return report


def _suite(suite_or_path: Suite | Path | str, overrides: Overrides, environ: Mapping[str, str]) -> Suite:
    if isinstance(suite_or_path, Suite):
        return load.overridden(suite_or_path, overrides)
    if isinstance(suite_or_path, str | os.PathLike):
        return load.load_suite(Path(suite_or_path), environ, overrides)
    raise UsageError(f"expected a suite or the path of one, not {suite_or_path!r:.200}")


def _at_least_one(name: str, value: int | None) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise UsageError(f"{name}={value!r:.200}: expected a whole number of at least 1")


def _names(providers: Iterable[str] | str | None) -> tuple[str, ...] | None:
    if providers is None:
        return None
    names = (providers,) if isinstance(providers, str) else tuple(providers)
    if not names or not all(isinstance(name, str) for name in names):
        raise UsageError(f"providers={providers!r:.200}: expected the name of a provider, or several")
    return names
