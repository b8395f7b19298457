"""Each provider's queue of runs."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from ci_evals.engine.calls import Calls
from ci_evals.engine.slots import Slot, SlotShare, StoppedError
from ci_evals.model.response import Response
from ci_evals.providers.base import ProviderOptions

DoRun = Callable[[int, Slot], Awaitable[None]]
"""Does the run with an index of the plan, with a slot that is held."""


class Queue:
    """The runs of one provider that are left to do.

    Args:
        options: the provider's settings.
        calls: makes its calls.
        share: its share of the slots.
        price: returns the cost of an answer in USD, or None if unknown.
    """

    def __init__(
        self,
        options: ProviderOptions,
        calls: Calls,
        share: SlotShare,
        price: Callable[[Response], float | None],
    ) -> None:
        self.options = options
        self.calls = calls
        self.price = price
        self._share = share
        self._indexes: Iterator[int] = iter(())
        self._is_stopped = False
        self._ended = asyncio.Event()

    def fill(self, indexes: Iterator[int]) -> None:
        """Queue runs by their index in the plan; pace and breaker keep their state."""
        self._indexes = indexes
        self._share.reserve()  # before any other queue takes slots

    async def work(self, do: DoRun, most: int) -> None:
        """Do the queued runs, at most `most` at once, until none is left or the queue is stopped.

        Each slot of the provider has a worker; a run that waits for another attempt has given its
        slot to a further one.
        """
        self._ended.clear()
        if self._is_stopped or not most:
            return
        async with asyncio.TaskGroup() as workers:

            def start_worker() -> None:
                workers.create_task(self._work(do))

            self._share.open(start_worker, most)
            try:
                await self._ended.wait()
            finally:
                self._share.exhaust()  # a group that is cancelled takes no further worker

    async def _work(self, do: DoRun) -> None:
        """Do runs while the slot may be kept."""
        slot = Slot(self._share, held=True)
        try:
            while slot.held and not self._share.must_yield:
                index = next(self._indexes, None)
                if index is None:
                    self._end()
                    return
                await do(index, slot)
        except StoppedError:
            pass
        except BaseException:
            self._end()  # else the slot, given back, would start another worker
            raise
        finally:
            slot.give_back()
            self._share.leave()

    def _end(self) -> None:
        self._share.exhaust()
        self._ended.set()

    def stop(self) -> None:
        """Begin no further run or attempt; calls under way are finished."""
        self._is_stopped = True
        self._share.close()
        self._ended.set()
        self.calls.stop()
