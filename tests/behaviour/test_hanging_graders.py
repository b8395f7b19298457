"""A grader that hangs costs its run the verdict, but neither other runs nor the program's end."""

import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from leftovers import journaled, report_in
from processes import ci_evals, finished, start, until
from suites import write_suite

GRADERS = """
import asyncio, pathlib, threading

def sync(output):
    pathlib.Path("judging").touch()
    return threading.Event().wait()

async def later(output):
    return await asyncio.Event().wait()
"""
ALMOST = f"{'a' * 100}!"


def suite(folder: Path, grader: dict[str, Any], **settings: Any) -> None:
    (folder / "own.py").write_text(GRADERS)
    good = [{"id": f"good-{n}", "input": "hi", "expect": [{"equals": "hi"}]} for n in range(3)]
    write_suite(folder, [{"id": "hanging", "input": ALMOST, "expect": [grader]}, *good], **settings)


@pytest.mark.parametrize("function", ["sync", "later"])
async def test_it_is_errored_after_the_time_of_its_run_and_the_others_are_graded(
    function: str, tmp_path: Path
) -> None:
    suite(tmp_path, {"python": f"own:{function}"}, timeout_s=0.2)
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 3, ended.err
    statuses = {each["case"]: each["status"] for each in journaled(tmp_path / "out")}
    assert statuses == {
        "hanging": "errored",
        "good-0": "passed",
        "good-1": "passed",
        "good-2": "passed",
    }
    assert f"grader python own:{function} could not judge: no judgement within 0.2 s" in ended.out


async def test_a_recorded_answer_is_judged_no_longer_than_another(tmp_path: Path) -> None:
    suite(tmp_path, {"equals": ALMOST}, timeout_s=0.2)
    await ci_evals(tmp_path, "run", "--out", "first")
    suite(tmp_path, {"python": {"target": "own:sync", "timeout_s": 0.1}}, timeout_s=60)
    ended = await ci_evals(tmp_path, "run", "--out", "out", "--replay", "first", "--replay-only")
    assert "no judgement within 0.1 s" in ended.out
    suite(tmp_path, {"python": "own:sync"}, timeout_s=0.2)
    ended = await ci_evals(tmp_path, "run", "--out", "out", "--replay", "first", "--replay-only")
    assert "no judgement within 0.2 s" in ended.out


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
async def test_a_stopped_run_has_its_report(tmp_path: Path) -> None:
    suite(
        tmp_path,
        {"python": "own:sync"},
        providers=[{"name": "agent", "type": "python", "target": "agent:answer"}],
    )
    (tmp_path / "agent.py").write_text(
        "import asyncio, pathlib\n\nanswered = []\n\n"
        "async def answer(text):\n"
        "    if text == 'hi':\n        answered.append(text)\n        return text\n"
        "    while len(answered) < 3:\n        await asyncio.sleep(0)\n"
        "    for _ in range(10):  # until they are graded\n        await asyncio.sleep(0)\n"
        "    pathlib.Path('judging').touch()\n"
        "    return text\n"
    )
    process = await start(tmp_path, "run", "--out", "out")
    await until((tmp_path / "judging").exists)
    process.send_signal(signal.SIGTERM)
    ended = await finished(process)
    assert ended.code == 143, ended.err
    assert "Traceback" not in ended.err
    report = report_in(tmp_path / "out")
    assert report["interrupted"] == "SIGTERM"
    assert [each["case"] for each in report["results"]] == ["good-0", "good-1", "good-2"]
