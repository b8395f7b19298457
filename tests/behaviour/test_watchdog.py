"""Code under test that ends the process of a run: its exit status is never taken for a verdict."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from leftovers import journaled, report_in
from processes import ci_evals, finished, start, until
from suites import write_suite

AGENT = """
import atexit, multiprocessing, os, pathlib, re, signal, sys, threading, time
from concurrent.futures import ThreadPoolExecutor

async def leave(question):
    os._exit(0)

def leave_from_a_thread(question):
    os._exit(0)

async def become_another_program(question):
    os.execv(sys.executable, [sys.executable, "-c", ""])

async def fork_and_leave(question):
    if os.fork():
        os._exit(0)
    return "hello"

def crash(question):
    os.kill(os.getpid(), signal.SIGKILL)

def leave_at_exit(question):
    atexit.register(os._exit, 0)
    return "wrong"

def leave_on_the_second(question):
    if question == "second":
        os._exit(0)
    return "hello"

def choose_a_signals_status(question):
    os._exit(130)

async def leave_a_thread(question):
    threading.Thread(target=threading.Event().wait, name="uploader").start()
    return "hello"

async def leave_a_task(question):
    ThreadPoolExecutor(thread_name_prefix="pool").submit(threading.Event().wait)
    return "hello"

def leave_a_process(question):
    forking = multiprocessing.get_context("fork")
    forking.Process(target=time.sleep, args=(600,), name="helper").start()
    return "hello"

def block_at_exit(question):
    atexit.register(threading.Event().wait)
    return "hello"

def match_for_ever(question):
    pathlib.Path("pid").write_text(str(os.getpid()))
    pathlib.Path("started").touch()
    re.match("(a+)+$", "a" * 100 + "!")

def wait(question):
    pathlib.Path("pid").write_text(str(os.getpid()))
    pathlib.Path("started").touch()
    time.sleep(600)
"""


def project(folder: Path, function: str, inputs: tuple[str, ...] = ("hello",)) -> None:
    (folder / "agent.py").write_text(AGENT)
    write_suite(
        folder,
        [{"id": text, "input": text, "expect": [{"contains": "hello"}]} for text in inputs],
        providers=[{"name": "agent", "type": "python", "target": f"agent:{function}"}],
        max_concurrency=1,
    )


LINGER, SECOND_SIGNAL = (
    "ci_evals.cli.watchdog.LINGER_S",
    "ci_evals.cli.watchdog.SECOND_SIGNAL_S",
)


def is_gone(process: int) -> bool:
    if not psutil.pid_exists(process):
        return True
    return psutil.Process(process).status() == psutil.STATUS_ZOMBIE


posix = pytest.mark.skipif(sys.platform == "win32", reason="fork and POSIX signals")


@pytest.mark.parametrize(
    ("function", "ending"),
    [
        ("leave", "exit status 0"),
        ("leave_from_a_thread", "exit status 0"),
        ("choose_a_signals_status", "exit status 130"),
        pytest.param("become_another_program", "exit status 0", marks=posix),
        pytest.param("fork_and_leave", "exit status 0", marks=posix),
        pytest.param("crash", "SIGKILL", marks=posix),
    ],
)
async def test_an_end_without_a_verdict_is_exit_3(
    function: str, ending: str, tmp_path: Path
) -> None:
    project(tmp_path, function)
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 3
    assert f"the command ended with {ending} before it gave a verdict" in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / "out" / "report.json").exists()


async def test_what_is_registered_for_the_end_changes_no_exit_code(tmp_path: Path) -> None:
    project(tmp_path, "leave_at_exit")
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 1
    assert report_in(tmp_path / "out")["results"][0]["status"] == "failed"


@posix
@pytest.mark.parametrize(
    ("function", "running"),
    [
        ("leave_a_thread", "thread uploader"),
        ("leave_a_task", "thread pool_0"),
        ("leave_a_process", "process helper"),
        ("block_at_exit", "an exit handler"),
    ],
)
async def test_what_still_runs_after_the_report_is_ended(
    function: str, running: str, tmp_path: Path
) -> None:
    project(tmp_path, function)
    ended = await ci_evals(tmp_path, "run", "--out", "out", constants={LINGER: 0.3})
    assert ended.code == 0, ended.err
    assert f"warning: ended 0.3 s after the report; still running: {running}" in ended.err
    assert report_in(tmp_path / "out")["verdict"]["status"] == "pass"


@posix
async def test_a_second_signal_ends_what_no_signal_interrupts(tmp_path: Path) -> None:
    project(tmp_path, "match_for_ever")
    process = await start(tmp_path, "run", "--out", "out", constants={SECOND_SIGNAL: 0.3})
    await until((tmp_path / "started").exists)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)  # another one: two alike may arrive as one
    assert (await finished(process)).code in (130, 143)


@pytest.mark.skipif(sys.platform != "linux", reason="a signal at the end of the parent")
async def test_a_kill_ends_what_holds_the_interpreters_lock(tmp_path: Path) -> None:
    project(tmp_path, "match_for_ever")
    process = await start(tmp_path, "run", "--out", "out")
    await until((tmp_path / "started").exists)
    worker = int((tmp_path / "pid").read_text())
    process.kill()
    await finished(process)
    await until(lambda: is_gone(worker))


async def test_a_module_that_ends_the_process_is_not_valid(tmp_path: Path) -> None:
    project(tmp_path, "answer")
    (tmp_path / "agent.py").write_text("import os\nos._exit(0)\ndef answer(question): ...\n")
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 3


async def test_runs_that_had_finished_are_not_paid_again(tmp_path: Path) -> None:
    project(tmp_path, "leave_on_the_second", ("first", "second"))
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 3
    finished_first = [line["case"] for line in journaled(tmp_path / "out")]
    (tmp_path / "agent.py").write_text("def leave_on_the_second(question): return 'hello'\n")
    ended = await ci_evals(tmp_path, "run", "--out", "out", "--resume")
    assert ended.code == 0
    resumed = [line["case"] for line in journaled(tmp_path / "out")]
    assert sorted(resumed) == ["first", "second"]
    assert resumed[: len(finished_first)] == finished_first


@posix
async def test_a_killed_command_leaves_no_process_behind(tmp_path: Path) -> None:
    project(tmp_path, "wait")
    process = await start(tmp_path, "run", "--out", "out")
    await until((tmp_path / "started").exists)
    worker = int((tmp_path / "pid").read_text())
    process.kill()
    ended = await finished(process)
    assert ended.code == -signal.SIGKILL

    await until(lambda: is_gone(worker))


@posix
async def test_a_command_that_is_terminated_blames_no_code_under_test(tmp_path: Path) -> None:
    write_suite(tmp_path)
    traces = tmp_path / "traces.jsonl"
    os.mkfifo(traces)
    process = await start(tmp_path, "grade", "traces.jsonl")
    writer = await asyncio.to_thread(os.open, traces, os.O_WRONLY)  # once the command reads
    process.terminate()
    ended = await finished(process)
    os.close(writer)
    assert (ended.code, ended.err) == (143, "")


@posix
async def test_a_ctrl_c_in_a_terminal_arrives_once(tmp_path: Path) -> None:
    """A second one would end the command without a report."""
    import fcntl
    import pty
    import termios

    project(tmp_path, "wait")
    controller, terminal = pty.openpty()

    def own_the_terminal() -> None:
        os.setsid()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

    process = await start(tmp_path, "run", "--out", "out", preexec=own_the_terminal)
    await until((tmp_path / "started").exists)
    os.write(controller, b"\x03")
    ended = await finished(process)
    os.close(controller)
    os.close(terminal)
    assert ended.code == 130
    assert report_in(tmp_path / "out")["interrupted"]
