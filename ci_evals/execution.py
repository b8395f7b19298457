"""One run phase: the plan, what earlier journals hold of it, the engine, and the report of all of it."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, closing, nullcontext
from copy import copy
from math import fsum
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from ci_evals import __version__
from ci_evals.engine.cells import Cells
from ci_evals.engine.journal import Header, Journal, decode, headers, read_lines, scan
from ci_evals.engine.lanes import Ready, opened
from ci_evals.engine.replay import Recording
from ci_evals.engine.resume import Resumer
from ci_evals.engine.runner import Run
from ci_evals.engine.shards import CellKey, Shard, cells_of_shard
from ci_evals.engine.traces import TraceAnswers
from ci_evals.errors import StorageError, UsageError
from ci_evals.model import Case, Result
from ci_evals.redaction import Redactor
from ci_evals.report import Columns, Matrix, Report, Resumption, SuiteInfo
from ci_evals.suite import Suite

JOURNAL = "results.jsonl"


class Order(Struct, frozen=True, kw_only=True):
    """What is to be done with a suite.

    Args:
        suite: what to run.
        journal: where results are written.
        resume: go on with that journal instead of starting anew.
        sources: journals whose results are taken over.
        merge: take over errored runs as well, and insist that the sources are of this very suite.
        run_missing: run what has no result; else only report.
        shard: run only this share of the cells.
        durations_s: what shards are balanced by.
        replay: a journal that answers before any provider is called.
        replay_only: never call a provider, nor a judge.
        traces: answers from elsewhere; no provider is called then, but judges are.
        revision: the commit that is checked out.
    """

    suite: Suite
    journal: Path
    resume: bool = False
    sources: tuple[Path, ...] = ()
    merge: bool = False
    run_missing: bool = True
    shard: Shard | None = None
    durations_s: Mapping[CellKey, float] = {}
    replay: Path | None = None
    replay_only: bool = False
    traces: TraceAnswers | None = None
    revision: str | None = None


class Stop:
    """How a run phase is ended from outside: by `order`, and then a cancellation of its task.

    `report_so_far` makes a report of what is recorded, once there may be something.
    """

    reason: str | None = None
    run: Run | None = None
    report_so_far: Callable[[], Report] | None = None

    def order(self, reason: str) -> None:
        self.reason = reason
        if self.run is not None:
            self.run.abort(reason)


Watch = Callable[[Run], AbstractAsyncContextManager[None]]


async def execute(
    order: Order,
    *,
    on_result: Callable[[Result], None] | None = None,
    watch: Watch = lambda _: nullcontext(),
    stop: Stop | None = None,
) -> Report:
    """Carry out an order.

    Args:
        order: what to do.
        on_result: called with each finished run.
        watch: shows the progress of a run while its context lasts.
        stop: when its reason is set, a cancellation ends the run phase and not this call.

    Raises:
        ConfigError: a provider or grader cannot be opened; nothing was called, and no file was touched.
        StorageError: a journal cannot be read or written.
        UsageError: a source is of another suite.
    """
    suite = order.suite
    named = {path.absolute(): path for path in (order.journal, *order.sources)}
    order = _anchored(order)
    matrix = planned(order)
    columns = Columns(matrix.total)
    redactor = Redactor(suite.secrets)
    stop = stop or Stop()
    stopped: str | None = None
    async with AsyncExitStack() as stack:
        ready = Ready()
        calls = not order.replay_only and order.traces is None
        if order.run_missing:
            ready = await stack.enter_async_context(
                opened(suite, matrix, columns, calls=calls, judges=not order.replay_only)
            )
        # From here on nothing can be wrong with the suite: what earlier runs left in the folder may be replaced.
        started_at, start = time.time(), time.perf_counter()
        with ExitStack() as open_files:
            replay = order.traces or (
                open_files.enter_context(closing(Recording(order.replay))) if order.replay else None
            )
            there = order.resume and order.journal.exists() and order.journal.stat().st_size > 0
            journal = (Journal if there else Journal.new)(order.journal, redactor)
            open_files.callback(journal.close)
            cells = Cells(suite, matrix)
            resumer = Resumer(matrix, columns, cells, keep_errored=order.merge)
            recorded = _Recorded(order, named, matrix, columns, redactor, resumer, started_at, start, continued=there)
            if there:
                resumer.go_on(journal)
            journal.start(Header(suite=redactor.clean(describe(order)), started_at=started_at))
            resumer.take_over(order.sources, journal)
            stop.report_so_far = lambda: recorded.report(stop.reason)
            if order.run_missing:
                run = Run(suite, matrix, columns, journal, cells, ready, on_result=on_result, replay=replay)
                stopped = await _finished(run, watch, stop)
            elif missing := missing_shards(order.sources) if columns.status.count(0) else ():
                stopped = f"shard {', '.join(missing)} is missing"
    return recorded.report(stopped)


class _Recorded(NamedTuple):
    """What there is to report at any moment of a run phase."""

    order: Order
    named: Mapping[Path, Path]
    matrix: Matrix
    columns: Columns
    redactor: Redactor
    resumer: Resumer
    started_at: float
    start: float
    continued: bool

    def report(self, interrupted: str | None) -> Report:
        order, columns = self.order, self.columns
        return Report(
            self.redactor.clean(describe(order)),
            _without_secrets(self.matrix, self.redactor),
            columns,
            read=lambda slots: read_lines(order.journal, (columns.offset[slot] for slot in slots)),
            decode=decode,
            started_at=self.started_at,
            duration_s=time.perf_counter() - self.start,
            interrupted=interrupted,
            resumption=self._resumption() if self.continued or order.sources else None,
        )

    def _resumption(self) -> Resumption | None:
        """A merge is reported as one run, unless a line of a journal was lost."""
        found = self.resumer.resumption
        if self.order.merge and not found.torn:
            return None
        torn = tuple(self.named[Path(name)].as_posix() for name in found.torn)
        return msgspec.structs.replace(found, torn=torn)


def _anchored(order: Order) -> Order:
    """The same files wherever code under test makes the process go."""
    return msgspec.structs.replace(
        order,
        journal=order.journal.absolute(),
        sources=tuple(path.absolute() for path in order.sources),
        replay=order.replay and order.replay.absolute(),
    )


async def _finished(run: Run, watch: Watch, stop: Stop) -> str | None:
    """Finish a run; returns why it was stopped early, or None."""
    stop.run = run
    try:
        async with watch(run):
            await run.finish()
    except asyncio.CancelledError:
        if stop.reason is None:
            raise
        return stop.reason
    return run.stopped


def planned(order: Order) -> Matrix:
    """The suite's matrix, or a shard's share of it."""
    suite = order.suite
    matrix = Matrix(suite.cases, suite.variants, suite.runs)
    if order.shard is None:
        return matrix
    return Matrix(suite.cases, suite.variants, suite.runs, only=cells_of_shard(matrix, order.shard, order.durations_s))


def _without_secrets(matrix: Matrix, redactor: Redactor) -> Matrix:
    """The matrix as reports may show it: a case may hold what the suite elsewhere takes from a variable."""
    shown = copy(matrix)
    shown.cases = [redactor.clean(case) if _tells_secrets(case, redactor) else case for case in matrix.cases]
    return shown


def _tells_secrets(case: Case, redactor: Redactor) -> bool:
    told = (case.id, case.vars, case.input, case.messages, case.tags, case.description, case.metadata)
    try:
        return redactor.finds(msgspec.json.encode(told, enc_hook=repr))
    except UnicodeEncodeError:  # lone surrogates
        return True


def describe(order: Order) -> SuiteInfo:
    """What a journal and a report say of their suite."""
    suite = order.suite
    return SuiteInfo(
        name=suite.name,
        description=suite.description,
        file=suite.file,
        fingerprint=suite.fingerprint,
        runs=suite.runs,
        version=__version__,
        revision=order.revision,
        shard=str(order.shard) if order.shard else None,
    )


def check_sources(order: Order) -> None:
    """Refuse to merge what does not belong together.

    Raises:
        StorageError: a journal cannot be read.
        UsageError: one of them is of another suite, or the one that is written.
    """
    for path in order.sources:
        if path.resolve() == order.journal.resolve():
            raise UsageError(f"{path} is one of the journals to merge: choose another --out for the result")
        for header in headers(path)[-1:]:  # earlier invocations may have been of an earlier version
            if header.suite.fingerprint != order.suite.fingerprint:
                other = f"another suite than {order.suite.file} ({header.suite.name!r} at {header.suite.file})"
                raise UsageError(f"{path} is of {other}, another version of it, or other --runs or --providers")


def missing_shards(sources: tuple[Path, ...]) -> list[str]:
    """Which shards, as `3/5`, no journal is of."""
    labels = {header.suite.shard for path in sources for header in headers(path)[-1:]}
    counts = sorted({int(label.partition("/")[2]) for label in labels if label})
    every = [f"{number}/{count}" for count in counts for number in range(1, count + 1)]
    return [label for label in every if label not in labels]


class _RecordedReport(Struct):
    """The part of a report.json that durations are read from."""

    results: list[Result]


def known_durations(path: Path) -> Mapping[CellKey, float]:
    """The mean duration of a run of each cell in an earlier journal or report.json, in seconds.

    Raises:
        StorageError: it is neither.
    """
    seen: dict[CellKey, list[float]] = {}

    def note(result: Result, *_: object) -> None:
        seen.setdefault((result.case, result.provider, result.prompt), []).append(result.latency_s)

    path = path / JOURNAL if path.is_dir() else path
    if path.suffix == ".json":
        try:
            for result in msgspec.json.decode(path.read_bytes(), type=_RecordedReport).results:
                note(result)
        except (OSError, msgspec.DecodeError) as error:
            raise StorageError(f"{path}: is no report of ci-evals: {error}") from error
    else:
        scan(path, note)
    # exact, so that all shards agree whatever the order of the file they were given
    return {key: fsum(latencies) / len(latencies) for key, latencies in seen.items()}
