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


class Stop:
    """A request to end a run, with its reason. The run's task is cancelled after it."""

    reason: str | None = None
    run: Run | None = None

    def request(self, reason: str) -> None:
        self.reason = reason
        if self.run is not None:
            self.run.abort(reason)


class StoppableRun:
    """Runs work on an event loop of its own until it ends or the first SIGINT, SIGTERM or SIGHUP
    stops it.

    The handlers stay until the context ends, so that a second signal can end the process while
    reports are written. The journal is intact at any moment.

    Args:
        around: makes the context in which code under test runs.
    """

    def __init__(self, around: Callable[[], AbstractContextManager[None]]) -> None:
        self.stop = Stop()
        self._around = around
        self._runner = asyncio.Runner()
        self._signals = _Signals(self.stop.request)
        self._handled = ExitStack()

    @property
    def exit_code(self) -> int | None:
        """See `EXIT_CODES` after a signal, else None."""
        return EXIT_CODES[self._signals.received] if self._signals.received else None

    def __enter__(self) -> Self:
        self._handled.enter_context(self._signals.handle(self._runner.get_loop()))
        return self

    def __exit__(self, *_: object) -> None:
        self._handled.close()
        if self._signals.received is None:
            # Closing waits for threads and tasks that code under test left behind. After a signal,
            # they must not keep the process from ending.
            with self._around():
                self._runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`; if a signal cancels it first, the process ends."""
        with self._around():
            try:
                return self._runner.run(self._signals.cancel(work))
            except asyncio.CancelledError:
                if self._signals.received is not None:
                    _exit_at_once(self._signals.received)
                raise


def run_until_signal(work: Coroutine[Any, Any, T]) -> T:
    """Run work that leaves no report. A signal ends the process and everything that it started."""
    signals = _Signals(lambda _: None)
    with asyncio.Runner() as runner, signals.handle(runner.get_loop()):
        try:
            return runner.run(signals.cancel(work))
        finally:
            if signals.received is not None:
                _exit_at_once(signals.received)


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

    async def cancel(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work`; the first signal cancels it, even one received before it started."""
        self._task = task = asyncio.create_task(work)
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
            self._on_first(which.name)
            if self._task is not None and is_importing():
                # An import of the team's code blocks the event loop, which would otherwise cancel
                # the task. Raising here ends the import.
                self._task.cancel()
                raise asyncio.CancelledError
            # A handler may run in the middle of any code of the loop, and must wake it up.
            if self._task is not None:
                loop.call_soon_threadsafe(self._task.cancel)

        signals = [which for which in EXIT_CODES if signal.getsignal(which) is not signal.SIG_IGN]
        before = {which: signal.signal(which, on_signal) for which in signals}
        try:
            yield
        finally:
            for which, handler in before.items():
                signal.signal(which, handler)


def _exit_at_once(which: signal.Signals) -> NoReturn:
    """End the process without waiting for its threads, which a plain exit would do."""
    kill_all()
    os._exit(EXIT_CODES[which])
