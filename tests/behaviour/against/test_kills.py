"""However a run ends: nothing of main is left, and nothing finished is asked for again."""

import asyncio
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from processes import Process, ci_evals, finished, start, until
from repositories import (
    APPLE,
    BREAD,
    REAL,
    RESULTS,
    Repository,
    against_main,
    agent_of,
    left_in,
    repository_with_agent,
    results_in,
    sides,
)
from suites import AGENT, write_suite

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

LASTING = """
import os, subprocess, sys, time
from pathlib import Path

def last():
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = subprocess.Popen(sleep, start_new_session=APART)
    notes = Path(os.environ["NOTES"])
    (notes / "partial").write_text(f"{os.getpid()} {child.pid}")
    (notes / "partial").rename(notes / "pids")
    time.sleep(600)
"""
ANSWERS = "\n\ndef answer(question):\n    last()\n"
PROGRAM = {"name": "agent", "type": "command", "command": [sys.executable, "agent.py"]}
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "a function": (f"{LASTING}{ANSWERS}".replace("APART", "False"), {}),
    "a program": (
        f"{LASTING}\nlast()\n".replace("APART", "True"),
        {"providers": [PROGRAM]},
    ),
    "its preparation": (
        f"{LASTING}\n\ndef answer(question):\n    return question\n\n"
        "if __name__ == '__main__':\n    last()\n".replace("APART", "False"),
        {"against": {"prepare": [sys.executable, "agent.py"]}},
    ),
}
each_way = pytest.mark.parametrize("way", WAYS)


def lasting_main(folder: Path, way: str) -> Repository:
    """A repository whose main never ends; the change answers at once."""
    code, settings = WAYS[way]
    code = code.replace("APART", "False")
    shop = repository_with_agent(folder / "shop", timeout_s=600, **settings)
    shop.commit({"agent.py": code})
    if way == "a program":
        shop.write({"agent.py": "print('apple')\n"})
    else:
        shop.write({"agent.py": agent_of("the change")})
    (folder / "temp").mkdir()
    return shop


async def start_against_main(shop: Repository) -> tuple[Process, list[int]]:
    """Start a run in which main never ends, and return the processes of main, too."""
    above = shop.folder.parent
    environ = {"TMPDIR": str(above / "temp"), "NOTES": str(above)}
    process = await start(shop.folder, "run", "--against", "main", command=REAL, environ=environ)
    await until((above / "pids").exists)
    pids = [int(pid) for pid in (above / "pids").read_text().split()]
    assert all(map(alive, pids))
    assert len(left_in(above / "temp")) == 1
    return process, pids


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie that waits for its parent does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@each_way
async def test_a_killed_run_leaves_no_process_and_the_next_one_removes_its_checkout(
    tmp_path: Path, way: str
) -> None:
    shop = lasting_main(tmp_path, way)
    process, pids = await start_against_main(shop)
    process.kill()
    assert (await finished(process)).code == -9
    await all_end(pids)
    assert len(left_in(tmp_path / "temp")) == 1, "nobody could remove it"
    environ = {"TMPDIR": str(tmp_path / "temp")}
    shop.git("stash", "--quiet")
    shop.git("checkout", "--quiet", "HEAD~1")
    shop.write({"README.md": "changed"})
    ended = await against_main(shop.folder, command=REAL, environ=environ)
    assert ended.code in (0, 1), ended.err
    assert left_in(tmp_path / "temp") == []


@each_way
@pytest.mark.parametrize(("which", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
async def test_a_signal_leaves_neither_processes_nor_a_checkout(
    tmp_path: Path, way: str, which: str, code: int
) -> None:
    shop = lasting_main(tmp_path, way)
    process, pids = await start_against_main(shop)
    out = shop.folder / RESULTS
    begun = int(way != "its preparation")  # until that ends, this side waits for main
    await until(lambda: len(results_in(out / "results.jsonl")) == begun)
    process.send_signal(getattr(signal, which))
    try:
        async with asyncio.timeout(20):
            ended = await finished(process)
    finally:
        await all_end(pids)
    assert ended.code == code
    assert "Traceback" not in ended.err
    assert left_in(tmp_path / "temp") == []
    assert len(results_in(out / "results.jsonl")) == begun, "the change's runs are on disk"
    assert (out / "report.json").exists()


async def all_end(pids: list[int]) -> None:
    """Wait for the end of main's processes, the second of which the first has started."""
    try:
        await until(lambda: not any(map(alive, pids)), within_s=10)
    except TimeoutError:
        names = ("what main's code runs in", "what it has started")
        left = [name for name, pid in zip(names, pids, strict=True) if alive(pid)]
        pytest.fail(f"still alive: {', '.join(left)}")
    finally:
        for pid in filter(alive, pids):
            psutil.Process(pid).kill()


async def test_a_checkout_in_use_is_left_to_its_run(tmp_path: Path) -> None:
    shop = lasting_main(tmp_path, "a function")
    process, pids = await start_against_main(shop)
    (used,) = left_in(tmp_path / "temp")
    other = repository_with_agent(tmp_path / "other")
    other.write({"agent.py": agent_of("the change")})
    environ = {"TMPDIR": str(tmp_path / "temp")}
    ended = await against_main(other.folder, command=REAL, environ=environ)
    assert "which ran alongside" in ended.out, ended.err
    assert left_in(tmp_path / "temp") == [used]
    assert (used / "tree" / "agent.py").exists()
    process.send_signal(signal.SIGINT)
    await finished(process)
    await all_end(pids)


COUNTING = """
import os, time
from pathlib import Path

notes = Path(os.environ["NOTES"])

def answer(question):
    with (notes / "calls").open("a") as file:
        file.write(f"WHO {question}\\n")
    if question == "rice":
        while (notes / "hold").exists():
            time.sleep(0.01)
    return f"{question}, says WHO"
"""
RICE = {"id": "rice", "input": "rice", "expect": [{"contains": "rice"}]}


def counting(folder: Path, **settings: Any) -> Repository:
    """A repository whose agents note their calls, and hold rice as long as a file is there."""
    shop = repository_with_agent(folder / "shop", cases=[APPLE, BREAD, RICE], **settings)
    shop.commit({"agent.py": COUNTING.replace("WHO", "main")})
    shop.write({"agent.py": COUNTING.replace("WHO", "change")})
    return shop


async def test_a_run_that_is_gone_on_with_asks_main_for_nothing_it_has_finished(
    tmp_path: Path,
) -> None:
    shop = counting(tmp_path, timeout_s=600)
    hold = tmp_path / "hold"
    hold.touch()
    environ = {"NOTES": str(tmp_path)}
    process = await start(shop.folder, "run", "--against", "main", environ=environ)
    out = shop.folder / RESULTS
    journals = (out / "results.jsonl", out / "merge-base" / "main.jsonl")
    await until(lambda: all(len(results_in(path)) == 2 for path in journals))
    process.send_signal(signal.SIGINT)
    hold.unlink()
    assert (await finished(process)).code == 130
    ended = await against_main(shop.folder, "--resume", environ=environ)
    assert ended.code == 0, ended.out + ended.err
    assert "which ran alongside (1 run per case)" in ended.out
    calls = Counter((tmp_path / "calls").read_text().splitlines())
    for question in ("apple", "bread"):
        assert (calls[f"main {question}"], calls[f"change {question}"]) == (1, 1)
    assert sides(shop.folder).main == {f"{each}, says main" for each in ("apple", "bread", "rice")}


async def test_runs_of_another_commit_of_main_are_no_evidence(tmp_path: Path) -> None:
    shop = repository_with_agent(tmp_path)
    first = shop.git("rev-parse", "HEAD")
    shop.commit({"agent.py": agent_of("the second commit")})
    shop.write({"agent.py": agent_of("the change")})
    assert (await ci_evals(tmp_path, "run", "--against", first)).code == 0
    assert sides(tmp_path).main == {"apple, says main"}
    ended = await against_main(tmp_path, "--resume")
    assert ended.code == 0, ended.out + ended.err
    assert "Resumed: 1 of 1 run kept" in ended.out
    assert "apple, says the second commit" in sides(tmp_path).main


async def test_a_run_that_starts_anew_asks_main_anew(tmp_path: Path) -> None:
    shop = counting(tmp_path)
    environ = {"NOTES": str(tmp_path)}
    for _ in range(2):
        ended = await against_main(shop.folder, environ=environ)
        assert "which ran alongside (1 run per case)" in ended.out, ended.err
    calls = Counter((tmp_path / "calls").read_text().splitlines())
    assert calls["main apple"] == 2


async def test_a_change_that_is_interrupted_is_not_compared(tmp_path: Path) -> None:
    shop = counting(tmp_path, timeout_s=600)
    write_suite(shop.folder, [APPLE, BREAD, RICE], name="shop", providers=[AGENT], timeout_s=600)
    (tmp_path / "hold").touch()
    environ = {"NOTES": str(tmp_path)}
    process = await start(shop.folder, "run", "--against", "main", environ=environ)
    await until(lambda: len(results_in(shop.folder / RESULTS / "results.jsonl")) == 2)
    process.send_signal(signal.SIGTERM)
    ended = await finished(process)
    assert ended.code == 143
    assert "which ran alongside" not in ended.out
    assert "2 of 3 runs passed, 1 not run" in " ".join(ended.out.split())
    assert "Traceback" not in ended.err
