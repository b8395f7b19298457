"""Signals: the first SIGINT, SIGTERM or SIGHUP stops a run and saves its report; the second
exits.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
)
from types import FrameType
from typing import Any, NoReturn, Self, TypeVar

from ci_evals.engine.runner import Run
from ci_evals.errors import EXIT_CODES
from ci_evals.providers.subprocess import kill_all
from ci_evals.user_code.targets import is_importing

T = TypeVar("T")


UNWIND_S = 30.0
"""Seconds after a signal's report, in which runs end and all fixtures are torn down."""
LEFTOVER_S = 2.0
"""Seconds in which tasks that code under test has left behind may end."""


END_S = UNWIND_S + 4 * LEFTOVER_S
"""Seconds in which a run that is closed must have ended."""


class Stop:
    """A request to end a run, with its reason.

    Attributes:
        reason: why the run ends; None until then.
        run: what makes runs.
        report: returns the results so far. It is set once runs are planned, and may be called at
            any point at which the run waits.
    """

    reason: str | None = None
    run: Run | None = None
    report: Callable[[], Any] | None = None

    def request(self, reason: str) -> None:
        self.reason = reason
        if self.run is not None:
            self.run.abort(reason)


class StoppableRun:
    """Runs work on an event loop of its own until it ends or the first SIGINT, SIGTERM or SIGHUP
    stops it.

    After a signal, the results so far are returned at once; the runs under way and the fixtures are
    ended when this is closed, so that what hangs there costs no report. Handlers stay until then: a
    first signal never interrupts the writing of reports, and a second one ends the process. The
    journal is intact at any moment.

    Args:
        around: makes the context in which code under test runs.
    """

    def __init__(self, around: Callable[[], AbstractContextManager[None]]) -> None:
        self.stop = Stop()
        self._around = around
        self._runner = asyncio.Runner()
        self._signals = _Signals(self.stop.request)
        self._handled = ExitStack()
        self._work: asyncio.Task[Any] | None = None

    @property
    def exit_code(self) -> int | None:
        """See `EXIT_CODES` after a signal, else None."""
        return EXIT_CODES[self._signals.received] if self._signals.received else None

    def __enter__(self) -> Self:
        self._handled.enter_context(self._signals.handle(self._runner.get_loop()))
        return self

    def __exit__(self, *_: object) -> None:
        with self._handled, self._around():
            loop = self._runner.get_loop()
            if not self._runner.run(self._end_tasks()):
                # Not by the runner, which waits for threads that code under test has left behind.
                loop.close()
            else:
                # They ignore their cancellation. The loop stays as it is until the process ends,
                # and says nothing of them then.
                loop.set_exception_handler(lambda _loop, _context: None)
                kill_all()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`, or what `Stop.report` returns after a signal; if there is
        nothing to report yet, the process ends.
        """
        with self._around():
            return self._runner.run(self._run(work))

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        self._work = asyncio.create_task(work)
        waiting = asyncio.create_task(asyncio.wait([self._work]))
        try:
            await self._signals.cancel(waiting)
        except asyncio.CancelledError:
            if self._signals.received is None:
                raise
        if self._work.done() and not self._work.cancelled():
            return self._work.result()  # type: ignore[no-any-return]  # of `work`
        if self._signals.received is None:
            return self._work.result()  # type: ignore[no-any-return]  # it raises: it was cancelled
        self._work.cancel()
        if self.stop.report is None:
            await asyncio.wait([self._work], timeout=UNWIND_S)
            _exit_at_once(self._signals.received)
        return self.stop.report()  # type: ignore[no-any-return]  # what `work` returns

    async def _end_tasks(self) -> bool:
        """Let the work end, and cancel tasks that code under test has left behind; return True if
        some of them go on.
        """
        if self._work is not None:
            await asyncio.wait([self._work], timeout=UNWIND_S)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        loop = asyncio.get_running_loop()
        left.add(asyncio.create_task(loop.shutdown_asyncgens()))
        _, left = await asyncio.wait(left, timeout=LEFTOVER_S)
        return bool(left)


@contextmanager
def deferred_signals() -> Iterator[list[signal.Signals]]:
    """Note the first SIGINT, SIGTERM or SIGHUP within the context, which goes on; the second ends
    the process. Yield a list that gets it.
    """
    received: list[signal.Signals] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        which = signal.Signals(number)
        if received:
            _exit_at_once(which)
        received.append(which)

    with _handling(on_signal):
        yield received


@contextmanager
def _handling(on_signal: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle signals within the context. Ignored ones (`nohup`) stay ignored."""
    signals = [which for which in EXIT_CODES if signal.getsignal(which) is not signal.SIG_IGN]
    before = {which: signal.signal(which, on_signal) for which in signals}
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


def run_until_signal(work: Coroutine[Any, Any, T]) -> T:
    """Run work that leaves no report. A signal ends the process and everything that it started."""
    signals = _Signals(lambda _: None)
    with asyncio.Runner() as runner, signals.handle(runner.get_loop()):
        try:
            return runner.run(_cancel_at(signals, work))
        finally:
            if signals.received is not None:
                _exit_at_once(signals.received)


async def _cancel_at(signals: "_Signals", work: Coroutine[Any, Any, T]) -> T:
    return await signals.cancel(asyncio.create_task(work))


class _Signals:
    """Handles signals: the first one cancels a task, the second ends the process. Ignored signals
    (`nohup`) stay ignored.

    Args:
        on_first: called with the name of the first signal, before the task is cancelled.
    """

    def __init__(self, on_first: Callable[[str], None]) -> None:
        self.received: signal.Signals | None = None
        self._on_first = on_first
        self._task: asyncio.Task[Any] | None = None

    async def cancel(self, task: asyncio.Task[T]) -> T:
        """Return the result of a task, which the first signal cancels, even an earlier one."""
        self._task = task
        if self.received is not None:
            task.cancel()
        return await task

    @contextmanager
    def handle(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        def on_signal(number: int, _frame: FrameType | None) -> None:
            which = signal.Signals(number)
            if self.received is not None:
                _exit_at_once(which)
            self.received = which
            if self._task is not None and self._task.done():
                return  # the reports are under way
            self._on_first(which.name)
            if self._task is not None and is_importing():
                # An import of the team's code blocks the event loop, which would otherwise cancel
                # the task. Raising here ends the import.
                self._task.cancel()
                raise asyncio.CancelledError
            # A handler may run in the middle of any code of the loop, and must wake it up.
            if self._task is not None:
                loop.call_soon_threadsafe(self._task.cancel)

        with _handling(on_signal):
            yield


def _exit_at_once(which: signal.Signals) -> NoReturn:
    """End the process without waiting for its threads, which a plain exit would do."""
    kill_all()
    os._exit(EXIT_CODES[which])
