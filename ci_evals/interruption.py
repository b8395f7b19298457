"""A run phase that signals may end: the first one in order, the second one at once."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ci_evals.execution import Stop
from ci_evals.providers.process import kill_all
from ci_evals.report import Report

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


def until_stopped(phase: Callable[[Stop], Coroutine[Any, Any, Report]]) -> tuple[Report, signal.Signals | None]:
    """Run a phase to its end or until a signal comes; either way there is a report."""
    reports: list[Report] = []
    stop = Stop()

    async def main() -> None:
        task = asyncio.create_task(phase(stop))
        with _signals_stop(task, stop):
            reports.append(await task)

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(main())
    return reports[0], next((which for which in EXIT_CODES if which.name == stop.reason), None)


@contextmanager
def _signals_stop(task: asyncio.Task[Report], stop: Stop) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM cancel the task, and the second one end the process."""
    loop = asyncio.get_running_loop()

    def handle(number: int, _frame: FrameType | None) -> None:
        which = signal.Signals(number)
        if stop.reason is not None:
            kill_all()
            os._exit(EXIT_CODES[which])  # the journal is whole at any moment
        stop.reason = which.name
        loop.call_soon_threadsafe(task.cancel)

    before = {which: signal.signal(which, handle) for which in EXIT_CODES}
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
