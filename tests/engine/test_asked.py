"""Providers that are asked while a run is under way: judges, users, stages."""

import asyncio
from collections.abc import Callable

import pytest
from fakes.http_server import request_of

from ci_evals.engine.asked import Asked
from ci_evals.engine.breaker import REFUSALS
from ci_evals.engine.pace import Pace
from ci_evals.errors import ProviderError, StorageError
from ci_evals.model import Request
from ci_evals.providers.mock import Mock
from ci_evals.response import Response

LIMIT = 4
REFUSED = ProviderError("auth", "no such key", status=401)
DOWN = ProviderError("server", "down", status=503)


class Scripted:
    """Answers, or raises what `fault` gives for the number of the call, from 0."""

    def __init__(self, fault: Callable[[int], Exception | None] = lambda _: None) -> None:
        self.calls = self.active = self.peak = 0
        self._fault = fault

    async def answer(self, request: Request) -> Response:
        fault = self._fault(self.calls)
        self.calls += 1
        self.active += 1
        self.peak = max(self.peak, self.active)
        await asyncio.sleep(0)
        self.active -= 1
        if fault is not None:
            raise fault
        return Response("fine")


def asked_of(provider: Scripted, *, rpm: float | None = None, retries: int = 0) -> tuple[Asked, Pace]:
    pace = Pace(rpm=rpm, tpm=None, limit=LIMIT, clock=asyncio.get_running_loop().time)
    asked = Asked(
        Mock(name="judge"),
        provider,
        pace=pace,
        turn=asyncio.Lock(),
        limit=LIMIT,
        retries=retries,
        timeout_s=None,
        price=lambda _: None,
        draw=lambda: 0.0,
    )
    return asked, pace


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


async def test_after_a_short_outage_which_one_call_finds_out_the_rest_is_answered() -> None:
    lost = 2 * LIMIT  # the fifth one says that there is an outage, and three more are under way by then
    provider = Scripted(lambda call: DOWN if call < lost else None)
    asked, pace = asked_of(provider)
    beside: list[int] = []

    class Watched(Scripted):
        async def answer(self, request: Request) -> Response:
            if provider.calls >= lost:
                beside.append(provider.active)
            return await provider.answer(request)

    asked._provider = Watched()
    found = await outcomes(asked, 50)
    assert (found.count("server"), found.count("fine")) == (lost, 50 - lost)
    assert beside[:2] == [0, 0], "nobody calls beside the one that tries"
    assert pace.under_way == 0


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
    assert provider.peak == LIMIT
    assert (pace.admitted, pace.under_way) == (50, 0)


async def test_its_rate_is_kept() -> None:
    """A lower bound of time holds however slow the machine is."""
    asked, _ = asked_of(Scripted(), rpm=1200)
    loop = asyncio.get_running_loop()
    start = loop.time()
    await outcomes(asked, 20)
    assert loop.time() - start >= 19 / 20 - 0.3


async def test_a_refusal_for_a_limit_pauses_all_and_is_tried_again() -> None:
    limited = ProviderError("rate_limit", "slow down", status=429, retry_after_s=0.3)
    provider = Scripted(lambda call: limited if call == 0 else None)
    asked, _ = asked_of(provider, retries=1)
    loop = asyncio.get_running_loop()
    start = loop.time()
    assert await outcomes(asked, 10) == ["fine"] * 10
    assert loop.time() - start >= 0.3
    assert provider.calls == 11


async def test_a_file_that_cannot_be_kept_is_no_fault_of_the_provider() -> None:
    asked, _ = asked_of(Scripted(lambda _: StorageError("files: cannot be written: disk full")))
    with pytest.raises(StorageError, match="disk full"):
        await asked.answer(request_of())
