"""The whole story: load a suite, run it, judge it, write what was found, say it, return the exit code."""

import asyncio
import contextlib
import functools
import gc
import os
import signal
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TextIO
from uuid import uuid4

from ci_evals import progress
from ci_evals.config.load import Overrides, find_config, load_mock, load_suite, overridden
from ci_evals.engine.shards import Shard
from ci_evals.errors import StorageError
from ci_evals.execution import JOURNAL, Order, Stop, check_sources, execute, known_durations, missing_shards
from ci_evals.interruption import EXIT_CODES, until_stopped
from ci_evals.model import Result
from ci_evals.providers.mock import Mock
from ci_evals.redaction import Redactor, mask_commands
from ci_evals.report import Report
from ci_evals.reports import RENDERERS
from ci_evals.reports.notes import notes
from ci_evals.reports.summary import Summary
from ci_evals.reports.text import without_commands
from ci_evals.streams import prints_go_to, say
from ci_evals.suite import Suite
from ci_evals.verdict.gate import decide, exit_code

FILES = {"json": "report.json", "junit": "junit.xml", "markdown": "summary.md"}


class World(NamedTuple):
    """Every handle on what is outside, made once in `cli`."""

    environ: Mapping[str, str]
    folder: Path
    stdout: TextIO
    stderr: TextIO


class Continuation(NamedTuple):
    """How a run relates to earlier ones: see `ci-evals run --help`."""

    resume: bool = False
    resume_from: tuple[Path, ...] = ()
    shard: Shard | None = None
    balance_by: Path | None = None
    replay: Path | None = None
    replay_only: bool = False


class Appearance(NamedTuple):
    """What is printed: `output` is `table` or `json`; `quiet` shows no progress."""

    output: str = "table"
    quiet: bool = False


def run(
    config: Path | None, overrides: Overrides, continuation: Continuation, world: World, appearance: Appearance
) -> int:
    """Run a suite and return the exit code.

    Args:
        config: the suite's file; None looks for `evals.yaml`.
        overrides: what the command line and the environment put in place of the file's values.
        continuation: what earlier runs contribute.
        world: environment and streams.
        appearance: what is printed.
    """
    path = config or find_config(world.folder)
    suite = load_suite(path, world.environ, overrides, offline=continuation.replay_only)
    order = Order(
        suite=suite,
        journal=suite.out / JOURNAL,
        resume=continuation.resume or bool(continuation.resume_from),
        sources=_journals(continuation.resume_from),
        shard=continuation.shard,
        durations_s=known_durations(continuation.balance_by) if continuation.balance_by else {},
        replay=_journals([continuation.replay])[0] if continuation.replay else None,
        replay_only=continuation.replay_only,
        revision=revision(world),
    )
    return carry_out(order, world, appearance)


def merge(
    folders: Iterable[Path],
    config: Path | None,
    overrides: Overrides,
    world: World,
    appearance: Appearance,
    *,
    run_missing: bool,
) -> int:
    """Put the journals of shards together, decide, and return the exit code.

    Args:
        folders: folders with a journal each, or journals.
        config: the suite's file; None looks for `evals.yaml`.
        overrides: as the shards had them.
        world: environment and streams.
        appearance: what is printed.
        run_missing: run what no shard has a result of.
    """
    suite = load_suite(config or find_config(world.folder), world.environ, overrides, offline=not run_missing)
    order = Order(
        suite=suite,
        journal=suite.out / JOURNAL,
        sources=_journals(folders),
        merge=True,
        run_missing=run_missing,
        revision=revision(world),
    )
    check_sources(order)
    if missing := missing_shards(order.sources):
        then = "its runs are run now" if run_missing else "name its folder too, or have it run with --run-missing"
        say(world.stderr, f"missing: shard {', '.join(missing)}: {then}\n")
    return carry_out(order, world, appearance)


def carry_out(order: Order, world: World, appearance: Appearance) -> int:
    """Execute an order, report, and return the exit code."""
    suite = order.suite
    redactor = Redactor(suite.secrets)
    # With JSON, stdout is not the log but a file or another program.
    log = world.stderr if appearance.output == "json" else world.stdout
    with workflow_commands_stopped(suite.secrets, world.environ, log):
        report, stopped_by = _report_of(order, world, redactor, quiet=appearance.quiet)
        told: list[str] = []
        if order.resume and report.resumption is None:
            told.append(f"nothing to resume: there was no {order.journal.as_posix()}")
        if order.shard:
            told.extend(f"{label.lower()}: {text}" for label, text in notes(report))
            told.append(f"shard {order.shard} of {suite.name}: {report.summary()}; `ci-evals merge` decides")
            code = 0
        else:
            summary = Summary(report, decide(report, suite.gate), suite.gate)
            written = write_reports(summary, suite.out, suite.formats)
            append_step_summary(summary, world)
            show(summary, world, appearance.output, redactor)
            told.append(f"written: {', '.join(path.as_posix() for path in (*written, order.journal))}")
            code = exit_code(summary.verdict, suite.gate)
        if not appearance.quiet:
            say(world.stderr, redactor.clean_text("".join(f"{line}\n" for line in told)))
    return EXIT_CODES[stopped_by] if stopped_by else code


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
        report = await execute(Order(suite=suite, journal=out / JOURNAL), on_result=on_result)
        write_reports(Summary(report, decide(report, suite.gate), suite.gate), out, suite.formats)
        return report
    handle, name = tempfile.mkstemp(prefix="ci-evals-", suffix=".jsonl")
    os.close(handle)
    remove = functools.partial(Path(name).unlink, missing_ok=True)
    try:
        report = await execute(Order(suite=suite, journal=Path(name)), on_result=on_result)
    except BaseException:
        remove()
        raise
    weakref.finalize(report, remove)
    return report


def serve_mock(config: Path | None, world: World, host: str, port: int) -> None:
    """Serve the config's `mock` provider, or one that echoes, until interrupted."""
    from ci_evals.providers.mock_server import serve

    options = load_mock(config, world.environ) if config else Mock()
    asyncio.run(serve(options, host, port, log=lambda line: say(world.stdout, line + "\n")))


@contextlib.contextmanager
def workflow_commands_stopped(secrets: Iterable[str], environ: Mapping[str, str], log: TextIO) -> Iterator[None]:
    """In GitHub Actions, mask the secrets, and then let nothing that a model wrote be taken for a workflow command."""
    if environ.get("GITHUB_ACTIONS") != "true":
        yield
        return
    token = uuid4().hex
    say(log, f"{mask_commands(secrets)}::stop-commands::{token}\n")
    try:
        yield
    finally:
        say(log, f"::{token}::\n")


def _report_of(order: Order, world: World, redactor: Redactor, *, quiet: bool) -> tuple[Report, signal.Signals | None]:
    """Execute an order until it is done or a signal comes, with its progress on stderr."""
    in_actions = world.environ.get("GITHUB_ACTIONS") == "true"

    def clean(printed: str) -> str:
        text = redactor.clean_text(printed)
        return without_commands(text.replace("\r", "\n")) if in_actions else text

    async def phase(stop: Stop) -> Report:
        if quiet:
            return await execute(order, stop=stop)
        return await execute(order, stop=stop, watch=lambda run: progress.shown(run, world.stderr))

    gc.freeze()  # what is loaded by now stays to the end: the collector need not walk it again and again
    with prints_go_to(world.stderr, clean):
        return until_stopped(phase)


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


def _journals(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Journals by their own name or by the folder they are in."""
    return tuple(path / JOURNAL if path.is_dir() else path for path in paths)


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
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise StorageError(f"{path}: cannot be written: {error.strerror}") from error
        written.append(path)
    return written


def append_step_summary(summary: Summary, world: World) -> None:
    """Add the summary to the job's page when this runs in GitHub Actions."""
    path = world.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    try:
        with Path(path).open("ab") as file:
            file.writelines(RENDERERS["summary.md"](summary))
    except OSError as error:  # a page less, and no reason to lose the verdict
        say(world.stderr, f"warning: GITHUB_STEP_SUMMARY: {path} cannot be written: {error.strerror}\n")


def show(summary: Summary, world: World, output: str, redactor: Redactor) -> None:
    """Print the outcome on stdout."""
    if output == "json":
        from ci_evals.reports.json_brief import render_json

        text = render_json(summary)
    else:
        from ci_evals.reports import terminal

        color = world.stdout.isatty() and "NO_COLOR" not in world.environ
        text = terminal.render(summary, width=terminal_width(world), color=color)
    say(world.stdout, redactor.clean_text(text).rstrip("\n") + "\n")


def terminal_width(world: World) -> int:
    """The width of the terminal; 120 columns in a log."""
    if columns := world.environ.get("COLUMNS", ""):
        return max(40, int(columns)) if columns.isdecimal() else 120
    try:
        return os.get_terminal_size(world.stdout.fileno()).columns
    except (OSError, ValueError):
        return 120
