"""The calls of one provider: what becomes of them, and who hears of it."""

import asyncio

import pytest
from fakes.http_server import request_of

from ci_evals.engine.contact import Attempt, Contact, LostError
from ci_evals.engine.pace import Pace
from ci_evals.errors import ProviderError, StorageError
from ci_evals.model import Request
from ci_evals.response import Response


class Ending:
    """Answers, or ends as it is told."""

    def __init__(self, end: BaseException | None) -> None:
        self._end = end

    async def answer(self, request: Request) -> Response:
        if self._end is not None:
            raise self._end
        return Response("fine")


def contact_of(provider: Ending) -> Contact:
    clock = asyncio.get_running_loop().time
    return Contact(
        provider,
        limit=1,
        retries=1,
        pace=Pace(rpm=None, tpm=None, limit=1, clock=clock),
        turn=asyncio.Lock(),
        judged=False,
        clock=clock,
        draw=lambda: 0.5,
    )


@pytest.mark.parametrize(
    ("end", "raised"),
    [
        (None, None),
        (ProviderError("network", "reset"), LostError),
        (ProviderError("rate_limit", "slow down", status=429), LostError),
        (ZeroDivisionError(), LostError),
        (StorageError("disk full"), StorageError),
        (asyncio.CancelledError(), asyncio.CancelledError),
    ],
    ids=["answered", "lost", "refused", "crashed", "not kept", "cancelled"],
)
async def test_the_pace_hears_once_of_each_call(end: BaseException | None, raised: type[BaseException] | None) -> None:
    contact = contact_of(Ending(end))
    attempt = Attempt(0, 1)
    assert contact.admit(attempt, 0)
    assert contact.pace.under_way == 1
    if raised is None:
        await contact.call(attempt, request_of(), 0)
    else:
        with pytest.raises(raised):
            await contact.call(attempt, request_of(), 0)
    assert contact.pace.under_way == 0


async def test_a_crash_is_told_with_its_traceback_and_not_tried_again() -> None:
    contact = contact_of(Ending(ZeroDivisionError("by zero")))
    with pytest.raises(LostError) as lost:
        await contact.call(Attempt(0, 1), request_of(), 0)
    assert (lost.value.error.kind, lost.value.delay_s) == ("crash", None)
    assert "in answer" in str(lost.value.error.detail)
