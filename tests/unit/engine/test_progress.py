"""What is shown on stderr while a suite runs."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import NamedTuple, TextIO

import pytest
from factories import AGENT, case_of, result_of
from processes import Process, finished, start
from rich.cells import cell_len
from suites import write_suite
from terminals import posix, pseudo_terminal

from ci_evals import streams
from ci_evals.engine import progress
from ci_evals.engine.calls import Retry, Waiting
from ci_evals.engine.progress import Watch, describe, show_progress
from ci_evals.errors import ProviderError
from ci_evals.model.plan import RunPlan, plan_runs
from ci_evals.model.report import RunRecord
from ci_evals.model.result import Result, RunError, Status

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass
class Watched:
    """A run phase that stands still but for what a test changes."""

    plan: RunPlan
    records: dict[int, RunRecord]
    cost_usd: float
    doing: str = ""
    failed_cells: int = 0
    last_failures: Sequence[Result] = ()
    judging: Mapping[int, str] = field(default_factory=dict)
    waiting: Sequence[Waiting] = ()

    def fail(self, *results: Result) -> None:
        self.last_failures = (*self.last_failures, *results)[-5:]
        self.failed_cells += len(results)


def watched(*statuses: Status, total: int, cost_usd: float = 0.0) -> Watched:
    plan = plan_runs([case_of()], [AGENT], total)
    records = {index: record_of(status) for index, status in enumerate(statuses)}
    return Watched(plan, records, cost_usd)


def record_of(status: Status = "passed") -> RunRecord:
    return RunRecord.of(result_of(status=status), offset=0)


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


async def run_on(terminal: TextIO, folder: Path, environ: Mapping[str, str]) -> Process:
    return await start(folder, "run", environ=environ, stderr=terminal)


def test_counts_are_told() -> None:
    run = watched("passed", "passed", "failed", "errored", total=8, cost_usd=0.123)
    assert describe(run, 10.0) == "4/8 runs  1 failed  1 errored  $0.12  10 s left"


def test_calls_that_wait_are_reported_with_the_reason_and_the_next_try() -> None:
    refused = ProviderError("rate_limit", "quota of team 7", status=429)
    retries = [Retry(f"case {number}", refused, 0.0) for number in range(7)]
    retries.append(Retry("lost", ProviderError("network", "reset"), 0.0))
    run = watched(total=8)
    run.waiting = [Waiting("gpt", retries, 11.2)]
    assert list(Watch(run).waiting()) == ["8 waiting: rate-limited (429), next try in 12 s"]
    cases = "case 0, case 1, case 2, case 3, case 4 and 3 more"
    assert list(Watch(run).waiting(with_cases=True)) == [
        f"8 waiting: rate-limited (429), next try in 12 s: {cases}"
    ]
    run.waiting = [Waiting("gpt", retries, 11.2, 54.3)]
    assert list(Watch(run).waiting()) == [
        "8 waiting: rate-limited (429), next try in 12 s, gives up in 55 s"
    ]


def test_what_is_being_done_is_said_first() -> None:
    run = watched("passed", total=21)
    run.doing = "confirming 3 suspects"
    assert describe(run, 1.0).startswith("confirming 3 suspects  1/21 runs  ")


def test_what_is_nothing_is_left_out() -> None:
    assert describe(watched(total=3), 1.0) == "0/3 runs"
    assert describe(watched("passed", total=1), 1.0) == "1/1 runs  all passed"


async def test_a_log_gets_plain_lines_now_and_then() -> None:
    written = asyncio.Event()

    class Log(StringIO):
        def flush(self) -> None:
            written.set()

    log = Log()
    async with show_progress(watched("passed", total=2), log, line_every_s=0.001):
        await written.wait()
    line, _, _ = log.getvalue().partition("\n")
    assert line.startswith("1/2 runs  all passed")
    assert "\x1b" not in log.getvalue()


async def test_the_first_failures_are_told_once_with_their_reasons() -> None:
    lines: asyncio.Queue[str] = asyncio.Queue()

    class Log(StringIO):
        def write(self, text: str) -> int:
            for line in text.splitlines():
                lines.put_nowait(line)
            return len(text)

    run = watched("failed", total=3)
    run.fail(
        result_of("river", "failed"), result_of("odd\n##[error]", "errored", error=_crash("boom"))
    )
    async with show_progress(run, Log(), line_every_s=0.001):
        seen = [await lines.get() for _ in range(4)]
    assert seen[0] == '✗ river: no "Paris" in the answer: "Lyon"'
    assert seen[1] == "! odd # [error]: boom"
    assert all(line.startswith("1/3 runs") for line in seen[2:])


def _crash(message: str) -> RunError:
    return RunError("crash", message)


def test_a_log_is_told_of_no_more_than_the_first_failures() -> None:
    run = watched(total=9)
    watch = progress.Watch(run)
    run.fail(*(result_of(name, "failed") for name in "ab"))
    assert [line[:3] for line in watch.new_failures()] == ["✗ a", "✗ b"]
    run.fail(*(result_of(name, "failed") for name in "cdefg"))
    assert [line[:3] for line in watch.new_failures()] == ["✗ e", "✗ f", "✗ g"]
    run.fail(result_of("h", "failed"))
    assert not list(watch.new_failures())


def test_a_reason_is_not_repeated_in_the_next_line() -> None:
    run = watched(total=9)
    run.fail(result_of("river", "failed"), result_of("capital", "failed"))
    assert list(progress.Watch(run).failures()) == [
        '✗ river: no "Paris" in the answer: "Lyon"',
        "✗ capital: the same",
    ]


def test_what_is_being_judged_is_named() -> None:
    run = watched(total=9)
    assert progress.Watch(run).judging() == ""
    run.judging = dict(enumerate("abcdefg"))
    assert progress.Watch(run).judging() == "judging a, b, c, d, e and 2 more"
    assert describe(run, 1.0) == "0/9 runs  7 being judged"


@posix
async def test_below_the_bar_stand_the_last_failures_and_what_is_being_judged() -> None:
    run = watched("failed", total=2)
    run.fail(*(result_of(f"case {number}", "failed") for number in range(7)))
    run.judging = {1: "river"}
    async with screen(80) as seen_on, show_progress(run, seen_on.terminal, live=True):
        seen = await seen_on.reader.readuntil(b"\x1b[6A\r")
    first, *below = ESCAPE.sub("", seen.decode()).lstrip("\r").splitlines()
    assert "1/2 runs" in first
    told = [line.strip() for line in below if line.strip()]
    assert told[0] == '✗ case 2: no "Paris" in the answer: "Lyon"'
    assert told[1:] == [*(f"✗ case {number}: the same" for number in range(3, 7)), "judging river"]


@posix
@pytest.mark.parametrize("columns", [12, 30, 50, 200, 0])
async def test_a_view_is_as_narrow_as_the_terminal_and_leaves_it_blank(columns: int) -> None:
    async with screen(columns) as seen_on:
        async with show_progress(watched("passed", total=2), seen_on.terminal, live=True):
            seen = await seen_on.reader.readuntil(b"1/2")
        seen += await seen_on.rest()
    *drawn, last = re.split("[\r\n]+", ESCAPE.sub("", seen.decode()))
    assert max(map(cell_len, drawn)) < (columns or 80)
    assert last == ""
    assert seen.endswith(streams.ERASE_VIEW.encode())


@posix
@pytest.mark.parametrize(
    ("statuses", "color"), [(("passed",), b"\x1b[32m"), (("passed", "failed"), b"\x1b[33m")]
)
async def test_the_bar_is_green_until_a_run_does_not_pass(
    statuses: Sequence[Status], color: bytes
) -> None:
    run = watched(*statuses, total=3)
    async with screen(80) as seen_on, show_progress(run, seen_on.terminal, live=True):
        seen = await seen_on.reader.readuntil(b"/3 runs")
    assert re.findall(rb"\x1b\[3\dm", seen) == [color]


@posix
async def test_on_60_columns_the_state_and_the_reasons_are_whole() -> None:
    run = watched("passed", "failed", "errored", total=2000, cost_usd=12.5)
    run.doing = "confirming 3 cases"
    run.fail(result_of("lost-package", "failed"))
    refused = ProviderError("rate_limit", "quota", status=429)
    run.waiting = [Waiting("gpt", [Retry("refund", refused, 0.0)] * 7, 11.2, 54.3)]
    async with screen(60) as seen_on, show_progress(run, seen_on.terminal, live=True):
        seen = await seen_on.reader.readuntil(b"A\r")
    lines = ESCAPE.sub("", seen.decode()).replace("\r", "").splitlines()
    assert max(map(cell_len, lines)) < 60
    shown = " ".join(" ".join(lines).split())
    assert "confirming 3 cases 3/2,000 runs 1 failed 1 errored $12.50" in shown
    assert '✗ lost-package: no "Paris" in the answer: "Lyon"' in shown
    assert "7 waiting: rate-limited (429), next try in 12 s, gives up in 55 s: refund," in shown
    assert "…" not in shown


@posix
async def test_a_terminal_without_block_characters_gets_a_bar_of_ascii() -> None:
    async with (
        screen(80, "latin-1") as seen_on,
        show_progress(watched("passed", total=2), seen_on.terminal, live=True),
    ):
        seen = await seen_on.reader.readuntil(b"1/2 runs")
    assert seen.isascii()


async def test_a_quick_run_leaves_no_line() -> None:
    log = StringIO()
    async with show_progress(watched(total=1), log):
        pass
    assert log.getvalue() == ""


async def test_a_log_that_is_gone_does_not_end_the_run() -> None:
    asked = asyncio.Event()

    class Gone(StringIO):
        def write(self, text: str) -> int:
            asked.set()
            raise BrokenPipeError

    async with show_progress(watched(total=1), Gone(), line_every_s=0.001):
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
    assert (await finished(process)).code == 0
    assert b"\x1b[Jprinted by the agent\r\n" in seen
    assert b"written: ci-evals-results/report.html" in seen


@posix
async def test_a_dumb_terminal_gets_lines_alone(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "def answer(text):\n    print('printed by the agent')\n    return text\n"
    )
    write_suite(tmp_path, providers=[{"name": "agent", "type": "python", "target": "agent:answer"}])
    async with screen() as seen_on:
        process = await run_on(seen_on.terminal, tmp_path, {"TERM": "dumb"})
        seen = await seen_on.rest()
    assert (await finished(process)).code == 0
    printed, written, rest = seen.split(b"\r\n")
    assert printed == b"printed by the agent"
    assert written.startswith(b"written: ci-evals-results/report.html")
    assert rest == b""


def test_what_is_left_is_judged_by_the_pace_since_a_phase_began() -> None:
    now = 100.0
    run = watched("passed", "passed", total=3)
    watch = progress.Watch(run, clock=lambda: now)
    now = 1100.0
    later = watched("passed", total=21)
    run.plan, run.records, run.doing = later.plan, later.records, "confirming 3 suspects"
    assert watch.describe() == "confirming 3 suspects  1/21 runs  all passed"
    now = 1110.0
    run.records[1] = record_of()
    assert watch.describe().endswith("  2/21 runs  all passed  3 min left")


def test_no_time_is_promised_that_has_passed_without_a_run_that_ended() -> None:
    """As when one provider hangs and the others are done."""
    now = 0.0
    run = watched(total=12)
    watch = progress.Watch(run, clock=lambda: now)
    for index in range(10):
        now += 1
        run.records[index] = record_of()
    assert watch.describe().endswith("  all passed  2 s left")
    now = 11.0
    assert watch.describe().endswith("  all passed  1 s left"), (
        "counted down, not up, while nothing ends"
    )
    for later in (13.0, 100.0, 10_000.0):
        now = later
        assert watch.describe().endswith("  all passed")
    run.records[10] = record_of()
    assert watch.describe().endswith("  all passed  15 min left")
