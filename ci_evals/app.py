"""The whole story: load a suite, run it, judge it, write what was found, say it, return the exit code."""

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TextIO

from ci_evals import __version__, progress
from ci_evals.config.load import Overrides, find_config, load_mock, load_suite, overridden
from ci_evals.engine.journal import Header, Journal, decode, read_lines
from ci_evals.engine.runner import Run
from ci_evals.errors import StorageError
from ci_evals.model import Result
from ci_evals.providers.mock import Mock
from ci_evals.report import Columns, Matrix, Report, SuiteInfo
from ci_evals.reports import RENDERERS
from ci_evals.reports.summary import Summary
from ci_evals.suite import Suite
from ci_evals.verdict.gate import decide, exit_code

INTERRUPTED = {signal.SIGINT: 130, signal.SIGTERM: 143}
FILES = {"json": "report.json", "junit": "junit.xml", "markdown": "summary.md"}


class World(NamedTuple):
    """Every handle on what is outside, made once in `cli`."""

    environ: Mapping[str, str]
    folder: Path
    stdout: TextIO
    stderr: TextIO


def run(config: Path | None, overrides: Overrides, world: World, *, quiet: bool, output: str) -> int:
    """Run a suite and return the exit code.

    Args:
        config: the suite's file; None looks for `evals.yaml`.
        overrides: what the command line and the environment put in place of the file's values.
        world: environment and streams.
        quiet: no progress.
        output: `table` or `json`, what is printed on stdout.
    """
    suite = load_suite(config or find_config(world.folder), world.environ, overrides)
    journal = suite.out / "results.jsonl"
    report, stopped_by = _run_to_end(suite, journal, None if quiet else world.stderr, revision(world))
    summary = Summary(report, decide(report, suite.gate), suite.gate)
    written = write_reports(summary, suite.out, suite.formats)
    append_step_summary(summary, world.environ)
    show(summary, world, output)
    if not quiet:
        world.stderr.write(f"\nwritten: {', '.join(path.as_posix() for path in (*written, journal))}\n")
    return INTERRUPTED[stopped_by] if stopped_by else exit_code(summary.verdict, suite.gate)


async def evaluate(
    suite: Suite | Path | str,
    overrides: Overrides,
    environ: Mapping[str, str],
    *,
    out: Path | None,
    on_result: Callable[[Result], None] | None,
) -> Report:
    """Run a suite and return its report; see `ci_evals.evaluate`."""
    if isinstance(suite, Suite):
        suite = overridden(suite, overrides)
    else:
        suite = load_suite(Path(suite), environ, overrides)
    if out is not None:
        report = await _run(suite, out / "results.jsonl", on_result=on_result)
        write_reports(Summary(report, decide(report, suite.gate), suite.gate), out, suite.formats)
        return report
    handle, name = tempfile.mkstemp(prefix="ci-evals-", suffix=".jsonl")
    os.close(handle)
    report = await _run(suite, Path(name), on_result=on_result)
    weakref.finalize(report, Path(name).unlink, missing_ok=True)
    return report


def serve_mock(config: Path | None, world: World, host: str, port: int) -> None:
    """Serve the config's `mock` provider, or one that echoes, until interrupted."""
    from ci_evals.providers.mock_server import serve

    options = load_mock(config, world.environ) if config else Mock()

    def log(line: str) -> None:
        world.stdout.write(line + "\n")
        world.stdout.flush()

    asyncio.run(serve(options, host, port, log=log))


def _run_to_end(
    suite: Suite, journal: Path, stderr: TextIO | None, at_revision: str | None
) -> tuple[Report, signal.Signals | None]:
    """Run until the plan is finished or a signal comes; either way there is a report."""
    reports: list[Report] = []
    stopped_by: list[signal.Signals] = []

    async def main() -> None:
        task = asyncio.create_task(_run(suite, journal, stderr=stderr, at_revision=at_revision, stopped_by=stopped_by))
        with _signals_cancel(task, stopped_by):
            reports.append(await task)

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(main())
    return reports[0], stopped_by[0] if stopped_by else None


async def _run(
    suite: Suite,
    journal_path: Path,
    *,
    on_result: Callable[[Result], None] | None = None,
    stderr: TextIO | None = None,
    at_revision: str | None = None,
    stopped_by: list[signal.Signals] | None = None,
) -> Report:
    """The run phase: plan, journal, engine, report."""
    matrix = Matrix(suite.cases, suite.variants, suite.runs)
    columns = Columns(matrix.total)
    info = describe(suite, at_revision)
    started_at = time.time()
    start = time.perf_counter()
    journal = Journal(journal_path, Header(suite=info, started_at=started_at))
    try:
        running = Run(suite, matrix, columns, journal, on_result)
        async with contextlib.AsyncExitStack() as stack:
            if stderr:
                await stack.enter_async_context(progress.shown(running, stderr))
            await running.finish()
    except asyncio.CancelledError:
        if not stopped_by:
            raise
    finally:
        journal.close()
    return Report(
        info,
        matrix,
        columns,
        read=lambda slots: read_lines(journal_path, (columns.offset[slot] for slot in slots)),
        decode=decode,
        started_at=started_at,
        duration_s=time.perf_counter() - start,
        interrupted=stopped_by[0].name if stopped_by else None,
    )


@contextlib.contextmanager
def _signals_cancel(task: asyncio.Task[Report], stopped_by: list[signal.Signals]) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM end the run phase in order; the second one ends the process."""
    loop = asyncio.get_running_loop()

    def stop(which: signal.Signals) -> None:
        stopped_by.append(which)
        for each in INTERRUPTED:
            signal.signal(each, signal.SIG_DFL)
        loop.call_soon_threadsafe(task.cancel)

    before = {which: signal.getsignal(which) for which in INTERRUPTED}
    for which in INTERRUPTED:
        signal.signal(which, lambda number, _frame: stop(signal.Signals(number)))
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def describe(suite: Suite, at_revision: str | None) -> SuiteInfo:
    """What a journal and a report say of their suite."""
    return SuiteInfo(
        name=suite.name,
        description=suite.description,
        file=suite.file,
        fingerprint=suite.fingerprint,
        runs=suite.runs,
        version=__version__,
        revision=at_revision,
    )


def revision(world: World) -> str | None:
    """The commit that is checked out, as the CI system or git knows it."""
    if sha := world.environ.get("GITHUB_SHA"):
        return sha
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607  the user's own git
            cwd=world.folder,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None


def write_reports(summary: Summary, out: Path, formats: Iterable[str]) -> list[Path]:
    """Write the chosen formats into `out`; each file appears whole or not at all."""
    written = []
    for name in (FILES[each] for each in formats):
        path = out / name
        partial = path.with_name(f".{name}.partial")
        try:
            with partial.open("wb") as file:
                file.writelines(RENDERERS[name](summary))
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise StorageError(f"{path}: cannot be written: {error.strerror}") from error
        written.append(path)
    return written


def append_step_summary(summary: Summary, environ: Mapping[str, str]) -> None:
    """Add the summary to the job's page when this runs in GitHub Actions."""
    if path := environ.get("GITHUB_STEP_SUMMARY"):
        with Path(path).open("ab") as file:
            file.writelines(RENDERERS["summary.md"](summary))


def show(summary: Summary, world: World, output: str) -> None:
    """Print the outcome on stdout."""
    from ci_evals.reports import terminal

    if output == "json":
        text = terminal.render_json(summary)
    else:
        color = world.stdout.isatty() and "NO_COLOR" not in world.environ
        text = terminal.render(summary, width=terminal_width(world), color=color)
    world.stdout.write(text if text.endswith("\n") else text + "\n")
    world.stdout.flush()


def terminal_width(world: World) -> int:
    """The width of the terminal; 120 columns in a log."""
    if columns := world.environ.get("COLUMNS", ""):
        return max(40, int(columns)) if columns.isdecimal() else 120
    try:
        return os.get_terminal_size(world.stdout.fileno()).columns
    except (OSError, ValueError):
        return 120
