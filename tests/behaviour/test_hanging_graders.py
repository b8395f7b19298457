"""A grader that hangs costs its run the verdict, but neither other runs nor the program's end."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from leftovers import journaled, journaled_answers, report_in
from processes import ci_evals, finished, start, until
from suites import write_suite

GRADERS = """
import asyncio, os, pathlib, re, threading

def sync(output):
    pathlib.Path("judging").touch()
    return threading.Event().wait()

async def later(output):
    return await asyncio.Event().wait()

def pattern(output):
    pathlib.Path("judging").touch()
    return re.search("^(a+)+$", output) is None

def endless(output):
    while "!" in output:
        pass
    return True

async def blocking(output):
    if "!" in output:
        threading.Event().wait()
    return True

def ending(output):
    if "!" in output:
        os._exit(3)
    return True
"""
IMPATIENT = {"ci_evals.graders.base.MAX_JUDGING_S": 1.5}
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
    assert f"grader python own:{function} could not judge: no verdict within 0.2 s" in ended.out


async def test_a_recorded_answer_is_judged_no_longer_than_another(tmp_path: Path) -> None:
    suite(tmp_path, {"equals": ALMOST}, timeout_s=0.2)
    await ci_evals(tmp_path, "run", "--out", "first")
    suite(tmp_path, {"python": {"target": "own:sync", "timeout_s": 0.1}}, timeout_s=60)
    ended = await ci_evals(tmp_path, "run", "--out", "out", "--replay", "first", "--replay-only")
    assert "no verdict within 0.1 s" in ended.out
    suite(tmp_path, {"python": "own:sync"}, timeout_s=0.2)
    ended = await ci_evals(tmp_path, "run", "--out", "out", "--replay", "first", "--replay-only")
    assert "no verdict within 0.2 s" in ended.out


PATTERN = {"type": "string", "pattern": "^(a+)+$"}


@pytest.mark.parametrize(
    ("answer", "grader"),
    [
        (json.dumps(ALMOST), {"json_schema": {"schema": PATTERN}}),
        (json.dumps(ALMOST), {"not_is_json": {"schema": PATTERN}}),
        (json.dumps([ALMOST]), {"contains_json": {"schema": {"items": PATTERN}}}),
    ],
)
async def test_a_grader_of_ours_gives_up_and_costs_nothing_but_its_own_run(
    answer: str, grader: dict[str, Any], tmp_path: Path
) -> None:
    cases = [
        {"id": "hanging", "input": answer, "expect": [grader]},
        *({"id": f"good-{n}", "input": '"aa"', "expect": [grader]} for n in range(3)),
        {"id": "other", "input": "hi", "expect": [{"equals": "hi"}]},
    ]
    write_suite(tmp_path, cases)
    ended = await ci_evals(tmp_path, "run", "--out", "out", constants=IMPATIENT)
    statuses = {each["case"]: each["status"] for each in journaled(tmp_path / "out")}
    code = 3
    if "failed" in statuses.values():  # which decides, whatever the other run would have been
        code = 1
    assert ended.code == code, ended.err
    assert statuses.pop("hanging") == "errored"
    assert "errored" not in statuses.values()
    assert statuses["other"] == "passed"
    assert "could not judge: gave up after 1.5 s" in " ".join(ended.out.split())
    assert "never retrieved" not in ended.err
    assert workers_in(tmp_path) == []


async def test_unique_items_are_found_among_thousands(tmp_path: Path) -> None:
    objects = [{"number": number} for number in range(6_000)]
    answers = {
        "unique": objects,
        "twice": [*objects, {"number": 5.0}],
        "nested twice": [[1, {"a": [1, {"b": 0}]}], [1.0, {"a": [1, {"b": 0}]}]],
        "true and 1": [True, 1, False, 0, "1", None, [1], [True], {"a": 1}, {"a": True}],
        "other order": [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
    }
    grader = {"json_schema": {"schema": {"uniqueItems": True}}}
    cases = [
        {"id": name, "input": json.dumps(answer), "expect": [grader]}
        for name, answer in answers.items()
    ]
    write_suite(tmp_path, cases)
    ended = await ci_evals(tmp_path, "run", "--out", "out", constants=IMPATIENT)
    assert ended.code == 1, ended.err
    statuses = {each["case"]: each["status"] for each in journaled(tmp_path / "out")}
    assert statuses == {
        "unique": "passed",
        "twice": "failed",
        "nested twice": "failed",
        "true and 1": "passed",
        "other order": "failed",
    }


@pytest.mark.parametrize(
    ("grader", "reason"),
    [
        ("own:endless", "no verdict within 1 s"),
        ("own:blocking", "no verdict within 1 s"),
        ("re.search('^(a+)+$', output) is None", "no verdict within 1 s"),
    ],
)
async def test_code_of_the_suite_that_is_stuck_costs_nothing_but_its_own_run(
    grader: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(GRADERS)
    expect = [{"python": {"target": grader, "timeout_s": 1}}]
    cases = [{"id": f"good-{n}", "input": "b", "expect": expect} for n in range(12)]
    cases[::6] = [{"id": f"stuck-{n}", "input": ALMOST, "expect": expect} for n in range(2)]
    write_suite(tmp_path, cases, max_concurrency=6)
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 3, ended.err
    results = {each["case"]: each for each in journaled(tmp_path / "out")}
    stuck = [results.pop(f"stuck-{n}") for n in range(2)]
    assert {each["status"] for each in results.values()} == {"passed"}
    assert [reason in each["error"]["message"] for each in stuck] == [True, True], stuck
    assert workers_in(tmp_path) == []


async def test_a_transform_that_is_stuck_costs_nothing_but_its_own_run(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(GRADERS)
    expect = [{"contains": {"value": "true", "transform": "own:pattern"}}]
    cases = [{"id": f"good-{n}", "input": "b", "expect": expect} for n in range(6)]
    cases[0] = {"id": "stuck", "input": ALMOST, "expect": expect}
    write_suite(tmp_path, cases, timeout_s=1)
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 3, ended.err
    results = {each["case"]: each for each in journaled(tmp_path / "out")}
    stuck = results.pop("stuck")
    assert {each["status"] for each in results.values()} == {"passed"}
    assert "the transform own:pattern took more than 1 s" in stuck["error"]["message"]


EXECUTE = "exec(output, {})\nreturn True"
SEGFAULT = "import ctypes; ctypes.string_at(0)"
KILL = "process.kill(process.pid, 'SIGKILL'); await new Promise(() => {})"
THROW_LATER = "setTimeout(() => { throw new Error('late') }); await new Promise(() => {})"


DEADLY: list[tuple[str, dict[str, Any], str]] = [
    (ALMOST, {"python": "own:ending"}, "the worker process ended with exit status 3"),
    (
        ALMOST,
        {"contains": {"value": "true", "transform": "own:ending"}},
        "transform own:ending: the worker process ended with exit status 3",
    ),
    (
        "import os; os._exit(0)",
        {"not_python": EXECUTE},
        "the worker process ended with exit status 0",
    ),
    (SEGFAULT, {"python": EXECUTE}, "the worker process was killed by SIGSEGV"),
    (
        "kill",
        {"javascript": {"code": f"if (output === 'kill') {{ {KILL} }}; return true"}},
        "Node.js was killed by SIGKILL",
    ),
    (
        "late",
        {"javascript": f"if (output === 'late') {{ {THROW_LATER} }}; return true"},
        "Node.js ended with exit status 1",
    ),
]


@pytest.mark.skipif(sys.platform == "win32", reason="the statuses of POSIX")
async def test_an_answer_that_ends_the_process_of_a_check_has_failed_it_and_no_other(
    tmp_path: Path,
) -> None:
    (tmp_path / "own.py").write_text(GRADERS)
    cases = []
    for number, (answer, grader, _) in enumerate(DEADLY):
        cases.append({"id": f"deadly-{number}", "input": answer, "expect": [grader]})
        cases.append({"id": f"good-{number}", "input": "1", "expect": [grader]})
    write_suite(tmp_path, cases)
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 1, ended.err
    results = {each["case"]: each for each in journaled(tmp_path / "out")}
    for number, (_, grader, reason) in enumerate(DEADLY):
        deadly = results[f"deadly-{number}"]
        assert deadly["status"] == "failed", deadly
        assert deadly["grades"][0]["reason"] == reason
        good = results[f"good-{number}"]
        expected = "failed" if "not_python" in grader else "passed"
        assert good["status"] == expected, good["error"]


async def test_a_worker_that_does_not_start_is_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "starts").mkdir()
    (tmp_path / "starts" / "sitecustomize.py").write_text(
        "import os, sys\n\n"
        "if 'ci_evals.python_worker_main' in ' '.join(sys.orig_argv):\n"
        "    sys.stderr.write('no memory')\n    os._exit(4)\n"
    )
    write_suite(tmp_path, [{"id": "a", "input": "hi", "expect": [{"python": "output == 'hi'"}]}])
    search = {"PYTHONPATH": str(tmp_path / "starts")}
    ended = await ci_evals(tmp_path, "run", "--out", "out", environ=search)
    assert ended.code == 3, ended.err
    (result,) = journaled(tmp_path / "out")
    assert result["status"] == "errored"
    text = "could not judge: the worker process ended with exit status 4: no memory"
    assert text in result["error"]["message"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
async def test_a_grader_that_is_stuck_ends_with_the_run(tmp_path: Path) -> None:
    expect = [{"json_schema": {"schema": PATTERN}}]
    write_suite(tmp_path, [{"id": "hanging", "input": json.dumps(ALMOST), "expect": expect}])
    patient = {"ci_evals.graders.base.MAX_JUDGING_S": 600}
    process = await start(tmp_path, "run", "--out", "out", constants=patient)
    await until(lambda: len(workers_in(tmp_path)) == 1)
    (worker,) = workers_in(tmp_path)
    await until(lambda: worker.cpu_times().user > 1)
    process.send_signal(signal.SIGTERM)
    ended = await finished(process)
    assert ended.code == 143
    assert "never retrieved" not in ended.err
    await until(lambda: not worker.is_running())


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
async def test_a_worker_that_is_stuck_does_not_outlive_a_killed_run_for_long(
    tmp_path: Path,
) -> None:
    suite(tmp_path, {"python": {"target": "own:pattern", "timeout_s": 1.5}})
    process = await start(tmp_path, "run", "--out", "out")
    await until((tmp_path / "judging").exists)
    process.send_signal(signal.SIGKILL)
    assert (await finished(process)).code == -9
    await until(lambda: workers_in(tmp_path) == [])


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


AGENT = """
import pathlib

def answer(text):
    with pathlib.Path("calls").open("a") as calls:
        calls.write("called\\n")
    return {"output": text, "cost_usd": 0.5}

def judge(output):
    if not pathlib.Path("fixed").exists():
        pathlib.Path("judging").touch()
        while True:
            pass
    return True
"""


def paid_suite(folder: Path, **settings: Any) -> None:
    (folder / "agent.py").write_text(AGENT)
    agent = {"name": "agent", "type": "python", "target": "agent:answer"}
    expect = [{"python": "agent:judge"}]
    write_suite(
        folder, [{"id": "a", "input": "hi", "expect": expect}], providers=[agent], **settings
    )


async def resume_with_a_better_grader(folder: Path) -> dict[str, Any]:
    (folder / "fixed").touch()
    ended = await ci_evals(folder, "run", "--out", "out", "--resume")
    assert ended.code == 0, ended.err + ended.out
    assert (folder / "calls").read_text() == "called\n"
    (result,) = report_in(folder / "out")["results"]
    assert isinstance(result, dict)
    return result


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(
    "which", [signal.SIGTERM, signal.SIGKILL] if sys.platform != "win32" else []
)
async def test_an_answer_is_not_paid_twice_if_its_grading_is_killed(
    which: signal.Signals, tmp_path: Path
) -> None:
    paid_suite(tmp_path)
    process = await start(tmp_path, "run", "--out", "out")
    await until((tmp_path / "judging").exists)
    process.send_signal(which)
    await finished(process)
    assert journaled(tmp_path / "out") == []
    result = await resume_with_a_better_grader(tmp_path)
    assert (result["status"], result["cost_usd"], result.get("recorded")) == ("passed", 0.5, None)


async def test_an_answer_is_not_paid_twice_if_its_grader_gave_no_verdict(tmp_path: Path) -> None:
    paid_suite(tmp_path, timeout_s=1, budget={"max_cost_usd": 0.5})
    assert (await ci_evals(tmp_path, "run", "--out", "out")).code == 3
    assert [each["status"] for each in journaled(tmp_path / "out")] == ["errored"]
    result = await resume_with_a_better_grader(tmp_path)
    assert (result["status"], result["cost_usd"]) == ("passed", 0.5)


async def test_an_answer_that_is_graded_at_once_is_written_once(tmp_path: Path) -> None:
    write_suite(tmp_path, [{"id": "a", "input": "hi", "expect": [{"equals": "hi"}]}])
    await ci_evals(tmp_path, "run", "--out", "out")
    assert journaled_answers(tmp_path / "out") == []
    paid_suite(tmp_path)
    (tmp_path / "fixed").touch()
    await ci_evals(tmp_path, "run", "--out", "out")
    (answer,) = journaled_answers(tmp_path / "out")
    assert answer["response"]["output"] == "hi"


def workers_in(folder: Path) -> list[psutil.Process]:
    """The worker processes of a run in a folder."""
    found = psutil.process_iter(["cmdline", "cwd"])
    return [
        each
        for each in found
        if each.info["cwd"] == str(folder)
        and "python_worker" in " ".join(each.info["cmdline"] or ())
    ]
