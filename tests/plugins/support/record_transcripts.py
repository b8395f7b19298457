"""Recordings of coding agents for the tests: `make transcripts`.

Installs the current release of each agent from npm and runs it as docs/recipes/coding-agents.md
does, on a scripted model API on loopback. Needs Node.js.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from leftovers import journaled
from loopback import on_loopback
from processes import ci_evals
from suites import write_files, write_suite, write_task

from ci_evals.faults import ErrorKind
from ci_evals.model.response import Response, ToolCall, Usage
from ci_evals.providers.mock_apis import AnthropicMessages, GenerateContent, ModelApi, Responses

_DOCS: Final = Path("docs/recipes/coding-agents.md")
_PACKAGES: Final = {
    "claude-code": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini-cli": "@google/gemini-cli",
    "opencode": "opencode-ai",
}
_SKILL: Final = """---
name: release-notes
description: How this shop writes release notes.
---
Write a line below "### Fixed".
"""
_SHOP: Final = {
    "shop.py": "def total(prices):\n    return sum(prices) - 1\n",
    "check.sh": "if grep -q '1$' shop.py; then echo 'FAIL: total'; exit 1; fi\necho ok\n",
}
_VERIFIER: Final = """reward=0
if sh check.sh; then reward=1; fi
echo $reward > "$LOGS_DIR/verifier/reward.txt"
"""
_PATCH: Final = """*** Begin Patch
*** Update File: shop.py
@@
 def total(prices):
-    return sum(prices) - 1
+    return sum(prices)
*** End Patch
"""


@dataclass(frozen=True)
class Turn:
    """One answer of the model: the texts, each a block of its own, and the calls."""

    texts: Sequence[str] = ()
    calls: Sequence[ToolCall] = ()


@dataclass(frozen=True)
class Refusal:
    """The model API's answer to every request that offers tools."""

    status: int
    message: str
    kind: ErrorKind | None = None


@dataclass(frozen=True)
class Agent:
    """What an agent's model does, and how the agent is told where its model is.

    `{url}` in `env`, and in `files` below the home folder, is the address of the model API.
    """

    turns: Sequence[Turn]
    env: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Recording:
    """A file of transcripts, and the run that it is made from."""

    file: str
    agent: str
    refusal: Refusal | None = None
    output_format: str = "stream-json"


_FIRST: Final = "I will look at the notes first."
_LAST: Final = Turn(["`total` subtracted 1. ", "I removed that."])
_REFUSALS: Final = {
    "unauthorized": Refusal(401, "The API key is wrong."),
    "rate-limit": Refusal(429, "Too many requests.", "rate_limit"),
}


def turns(first: ToolCall, *others: ToolCall | Turn) -> Sequence[Turn]:
    """The answers of a model that makes one call after the other."""
    answers = [Turn([_FIRST], [first])]
    for other in others:
        if isinstance(other, Turn):
            answers.append(other)
        else:
            answers.append(Turn(calls=[other]))
    return [*answers, _LAST]


def script(call: str) -> ToolCall:
    """A call of Codex's one tool, whose JavaScript calls the others."""
    return ToolCall("exec", f"text(await tools.{call})")


_AGENTS: Final = {
    "claude-code": Agent(
        turns(
            ToolCall("Skill", {"skill": "release-notes"}),
            ToolCall("Bash", {"command": "sh check.sh", "description": "Check the shop"}),
            ToolCall(
                "Agent",
                {
                    "description": "Find the bug",
                    "prompt": "Where is total computed?",
                    "subagent_type": "Explore",
                    "run_in_background": False,
                },
            ),
            ToolCall("Read", {"file_path": "check.sh"}),  # by the sub-agent
            Turn(["In line 2 of shop.py."]),
            ToolCall("Read", {"file_path": "shop.py"}),
            ToolCall("Edit", {"file_path": "shop.py", "old_string": " - 1", "new_string": ""}),
        ),
        {
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_API_KEY": "key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
        },
    ),
    "codex": Agent(
        turns(
            script("exec_command({cmd: 'cat .agents/skills/release-notes/SKILL.md'})"),
            script("exec_command({cmd: 'sh check.sh'})"),
            script("exec_command({cmd: 'cat shop.py'})"),
            script(f"apply_patch({json.dumps(_PATCH)})"),
        ),
        {"CODEX_API_KEY": "key"},
        {
            ".codex/config.toml": """
model_provider = "loopback"

[model_providers.loopback]
name = "loopback"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "CODEX_API_KEY"
request_max_retries = 1
stream_max_retries = 1
"""
        },
    ),
    "gemini-cli": Agent(
        turns(
            ToolCall("activate_skill", {"name": "release-notes"}),
            ToolCall("run_shell_command", {"command": "sh check.sh"}),
            ToolCall("read_file", {"file_path": "shop.py"}),
            ToolCall(
                "replace",
                {
                    "file_path": "shop.py",
                    "instruction": "Do not subtract 1.",
                    "old_string": " - 1",
                    "new_string": "",
                },
            ),
        ),
        {"GEMINI_API_KEY": "key", "GOOGLE_GEMINI_BASE_URL": "{url}"},
        {
            ".gemini/settings.json": """{
  "general": {"maxAttempts": 1},
  "security": {"auth": {"selectedType": "gemini-api-key"}}
}"""
        },
    ),
    "opencode": Agent(
        turns(
            ToolCall("skill", {"name": "release-notes"}),
            ToolCall("bash", {"command": "sh check.sh", "description": "Check the shop"}),
            ToolCall("read", {"filePath": "shop.py"}),
            ToolCall("edit", {"filePath": "shop.py", "oldString": " - 1", "newString": ""}),
        ),
        {
            "OPENCODE_CONFIG_CONTENT": """{
  "model": "anthropic/claude-sonnet-4-5",
  "provider": {"anthropic": {"options": {"apiKey": "key", "baseURL": "{url}/v1"}}}
}"""
        },
    ),
}


def main(clis: Path, transcripts: Path) -> None:
    """Install the agents, and record each at work and refused by its model."""
    releases = install(clis)
    recordings = [Recording("gemini-cli.json", "gemini-cli", output_format="json")]
    for agent in _AGENTS:
        recordings.append(Recording(f"{agent}.jsonl", agent))
        for why, refusal in _REFUSALS.items():
            recordings.append(Recording(f"{agent}-{why}.jsonl", agent, refusal))
    for recording in recordings:
        with tempfile.TemporaryDirectory(prefix="ci-evals-recording-") as scratch:
            printed = asyncio.run(record(recording, clis, Path(scratch)))
            (transcripts / recording.file).write_text(normal(printed, Path(scratch)), "utf-8")
        print(f"{recording.file}: {recording.agent} {releases[recording.agent]}")  # noqa: T201
    (transcripts / "releases.json").write_text(json.dumps(releases, indent=2) + "\n", "utf-8")


def install(clis: Path) -> Mapping[str, str]:
    """Install the current release of each agent, and return which that is."""
    packages = [f"{package}@latest" for package in _PACKAGES.values()]
    npm = ("npm", "install", "--no-audit", "--no-fund", "--prefix", str(clis))
    clis.mkdir(parents=True, exist_ok=True)
    subprocess.run([*npm, *packages], check=True)
    releases = {}
    for agent, package in _PACKAGES.items():
        described = (clis / "node_modules" / package / "package.json").read_text("utf-8")
        releases[agent] = json.loads(described)["version"]
    return releases


async def record(recording: Recording, clis: Path, scratch: Path) -> str:
    """Return what an agent prints for `ci-evals run`."""
    agent = _AGENTS[recording.agent]
    write_files(scratch / "skills" / "release-notes", {"SKILL.md": _SKILL})
    write_task(scratch, "fix", test=_VERIFIER, instruction="Fix the shop.", environment=_SHOP)
    command = documented_command(recording.agent).replace("stream-json", recording.output_format)
    expect: list[Mapping[str, Any]] = [{"reward": 1}]
    if recording.file.endswith(".jsonl"):  # else without steps
        expect.append({"skill_used": "release-notes"})
    async with on_loopback(scripted_api(agent.turns, recording.refusal)) as url:
        for path, text in agent.files.items():
            write_files(scratch / "home", {path: text.replace("{url}", url)})
        env = {name: text.replace("{url}", url) for name, text in agent.env.items()}
        provider = {
            "name": "agent",
            "type": "task",
            "command": command,
            "transcript": recording.agent,
            "skills": ["skills/release-notes"],
            "timeout_s": 300,
            "env": {**env, "HOME": str(scratch / "home"), "PATH": search_path(clis)},
        }
        cases = {"tasks": "tasks/**/task.toml"}
        write_suite(scratch, cases, providers=[provider], expect=expect)
        ended = await ci_evals(scratch, "run")
    (result,) = journaled(scratch / "ci-evals-results")
    kept = scratch / "ci-evals-results" / "tasks" / "fix" / "agent" / "run-1"
    wanted = "passed"
    if recording.refusal is not None:
        wanted = "errored"
    if result["status"] != wanted:
        sys.exit(f"{recording.file}: {ended.out}{(kept / 'agent.stderr.txt').read_text()}")
    return (kept / "agent.stdout.txt").read_text("utf-8")


def documented_command(agent: str) -> str:
    """Return the command in an agent's row of the docs."""
    row = re.search(
        rf"^\|[^|]*\| `{agent}` \| `([^`]*)` \|$", _DOCS.read_text("utf-8"), re.MULTILINE
    )
    if row is None:
        sys.exit(f"{_DOCS} has no command of {agent}")
    return row[1]


def search_path(clis: Path) -> str:
    """Return the PATH of an agent. OpenCode needs ripgrep, which Codex brings along."""
    ripgrep = next(clis.glob("node_modules/@openai/*/vendor/*/codex-path"))
    return os.pathsep.join([str(clis / "node_modules" / ".bin"), str(ripgrep), os.environ["PATH"]])


# The model API.


def scripted_api(turns: Sequence[Turn], refusal: Refusal | None) -> web.Application:
    """Return an API that gives the answers one after the other to requests that offer tools.

    Agents also ask for titles, and which model to use, without tools.
    """
    answers = iter(turns)
    numbers = count(1)

    def answer_as(api: ModelApi) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(http: web.Request) -> web.StreamResponse:
            body = await http.json()
            turn = Turn(['{"complexity_reasoning": "simple", "complexity_score": 5}'])
            if _offers_tools(body):
                if refusal is not None:
                    error = api.error(refusal.status, refusal.kind, refusal.message)
                    return web.json_response(error, status=refusal.status)
                turn = next(answers)
            model = body.get("model") or http.match_info["model"]
            document = _render(api, turn, model, next(numbers))
            if not body.get("stream") and http.match_info.get("method") != "streamGenerateContent":
                return web.json_response(document)
            stream = web.StreamResponse(headers={"Content-Type": api.stream_type})
            await stream.prepare(http)
            for name, data in api.events(document):
                await stream.write(api.frame(name, data))
            return stream

        return answer

    app = web.Application(client_max_size=50 * 1024**2)
    app.router.add_post("/v1/messages", answer_as(AnthropicMessages()))
    app.router.add_post("/v1/responses", answer_as(Responses()))
    app.router.add_post("/v1beta/models/{model}:{method}", answer_as(GenerateContent()))
    return app


def _offers_tools(body: Mapping[str, Any]) -> bool:
    if body.get("tools"):
        return True
    # Codex has its tools in an item of the input.
    return any(item.get("type") == "additional_tools" for item in body.get("input", ()))


def _render(api: ModelApi, turn: Turn, model: str, number: int) -> dict[str, Any]:
    """Return an answer of a model whose name is more exact than the requested one.

    Of 1,000 input tokens, 700 come from the cache; of 40 output tokens, 30 are thoughts.
    """
    calls = tuple(
        replace(call, id=f"call_{number}_{index}") for index, call in enumerate(turn.calls)
    )
    response = Response("".join(turn.texts), calls, Usage(1000, 40))
    answer = api.render(response, f"{model}-001", number)
    match api:
        case AnthropicMessages():
            used = [block for block in answer["content"] if block["type"] == "tool_use"]
            answer["content"] = [{"type": "text", "text": text} for text in turn.texts] + used
            cache = {"cache_read_input_tokens": 700, "cache_creation_input_tokens": 200}
            answer["usage"] |= {"input_tokens": 100, **cache}
        case Responses():
            for item in answer["output"]:
                if item["type"] == "function_call":  # Codex's tool takes text
                    item |= {"type": "custom_tool_call", "input": item.pop("arguments")}
                else:
                    (part,) = item["content"]
                    item["content"] = [{**part, "text": text} for text in turn.texts]
            answer["usage"]["input_tokens_details"] = {"cached_tokens": 700}
            answer["usage"]["output_tokens_details"] = {"reasoning_tokens": 30}
        case GenerateContent():
            content = answer["candidates"][0]["content"]
            used = [part for part in content["parts"] if "functionCall" in part]
            content["parts"] = [{"text": text} for text in turn.texts] + used
            thoughts = {"candidatesTokenCount": 10, "thoughtsTokenCount": 30}
            answer["usageMetadata"] |= {"cachedContentTokenCount": 700, **thoughts}
    return answer


# What differs from machine to machine and from run to run.

_START_S: Final = 1_767_225_600  # 2026
_TIME: Final = r"(?<!\d)1[789]\d{11}(?!\d)|\d{4}-\d\d-\d\dT[\d:.]+Z"
_ID: Final = (
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=ses_|prt_|msg_)\w{20,}"
    r"|(?<=_)1[789]\d{11}(?=_)|\b[0-9a-f]{40}\b|\b[0-9a-f]{17}\b|(?<=\"run_id\":\")[\w-]+"
)


def normal(printed: str, scratch: Path) -> str:
    """Return a transcript without folders, ports, ids, times and durations of its own."""
    text = re.sub(r"[/\w.-]*/ci-evals-task-\w+/work", "/work", printed)
    text = re.sub(r"-[\w-]*ci-evals-task-[\w-]+-work", "-work", text)
    text = text.replace(str(scratch), "").replace(tempfile.gettempdir(), "/tmp")
    text = re.sub(r"(?<=127\.0\.0\.1:)\d+|\d+(?=\.sock)", "8000", text)
    text = re.sub(r"\w{3}, \d\d \w{3} \d{4} [\d:]+ GMT|Python/[\d.]+ aiohttp/[\d.]+", "-", text)
    text = re.sub(r'((?:_ms|Ms)": ?)[\d.]+', r"\g<1>1000", text)
    ids: dict[str, str] = {}
    text = re.sub(_ID, lambda found: ids.setdefault(found[0], f"{len(ids) + 1:04}"), text)
    seconds = count(_START_S)
    return re.sub(_TIME, lambda found: _time_like(found[0], next(seconds)), text)


def _time_like(written: str, at_s: int) -> str:
    """Return a time in the form of another one."""
    if written.isdecimal():
        return str(at_s * 1000)
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
