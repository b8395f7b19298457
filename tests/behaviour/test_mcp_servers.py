"""`mcp:` in the `tools` of a provider: servers by stdio and HTTP, well or not."""

import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from leftovers import journaled
from processes import Finished, ci_evals, finished, start, until
from suites import write_suite

from ci_evals.model.response import ToolCall
from ci_evals.providers.mock import Mock, MockAnswer
from ci_evals.providers.mock_server import run_server

pytest.importorskip("mcp")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

SERVER = '''
import os, signal, subprocess, sys, time
from pathlib import Path

mode = sys.argv[1]
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
if mode not in ("http", "legacy"):
    with Path("pids").open("a") as file:
        child = subprocess.Popen(sleep, stdout=subprocess.DEVNULL)
        file.write(f"{os.getpid()} {child.pid}\\n")
if mode == "broken":
    sys.exit("no such stock: berlin")
if mode == "mute":
    time.sleep(600)

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("stock")


@server.tool()
def count(item: str) -> str:
    """Count what is left of an item."""
    if item.startswith("poison"):
        os._exit(9)
    if item == "hang":
        Path("hangs").touch()
        time.sleep(600)
    if item == "unknown":
        raise ToolError("no such item")
    if item == "environment":
        return " ".join(sorted(os.environ))
    if item == "lots":
        return "x" * 150_000
    return f"{item}: 3"


@server.tool()
def order(item: str) -> int:
    """Order an item."""
    return 1


if mode == "liar":
    print("no such thing as JSON", flush=True)
    tool = server._tool_manager.get_tool("count")
    tool.parameters = {"type": "object", "properties": {"item": {"type": "wrong"}}}
if mode in ("http", "legacy"):
    import re
    import uvicorn

    app = server.streamable_http_app()

    async def guarded(scope, receive, send):
        """Refuse calls for an item such as `status 401`, as a gateway before the server does."""
        if scope["type"] != "http":
            return await app(scope, receive, send)
        received = await receive()
        body = received.get("body", b"")
        if mode == "legacy":
            body = body.replace(b"server/discover", b"status 404")
        refused = re.search(rb"status (\\d+)", body)
        if refused is None:
            pending = [received]
            async def again():
                return pending.pop() if pending else await receive()
            return await app(scope, again, send)
        await send({"type": "http.response.start", "status": int(refused[1]), "headers": []})
        await send({"type": "http.response.body", "body": b"refused"})

    uvicorn.run(guarded, port=int(sys.argv[2]), log_level="warning")
server.run()
'''
QUESTION = "How many chairs are left?"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text(SERVER)
    return tmp_path


def stock(mode: str = "well", **settings: Any) -> dict[str, Any]:
    return {"mcp": [sys.executable, "server.py", mode], **settings}


def asks(*items: str) -> MockAnswer:
    calls = [ToolCall("count", {"item": item}) for item in items]
    return MockAnswer(tool_calls=calls, then="{{ results | join(' / ') }}")


def suite(folder: Path, url: str, server: dict[str, Any], *items: str, **settings: Any) -> None:
    provider = {
        "type": "openai",
        "name": "clerk",
        "model": "m",
        "base_url": url,
        "tools": [server],
        **settings,
    }
    cases = [{"id": item, "input": item, "expect": [{"not_empty": True}]} for item in items]
    write_suite(folder, cases, providers=[provider])


async def run(folder: Path, server: dict[str, Any], *items: str, **settings: Any) -> Finished:
    """Run a case for each item, whose model asks how many there are."""
    async with run_server(Mock(answers={item: asks(item) for item in items})) as url:
        suite(folder, url, server, *items, **settings)
        return await ci_evals(folder, "run")


def results(folder: Path) -> dict[str, dict[str, Any]]:
    return {each["case"]: each for each in journaled(folder / "ci-evals-results")}


def output(folder: Path, item: str) -> str:
    return str(results(folder)[item]["response"]["output"])


def living(folder: Path) -> list[int]:
    """Which of the processes that the servers started are alive."""
    pids = [int(pid) for pid in (folder / "pids").read_text().split()]
    return [
        pid
        for pid in pids
        if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    ]


def started(folder: Path) -> int:
    return len((folder / "pids").read_text().splitlines())


async def test_all_runs_share_a_server_that_is_gone_afterwards(folder: Path) -> None:
    ended = await run(folder, stock(), "chair", "table", "lamp")
    assert ended.code == 0, ended.out + ended.err
    assert output(folder, "chair") == "chair: 3"
    steps = results(folder)["chair"]["response"]["steps"]
    assert [step["name"] for step in steps if step["kind"] == "tool_call"] == ["count"]
    assert started(folder) == 1
    assert living(folder) == []


async def test_a_server_gets_the_variables_that_it_is_given_and_no_secret(folder: Path) -> None:
    async with run_server(Mock(answers={"environment": asks("environment")})) as url:
        suite(folder, url, stock(env={"STOCK": "1"}), "environment")
        ended = await ci_evals(folder, "run", environ={"OPENAI_API_KEY": "sk-secret"})
    assert ended.code == 0, ended.out + ended.err
    names = output(folder, "environment").split()
    assert "STOCK" in names
    assert "PATH" in names
    assert "OPENAI_API_KEY" not in names


async def test_a_tool_that_fails_tells_the_model_and_a_long_result_is_cut(folder: Path) -> None:
    ended = await run(folder, stock(only=["count"]), "unknown", "lots")
    assert ended.code == 0, ended.out + ended.err
    assert "no such item" in output(folder, "unknown")
    assert output(folder, "unknown").startswith("Error: ")
    assert "(50,000 more characters are left out)" in output(folder, "lots")


async def test_a_server_that_dies_costs_the_runs_that_it_was_working_for(folder: Path) -> None:
    ended = await run(folder, stock(), "poison", "chair", max_concurrency=1)
    assert ended.code == 3, ended.out + ended.err
    lost = results(folder)["poison"]
    assert lost["status"] == "errored"
    assert lost["error"]["kind"] == "environment"
    assert "server.py well` ended before it answered a call of `count`" in lost["error"]["message"]
    (step,) = [step for step in lost["response"]["steps"] if step["kind"] == "tool_call"]
    assert step["error"] == lost["error"]["message"]
    assert results(folder)["chair"]["status"] == "passed"
    assert living(folder) == []


async def test_a_server_that_hangs_errors_the_run_in_time_and_no_other(folder: Path) -> None:
    ended = await run(folder, stock(), "hang", "chair", timeout_s=3, max_concurrency=1)
    assert ended.code == 3, ended.out + ended.err
    lost = results(folder)["hang"]
    assert lost["error"]["kind"] == "timeout"
    assert "did not answer a call of `count` within 3 s" in lost["error"]["message"]
    (step,) = [step for step in lost["response"]["steps"] if step["kind"] == "tool_call"]
    assert lost["latency_s"] >= step["duration_s"]
    assert results(folder)["chair"]["status"] == "passed"
    assert living(folder) == []


@pytest.mark.parametrize(
    ("mode", "settings", "problem"),
    [
        ("broken", {}, "ended before it was ready; its last output: no such stock: berlin"),
        ("mute", {"timeout_s": 1}, "was not ready within 1 s"),
        ("liar", {}, "describes the arguments of 'count' with an invalid schema"),
        ("well", {"only": ["coutn"]}, "has no tool 'coutn'; known: count, order"),
    ],
)
async def test_a_server_that_is_not_fit_stops_the_run_before_its_first_call(
    folder: Path, mode: str, settings: dict[str, Any], problem: str
) -> None:
    ended = await run(folder, stock(mode, **settings), "chair")
    assert ended.code == 2, ended.out + ended.err
    assert problem in ended.err
    assert "evals.yaml:1: providers[0]" in ended.err
    assert "Traceback" not in ended.err
    assert not (folder / "ci-evals-results" / "results.jsonl").exists()
    assert living(folder) == []


@pytest.mark.parametrize("signals", [1, 2])
async def test_a_server_ends_with_ctrl_c(folder: Path, signals: int) -> None:
    async with run_server(Mock(answers={"hang": asks("hang")})) as url:
        suite(folder, url, stock(), "hang", timeout_s=3)
        process = await start(folder, "run")
        await until((folder / "hangs").exists)
        for _ in range(signals):
            process.send_signal(signal.SIGINT)
        ended = await finished(process)
    assert ended.code == 130, ended.out + ended.err
    await until(lambda: living(folder) == [])


@asynccontextmanager
async def served(folder: Path, mode: str) -> AsyncIterator[str]:
    """Serve over HTTP, and yield the URL."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    server = psutil.Popen([sys.executable, "server.py", mode, port], cwd=folder, env=os.environ)

    def answers() -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", int(port))) == 0

    try:
        await until(answers)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


async def test_a_server_over_http(folder: Path) -> None:
    async with served(folder, "http") as base:
        url = f"{base}/mcp"
        ended = await run(folder, {"mcp": url, "headers": {"X-Key": "k"}}, "chair")
        assert ended.code == 0, ended.out + ended.err
        assert output(folder, "chair") == "chair: 3"
        ended = await run(folder, {"mcp": f"{base}/nowhere"}, "chair")
        assert ended.code == 2, ended.out + ended.err
        assert f"the MCP server `{base.removeprefix('http://')}/nowhere` could not be" in ended.err
        ended = await run(folder, {"mcp": url}, "poison", "poison again", max_concurrency=1)
        assert ended.code == 3, ended.out + ended.err
        errors = [result["error"] for result in results(folder).values()]
        assert {error["kind"] for error in errors} == {"environment"}
        assert errors[0]["message"].endswith("/mcp` ended before it answered a call of `count`")
        assert "/mcp` could not be reached: " in errors[1]["message"]


REFUSALS = {
    "status 401": "auth",
    "status 403": "auth",
    "status 429": "rate_limit",
    "status 500": "upstream",
    "status 503": "upstream",
}


async def test_a_refusal_in_the_middle_of_a_run_errors_it(folder: Path) -> None:
    async with served(folder, "http") as base:
        ended = await run(folder, {"mcp": f"{base}/mcp"}, *REFUSALS, "status 400", "chair")
    assert ended.code == 3, ended.out + ended.err
    for item, kind in REFUSALS.items():
        error = results(folder)[item]["error"]
        assert results(folder)[item]["status"] == "errored"
        assert (error["kind"], error["status"]) == (kind, int(item.split()[1]))
        assert f"/mcp` answered a call of `count` with {item}" in error["message"]
    assert "check its `headers`" in results(folder)["status 401"]["error"]["message"]
    assert output(folder, "status 400").startswith("Error: ")
    assert output(folder, "chair") == "chair: 3"


async def test_a_server_that_forgot_the_session_errors_the_run_alone(folder: Path) -> None:
    async with served(folder, "legacy") as base:
        items = ("status 404", "chair")
        ended = await run(folder, {"mcp": f"{base}/mcp"}, *items, max_concurrency=1)
    assert ended.code == 3, ended.out + ended.err
    error = results(folder)["status 404"]["error"]
    assert error["kind"] == "environment"
    assert error["message"].endswith("/mcp` lost the session of a call of `count`")
    assert output(folder, "chair") == "chair: 3"


# A server without the SDK, which may say what the SDK would not.

RAW = """
import json, sys

item = {"type": "object", "properties": {"item": {"type": "string"}}}
number = {"type": "object", "properties": {"left": {"type": "integer"}}, "required": ["left"]}
tool = {"name": "count", "inputSchema": item, "outputSchema": number}
texts = {
    "hostile": "<script>alert(1)</script> \\x1b[31mred ::error::told by the server",
}

for line in sys.stdin:
    message = json.loads(line)
    result = None
    match message.get("method"):
        case "initialize":
            version = message["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}}
            result["serverInfo"] = {"name": "raw", "version": "1"}
        case "tools/list":
            result = {"tools": [tool]}
        case "tools/call":
            item = message["params"]["arguments"]["item"]
            result = {"content": [{"type": "text", "text": texts.get(item, item)}]}
            if item == "wrong":
                result["structuredContent"] = {"left": "many"}
            else:
                result["structuredContent"] = {"left": 3}
            if item == "shapeless":
                result = {"content": "none"}
    print("this line is not JSON", flush=True)
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if result is None:
            answer["error"] = {"code": -32601, "message": "no such method"}
        else:
            answer["result"] = result
        print(json.dumps(answer), flush=True)
"""


async def test_a_result_that_does_not_fit_its_schema_errors_the_run_alone(folder: Path) -> None:
    (folder / "raw.py").write_text(RAW)
    raw = {"mcp": [sys.executable, "raw.py"]}
    ended = await run(folder, raw, "wrong", "shapeless", "chair", timeout_s=10)
    assert ended.code == 3, ended.out + ended.err
    for item in ("wrong", "shapeless"):
        error = results(folder)[item]["error"]
        assert error["kind"] == "environment"
        assert (
            "returned a result for `count` that does not match the tool's output schema"
            in error["message"]
        )
    assert results(folder)["chair"]["status"] == "passed"
    assert "Traceback" not in ended.err
    assert "not JSON" not in ended.err


async def test_what_a_server_says_does_no_harm_in_reports(folder: Path) -> None:
    (folder / "raw.py").write_text(RAW)
    ended = await run(folder, {"mcp": [sys.executable, "raw.py"]}, "hostile")
    assert ended.code == 0, ended.out + ended.err
    assert "\x1b[31m" not in ended.out
    page = (folder / "ci-evals-results" / "report.html").read_text("utf-8")
    assert "<script>alert(1)" not in page
    assert "<script>" in output(folder, "hostile")


async def test_without_the_sdk_the_extra_is_named_before_anything_is_called(folder: Path) -> None:
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['mcp'] = None\n")
    async with run_server(Mock()) as url:
        suite(folder, url, stock(), "chair")
        ended = await ci_evals(folder, "run", environ={"PYTHONPATH": str(folder)})
    assert ended.code == 2, ended.out + ended.err
    assert "needs the MCP SDK: `pip install 'ci-evals[mcp]'`" in ended.err
