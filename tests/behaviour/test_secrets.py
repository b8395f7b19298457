"""A key is nowhere in what a run writes or prints, wherever it came from."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from aiohttp import web
from fakes.http_server import Scripted, serving
from planted import (
    DOTENV,
    FORMATS,
    FORMS,
    IN_URL,
    NAMED,
    SHAPED,
    everything,
    failing_suite,
    name_keys,
    run,
)
from processes import Finished, ci_evals, python
from suites import chat, write_suite


def written(folder: Path, ended: Finished) -> Iterator[tuple[str, bytes]]:
    """Everything that a run wrote, by where it is."""
    yield "stdout", ended.stdout
    yield "stderr", ended.stderr
    for path in sorted((folder / "ci-evals-results").rglob("*")):
        yield path.name, path.read_bytes()


def check_clean(folder: Path, ended: Finished) -> None:
    assert ended.code in (1, 3), ended.err
    places = dict(written(folder, ended))
    assert places.keys() >= {
        "results.jsonl",
        "report.json",
        "junit.xml",
        "summary.md",
        "report.html",
    }
    found = [
        (place, form)
        for place, content in places.items()
        for form in FORMS
        if form.encode() in content
    ]
    assert found == []


async def test_in_an_answer_and_its_tool_calls(tmp_path: Path) -> None:
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "send", "arguments": json.dumps({"to": everything()})},
    }
    message = {"role": "assistant", "content": everything(), "tool_calls": [call]}
    async with serving() as server:
        server.answers(
            Scripted({"model": SHAPED, "choices": [{"message": message, "finish_reason": DOTENV}]})
        )
        failing_suite(tmp_path, chat(server.url, api_key="${NAMED_KEY}"))
        check_clean(tmp_path, await run(tmp_path))
        assert server.seen[0].headers["Authorization"] == f"Bearer {NAMED}"


async def test_in_the_steps_of_an_agent(tmp_path: Path) -> None:
    told = {
        "arguments": {"to": [everything()]},
        "result": everything(),
        "error": everything(),
        "agent": everything(),
    }
    step = {"kind": "tool_call", "name": everything(), **told}
    answer = {
        "output": "done",
        "steps": [step, {"kind": "message", "name": "user", "result": everything()}],
    }
    (tmp_path / "agent.py").write_text(f"def answer(text):\n    return {answer!r}\n")
    failing_suite(tmp_path, {"name": "agent", "type": "python", "target": "agent:answer"})
    name_keys(tmp_path)
    check_clean(tmp_path, await run(tmp_path))
    report = json.loads((tmp_path / "ci-evals-results" / "report.json").read_bytes())
    kinds = [each["kind"] for each in report["results"][0]["response"]["steps"]]
    assert kinds == ["tool_call", "message"]


async def test_in_an_error_that_echoes_what_was_sent(tmp_path: Path) -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        told = (
            f"wrong key: {request.headers['Authorization']} "
            f"{request.headers['X-Extra']} {everything()}"
        )
        return web.json_response({"error": {"message": told}}, status=400, reason=SHAPED)

    async with serving() as server:
        server.answers(echo)
        failing_suite(
            tmp_path, chat(server.url, api_key="${NAMED_KEY}", headers={"X-Extra": "a ${URL_KEY}"})
        )
        check_clean(tmp_path, await run(tmp_path))


async def test_in_the_address_of_a_service_and_where_it_redirects(tmp_path: Path) -> None:
    async with serving() as server:
        server.answers(
            Scripted(
                status=302, headers={"Location": f"/{IN_URL}/{quote(NAMED, safe='')}?key={IN_URL}"}
            ),
            Scripted(f"You asked for /?key={IN_URL}", status=500),
        )
        failing_suite(
            tmp_path,
            {
                "type": "http",
                "url": f"{server.url}/?key=${{URL_KEY}}",
                "headers": {"X": "${NAMED_KEY}"},
            },
        )
        use_vars(tmp_path)
        check_clean(tmp_path, await run(tmp_path))
        assert IN_URL in server.seen[0].path


def use_vars(folder: Path) -> None:
    """Put a secret among the vars of all cases, where a report shows it as the input."""
    config = json.loads((folder / "evals.yaml").read_text())
    for case in config["cases"]:
        case["vars"] = {"x": everything()}
        del case["input"]
    (folder / "evals.yaml").write_text(json.dumps(config))


async def test_when_nobody_listens_at_an_address_with_a_key(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/?key=${URL_KEY}"
    failing_suite(tmp_path, {"type": "http", "url": url, "headers": {"X": "${NAMED_KEY}"}})
    use_vars(tmp_path)
    check_clean(tmp_path, await run(tmp_path))


PRINTING = f"""
import os, subprocess, sys

def answer(text):
    secrets = {everything()!r}
    print(secrets)
    print(secrets, file=sys.stderr)
    sys.stdout.buffer.write(secrets.encode() + b"\\n")
    for part in (secrets[:7], secrets[7:]):
        print(part, end="")
    raise RuntimeError(secrets)
"""


async def test_in_what_a_function_prints_and_raises(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(PRINTING)
    failing_suite(tmp_path, {"name": "agent", "type": "python", "target": "agent:answer"})
    name_keys(tmp_path)
    check_clean(tmp_path, await run(tmp_path))


async def test_of_a_variable_that_only_the_agent_knows(tmp_path: Path) -> None:
    key = "4f1a9c0be2d84c77"
    (tmp_path / "agent.py").write_text(
        "import os\n"
        "def answer(question): raise RuntimeError(f'401 for {os.environ[\"SEARCH_API_KEY\"]}')\n"
    )
    provider = {"name": "agent", "type": "python", "target": "agent:answer"}
    write_suite(tmp_path, providers=[provider], report=FORMATS)
    ended = await ci_evals(tmp_path, "run", environ={"SEARCH_API_KEY": key})
    places = dict(written(tmp_path, ended))
    assert b"401 for ***" in places["report.json"]
    assert [place for place, content in places.items() if key.encode() in content] == []


async def test_in_the_stderr_of_a_program(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(f"import sys; sys.exit({everything()!r})")
    command = [sys.executable, "agent.py"]
    failing_suite(
        tmp_path,
        {"name": "agent", "type": "command", "command": command, "env": {"KEY": "${NAMED_KEY}"}},
    )
    check_clean(tmp_path, await run(tmp_path))


async def test_in_the_crash_of_a_grader(tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text(f"def judge(answer): raise RuntimeError({everything()!r})")
    cases = [{"id": "case", "input": "hi", "expect": [{"python": "judge:judge"}]}]
    write_suite(tmp_path, cases, description="${NAMED_KEY} of ${URL_KEY}", report=FORMATS)
    check_clean(tmp_path, await run(tmp_path))


async def test_json_on_stdout(tmp_path: Path) -> None:
    failing_suite(tmp_path, {"name": "echo", "type": "mock", "default": everything()})
    name_keys(tmp_path)
    ended = await run(tmp_path, "--format", "json")
    check_clean(tmp_path, ended)
    json.loads(ended.stdout)


@pytest.mark.parametrize(
    "arguments", [("run",), ("run", "--config", "there/evals.yaml"), ("run", "-cthere/evals.yaml")]
)
async def test_an_import_that_fails_tells_no_secret(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    folder = tmp_path / "there" if len(arguments) > 1 else tmp_path
    folder.mkdir(exist_ok=True)
    (folder / ".env").write_text(f"UNRELATED={DOTENV}\n")
    (folder / "agent.py").write_text(
        f"def answer(text): ...\nraise RuntimeError('broken', {everything()!r})"
    )
    write_suite(folder, providers=[{"name": "agent", "type": "python", "target": "agent:answer"}])
    ended = await ci_evals(tmp_path, *arguments, environ={"A_KEY": NAMED, "MY_TOKEN": IN_URL})
    assert ended.code == 2
    assert "RuntimeError" in ended.err
    assert [form for form in FORMS if form in ended.out + ended.err] == []


async def test_an_error_tells_no_secret_that_only_the_suite_knows(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "import os\ndef answer(text): ...\nraise RuntimeError('broken', os.environ['LOGIN'])"
    )
    agent = {"type": "python", "target": "agent:answer"}
    write_suite(tmp_path, vars={"login": "${LOGIN}"}, providers=[agent])
    ended = await ci_evals(tmp_path, "run", environ={"LOGIN": "of-a-service"})
    assert ended.code == 2
    assert "('broken', '***')" in ended.err
    write_suite(tmp_path, providers=[{"type": "${LOGIN}"}])
    ended = await ci_evals(tmp_path, "run", environ={"LOGIN": "of-a-service"})
    assert ended.code == 2
    assert "providers[0].type: unknown provider type '${LOGIN}'" in ended.err


async def test_a_crash_of_our_own_tells_no_secret(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"UNRELATED={DOTENV}\n")
    write_suite(tmp_path)
    broken = (
        "import ci_evals.cli.run as conclusion\n"
        f"def fail(*_, **__): raise RuntimeError({everything()!r})\n"
        "conclusion.summarize = fail\n"
        "from ci_evals.cli.main import main; import sys; sys.argv = ['ci-evals', 'run']\nmain()"
    )
    environ = {"A_KEY": NAMED, "MY_TOKEN": IN_URL}
    ended = python(tmp_path, "-c", broken, environ=environ)
    assert ended.code == 3
    assert "bug in ci-evals" in ended.err
    assert [form for form in FORMS if form in ended.out + ended.err] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--resume"),
        ("run", "--resume-from", "earlier", "--out", "new"),
        ("merge", "earlier", "--out", "new"),
    ],
)
async def test_what_was_no_secret_when_it_was_written_is_one_in_what_is_kept(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    write_suite(
        tmp_path, providers=[{"name": "echo", "type": "mock", "default": f"it is {DOTENV}"}]
    )
    for name in ("ci-evals-results", "earlier"):
        await ci_evals(tmp_path, "run", "--out", name)
        assert DOTENV in (tmp_path / name / "report.json").read_text()
    (tmp_path / ".env").write_text(f"UNRELATED={DOTENV}\n")
    ended = await ci_evals(tmp_path, *arguments)
    assert ended.code == 1, ended.err
    out = tmp_path / arguments[-1] if "--out" in arguments else tmp_path / "ci-evals-results"
    report = json.loads((out / "report.json").read_text())
    assert [result["response"]["output"] for result in report["results"]] == ["it is ***"]
    assert DOTENV not in ended.out + ended.err + "".join(
        (out / name).read_text() for name in REPORTS
    )
    assert [path for path in out.iterdir() if DOTENV in path.read_text()] == []


async def test_a_case_that_is_called_by_a_secret_is_kept_when_the_run_is_gone_on_with(
    tmp_path: Path,
) -> None:
    case = {"id": f"about {DOTENV}", "input": "hello", "expect": [{"equals": "hello"}]}
    write_suite(tmp_path, [case, {**case, "id": "greeting"}])
    await ci_evals(tmp_path, "run")
    (tmp_path / ".env").write_text(f"UNRELATED={DOTENV}\n")
    for _ in range(2):
        ended = await ci_evals(tmp_path, "run", "--resume")
        assert "Resumed: 2 of 2 runs kept" in ended.out
    assert DOTENV not in (tmp_path / "ci-evals-results" / "results.jsonl").read_text()


REPORTS = ("report.json", "junit.xml", "summary.md")


async def test_the_name_of_the_suite_stays_readable(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("PROJECT=flight-agent\n")
    write_suite(tmp_path, name="flight-agent")
    await ci_evals(tmp_path, "run")
    report = json.loads((tmp_path / "ci-evals-results" / "report.json").read_text())
    assert report["suite"]["name"] == "flight-agent"


async def test_the_value_of_a_port_or_an_interpreter_stays_readable(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("AGENT_PORT=tcp:8080-8089\nHOME_KEY=front-door-7\n")
    answer = "served by ${PYTHON} at ${AGENT_PORT} behind ${HOME_KEY}"
    provider = {"name": "agent", "type": "mock", "default": answer}
    case = {"id": "a", "input": "hi", "expect": [{"contains": "python3"}]}
    write_suite(tmp_path, [case], providers=[provider])
    ended = await ci_evals(tmp_path, "run", environ={"PYTHON": "/opt/python3"})
    assert ended.code == 0, ended.out + ended.err
    (result,) = json.loads((tmp_path / "ci-evals-results" / "report.json").read_text())["results"]
    assert result["response"]["output"] == "served by /opt/python3 at tcp:8080-8089 behind ***"


async def test_a_config_error_quotes_no_secret(tmp_path: Path) -> None:
    write_suite(
        tmp_path,
        runs="${NAMED_KEY}",
        timeout_s="${URL_KEY}",
        providers=[chat("${NAMED_KEY}", typo=SHAPED)],
    )
    ended = await run(tmp_path)
    assert ended.code == 2
    assert [form for form in FORMS if form in ended.out + ended.err] == []
