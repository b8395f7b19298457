"""Time-outs that share one timer: who is ended, when, and who is left alone."""

import asyncio

import pytest

from ci_evals.providers.deadlines import Deadlines


async def hang(deadlines: Deadlines, seconds: float) -> str:
    try:
        with deadlines.within(seconds):
            await asyncio.Event().wait()
    except TimeoutError:
        return "timed out"
    return "ended"


async def test_every_block_ends_whatever_the_order_of_their_times() -> None:
    deadlines = Deadlines()
    ended = await asyncio.gather(*(hang(deadlines, seconds) for seconds in (0.03, 0.01, 0.02, 0.0)))
    assert ended == ["timed out"] * 4


async def test_a_longer_time_is_not_cut_short_by_a_shorter_one() -> None:
    deadlines = Deadlines()
    longer = asyncio.create_task(hang(deadlines, 60))
    assert await hang(deadlines, 0.01) == "timed out"
    assert not longer.done()
    longer.cancel()


async def test_blocks_that_end_in_time_are_left_alone_and_later_ones_still_end() -> None:
    deadlines = Deadlines()
    with deadlines.within(0.01):
        pass
    with deadlines.within(60):
        assert await hang(deadlines, 0.02) == "timed out"  # the timer has rung for nobody, and goes on


async def test_a_cancellation_from_elsewhere_stays_one() -> None:
    task = asyncio.create_task(hang(Deadlines(), 60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_is_not_lost_to_a_time_out_of_the_same_moment() -> None:
    deadlines = Deadlines()

    async def both() -> None:
        with deadlines.within(0.0):
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_later(0.0, task.cancel)
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(both())


async def test_after_a_time_out_the_task_goes_on_as_if_never_cancelled() -> None:
    assert await hang(Deadlines(), 0.01) == "timed out"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)
