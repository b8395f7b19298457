"""Calls: attempts and waits, what counts as an attempt, giving up a provider, stopping."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from fakes.limited import REQUEST, failing
from fakes.virtual_time import in_virtual_time

from ci_evals.engine.calls import Calls, LostError
from ci_evals.engine.limits import RateLimiter
from ci_evals.engine.pace import (
    LONGEST_RETRY_AFTER_S,
    LONGEST_SILENCE_S,
    MOST_LOST,
    MOST_REFUSED_FOR_GOOD,
)
from ci_evals.engine.slots import Slot, Slots, SlotShare, StoppedError
from ci_evals.errors import ProviderError, StorageError
from ci_evals.model.request import Request
from ci_evals.model.response import Response

LIMIT = 4
WRONG_KEY, DOWN, BROKEN, GONE = failing(401), failing(503), failing(500), failing(None)
HANGS = ProviderError("timeout", "no answer within 60 s")
NO_CREDIT = ProviderError("no_credit", "You exceeded your current quota", status=429)
TOO_LONG, UNREADABLE = failing(400), ProviderError("bad_answer", "HTML, not JSON")


def always(error: Exception | None) -> Callable[[int], Exception | None]:
    return lambda _: error


def first(count: int, error: Exception) -> Callable[[int], Exception | None]:
    """The first so many calls end in the error, the others are answered."""
    return lambda call: error if call < count else None


class Scripted:
    """Answers after a second, or fails at once with `fault(number)`, where calls count from 0."""

    def __init__(self, fault: Callable[[int], Exception | None]) -> None:
        self.called_at: list[float] = []
        self.active = self.peak = 0
        self._fault = fault

    async def answer(self, request: Request) -> Response:
        fault = self._fault(len(self.called_at))
        self.called_at.append(asyncio.get_running_loop().time())
        self.active += 1
        self.peak = max(self.peak, self.active)
        try:
            await asyncio.sleep(0.01 if fault else 1.0)
        finally:
            self.active -= 1
        if fault is not None:
            raise fault
        return Response("fine")


@dataclass
class Caller:
    """Calls a scripted provider, a few at a time."""

    provider: Scripted
    calls: Calls
    limiter: RateLimiter
    slots: SlotShare = field(default_factory=lambda: Slots(LIMIT).share(LIMIT))

    async def call(self, *, begun: bool = False) -> tuple[str, int]:
        """Call once; returns `fine` or the kind of the error, and the attempts."""
        slot = Slot(self.slots)
        await slot.take()
        try:
            made = await self.calls.call(REQUEST, slot, continued=begun)
        except LostError as lost:
            return lost.error.kind, lost.attempts
        finally:
            slot.give_back()
        return made.response.output, made.attempts.number

    async def call_often(self, count: int) -> list[str]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.call()) for _ in range(count)]
        return [task.result()[0] for task in tasks]


def caller_of(
    fault: Callable[[int], Exception | None],
    *,
    retries: int = 0,
    rpm: float | None = None,
    own_code: bool = False,
) -> Caller:
    loop = asyncio.get_running_loop()
    provider, limiter = Scripted(fault), RateLimiter(rpm=rpm, clock=loop.time, wall_clock=loop.time)
    calls = Calls(
        provider,
        limiter,
        limit=LIMIT,
        retries=retries,
        own_code=own_code,
        clock=loop.time,
        draw=lambda: 0.5,
    )
    return Caller(provider, calls, limiter)


def gaps(times: Sequence[float]) -> list[float]:
    return [round(after - before, 2) for before, after in pairwise(times)]


# One call.


@pytest.mark.parametrize(
    "error", [BROKEN, GONE, HANGS, failing(408), failing(409), DOWN, failing(429)]
)
@in_virtual_time
async def test_a_failed_call_is_tried_again(error: ProviderError) -> None:
    caller = caller_of(first(2, error), retries=2)
    assert await caller.call() == ("fine", 3)
    assert caller.limiter.under_way == 0


@pytest.mark.parametrize(
    "error", [TOO_LONG, WRONG_KEY, failing(404), UNREADABLE, ZeroDivisionError("by zero")]
)
@in_virtual_time
async def test_a_call_that_failed_for_good_is_not(error: Exception) -> None:
    caller = caller_of(always(error), retries=2)
    kind = error.kind if isinstance(error, ProviderError) else "crash"
    assert await caller.call() == (kind, 1)


@in_virtual_time
async def test_a_crash_is_told_with_its_traceback() -> None:
    caller = caller_of(always(ZeroDivisionError("by zero")))
    with pytest.raises(LostError) as lost:
        await caller.calls.call(REQUEST, Slot(caller.slots))
    assert "in answer" in str(lost.value.error.detail)


@pytest.mark.parametrize("raised", [StorageError("disk full"), asyncio.CancelledError()])
@in_virtual_time
async def test_a_call_that_is_cut_short_gives_its_place_back(raised: BaseException) -> None:
    def fault(_: int) -> Exception | None:
        raise raised

    caller = caller_of(fault)
    with pytest.raises(type(raised)):
        await caller.call()
    assert caller.limiter.under_way == 0


@in_virtual_time
async def test_attempts_are_further_and_further_apart() -> None:
    caller = caller_of(always(BROKEN), retries=4)
    assert await caller.call() == ("server", 5)
    assert gaps(caller.provider.called_at) == [0.26, 0.51, 1.01, 2.01]


@in_virtual_time
async def test_a_retry_after_is_kept() -> None:
    caller = caller_of(first(1, failing(429, 7.0)), retries=1)
    assert await caller.call() == ("fine", 2)
    assert gaps(caller.provider.called_at) == [7.06]


@in_virtual_time
async def test_a_retry_after_of_nothing_is_lengthened_by_the_backoff() -> None:
    caller = caller_of(always(failing(500, 0.0)), retries=3)
    await caller.call()
    assert gaps(caller.provider.called_at) == [0.26, 0.51, 1.01]


@in_virtual_time
async def test_a_retry_after_beyond_five_minutes_is_final() -> None:
    caller = caller_of(always(failing(429, LONGEST_RETRY_AFTER_S + 1)), retries=4)
    assert await caller.call() == ("rate_limit", 1)
    kept = caller_of(first(1, failing(429, LONGEST_RETRY_AFTER_S)), retries=4)
    assert await kept.call() == ("fine", 2)


@in_virtual_time
async def test_a_call_that_waits_for_another_attempt_holds_no_slot() -> None:
    caller = caller_of(first(1, failing(429, 5.0)), retries=1)
    assert await caller.call_often(LIMIT + 1) == ["fine"] * (LIMIT + 1)
    assert caller.provider.called_at[LIMIT] == pytest.approx(0.01)
    assert caller.provider.peak == LIMIT


@in_virtual_time
async def test_no_more_calls_are_under_way_than_slots() -> None:
    caller = caller_of(first(10, BROKEN), retries=4)
    assert await caller.call_often(50) == ["fine"] * 50
    assert caller.provider.peak == LIMIT


@in_virtual_time
async def test_while_most_is_refused_refusals_are_no_attempts() -> None:
    caller = caller_of(lambda call: DOWN if 4 <= call < 40 else None, retries=1)
    assert set(await caller.call_often(100)) == {"fine"}


@in_virtual_time
async def test_without_retries_every_refusal_is_the_end_of_its_call() -> None:
    caller = caller_of(lambda call: DOWN if 4 <= call < 40 else None)
    assert (await caller.call_often(100)).count("server") == 36


# Giving up.


@pytest.mark.parametrize(
    "error", [WRONG_KEY, NO_CREDIT, failing(402), failing(404), failing(429, 3600)]
)
@in_virtual_time
async def test_a_provider_that_refuses_for_good_is_asked_a_handful_of_times(
    error: ProviderError,
) -> None:
    caller = caller_of(always(error), retries=4)
    found = await caller.call_often(100)
    assert len(caller.provider.called_at) <= MOST_REFUSED_FOR_GOOD + LIMIT - 1
    assert found.count("given_up") == 100 - len(caller.provider.called_at)
    with pytest.raises(
        LostError, match=f"given up after 5 failures in a row: {error.message}"
    ) as lost:
        await caller.calls.call(REQUEST, Slot(caller.slots))
    assert lost.value.cause is error
    assert caller.limiter.under_way == 0


@in_virtual_time
async def test_calls_that_wait_for_the_rate_end_when_the_provider_is_given_up() -> None:
    caller = caller_of(always(WRONG_KEY), rpm=60)
    assert (await caller.call_often(100)).count("given_up") == 100 - MOST_REFUSED_FOR_GOOD
    assert asyncio.get_running_loop().time() < MOST_REFUSED_FOR_GOOD


@in_virtual_time
async def test_calls_that_wait_for_another_attempt_end_when_the_provider_is_given_up() -> None:
    caller = caller_of(lambda call: failing(429, 200.0) if call == 0 else WRONG_KEY, retries=1)
    assert (await caller.call_often(20)).count("given_up") > 20 - MOST_REFUSED_FOR_GOOD - LIMIT
    assert asyncio.get_running_loop().time() < 1


@pytest.mark.parametrize("error", [BROKEN, GONE, HANGS])
@in_virtual_time
async def test_a_provider_that_loses_call_after_call_is_given_up(error: ProviderError) -> None:
    caller = caller_of(always(error), retries=1)
    found = await caller.call_often(100)
    assert MOST_LOST <= found.count(error.kind) < MOST_LOST + LIMIT
    assert found.count("given_up") == 100 - found.count(error.kind)


@pytest.mark.parametrize("error", [TOO_LONG, UNREADABLE])
@in_virtual_time
async def test_a_bad_question_says_nothing_about_the_provider(error: ProviderError) -> None:
    assert set(await caller_of(always(error)).call_often(100)) == {error.kind}


@in_virtual_time
async def test_an_answer_in_between_starts_the_count_anew() -> None:
    caller = caller_of(lambda call: None if call % 4 == 0 else WRONG_KEY)
    assert [await caller.call() for _ in range(100)].count(("fine", 1)) == 25


@pytest.mark.parametrize(
    ("error", "is_judged"),
    [
        (BROKEN, True),
        (DOWN, True),
        (failing(404), True),
        (GONE, False),
        (WRONG_KEY, False),
        (failing(402), False),
        (NO_CREDIT, False),
    ],
)
@in_virtual_time
async def test_the_teams_own_service_is_judged_run_by_run_as_long_as_it_is_there(
    error: ProviderError, is_judged: bool
) -> None:
    found = await caller_of(always(error), own_code=True).call_often(100)
    assert ("given_up" not in found) == is_judged


@pytest.mark.parametrize("error", [DOWN, failing(429), failing(503, 1.0), GONE])
@in_virtual_time
async def test_an_outage_is_outlived_without_losing_a_run(error: ProviderError) -> None:
    def fault(call: int) -> Exception | None:
        return error if 5 < asyncio.get_running_loop().time() < 65 else None

    caller = caller_of(fault, retries=4)
    assert set(await caller.call_often(100)) == {"fine"}
    assert asyncio.get_running_loop().time() < 65 + 30
    assert max(gaps(caller.provider.called_at)) < 5


@pytest.mark.parametrize(
    ("error", "asked_for_s", "reason"),
    [
        (DOWN, 0, r"still server error \(503\) after 2 min"),
        (failing(429, 1.0), 1, r"still rate-limited \(429\) after 2 min"),
        (failing(503, 200.0), 200, r"still server error \(503\) after"),
    ],
)
@in_virtual_time
async def test_a_provider_that_only_refuses_is_given_up_two_minutes_after_it_was_to_be_back(
    error: ProviderError, asked_for_s: int, reason: str
) -> None:
    caller = caller_of(lambda call: error if call else None, retries=4)
    found = await caller.call_often(100)
    assert set(found) == {"fine", error.kind, "given_up"}
    assert found.count(error.kind) < 10
    given_up_after_s = asyncio.get_running_loop().time() - LONGEST_SILENCE_S - asked_for_s
    # The first refusal after that time decides.
    assert 0 < given_up_after_s < max(10, asked_for_s)
    assert len(caller.provider.called_at) < 260
    told = rf"given up: {reason}.*, \d+ attempts: {error.message}"
    assert re.fullmatch(told, caller.calls.breaker.reason)
    assert caller.calls.gives_up_s is None


@in_virtual_time
async def test_the_time_at_which_a_provider_is_given_up_is_known_while_it_only_refuses() -> None:
    caller = caller_of(always(failing(429)), retries=4)
    calls = asyncio.create_task(caller.call_often(20))
    await asyncio.sleep(60)
    gives_up_s = caller.calls.gives_up_s
    assert gives_up_s is not None
    assert 50 < gives_up_s <= LONGEST_SILENCE_S - 60 + 1
    await calls


@in_virtual_time
async def test_time_in_which_nobody_called_is_no_silence() -> None:
    caller = caller_of(always(failing(429)))
    for _ in range(8):
        assert await caller.call_often(2) == ["rate_limit"] * 2
        await asyncio.sleep(300)
    assert caller.calls.breaker.cause is None


# Stopping.


@in_virtual_time
async def test_a_stop_ends_waits_and_not_calls() -> None:
    caller = caller_of(lambda call: failing(429, 100.0) if call == 0 else None, retries=1)
    tasks = [asyncio.create_task(caller.call()) for _ in range(3)]
    await asyncio.sleep(0.5)
    assert len(caller.calls.retries) == 1
    caller.calls.stop()
    with pytest.raises(StoppedError):
        await tasks[0]
    assert [await task for task in tasks[1:]] == [("fine", 1)] * 2
    with pytest.raises(StoppedError):
        await caller.call()
    assert asyncio.get_running_loop().time() == pytest.approx(1)
