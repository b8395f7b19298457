"""The calls of one provider: what becomes of them, and who hears of it."""

import asyncio

import pytest
from fakes.http_server import request_of
from fakes.virtual_time import in_virtual_time

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


class Hearing(Pace):
    """Remembers how long the last refused call was told to have taken."""

    def refused(self, retry_after_s: float | None, default_wait_s: float, latency_s: float) -> None:
        self.latency_s = latency_s
        super().refused(retry_after_s, default_wait_s, latency_s)


def contact_of(provider: Ending, rpm: float | None = None) -> Contact:
    clock = asyncio.get_running_loop().time
    return Contact(
        provider,
        limit=1,
        retries=1,
        pace=Hearing(rpm=rpm, tpm=None, limit=1, clock=clock),
        turn=asyncio.Lock(),
        own_code=False,
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


@pytest.mark.parametrize("is_cancelled", [True, False], ids=["cancelled", "not wanted any more"])
async def test_who_waits_in_vain_to_try_whether_an_outage_is_over_leaves_room_for_another(is_cancelled: bool) -> None:
    contact, attempt, asks = contact_of(Ending(None), rpm=1), Attempt(0, 1), asyncio.Event()
    assert contact.admit(attempt, 0)
    contact.breaker.outlasting()
    contact.probe(attempt)

    async def sleep(_: float) -> None:
        asks.set()
        await asyncio.sleep(0)

    waiting = asyncio.create_task(
        contact.admitted(attempt, lambda: 0, is_wanted=lambda: is_cancelled or not asks.is_set(), sleep=sleep)
    )
    await asks.wait()
    assert contact.until_probe_s > 0
    if is_cancelled:
        waiting.cancel()
    await asyncio.wait([waiting])
    assert contact.until_probe_s <= 0


@in_virtual_time
async def test_how_long_a_call_took_is_told_in_the_time_of_its_pace() -> None:
    class Slow(Ending):
        async def answer(self, request: Request) -> Response:
            await asyncio.sleep(7)
            return await super().answer(request)

    refused = ProviderError("rate_limit", "slow down", status=429)
    contact = contact_of(Slow(refused))
    assert contact.admit(Attempt(0, 1), 0)
    with pytest.raises(LostError):
        await contact.call(Attempt(0, 1), request_of(), 0)
    assert isinstance(contact.pace, Hearing)
    assert contact.pace.latency_s == pytest.approx(7)


async def test_a_crash_is_told_with_its_traceback_and_not_tried_again() -> None:
    contact = contact_of(Ending(ZeroDivisionError("by zero")))
    with pytest.raises(LostError) as lost:
        await contact.call(Attempt(0, 1), request_of(), 0)
    assert (lost.value.error.kind, lost.value.delay_s) == ("crash", None)
    assert "in answer" in str(lost.value.error.detail)
