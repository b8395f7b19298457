"""Progress on stderr while a suite runs: a live bar in a terminal, a line every few seconds in a log."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import islice
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column
from rich.text import Text

from ci_evals.engine.interrupt import columns_of, say
from ci_evals.format import duration, name_of, one_line, without_commands
from ci_evals.model.case import Variant
from ci_evals.model.plan import RunPlan
from ci_evals.model.report import RunRecord
from ci_evals.model.result import Result

BAR_INTERVAL_S = 0.2
LINE_INTERVAL_S = 5.0
BAR_WIDTH = 30
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
    def retrying(self) -> int: ...

    @property
    def failures(self) -> Mapping[Hashable, Result]: ...


@asynccontextmanager
async def show_progress(
    run: Watched, stream: TextIO, *, live: bool = False, line_every_s: float = LINE_INTERVAL_S
) -> AsyncIterator[None]:
    """Show the progress of `run` on `stream` until the block ends: as a bar if `live`, else as lines.

    Above it stand the first cells that failed, each with its reason.
    """
    task = asyncio.create_task(_bar(run, stream) if live else _lines(run, stream, line_every_s))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)  # a terminal that is gone does not end the run


class Watch:
    """Describes a run phase again and again, and estimates from the pace since it began how long it still takes.

    Args:
        run: the run phase.
        clock: seconds from any starting point, never going back.
    """

    def __init__(self, run: Watched, clock: Callable[[], float] = time.monotonic) -> None:
        self._run = run
        self._clock = clock
        self._told = 0
        self._begin()

    def _begin(self) -> None:
        self._plan, self._before = self._run.plan, len(self._run.records)
        self._started = self._went_on = self._clock()
        self._finished = self._before

    def new_failures(self) -> Iterator[str]:
        """Yield a line for each cell that failed since the last call."""
        several = len(self._run.plan.variants) > 1
        for result in islice(self._run.failures.values(), self._told, None):
            self._told += 1
            on = f" on {name_of(Variant(result.provider, result.prompt))}" if several else ""
            wrong = next((f"{each.grader}: {each.reason}" for each in result.grades if not each.passed), "")
            why = one_line(result.error.message or result.error.kind if result.error else wrong, _REASON_CHARACTERS)
            mark = "✗" if result.status == "failed" else "!"
            yield without_commands(f"{mark} {name_of(result.case)}{on}{f': {why}' if why else ''}")

    def describe(self) -> str:
        """Return the state of the phase in a line; see the function `describe`."""
        if self._run.plan is not self._plan:
            self._begin()
        now, finished = self._clock(), len(self._run.records)
        if finished != self._finished:
            self._finished, self._went_on = finished, now
        return describe(self._run, now - self._started, self._before, now - self._went_on)


async def _lines(run: Watched, stream: TextIO, every_s: float) -> None:
    watch = Watch(run)
    while True:
        await asyncio.sleep(every_s)
        say(stream, "".join(f"{line}\n" for line in (*watch.new_failures(), watch.describe())))


async def _bar(run: Watched, stream: TextIO) -> None:
    console = Console(file=stream, force_terminal=True, width=columns_of(stream) or 80, height=25)
    watch = Watch(run)
    bar = Progress(
        BarColumn(BAR_WIDTH),
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="crop")),
        console=console,
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,  # stdout is another stream: prints of the team's own code are passed on by the command
        redirect_stderr=False,
    )
    task = bar.add_task(watch.describe())
    with bar:
        console.show_cursor()  # a second Ctrl-C would leave it hidden
        while True:
            console.width = columns_of(stream) or 80
            for line in watch.new_failures():
                bar.console.print(Text(line), no_wrap=True, overflow="ellipsis", crop=True)
            bar.update(task, total=run.plan.total, completed=len(run.records), description=watch.describe())
            bar.refresh()
            await asyncio.sleep(BAR_INTERVAL_S)


def describe(run: Watched, elapsed_s: float, before: int = 0, idle_s: float = 0.0) -> str:
    """Return a line such as `120/300 runs  98 passed  20 failed  2 errored  3 retrying  $0.12  2 min left`.

    Args:
        run: the run phase.
        elapsed_s: seconds since the phase began.
        before: how many runs had a result at that time.
        idle_s: seconds in which no run has ended. An estimate that would be over by now is left out: the pace of other
            providers says nothing of one that hangs.
    """
    counts = Counter(record.status for record in run.records.values())
    finished, total = len(run.records), run.plan.total
    parts = [run.doing] if run.doing else []
    parts += [f"{finished:,}/{total:,} runs", f"{counts['passed']:,} passed", f"{counts['failed']:,} failed"]
    if counts["errored"]:
        parts.append(f"{counts['errored']:,} errored")
    if run.retrying:
        parts.append(f"{run.retrying:,} retrying")
    if run.cost_usd:
        parts.append(f"${run.cost_usd:.2f}")
    if before < finished < total and (left_s := elapsed_s / (finished - before) * (total - finished)) >= idle_s:
        parts.append(f"{duration(left_s)} left")
    return "  ".join(parts)
