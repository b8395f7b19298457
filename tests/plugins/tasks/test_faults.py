"""Whose fault it is that a coding agent stopped: the agent's, its model API's, or the suite's."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from leftovers import journaled
from processes import ci_evals
from suites import write_suite

from ci_evals.errors import ProviderError
from ci_evals.faults import ErrorKind, party_at_fault
from ci_evals.plugins.tasks.transcripts.reader import TRANSCRIPTS

Event = Mapping[str, Any]

STARTED = {"type": "thread.started", "thread_id": "t"}
ANSWERED = {"type": "item.completed", "item": {"type": "agent_message", "text": "Fixed."}}
STEP = {"type": "step_start", "part": {}}
TEXT = {"type": "text", "part": {"text": "Fixed."}}


def codex(message: str) -> list[Event]:
    notice = {"type": "error", "message": message}
    return [STARTED, notice, {"type": "turn.failed", "error": {"message": message}}]


def claude(error: str | None = None, text: str = "API Error", **end: Any) -> list[Event]:
    """Claude Code's own message about an error, and its end."""
    message = {"model": "<synthetic>", "content": [{"type": "text", "text": text}]}
    said = {"type": "assistant", "message": message, "error": error}
    result = {"type": "result", "subtype": "success", "is_error": True, "result": text, **end}
    return [said, result]


def claude_says(text: str, **end: Any) -> list[Event]:
    """Words of the model, and an end without any of the command's own."""
    message = {"id": "m", "model": "opus", "content": [{"type": "text", "text": text}]}
    result = {"type": "result", "subtype": "error_during_execution", "is_error": True, **end}
    return [{"type": "assistant", "message": message}, result]


def gemini(message: str, name: str = "unknown", **fields: Any) -> list[Event]:
    error = {"type": name, "message": message, **fields}
    return [{"type": "init"}, {"type": "result", "status": "error", "error": error}]


def opencode(name: str, **data: Any) -> list[Event]:
    return [STEP, {"type": "error", "error": {"name": name, "data": data}}]


def crash(status: int, stderr: str = "") -> ProviderError:
    return ProviderError("crash", f"exit status {status}", status=status, detail=stderr)


BAD_KEY = '{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}'
BAD_ARGUMENT = '{"error":{"code":400,"message":"tools[0]","status":"INVALID_ARGUMENT"}}'

STOPPED: list[tuple[str, list[Event], int, ErrorKind]] = [
    ("codex", codex("Quota exceeded. Check your plan and billing."), 1, "no_credit"),
    ("codex", codex("You\u2019ve hit your usage limit for gpt-5."), 1, "no_credit"),
    ("codex", codex("You've hit your usage limit. Try later."), 1, "no_credit"),
    ("codex", codex("Your workspace is out of credits."), 1, "no_credit"),
    ("codex", codex("You hit your spend cap set in your work"), 1, "no_credit"),
    ("codex", codex("To use Codex with your ChatGPT plan, up"), 1, "no_credit"),
    ("codex", codex("We\u2019re currently experiencing high demand"), 1, "upstream"),
    ("codex", codex("Selected model is at capacity. Please t"), 1, "upstream"),
    ("codex", codex("stream disconnected before completion: x"), 1, "upstream"),
    (
        "codex",
        codex("stream disconnected before completion: Rate limit reached for gpt-5"),
        1,
        "rate_limit",
    ),
    ("codex", codex("Connection failed: error sending request"), 1, "upstream"),
    ("codex", codex("request timed out"), 1, "upstream"),
    ("codex", codex("exceeded retry limit, last status: 429 T"), 1, "rate_limit"),
    ("codex", codex("exceeded retry limit, last status: 500 I"), 1, "upstream"),
    ("codex", codex("unexpected status 401 Unauthorized: key"), 1, "auth"),
    ("codex", codex("unexpected status 402 Payment Required"), 1, "no_credit"),
    ("codex", codex("unexpected status 409 Conflict: retry"), 1, "upstream"),
    ("codex", codex("Your access token could not be refreshed"), 1, "auth"),
    ("codex", codex("Missing environment variable: `KEY`."), 1, "auth"),
    ("codex", codex("unexpected status 404 Not Found: model"), 1, "crash"),
    ("codex", codex("unexpected status 413 Payload Too Large"), 1, "crash"),
    ("codex", codex("Codex ran out of room in the model's context window."), 1, "rejected"),
    ("codex", codex("Fatal error: x"), 1, "crash"),
    (
        "codex",
        codex("Reconnecting... 5/5 (stream disconnected before completion)")[:2],
        1,
        "upstream",
    ),
    ("claude-code", claude("billing_error", api_error_status=400), 1, "no_credit"),
    ("claude-code", claude("rate_limit", api_error_status=429), 1, "rate_limit"),
    ("claude-code", claude("overloaded", api_error_status=529), 1, "upstream"),
    ("claude-code", claude("authentication_failed"), 1, "auth"),
    ("claude-code", claude("oauth_org_not_allowed"), 1, "auth"),
    ("claude-code", claude("invalid_request", api_error_status=400), 1, "crash"),
    ("claude-code", claude("invalid_request", "Prompt is too long"), 1, "rejected"),
    ("claude-code", claude("invalid_request", "Credit balance is too low"), 1, "no_credit"),
    ("claude-code", claude("model_not_found", api_error_status=404), 1, "crash"),
    ("claude-code", claude("max_output_tokens"), 1, "crash"),
    ("claude-code", claude("unknown", "API Error: Connection error."), 1, "upstream"),
    ("claude-code", claude(None, "API Error: 502 Bad Gateway"), 1, "upstream"),
    ("claude-code", claude(None, "Invalid API key · Fix external API key"), 1, "auth"),
    ("claude-code", claude(None, "You've hit your limit · resets 3pm"), 1, "no_credit"),
    ("claude-code", claude_says("it returns status code 500"), 1, "crash"),
    ("claude-code", claude_says("x", result="API Error: 500"), 1, "crash"),
    ("claude-code", claude_says("x", api_error_status=503), 1, "upstream"),
    ("claude-code", claude_says("x", errors=["API Error: 503"]), 1, "upstream"),
    ("claude-code", claude(text="Invalid API key")[1:], 1, "auth"),
    ("claude-code", claude(text="API Error: 500")[1:], 1, "upstream"),
    ("claude-code", [{"type": "system"}, *claude(text="API Error: 500")[1:]], 1, "upstream"),
    ("claude-code", claude(text="It has status code 500.")[1:], 1, "crash"),
    ("gemini-cli", gemini(f"[API Error: {BAD_KEY}]"), 144, "auth"),
    ("gemini-cli", gemini("[API Error: API key not valid.]"), 144, "auth"),
    ("gemini-cli", gemini(f"[API Error: {BAD_ARGUMENT}]"), 144, "crash"),
    ("gemini-cli", gemini("[API Error: You exceeded]"), 173, "rate_limit"),
    ("gemini-cli", gemini("[API Error: Internal]"), 244, "upstream"),
    ("gemini-cli", gemini("[API Error: Unavailable]"), 247, "upstream"),
    ("gemini-cli", gemini("quota", code=429), 1, "rate_limit"),
    ("gemini-cli", gemini("no key", "FatalAuthenticationError"), 41, "auth"),
    ("gemini-cli", gemini("not trusted", "FatalUntrustedWorkspaceError"), 55, "setup"),
    ("gemini-cli", gemini("no docker", "FatalSandboxError"), 44, "environment"),
    ("gemini-cli", gemini("full", "no_space_left"), 54, "environment"),
    ("gemini-cli", gemini("wrong settings", "FatalConfigError"), 52, "crash"),
    ("gemini-cli", [], 41, "auth"),
    ("gemini-cli", [], 55, "setup"),
    ("gemini-cli", [], 173, "rate_limit"),
    ("gemini-cli", [], 144, "crash"),
    ("gemini-cli", [], 42, "crash"),
    ("gemini-cli", [], 1, "crash"),
    ("opencode", opencode("APIError", message="x", statusCode=402), 1, "no_credit"),
    ("opencode", opencode("APIError", message="x", statusCode=503), 1, "upstream"),
    ("opencode", opencode("APIError", message="x", statusCode=400), 1, "crash"),
    ("opencode", opencode("APIError", message="no route", isRetryable=True), 1, "upstream"),
    ("opencode", opencode("ProviderAuthError", message="no key"), 1, "auth"),
    ("opencode", opencode("ContextOverflowError", message="too long"), 1, "rejected"),
    ("opencode", opencode("MessageOutputLengthError"), 1, "crash"),
    # What follows is the rest of the answer that the error cut off.
    ("opencode", [*opencode("APIError", message="x", statusCode=529), TEXT], 1, "upstream"),
]


def written(events: list[Event]) -> bytes:
    return "\n".join(map(json.dumps, events)).encode()


@pytest.mark.parametrize(("format_name", "events", "exit_status", "kind"), STOPPED)
def test_what_stopped_an_agent(
    format_name: str, events: list[Event], exit_status: int, kind: ErrorKind
) -> None:
    ended = crash(exit_status)
    with pytest.raises(ProviderError) as raised:
        TRANSCRIPTS[format_name].answer(written(events), ended)
    assert raised.value.kind == kind
    is_the_change = party_at_fault(kind, own_code=True) == "change"
    assert is_the_change == (kind in ("crash", "rejected"))


GEMINI_TURNS = gemini("Reached max session turns", "FatalTurnLimitedError")
CLAUDE_TURNS = {"type": "result", "subtype": "error_max_turns", "is_error": True}
CLAUDE_BUDGET = {**CLAUDE_TURNS, "subtype": "error_max_budget_usd"}
GEMINI_NOTICE = {"type": "error", "message": "Maximum session turns exceeded"}
GEMINI_END = {"type": "result", "status": "success"}
LOST = {"type": "error", "message": "Reconnecting... 1/5 (stream disconnected before completion)"}
STOP = {"type": "step_finish", "part": {"reason": "stop"}}

GRADED: list[tuple[str, list[Event], int, str | None]] = [
    ("claude-code", [CLAUDE_TURNS], 1, "max_turns"),
    ("claude-code", [CLAUDE_BUDGET], 1, "max_budget_usd"),
    ("gemini-cli", GEMINI_TURNS, 53, "max_turns"),
    ("gemini-cli", [], 53, "max_turns"),
    ("gemini-cli", [GEMINI_NOTICE, GEMINI_END], 0, "max_turns"),
    ("codex", [STARTED, LOST, ANSWERED, {"type": "turn.completed"}], 0, None),
    ("opencode", [*opencode("APIError", statusCode=529), STEP, TEXT, STOP], 1, "stop"),
    ("opencode", [*opencode("APIError", statusCode=529), STEP, TEXT], 1, None),
    ("opencode", [*opencode("UnknownError", message="x"), TEXT, STOP], 1, "stop"),
]


@pytest.mark.parametrize(("format_name", "events", "exit_status", "finish_reason"), GRADED)
def test_the_work_of_an_agent_that_reached_a_limit_or_went_on_is_an_answer(
    format_name: str, events: list[Event], exit_status: int, finish_reason: str | None
) -> None:
    ended = crash(exit_status) if exit_status else None
    response = TRANSCRIPTS[format_name].answer(written(events), ended)
    assert response.finish_reason == finish_reason
    assert response.output == ("Fixed." if format_name in ("codex", "opencode") else "")


def test_an_agent_that_went_on_after_an_error_and_then_broke_has_failed() -> None:
    events = [*opencode("UnknownError", message="x"), STEP]
    with pytest.raises(ProviderError) as raised:
        TRANSCRIPTS["opencode"].answer(written(events), crash(1))
    assert raised.value.kind == "crash"


@pytest.mark.parametrize(
    ("format_name", "events", "exit_status", "advice"),
    [
        ("gemini-cli", gemini(f"[API Error: {BAD_KEY}]"), 144, "set GEMINI_API_KEY"),
        ("gemini-cli", [], 41, "set GEMINI_API_KEY"),
        ("gemini-cli", [], 55, "add `--skip-trust` to the command"),
        ("gemini-cli", gemini("x" * 400, "FatalUntrustedWorkspaceError"), 55, "add `--skip-trust`"),
        ("codex", codex("unexpected status 401"), 1, "set CODEX_API_KEY"),
        ("claude-code", claude("authentication_failed"), 1, "set ANTHROPIC_API_KEY"),
    ],
)
def test_what_to_do_is_said(
    format_name: str, events: list[Event], exit_status: int, advice: str
) -> None:
    with pytest.raises(ProviderError) as raised:
        TRANSCRIPTS[format_name].answer(written(events), crash(exit_status, "stderr"))
    assert advice in raised.value.message
    assert raised.value.detail == "stderr"


@pytest.mark.skipif(sys.platform == "win32", reason="commands are shell scripts")
@pytest.mark.parametrize(
    ("format_name", "events", "ends", "code", "told"),
    [
        ("codex", codex("Quota exceeded. Check your plan."), "exit 1", 3, "Quota exceeded"),
        (
            "codex",
            codex("We\u2019re currently experiencing high demand."),
            "exit 1",
            3,
            "high demand",
        ),
        (
            "codex",
            codex("Codex ran out of room in the model's context window."),
            "exit 1",
            1,
            "room",
        ),
        ("claude-code", claude("billing_error", api_error_status=400), "exit 1", 3, "API Error"),
        ("gemini-cli", gemini(f"[API Error: {BAD_KEY}]"), "exit 144", 3, "set GEMINI_API_KEY"),
        ("gemini-cli", [], "echo Please set an Auth method >&2; exit 41", 3, "set an Auth method"),
        ("gemini-cli", [], "echo not trusted >&2; exit 55", 3, "add `--skip-trust` to the command"),
    ],
)
async def test_an_agent_without_its_model_is_not_the_changes_fault(
    tmp_path: Path, format_name: str, events: list[Event], ends: str, code: int, told: str
) -> None:
    (tmp_path / "out.jsonl").write_bytes(written(events))
    provider = {
        "name": "agent",
        "type": "command",
        "transcript": format_name,
        "command": ["sh", "-c", f"cat out.jsonl; {ends}"],
    }
    cases = [{"id": "q", "input": "x", "expect": [{"not_empty": True}]}]
    write_suite(tmp_path, cases, providers=[provider])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == code, ended.out + ended.err
    (line,) = journaled(tmp_path / "ci-evals-results")
    assert line["status"] == {1: "failed", 3: "errored"}[code]
    assert told in line["error"]["message"]
    assert told in ended.out.replace("\n", " ")
    assert told in (tmp_path / "ci-evals-results" / "report.html").read_text()


async def test_thoughts_of_gemini_are_paid_as_output(tmp_path: Path) -> None:
    stats = {"total_tokens": 900, "input_tokens": 300, "output_tokens": 50, "cached": 100}
    events: list[Event] = [
        {"type": "init", "model": "gemini-2.5-flash"},
        {"type": "message", "role": "assistant", "content": "Hi.", "delta": True},
        {"type": "result", "status": "success", "stats": stats},
    ]
    (tmp_path / "out.jsonl").write_bytes(written(events))
    provider = {
        "name": "agent",
        "type": "command",
        "transcript": "gemini-cli",
        "command": [sys.executable, "-c", "print(open('out.jsonl').read())"],
        "price": {"input_per_mtok": 1, "output_per_mtok": 10},
    }
    write_suite(tmp_path, [{"input": "x"}], providers=[provider], expect=[{"equals": "Hi."}])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err
    (line,) = journaled(tmp_path / "ci-evals-results")
    assert line["response"]["usage"]["output_tokens"] == 600
    assert line["cost_usd"] == pytest.approx((300 + 6000) / 1e6)
