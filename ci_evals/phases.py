"""The phases of a run: the planned rounds, look by look, and then the runs that confirm suspects."""

from collections.abc import Callable
from typing import Literal

from ci_evals.engine.runner import Run
from ci_evals.engine.shards import cells_of_shard
from ci_evals.ledger import Ledger
from ci_evals.matrix import Matrix
from ci_evals.model import Result
from ci_evals.order import Order
from ci_evals.report import Looks
from ci_evals.verdict.comparison import suspects
from ci_evals.verdict.gate import missed, proven, settled
from ci_evals.verdict.head import counted_cells
from ci_evals.verdict.history import Baseline
from ci_evals.verdict.words import name_of, number_of

_CHECKS = 200
"""So often at most it is asked whether the verdict is settled: asking takes a look at every cell."""
_NAMES = 5
SETTLED = "the verdict is settled"


class Phases:
    """Carries out an order phase by phase, each following from the results of those before.

    Args:
        order: what is to be done.
        ledger: what is planned, and what became of it.
        tell: called with a sentence when it is decided to go on, and why.
        on_result: called with each finished run.
    """

    def __init__(
        self, order: Order, ledger: Ledger, tell: Callable[[str], None], on_result: Callable[[Result], None] | None
    ) -> None:
        self._order = order
        self._ledger = ledger
        self._tell = tell
        self._on_result = on_result
        self._run: Run | None = None
        self._results = 0
        self._watching: Literal["nothing", "a red verdict", "any verdict"] = "nothing"

    def note(self, result: Result) -> None:
        """Take note of a run that has just ended."""
        self._ledger.fresh = True
        if self._on_result is not None:
            self._on_result(result)
        if self._watching != "nothing":
            self._results += 1
            if self._results % (1 + self._ledger.plan.matrix.total // _CHECKS) == 0:
                self._look_ahead()

    async def work(self, run: Run | None) -> None:
        """Run the planned rounds, and then whatever needs confirmation.

        Args:
            run: calls providers; None if only what is recorded is to be read.
        """
        self._run = run
        await self._planned_rounds()
        if isinstance(self._order.baseline, Baseline) and not self._stopped:
            await self._confirm(self._order.baseline)

    @property
    def _stopped(self) -> bool:
        return self._run is not None and self._run.stopped is not None

    async def _planned_rounds(self) -> None:
        """Look at the results after some rounds, and go on as long as the verdict is open."""
        rounds = self._order.rounds
        for number, runs in enumerate(rounds, 1):
            if number > 1:
                self._take_up(planned(self._order, runs), f"round {runs}")
            if len(rounds) > 1:
                self._ledger.looks = Looks(rounds, number)
            await self._finish(last=number == len(rounds))
            if self._stopped or self._ledger.settled or number == len(rounds) or self._decided():
                return
            self._tell(f"the verdict is open after {number_of(runs, 'round')}: going on to {rounds[number]}")

    def _take_up(self, matrix: Matrix, doing: str) -> None:
        part = self._ledger.grow(matrix)
        if self._run is not None:
            self._run.go_on(part.matrix, part.columns, part.cells, doing)

    async def _finish(self, *, last: bool) -> None:
        if self._run is None:
            return
        if self._order.suite.stop_early and not self._order.shard:
            # Only a red verdict ends what another look, or the comparison, would still learn from.
            final = last and self._order.baseline is None
            self._watching = "any verdict" if final else "a red verdict"
            self._look_ahead()  # what an earlier invocation left may be enough
        await self._run.finish()
        self._watching = "nothing"
        if self._ledger.settled and not self._ledger.plan.columns.status.count(0):
            self._ledger.settled = None  # what was under way at that moment was all that was left
            if self._run.stopped == SETTLED:
                self._run.carry_on()

    def _decided(self) -> bool:
        report, gate = self._ledger.report(None), self._order.suite.gate
        return missed(report, gate) or proven(report, gate)

    def _look_ahead(self) -> None:
        """Stop if no outcome of the rest of these rounds can change the verdict."""
        assert self._run is not None
        report = self._ledger.report(None)
        found = settled(report, self._order.suite.gate) if report.totals.missing else None
        if found == "fail" or (found in ("pass", "borderline") and self._watching == "any verdict"):
            self._watching = "nothing"
            self._ledger.settled = found
            self._run.stop(SETTLED)

    async def _confirm(self, baseline: Baseline) -> None:
        """Run suspects again, apart from the runs that the gate judges."""
        suite, plan = self._order.suite, self._ledger.plan.matrix
        if not suite.confirm_runs or self._ledger.settled:
            return
        cells = self._suspects(baseline)
        if not cells:
            return
        part = self._ledger.confirm(
            Matrix(plan.cases, plan.variants, suite.confirm_runs, only=frozenset(cells), after=plan)
        )
        names = list(dict.fromkeys(name_of(plan.case(cell).id) for cell in cells))
        shown = ", ".join(names[:_NAMES]) + (", …" if len(names) > _NAMES else "")
        missing = part.columns.status.count(0)
        if self._run is None:
            if missing:
                lack = f"{number_of(missing, 'run')} to confirm {number_of(len(cells), 'suspect')} are missing: {shown}"
                self._tell(f"{lack}; give every shard the same --baseline, or have them run with --run-missing")
            return
        doing = f"confirming {number_of(len(cells), 'suspect')}"
        if missing:
            self._tell(f"{doing} with {number_of(suite.confirm_runs, 'more run')} each: {shown}")
        self._run.go_on(part.matrix, part.columns, part.cells, doing)
        await self._run.finish()

    def _suspects(self, baseline: Baseline) -> list[int]:
        """The cells to run again. All cells of the suite are looked at, also those that other shards run.

        So a shard has the same suspects as one run of everything.
        """
        report = self._ledger.report(None)
        keys = suspects(counted_cells(report, self._order.suite.gate), baseline)
        matrix = report.matrix  # by the names that it is known by in the baseline, which has no secrets
        return [cell for cell in range(len(matrix)) if matrix.runs(cell) and matrix.key(cell) in keys]


def planned(order: Order, runs: int) -> Matrix:
    """The suite's matrix with so many runs of a cell, or a shard's share of it."""
    suite = order.suite
    matrix = Matrix(suite.cases, suite.variants, runs)
    if order.shard is None:
        return matrix
    return Matrix(suite.cases, suite.variants, runs, only=cells_of_shard(matrix, order.shard, order.durations_s))
