"""Providers that are asked while a run is under way: judges, users, stages."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from fakes.http_server import request_of
from fakes.virtual_time import in_virtual_time

from ci_evals.engine.asked import Asked
from ci_evals.engine.breaker import REFUSALS
from ci_evals.engine.contact import Contact
from ci_evals.engine.outage import LONGEST_DOWN_S, LONGEST_REFUSED_S
from ci_evals.engine.pace import Pace
from ci_evals.errors import ProviderError, StorageError
from ci_evals.model import Request
from ci_evals.providers.mock import Mock
from ci_evals.response import Response

LIMIT = 4
REFUSED = ProviderError("auth", "no such key", status=401)
DOWN = ProviderError("server", "down", status=503)


class Scripted:
    """Answers, or raises what `fault` gives for the number of the call, from 0.

    `called_at` has when each call came, and `beside` how many others were under way then.
    """

    def __init__(self, fault: Callable[[int], Exception | None] = lambda _: None) -> None:
        self.called_at: list[float] = []
        self.beside: list[int] = []
        self.active = 0
        self._fault = fault

    @property
    def calls(self) -> int:
        return len(self.called_at)

    async def answer(self, request: Request) -> Response:
        fault = self._fault(self.calls)
        self.called_at.append(asyncio.get_running_loop().time())
        self.beside.append(self.active)
        self.active += 1
        await asyncio.sleep(0)
        self.active -= 1
        if fault is not None:
            raise fault
        return Response("fine")


def asked_of(provider: Scripted, *, rpm: float | None = None, retries: int = 0) -> tuple[Asked, Pace]:
    clock = asyncio.get_running_loop().time
    pace = Pace(rpm=rpm, tpm=None, limit=LIMIT, clock=clock)
    contact = Contact(
        provider,
        limit=LIMIT,
        retries=retries,
        pace=pace,
        turn=asyncio.Lock(),
        own_code=False,
        clock=clock,
        draw=lambda: 0.0,
    )
    return Asked(Mock(name="judge"), contact, limit=LIMIT, timeout_s=None, price=lambda _: None), pace


async def outcomes(asked: Asked, count: int) -> list[str]:
    """What became of so many questions at once: `fine`, or the kind of the error."""

    async def one() -> str:
        try:
            return (await asked.answer(request_of())).output
        except ProviderError as error:
            return error.kind

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one()) for _ in range(count)]
    return [task.result() for task in tasks]


def gaps(times: Sequence[float]) -> list[float]:
    return [round(after - before, 3) for before, after in pairwise(times)]


@in_virtual_time
async def test_after_a_handful_of_refusals_it_is_asked_no_more_and_the_reason_is_told() -> None:
    provider = Scripted(lambda _: REFUSED)
    asked, pace = asked_of(provider)
    found = await outcomes(asked, 100)
    assert provider.calls <= LIMIT + 5
    assert found.count("auth") == provider.calls
    assert found.count("given_up") == 100 - provider.calls
    with pytest.raises(ProviderError, match="given up after 5 failures in a row: no such key"):
        await asked.answer(request_of())
    assert pace.under_way == 0


@in_virtual_time
async def test_those_who_wait_for_its_pace_ask_no_more_once_it_is_given_up() -> None:
    provider = Scripted(lambda _: REFUSED)
    asked, pace = asked_of(provider, rpm=60)
    found = await outcomes(asked, 100)
    assert (found.count("auth"), found.count("given_up")) == (REFUSALS, 100 - REFUSALS)
    assert (provider.calls, pace.under_way) == (REFUSALS, 0)


@in_virtual_time
async def test_after_a_short_outage_which_one_call_finds_out_the_rest_is_answered() -> None:
    lost = 2 * LIMIT  # the fifth one says that there is an outage, and three more are under way by then
    provider = Scripted(lambda call: DOWN if call < lost else None)
    asked, pace = asked_of(provider)
    found = await outcomes(asked, 50)
    assert (found.count("server"), found.count("fine")) == (lost, 50 - lost)
    assert provider.beside[lost] == 0, "nobody calls beside the one that tries"
    assert pace.under_way == 0


@in_virtual_time
async def test_an_outage_costs_nobody_the_answer_who_has_attempts_left() -> None:
    noticed = 3 * REFUSALS
    provider = Scripted(lambda call: DOWN if call < noticed + 2 else None)
    asked, pace = asked_of(provider, retries=2)
    assert await outcomes(asked, REFUSALS) == ["server"] * REFUSALS
    assert provider.calls == noticed
    assert await outcomes(asked, 50) == ["fine"] * 50
    assert provider.calls == noticed + 2 + 50
    assert pace.under_way == 0


@in_virtual_time
async def test_tries_whether_an_outage_is_over_are_further_and_further_apart() -> None:
    provider = Scripted(lambda _: DOWN)
    asked, _ = asked_of(provider, retries=2)
    found = await outcomes(asked, 50)
    assert gaps(provider.called_at)[-3:] == [0.5, 1.0, 2.0]
    assert provider.beside[-3:] == [0, 0, 0]
    assert found.count("given_up") == 50 - found.count("server")


@in_virtual_time
async def test_one_that_asks_for_patience_without_end_is_given_up() -> None:
    patient = ProviderError("server", "maintenance", status=503, retry_after_s=1.0)
    provider = Scripted(lambda _: patient)
    asked, pace = asked_of(provider, retries=20)
    found = await outcomes(asked, 50)
    assert (found.count("server"), found.count("given_up")) == (1, 49)
    first, *_, last = provider.called_at
    assert LONGEST_DOWN_S < last - first < 10 * LONGEST_DOWN_S
    assert pace.under_way == 0


@in_virtual_time
async def test_a_time_in_which_nobody_asked_is_none_of_an_outage() -> None:
    begins_at = LONGEST_REFUSED_S + 10
    limited = ProviderError("rate_limit", "slow down", status=429)

    def fault(_: int) -> Exception | None:
        now = asyncio.get_running_loop().time()
        return limited if now < 10 or begins_at <= now < begins_at + 8 else None

    asked, _ = asked_of(Scripted(fault), retries=3)
    assert await outcomes(asked, 1) == ["rate_limit"]
    await asyncio.sleep(begins_at - asyncio.get_running_loop().time())
    assert "given_up" not in await outcomes(asked, 2)
    assert await outcomes(asked, 2) == ["fine"] * 2


@in_virtual_time
async def test_who_waits_for_its_pace_is_asking() -> None:
    patient = ProviderError("server", "maintenance", status=503, retry_after_s=1.0)
    provider = Scripted(lambda _: patient)
    asked, _ = asked_of(provider, rpm=2, retries=20)
    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(outcomes(asked, 1))
            await asyncio.sleep(20)
    in_a_minute, probes = 3, 21
    assert provider.calls == in_a_minute + probes


@in_virtual_time
async def test_those_who_waited_for_the_end_of_an_outage_ask_at_once_then() -> None:
    waiting = asyncio.Barrier(LIMIT - 1)

    class Recovering(Scripted):
        async def answer(self, request: Request) -> Response:
            response = await super().answer(request)
            if self.calls > REFUSALS + 1:  # after the call that tried
                await waiting.wait()
            return response

    asked, _ = asked_of(Recovering(lambda call: DOWN if call < REFUSALS else None))
    assert await outcomes(asked, REFUSALS) == ["server"] * REFUSALS
    assert await outcomes(asked, LIMIT) == ["fine"] * LIMIT


@in_virtual_time
async def test_who_is_cancelled_while_it_tries_leaves_room_for_another() -> None:
    provider = Scripted(lambda call: DOWN if call < REFUSALS else None)
    asked, _ = asked_of(provider, rpm=1)
    await outcomes(asked, REFUSALS)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await asked.answer(request_of())
    assert await outcomes(asked, 1) == ["fine"]


@in_virtual_time
async def test_nobody_tries_what_is_known_to_be_over() -> None:
    together = asyncio.Barrier(2)

    class Late(Scripted):
        async def answer(self, request: Request) -> Response:
            is_first = not self.calls
            response = await super().answer(request)
            await (asyncio.sleep(0.5) if is_first else together.wait())
            return response

    asked, _ = asked_of(Late(lambda call: DOWN if 0 < call <= REFUSALS else None))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(outcomes(asked, 1))
        await asyncio.sleep(0)
        assert await outcomes(asked, REFUSALS) == ["server"] * REFUSALS
        assert await outcomes(asked, 2) == ["fine"] * 2


@in_virtual_time
async def test_an_outage_that_lasts_is_given_up() -> None:
    provider = Scripted(lambda _: DOWN)
    asked, _ = asked_of(provider)
    found = await outcomes(asked, 100)
    assert provider.calls <= 2 * LIMIT + 2
    assert found.count("given_up") == 100 - found.count("server")


async def test_no_more_calls_are_under_way_than_allowed() -> None:
    provider = Scripted()
    asked, pace = asked_of(provider)
    assert await outcomes(asked, 50) == ["fine"] * 50
    assert max(provider.beside) == LIMIT - 1
    assert (pace.admitted, pace.under_way) == (50, 0)


@in_virtual_time
async def test_its_rate_is_kept() -> None:
    provider = Scripted()
    asked, _ = asked_of(provider, rpm=1200)
    await outcomes(asked, 20)
    assert gaps(provider.called_at) == [0.05] * 19


@in_virtual_time
async def test_a_refusal_for_a_limit_pauses_all_and_is_tried_again() -> None:
    limited = ProviderError("rate_limit", "slow down", status=429, retry_after_s=0.3)
    provider = Scripted(lambda call: limited if call == 0 else None)
    asked, _ = asked_of(provider, retries=1)
    assert await outcomes(asked, 10) == ["fine"] * 10
    assert provider.calls == 11
    assert max(gaps(provider.called_at)) >= 0.3


async def test_a_file_that_cannot_be_kept_is_no_fault_of_the_provider() -> None:
    asked, pace = asked_of(Scripted(lambda _: StorageError("files: cannot be written: disk full")))
    with pytest.raises(StorageError, match="disk full"):
        await asked.answer(request_of())
    assert pace.under_way == 0
