"""The models that graders ask: each at its pace, with its retries, and with what it took counted by itself."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from itertools import count

import msgspec

from ci_evals.engine import retry
from ci_evals.engine.breaker import Breaker
from ci_evals.engine.pace import Pace
from ci_evals.errors import GradingError, ProviderError
from ci_evals.model import Asking, Judging, Request, Response
from ci_evals.providers.base import Provider, ProviderOptions


class Judge:
    """One model that graders ask.

    A call to it takes place within the slot of the run that is judged, so that the suite's `max_concurrency` holds.

    Args:
        options: its settings.
        provider: what answers.
        pace: when it may be called; shared by a `limit_group`, and by the lane of the same provider.
        turn: held by who asks `pace`; shared likewise.
        limit: how many of its calls may be under way.
        retries: further attempts after a refused or lost call.
        timeout_s: seconds that a call may take.
        price: what an answer cost, in USD, or None where that is not known.
        draw: returns a uniform number in [0, 1).
    """

    def __init__(  # noqa: PLR0913  a judge is where these meet
        self,
        options: ProviderOptions,
        provider: Provider,
        *,
        pace: Pace,
        turn: asyncio.Lock,
        limit: int,
        retries: int,
        timeout_s: float,
        price: Callable[[Response], float | None],
        draw: Callable[[], float],
    ) -> None:
        self.options = options
        self.price = price
        self._provider = provider
        self._pace = pace
        self._turn = turn
        self._calls = asyncio.Semaphore(limit)
        self._retries = retries
        self._timeout_s = timeout_s
        self._draw = draw
        self._breaker = Breaker(limit=limit, attempts=retries + 1)

    async def answer(self, request: Request) -> Response:
        """Call until there is an answer, or no further attempt.

        Raises:
            ProviderError: there is no answer.
        """
        request = msgspec.structs.replace(request, timeout_s=self._timeout_s)
        async with self._calls:
            for attempt in count(1):
                if self._breaker.state == "open":
                    raise ProviderError("given_up", self._breaker.reason)
                tokens = await self._admitted(request)
                start = time.perf_counter()
                try:
                    response = await self._provider.answer(request)
                except Exception as raised:  # noqa: BLE001  a provider is not our code
                    error = raised if isinstance(raised, ProviderError) else _crash(raised)
                else:
                    self._pace.answered(response.usage, tokens)
                    self._breaker.answered()
                    return response
                delay_s = self._lost(error, attempt, time.perf_counter() - start)
                if delay_s is None:
                    raise error
                await asyncio.sleep(delay_s)
        raise AssertionError("unreachable")

    async def _admitted(self, request: Request) -> int:
        """Wait for the pace; returns the tokens that the call was admitted with."""
        async with self._turn:
            while True:
                length = sum(len(message.content) for message in request.messages)
                tokens = self._pace.estimate(length, None) if self._pace.counts_tokens else 0
                if (wait_s := self._pace.admit(tokens)) <= 0:
                    return tokens
                await asyncio.sleep(wait_s)

    def _lost(self, error: ProviderError, attempt: int, latency_s: float) -> float | None:
        """Note a call without an answer; returns the seconds to wait before the next, or None if it was the last."""
        delay_s = retry.delay_s(attempt, error.retry_after_s, self._draw)
        if error.kind == "rate_limit" or error.retry_after_s is not None:
            self._pace.refused(error.retry_after_s, delay_s, latency_s)
        else:
            self._pace.failed()
        if error.retryable and attempt <= self._retries:
            return delay_s
        self._breaker.gave_up(error)
        return None


class Judges:
    """All models that graders may ask, by name."""

    def __init__(self, judges: Mapping[str, Judge], unnamed: Collection[str]) -> None:
        """Take the models by name, and which of those a grader without a `provider` may mean."""
        self._judges = judges
        self._unnamed = unnamed

    def meter(self) -> "Meter":
        """Access for one run, which counts what it takes."""
        return Meter(self)

    def find(self, grader: Asking) -> Judge:
        """The model that a grader names, or the only one of its kind.

        Raises:
            GradingError: there is none.
        """
        fitting = {name: judge for name, judge in self._judges.items() if judge.options.embeds == grader.embeds}
        if grader.provider is not None and grader.provider in fitting:
            return fitting[grader.provider]
        meant = [name for name in fitting if name in self._unnamed]
        if grader.provider is None and len(meant) == 1:
            return fitting[meant[0]]
        named = "no `provider` is named" if grader.provider is None else f"there is no judge {grader.provider!r}"
        raise GradingError(f"{named}; known: {', '.join(fitting) or 'none'}", "judge")


class Meter:
    """The models as one run asks them; `judging` is what that took so far."""

    def __init__(self, judges: Judges) -> None:
        self.judging = Judging()
        self._judges = judges

    async def ask(self, grader: Asking, request: Request) -> Response:
        """See `model.Models`."""
        judge = self._judges.find(grader)
        try:
            response = await judge.answer(request)
        except ProviderError as error:
            raise GradingError(f"{judge.options.name} did not answer: {error.message}", "judge") from error
        self._count(response, judge.price(response))
        return response

    def _count(self, response: Response, cost_usd: float | None) -> None:
        so_far, usage = self.judging, response.usage
        self.judging = Judging(
            calls=so_far.calls + 1,
            input_tokens=so_far.input_tokens + (usage.input_tokens if usage else 0),
            output_tokens=so_far.output_tokens + (usage.output_tokens if usage else 0),
            cost_usd=so_far.cost_usd + (cost_usd or 0.0),
            unpriced=so_far.unpriced + (cost_usd is None),
        )


def _crash(raised: Exception) -> ProviderError:
    return ProviderError("crash", f"{type(raised).__name__}: {raised}")
