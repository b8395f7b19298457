"""Time that passes only when everybody waits for it."""

import asyncio
import heapq
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from itertools import count
from typing import Any, ParamSpec

START = 1_750_000_000.0

P = ParamSpec("P")


class VirtualTime:
    """A clock and a sleep for `participants` tasks: time jumps ahead when all of them sleep.

    A task that awaits a fake server's answer counts as asleep while the server sleeps for it.
    """

    def __init__(self, participants: int = 1) -> None:
        self.now = START
        self.slept: list[float] = []
        self._participants = participants
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._order), woken))
        self._advance()
        await woken

    def leave(self) -> None:
        """One participant fewer."""
        self._participants -= 1
        self._advance()

    def _advance(self) -> None:
        if self._sleepers and len(self._sleepers) >= self._participants:
            self.now, _, woken = heapq.heappop(self._sleepers)
            woken.set_result(None)


class _Impatient(selectors.DefaultSelector):
    """Records how long to wait instead of waiting, unless there is nothing else to wait for."""

    skipped_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(None if timeout is None else 0)
        if not ready and timeout is not None:
            self.skipped_s += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Sleeps take no time, and its clock says that they did. It starts at 0."""

    def __init__(self) -> None:
        self._impatient = _Impatient()
        super().__init__(self._impatient)

    def time(self) -> float:
        return self._impatient.skipped_s


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test that only sleeps: waits can be long, and measured times are exact."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
