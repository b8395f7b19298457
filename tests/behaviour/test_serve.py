"""`serve`: the service under test starts before the run and leaves nothing behind."""

import signal
import socket
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from leftovers import journaled
from processes import ci_evals, finished, start, until
from suites import write_suite

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

SERVICE = """
import http.server, json, os, subprocess, sys, time
from pathlib import Path

port, mode = int(sys.argv[1]), sys.argv[2]
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(sleep, start_new_session=True)
with Path("pids").open("a") as file:
    file.write(f"{os.getpid()} {child.pid}\\n")
if mode == "broken":
    print("loading the index")
    sys.exit("no such index: faq")
looks = calls = 0

class Handler(http.server.BaseHTTPRequestHandler):
    def reply(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        global looks
        looks += 1
        self.reply(503 if mode == "sick" or looks < 3 else 404, b"")

    def do_POST(self):
        global calls
        calls += 1
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if mode == "stuck":
            Path("stuck").touch()
            time.sleep(600)
        if mode == "dies" and calls == 2:
            print("Fatal: out of memory", flush=True)
            os._exit(9)
        answer = body["input"] + os.environ.get("TAIL", "")
        self.reply(200, json.dumps({"answer": answer}).encode())

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""

CASES = [
    {"id": f"case-{number}", "input": f"q{number}", "expect": [{"contains": f"q{number}"}]}
    for number in range(3)
]


def serve(folder: Path, port: str, mode: str = "well", **changes: Any) -> dict[str, Any]:
    (folder / "service.py").write_text(SERVICE)
    command = [sys.executable, "service.py", port, mode]
    return {
        "command": command,
        "url": f"http://127.0.0.1:{port}/health",
        "timeout_s": 30,
        **changes,
    }


def service(folder: Path, port: str, mode: str = "well", **changes: Any) -> dict[str, Any]:
    """An `http` provider with its service."""
    url = f"http://127.0.0.1:{port}/chat"
    served = serve(folder, port, mode, **changes)
    return {
        "type": "http",
        "name": mode,
        "url": url,
        "output": "$.answer",
        "retries": 0,
        "serve": served,
    }


def living(folder: Path) -> list[int]:
    """Which of the processes that the services started are alive."""
    pids = [int(pid) for pid in (folder / "pids").read_text().split()]
    return [
        pid
        for pid in pids
        if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    ]


def started(folder: Path) -> int:
    return len((folder / "pids").read_text().splitlines())


async def test_the_service_is_there_for_the_run_and_gone_afterwards(
    tmp_path: Path, port: str
) -> None:
    write_suite(tmp_path, CASES, providers=[service(tmp_path, port, env={"TAIL": "!"})])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err
    assert {
        each["response"]["output"][2:] for each in journaled(tmp_path / "ci-evals-results")
    } == {"!"}
    assert started(tmp_path) == 1
    assert living(tmp_path) == []


AGENT = """
import json, urllib.request

def answer(question):
    call = urllib.request.Request(URL, json.dumps({"input": question}).encode(), method="POST")
    with urllib.request.urlopen(call) as response:
        return json.load(response)["answer"]
"""


async def test_providers_of_all_kinds_share_a_service(tmp_path: Path, port: str) -> None:
    first = service(tmp_path, port)
    (tmp_path / "agent.py").write_text(AGENT.replace("URL", repr(first["url"])))
    (tmp_path / "program.py").write_text(
        "import agent, json, sys\nprint(agent.answer(json.load(sys.stdin)['input']))"
    )
    agent = {"type": "python", "name": "agent", "target": "agent:answer", "serve": first["serve"]}
    program = {
        "type": "command",
        "command": [sys.executable, "program.py"],
        "serve": first["serve"],
    }
    judge = {
        **first,
        "name": "judge",
        "output": None,
        "body": {"input": '{"verdict": "yes", "reason": "so"}'},
    }
    write_suite(tmp_path, CASES, providers=[first, agent, program], judges=[judge])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err
    assert {
        each["response"]["output"][2:].strip() for each in journaled(tmp_path / "ci-evals-results")
    } == {""}
    assert started(tmp_path) == 1
    assert living(tmp_path) == []


@pytest.mark.parametrize(
    ("mode", "timeout_s", "problem"),
    [
        (
            "broken",
            30,
            (
                "ended (exit status 1; "
                "its last output: loading the index | no such index: faq) before {url} answered"
            ),
        ),
        ("sick", 0.5, "was started, but {url} answered with status 503 for 0.5 s; it printed"),
    ],
)
async def test_a_service_that_does_not_start_is_told_with_what_it_printed(
    mode: str, timeout_s: float, problem: str, tmp_path: Path, port: str
) -> None:
    write_suite(tmp_path, CASES, providers=[service(tmp_path, port, mode, timeout_s=timeout_s)])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 2
    line, *_, last = ended.err.splitlines()
    assert line.startswith("evals.yaml:1: providers[0]: serve: `")
    assert problem.format(url=f"http://127.0.0.1:{port}/health") in line
    assert last == "1 problem, nothing was run."
    assert living(tmp_path) == []


async def test_what_answers_already_is_refused_and_left_alone(tmp_path: Path, port: str) -> None:
    write_suite(tmp_path, CASES, providers=[service(tmp_path, port)])
    forgotten = await start(tmp_path, "service.py", port, "well", command=(sys.executable,))
    try:
        await until(lambda: is_listening(port))
        ended = await ci_evals(tmp_path, "run")
        assert ended.code == 2
        assert f"serve: http://127.0.0.1:{port}/health answers before" in ended.err
        assert "stop what runs there, or remove `serve` to use it" in ended.err
        assert started(tmp_path) == 1
        assert is_listening(port)
    finally:
        for pid in living(tmp_path):
            psutil.Process(pid).kill()
        await finished(forgotten)


def is_listening(port: str) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", int(port))) == 0


async def test_a_service_that_dies_fails_the_runs_after_it_with_its_last_words(
    tmp_path: Path, port: str
) -> None:
    write_suite(tmp_path, CASES, providers=[service(tmp_path, port, "dies")], max_concurrency=1)
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 1
    passed, *others = journaled(tmp_path / "ci-evals-results")
    assert passed["status"] == "passed"
    assert [each["status"] for each in others] == ["failed", "failed"]
    for each in others:
        assert each["error"]["kind"] == "crash"
        assert (
            "ended (exit status 9; its last output: Fatal: out of memory) during the run"
            in each["error"]["message"]
        )
    assert living(tmp_path) == []


@pytest.mark.parametrize(
    ("which", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
async def test_a_signal_leaves_nothing_of_a_service(
    which: signal.Signals, code: int, tmp_path: Path, port: str
) -> None:
    write_suite(tmp_path, CASES, providers=[service(tmp_path, port, "stuck")])
    process = await start(tmp_path, "run")
    await until((tmp_path / "stuck").exists)
    assert len(living(tmp_path)) == 2
    process.send_signal(which)
    ended = await finished(process)
    assert ended.code == code
    assert "Traceback" not in ended.err
    await until(lambda: not living(tmp_path))


async def test_programs_are_found_next_to_python_without_activating_its_environment(
    tmp_path: Path, port: str
) -> None:
    program = Path(sys.executable).name
    served = serve(tmp_path, port)
    _, *arguments = served["command"]
    provider = service(tmp_path, port) | {"serve": served | {"command": [program, *arguments]}}
    setup = [{"command": [program, "-c", "print('{}')"]}]
    write_suite(tmp_path, CASES, providers=[provider], setup=setup)
    ended = await ci_evals(tmp_path, "run", environ={"PATH": "/nowhere"})
    assert ended.code == 0, ended.out + ended.err


async def test_validate_finds_what_is_wrong_without_starting_anything(tmp_path: Path) -> None:
    def entry(name: str, **changes: Any) -> dict[str, Any]:
        served = {"command": [sys.executable, "a.py"], "url": "http://h:1/", **changes}
        return {"type": "http", "name": name, "url": "http://h:1/", "serve": served}

    wrong = {"command": "./start.sh", "url": "localhost:8000"}
    entries = [
        entry("a"),
        entry("b", command=[sys.executable, "b.py"]),
        entry("c", **wrong),
        entry("d", cwd="no", url="http://h:2"),
    ]
    write_suite(tmp_path, providers=[*entries, entry("e", timeout="5")])
    ended = await ci_evals(tmp_path, "validate")
    place, port = "evals.yaml:1: providers", "give one of them another port"
    assert ended.err.splitlines()[:-2] == [
        f"{place}[2].serve: url: is not a complete address; write it as http://host:port/path",
        f"{place}[2].serve: command: there is no program {tmp_path}/start.sh",
        f"{place}[3].serve: cwd: there is no folder {tmp_path}/no",
        f"{place}[4].serve: unknown key 'timeout', did you mean 'timeout_s'?",
        f"{place}[1].serve: a has another service at http://h:1/: {port}, or both the same `serve`",
    ]
