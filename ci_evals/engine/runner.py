"""Runs a suite's matrix: one lane per provider, workers that take a slot, call, grade and write the result."""

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path

import msgspec

from ci_evals.columns import Columns
from ci_evals.engine.budget import Spending, violations
from ci_evals.engine.calls import Calls, Ended
from ci_evals.engine.cells import Cells, PreparedCell
from ci_evals.engine.contact import Attempt, Contact
from ci_evals.engine.journal import SYNC_INTERVAL_S, Journal
from ci_evals.engine.lane import Lane
from ci_evals.engine.lanes import Ready
from ci_evals.engine.outcome import given_up
from ci_evals.engine.plan import execution_order
from ci_evals.engine.replay import Answers, judged_anew
from ci_evals.matrix import Matrix
from ci_evals.model import Result
from ci_evals.rules import NO_ALLOWANCE
from ci_evals.suite import Suite


class Run:
    """One invocation's run phase.

    Args:
        suite: what to run.
        matrix: its cells.
        columns: where results are counted; slots that have one already are not run.
        journal: where results are written.
        cells: prepares the matrix's cells.
        ready: the providers' lanes; none when only recorded answers are allowed.
        on_result: called with each finished run, in the order of finishing.
        replay: where to look for an answer before calling.
        files: the results folder, for files in answers; None keeps none.
    """

    def __init__(  # noqa: PLR0913  a run is where these meet
        self,
        suite: Suite,
        matrix: Matrix,
        columns: Columns,
        journal: Journal,
        cells: Cells,
        ready: Ready,
        *,
        on_result: Callable[[Result], None] | None = None,
        replay: Answers | None = None,
        files: Path | None = None,
    ) -> None:
        self.suite = suite
        self.matrix = matrix
        self.columns = columns
        self.spending = Spending(suite.budget)
        self.stopped: str | None = None
        self.doing = ""
        self._journal = journal
        self._cells = cells
        self._on_result = on_result
        self._replay = replay
        self._lanes, self._slots, players, self._judges = ready
        self._calls = Calls(players, self._judges, files)
        self._stopping = asyncio.Event()
        self._aborted = False
        self._clock = time.monotonic
        self._ends_at = self._clock() + (suite.budget.max_duration_s or math.inf)

    def go_on(self, matrix: Matrix, columns: Columns, cells: Cells, doing: str) -> None:
        """Take up a further plan, to be run by `finish`; what was spent and how providers fared stays known.

        Args:
            matrix: the cells of the suite with the runs that are to be there.
            columns: where results are counted; slots that have one already are not run.
            cells: prepares the matrix's cells.
            doing: what this is about, for whoever watches.
        """
        self.matrix, self.columns, self._cells, self.doing = matrix, columns, cells, doing
        for lane in self._lanes:
            lane.queue(execution_order(matrix, str(lane.options.name), self.suite.seed, columns.status))

    @property
    def retrying(self) -> int:
        return sum(lane.retrying for lane in self._lanes)

    def stop(self, reason: str) -> None:
        """Start no further run; those under way end."""
        if self.stopped is None:
            self.stopped = reason
            self._stopping.set()

    def carry_on(self) -> None:
        """Take a stop back, after it turned out that nothing was left to stop."""
        self.stopped = None
        self._stopping.clear()

    def abort(self, reason: str) -> None:
        """Stop, and write nothing more: whatever still comes was cut short."""
        self.stop(reason)
        self._aborted = True

    async def finish(self) -> None:
        """Run everything that has no result yet.

        Raises:
            StorageError: the journal cannot be written.
        """
        try:
            async with asyncio.TaskGroup() as group:
                background = [group.create_task(self._sync()), group.create_task(self._watch_the_time())]
                if self._replay is not None:
                    await self._play(self._replay)
                async with asyncio.TaskGroup() as workers:
                    for lane in self._lanes:
                        lane.claim.workers = lane.limit
                        for _ in range(lane.limit):
                            workers.create_task(self._work(lane))
                for task in background:
                    task.cancel()
        except BaseExceptionGroup as failures:
            raise _first(failures) from None

    async def _sync(self) -> None:
        while True:
            await asyncio.sleep(SYNC_INTERVAL_S)
            await asyncio.to_thread(self._journal.sync)

    async def _watch_the_time(self) -> None:
        if self.suite.budget.max_duration_s is not None:
            await asyncio.sleep(max(0.0, self._ends_at - self._clock()))
            self._out_of_time()

    def _out_of_time(self) -> None:
        self.stop(f"the budget of {self.suite.budget.max_duration_s:g} s is used up")

    # Recorded runs: they need neither a slot nor a pace.

    async def _play(self, recording: Answers) -> None:
        """Judge what is recorded before anything is called; where nothing may be called, write the rest off."""
        slots = chain.from_iterable(
            execution_order(self.matrix, str(options.name), self.suite.seed, self.columns.status)
            for options in self.suite.providers
        )
        async with asyncio.TaskGroup() as players:
            for _ in range(min(self.suite.max_concurrency, self.matrix.total)):
                players.create_task(self._play_each(slots, recording))

    async def _play_each(self, slots: Iterator[int], recording: Answers) -> None:
        while self.stopped is None and (slot := next(slots, None)) is not None:
            cell = self._cells.of_slot(slot)
            if (recorded := recording.find(cell, cell.run_of(slot))) is not None:
                attempt = Attempt(slot, recorded.attempts)
                outcome = await judged_anew(recorded, cell, self._judges)
                result = self._result(cell, attempt, Ended(outcome, recorded.started_at, recorded.latency_s))
                self._record(attempt, msgspec.structs.replace(result, recorded=True))
            elif not self._lanes:
                attempt = Attempt(slot, 1)
                self._record(attempt, self._result(cell, attempt, Ended(recording.absence, time.time(), 0.0)))
            await asyncio.sleep(0)

    # Workers.

    async def _work(self, lane: Lane) -> None:
        slots, claim = self._slots, lane.claim
        try:
            while self.stopped is None and (step := lane.take()) is not None:
                if isinstance(step, float):
                    await self._until_stopped(step)
                elif lane.given_up:
                    await self._write_off(lane, step)
                else:
                    if not slots.acquire_now(claim):
                        await slots.acquire(claim)
                    try:
                        if self.stopped is None:
                            await self._attempt(lane, step)
                    finally:
                        slots.release(claim)
                    if lane.options.own_code:  # which may never have waited: the others want their turn
                        await asyncio.sleep(0)
        finally:
            slots.leave(claim)

    async def _write_off(self, lane: Lane, attempt: Attempt) -> None:
        """Write the result of a run whose provider was given up."""
        self._calls.forget(attempt)
        cell = self._cells.of_slot(attempt.slot)
        ended = Ended(given_up(lane.contact.breaker, lane.options), time.time(), 0.0)
        self._record(attempt, self._result(cell, attempt, ended))
        await asyncio.sleep(0)

    async def _attempt(self, lane: Lane, attempt: Attempt) -> None:
        """Make one attempt at a run when the provider may be called; write its result unless there is to be another."""
        cell, contact = self._cells.of_slot(attempt.slot), lane.contact
        if cell.case.is_conversation:
            ended = await self._calls.converse(lane, attempt, cell, partial(self._admitted, contact, attempt))
        else:
            tokens = lane.expected_tokens(cell.rendered.messages)
            if not contact.admit(attempt, tokens):
                expected = partial(lane.expected_tokens, cell.rendered.messages)
                if (admitted := await self._admitted(contact, attempt, expected)) is None:
                    lane.put_back(attempt)
                    return
                tokens = admitted
            ended = await self._calls.make(lane, attempt, cell, tokens)
        if ended is not None:
            self._record(attempt, self._result(cell, attempt, ended))

    async def _admitted(self, contact: Contact, attempt: Attempt, expected_tokens: Callable[[], int]) -> int | None:
        """Wait until a call may go out, at most until the run is stopped."""
        return await contact.admitted(
            attempt, expected_tokens, is_wanted=lambda: self.stopped is None, sleep=self._until_stopped
        )

    async def _until_stopped(self, seconds: float) -> None:
        """Wait, at most until the run is stopped."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    # Results.

    def _result(self, cell: PreparedCell, attempt: Attempt, ended: Ended) -> Result:
        case, variant, outcome, latency_s = cell.case, cell.variant, ended.outcome, ended.latency_s
        allowed = case.allowance or self.suite.budget.per_run
        return Result(  # times in whole steps, rounded in a fifth of the time that `round` takes
            fingerprint=cell.fingerprint,
            case=case.id,
            provider=variant.provider,
            prompt=variant.prompt,
            run=cell.run_of(attempt.slot),
            status=outcome.status,
            score=outcome.score,
            started_at=int(ended.started_at * 1e3 + 0.5) / 1e3,
            latency_s=int(latency_s * 1e6 + 0.5) / 1e6,
            attempts=attempt.number,
            cost_usd=outcome.cost_usd,
            response=outcome.response,
            grades=outcome.grades,
            error=outcome.error,
            judging=outcome.judging,
            budget_violations=() if allowed is NO_ALLOWANCE else violations(allowed, outcome, latency_s),
        )

    def _record(self, attempt: Attempt, result: Result) -> None:
        if self._aborted:
            raise asyncio.CancelledError
        result, offset = self._journal.append(result)
        self.columns.record(attempt.slot, result, offset)
        if (reason := self.spending.add(result)) is not None:
            self.stop(reason)
        elif self._clock() >= self._ends_at:  # code that never waits keeps the timer from ringing
            self._out_of_time()
        if self._on_result:
            self._on_result(result)


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure that ended the run; the others are cancellations and repetitions of it."""
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
