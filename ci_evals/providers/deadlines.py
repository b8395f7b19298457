"""Time-outs of calls, all kept by one timer: nearly every call ends long before a timer of its own would ring."""

import asyncio
from types import TracebackType


class Deadlines:
    """The calls under way on the running loop that have a time-out."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._under_way: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    def within(self, seconds: float) -> "Deadline":
        """A block of the current task that ends in a `TimeoutError` if it takes longer."""
        deadline = Deadline(self._loop.time() + seconds, self._under_way)
        if self._timer is None or deadline.at < self._rings_at:
            self._ring_at(deadline.at)
        return deadline

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


class Deadline:
    """One block, as `asyncio.timeout` would have it, too: a cancellation from elsewhere stays one."""

    __slots__ = ("_cancelling", "_task", "_under_way", "at", "expired")

    def __init__(self, at: float, under_way: set["Deadline"]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.at = at
        self.expired = False
        self._task = task
        self._cancelling = task.cancelling()
        self._under_way = under_way

    def expire(self) -> None:
        self.expired = True
        self._task.cancel()

    def __enter__(self) -> None:
        self._under_way.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._under_way.remove(self)
        if self.expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
