"""Providers that are called during a run: simulated users, stages, and the models that judge."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from ci_evals.engine.calls import Calls, LostError
from ci_evals.engine.slots import Slot, Slots
from ci_evals.errors import GradingError, ProviderError
from ci_evals.model.grading import Asking
from ci_evals.model.request import Request
from ci_evals.model.response import Response
from ci_evals.model.result import Judging
from ci_evals.providers.base import ProviderOptions
from ci_evals.suite.problems import unknown

T = TypeVar("T")
R = TypeVar("R")


class AuxiliaryProvider:
    """A provider that is called during a run: by a grader, as a simulated user or as a stage.

    Its calls take place within the slot of that run: the suite's `max_concurrency` holds, and no
    run waits for a slot while it holds one.

    Args:
        options: its settings.
        calls: makes its calls; shares the rate limiter with the queue of the same provider.
        limit: how many of its calls may be under way.
        timeout_s: seconds that a call may take; None for the time-out of each request.
        price: returns the cost of an answer in USD, or None if unknown.
    """

    def __init__(
        self,
        options: ProviderOptions,
        calls: Calls,
        *,
        limit: int,
        timeout_s: float | None,
        price: Callable[[Response], float | None],
    ) -> None:
        self.options = options
        self.price = price
        self._calls = calls
        self._share = Slots(limit).share(limit)  # its own limit, within the slots of runs
        self._timeout_s = timeout_s

    async def answer(self, request: Request) -> Response:
        """Call until there is an answer or no further attempt.

        Raises:
            ProviderError: there is no answer.
            StorageError: a file in the answer cannot be kept.
        """
        if self._timeout_s is not None:
            request = replace(request, timeout_s=self._timeout_s)
        slot = Slot(self._share)
        await slot.take()
        try:
            return (await self._calls.call(request, slot)).response
        except LostError as lost:
            raise lost.error from None
        finally:
            slot.give_back()


class Judges:
    """The models that graders may ask.

    Args:
        judges: all models, by name.
        unnamed: the names of the models that a grader without a `provider` may mean.
    """

    def __init__(self, judges: Mapping[str, AuxiliaryProvider], unnamed: Collection[str]) -> None:
        self._judges = judges
        self._unnamed = unnamed

    def meter(self) -> "Meter":
        """Return access to the models for one run, which counts its calls."""
        return Meter(self)

    def find(self, grader: Asking) -> AuxiliaryProvider:
        """Find the model that a grader names, or the only one of its kind.

        Raises:
            GradingError: there is none.
        """
        fitting = {
            name: judge
            for name, judge in self._judges.items()
            if judge.options.embeds == grader.embeds
        }
        if grader.provider is None:
            meant = [judge for name, judge in fitting.items() if name in self._unnamed]
            if len(meant) == 1:
                return meant[0]
        elif grader.provider in fitting:
            return fitting[grader.provider]
        if grader.provider is None:
            raise GradingError(
                f"no `provider` is named; known: {', '.join(fitting) or 'none'}", "judge"
            )
        raise GradingError(unknown("judge", grader.provider, fitting), "judge")


class Meter:
    """The access of one run to the models; `judging` has its calls, tokens and cost so far."""

    def __init__(self, judges: Judges) -> None:
        self.judging = Judging()
        self._judges = judges

    async def ask(self, grader: Asking, request: Request) -> Response:
        """See `model.grading.Models`."""
        judge = self._judges.find(grader)
        try:
            response = await judge.answer(request)
        except ProviderError as error:
            raise GradingError(
                f"{judge.options.name} did not answer: {error.message}", "judge", cause=error.root
            ) from error
        usage, cost_usd = response.usage, judge.price(response)
        self.judging += Judging(
            calls=1,
            input_tokens=usage.input_tokens if usage else 0,
            output_tokens=usage.output_tokens if usage else 0,
            cost_usd=cost_usd,
            unpriced=int(cost_usd is None),
        )
        return response


async def ask_each(
    items: Iterable[T], ask: Callable[[T], Awaitable[R]], *, at_once: int
) -> list[R]:
    """Ask about each item, `at_once` at a time; return the results in the order of the items."""
    slots = asyncio.Semaphore(at_once)

    async def ask_about(item: T) -> R:
        async with slots:
            return await ask(item)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask_about(item)) for item in items]
    return [task.result() for task in tasks]
