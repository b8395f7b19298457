"""The calls that one run consists of."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fakes.virtual_time import in_virtual_time
from suites import write_suite

from ci_evals.config.load import load_suite
from ci_evals.engine.asked import Asked
from ci_evals.engine.calls import Calls, Ended
from ci_evals.engine.cells import Cells, PreparedCell
from ci_evals.engine.contact import Attempt, Contact
from ci_evals.engine.lane import Lane
from ci_evals.engine.pace import Pace
from ci_evals.engine.players import Players, player_key
from ci_evals.engine.slots import Slots
from ci_evals.matrix import Matrix
from ci_evals.model import Request
from ci_evals.providers.base import Provider
from ci_evals.providers.mock import Mock
from ci_evals.response import Response

ATTEMPT = Attempt(0, 1)


class Echo:
    """Answers with what it is asked."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    async def answer(self, request: Request) -> Response:
        self.asked.append(request.input)
        return Response(str(request.input))


def pace_of(tpm: float | None = None) -> Pace:
    return Pace(rpm=None, tpm=tpm, limit=1, clock=asyncio.get_running_loop().time)


def contact_of(provider: Provider, pace: Pace) -> Contact:
    return Contact(
        provider,
        limit=1,
        retries=0,
        pace=pace,
        turn=asyncio.Lock(),
        own_code=False,
        clock=asyncio.get_running_loop().time,
        draw=lambda: 0.5,
    )


def lane_of(
    provider: Provider, price: Callable[[Response], float | None] = lambda _: None, pace: Pace | None = None
) -> Lane:
    contact = contact_of(provider, pace or pace_of())
    return Lane(Mock(), contact, iter(()), limit=1, claim=Slots(1).claim(), price=price)


def cell_of(folder: Path, case: Mapping[str, Any]) -> PreparedCell:
    suite = load_suite(write_suite(folder, [{"id": "talk", **case}]), {})
    return Cells(suite, Matrix(suite.cases, suite.variants, 1)).of_slot(0)


def conversation(folder: Path) -> PreparedCell:
    return cell_of(folder, {"turns": [{"user": text, "expect": [{"equals": text}]} for text in ("one", "two")]})


async def converse(calls: Calls, lane: Lane, cell: PreparedCell) -> Ended | None:
    return await calls.converse(lane, ATTEMPT, cell, partial(lane.contact.admitted, ATTEMPT))


async def test_what_goes_wrong_after_an_answer_is_no_end_of_a_call(tmp_path: Path) -> None:
    def broken(response: Response) -> float:
        raise ZeroDivisionError

    lane = lane_of(Echo(), broken)
    with pytest.raises(ZeroDivisionError):
        await converse(Calls(None, None, None), lane, conversation(tmp_path))
    assert lane.contact.pace.under_way == 0


async def test_a_conversation_waits_for_the_end_of_an_outage_and_goes_on_where_it_was(tmp_path: Path) -> None:
    def noticing(response: Response) -> None:
        if len(provider.asked) == 1:
            contact.breaker.outlasting()

    provider, calls, cell = Echo(), Calls(None, None, None), conversation(tmp_path)
    lane = lane_of(provider, noticing)
    contact = lane.contact
    assert await converse(calls, lane, cell) is None
    assert provider.asked == ["one"]
    assert lane.take() == ATTEMPT, "it is to be tried again, and has lost no attempt"
    ended = await converse(calls, lane, cell)
    assert ended is not None
    assert ended.outcome.status == "passed"
    assert provider.asked == ["one", "two"]
    assert contact.pace.under_way == 0


@in_virtual_time
async def test_who_plays_the_user_may_share_a_pace_whose_first_call_goes_alone(tmp_path: Path) -> None:
    class Player(Echo):
        async def answer(self, request: Request) -> Response:
            await super().answer(request)
            return Response("<goal-reached>" if len(self.asked) > 1 else "one")

    user = {"provider": "echo", "persona": "terse", "goal": "an echo", "max_turns": 3}
    provider, pace, cell = Echo(), pace_of(tpm=1_000_000), cell_of(tmp_path, {"user": user})
    assert cell.case.user is not None
    options = cell.case.user.provider
    player = Asked(options, contact_of(Player(), pace), limit=1, timeout_s=None, price=lambda _: None)
    calls = Calls(Players({player_key(options): player}), None, None)
    async with asyncio.timeout(60):
        ended = await converse(calls, lane_of(provider, pace=pace), cell)
    assert ended is not None
    assert ended.outcome.status == "passed"
    assert provider.asked == ["one"]
    assert (pace.admitted, pace.under_way) == (3, 0)
