"""Progress on stderr while a suite runs: a live view in a terminal, a line every few seconds in a
log.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TextIO

from rich.console import Console, ConsoleRenderable
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ci_evals.engine.calls import Waiting
from ci_evals.format import duration, join_first, name_of, one_line, without_commands
from ci_evals.model.case import Variant
from ci_evals.model.plan import RunPlan
from ci_evals.model.report import RunRecord
from ci_evals.model.result import Result, reason_of
from ci_evals.streams import ERASE_VIEW, columns_of, rows_of, say

BAR_INTERVAL_S = 0.2
LINE_INTERVAL_S = 5.0
BAR_WIDTH = 30
NARROWEST_BAR = 8
MAX_LINES = 5
_REASON_CHARACTERS = 200


class Watched(Protocol):
    """A run phase as its watcher sees it."""

    @property
    def doing(self) -> str: ...

    @property
    def plan(self) -> RunPlan: ...

    @property
    def records(self) -> Mapping[int, RunRecord]: ...

    @property
    def cost_usd(self) -> float: ...

    @property
    def waiting(self) -> Sequence[Waiting]: ...

    @property
    def judging(self) -> Mapping[int, str]: ...

    @property
    def failed_cells(self) -> int: ...

    @property
    def last_failures(self) -> Sequence[Result]: ...


@asynccontextmanager
async def show_progress(
    run: Watched, stream: TextIO, *, live: bool = False, line_every_s: float | None = None
) -> AsyncIterator[None]:
    """Show the progress of `run` on `stream` until the block ends: as a view if `live`, else as
    lines.

    The view has a bar, the latest failed cells with their reasons, the cases that are being judged,
    and the calls that wait for another attempt. The lines have the first failures, and why calls
    wait.
    """
    if live:
        showing = _view(run, stream)
    else:
        showing = _lines(run, stream, line_every_s or LINE_INTERVAL_S)
    task = asyncio.create_task(showing)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # a terminal that is gone does not end the run


class Watch:
    """Describes a run phase, and estimates the time left from its pace so far.

    Args:
        run: the run phase.
        clock: seconds from any starting point, never going back.
    """

    def __init__(self, run: Watched, clock: Callable[[], float] = time.monotonic) -> None:
        self._run = run
        self._clock = clock
        self._shown = 0
        self._begin()

    def _begin(self) -> None:
        self._plan = self._run.plan
        self._before = self._finished = len(self._run.records)
        self._started = self._went_on = self._clock()

    def new_failures(self) -> Iterator[str]:
        """Yield a line for each cell that failed since the last call, up to `MAX_LINES` in all."""
        new = min(
            self._run.failed_cells - self._shown,
            MAX_LINES - self._shown,
            len(self._run.last_failures),
        )
        if new > 0:
            self._shown += new
            yield from list(self.failures())[-new:]

    def failures(self) -> Iterator[str]:
        """Yield a line for each of the latest failed cells.

        A reason is not repeated: `✗ refund on gpt: no "refund" in the answer: "We issue …"`, then
        `✗ cancel on gpt: the same`.
        """
        several = len(self._run.plan.variants) > 1
        before = ""
        for result in self._run.last_failures:
            mark = "✗" if result.status == "failed" else "!"
            line = f"{mark} {name_of(result.case)}"
            if several:
                line += f" on {name_of(Variant(result.provider, result.prompt))}"
            missed, text = _reason_of(result)
            if missed and missed == before:
                line += ": the same"
            elif missed:
                line += f": {one_line(text, _REASON_CHARACTERS)}"
            before = missed
            yield without_commands(line)

    def judging(self) -> str:
        """Return `judging refund, cancel and 3 more`; empty if no answer is being judged."""
        names = list(self._run.judging.values())
        if not names:
            return ""
        judged = join_first([name_of(name) for name in names], MAX_LINES)
        return without_commands(f"judging {judged}")

    def waiting(self, *, with_cases: bool = False) -> Iterator[str]:
        """Yield `8 waiting: rate-limited (429), next try in 12 s` for each provider whose calls
        wait for another attempt, with some of their cases if asked for. A provider that only
        refuses also has `gives up in 2 min`.
        """
        several = len(self._run.plan.variants) > 1
        for provider, retries, next_s, gives_up_s in self._run.waiting:
            line = f"{len(retries):,} waiting"
            if several:
                line += f" for {name_of(provider)}"
            reasons = Counter(retry.error.short for retry in retries)
            line += f": {reasons.most_common(1)[0][0]}"
            if next_s > 0:
                line += f", next try in {duration(math.ceil(next_s))}"
            if gives_up_s is not None:
                line += f", gives up in {duration(math.ceil(gives_up_s))}"
            if with_cases:
                cases = [name_of(retry.case) for retry in retries]
                line += f": {join_first(cases, MAX_LINES)}"
            yield without_commands(line)

    def describe(self) -> str:
        """Return the state of the phase in a line; see the function `describe`."""
        if self._run.plan is not self._plan:  # a further round has a pace of its own
            self._begin()
        now, finished = self._clock(), len(self._run.records)
        if finished != self._finished:
            self._finished, self._went_on = finished, now
        return describe(self._run, self._went_on - self._started, self._before, now - self._went_on)


def _reason_of(result: Result) -> tuple[str, str]:
    """Return why a run did not pass, without and with its answer: its error, or the first grader
    that failed.
    """
    if result.error is not None:
        message = result.error.message or result.error.kind
        return message, message
    for grade in result.grades:
        if not grade.passed:
            reason = reason_of(grade, result.response)
            return reason.missed, reason.text
    return "", ""


async def _lines(run: Watched, stream: TextIO, every_s: float) -> None:
    watch = Watch(run)
    while True:
        await asyncio.sleep(every_s)
        state = "  ".join([watch.describe(), *watch.waiting()])
        say(stream, "".join(f"{line}\n" for line in (*watch.new_failures(), state)))


async def _view(run: Watched, stream: TextIO) -> None:
    console = Console(file=stream, force_terminal=True, height=25, width=80)
    watch = Watch(run)
    try:
        while True:
            columns = columns_of(stream) or 80
            console.width = max(1, columns - 1)  # a full line would end in the next one
            lines = _draw(console, run, watch)[: max(1, rows_of(stream) - 1)]
            # The cursor waits at the start of the view, so that other output can erase the view
            # first, with `ERASE_VIEW`.
            up = f"\x1b[{len(lines) - 1}A" if len(lines) > 1 else ""
            say(stream, ERASE_VIEW + "\n".join(lines) + f"{up}\r")
            await asyncio.sleep(BAR_INTERVAL_S)
    finally:
        say(stream, ERASE_VIEW)


def _draw(console: Console, run: Watched, watch: Watch) -> list[str]:
    """Return the lines of the view.

    The bar gets the room that the state of the run leaves, and is green until a run does not pass.
    """
    state = Text(watch.describe())
    first: ConsoleRenderable = state
    bar_width = min(BAR_WIDTH, console.width - state.cell_len - 1)
    if bar_width >= NARROWEST_BAR:
        color = "green"
        if any(record.status != "passed" for record in run.records.values()):
            color = "yellow"
        bar = ProgressBar(
            run.plan.total,
            len(run.records),
            width=bar_width,
            complete_style=color,
            finished_style=color,
        )
        row = Table.grid(padding=(0, 1))
        row.add_column(width=bar_width)
        row.add_row(bar, state)
        first = row
    lines = [Text(line) for line in watch.failures()]
    judging = watch.judging()
    if judging:
        lines.append(Text(judging, "dim"))
    lines += [Text(line, "dim") for line in watch.waiting(with_cases=True)]
    with console.capture() as drawn:
        for part in (first, *lines):
            console.print(part, overflow="fold")
    return drawn.get().splitlines()


def describe(run: Watched, elapsed_s: float, before: int = 0, idle_s: float = 0.0) -> str:
    """Return a line such as `12/30 runs  2 failed  1 errored  2 being judged  $0.12  2 min left`.

    Args:
        run: the run phase.
        elapsed_s: seconds from the start of the phase to the end of the last run that ended.
        before: how many runs had a result at the start.
        idle_s: seconds since then. The estimate counts them down, and is left out once it reaches
            zero: the pace of other providers says nothing about one that hangs.
    """
    counts = Counter(record.status for record in run.records.values())
    finished, total = len(run.records), run.plan.total
    parts = [run.doing] if run.doing else []
    parts.append(f"{finished:,}/{total:,} runs")
    if finished and counts["passed"] == finished:
        parts.append("all passed")
    if counts["failed"]:
        parts.append(f"{counts['failed']:,} failed")
    if counts["errored"]:
        parts.append(f"{counts['errored']:,} errored")
    if run.judging:
        parts.append(f"{len(run.judging):,} being judged")
    if run.cost_usd:
        parts.append(f"${run.cost_usd:.2f}")
    if before < finished < total:
        left_s = elapsed_s / (finished - before) * (total - finished) - idle_s
        if left_s > 0:
            parts.append(f"{duration(left_s)} left")
    return "  ".join(parts)
