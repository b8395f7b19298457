"""Runs a suite's matrix: one lane per provider, workers that take a slot, call, grade and write the result."""

import asyncio
import random
import time
import traceback
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from ci_evals.engine import retry
from ci_evals.engine.cells import Cells
from ci_evals.engine.journal import SYNC_INTERVAL_S, Journal
from ci_evals.engine.lane import Attempt, Lane
from ci_evals.engine.plan import execution_order
from ci_evals.engine.prices import pricer
from ci_evals.engine.resources import EngineResources, lent
from ci_evals.engine.slots import Slots
from ci_evals.errors import ErrorKind, ProviderError
from ci_evals.graders.judge import grade_all, passes, score_of
from ci_evals.model import Answer, Grade, Request, Response, Result, RunError, Status
from ci_evals.providers.base import ProviderOptions
from ci_evals.report import Columns, Matrix
from ci_evals.suite import Suite

# In the team's own code these are the change's fault; 401 and 429 say nothing about it.
_OWN_FAULTS: frozenset[ErrorKind] = frozenset({"server", "network", "timeout", "rejected", "bad_answer", "crash"})


class Progress(Protocol):
    """What a listener may look at while a suite runs."""

    columns: Columns
    spent_usd: float

    @property
    def retrying(self) -> int: ...


class Run:
    """One invocation's run phase.

    Args:
        suite: what to run.
        matrix: its cells.
        columns: where results are counted.
        journal: where results are written.
        on_result: called with each finished run, in the order of finishing.
    """

    def __init__(
        self,
        suite: Suite,
        matrix: Matrix,
        columns: Columns,
        journal: Journal,
        on_result: Callable[[Result], None] | None = None,
    ) -> None:
        self.suite = suite
        self.matrix = matrix
        self.columns = columns
        self.spent_usd = 0.0
        self._journal = journal
        self._on_result = on_result
        self._cells = Cells(suite, matrix)
        self._slots = Slots(suite.max_concurrency)
        self._lanes: Sequence[Lane] = ()
        self._price = {str(options.name): pricer(options) for options in suite.providers}
        self._draw = random.Random(suite.seed).random  # noqa: S311  jitter, not a secret

    @property
    def retrying(self) -> int:
        return sum(lane.retrying for lane in self._lanes)

    async def finish(self) -> None:
        """Run everything that has no result yet.

        Raises:
            ConfigError: a provider cannot be opened; nothing was called.
            StorageError: the journal cannot be written.
        """
        async with lent(self.suite.folder, self.suite.max_concurrency) as resources:
            self._lanes = [self._lane(index, resources) for index in range(len(self.suite.providers))]
            try:
                async with asyncio.TaskGroup() as group:
                    syncing = group.create_task(self._sync())
                    async with asyncio.TaskGroup() as workers:
                        for lane in self._lanes:
                            lane.claim.awake = lane.limit
                            for _ in range(lane.limit):
                                workers.create_task(self._work(lane))
                    syncing.cancel()
            except BaseExceptionGroup as failures:
                raise _first(failures) from None

    def _lane(self, index: int, resources: EngineResources) -> Lane:
        options = self.suite.providers[index]
        limit = min(options.max_concurrency or self.suite.max_concurrency, self.suite.max_concurrency)
        return Lane(
            options,
            options.open(resources),
            execution_order(self.matrix, str(options.name), self.suite.seed, self.columns.status),
            limit=min(limit, max(1, self.matrix.total)),
            claim=self._slots.claim(),
            clock=asyncio.get_running_loop().time,
        )

    async def _sync(self) -> None:
        while True:
            await asyncio.sleep(SYNC_INTERVAL_S)
            await asyncio.to_thread(self._journal.sync)

    async def _work(self, lane: Lane) -> None:
        claim, slots = lane.claim, self._slots
        try:
            while (attempt := lane.take()) is not None:
                if isinstance(attempt, float):
                    claim.awake -= 1
                    slots.wake()
                    try:
                        await asyncio.sleep(attempt)
                    finally:
                        claim.awake += 1
                    continue
                await slots.acquire(claim)
                try:
                    if lane.paused:  # it began while this one waited for its slot
                        lane.put_back(attempt)
                    else:
                        await self._attempt(lane, attempt)
                finally:
                    slots.release(claim)
        finally:
            claim.awake -= 1
            slots.wake()

    async def _attempt(self, lane: Lane, attempt: Attempt) -> None:
        """Make one call; write its result unless it is to be tried again."""
        cell = self._cells.of_slot(attempt.slot)
        timeout_s = cell.case.timeout_s or lane.options.timeout_s or self.suite.timeout_s
        run = attempt.slot - cell.first_slot + 1
        request = Request(cell.rendered.input, cell.rendered.messages, cell.case, run, timeout_s)
        started_at, start = time.time(), time.perf_counter()
        try:
            response = await lane.provider.answer(request)
        except Exception as raised:  # noqa: BLE001  a provider is not our code: its crash is this run's error
            latency_s = time.perf_counter() - start
            error = raised if isinstance(raised, ProviderError) else _crash(raised)
            if error.retryable and attempt.number <= self._retries(lane):
                self._try_again(lane, attempt, error)
                return
            outcome = _unanswered(error, lane.options)
        else:
            latency_s = time.perf_counter() - start
            cost_usd = self._price[cell.variant.provider](response)
            outcome = await _judged(Answer(request, response, latency_s, cost_usd))
        self._record(
            attempt.slot,
            Result(
                fingerprint=cell.fingerprint,
                case=cell.case.id,
                provider=cell.variant.provider,
                prompt=cell.variant.prompt,
                run=run,
                status=outcome.status,
                score=outcome.score,
                started_at=started_at,
                latency_s=latency_s,
                attempts=attempt.number,
                cost_usd=outcome.cost_usd,
                response=outcome.response,
                grades=outcome.grades,
                error=outcome.error,
            ),
        )

    def _retries(self, lane: Lane) -> int:
        if lane.options.retries is not None:
            return lane.options.retries
        return self.suite.retries if lane.options.retried else 0

    def _try_again(self, lane: Lane, attempt: Attempt, error: ProviderError) -> None:
        delay_s = retry.delay_s(attempt.number, error.retry_after_s, self._draw)
        if error.kind == "rate_limit" or error.retry_after_s is not None:
            lane.pause(delay_s if error.retry_after_s is None else error.retry_after_s)  # all would be refused
        lane.retry(attempt, delay_s)

    def _record(self, slot: int, result: Result) -> None:
        self.columns.record(slot, result, self._journal.append(result))
        self.spent_usd += result.cost_usd or 0.0
        if self._on_result:
            self._on_result(result)


class _Outcome(NamedTuple):
    """The part of a result that depends on how the call ended."""

    status: Status
    score: float | None = None
    cost_usd: float | None = None
    response: Response | None = None
    grades: tuple[Grade, ...] = ()
    error: RunError | None = None


async def _judged(answer: Answer) -> _Outcome:
    case = answer.request.case
    try:
        grades = await grade_all(case.expect, answer)
    except Exception as raised:  # noqa: BLE001  a grader may be a user's code: without it there is no verdict
        error = RunError("grader", f"a grader crashed: {_named(raised)}", detail=traceback.format_exc())
        return _Outcome("errored", None, answer.cost_usd, answer.response, (), error)
    status: Status = "passed" if passes(grades, case.threshold) else "failed"
    return _Outcome(status, score_of(grades), answer.cost_usd, answer.response, grades)


def _unanswered(error: ProviderError, options: ProviderOptions) -> _Outcome:
    """Failed if the system under test broke, errored if nothing can be said of it."""
    told = RunError(error.kind, error.message, error.status, error.detail)
    own_fault = options.own_code and error.kind in _OWN_FAULTS
    fails = own_fault if options.on_error is None else options.on_error == "fail"
    return _Outcome("failed", 0.0, error=told) if fails else _Outcome("errored", error=told)


def _crash(raised: Exception) -> ProviderError:
    return ProviderError("crash", _named(raised), detail=traceback.format_exc())


def _named(raised: Exception) -> str:
    return f"{type(raised).__name__}: {raised}" if str(raised) else type(raised).__name__


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure that ended the run; the others are cancellations and repetitions of it."""
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
