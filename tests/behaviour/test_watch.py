"""`run --watch` in a terminal: a change runs what it touches, and `q` ends it."""

import json
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes.chat import completion
from fakes.http_server import Scripted, serving
from processes import ci_evals, environment, until
from suites import chat, write_suite
from terminals import posix

pytestmark = posix

AGENT = """
import pathlib

def answer(question):
    with open(r"{log}", "a") as log:
        log.write(question + "\\n")
    return "{word} " + question
"""
STUCK_AGENT = """
import pathlib, time

def answer(question):
    pathlib.Path(r"{log}").touch()
    time.sleep(600)
"""
WRITING_AGENT = """
import pathlib

def answer(question):
    with open(r"{log}", "a") as log:
        log.write(question + "\\n")
    pathlib.Path("notes.txt").write_text("I was asked " + question)
    return "{word} " + question
"""
WAITING_AGENT = """
import pathlib, time

def answer(question):
    pathlib.Path(r"{log}").touch()
    while not pathlib.Path(r"{go}").exists():
        time.sleep(0.01)
    return "hello " + question
"""
CASES = [{"id": name, "input": name, "expect": [{"contains": "hello"}]} for name in ("one", "two")]


class Screen:
    """What `run --watch` shows in a pseudo-terminal."""

    def __init__(self, folder: Path, controller: int, process: subprocess.Popen[bytes]) -> None:
        self._results = folder / "ci-evals-results"
        self._controller = controller
        self._seen = b""
        self.process = process

    def text(self) -> str:
        """Return what has been shown since the screen was cleared."""
        try:
            while True:
                self._seen += os.read(self._controller, 100_000)
        except OSError:  # nothing more for now
            return self._seen.rpartition(b"\x1b[H")[2].decode("utf-8", "replace")

    async def shows(self, *texts: str) -> str:
        """Wait until a run has ended on a screen with these texts, and return it."""

        def is_complete() -> bool:
            shown = self.text()
            return "q ends" in shown and all(text in shown for text in texts)

        await until(is_complete, within_s=60)
        return self.text()

    def has_plain_keys(self) -> bool:
        """Return True if the terminal echoes keys and hands them over line by line."""
        modes = termios.tcgetattr(self._controller)[3]
        return bool(modes & termios.ECHO and modes & termios.ICANON)

    def press(self, key: str) -> None:
        os.write(self._controller, key.encode())

    def report(self) -> Any:
        return json.loads((self._results / "report.json").read_bytes())


@asynccontextmanager
async def watching(folder: Path, *arguments: str) -> AsyncIterator[Screen]:
    controller, terminal = pty.openpty()
    os.set_blocking(controller, False)
    process = subprocess.Popen(  # noqa: ASYNC220  it starts at once
        [sys.executable, "-m", "ci_evals", "run", "--watch", *arguments],
        cwd=folder,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment({"COLUMNS": "100", "TERM": "xterm"}),
        start_new_session=True,
    )
    os.close(terminal)
    try:
        yield Screen(folder, controller, process)
    finally:
        process.kill()
        process.wait()
        os.close(controller)


def write_agent(folder: Path, word: str, log: Path) -> None:
    (folder / "agent.py").write_text(AGENT.format(word=word, log=log))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    write_agent(folder, "hello", tmp_path / "asked.txt")
    provider = {"name": "agent", "type": "python", "target": "agent:answer"}
    write_suite(folder, CASES, providers=[provider])
    return folder


async def test_a_change_of_the_agent_asks_it_again_and_q_ends_it(
    project: Path, tmp_path: Path
) -> None:
    log = tmp_path / "asked.txt"
    async with watching(project) as screen:
        await screen.shows("PASS", "2 of 2 runs passed")
        write_agent(project, "good bye", log)
        shown = await screen.shows("FAIL", "2 cases failed")
        assert "PASS" not in shown, "it is one screen"
        assert sorted(log.read_text().split()) == ["one", "one", "two", "two"]
        screen.press("q")
        await until(lambda: screen.process.poll() is not None)
        assert screen.process.returncode == 1


async def test_results_are_no_change_and_any_key_before_q_is_none(
    project: Path, tmp_path: Path
) -> None:
    log = tmp_path / "asked.txt"
    provider = {"name": "agent", "type": "python", "target": "agent:answer"}
    write_suite(project, CASES, providers=[provider], report={"out": "of-the-suite"})
    (project / "of-the-suite").mkdir()
    async with watching(project) as screen:
        await screen.shows("PASS", "2 of 2 runs passed")
        write_agent(project, "good bye", log)
        await screen.shows("FAIL", "2 cases failed")
        write_agent(project, "hello", log)
        await screen.shows("PASS", "2 of 2 runs passed")
        screen.press("xq")
        await until(lambda: screen.process.poll() is not None)
        assert screen.process.returncode == 0
    assert sorted(log.read_text().split()) == ["one"] * 3 + ["two"] * 3


async def test_ctrl_c_ends_a_run_as_without_watching(project: Path, tmp_path: Path) -> None:
    log = tmp_path / "asked.txt"
    (project / "agent.py").write_text(STUCK_AGENT.format(log=log))
    async with watching(project) as screen:
        await until(log.exists)
        screen.process.send_signal(signal.SIGINT)
        await until(lambda: screen.process.poll() is not None)
        assert screen.process.returncode == 130
        assert screen.report()["interrupted"]


async def test_a_file_that_the_agent_writes_starts_no_run(project: Path, tmp_path: Path) -> None:
    log = tmp_path / "asked.txt"
    (project / "agent.py").write_text(WRITING_AGENT.format(word="hello", log=log))
    async with watching(project) as screen:
        await screen.shows("PASS", "save again to run: notes.txt")
        (project / "agent.py").write_text(WRITING_AGENT.format(word="good bye", log=log))
        await screen.shows("FAIL", "changed: agent.py", "save again to run: notes.txt")
        assert sorted(log.read_text().split()) == ["one", "one", "two", "two"]
        (project / "notes.txt").write_text("A note by hand.")
        await screen.shows("FAIL", "changed: notes.txt", "q ends")


async def test_a_change_by_hand_during_a_run_starts_the_next_one(
    project: Path, tmp_path: Path
) -> None:
    log, go = tmp_path / "waiting", tmp_path / "go"
    async with watching(project) as screen:
        await screen.shows("PASS", "2 of 2 runs passed")
        (project / "agent.py").write_text(WAITING_AGENT.format(log=log, go=go))
        await until(log.exists)
        write_agent(project, "good bye", tmp_path / "asked.txt")
        go.touch()
        await screen.shows("FAIL", "changed: agent.py", "2 cases failed")


async def test_sigterm_ends_its_run_and_restores_the_terminal(
    project: Path, tmp_path: Path
) -> None:
    log = tmp_path / "asked.txt"
    (project / "agent.py").write_text(STUCK_AGENT.format(log=log))
    async with watching(project) as screen:
        await until(log.exists)
        assert not screen.has_plain_keys()
        screen.process.send_signal(signal.SIGTERM)
        await until(lambda: screen.process.poll() is not None)
        assert screen.process.returncode == 143
        assert screen.report()["interrupted"]
        assert screen.has_plain_keys()


async def test_a_change_of_the_suite_asks_only_what_it_touches(
    project: Path, tmp_path: Path
) -> None:
    log = tmp_path / "asked.txt"
    async with watching(project) as screen:
        await screen.shows("PASS", "2 of 2 runs passed")
        suite = project / "evals.yaml"
        suite.write_text(suite.read_text().replace('"input": "two"', '"input": "three"'))
        await screen.shows("PASS", "1 of 2 runs was not made again")
        assert sorted(log.read_text().split()) == ["one", "three", "two"]


async def test_a_change_of_data_asks_only_what_it_touches(project: Path, tmp_path: Path) -> None:
    log = tmp_path / "asked.txt"
    provider = {"name": "agent", "type": "python", "target": "agent:answer"}
    data = project / "data" / "questions.csv"
    data.parent.mkdir()
    data.write_text("input\none\n")
    expect = [{"contains": "hello"}]
    cases = [{"file": "data/*.csv"}, {"id": "policy", "input": "policy.txt"}]
    write_suite(project, cases, providers=[provider], expect=expect)
    async with watching(project) as screen:
        await screen.shows("PASS", "2 of 2 runs passed")
        data.write_text("input\none\ntwo\n")
        await screen.shows("PASS", "changed: questions.csv", "2 of 3 runs were not made again")
        asked = ["one", "policy.txt", "two"]
        assert sorted(log.read_text().split()) == asked
        (project / "policy.txt").write_text("An agent may read what its question names.")
        await screen.shows("PASS", "changed: policy.txt")
        assert sorted(log.read_text().split()) == sorted(asked * 2)


async def test_cases_that_failed_come_first(project: Path, tmp_path: Path) -> None:
    log = tmp_path / "asked.txt"
    cases = [{**CASES[0], "id": str(number), "input": str(number)} for number in range(8)]
    provider = {"name": "agent", "type": "python", "target": "agent:answer"}
    cases[5]["expect"] = [{"contains": "good bye"}]
    cases[6]["expect"] = [{"contains": "good bye"}]
    write_suite(project, cases, providers=[provider], max_concurrency=1)
    async with watching(project) as screen:
        await screen.shows("FAIL", "2 cases failed")
        log.unlink()
        write_agent(project, "good bye hello", log)
        await screen.shows("PASS")
        assert set(log.read_text().split()[:2]) == {"5", "6"}


async def test_a_broken_suite_is_told_and_once_it_is_mended_changed_code_is_asked(
    project: Path, tmp_path: Path
) -> None:
    suite = project / "evals.yaml"
    right = suite.read_text()
    async with watching(project) as screen:
        await screen.shows("2 of 2 runs passed")
        write_agent(project, "good bye", tmp_path / "asked.txt")
        suite.write_text(right.replace("expect", "expekt"))
        await screen.shows("did you mean 'expect'?")
        suite.write_text("")
        await screen.shows("expected a mapping with the keys")
        (project / "notes.txt").write_text("a change while the suite is empty")
        await screen.shows("changed: notes.txt")
        suite.write_text(right)
        await screen.shows("FAIL", "2 cases failed")


async def test_answers_of_a_model_are_kept_when_code_changes(tmp_path: Path) -> None:
    async with serving() as server:
        server.answers(Scripted(completion("hello")))
        write_suite(tmp_path, CASES, providers=[chat(server.url)])
        async with watching(tmp_path) as screen:
            await screen.shows("2 of 2 runs passed")
            (tmp_path / "notes.py").write_text("")
            await screen.shows("2 of 2 runs were not made again")
        assert len(server.seen) == 2


@pytest.mark.parametrize(
    ("arguments", "environ", "problem"),
    [
        (("--resume",), {}, "--watch cannot be combined with --resume or --shard"),
        ((), {"GITHUB_ACTIONS": "true"}, "--watch is for a terminal"),
    ],
)
async def test_what_it_cannot_do_is_said_before_anything_runs(
    arguments: tuple[str, ...], environ: dict[str, str], problem: str, tmp_path: Path
) -> None:
    write_suite(tmp_path)
    ended = await ci_evals(tmp_path, "run", "--watch", *arguments, environ=environ)
    assert ended.code == 2
    assert problem in ended.err + ended.out


def test_without_its_extra_it_says_what_to_install(tmp_path: Path) -> None:
    write_suite(tmp_path)
    lacking = tmp_path / "lacking"
    lacking.mkdir()
    (lacking / "watchfiles.py").write_text("raise ImportError('it is not installed')")
    ended = subprocess.run(
        [sys.executable, "-m", "ci_evals", "run", "--watch"],
        cwd=tmp_path,
        env=environment({"PYTHONPATH": str(lacking)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "pip install 'ci-evals[watch]'" in ended.stderr
    assert not (tmp_path / "ci-evals-results").exists()
