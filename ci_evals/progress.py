"""What a person sees on stderr while a suite runs: a live bar in a terminal, a line every few seconds in a log."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from ci_evals.columns import Columns

BAR_INTERVAL_S = 0.2
LINE_INTERVAL_S = 5.0


class Watched(Protocol):
    """A run phase as its watcher sees it."""

    @property
    def doing(self) -> str: ...

    @property
    def columns(self) -> "Columns": ...

    @property
    def spending(self) -> "Spending": ...

    @property
    def retrying(self) -> int: ...


class Spending(Protocol):
    """What was spent so far."""

    @property
    def cost_usd(self) -> float: ...


@asynccontextmanager
async def shown(run: Watched, stream: TextIO, *, line_every_s: float = LINE_INTERVAL_S) -> AsyncIterator[None]:
    """Show the progress of `run` on `stream` until the block ends."""
    task = asyncio.create_task(_bar(run, stream) if stream.isatty() else _lines(run, stream, line_every_s))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Watch:
    """Describes a run phase again and again; what is left of it is judged by the pace since it began.

    Args:
        run: what is watched.
        clock: seconds from any starting point, never going back.
    """

    def __init__(self, run: Watched, clock: Callable[[], float] = time.monotonic) -> None:
        self._run = run
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._columns, self._started, self._before = self._run.columns, self._clock(), done(self._run)

    def describe(self) -> str:
        """How it stands now."""
        if self._run.columns is not self._columns:
            self._begin()
        return describe(self._run, self._clock() - self._started, self._before)


async def _lines(run: Watched, stream: TextIO, every_s: float) -> None:
    watch = Watch(run)
    while True:
        await asyncio.sleep(every_s)
        print(watch.describe(), file=stream, flush=True)


async def _bar(run: Watched, stream: TextIO) -> None:
    with _live(run, stream) as refresh:
        while True:
            await asyncio.sleep(BAR_INTERVAL_S)
            refresh()


@contextmanager
def _live(run: Watched, stream: TextIO) -> Iterator[Callable[[], None]]:
    """A bar while the block lasts, and a function that draws it anew."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    progress = Progress(
        BarColumn(),
        TextColumn("{task.description}"),
        console=Console(file=stream),
        transient=True,
        redirect_stdout=False,  # what the code under test prints has a way of its own
        redirect_stderr=False,
    )
    watch = Watch(run)
    with progress:
        task = progress.add_task("", total=len(run.columns.status), auto_refresh=False)

        def refresh() -> None:
            text = watch.describe()
            progress.update(task, total=len(run.columns.status), completed=done(run), description=text)

        refresh()
        yield refresh


def done(run: Watched) -> int:
    """How many runs have a result."""
    status = run.columns.status
    return len(status) - status.count(0)


def describe(run: Watched, elapsed_s: float, before: int = 0) -> str:
    """`120/300 runs  98 passed  20 failed  2 errored  3 retrying  $0.12  1m 20s left`.

    Args:
        run: what is watched.
        elapsed_s: for how long.
        before: how many runs had a result when that began.
    """
    status, finished = run.columns.status, done(run)
    total = len(status)
    parts = [run.doing] if run.doing else []
    parts += [f"{finished}/{total} runs", f"{status.count(1)} passed", f"{status.count(2)} failed"]
    if errored := status.count(3):
        parts.append(f"{errored} errored")
    if run.retrying:
        parts.append(f"{run.retrying} retrying")
    if run.spending.cost_usd:
        parts.append(f"${run.spending.cost_usd:.2f}")
    if before < finished < total:
        parts.append(f"{duration(elapsed_s / (finished - before) * (total - finished))} left")
    return "  ".join(parts)


def duration(seconds: float) -> str:
    """`42s`, `1m 20s`, `2h 5m`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes}m"
    return f"{minutes}m {rest}s" if minutes else f"{rest}s"
