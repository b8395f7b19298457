"""Providers that refuse calls, in virtual time: by chance, for a quota, or while they are down."""

import asyncio
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ci_evals.engine.calls import Calls, LostError
from ci_evals.engine.limits import RateLimiter
from ci_evals.engine.queues import Queue
from ci_evals.engine.slots import Slot, Slots
from ci_evals.errors import ProviderError
from ci_evals.faults import kind_of_status
from ci_evals.model.case import Case
from ci_evals.model.request import Request
from ci_evals.model.response import Message, Response, Usage
from ci_evals.providers.mock import Mock
from fakes.virtual_time import VirtualLoop

REQUEST = Request(
    "Question?",
    (Message("user", "x" * 400),),
    Case(id="case", input="Question?", expect=()),
    1,
    60.0,
)
RUNS, WORKERS, RETRIES = 1000, 64, 4


def failing(status: int | None, retry_after_s: float | None = None) -> ProviderError:
    kind = "network" if status is None else kind_of_status(status)
    return ProviderError(kind, f"failed: {status}", status=status, retry_after_s=retry_after_s)


class Server(Protocol):
    """The far side: lets a call through at a moment, or tells why not."""

    def call(self, now: float) -> ProviderError | None: ...


class Free:
    """Lets everything through."""

    def call(self, now: float) -> ProviderError | None:
        return None

    def headers(self, now: float) -> Mapping[str, str]:
        return {}


class Chance(Free):
    """Fails a share of the calls, each share in its way."""

    def __init__(self, *shares: tuple[float, ProviderError], seed: int = 0) -> None:
        self._shares = shares
        self._draw = random.Random(seed).random

    def call(self, now: float) -> ProviderError | None:
        drawn = self._draw()
        for share, error in self._shares:
            if drawn < share:
                return error
            drawn -= share
        return None


class Bucket(Free):
    """A token bucket; every call costs `cost`."""

    def __init__(
        self,
        per_minute: float,
        burst: float,
        *,
        cost: float = 1,
        retry_after: bool = True,
        telling: bool = False,
    ) -> None:
        self.rate, self.burst, self.cost = per_minute / 60, burst, cost
        self.level, self._then = burst, 0.0
        self._retry_after, self._telling = retry_after, telling

    def minimum_s(self, runs: int) -> float:
        """The least time in which the quota lets so many calls through."""
        return (runs * self.cost - self.burst) / self.rate

    def call(self, now: float) -> ProviderError | None:
        self.level, self._then = min(self.burst, self.level + (now - self._then) * self.rate), now
        if self.level < self.cost - 1e-9:
            return failing(
                429, math.ceil((self.cost - self.level) / self.rate) if self._retry_after else None
            )
        self.level -= self.cost
        return None

    def headers(self, now: float) -> Mapping[str, str]:
        if not self._telling:
            return {}
        kind = "tokens" if self.cost > 1 else "requests"
        reset_ms = math.ceil((self.burst - self.level) / self.rate * 1000)
        return {
            f"x-ratelimit-limit-{kind}": str(int(self.burst)),
            f"x-ratelimit-remaining-{kind}": str(int(self.level)),
            f"x-ratelimit-reset-{kind}": f"{reset_ms}ms",
        }


class Window(Free):
    """A quota that is there again at once, every so many seconds."""

    def __init__(
        self, calls: int, length_s: float, *, retry_after: bool = True, telling: bool = False
    ) -> None:
        self.calls, self.length_s = calls, length_s
        self._retry_after, self._telling = retry_after, telling
        self._window, self._left = 0, calls

    def next_end_s(self, runs: int) -> float:
        """When the window ends in which so many calls can be through at the earliest."""
        return math.ceil(runs / self.calls) * self.length_s

    def call(self, now: float) -> ProviderError | None:
        if (window := int(now // self.length_s)) > self._window:
            self._window, self._left = window, self.calls
        if not self._left:
            return failing(429, math.ceil(self._ends_in_s(now)) if self._retry_after else None)
        self._left -= 1
        return None

    def headers(self, now: float) -> Mapping[str, str]:
        told = {
            "limit": self.calls,
            "remaining": self._left,
            "reset": math.ceil(self._ends_in_s(now)),
        }
        return (
            {f"x-ratelimit-{name}": str(value) for name, value in told.items()}
            if self._telling
            else {}
        )

    def _ends_in_s(self, now: float) -> float:
        return (self._window + 1) * self.length_s - now


class Down(Free):
    """Fails everything for a while."""

    def __init__(
        self, error: ProviderError, *, from_s: float = 0.0, until_s: float = math.inf
    ) -> None:
        self._error, self._from_s, self._until_s = error, from_s, until_s

    def call(self, now: float) -> ProviderError | None:
        return self._error if self._from_s <= now < self._until_s else None


class Simulated:
    """The provider at a distance: failures return after `failure_s`, answers after `latency_s`."""

    def __init__(
        self,
        server: Free,
        latency_s: float,
        failure_s: float | None = None,
        *,
        tokens: int = 0,
        seed: int = 1,
    ) -> None:
        self.server = server
        self.refused = self.calls = 0
        self.observe: Callable[[Mapping[str, str]], None] = lambda _: None
        self._latency_s = latency_s
        self._failure_s = min(latency_s, 0.02) if failure_s is None else failure_s
        self._usage = Usage(tokens * 6 // 10, tokens * 4 // 10) if tokens else None
        self._draw = random.Random(seed).random

    async def answer(self, request: Request) -> Response:
        now = asyncio.get_running_loop().time()
        error, headers = self.server.call(now), self.server.headers(now)
        self.calls += 1
        await asyncio.sleep(
            (self._failure_s if error else self._latency_s) * (0.9 + 0.2 * self._draw())
        )
        self.observe(headers)
        if error:
            self.refused += 1
            raise error
        return Response("fine", usage=self._usage)


@dataclass(frozen=True, slots=True)
class Job:
    """How a job went."""

    wall_s: float
    errored: int
    calls: int
    refused: int

    @property
    def refused_share(self) -> float:
        return self.refused / self.calls


def run_job(
    provider: Simulated,
    *,
    runs: int = RUNS,
    workers: int = WORKERS,
    retries: int = RETRIES,
    rpm: float | None = None,
    tpm: float | None = None,
) -> Job:
    """Do so many runs through queue, calls and rate limiter."""

    async def main() -> Job:
        loop, draw = asyncio.get_running_loop(), random.Random(2).random
        limiter = RateLimiter(rpm=rpm, tpm=tpm, clock=loop.time, wall_clock=loop.time)
        provider.observe = limiter.observe
        calls = Calls(provider, limiter, limit=workers, retries=retries, clock=loop.time, draw=draw)
        queue = Queue(Mock(name="simulated"), calls, Slots(workers).share(workers), lambda _: None)
        queue.fill(iter(range(runs)))
        errored = 0

        async def run(index: int, slot: Slot) -> None:
            nonlocal errored
            try:
                await calls.call(REQUEST, slot)
            except LostError:
                errored += 1

        await queue.work(run, runs)
        return Job(loop.time(), errored, provider.calls, provider.refused)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


def run_plain_loop(
    provider: Simulated, *, runs: int = RUNS, workers: int = WORKERS, retries: int = RETRIES
) -> Job:
    """Do the same in a plain loop: a call waits its `Retry-After` or backoff without its slot."""

    async def main() -> Job:
        loop, draw = asyncio.get_running_loop(), random.Random(2).random
        slots, errored = asyncio.Semaphore(workers), 0

        async def run() -> None:
            nonlocal errored
            for attempt in range(retries + 1):
                try:
                    async with slots:
                        await provider.answer(REQUEST)
                except ProviderError as error:
                    backoff_s = 0.5 * 2**attempt * draw()
                    wait_s = (
                        backoff_s
                        if error.retry_after_s is None
                        else error.retry_after_s + 0.1 * draw()
                    )
                else:
                    return
                if attempt < retries:
                    await asyncio.sleep(wait_s)
            errored += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(runs):
                group.create_task(run())
        return Job(loop.time(), errored, provider.calls, provider.refused)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())
