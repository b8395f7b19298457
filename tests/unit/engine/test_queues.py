"""The limit on calls under way, and that no provider takes another's share of it."""

import asyncio

from fakes.limited import Free, Simulated
from fakes.virtual_time import in_virtual_time

from ci_evals.engine.calls import Calls
from ci_evals.engine.limits import RateLimiter
from ci_evals.engine.queues import Queue
from ci_evals.engine.slots import BACKLOG, Slot, Slots, SlotShare
from ci_evals.providers.mock import Mock


def share_of(slots: Slots, demand: int) -> SlotShare:
    """The share of a provider that has so many runs left."""
    share = slots.share(slots.limit)
    share.workers = demand
    return share


async def take(share: SlotShare, count: int) -> list[asyncio.Task[None]]:
    """Ask for `count` slots; those that are not to be had keep waiting."""
    tasks = [asyncio.create_task(share.acquire()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


def queue_of(slots: Slots, limit: int, runs: int) -> Queue:
    loop = asyncio.get_running_loop()
    limiter = RateLimiter(clock=loop.time)
    calls = Calls(
        Simulated(Free(), 1.0), limiter, limit=limit, retries=0, clock=loop.time, draw=lambda: 0.0
    )
    queue = Queue(Mock(name="mock"), calls, slots.share(limit), lambda _: None)
    queue.fill(iter(range(runs)))
    return queue


async def test_no_more_slots_than_the_limit_are_handed_out() -> None:
    slots = Slots(3)
    share = share_of(slots, 5)
    tasks = await take(share, 5)
    assert share.in_use == 3
    share.release()
    assert (share.in_use, slots.free) == (3, 0)
    for task in tasks:
        task.cancel()


async def test_a_provider_that_never_gives_back_keeps_its_share_and_no_more() -> None:
    slots = Slots(10)
    hanging, quick = share_of(slots, 10), share_of(slots, 10)
    stuck = await take(hanging, 10)
    assert hanging.in_use == 5
    for _ in range(100):
        await quick.acquire()
        quick.release()
    assert hanging.in_use == 5
    for task in stuck:
        task.cancel()


async def test_slots_that_nobody_else_can_use_are_lent() -> None:
    slots = Slots(10)
    busy, idle = share_of(slots, 10), share_of(slots, 2)
    tasks = await take(busy, 10)
    assert busy.in_use == 8
    idle.leave()
    assert busy.in_use == 9
    idle.leave()
    assert busy.in_use == 10
    await asyncio.gather(*tasks)


async def test_a_waiter_that_is_cancelled_loses_no_slot() -> None:
    slots = Slots(1)
    share = share_of(slots, 2)
    await share.acquire()
    (waiter,) = await take(share, 1)
    share.release()  # hands the slot to the waiter …
    waiter.cancel()  # … which is gone before it could use it
    await asyncio.gather(waiter, return_exceptions=True)
    assert (slots.free, share.in_use) == (1, 0)


class Work:
    """Does runs: each takes until it is let go."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self._ends: dict[int, asyncio.Event] = {}

    async def do(self, index: int, slot: Slot) -> None:
        self.begun.append(index)
        self._ends[index] = asyncio.Event()
        await self._ends[index].wait()

    async def wait_without_slot(self, index: int, slot: Slot) -> None:
        slot.give_back()
        await self.do(index, slot)

    async def let_go(self, *indexes: int) -> None:
        for index in indexes:
            self._ends[index].set()
        await asyncio.sleep(1)


@in_virtual_time
async def test_runs_are_done_in_order_within_the_providers_own_limit() -> None:
    slots, work = Slots(10), Work()
    queue = queue_of(slots, 2, 3)
    working = asyncio.create_task(queue.work(work.do, 3))
    await asyncio.sleep(1)
    assert work.begun == [0, 1]
    await work.let_go(0)
    assert work.begun == [0, 1, 2]
    await work.let_go(1, 2)
    await working
    assert slots.free == 10
    queue.fill(iter([7]))
    working = asyncio.create_task(queue.work(work.do, 3))
    await asyncio.sleep(1)
    assert work.begun == [0, 1, 2, 7]
    await work.let_go(7)
    await working


@in_virtual_time
async def test_no_queue_begins_on_the_share_of_one_that_begins_later() -> None:
    slots, work = Slots(4), Work()
    queues = [queue_of(slots, 4, 10) for _ in range(2)]
    working = asyncio.create_task(queues[0].work(work.do, 10))
    await asyncio.sleep(1)
    assert work.begun == [0, 1]
    later = asyncio.create_task(queues[1].work(work.do, 10))
    await asyncio.sleep(1)
    assert work.begun == [0, 1, 0, 1]
    working.cancel()
    later.cancel()


@in_virtual_time
async def test_queues_that_are_cancelled_together_begin_nothing_on_each_others_slots() -> None:
    slots, work = Slots(4), Work()
    queues = [queue_of(slots, 4, 10) for _ in range(2)]
    working = [asyncio.create_task(queue.work(work.do, 10)) for queue in queues]
    await asyncio.sleep(1)
    for task in working:
        task.cancel()
    ends = await asyncio.gather(*working, return_exceptions=True)
    assert [type(end) for end in ends] == [asyncio.CancelledError] * 2
    assert work.begun == [0, 1, 0, 1]
    assert slots.free == 4


@in_virtual_time
async def test_runs_that_wait_for_another_attempt_are_bounded() -> None:
    work = Work()
    queue = queue_of(Slots(1), 1, 100)
    working = asyncio.create_task(queue.work(work.wait_without_slot, 100))
    await asyncio.sleep(1)
    assert len(work.begun) == BACKLOG
    await work.let_go(0)
    assert len(work.begun) == BACKLOG + 1
    working.cancel()


@in_virtual_time
async def test_a_queue_that_is_stopped_begins_no_further_run() -> None:
    slots, work = Slots(1), Work()
    queue = queue_of(slots, 1, 10)
    working = asyncio.create_task(queue.work(work.do, 10))
    await asyncio.sleep(1)
    queue.stop()
    assert not working.done()
    await work.let_go(0)
    await working
    assert work.begun == [0]
    assert slots.free == 1


@in_virtual_time
async def test_a_queue_without_runs_ends_at_once() -> None:
    slots, work = Slots(2), Work()
    for most in (0, 3):  # runs of all providers, of which this one has none
        await queue_of(slots, 2, 0).work(work.do, most)
    assert (work.begun, slots.free) == ([], 2)
