"""What a person sees on stderr while a suite runs: a live bar in a terminal, a line every few seconds in a log."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from ci_evals.streams import columns_of, say

if TYPE_CHECKING:
    from ci_evals.columns import Columns

BAR_INTERVAL_S = 0.2
LINE_INTERVAL_S = 5.0

_COLUMNS = 80  # of a terminal that does not know it
_WIDEST_BAR = 40
_NARROWEST_BAR = 10
BLOCKS = ("█", "░")  # of what a bar is full, and of what it is empty
ASCII_BLOCKS = ("#", "-")


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
async def shown(
    run: Watched, stream: TextIO, *, live: bool = False, line_every_s: float = LINE_INTERVAL_S
) -> AsyncIterator[None]:
    """Show the progress of `run` on `stream` until the block ends: as a bar if `live`, else as lines."""
    task = asyncio.create_task(_bar(run, stream) if live else _lines(run, stream, line_every_s))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Watch:
    """Describes a run phase again and again; what is left of it is judged by the pace since it began.

    Where only a provider is left that hangs or refuses, the others' pace says nothing: then nothing is said.

    Args:
        run: what is watched.
        clock: seconds from any starting point, never going back.
    """

    def __init__(self, run: Watched, clock: Callable[[], float] = time.monotonic) -> None:
        self._run = run
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._columns, self._before = self._run.columns, done(self._run)
        self._started = self._went_on = self._clock()
        self._finished = self._before

    def describe(self) -> str:
        """How it stands now."""
        if self._run.columns is not self._columns:
            self._begin()
        now, finished = self._clock(), done(self._run)
        if finished != self._finished:
            self._finished, self._went_on = finished, now
        return describe(self._run, now - self._started, self._before, now - self._went_on)


async def _lines(run: Watched, stream: TextIO, every_s: float) -> None:
    watch = Watch(run)
    while True:
        await asyncio.sleep(every_s)
        say(stream, f"{watch.describe()}\n")


async def _bar(run: Watched, stream: TextIO) -> None:
    """In one line that is written over again and again, and blank in the end.

    Blanks are what every terminal can erase with. The last column stays free: some terminals go on to the next line
    as soon as it is written.
    """
    watch, blocks = Watch(run), _blocks(stream.encoding)
    drawn = 0
    try:
        while True:
            total, room = len(run.columns.status), _room(stream)
            line = with_bar(watch.describe(), done(run) / total if total else 0.0, room, blocks)
            say(stream, "\r" + line.ljust(drawn)[:room])
            drawn = len(line)
            await asyncio.sleep(BAR_INTERVAL_S)
    finally:
        say(stream, "\r" + " " * min(drawn, _room(stream)) + "\r")


def with_bar(text: str, share: float, room: int, blocks: tuple[str, str] = BLOCKS) -> str:
    """`██████░░░░░░ 120/240 runs`, of at most `room` characters.

    Args:
        text: what stands beside the bar; alone where there is no room for both.
        share: how much of the bar is full, from 0 to 1.
        room: characters of one cell each.
        blocks: of what it is full, and of what it is empty.
    """
    width = min(_WIDEST_BAR, room - len(text) - 1)
    if width < _NARROWEST_BAR:
        return text[:room]
    full, empty = blocks
    return f"{full * int(share * width):{empty}<{width}} {text}"


def _blocks(encoding: str) -> tuple[str, str]:
    try:
        "".join(BLOCKS).encode(encoding)
    except UnicodeEncodeError:
        return ASCII_BLOCKS
    return BLOCKS


def _room(stream: TextIO) -> int:
    return (columns_of(stream) or _COLUMNS) - 1


def done(run: Watched) -> int:
    """How many runs have a result."""
    status = run.columns.status
    return len(status) - status.count(0)


def describe(run: Watched, elapsed_s: float, before: int = 0, idle_s: float = 0.0) -> str:
    """`120/300 runs  98 passed  20 failed  2 errored  3 retrying  $0.12  1m 20s left`.

    Args:
        run: what is watched.
        elapsed_s: for how long.
        before: how many runs had a result when that began.
        idle_s: for how long no run has ended. No time is promised that would be over by now.
    """
    status, finished = run.columns.status, done(run)
    total = len(status)
    parts = [run.doing] if run.doing else []
    parts += [f"{finished:,}/{total:,} runs", f"{status.count(1):,} passed", f"{status.count(2):,} failed"]
    if errored := status.count(3):
        parts.append(f"{errored:,} errored")
    if run.retrying:
        parts.append(f"{run.retrying:,} retrying")
    if run.spending.cost_usd:
        parts.append(f"${run.spending.cost_usd:.2f}")
    if before < finished < total and (left_s := elapsed_s / (finished - before) * (total - finished)) >= idle_s:
        parts.append(f"{duration(left_s)} left")
    return "  ".join(parts)


def duration(seconds: float) -> str:
    """`42s`, `1m 20s`, `2h 5m`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes}m"
    return f"{minutes}m {rest}s" if minutes else f"{rest}s"
