"""Time-outs of calls, all kept by one timer: nearly every call ends long before a timer of its own would ring."""

import asyncio
from types import TracebackType

from msgspec import Struct


class Deadlines:
    """The calls under way on the running loop that have a time-out."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._under_way: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    def within(self, seconds: float) -> "Deadline":
        """A block of the current task that ends in a `TimeoutError` if it takes longer."""
        at = self._loop.time() + seconds
        if self._timer is None or at < self._rings_at:
            self._ring_at(at)
        task = asyncio.current_task(self._loop)
        assert task is not None
        return Deadline(at, task, task.cancelling(), self._under_way)

    def _ring_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings_at = self._loop.call_at(when, self._ring), when

    def _ring(self) -> None:
        self._timer = None
        now = max(self._loop.time(), self._rings_at)  # loops ring up to a clock tick early
        waiting = [deadline for deadline in self._under_way if not deadline.expired]
        for deadline in waiting:
            if deadline.at <= now:
                deadline.expire()
        next_at = min((deadline.at for deadline in waiting if deadline.at > now), default=None)
        if next_at is not None:
            self._ring_at(next_at)


class Deadline(Struct, eq=False):
    """One block, as `asyncio.timeout` would have it, too: a cancellation from elsewhere stays one.

    Args:
        at: when it ends, by the loop's clock.
        task: what runs it.
        cancelling: how many requests to cancel the task there were before.
        under_way: where it is to be found while it lasts.
        expired: whether it took too long.
    """

    at: float
    task: "asyncio.Task[object]"
    cancelling: int
    under_way: set["Deadline"]
    expired: bool = False

    def expire(self) -> None:
        self.expired = True
        self.task.cancel()

    def __enter__(self) -> None:
        self.under_way.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.under_way.remove(self)
        if self.expired and self.task.uncancel() <= self.cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
