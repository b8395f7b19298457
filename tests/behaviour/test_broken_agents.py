"""User code that crashes or is down: the place is named, and one cause is reported once."""

import sys
from html import unescape
from pathlib import Path

import pytest
from fakes.http_server import serving
from leftovers import journaled, report_in
from processes import ci_evals, python
from suites import write_suite, write_suite_file

AGENT = """
import asyncio

def book(flight):
    return flight["seat"]

async def answer(question):
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.to_thread(book, {}))
    return "x"

def judge(output):
    return 1 / 0
"""
KEY_ERROR = "KeyError: 'seat' (agent.py:5 in book)"
FRAMES = [
    "agent.py:8 in answer: async with asyncio.TaskGroup() as group:",
    'agent.py:5 in book: return flight["seat"]',
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    return tmp_path


def suite(folder: Path, provider: dict[str, object], cases: int = 1, **expect: object) -> None:
    each = [
        {"id": f"case {n}", "input": "hi", "expect": [expect or {"contains": "x"}]}
        for n in range(cases)
    ]
    formats = {"formats": ["json", "junit", "markdown", "html"]}
    write_suite(folder, each, name=..., providers=[provider], report=formats)


async def test_a_crash_says_where_in_the_code_of_the_team_everywhere(project: Path) -> None:
    suite(project, {"name": "agent", "type": "python", "target": "agent:answer"})
    ended = await ci_evals(project, "run", "--out", "out")
    assert ended.code == 1
    explained = await ci_evals(project, "explain", "case 0", "--report", "out")
    for text in (ended.out, explained.out):
        lines = [line.strip() for line in text.splitlines()]
        start = lines.index(KEY_ERROR)
        assert lines[start + 1 : start + 3] == FRAMES
        assert "ExceptionGroup" not in text
    page = unescape((project / "out" / "report.html").read_text("utf-8"))
    assert KEY_ERROR in page
    assert 'return flight["seat"]' in page
    assert KEY_ERROR in unescape((project / "out" / "junit.xml").read_text("utf-8"))


async def test_so_does_a_grader_that_crashes(project: Path) -> None:
    suite(project, {"name": "echo", "type": "mock"}, python="agent:judge")
    ended = await ci_evals(project, "run", "--out", "out")
    explained = await ci_evals(project, "explain", "case 0", "--report", "out")
    assert ended.code == 1
    for printed in (ended.out, explained.out):
        text = " ".join(printed.split())
        assert "python: raised ZeroDivisionError: division by zero (agent.py:13 in judge)" in text
        assert "agent.py:13 in judge: return 1 / 0" in text


ENDING = """
import os, signal, sys

def end(text):
    if text != "go on":
        raise {"exit": SystemExit(1), "interrupt": KeyboardInterrupt, "close": GeneratorExit}[text]
    return text

async def end_later(text):
    return end(text)

async def answer(text):
    return text

async def press_ctrl_c(text):
    os.kill(os.getpid(), signal.SIGINT)
    return text
"""
ENDS = {
    "exit": "SystemExit: 1 (own.py:6 in end)",
    "interrupt": "KeyboardInterrupt (own.py:6 in end)",
    "close": "GeneratorExit (own.py:6 in end)",
}


@pytest.mark.parametrize("function", ["end", "end_later"])
@pytest.mark.parametrize("place", ["agent", "grader", "transform"])
async def test_code_that_would_end_the_program_fails_its_own_run_alone(
    place: str, function: str, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(ENDING)
    target = "own:answer"
    expect: dict[str, object] = {"contains": "o"}
    match place:
        case "agent":
            target = f"own:{function}"
        case "grader":
            expect = {"python": f"own:{function}"}
        case "transform":
            expect = {"contains": {"value": "o", "transform": f"own:{function}"}}
    cases = [{"id": text, "input": text, "expect": [expect]} for text in (*ENDS, "go on")]
    if place == "grader":
        cases[-1]["expect"] = [{"equals": "go on"}]
    write_suite(tmp_path, cases, providers=[{"name": "agent", "type": "python", "target": target}])
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 1, ended.err
    results = {each["case"]: each for each in journaled(tmp_path / "out")}
    assert results.pop("go on")["status"] == "passed"
    assert {each["status"] for each in results.values()} == {"failed"}
    for case, raised in ENDS.items():
        match place:
            case "agent":
                assert results[case]["error"]["message"] == raised
            case "grader":
                assert results[case]["grades"][0]["reason"] == f"raised {raised}"
            case "transform":
                reason = f"transform own:{function}: raised {raised}"
                assert results[case]["grades"][0]["reason"] == reason


def test_a_real_ctrl_c_ends_an_evaluation_on_a_loop_that_handles_no_signals(
    tmp_path: Path,
) -> None:
    (tmp_path / "own.py").write_text(ENDING)
    agent = {"name": "agent", "type": "python", "target": "own:press_ctrl_c"}
    write_suite(tmp_path, providers=[agent])
    loop = "import asyncio, ci_evals\nloop = asyncio.new_event_loop()\n"
    evaluation = 'loop.run_until_complete(ci_evals.evaluate("evals.yaml", out="out"))'
    ended = python(tmp_path, "-c", f"{loop}{evaluation}")
    assert ended.code != 0
    assert "KeyboardInterrupt" in ended.err
    assert not (tmp_path / "out" / "report.json").exists()


async def test_a_service_that_is_down_is_one_line(tmp_path: Path) -> None:
    async with serving() as gone:
        url = f"{gone.url}/ask"
    provider = {"name": "agent", "type": "http", "url": url, "output": "answer", "retries": 0}
    suite(tmp_path, provider, cases=40)
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 1
    assert ended.out.count("the connection was refused") == 2, "in the list, and in the verdict"
    text = " ".join(ended.out.split())
    place = url.removeprefix("http://")
    told = (
        f"Failing (40) ✗ 40 cases: no answer from {place}: the connection was refused; "
        "is a server running there?"
    )
    assert f"{told}, in case 0 (evals.yaml:1)" in text
    assert "and 37 more cases" in text
    assert (tmp_path / "out" / "summary.md").read_text("utf-8").count(
        "the connection was refused"
    ) == 2


UNLUCKY = """
import pathlib, sys

def answer(question):
    calls = pathlib.Path("calls.txt")
    number = len(calls.read_text()) if calls.exists() else 0
    calls.write_text("x" * (number + 1))
    if number < 2:
        sys.exit("no seat yet")
    return "x"

if __name__ == "__main__":
    print(answer(""))
"""
PROVIDERS: list[dict[str, object]] = [
    {"name": "agent", "type": "python", "target": "unlucky:answer"},
    {"name": "agent", "type": "command", "command": [sys.executable, "unlucky.py"]},
]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("retries", "calls", "status"),
    [({}, 1, "failed"), ({"retries": 1}, 2, "failed"), ({"retries": 4}, 3, "passed")],
)
async def test_a_crash_is_tried_again_where_the_provider_sets_retries(
    tmp_path: Path,
    provider: dict[str, object],
    retries: dict[str, object],
    calls: int,
    status: str,
) -> None:
    (tmp_path / "unlucky.py").write_text(UNLUCKY)
    suite(tmp_path, {**provider, **retries})
    await ci_evals(tmp_path, "run", "--out", "out")
    assert len((tmp_path / "calls.txt").read_text()) == calls
    (result,) = report_in(tmp_path / "out")["results"]
    assert (result["status"], result.get("attempts", 1)) == (status, calls)


async def test_retries_of_the_suite_try_no_crash_again(tmp_path: Path) -> None:
    (tmp_path / "unlucky.py").write_text(UNLUCKY)
    suite(tmp_path, PROVIDERS[0])
    await ci_evals(tmp_path, "run", "--out", "out", "--retries", "4")
    assert len((tmp_path / "calls.txt").read_text()) == 1


MUTE = """
import os
import shutil
from pathlib import Path

class MuteError(Exception):
    def __str__(self):
        raise RuntimeError("there is no text")

    def __eq__(self, other):
        raise RuntimeError("not comparable")

def answer(question):
    return question

def raises(question):
    try:
        raise MuteError
    except MuteError as error:
        raise MuteError from error

def judge(output):
    raise MuteError

def fixture():
    raise MuteError

def fixture_torn_down():
    yield {}
    raise MuteError

def make_cases():
    raise MuteError

def prompt(context):
    raise MuteError

def removes_its_folder(question):
    shutil.rmtree(Path.cwd())
    raise KeyError(question)
"""
MUTE_CASE: dict[str, object] = {"id": "a", "input": "hi", "expect": [{"contains": "hi"}]}


@pytest.mark.parametrize(
    ("target", "settings", "code"),
    [
        ("raises", {}, 1),
        ("answer", {"expect": [{"python": "mute:judge"}]}, 1),
        ("answer", {"setup": "mute:fixture"}, 3),
        ("answer", {"setup": "mute:fixture_torn_down"}, 0),
        ("answer", {"cases": [MUTE_CASE, {"python": "mute:make_cases"}]}, 2),
        ("answer", {"prompts": [{"name": "p", "function": "mute:prompt"}]}, 2),
    ],
)
async def test_an_exception_without_a_text_is_named_by_its_type(
    target: str, settings: dict[str, object], code: int, tmp_path: Path
) -> None:
    (tmp_path / "mute.py").write_text(MUTE)
    provider = {"name": "agent", "type": "python", "target": f"mute:{target}"}
    write_suite_file(
        tmp_path / "evals.yaml", **{"cases": [MUTE_CASE], "providers": [provider], **settings}
    )
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == code, ended.out + ended.err
    written = ended.out + ended.err
    if code != 2:
        written += (tmp_path / "out" / "report.json").read_text("utf-8")
    assert "MuteError" in written
    assert "a bug in ci-evals" not in written


async def test_an_agent_that_removes_the_working_folder_crashes_its_own_run(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "mute.py").write_text(MUTE)
    provider = {"name": "agent", "type": "python", "target": "mute:removes_its_folder"}
    write_suite(folder, [MUTE_CASE], providers=[provider])
    ended = await ci_evals(folder, "run", "--out", str(tmp_path / "out"))
    assert ended.code == 1, ended.out + ended.err
    (result,) = report_in(tmp_path / "out")["results"]
    assert "KeyError: 'hi'" in result["error"]["message"]


def test_a_command_in_a_folder_that_was_removed_says_so(tmp_path: Path) -> None:
    program = """
import os, sys
from pathlib import Path
folder = Path("gone")
folder.mkdir()
os.chdir(folder)
folder = Path.cwd()
folder.rmdir()
os.execv(sys.executable, [sys.executable, "-P", "-m", "ci_evals", "run"])
"""
    ended = python(tmp_path, "-c", program)
    assert ended.code == 2
    assert "the working folder has been removed" in ended.err
    assert "Traceback" not in ended.err
