"""Whatever an answer holds, every file stays readable and the terminal intact."""

import json
import re
import sys
import unicodedata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from aiohttp import web
from fakes.chat import completion
from fakes.http_server import serving
from hostile_texts import TEXTS, check_log, check_terminal, write_hostile_suite
from processes import Finished, ci_evals
from suites import chat, write_suite

BYTES = {
    "invalid utf-8": b"\xff\xfe\x80abc\xc3",
    "overlong": b"\xc0\xaf\xed\xa0\x80",
    "nul": b"a\x00b",
    "utf-16": "text".encode("utf-16"),
}


def check_files(folder: Path, ended: Finished, runs: int) -> None:
    """Everything can be read back, and nothing acts on who looks at it."""
    assert ended.code in (1, 3), ended.err
    assert "Traceback" not in ended.err
    out = folder / "ci-evals-results"
    report = json.loads((out / "report.json").read_bytes().decode())
    assert len(report["results"]) == runs
    lines = (out / "results.jsonl").read_bytes().splitlines()
    assert len([json.loads(line) for line in lines]) == runs + 1
    root = ET.fromstring((out / "junit.xml").read_bytes().decode())
    assert [child.tag for child in root] == ["testsuite"]
    assert len(root.findall("testsuite/testcase")) == runs
    check_markdown((out / "summary.md").read_bytes().decode())
    check_log(ended.out)
    check_log(ended.err)


def check_markdown(text: str) -> None:
    """Outside of fences, <details> are balanced, and nothing else is left open."""
    assert len(text.encode()) < 1_048_576
    assert [
        char for char in text if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"
    ] == []
    outside: list[str] = []
    fence = ""
    for line in text.splitlines():
        bare = line.strip()
        if fence:
            fence = "" if bare == fence else fence
        elif opening := re.match(r"\s*(`{3,}|~{3,})", line):
            fence = opening[1]
        else:
            outside.append(re.sub(r"<code>[^<]*</code>|(`+)(?!`).+?(?<!`)\1(?!`)", "", line))
    assert fence == ""
    visible = "\n".join(outside)
    assert visible.count("<details") == visible.count("</details>")
    assert "<script" not in visible
    assert "@octocat" not in visible


def hostile_suite(folder: Path, provider: dict[str, Any], names: list[str]) -> None:
    """For every text one case, which no answer passes, with graders that quote what they got."""
    expect = [
        {"equals": "expected"},
        {"contains": "expected"},
        {"is_json": True},
        {"regex": "^expected$"},
    ]
    cases = [{"id": name, "input": name, "expect": expect} for name in names]
    write_suite(folder, cases, providers=[{**provider, "retries": 0}], max_concurrency=4)


async def test_answers_over_http(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        name = json.loads(await request.read())["messages"][-1]["content"]
        if name in BYTES:
            return web.Response(
                body=completion("RAW").replace(b"RAW", BYTES[name]), content_type="application/json"
            )
        message = {"role": "assistant", "content": TEXTS[name]}
        return web.Response(
            text=json.dumps({"choices": [{"message": message}]}), content_type="application/json"
        )

    async with serving() as server:
        server.answers(answer)
        hostile_suite(tmp_path, chat(server.url), [*TEXTS, *BYTES])
        check_files(tmp_path, await ci_evals(tmp_path, "run"), len(TEXTS) + len(BYTES))


async def test_error_bodies_over_http(tmp_path: Path) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        name = json.loads(await request.read())["messages"][-1]["content"]
        if name in BYTES:
            return web.Response(body=BYTES[name], status=400)
        return web.Response(text=json.dumps({"error": {"message": TEXTS[name]}}), status=400)

    async with serving() as server:
        server.answers(refuse)
        hostile_suite(tmp_path, chat(server.url), [*TEXTS, *BYTES])
        check_files(tmp_path, await ci_evals(tmp_path, "run"), len(TEXTS) + len(BYTES))


async def test_tool_calls_over_http(tmp_path: Path) -> None:
    async def call(request: web.Request) -> web.StreamResponse:
        text = TEXTS[json.loads(await request.read())["messages"][-1]["content"]]
        function = {
            "name": text[:1000] or "x",
            "arguments": json.dumps({"a": text, text[:1000]: [text[:1000]]}),
        }
        message = {
            "role": "assistant",
            "tool_calls": [{"id": "1", "type": "function", "function": function}],
        }
        return web.Response(
            text=json.dumps({"choices": [{"message": message}]}), content_type="application/json"
        )

    async with serving() as server:
        server.answers(call)
        hostile_suite(tmp_path, chat(server.url), list(TEXTS))
        config = json.loads((tmp_path / "evals.yaml").read_text())
        for case in config["cases"]:
            case["expect"] = [{"tool_call": {"tool": "book", "arguments": {"to": "Paris"}}}]
        (tmp_path / "evals.yaml").write_text(json.dumps(config))
        check_files(tmp_path, await ci_evals(tmp_path, "run"), len(TEXTS))


PROGRAM = """
import json, pathlib, sys
name = json.load(sys.stdin)["input"]
answer = pathlib.Path("answers", name).read_bytes()
sys.stderr.buffer.write(answer)
sys.stdout.buffer.write(answer)
sys.exit(len(name) % 2)
"""


@pytest.mark.parametrize("output", ["table", "json"])
async def test_the_output_of_a_program(output: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "answers").mkdir()
    answers = BYTES | {name: text.encode("utf-8", "surrogatepass") for name, text in TEXTS.items()}
    for name, answer in answers.items():
        (tmp_path / "answers" / name).write_bytes(answer)
    hostile_suite(
        tmp_path, {"type": "command", "command": [sys.executable, "program.py"]}, list(answers)
    )
    ended = await ci_evals(tmp_path, "run", "--format", output)
    check_files(tmp_path, ended, len(answers))
    if output == "json":
        assert len(json.loads(ended.out)["failing"]) == len(answers)


async def test_names_in_a_dataset(tmp_path: Path) -> None:
    texts = {
        name: text
        for name, text in TEXTS.items()
        if 0 < len(text) <= 200 and name != "lone surrogates"
    }
    rows = [
        {"id": f"{text}", "input": text, "tags": [text[:50]], "expect": [{"equals": "x"}]}
        for text in texts.values()
    ]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_suite(tmp_path, [{"file": "cases.jsonl"}])
    check_files(tmp_path, await ci_evals(tmp_path, "run"), len(rows))


async def test_config_errors_quote_hostile_text_harmlessly(tmp_path: Path) -> None:
    write_hostile_suite(tmp_path)
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    assert "Traceback" not in ended.err
    assert len(ended.err) < 100_000
    check_terminal(ended.err)
