"""What is on disk, and what is still running, after somebody ended a run."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from aiohttp import web
from fakes.chat import completion
from fakes.http_server import FakeServer, never, serving
from leftovers import report_in
from processes import ci_evals, environment, finished, start, until
from suites import AGENT, chat, echo_cases, write_suite

from ci_evals.engine.journal import is_torn, read_results
from ci_evals.model.result import Result

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

CASES = 20
ANSWERED = 8
CODES = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
each_signal = pytest.mark.parametrize(
    ("which", "code"),
    [(getattr(signal, name, None), code) for name, code in CODES.items()],
    ids=CODES,
)


async def echo(request: web.Request) -> web.StreamResponse:
    return web.Response(
        body=completion(json.loads(await request.read())["messages"][-1]["content"])
    )


class Holding:
    """Echoes the first few questions and holds the others; `stuck` is set when it holds four."""

    def __init__(self) -> None:
        self.stuck = asyncio.Event()
        self._asked = 0

    async def respond(self, request: web.Request) -> web.StreamResponse:
        self._asked += 1
        if self._asked <= ANSWERED:
            return await echo(request)
        if self._asked == ANSWERED + 4:
            self.stuck.set()
        return await never(request)


@asynccontextmanager
async def holding() -> AsyncIterator[tuple[FakeServer, asyncio.Event]]:
    """A server that gets stuck, and the event of its being so."""
    held = Holding()
    async with serving() as server:
        server.answers(held.respond)
        yield server, held.stuck


def echoes(folder: Path, url: str) -> None:
    write_suite(folder, echo_cases(CASES), providers=[chat(url)], max_concurrency=4)


def journaled(folder: Path) -> list[Result]:
    """The results in the journal, which must be whole."""
    path = folder / "ci-evals-results" / "results.jsonl"
    assert not is_torn(path)
    return [result for _, result in read_results(path)]


@each_signal
async def test_the_first_signal_ends_the_run_with_everything_on_disk(
    which: signal.Signals, code: int, tmp_path: Path
) -> None:
    async with holding() as (server, stuck):
        echoes(tmp_path, server.url)
        process = await start(tmp_path, "run")
        await stuck.wait()
        process.send_signal(which)
        ended = await finished(process)
    assert ended.code == code
    assert len(journaled(tmp_path)) == ANSWERED
    out = tmp_path / "ci-evals-results"
    report = json.loads((out / "report.json").read_bytes())
    assert report["interrupted"] == which.name
    assert len(report["results"]) == ANSWERED
    left_out = f"{CASES - ANSWERED} not run"
    summary = (out / "summary.md").read_text()
    assert f"**Interrupted**: {which.name}" in summary
    assert left_out in summary
    assert f"Interrupted: {which.name}" in ended.out
    assert left_out in ended.out
    assert ET.parse(out / "junit.xml").getroot().get("skipped") == str(CASES - ANSWERED)
    assert "Traceback" not in ended.err


async def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    """As `nohup` wants it."""
    async with holding() as (server, stuck):
        echoes(tmp_path, server.url)
        command = ["-c", 'trap "" HUP; exec "$0" "$@"', sys.executable, "-m", "ci_evals", "run"]
        process = await asyncio.create_subprocess_exec(
            "sh", *command, cwd=tmp_path, env=environment({})
        )
        await stuck.wait()
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 143
    assert (
        json.loads((tmp_path / "ci-evals-results" / "report.json").read_bytes())["interrupted"]
        == "SIGTERM"
    )


async def test_an_interrupted_run_is_resumed_where_it_was(tmp_path: Path) -> None:
    async with holding() as (server, stuck):
        echoes(tmp_path, server.url)
        process = await start(tmp_path, "run")
        await stuck.wait()
        process.send_signal(signal.SIGINT)
        await finished(process)
        server.answers(echo)
        asked_before = len(server.seen)
        resumed = await ci_evals(tmp_path, "run", "--resume")
        assert len(server.seen) - asked_before == CASES - ANSWERED
    assert resumed.code == 0
    assert "20 of 20 runs passed" in resumed.out


STUBBORN = """
import os, pathlib, signal, subprocess, sys, time
asked = pathlib.Path(f"{os.getpid()}.asked")
signal.signal(signal.SIGTERM, lambda *_: asked.touch())
ignoring = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
lasting = f"{ignoring}; print(1, flush=True); time.sleep(600)"
started = [os.getpid()]
for apart in (False, True):
    command = [sys.executable, "-c", lasting]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=apart)
    child.stdout.readline()
    started.append(child.pid)
path = pathlib.Path(f"{os.getpid()}.pids")
path.with_suffix(".partial").write_text(" ".join(map(str, started)))
path.with_suffix(".partial").rename(path)
time.sleep(600)
"""


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie that waits for its parent does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def noted_pids(folder: Path) -> list[int]:
    return [int(pid) for path in folder.glob("*.pids") for pid in path.read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
@pytest.mark.parametrize("signals", [1, 2])
async def test_programs_and_what_they_started_are_gone_afterwards(
    signals: int, tmp_path: Path
) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    provider = {"name": "program", "type": "command", "command": [sys.executable, "stubborn.py"]}
    cases = [{"id": f"case-{n}", "input": "hi", "expect": [{"equals": "hi"}]} for n in range(3)]
    write_suite(tmp_path, cases, providers=[provider], max_concurrency=3)
    process = await start(tmp_path, "run")
    await until(lambda: len(list(tmp_path.glob("*.pids"))) == 3)
    pids = noted_pids(tmp_path)
    assert len(pids) == 9, "the programs, their children, and those in sessions of their own"
    assert all(map(alive, pids))
    process.send_signal(signal.SIGTERM)
    if signals == 2:
        await until(lambda: len(list(tmp_path.glob("*.asked"))) == 3)
        process.send_signal(signal.SIGTERM)
    ended = await finished(process)
    assert ended.code == 143
    await until(lambda: not any(map(alive, pids)))
    assert journaled(tmp_path) == []
    assert report_in(tmp_path / "ci-evals-results")["interrupted"] == "SIGTERM"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
@each_signal
async def test_programs_that_judge_are_gone_afterwards_too(
    which: signal.Signals, code: int, tmp_path: Path
) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    judge = {"name": "program", "type": "command", "command": [sys.executable, "stubborn.py"]}
    write_suite(
        tmp_path, judges=[judge], expect=[{"judge": {"rubric": "Is it so?", "provider": "program"}}]
    )
    (tmp_path / "labels.jsonl").write_text('{"input": "a", "output": "b", "label": "pass"}\n')
    process = await start(tmp_path, "judge", "check", "labels.jsonl")
    await until(lambda: len(list(tmp_path.glob("*.pids"))) == 1)
    pids = noted_pids(tmp_path)
    assert all(map(alive, pids))
    process.send_signal(which)
    ended = await finished(process)
    assert (ended.code, ended.err) == (code, "")
    await until(lambda: not any(map(alive, pids)))


@each_signal
async def test_the_second_signal_ends_at_once_and_the_journal_is_whole(
    which: signal.Signals, code: int, tmp_path: Path
) -> None:
    """The run cannot end in order: its function catches the cancellation and goes on."""
    (tmp_path / "agent.py").write_text(STUBBORN_FUNCTION)
    cases = [{"id": f"case-{n}", "input": n, "expect": [{"equals": "ok"}]} for n in range(3)]
    provider = {"name": "agent", "type": "python", "target": "agent:answer"}
    write_suite(tmp_path, cases, providers=[provider], max_concurrency=3, timeout_s=600)
    process = await start(tmp_path, "run")
    await until((tmp_path / "started").exists)
    process.send_signal(which)
    await until((tmp_path / "cancelled").exists)
    assert process.returncode is None
    process.send_signal(which)
    ended = await finished(process)
    assert ended.code == code
    assert [result.status for result in journaled(tmp_path)] == ["passed", "passed"]
    # The first one has left the report.
    assert report_in(tmp_path / "ci-evals-results")["interrupted"] == which.name


async def test_the_report_is_written_though_a_thread_never_ends(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "import asyncio, pathlib, time\n\n"
        "async def answer(number):\n"
        "    pathlib.Path('started').touch()\n"
        "    await asyncio.to_thread(time.sleep, 600)\n"
    )
    provider = {"name": "agent", "type": "python", "target": "agent:answer"}
    write_suite(
        tmp_path,
        [{"id": "a", "input": 1, "expect": [{"equals": "ok"}]}],
        providers=[provider],
        timeout_s=600,
    )
    process = await start(tmp_path, "run")
    await until((tmp_path / "started").exists)
    process.send_signal(signal.SIGTERM)
    ended = await finished(process)
    assert ended.code == 143
    report = json.loads((tmp_path / "ci-evals-results" / "report.json").read_bytes())
    assert (report["interrupted"], report["results"], journaled(tmp_path)) == ("SIGTERM", [], [])
    assert "written: ci-evals-results/report.html" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("waits", ["time.sleep(600)", "while True: pass"], ids=["blocked", "busy"])
async def test_the_second_signal_ends_a_loop_that_the_function_blocks(
    waits: str, tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_text(
        "import pathlib, time\n\n"
        f"async def answer(number):\n    pathlib.Path('started').touch()\n    {waits}\n"
    )
    provider = {"name": "agent", "type": "python", "target": "agent:answer"}
    write_suite(
        tmp_path,
        [{"id": "a", "input": 1, "expect": [{"equals": "ok"}]}],
        providers=[provider],
        timeout_s=600,
    )
    process = await start(tmp_path, "run")
    await until((tmp_path / "started").exists)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    assert (await finished(process)).code in (130, 143)
    assert journaled(tmp_path) == []


@pytest.mark.parametrize("waits", ["time.sleep(600)", "while True: pass"], ids=["blocked", "busy"])
async def test_the_first_signal_ends_the_import_of_a_slow_module(
    waits: str, tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_text(
        f"import pathlib, time\npathlib.Path('importing').touch()\n{waits}\n"
        "def answer(question): return question\n"
    )
    provider = {"name": "agent", "type": "python", "target": "agent:answer"}
    case = {"id": "a", "input": 1, "expect": [{"equals": "ok"}]}
    write_suite(tmp_path, [case], providers=[provider])
    process = await start(tmp_path, "run")
    await until((tmp_path / "importing").exists)
    process.send_signal(signal.SIGINT)
    ended = await finished(process)
    assert ended.code == 130
    assert "Traceback" not in ended.err


STUBBORN_FUNCTION = """
import asyncio, pathlib

answered = 0

async def answer(number):
    global answered
    if number:
        answered += 1
        return "ok"
    while answered < 2:
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    pathlib.Path("started").touch()
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pathlib.Path("cancelled").touch()
"""


async def test_ctrl_c_before_anything_runs_is_quiet(tmp_path: Path) -> None:
    # A loop in Python: a blocking read would miss a signal that comes right before it.
    (tmp_path / "data.py").write_text(
        "import pathlib, time\n\ndef load():\n    pathlib.Path('loading').touch()\n"
        "    while True:\n        time.sleep(0.01)\n"
    )
    write_suite(tmp_path, {"python": "data:load"})
    process = await start(tmp_path, "run")
    await until((tmp_path / "loading").exists)
    process.send_signal(signal.SIGINT)
    ended = await finished(process)
    assert ended.code == 130
    assert ended.err.strip() == ""


HOLDS_REPORTS = """
import os, pathlib, signal

sync = os.fsync

def hold(file):
    if os.readlink(f"/proc/self/fd/{file}").endswith(".partial"):
        arrived, noted = os.pipe()
        os.set_blocking(noted, False)
        signal.set_wakeup_fd(noted)
        pathlib.Path("writing").touch()
        os.read(arrived, 1)  # until there is a signal
        os.fsync = sync
    sync(file)

def answer(question):
    os.fsync = hold
    return question
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at /proc")
@each_signal
async def test_a_signal_while_reports_are_written_costs_none_of_them(
    which: signal.Signals, code: int, tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_text(HOLDS_REPORTS)
    write_suite(tmp_path, providers=[AGENT])
    process = await start(tmp_path, "run")
    await until((tmp_path / "writing").exists)
    process.send_signal(which)
    ended = await finished(process)
    assert ended.code == code
    assert "Traceback" not in ended.err
    out = tmp_path / "ci-evals-results"
    report = report_in(out)
    assert report["interrupted"] is None, "all runs had ended"
    assert len(report["results"]) == len(journaled(tmp_path)) > 0
    assert ET.parse(out / "junit.xml").getroot().get("failures") == "0"
    for name in ("report.html", "summary.md"):
        assert (out / name).stat().st_size > 100
    assert "written: ci-evals-results/report.html" in ended.err
    assert "PASS" in ended.out


TOGETHER = """
import pathlib, time

def order():
    yield {}
    pathlib.Path(f"down-{id(object())}-{time.monotonic_ns()}").touch()
    while len(list(pathlib.Path().glob("down-*"))) < 12:
        time.sleep(0.01)
    is_reported = pathlib.Path("ci-evals-results/report.html").exists()
    pathlib.Path(f"torn-down-{time.monotonic_ns()}").write_text(str(is_reported))

def answer(question):
    pathlib.Path(f"asked-{question}").touch()
    time.sleep(600)
"""


def noted_in(folder: Path, pattern: str) -> list[str]:
    return [path.read_text() for path in folder.glob(pattern)]


@pytest.mark.parametrize("scope", ["run", "case"])
async def test_after_a_signal_the_report_comes_first_and_teardowns_run_side_by_side(
    scope: str, tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_text(TOGETHER)
    setup = {"python": "agent:order", "scope": scope}
    cases = echo_cases(12)
    write_suite(tmp_path, cases, providers=[AGENT], setup=setup, max_concurrency=12, timeout_s=600)
    process = await start(tmp_path, "run")
    await until(lambda: len(list(tmp_path.glob("asked-*"))) == 12)
    process.send_signal(signal.SIGTERM)
    ended = await finished(process)
    assert ended.code == 143
    assert report_in(tmp_path / "ci-evals-results")["interrupted"] == "SIGTERM"
    assert noted_in(tmp_path, "torn-down-*") == ["True"] * 12


STUBBORN_TASKS = """
import asyncio, pathlib

async def forever():
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pathlib.Path("cancelled").touch()

async def fixture():
    yield {}
    await forever()

async def leave_a_task(question):
    asyncio.get_running_loop().forever = asyncio.create_task(forever())
    return question

async def answer(question):
    return question
"""


@pytest.mark.parametrize("signals", [0, 1])
@pytest.mark.parametrize("ignores", ["fixture", "task"])
async def test_a_command_ends_though_its_code_ignores_every_cancellation(
    ignores: str, signals: int, tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_text(STUBBORN_TASKS)
    settings: dict[str, Any] = {}
    if ignores == "fixture":
        settings["setup"] = {"python": "agent:fixture", "timeout_s": 0.5}
    function = {"fixture": "answer", "task": "leave_a_task"}[ignores]
    write_suite(tmp_path, providers=[{**AGENT, "target": f"agent:{function}"}], **settings)
    process = await start(tmp_path, "run", constants={"ci_evals.engine.interrupt.UNWIND_S": 0.5})
    await until((tmp_path / "cancelled").exists)
    if signals:
        process.send_signal(signal.SIGTERM)
    ended = await finished(process)
    assert ended.code in ((143, 0) if signals else (0,))
    assert "Traceback" not in ended.err
    assert "Task was destroyed" not in ended.err
    assert len(report_in(tmp_path / "ci-evals-results")["results"]) > 0


LINGERING_GENERATOR = """
import asyncio, time

async def forever():
    try:
        yield 1
    finally:
        {waits}

async def answer(question):
    global kept
    kept = forever()
    await anext(kept)
    return question
"""


@pytest.mark.parametrize(
    "waits", ["await asyncio.sleep(6000)", "time.sleep(6000)"], ids=["awaits", "blocks"]
)
async def test_a_generator_that_never_ends_keeps_no_command_alive(
    waits: str, tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_text(LINGERING_GENERATOR.format(waits=waits))
    write_suite(tmp_path, providers=[AGENT])
    constants = {"ci_evals.cli.run.END_S": 2.0, "ci_evals.engine.interrupt.LEFTOVER_S": 0.5}
    ended = await ci_evals(tmp_path, "run", constants=constants)
    assert ended.code == 0, ended.err
    assert "Traceback" not in ended.err
    assert report_in(tmp_path / "ci-evals-results")["verdict"]["status"] == "pass"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
async def test_what_code_under_test_has_forked_ends_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "import os, pathlib, time\n\n"
        "def answer(question):\n"
        "    if pid := os.fork():\n"
        "        pathlib.Path('pid').write_text(str(pid))\n"
        "        return question\n"
        "    time.sleep(600)\n"
    )
    write_suite(tmp_path, providers=[AGENT])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.err
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: not alive(pid))
