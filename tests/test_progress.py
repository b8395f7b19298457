"""What is shown on stderr while a suite runs."""

import asyncio
import os
import sys
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest
from factories import result_of
from processes import environment
from suites import write_suite

from ci_evals import progress
from ci_evals.columns import Columns
from ci_evals.model import Status
from ci_evals.progress import describe, duration, shown


class Spent(NamedTuple):
    cost_usd: float = 0.0


class Watched(NamedTuple):
    """A run phase that stands still."""

    columns: Columns
    retrying: int = 0
    spending: Spent = Spent()
    doing: str = ""


def watched(*statuses: Status, total: int, retrying: int = 0, cost_usd: float = 0.0) -> Watched:
    columns = Columns(total)
    for slot, status in enumerate(statuses):
        columns.record(slot, result_of(status=status), offset=slot)
    return Watched(columns, retrying, Spent(cost_usd))


def test_counts_are_told() -> None:
    run = watched("passed", "passed", "failed", "errored", total=8, retrying=2, cost_usd=0.123)
    assert describe(run, 10.0) == "4/8 runs  2 passed  1 failed  1 errored  2 retrying  $0.12  10s left"


def test_what_is_being_done_is_said_first() -> None:
    run = watched("passed", total=21)._replace(doing="confirming 3 suspects")
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


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX terminal")
async def test_a_terminal_gets_a_bar_that_is_gone_in_the_end(tmp_path: Path) -> None:
    """What the function prints meanwhile stands above it, whole."""
    import pty

    (tmp_path / "agent.py").write_text(
        "import pathlib, time\n\ndef answer(text):\n    print('printed by the agent')\n"
        "    while not pathlib.Path('seen').exists():\n        time.sleep(0.01)\n    return text\n"
    )
    write_suite(tmp_path, providers=[{"name": "agent", "type": "python", "target": "agent:answer"}])
    controller, terminal = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ci_evals", "run"),
        cwd=tmp_path,
        env=environment({"TERM": "xterm", "COLUMNS": "100"}),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=terminal,
    )
    os.close(terminal)
    reader = asyncio.StreamReader()
    with os.fdopen(controller, "rb", 0) as file:
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
        seen = await reader.readuntil(b"printed by the agent\r\n")
        seen += await reader.readuntil(b"0/1 runs")
        (tmp_path / "seen").touch()
        with suppress(OSError):  # how Linux says that nobody holds the other end any more
            while chunk := await reader.read(4096):
                seen += chunk
    assert await process.wait() == 0
    assert b"\x1b[2Kprinted by the agent\r\n" in seen
    assert b"written: ci-evals-results/report.json" in seen


def test_what_is_left_is_judged_by_the_pace_since_a_phase_began() -> None:
    now = 100.0
    run = watched("passed", "passed", total=3)
    seen = Phased(run)
    watch = progress.Watch(seen, clock=lambda: now)
    now = 1100.0
    seen.run = watched("passed", total=21)._replace(doing="confirming 3 suspects")
    assert watch.describe() == "confirming 3 suspects  1/21 runs  1 passed  0 failed"
    now = 1110.0
    seen.run.columns.record(1, result_of(), offset=1)
    assert watch.describe().endswith("  2/21 runs  2 passed  0 failed  3m 10s left")


class Phased:
    """A run that takes up further phases."""

    def __init__(self, run: Watched) -> None:
        self.run = run

    @property
    def doing(self) -> str:
        return self.run.doing

    @property
    def columns(self) -> Columns:
        return self.run.columns

    @property
    def spending(self) -> Spent:
        return self.run.spending

    @property
    def retrying(self) -> int:
        return self.run.retrying
