"""Main's code alongside a change: what an invocation asks of it, and for how long."""

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
)
from dataclasses import replace
from typing import Any, TypeVar

from ci_evals.engine.runner import Run
from ci_evals.gate.compare import NoComparison
from ci_evals.invocation import OtherSide, Watcher
from ci_evals.model.report import MainCost
from ci_evals.model.rules import Budget
from ci_evals.providers.base import ProviderOptions
from ci_evals.suite.types import CheckedSuite

T = TypeVar("T")
RunMain = Callable[[Callable[[MainCost], None], Callable[[], None]], Coroutine[Any, Any, T]]
"""Has main run something; its arguments note what that costs, and when it begins."""

MAIN_TAKES_AT_MOST = 3
"""Main may take so many times as long as the change's runs."""
MAIN_STARTS_WITHIN_S = 60.0
"""Seconds that main may take besides, for its start."""


class Alongside:
    """Main's code during an invocation: it is asked as long as it answers in time.

    Args:
        main: main's code.
        run: the runs of this side, which share a budget with main's.
        watcher: follows the progress.

    Attributes:
        cost: what main has cost so far; None if it has called nothing.
        given_up: why it is asked nothing more; empty as long as it answers.
    """

    def __init__(self, main: OtherSide, run: Run, watcher: Watcher) -> None:
        self.main = main
        self.cost: MainCost | None = None
        self.given_up = ""
        self._run = run
        self._watcher = watcher
        self._runs: asyncio.Task[Any] | None = None

    @property
    def name(self) -> str:
        """The branch and its commit: `main (0123456)`."""
        return self.main.name

    async def begin(self, run: RunMain[T]) -> asyncio.Task[T]:
        """Have main run something, and return once its first run begins.

        Its code may have to be prepared and loaded first. Both sides are to run in the same
        minutes, so this side does not go ahead.
        """
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def note_begin() -> None:
            if not begun.done():
                begun.set_result(None)

        task = asyncio.create_task(run(self.note_cost, note_begin))
        self._runs = task
        either: list[asyncio.Future[Any]] = [task, begun]
        within_s = self.allowed_s(0.0)
        await asyncio.wait(either, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        return task

    async def finish(
        self, runs: asyncio.Task[T | NoComparison], within_s: float
    ) -> T | NoComparison:
        """Wait for main's runs, but not forever, and return what has become of them."""
        if not runs.done() and not self._run.stopped:
            self._watcher.note_decision(f"waiting for the runs of {self.name}")
            await asyncio.wait([runs], timeout=within_s)
        if self._run.stopped:  # the budget is used up, maybe by main itself
            reason = f"{self.name} was not run to its end: {self._run.stopped}"
            return NoComparison(reason, expected=True)
        if not runs.done():
            return self._give_up(within_s)
        return runs.result()

    async def end(self) -> None:
        """End what main runs."""
        if self._runs is not None:
            self._runs.cancel()
            await asyncio.wait([self._runs])
            self._runs = None

    async def ask(self, answer: Awaitable[T | NoComparison], took_s: float) -> T | NoComparison:
        """Wait for an answer of main, but not forever: its code may hang.

        Args:
            answer: the answer.
            took_s: seconds that this side has taken so far.
        """
        within_s = self.allowed_s(took_s)
        try:
            async with asyncio.timeout(within_s):
                return await answer
        except TimeoutError:
            return self._give_up(within_s)

    def _give_up(self, within_s: float) -> NoComparison:
        self.given_up = f"{self.name} took too long: over {within_s:.0f} s"
        return NoComparison(self.given_up, expected=True)

    def allowed_s(self, took_s: float) -> float:
        """Return the seconds that main may take for what this side took `took_s` for."""
        return MAIN_TAKES_AT_MOST * took_s + MAIN_STARTS_WITHIN_S + self.main.preparing_s

    def note_cost(self, cost: MainCost) -> None:
        """Count what main has cost so far; end main's runs if that uses up the budget."""
        self.cost = cost
        self._run.note_spending(cost.cost_usd, cost.tokens)
        if self._run.stopped and self._runs is not None:
            self._runs.cancel()


def halve_limits(suite: CheckedSuite) -> CheckedSuite:
    """Return a suite with half of the calls at once, and half of the declared rates.

    The other half is for main, which runs at the same time.
    """
    return replace(
        suite,
        max_concurrency=max(1, suite.max_concurrency // 2),
        providers=tuple(map(_halve, suite.providers)),
        judges=tuple(map(_halve, suite.judges)),
    )


def halve_budget(budget: Budget) -> Budget:
    """Return a budget with half of the money and of the tokens."""
    cost_usd, tokens = budget.max_cost_usd, budget.max_tokens
    if cost_usd is not None:
        cost_usd /= 2
    if tokens is not None:
        tokens /= 2
    return replace(budget, max_cost_usd=cost_usd, max_tokens=tokens)


def _halve(options: ProviderOptions) -> ProviderOptions:
    at_once, rpm, tpm = options.max_concurrency, options.rpm, options.tpm
    if at_once is not None and at_once != "unlimited":
        at_once = max(1, at_once / 2)
    if rpm is not None:
        rpm /= 2
    if tpm is not None:
        tpm /= 2
    return replace(options, max_concurrency=at_once, rpm=rpm, tpm=tpm)
