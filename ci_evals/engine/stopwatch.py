"""Measures how long a call takes, without the time it waited for a place to run."""

import time
from contextvars import ContextVar
from types import TracebackType
from typing import Self


class Stopwatch:
    """Measures its `with` block; `discount` leaves seconds out, also of the stopwatches around it.

    Attributes:
        started_at: when the block began, in seconds since 1970.
        waited_s: what is left out.
        elapsed_s: how long the rest took, known once the block has ended.
    """

    def __enter__(self) -> Self:
        self.started_at = time.time()
        self.elapsed_s = 0.0
        self.waited_s = 0.0
        self._start = time.perf_counter()
        self._around = _running.get()
        self._token = _running.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _running.reset(self._token)
        self.elapsed_s = max(0.0, time.perf_counter() - self._start - self.waited_s)
        if self._around is not None:
            self._around.waited_s += self.waited_s


_running: ContextVar[Stopwatch | None] = ContextVar("running", default=None)


def discount(waited_s: float) -> None:
    """Leave some seconds out of what is being measured: it only waited for a place to run."""
    watch = _running.get()
    if watch is not None:
        watch.waited_s += waited_s
