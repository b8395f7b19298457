"""What is shown on stderr while a suite runs."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import NamedTuple, TextIO

import pytest
from factories import result_of
from processes import environment
from suites import write_suite
from terminals import posix, pseudo_terminal

from ci_evals import progress
from ci_evals.columns import Columns
from ci_evals.model import Status
from ci_evals.progress import describe, duration, shown


class Spent(NamedTuple):
    cost_usd: float


@dataclass
class Watched:
    """A run phase that stands still but for what a test changes."""

    columns: Columns
    retrying: int
    spending: Spent
    doing: str = ""


def watched(*statuses: Status, total: int, retrying: int = 0, cost_usd: float = 0.0) -> Watched:
    columns = Columns(total)
    for slot, status in enumerate(statuses):
        columns.record(slot, result_of(status=status), offset=slot)
    return Watched(columns, retrying, Spent(cost_usd))


class Screen(NamedTuple):
    """A terminal, and what is seen on it."""

    terminal: TextIO
    reader: asyncio.StreamReader

    async def rest(self) -> bytes:
        """All that is seen until nobody has the terminal any more."""
        self.terminal.close()
        seen = b""
        with suppress(OSError):  # how Linux says that nobody holds the other end any more
            while chunk := await self.reader.read(4096):
                seen += chunk
        return seen


@asynccontextmanager
async def screen(columns: int = 0, encoding: str = "utf-8") -> AsyncIterator[Screen]:
    with pseudo_terminal(columns, encoding) as (seen, terminal):
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), seen
        )
        yield Screen(terminal, reader)
        transport.close()
        await asyncio.sleep(0)  # in which it does so


async def run_on(terminal: TextIO, folder: Path, environ: Mapping[str, str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ci_evals", "run"),
        cwd=folder,
        env=environment(environ),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=terminal,
    )


def test_counts_are_told() -> None:
    run = watched("passed", "passed", "failed", "errored", total=8, retrying=2, cost_usd=0.123)
    assert describe(run, 10.0) == "4/8 runs  2 passed  1 failed  1 errored  2 retrying  $0.12  10s left"


def test_what_is_being_done_is_said_first() -> None:
    run = watched("passed", total=21)
    run.doing = "confirming 3 suspects"
    assert describe(run, 1.0).startswith("confirming 3 suspects  1/21 runs  ")


def test_what_is_nothing_is_left_out() -> None:
    assert describe(watched(total=3), 1.0) == "0/3 runs  0 passed  0 failed"
    assert describe(watched("passed", total=1), 1.0) == "1/1 runs  1 passed  0 failed"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0s"), (42, "42s"), (80, "1m 20s"), (59.6, "1m 0s"), (7500, "2h 5m")]
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


async def test_a_log_gets_plain_lines_now_and_then() -> None:
    written = asyncio.Event()

    class Log(StringIO):
        def flush(self) -> None:
            written.set()

    log = Log()
    async with shown(watched("passed", total=2), log, line_every_s=0.001):
        await written.wait()
    line, _, _ = log.getvalue().partition("\n")
    assert line.startswith("1/2 runs  1 passed  0 failed")
    assert "\x1b" not in log.getvalue()


@pytest.mark.parametrize(
    ("share", "room", "line"),
    [
        (0.0, 19, "░░░░░░░░░░ 1/8 runs"),
        (0.55, 19, "█████░░░░░ 1/8 runs"),
        (1.0, 20, "███████████ 1/8 runs"),
        (0.5, 18, "1/8 runs"),
        (0.5, 5, "1/8 r"),
        (0.5, 200, f"{'█' * 20}{'░' * 20} 1/8 runs"),
    ],
)
def test_a_bar_has_the_room_that_its_text_leaves(share: float, room: int, line: str) -> None:
    assert progress.with_bar("1/8 runs", share, room) == line


def test_a_bar_is_full_when_all_is_done_and_no_sooner() -> None:
    assert "░" in progress.with_bar("", 0.9999, 80)
    assert "░" not in progress.with_bar("", 1.0, 80)


@posix
@pytest.mark.parametrize(("columns", "longest"), [(12, 11), (30, 28), (50, 49), (200, 69), (0, 69)])
async def test_a_bar_stays_in_its_line_and_leaves_it_blank(columns: int, longest: int) -> None:
    async with screen(columns) as seen_on:
        async with shown(watched("passed", total=2), seen_on.terminal, live=True):
            seen = await seen_on.reader.readuntil(b"1/2 runs")
        seen += await seen_on.rest()
    drawn = seen.decode().split("\r")
    assert "\n" not in seen.decode()
    assert max(map(len, drawn)) == longest
    assert drawn[-2:] == [" " * len(drawn[1]), ""]


@posix
async def test_a_terminal_without_block_characters_gets_a_bar_of_ascii() -> None:
    async with screen(80, "latin-1") as seen_on, shown(watched("passed", total=2), seen_on.terminal, live=True):
        seen = await seen_on.reader.readuntil(b"1/2 runs")
    assert b"\r" + b"#" * 20 + b"-" * 20 + b" 1/2 runs" in seen


async def test_a_quick_run_leaves_no_line() -> None:
    log = StringIO()
    async with shown(watched(total=1), log):
        pass
    assert log.getvalue() == ""


async def test_a_log_that_is_gone_does_not_end_the_run() -> None:
    asked = asyncio.Event()

    class Gone(StringIO):
        def write(self, text: str) -> int:
            asked.set()
            raise BrokenPipeError

    async with shown(watched(total=1), Gone(), line_every_s=0.001):
        await asked.wait()


@posix
async def test_a_terminal_gets_a_bar_that_is_gone_in_the_end(tmp_path: Path) -> None:
    """What the function prints meanwhile stands above it, whole."""
    (tmp_path / "agent.py").write_text(
        "import pathlib, time\n\ndef answer(text):\n    print('printed by the agent')\n"
        "    while not pathlib.Path('seen').exists():\n        time.sleep(0.01)\n    return text\n"
    )
    write_suite(tmp_path, providers=[{"name": "agent", "type": "python", "target": "agent:answer"}])
    async with screen() as seen_on:
        process = await run_on(seen_on.terminal, tmp_path, {"TERM": "xterm", "COLUMNS": "100"})
        seen = await seen_on.reader.readuntil(b"printed by the agent\r\n")
        seen += await seen_on.reader.readuntil(b"0/1 runs")
        (tmp_path / "seen").touch()
        seen += await seen_on.rest()
    assert await process.wait() == 0
    assert b"\x1b[2Kprinted by the agent\r\n" in seen
    assert b"written: ci-evals-results/report.json" in seen


@posix
async def test_a_dumb_terminal_gets_lines_alone(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("def answer(text):\n    print('printed by the agent')\n    return text\n")
    write_suite(tmp_path, providers=[{"name": "agent", "type": "python", "target": "agent:answer"}])
    async with screen() as seen_on:
        process = await run_on(seen_on.terminal, tmp_path, {"TERM": "dumb"})
        seen = await seen_on.rest()
    assert await process.wait() == 0
    printed, written, rest = seen.split(b"\r\n")
    assert printed == b"printed by the agent"
    assert written.startswith(b"written: ci-evals-results/report.json")
    assert rest == b""


def test_what_is_left_is_judged_by_the_pace_since_a_phase_began() -> None:
    now = 100.0
    run = watched("passed", "passed", total=3)
    watch = progress.Watch(run, clock=lambda: now)
    now = 1100.0
    run.columns, run.doing = watched("passed", total=21).columns, "confirming 3 suspects"
    assert watch.describe() == "confirming 3 suspects  1/21 runs  1 passed  0 failed"
    now = 1110.0
    run.columns.record(1, result_of(), offset=1)
    assert watch.describe().endswith("  2/21 runs  2 passed  0 failed  3m 10s left")


def test_no_time_is_promised_that_has_passed_without_a_run_that_ended() -> None:
    """As when one provider hangs and the others are done."""
    now = 0.0
    run = watched(total=12)
    watch = progress.Watch(run, clock=lambda: now)
    for slot in range(10):
        now += 1
        run.columns.record(slot, result_of(), offset=slot)
    assert watch.describe().endswith("  10 passed  0 failed  2s left")
    now = 11.0
    assert watch.describe().endswith("  10 passed  0 failed  2s left")
    for later in (13.0, 100.0, 10_000.0):
        now = later
        assert watch.describe().endswith("  10 passed  0 failed")
    run.columns.record(10, result_of(), offset=10)
    assert watch.describe().endswith("  11 passed  0 failed  15m 9s left")
