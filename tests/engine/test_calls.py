"""The calls that one run consists of."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from suites import write_suite

from ci_evals.config.load import load_suite
from ci_evals.engine.calls import Calls
from ci_evals.engine.cells import Cells, PreparedCell
from ci_evals.engine.contact import Attempt, Contact
from ci_evals.engine.lane import Lane
from ci_evals.engine.pace import Pace
from ci_evals.engine.slots import Slots
from ci_evals.matrix import Matrix
from ci_evals.model import Request
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


def lane_of(provider: Echo, price: Callable[[Response], float | None] = lambda _: None) -> Lane:
    clock = asyncio.get_running_loop().time
    contact = Contact(
        provider,
        limit=1,
        retries=0,
        pace=Pace(rpm=None, tpm=None, limit=1, clock=clock),
        turn=asyncio.Lock(),
        judged=False,
        clock=clock,
        draw=lambda: 0.5,
    )
    return Lane(Mock(), contact, iter(()), limit=1, claim=Slots(1).claim(), price=price)


def conversation(folder: Path) -> PreparedCell:
    turns = [{"user": text, "expect": [{"equals": text}]} for text in ("one", "two")]
    suite = load_suite(write_suite(folder, [{"id": "talk", "turns": turns}]), {})
    return Cells(suite, Matrix(suite.cases, suite.variants, 1)).of_slot(0)


async def test_what_goes_wrong_after_an_answer_is_no_end_of_a_call(tmp_path: Path) -> None:
    def broken(response: Response) -> float:
        raise ZeroDivisionError

    lane = lane_of(Echo(), broken)
    assert lane.contact.admit(ATTEMPT, 0)
    with pytest.raises(ZeroDivisionError):
        await Calls(None, None, None).make(lane, ATTEMPT, conversation(tmp_path), 0)
    assert lane.contact.pace.under_way == 0


async def test_a_conversation_waits_for_the_end_of_an_outage_and_goes_on_where_it_was(tmp_path: Path) -> None:
    def noticing(response: Response) -> None:
        if len(provider.asked) == 1:
            contact.breaker.outlasting()

    provider, calls, cell = Echo(), Calls(None, None, None), conversation(tmp_path)
    lane = lane_of(provider, noticing)
    contact = lane.contact
    assert contact.admit(ATTEMPT, 0)
    assert await calls.make(lane, ATTEMPT, cell, 0) is None
    assert provider.asked == ["one"]
    assert lane.take() == ATTEMPT, "it is to be tried again, and has lost no attempt"
    assert contact.admit(ATTEMPT, 0)
    ended = await calls.make(lane, ATTEMPT, cell, 0)
    assert ended is not None
    assert ended.outcome.status == "passed"
    assert provider.asked == ["one", "two"]
    assert contact.pace.under_way == 0
