"""Runs a suite's plan: each run takes a slot from its provider's queue, calls, grades and writes
its result.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ci_evals.engine.calls import ONE_ATTEMPT, Attempts, LostError, SimulatedUserError, Waiting
from ci_evals.engine.cells import Cells, PreparedCell
from ci_evals.engine.grading import RunOutcome, fail_or_exclude, grade_again, grade_answer
from ci_evals.engine.journal import (
    SYNC_INTERVAL_S,
    Journal,
    keep_files,
    read_lines,
    without_data,
)
from ci_evals.engine.queues import Queue
from ci_evals.engine.recordings import Recordings
from ci_evals.engine.setup import OpenSuite
from ci_evals.engine.slots import Slot
from ci_evals.errors import ProviderError, StorageError
from ci_evals.model.case import SimulatedUser
from ci_evals.model.plan import execution_order, plan_runs
from ci_evals.model.report import RunRecord
from ci_evals.model.request import Answer, Request
from ci_evals.model.response import Response
from ci_evals.model.result import BudgetFigure, Result, RunError, decode_result
from ci_evals.model.rules import NO_RUN_BUDGET, Budget, RunBudget
from ci_evals.providers.base import ProviderOptions
from ci_evals.suite.types import CheckedSuite

if TYPE_CHECKING:
    from ci_evals.engine.fixtures import Fixtures


class Spending:
    """The cost and tokens of all results, held against a budget."""

    def __init__(self, budget: Budget) -> None:
        self.cost_usd = 0.0
        self.tokens = 0
        self._elsewhere = (0.0, 0)
        self._budget = budget
        self._counts_cost = budget.counts_cost  # an answer without a price would count as 0
        self._counts_tokens = budget.max_tokens is not None or budget.per_run.max_tokens is not None

    def add(self, result: Result, *, paid: bool = True) -> str | None:
        """Count one finished run; return why no further run may start, or None."""
        judging = result.judging
        if judging is not None:  # a judge is paid even where the answer was recorded
            self.cost_usd += judging.cost_usd or 0.0
            self.tokens += judging.input_tokens + judging.output_tokens
        if result.recorded or not paid:
            return None
        self.cost_usd += result.cost_usd or 0.0
        response = result.response
        if response is not None:
            if response.usage is not None:
                self.tokens += response.usage.total_tokens
            if self._counts_cost and result.cost_usd is None and not result.is_broken_off:
                return (
                    f"the budget is in USD, but {result.provider} does not report what its answers"
                    " cost: return `cost_usd`, or `usage` and set a `price`"
                )
            if self._counts_tokens and response.usage is None and not result.is_broken_off:
                return (
                    f"the budget is in tokens, but {result.provider} does not report how many it"
                    " used: return `usage`"
                )
        return self._used_up()

    def add_elsewhere(self, cost_usd: float, tokens: int) -> str | None:
        """Count all that another process has spent so far; return why no further run may start."""
        before_usd, before = self._elsewhere
        self._elsewhere = (cost_usd, tokens)
        self.cost_usd += cost_usd - before_usd
        self.tokens += tokens - before
        return self._used_up()

    def _used_up(self) -> str | None:
        max_cost_usd, max_tokens = self._budget.max_cost_usd, self._budget.max_tokens
        if max_cost_usd is not None and self.cost_usd >= max_cost_usd:
            return f"the budget of ${max_cost_usd:g} is used up (${self.cost_usd:.4g})"
        if max_tokens is not None and self.tokens >= max_tokens:
            return f"the budget of {max_tokens:,.0f} tokens is used up ({self.tokens:,})"
        return None


def violations(allowed: RunBudget, outcome: RunOutcome, duration_s: float) -> tuple[str, ...]:
    """Return the bounds that a run exceeded, each with its figure."""
    if allowed is NO_RUN_BUDGET:
        return ()
    exceeded = []
    max_cost_usd, cost_usd = allowed.max_cost_usd, outcome.cost_usd
    if max_cost_usd is not None and cost_usd is not None and cost_usd > max_cost_usd:
        exceeded.append(f"cost ${cost_usd:.6g} of ${max_cost_usd:g}")
    tokens = 0
    if outcome.response is not None and outcome.response.usage is not None:
        tokens = outcome.response.usage.total_tokens
    if allowed.max_tokens is not None and tokens > allowed.max_tokens:
        exceeded.append(f"{tokens:,} tokens of {allowed.max_tokens:,.0f}")
    if allowed.max_duration_s is not None and duration_s > allowed.max_duration_s:
        exceeded.append(f"{duration_s:.3g} s of {allowed.max_duration_s:g} s")
    return tuple(exceeded)


def unknown_figures(allowed: RunBudget, outcome: RunOutcome) -> tuple[BudgetFigure, ...]:
    """Return the figures that a budget bounds but an answer does not report."""
    response = outcome.response
    if allowed is NO_RUN_BUDGET or response is None:
        return ()
    if outcome.error is not None and not outcome.error.is_of_grading:
        return ()
    unknown: list[BudgetFigure] = []
    if allowed.max_cost_usd is not None and outcome.cost_usd is None:
        unknown.append("cost")
    if allowed.max_tokens is not None and response.usage is None:
        unknown.append("tokens")
    return tuple(unknown)


MAX_FAILURES: Final = 5
"""How many of the latest failed cells progress can show, each with its first failure."""


class Run:
    """One invocation's run phase.

    For progress, `last_failures` holds the first result that did not pass for each of the latest
    failed cells, and `judging` maps runs whose answer is being judged to their case.

    Args:
        suite: what to run.
        journal: where results are written.
        opened: the open providers, judges and users; no queues if only recorded answers are
            allowed.
        recordings: where to look for an answer before calling.
        on_result: called with each finished run, in the order of finishing.
        files: the results folder, for files in answers; None keeps none.
    """

    first: Container[str] = ()
    """The cases that come first in each round."""

    def __init__(
        self,
        suite: CheckedSuite,
        journal: Journal,
        opened: OpenSuite,
        *,
        recordings: Recordings,
        on_result: Callable[[Result], None],
        files: Path | None = None,
    ) -> None:
        self.suite = suite
        self.spending = Spending(suite.budget)
        self.stopped: str | None = None
        self.last_failures: deque[Result] = deque(maxlen=MAX_FAILURES)
        self.judging: dict[int, str] = {}
        self._failed: set[Hashable] = set()
        self._journal = journal
        self._on_result = on_result
        self._recordings = recordings
        self.use(opened)
        self._files = files
        self.any_ended = False  # at least one run
        self._aborted = False
        self._clock = time.monotonic
        self._ends_at = self._clock() + (suite.budget.max_duration_s or math.inf)
        self.load_plan(Cells(suite, plan_runs((), (), 0)), {})  # progress may ask before a plan

    def use(self, opened: OpenSuite) -> None:
        """Call these providers, judges and users from now on; a plan is to be loaded then."""
        self._queues, self._users, self._judges = opened.queues, opened.users, opened.judges
        self._executor = opened.executor
        self._fixtures = opened.fixtures

    def load_plan(
        self,
        cells: Cells,
        records: dict[int, RunRecord],
        doing: str = "",
        rounds: int | None = None,
    ) -> None:
        """Queue the runs of a plan, for `run`. Spending and the state of providers are kept.

        Args:
            cells: the cells of the plan.
            records: where results are counted; runs that already have one are left out.
            doing: the phase that progress shows.
            rounds: how many rounds of the plan to run; None means all.
        """
        self.plan = cells.plan
        self.records = records
        self.doing = doing
        self._cells = cells
        self._rounds = rounds
        for queue in self._queues:
            queue.fill(self._order(queue.options))

    def _order(self, provider: ProviderOptions) -> Iterator[int]:
        """Return the runs of a provider that have no result, in the order of their execution."""
        name, seed = str(provider.name), self.suite.settings.seed
        at_a_stretch: Container[int] = ()
        if self._fixtures is not None:
            at_a_stretch = self._cells.sharing_setup
        return execution_order(
            self.plan,
            name,
            seed,
            self.records,
            self._rounds,
            first=self.first,
            at_a_stretch=at_a_stretch,
        )

    @property
    def cost_usd(self) -> float:
        """The cost of all results so far."""
        return self.spending.cost_usd

    @property
    def failed_cells(self) -> int:
        """The number of cells with a run that did not pass."""
        return len(self._failed)

    @property
    def waiting(self) -> Sequence[Waiting]:
        """The calls that wait for another attempt, by provider."""
        waiting = []
        for queue in self._queues:
            calls = queue.calls
            if calls.retries:
                provider = str(queue.options.name)
                retries = list(calls.retries.values())
                waiting.append(Waiting(provider, retries, calls.next_retry_s, calls.gives_up_s))
        return waiting

    def stop(self, reason: str) -> None:
        """Start no further run; runs under way continue to their end."""
        if self.stopped is None:
            self.stopped = reason
            for queue in self._queues:
                queue.stop()

    def abort(self, reason: str) -> None:
        """Stop, and discard results that still arrive."""
        self.stop(reason)
        self._aborted = True

    async def run(self) -> None:
        """Run everything that has no result yet.

        Raises:
            StorageError: the journal cannot be written.
        """
        try:
            # Background tasks never end by themselves: the inner group tells when the queues are
            # done, and a failure in either group ends both.
            async with asyncio.TaskGroup() as group:
                background = [group.create_task(self._sync())]
                if self._recordings.has_answers:
                    await self._grade_recorded()
                async with asyncio.TaskGroup() as queues:
                    do = self._do
                    if self._fixtures is not None:
                        do = partial(self._do_with_setup, self._fixtures)
                    for queue in self._queues:
                        queues.create_task(queue.work(partial(do, queue), self.plan.total))
                    background.append(group.create_task(self._watch_the_time()))
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

    # Recorded answers, which need neither a slot nor a pace.

    async def _grade_recorded(self) -> None:
        """Grade recorded answers before anything is called; if nothing may be called, record the
        other runs as errored.
        """
        indexes = chain.from_iterable(map(self._order, self.suite.providers))  # shared by workers
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(self.suite.max_concurrency, self.plan.total)):
                workers.create_task(self._grade_each(indexes))

    async def _grade_each(self, indexes: Iterator[int]) -> None:
        while self.stopped is None and (index := next(indexes, None)) is not None:
            cell = self._cells.of_index(index)
            run = cell.run_of(index)
            try:
                own = self._recordings.ungraded(cell, run)
                recorded = own or self._recordings.answer(cell, run)
            except StorageError as error:
                outcome = RunOutcome("errored", error=RunError("not_recorded", str(error)))
                self._record(index, self._result(cell, run, outcome, time.time(), 0.0))
                continue
            if recorded is not None:
                if cell.setup:
                    from ci_evals.engine.fixtures import SetupError, fill_recorded

                    try:
                        cell = fill_recorded(self._cells, cell, recorded)
                    except SetupError as error:
                        outcome = RunOutcome("errored", error=RunError("not_recorded", str(error)))
                        self._record(index, self._result(cell, run, outcome, time.time(), 0.0))
                        continue
                self.judging[index] = cell.case.id
                try:
                    outcome = await grade_again(recorded, cell, self._judges, self._executor)
                finally:
                    del self.judging[index]
                if outcome.response is not None:
                    outcome.response = await self._writable(outcome.response)
                attempts = Attempts(recorded.attempts, recorded.repeated_for)
                result = self._result(
                    cell, run, outcome, recorded.started_at, recorded.latency_s, attempts
                )
                # A run's own answer was called for this plan: only its grading had failed.
                is_recorded = own is None or own.recorded
                result = replace(result, recorded=is_recorded, reused=recorded.reused)
                self._record(index, result, paid=False)
            elif not self._queues:
                outcome = RunOutcome("errored", error=self._recordings.absence)
                self._record(index, self._result(cell, run, outcome, time.time(), 0.0))
            await asyncio.sleep(0)  # grading may never wait: let other workers and a stop in

    # Runs that are called.

    async def _do(
        self, queue: Queue, index: int, slot: Slot, cell: PreparedCell | None = None
    ) -> None:
        """Do one run and write its result.

        Args:
            queue: the queue of its provider.
            index: its index in the plan.
            slot: a slot that is held.
            cell: its cell with the vars of its setup; None if it has no setup.

        Raises:
            StoppedError: it was stopped before its call.
        """
        if cell is None:
            cell = self._cells.of_index(index)
        run = cell.run_of(index)
        if cell.case.is_conversation:
            result = await self._converse(queue, cell, index, slot)
        else:
            request = cell.request(run)
            try:
                made = await queue.calls.call(request, slot)
            except LostError as lost:
                outcome = await self._outcome_of_loss(queue, lost)
                attempts = Attempts(lost.attempts)
                result = self._result(cell, run, outcome, lost.started_at, lost.latency_s, attempts)
            else:
                cost_usd = queue.price(made.response)
                answer = Answer(request, made.response, made.latency_s, cost_usd)
                result = await self._grade(cell, index, answer, made.started_at, made.attempts)
        self._record(index, result)

    async def _do_with_setup(
        self, fixtures: "Fixtures", queue: Queue, index: int, slot: Slot
    ) -> None:
        """Do one run between its setup and its teardown.

        Raises:
            StoppedError: it was stopped before its call.
        """
        cell = self._cells.of_index(index)
        if not cell.setup:
            await self._do(queue, index, slot)
            return
        from ci_evals.engine.fixtures import SetupError, fill

        run = cell.run_of(index)
        started_at = time.time()
        run_fixtures = fixtures.enter(cell, run)
        try:
            filled = fill(self._cells, cell, await run_fixtures.set_up())
            self._check_request(queue, filled.request(run))
            await self._do(queue, index, slot, filled)
        except SetupError as error:
            reason = RunError("setup", error.message, detail=error.detail)
            outcome = RunOutcome("errored", error=reason)
            self._record(index, self._result(cell, run, outcome, started_at, 0.0))
        finally:
            # The result is written by now: a teardown that fails or hangs can't lose an answer.
            failures = [*await run_fixtures.tear_down()]
            if not self._has_runs_left(index):
                failures += await fixtures.end_case(cell)
            self.note_teardowns(self.records, index, failures)

    def _check_request(self, queue: Queue, request: Request) -> None:
        """Refuse a request that its provider cannot send with the vars of a setup.

        Raises:
            SetupError: the request does not fit.
        """
        options = queue.options
        if not options.before:  # else the stages decide what the provider is sent
            from ci_evals.engine.fixtures import SetupError

            for _, text in options.misfits([request], self.suite.folder):
                raise SetupError(f"the vars of its setup do not fit: {text}")

    def _has_runs_left(self, index: int) -> bool:
        """Return True if a run of the same cell has no result yet."""
        indices = self.plan.indices(self.plan.cell_of(index))
        return any(run_index not in self.records for run_index in indices)

    def note_teardowns(
        self, records: dict[int, RunRecord], index: int, failures: Sequence[str]
    ) -> None:
        """Add failed teardowns to the result of the run before them. Its grades stay.

        The result is appended once more: the later line of a run replaces the earlier one.

        Args:
            records: where the result is counted; a run without a result is left alone.
            index: the index of the run.
            failures: why the teardowns failed.
        """
        if not failures or index not in records:
            return
        (line,) = read_lines(self._journal.path, [records[index].offset])
        result = replace(decode_result(line), teardown_error="; ".join(failures))
        records[index] = RunRecord.of(*self._journal.append(result))

    async def end_setups(self, records: dict[int, RunRecord]) -> None:
        """Tear down the fixtures that runs share; add failures to the result of the last run."""
        if self._fixtures is not None:
            failures = await self._fixtures.close()
            self.note_teardowns(records, max(records, default=0), failures)

    async def _converse(self, queue: Queue, cell: PreparedCell, index: int, slot: Slot) -> Result:
        """Have a run's conversation and grade it."""
        from ci_evals.engine.conversation import Conversation

        run, started_at = cell.run_of(index), time.time()
        conversation = Conversation(cell, run)
        try:
            await conversation.hold(queue, slot, self._speak, self._files)
        except SimulatedUserError as silent:
            message = f"the simulated user could not go on: {silent.cause.message}"
            error = RunError(silent.cause.kind, message, cause=silent.cause.root)
            outcome = RunOutcome("errored", error=error)
        except LostError as lost:
            outcome = await self._outcome_of_loss(queue, lost)
        else:
            answer = Answer(
                cell.request(run),
                conversation.response,
                conversation.latency_s,
                conversation.cost_usd,
            )
            return await self._grade(cell, index, answer, started_at, conversation.attempts)
        return self._result(
            cell, run, outcome, started_at, conversation.latency_s, conversation.attempts
        )

    async def _grade(
        self,
        cell: PreparedCell,
        index: int,
        answer: Answer,
        started_at: float,
        attempts: Attempts,
    ) -> Result:
        """Grade an answer, keeping its files and long outputs in the results folder.

        If grading may take long, the answer is written first, so that nothing is paid twice if
        something ends the grading.
        """
        if answer.response.files:
            response = await asyncio.to_thread(keep_files, answer.response, self._files)
            answer = replace(answer, response=response)
        written = RunOutcome("errored", cost_usd=answer.cost_usd)
        written.response = await self._writable(answer.response)
        run = cell.run_of(index)
        if cell.grades_slowly:
            self._journal.append_answer(
                self._result(cell, run, written, started_at, answer.latency_s, attempts)
            )
        self.judging[index] = cell.case.id
        try:
            outcome = await grade_answer(answer, self._judges, executor=self._executor)
        finally:
            del self.judging[index]
        outcome.response = written.response
        return self._result(cell, run, outcome, started_at, answer.latency_s, attempts)

    async def _outcome_of_loss(self, queue: Queue, lost: LostError) -> RunOutcome:
        """Return the outcome of a run without an answer, with a partial answer if there is one."""
        outcome = fail_or_exclude(lost.error, lost.cause, queue.options)
        if outcome.response is not None:
            outcome.cost_usd = queue.price(outcome.response)
            outcome.response = await self._writable(outcome.response)
        return outcome

    async def _writable(self, response: Response) -> Response:
        """Return a response in the form in which the journal keeps it."""
        if response.files:
            response = without_data(response)
        if self._journal.is_too_long(response):
            response = await asyncio.to_thread(self._journal.shorten, response)
        return response

    async def _speak(self, user: SimulatedUser, request: Request) -> tuple[Response, float | None]:
        if self._users is None:
            raise SimulatedUserError(
                ProviderError("not_recorded", "only recorded answers are allowed")
            )
        return await self._users.speak(user, request)

    # Results.

    def _result(
        self,
        cell: PreparedCell,
        run: int,
        outcome: RunOutcome,
        started_at: float,
        latency_s: float,
        attempts: Attempts = ONE_ATTEMPT,
    ) -> Result:
        """Return the result of a run whose last attempt began at `started_at`."""
        case, variant = cell.case, cell.variant
        allowed = case.budget or self.suite.budget.per_run
        return Result(
            fingerprint=cell.fingerprint,
            case=case.id,
            provider=variant.provider,
            prompt=variant.prompt,
            run=run,
            status=outcome.status,
            score=outcome.score,
            threshold=None if outcome.score is None else case.threshold,
            started_at=round(started_at, 3),
            latency_s=round(latency_s, 6),
            attempts=attempts.number,
            repeated_for=attempts.repeated_for,
            cost_usd=outcome.cost_usd,
            response=outcome.response,
            grades=outcome.grades,
            error=outcome.error,
            judging=outcome.judging,
            budget_violations=violations(allowed, outcome, latency_s),
            budget_unknown=unknown_figures(allowed, outcome),
            messages=cell.kept_messages,
            setup_vars=cell.setup_vars,
        )

    def _record(self, index: int, result: Result, *, paid: bool = True) -> None:
        """Write a result and count it; stop the run if that uses up the budget.

        `paid` is false for an answer that this invocation did not pay for.
        """
        if self._aborted:  # a result that still arrives was cut short by the signal
            raise asyncio.CancelledError
        result, offset = self._journal.append(result)
        self.records[index] = RunRecord.of(result, offset)
        self.any_ended = True
        if result.status != "passed":
            key = (result.case, result.provider, result.prompt)
            if key not in self._failed:
                self._failed.add(key)
                self.last_failures.append(result)
        reason = self.spending.add(result, paid=paid)
        if reason is not None:
            self.stop(reason)
        elif self._clock() >= self._ends_at:  # code that never waits keeps the timer from ringing
            self._out_of_time()
        self._on_result(result)

    def note_spending(self, cost_usd: float, tokens: int) -> None:
        """Count all that main's code has spent so far, since the budget covers it, too."""
        reason = self.spending.add_elsewhere(cost_usd, tokens)
        if reason is not None:
            self.stop(reason)


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the failure that ended the run; the others are cancellations and repetitions of it."""
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
