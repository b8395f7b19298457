"""Work that signals may end: the first one in order and in time, the second one at once."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any, NoReturn, TypeVar

from ci_evals.execution import Stop
from ci_evals.graders.patience import Patience
from ci_evals.providers.process import kill_all
from ci_evals.report import Report

T = TypeVar("T")

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
OVERDUE_S = 4.0  # of the seconds that a CI system leaves between asking a process to end and killing it


def until_stopped(
    phase: Callable[[Stop], Coroutine[Any, Any, Report]],
    conclude: Callable[[Report], int],
    salvage: Callable[[Report], None],
    around: Callable[[], AbstractContextManager[None]],
) -> int:
    """Run a phase to its end or until a signal comes, and conclude; returns the exit code.

    Args:
        phase: what to run; it returns a report when its `Stop` has a reason and it is cancelled.
        conclude: what is done with its report, however it ended, before anybody waits for threads and tasks that it
            left behind.
        salvage: what is done instead, in another thread, if code under test keeps the phase from ending in time.
        around: what code under test runs in.
    """
    ending = _Ending(salvage)
    runner = asyncio.Runner(loop_factory=_loop_factory())

    try:
        with ending.on_signals(runner.get_loop()):
            with around(), ending.patience.kept():
                report = runner.run(ending.cancellable(phase(ending.stop)))
            with ending.concluding:
                code = conclude(report)
                ending.concluded = True
    finally:
        if ending.which is None:  # else there is no time to wait for what was left behind
            with around():
                runner.close()
    return EXIT_CODES[ending.which] if ending.which else code


def until_ended(work: Coroutine[Any, Any, T]) -> T:
    """Run what leaves no report, to its end or until a signal comes: that ends the process, with all it started."""
    ending = _Ending(lambda _: None)
    with (
        asyncio.Runner(loop_factory=_loop_factory()) as runner,
        ending.on_signals(runner.get_loop()),
        ending.patience.kept(),
    ):
        try:
            return runner.run(ending.cancellable(work))
        finally:
            if ending.which is not None:
                _leave(ending.which)


class _Ending:
    """How a phase is ended from outside."""

    def __init__(self, salvage: Callable[[Report], None]) -> None:
        self.stop = Stop()
        self.task: asyncio.Task[Any] | None = None
        self.which: signal.Signals | None = None
        self.patience = Patience()
        self.concluding = threading.Lock()
        self.concluded = False
        self._salvage = salvage

    async def cancellable(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work that the first signal cancels, even one that came before it began."""
        self.task = task = asyncio.create_task(work)
        if self.which is not None:
            task.cancel()
        return await task

    @contextmanager
    def on_signals(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Let the first SIGINT or SIGTERM cancel the task, and the second one end the process."""

        def handle(number: int, _frame: FrameType | None) -> None:
            which = signal.Signals(number)
            if self.which is not None:
                _leave(which)  # the journal is whole at any moment
            self.which = which
            overdue = threading.Timer(OVERDUE_S, self._end_anyhow, [which])
            overdue.daemon = True
            overdue.start()
            self.stop.order(which.name)
            self.patience.hurry()
            if self.task is not None:
                loop.call_soon_threadsafe(self.task.cancel)

        before = {which: signal.signal(which, handle) for which in EXIT_CODES}
        try:
            yield
        finally:
            for which, handler in before.items():
                signal.signal(which, handler)

    def _end_anyhow(self, which: signal.Signals) -> None:
        """Save what there is and leave, whatever the code under test is doing in the main thread."""
        with self.concluding:
            if self.concluded:
                return
            try:
                if self.stop.report_so_far is not None:
                    self._salvage(self.stop.report_so_far())
            finally:
                _leave(which)


def _leave(which: signal.Signals) -> NoReturn:
    kill_all()
    os._exit(EXIT_CODES[which])


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
