"""The limit on calls under way, and that no provider takes another's share of it."""

import asyncio

from ci_evals.engine.slots import Claim, Slots


def claim_of(slots: Slots, workers: int) -> Claim:
    claim = slots.claim()
    claim.workers = workers
    return claim


async def take_all(slots: Slots, claim: Claim, count: int) -> list[asyncio.Task[None]]:
    """Ask for `count` slots; those that are not to be had keep waiting."""
    tasks = [asyncio.create_task(slots.acquire(claim)) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def test_no_more_than_the_limit_are_handed_out() -> None:
    slots = Slots(3)
    claim = claim_of(slots, 5)
    tasks = await take_all(slots, claim, 5)
    assert claim.in_use == 3
    slots.release(claim)
    assert claim.in_use == 3
    assert slots.free == 0
    for task in tasks:
        task.cancel()


async def test_a_provider_that_never_gives_back_keeps_its_share_and_no_more() -> None:
    slots = Slots(10)
    hanging, quick = claim_of(slots, 10), claim_of(slots, 10)
    stuck = await take_all(slots, hanging, 10)
    assert hanging.in_use == 5
    for _ in range(100):
        await slots.acquire(quick)
        slots.release(quick)
    assert hanging.in_use == 5
    for task in stuck:
        task.cancel()


async def test_what_nobody_else_can_use_is_lent() -> None:
    slots = Slots(10)
    busy, idle = claim_of(slots, 10), claim_of(slots, 2)
    tasks = await take_all(slots, busy, 10)
    assert busy.in_use == 8
    slots.leave(idle)
    assert busy.in_use == 9
    slots.leave(idle)
    assert busy.in_use == 10
    await asyncio.gather(*tasks)


async def test_a_waiter_that_is_cancelled_loses_no_slot() -> None:
    slots = Slots(1)
    claim = claim_of(slots, 2)
    await slots.acquire(claim)
    (waiter,) = await take_all(slots, claim, 1)
    slots.release(claim)  # hands the slot to the waiter …
    waiter.cancel()  # … which is gone before it could use it
    await asyncio.gather(waiter, return_exceptions=True)
    assert (slots.free, claim.in_use) == (1, 0)
