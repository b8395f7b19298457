"""Runs a suite's matrix: one lane per provider, workers that take a slot, call, grade and write the result."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from ci_evals.engine.budget import Spending, violations
from ci_evals.engine.cells import Cells, PreparedCell
from ci_evals.engine.journal import SYNC_INTERVAL_S, Journal
from ci_evals.engine.lane import Attempt, Lane
from ci_evals.engine.outcome import Outcome, crash, judged, unanswered
from ci_evals.engine.pace import Pace
from ci_evals.engine.plan import execution_order
from ci_evals.engine.replay import Recording
from ci_evals.engine.resources import lent
from ci_evals.engine.slots import Slots
from ci_evals.errors import ProviderError
from ci_evals.model import NO_ALLOWANCE, Answer, Request, Response, Result
from ci_evals.prices import pricer
from ci_evals.providers.base import Provider, ProviderOptions
from ci_evals.report import Columns, Matrix
from ci_evals.suite import Suite


class Replay(NamedTuple):
    """Answer from a recording; `only` never calls a provider."""

    recording: Recording
    only: bool


class Run:
    """One invocation's run phase.

    Args:
        suite: what to run.
        matrix: its cells.
        columns: where results are counted; slots that have one already are not run.
        journal: where results are written.
        cells: prepares the matrix's cells.
        on_result: called with each finished run, in the order of finishing.
        replay: where to look for an answer before calling.
    """

    def __init__(  # noqa: PLR0913  a run is where these meet
        self,
        suite: Suite,
        matrix: Matrix,
        columns: Columns,
        journal: Journal,
        cells: Cells,
        *,
        on_result: Callable[[Result], None] | None = None,
        replay: Replay | None = None,
    ) -> None:
        self.suite = suite
        self.matrix = matrix
        self.columns = columns
        self.spending = Spending(suite.budget)
        self.stopped: str | None = None
        self._journal = journal
        self._cells = cells
        self._on_result = on_result
        self._replay = replay
        self._slots = Slots(suite.max_concurrency)
        self._lanes: dict[str, Lane] = {}
        self._prices = {str(options.name): pricer(options) for options in suite.providers}
        self._draw = random.Random(suite.seed).random  # noqa: S311  jitter, not a secret
        self._stopping = asyncio.Event()

    @property
    def retrying(self) -> int:
        return sum(lane.retrying for lane in self._lanes.values())

    def stop(self, reason: str) -> None:
        """Start no further run; those under way end."""
        if self.stopped is None:
            self.stopped = reason
            self._stopping.set()

    async def finish(self) -> None:
        """Run everything that has no result yet.

        Raises:
            ConfigError: a provider cannot be opened; nothing was called.
            StorageError: the journal cannot be written.
        """
        only_recorded = self._replay is not None and self._replay.only
        async with lent(self.suite.folder, self.suite.max_concurrency) as resources:
            for grader in {id(each.grader): each.grader for case in self.suite.cases for each in case.expect}.values():
                grader.prepare()
            paces = self._paces()
            for options in self.suite.providers:
                pace = paces[_limit_group(options)]
                provider = _NotRecorded() if only_recorded else options.open(resources(pace.observe))
                self._lanes[str(options.name)] = self._lane(options, provider, pace)
            try:
                async with asyncio.TaskGroup() as group:
                    background = [group.create_task(self._sync()), group.create_task(self._watch_the_time())]
                    async with asyncio.TaskGroup() as workers:
                        for lane in self._lanes.values():
                            lane.claim.awake = lane.limit
                            for _ in range(lane.limit):
                                workers.create_task(self._work(lane))
                    for task in background:
                        task.cancel()
            except BaseExceptionGroup as failures:
                raise _first(failures) from None

    def _paces(self) -> Mapping[str, Pace]:
        """One pace for each limit group; of several stated limits the lowest."""
        members: dict[str, list[ProviderOptions]] = {}
        for options in self.suite.providers:
            members.setdefault(_limit_group(options), []).append(options)
        return {
            group: Pace(
                rpm=min((each.rpm for each in providers if each.rpm is not None), default=None),
                tpm=min((each.tpm for each in providers if each.tpm is not None), default=None),
                limit=self.suite.max_concurrency,
                clock=asyncio.get_running_loop().time,
            )
            for group, providers in members.items()
        }

    def _lane(self, options: ProviderOptions, provider: Provider, pace: Pace) -> Lane:
        suite = self.suite
        retries = suite.retries if options.retried else 0
        return Lane(
            options,
            provider,
            execution_order(self.matrix, str(options.name), suite.seed, self.columns.status),
            limit=max(
                1, min(options.max_concurrency or suite.max_concurrency, suite.max_concurrency, self.matrix.total)
            ),
            retries=retries if options.retries is None else options.retries,
            pace=pace,
            claim=self._slots.claim(),
            clock=asyncio.get_running_loop().time,
        )

    async def _sync(self) -> None:
        while True:
            await asyncio.sleep(SYNC_INTERVAL_S)
            await asyncio.to_thread(self._journal.sync)

    async def _watch_the_time(self) -> None:
        if (limit_s := self.suite.budget.max_duration_s) is not None:
            await asyncio.sleep(limit_s)
            self.stop(f"the budget of {limit_s:g} s is used up")

    # Workers.

    async def _work(self, lane: Lane) -> None:
        claim, slots = lane.claim, self._slots
        try:
            while self.stopped is None and (step := lane.take()) is not None:
                if isinstance(step, float):
                    await self._rest(lane, step)
                elif lane.given_up:
                    await self._give_up(lane, step)
                elif await self._may_start(lane, step):
                    await slots.acquire(claim)
                    try:
                        await self._attempt(lane, step)
                    finally:
                        slots.release(claim)
        finally:
            claim.awake -= 1
            slots.wake()

    async def _rest(self, lane: Lane, seconds: float) -> None:
        """Wait without holding a slot, or until the run is stopped."""
        lane.claim.awake -= 1
        self._slots.wake()
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass
        finally:
            lane.claim.awake += 1

    async def _may_start(self, lane: Lane, attempt: Attempt) -> bool:
        """Wait for the provider's pace; False if the attempt went back to the queue."""
        wait_s = lane.pace.reserve(self._tokens(lane, attempt))
        if wait_s is None:
            lane.put_back(attempt)
            await self._rest(lane, lane.pace.retry_in)
            return False
        if wait_s > 0:
            await self._rest(lane, wait_s)
            if self.stopped is not None:
                return False
        return True

    def _tokens(self, lane: Lane, attempt: Attempt) -> int:
        if not lane.pace.counts_tokens:
            return 0
        messages = self._cells.of_slot(attempt.slot).rendered.messages
        params = getattr(lane.options, "params", {})
        limit = params.get("max_tokens") or params.get("max_completion_tokens")
        return lane.pace.estimate(sum(len(message.content) for message in messages), limit)

    # One run.

    async def _attempt(self, lane: Lane, attempt: Attempt) -> None:
        """Make one call; write its result unless it is to be tried again."""
        cell = self._cells.of_slot(attempt.slot)
        run = attempt.slot - cell.first_slot + 1
        timeout_s = cell.case.timeout_s or lane.options.timeout_s or self.suite.timeout_s
        request = Request(cell.rendered.input, cell.rendered.messages, cell.case, run, timeout_s)
        started_at = time.time()
        if self._replay and (recorded := self._replay.recording.find(cell, run)):
            await self._play(cell, attempt, request, recorded)
            return
        lane.pace.started()
        start = time.perf_counter()
        try:
            response = await lane.provider.answer(request)
        except Exception as raised:  # noqa: BLE001  a provider is not our code: its crash is this run's error
            latency_s = time.perf_counter() - start
            error = raised if isinstance(raised, ProviderError) else crash(raised)
            if lane.lost(attempt, error, self._draw):
                return
            outcome = unanswered(error, lane.options)
        else:
            latency_s = time.perf_counter() - start
            lane.answered(response.usage)
            cost_usd = self._prices[cell.variant.provider](response)
            outcome = await judged(Answer(request, response, latency_s, cost_usd))
        self._record(attempt, self._result(cell, attempt, outcome, started_at, latency_s))

    async def _play(self, cell: PreparedCell, attempt: Attempt, request: Request, recorded: Result) -> None:
        """Judge a recorded answer anew; a recorded failure stays one."""
        if recorded.response is not None:
            outcome = await judged(Answer(request, recorded.response, recorded.latency_s, recorded.cost_usd))
        else:
            outcome = Outcome(recorded.status, recorded.score, error=recorded.error)
        result = self._result(cell, attempt, outcome, recorded.started_at, recorded.latency_s)
        self._record(attempt, msgspec.structs.replace(result, attempts=recorded.attempts, recorded=True))

    async def _give_up(self, lane: Lane, attempt: Attempt) -> None:
        """Write a run off without calling."""
        error = ProviderError("given_up", lane.breaker.reason)
        cell = self._cells.of_slot(attempt.slot)
        outcome = unanswered(error, lane.options)
        self._record(attempt, self._result(cell, attempt, outcome, time.time(), 0.0))
        await asyncio.sleep(0)

    def _result(
        self, cell: PreparedCell, attempt: Attempt, outcome: Outcome, started_at: float, latency_s: float
    ) -> Result:
        usage = outcome.response.usage if outcome.response else None
        allowed = self.suite.budget.per_run
        return Result(
            fingerprint=cell.fingerprint,
            case=cell.case.id,
            provider=cell.variant.provider,
            prompt=cell.variant.prompt,
            run=attempt.slot - cell.first_slot + 1,
            status=outcome.status,
            score=outcome.score,
            started_at=started_at,
            latency_s=latency_s,
            attempts=attempt.number,
            cost_usd=outcome.cost_usd,
            response=outcome.response,
            grades=outcome.grades,
            error=outcome.error,
            budget_violations=()
            if allowed is NO_ALLOWANCE
            else violations(allowed, outcome.cost_usd, usage.total_tokens if usage else 0, latency_s),
        )

    def _record(self, attempt: Attempt, result: Result) -> None:
        result, offset = self._journal.append(result)
        self.columns.record(attempt.slot, result, offset)
        if (reason := self.spending.add(result)) is not None:
            self.stop(reason)
        if self._on_result:
            self._on_result(result)


def _limit_group(options: ProviderOptions) -> str:
    return f"group {options.limit_group}" if options.limit_group else f"provider {options.name}"


class _NotRecorded:
    """Stands for every provider when only recorded answers are allowed."""

    async def answer(self, request: Request) -> Response:
        raise ProviderError("not_recorded", f"run {request.run} of this case is not in the recording")


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure that ended the run; the others are cancellations and repetitions of it."""
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
