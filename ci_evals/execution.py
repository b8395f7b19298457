"""One invocation: open what is called, carry out the phases, report."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, ExitStack, closing, nullcontext
from pathlib import Path

import msgspec

from ci_evals.columns import Columns
from ci_evals.engine.journal import Journal
from ci_evals.engine.journal_lines import first_header, headers
from ci_evals.engine.lanes import Ready, opened
from ci_evals.engine.replay import Answers, Recording
from ci_evals.engine.runner import Run
from ci_evals.errors import UsageError
from ci_evals.ledger import Ledger
from ci_evals.matrix import Matrix
from ci_evals.model import Result
from ci_evals.order import Order
from ci_evals.phases import SETTLED, Phases, planned
from ci_evals.redaction import Redactor
from ci_evals.report import Report


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
    tell: Callable[[str], None] = lambda _: None,
    stop: Stop | None = None,
) -> Report:
    """Carry out an order.

    Args:
        order: what to do.
        on_result: called with each finished run.
        watch: shows the progress of a run while its context lasts.
        tell: called with a sentence when it is decided to go on, and why.
        stop: when its reason is set, a cancellation ends the run phase and not this call.

    Raises:
        ConfigError: a provider or grader cannot be opened; nothing was called, and no file was touched.
        StorageError: a journal cannot be read or written.
        UsageError: a source is of another suite.
    """
    named = {path.absolute(): path for path in (order.journal, *order.sources)}
    order = _anchored(order)
    matrix = planned(order, order.rounds[0])
    columns = Columns(matrix.total)
    redactor = Redactor(order.suite.secrets)
    stop = stop or Stop()
    async with _opened(order, matrix, columns) as ready:
        # From here on nothing can be wrong with the suite: what earlier runs left in the folder may be replaced.
        with ExitStack() as open_files:
            replay = order.traces or recordings(order, open_files)
            journal, continued = _journal(order, redactor)
            open_files.callback(journal.close)
            order = _as_begun(order) if continued else order
            ledger = Ledger(order, named, journal, matrix, columns, redactor, continued=continued)
            stop.report_so_far = lambda: ledger.report(stop.reason)
            phases = Phases(order, ledger, tell, on_result)
            if order.run_missing:
                run = Run(
                    order.suite,
                    matrix,
                    columns,
                    journal,
                    ledger.plan.cells,
                    ready,
                    on_result=phases.note,
                    replay=replay,
                    files=order.files,
                )
                stopped = await _finished(phases, run, watch, stop)
            else:
                await phases.work(None)
                stopped = _why_incomplete(order, ledger)
    return ledger.report(stopped)


def _opened(order: Order, matrix: Matrix, columns: Columns) -> AbstractAsyncContextManager[Ready]:
    """What is called; nothing if no run is missing, or all is replayed."""
    if not order.run_missing:
        return nullcontext(Ready())
    calls = not order.replay_only and order.traces is None
    return opened(order.suite, matrix, columns, calls=calls, judges=not order.replay_only, files=order.files)


def _journal(order: Order, redactor: Redactor) -> tuple[Journal, bool]:
    """The journal that is written, and whether it goes on with what an earlier invocation wrote."""
    continued = order.resume and order.journal.exists() and order.journal.stat().st_size > 0
    return (Journal if continued else Journal.new)(order.journal, redactor), continued


def _as_begun(order: Order) -> Order:
    """An order under the run id that its journal was begun with."""
    first = first_header(order.journal)
    return msgspec.structs.replace(order, run_id=first.suite.run_id or order.run_id) if first else order


def _why_incomplete(order: Order, ledger: Ledger) -> str | None:
    missing = missing_shards(order.sources) if ledger.plan.columns.status.count(0) else []
    return f"shard {', '.join(missing)} is missing" if missing else None


def recordings(order: Order, open_files: ExitStack) -> Answers | None:
    """What answers before any provider is called: the recordings that cases name, then that of the order."""
    replay = open_files.enter_context(closing(Recording(order.replay))) if order.replay else None
    if order.run_missing and any(case.cassette for case in order.suite.cases):
        from ci_evals.engine.cassettes import Cassettes

        return open_files.enter_context(closing(Cassettes(order.suite.cases, replay)))
    return replay


def _anchored(order: Order) -> Order:
    """The same files wherever code under test makes the process go."""
    return msgspec.structs.replace(
        order,
        journal=order.journal.absolute(),
        sources=tuple(path.absolute() for path in order.sources),
        replay=order.replay and order.replay.absolute(),
        files=order.files and order.files.absolute(),
    )


async def _finished(phases: Phases, run: Run, watch: Watch, stop: Stop) -> str | None:
    """Carry out the phases; returns why they were ended early by anything but their own verdict, or None."""
    stop.run = run
    try:
        async with watch(run):
            await phases.work(run)
    except asyncio.CancelledError:
        if stop.reason is None:
            raise
        return stop.reason
    return None if run.stopped == SETTLED else run.stopped


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


def missing_shards(sources: Iterable[Path]) -> list[str]:
    """Which shards, as `3/5`, no journal is of."""
    labels = {header.suite.shard for path in sources for header in headers(path)[-1:]}
    counts = sorted({int(label.partition("/")[2]) for label in labels if label})
    every = [f"{number}/{count}" for count in counts for number in range(1, count + 1)]
    return [label for label in every if label not in labels]
