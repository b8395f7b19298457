"""ci-evals as a process in a job of GitHub Actions: its log, secrets and tokens."""

import json
import re
import sys
from pathlib import Path

import pytest
from fakes.http_server import serving
from hostile_texts import check_log, write_hostile_suite
from planted import DOTENV, FORMS, IN_URL, NAMED, PLANTED, everything, failing_suite, name_keys, run
from processes import Finished, ci_evals
from suites import AGENT, chat, write_suite
from token_scripts import TOKEN, accepting, counting

IN_ACTIONS = {"GITHUB_ACTIONS": "true"}


async def run_in_job(folder: Path, *arguments: str) -> Finished:
    summary = str(folder / "step-summary.md")
    return await run(folder, *arguments, **IN_ACTIONS, GITHUB_STEP_SUMMARY=summary)


# The log.

OURS = (
    "::group::Progress of test",
    "::endgroup::",
    "::error file=",
    "::notice title=ci-evals%3A ",
    "::warning title=ci-evals::",
)
COMMANDS = (
    "\n::error::pwned\n  ::set-output name=x::y\r::warning::cr\n"
    "##[error]old ##[group]x\n\x1b[0m::notice::ansi"
)


def log_lines(text: bytes) -> list[str]:
    """The lines that a runner sees: a lone CR may start one."""
    return text.decode().replace("\r", "\n").split("\n")


async def test_secrets_are_masked_before_commands_are_stopped_for_all_that_follows(
    tmp_path: Path,
) -> None:
    failing_suite(tmp_path, {"name": "echo", "type": "mock", "default": COMMANDS + everything()})
    name_keys(tmp_path)
    ended = await run_in_job(tmp_path)
    lines = ended.out.splitlines()
    first = next(number for number, line in enumerate(lines) if not line.startswith("::add-mask::"))
    masked = {line.removeprefix("::add-mask::") for line in lines[:first]}
    assert masked >= {NAMED.replace("%", "%25"), IN_URL, DOTENV}
    body, tokens = [], []
    for line in lines[
        first:
    ]:  # outside of what is stopped there are but commands of ours, and the verdict
        if line.startswith("::stop-commands::"):
            tokens.append(line.removeprefix("::stop-commands::"))
        elif tokens and line == f"::{tokens[-1]}::":
            body.append("")
        elif line.startswith(OURS):
            assert not any(secret in line for secret in PLANTED)
        else:
            body.append(line)
    assert len(set(tokens)) == len(tokens) > 1
    assert all(len(token) >= 32 for token in tokens)
    assert len("\n".join(body)) > 100
    assert not any(token in line for token in tokens for line in body)
    check_harmless("\n".join(body).encode())
    summary = (tmp_path / "step-summary.md").read_text()
    assert not any(form in text for form in FORMS for text in (*body, summary))
    assert body[-1].startswith("FAIL: ")


async def test_what_a_function_prints_is_no_workflow_command(tmp_path: Path) -> None:
    printing = "import os, sys\n" + f"text = {COMMANDS!r}\n" + PRINTS_COMMANDS
    (tmp_path / "agent.py").write_text(printing)
    failing_suite(tmp_path, {"name": "agent", "type": "python", "target": "agent:answer"})
    ended = await run_in_job(tmp_path)
    check_harmless(ended.stderr)
    assert "pwned" in ended.err
    assert "pwned" not in ended.out.partition("::stop-commands::")[0]


PRINTS_COMMANDS = """
def answer(_):
    print(text)
    print(text, file=sys.stderr)
    print(":", ":error::split", sep="")
    print("a", "::error::split", sep="\\r")
    raise RuntimeError(text)
"""


async def test_with_json_the_commands_go_where_the_log_is(tmp_path: Path) -> None:
    failing_suite(tmp_path, {"name": "echo", "type": "mock", "default": COMMANDS})
    name_keys(tmp_path)
    ended = await run_in_job(tmp_path, "--format", "json")
    json.loads(ended.stdout)
    assert ended.err.startswith("::add-mask::")
    assert "##[" not in ended.out


def check_harmless(text: bytes) -> None:
    for line in log_lines(text):
        bare = line.replace("\x1b[0m", "").lstrip()
        assert not bare.startswith("::"), line
        assert "##[" not in line


async def test_in_actions_an_answer_commands_nobody(tmp_path: Path) -> None:
    evil = {"id": "evil", "input": "::error::owned\n##[error]owned", "expect": [{"is_json": True}]}
    write_suite(tmp_path, [evil])
    await ci_evals(tmp_path, "run")
    for output in ("text", "markdown", "json"):
        ended = await ci_evals(tmp_path, "explain", "evil", "--format", output, environ=IN_ACTIONS)
        assert "owned" in ended.out
        assert not any(
            line.lstrip().startswith("::") or "##[" in line for line in ended.out.splitlines()
        )


OWN_ERROR = re.compile(
    r"::error (file=[\w./-]+,(line=\d+,)?title=ci-evals)?::|::error::(?=\d+ more)"
)
"""The commands that end the job's log; what they quote must not be others."""


async def test_config_errors_quote_hostile_text_harmlessly(tmp_path: Path) -> None:
    write_hostile_suite(tmp_path)
    ended = await ci_evals(tmp_path, "validate", environ=IN_ACTIONS)
    assert ended.code == 2
    assert "Traceback" not in ended.err
    assert len(ended.err) < 100_000
    lines = ended.err.splitlines()
    own = [line for line in lines if OWN_ERROR.match(line)]
    assert len(own) == 10
    check_log(
        "\n".join([OWN_ERROR.sub("", line, count=1) if line in own else line for line in lines])
    )


async def test_a_step_summary_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    write_suite(tmp_path)
    ended = await ci_evals(
        tmp_path, "run", environ={**IN_ACTIONS, "GITHUB_STEP_SUMMARY": str(tmp_path)}
    )
    assert ended.code == 0
    assert "GITHUB_STEP_SUMMARY" in ended.out


# Tokens.


@pytest.mark.skipif(sys.platform == "win32", reason="the command is a shell script")
async def test_every_token_that_a_command_prints_is_masked(tmp_path: Path) -> None:
    counting(tmp_path)
    async with serving() as server:
        server.answers(accepting("ya29-tok-2-Zx9qPw"))
        write_suite(tmp_path, providers=[chat(server.url, retries=0, **TOKEN)])
        ended = await ci_evals(tmp_path, "run", environ=IN_ACTIONS)
    shown = [line for line in (ended.out + ended.err).splitlines() if "Zx9qPw" in line]
    assert shown == ["::add-mask::ya29-tok-1-Zx9qPw", "::add-mask::ya29-tok-2-Zx9qPw"]


SERVICE = """
import http.server, json, sys
from agent import answer

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"answer": answer("?")}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
TELLING = """
import os

def answer(question):
    tokens = ("GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN")
    return f"{os.environ['KNOWN']}: {[name for name in tokens if name in os.environ]}"
"""


async def test_neither_code_under_test_nor_its_service_knows_a_token_of_the_job(
    tmp_path: Path, port: str
) -> None:
    (tmp_path / "agent.py").write_text(TELLING)
    (tmp_path / "service.py").write_text(SERVICE)
    (tmp_path / "program.py").write_text("from agent import answer\nprint(answer('?'))")
    url = f"http://127.0.0.1:{port}/"
    serve = {"command": [sys.executable, "service.py", port], "url": url, "timeout_s": 30}
    service = {"type": "http", "url": url, "method": "GET", "output": "$.answer", "serve": serve}
    program = {"type": "command", "command": [sys.executable, "program.py"]}
    case = {"id": "tokens", "input": "?", "expect": [{"equals": "known: []"}]}
    write_suite(tmp_path, [case], providers=[service, AGENT, program])
    tokens = {"GITHUB_TOKEN": "ghs_secret", "ACTIONS_RUNTIME_TOKEN": "eyJsecret"}
    ended = await ci_evals(tmp_path, "run", environ={**IN_ACTIONS, **tokens, "KNOWN": "known"})
    assert ended.code == 0, ended.out + ended.err
