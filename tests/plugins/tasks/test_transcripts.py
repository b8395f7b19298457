"""Recorded transcripts of coding agents, by their published formats, as responses."""

import json
from pathlib import Path
from typing import Any

import pytest

from ci_evals.errors import ProviderError
from ci_evals.model.response import Response, Step, Usage
from ci_evals.plugins.tasks.transcripts.reader import (
    MAX_CHARACTERS,
    MAX_EVENT_BYTES,
    TRANSCRIPTS,
)
from ci_evals.providers.answer import MAX_STEP_CHARACTERS, MAX_STEPS

RECORDED = Path(__file__).parents[2] / "data" / "transcripts"
FORMATS = ["claude-code", "codex", "gemini-cli", "opencode"]


def recorded(name: str) -> bytes:
    return (RECORDED / name).read_bytes()


def answer(format_name: str, data: bytes) -> Response:
    return TRANSCRIPTS[format_name].answer(data)


def failure(format_name: str, data: bytes, ended: ProviderError | None = None) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        TRANSCRIPTS[format_name].answer(data, ended)
    return raised.value


def calls(response: Response) -> list[Step]:
    return [step for step in response.steps or () if step.kind == "tool_call"]


def test_claude_code_tells_requests_tools_sub_agents_cost_and_tokens_of_all_models() -> None:
    response = answer("claude-code", recorded("claude-code.jsonl"))
    assert response.output == "`total` subtracted 1. I removed that; the test passes."
    assert response.model == "claude-sonnet-4-5-20250929"
    assert response.finish_reason == "end_turn"
    assert response.cost_usd == 0.0421
    assert response.usage == Usage(16 + 4 + 43200 + 4800 + 1000, 286, 43200, 5800)
    assert response.steps is not None
    assert [(step.kind, step.name, step.agent) for step in response.steps] == [
        ("model_request", "claude-sonnet-4-5-20250929", None),
        ("tool_call", "Bash", None),
        ("model_request", "claude-sonnet-4-5-20250929", None),
        ("tool_call", "Task", None),
        ("model_request", "claude-haiku-4-5", "Explore"),
        ("tool_call", "Read", "Explore"),
        ("model_request", "claude-sonnet-4-5-20250929", None),
        ("tool_call", "Edit", None),
        ("model_request", "claude-sonnet-4-5-20250929", None),
    ]
    assert response.steps[0].result == "I'll look at the failing test first."
    assert response.steps[0].usage == Usage(12004, 61, 10800, 1200)
    bash, task, read, edit = calls(response)
    assert bash.arguments == {"command": "python3 -m unittest", "description": "Run the tests"}
    assert (bash.result, bash.error) == (None, "Exit code 1\nFAIL: test_total")
    assert task.result == "shop.py, line 2"
    assert read.result == "def total(prices):\n    return sum(prices) - 1"
    assert (edit.result, edit.error) == ("The file /work/shop.py has been updated.", None)


def test_claude_code_as_one_object_tells_the_answer_and_the_cost() -> None:
    last = recorded("claude-code.jsonl").splitlines()[-1]
    for data in (last, b"[" + last + b"]", json.dumps(json.loads(last), indent=2).encode()):
        response = answer("claude-code", data)
        assert response.output.startswith("`total` subtracted 1.")
        assert response.cost_usd == 0.0421
        assert response.steps is None, "unknown: none would mean that it used no tool"


def test_claude_code_that_uses_up_its_turns_has_answered() -> None:
    lines = recorded("claude-code.jsonl").splitlines()
    end = {"type": "result", "subtype": "error_max_turns", "is_error": True, "total_cost_usd": 1.5}
    response = answer("claude-code", b"\n".join([*lines[:-1], json.dumps(end).encode()]))
    assert response.finish_reason == "max_turns"
    assert response.cost_usd == 1.5
    assert response.output == "`total` subtracted 1. I removed that; the test passes."


def test_claude_code_answers_with_all_parts_of_its_last_message() -> None:
    """Each part is an event of its own, and the end repeats only the last one."""

    def part(text: str, message_id: str) -> dict[str, Any]:
        message = {"id": message_id, "model": "m", "content": [{"type": "text", "text": text}]}
        return {"type": "assistant", "message": message}

    parts = [part("Let me see.", "m1"), part("It is ", "m2"), part("fixed.\n", "m2")]
    for result, output in (
        ("fixed.", "It is fixed.\n"),
        ("It is fixed.", "It is fixed.\n"),
        ("Something else.", "Something else."),
    ):
        end = {"type": "result", "subtype": "success", "is_error": False, "result": result}
        lines = [{"type": "system", "subtype": "init"}, *parts, end]
        data = b"\n".join(json.dumps(line).encode() for line in lines)
        assert answer("claude-code", data).output == output


def test_codex_tells_commands_changes_and_calls_of_mcp_servers() -> None:
    response = answer("codex", recorded("codex.jsonl"))
    assert response.output == "`total` subtracted 1. I removed that."
    assert response.usage == Usage(24763, 122, 24448)
    assert (response.model, response.cost_usd) == (None, None)
    command, change, search = calls(response)
    assert command.name == "command_execution"
    assert command.arguments == {"command": "/bin/bash -lc 'python3 -m unittest'"}
    assert (command.result, command.error) == ("FAIL: test_total\n", "exit status 1")
    assert change.name == "file_change"
    assert change.arguments == {"changes": [{"path": "/work/shop.py", "kind": "update"}]}
    assert (search.name, search.arguments) == ("docs.search", {"query": "total"})
    assert search.result == "the sum of all prices"


def test_gemini_cli_tells_how_long_tools_took() -> None:
    response = answer("gemini-cli", recorded("gemini-cli.jsonl"))
    assert response.output == "`total` subtracts 1, and I could not change it."
    assert (response.model, response.usage) == ("gemini-2.5-pro", Usage(10000, 300, 8000))
    assert response.steps is not None
    assert [(step.kind, step.name) for step in response.steps] == [
        ("message", "assistant"),
        ("tool_call", "run_shell_command"),
        ("tool_call", "replace"),
        ("message", "assistant"),
    ]
    shell, replace = calls(response)
    assert response.steps[0].result == "I will run the tests."
    assert (shell.result, shell.duration_s) == ("FAIL: test_total", 2.5)
    assert replace.error == "Failed to edit: 0 occurrences found"
    assert replace.duration_s == 0.25


def test_gemini_cli_as_one_document_after_a_line_of_its_own() -> None:
    response = answer("gemini-cli", recorded("gemini-cli.json"))
    assert (response.output, response.model) == ("Done.", "gemini-2.5-pro")
    assert response.steps is None
    assert response.usage == Usage(24939, 174, 21263)


def test_opencode_tells_requests_with_their_tokens_and_the_cost_of_all() -> None:
    response = answer("opencode", recorded("opencode.jsonl"))
    assert response.output == "`total` subtracts 1."
    assert response.cost_usd == pytest.approx(0.015)
    assert response.usage == Usage(671 + 21415 + 100 + 50 + 22000, 113, 43415, 50)
    assert response.steps is not None
    assert [(step.kind, step.name) for step in response.steps] == [
        ("model_request", ""),
        ("tool_call", "bash"),
        ("tool_call", "read"),
        ("model_request", ""),
        ("message", "assistant"),
    ]
    assert response.steps[0].usage == Usage(22086, 93, 21415)
    bash, read = calls(response)
    assert (bash.result, bash.duration_s) == ("FAIL: test_total\n", 1.5)
    assert read.error == "Error: File not found: /work/shop.txt"


def test_opencode_without_the_event_of_its_last_step_has_answered() -> None:
    lines = recorded("opencode.jsonl").splitlines()
    assert answer("opencode", b"\n".join(lines[:-1])).output == "`total` subtracts 1."


@pytest.mark.parametrize(
    ("format_name", "name", "kind", "status"),
    [
        ("claude-code", "claude-code-rate-limit.jsonl", "rate_limit", 429),
        ("codex", "codex-unauthorized.jsonl", "auth", 401),
        ("opencode", "opencode-overloaded.jsonl", "upstream", 529),
    ],
)
def test_an_outage_of_the_model_is_told_by_its_status(
    format_name: str, name: str, kind: str, status: int
) -> None:
    error = failure(format_name, recorded(name), ProviderError("crash", "exit status 1"))
    assert (error.kind, error.status) == (kind, status)
    assert error.message.startswith("the agent stopped")


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_transcript_that_is_cut_off_keeps_the_steps_before_the_cut(format_name: str) -> None:
    whole = recorded(f"{format_name}.jsonl")
    complete = answer(format_name, whole)
    lines = whole.splitlines(keepends=True)
    cut = b"".join(lines[: len(lines) // 2 + 1])
    for data in (cut, cut + lines[len(lines) // 2 + 1][:25], cut[:-2]):
        error = failure(format_name, data)
        assert error.kind == "bad_answer"
        kept = error.partial.steps
        names = [step.name for step in kept if step.kind == "tool_call"]
        assert names
        assert names == [step.name for step in calls(complete)][: len(names)]
        noun = "step" if len(kept) == 1 else "steps"
        assert error.message == (
            f"the agent's transcript is cut off; its transcript has {len(kept)} {noun}"
        )


@pytest.mark.parametrize("format_name", FORMATS)
def test_an_agent_that_was_ended_keeps_its_steps_and_its_reason(format_name: str) -> None:
    lines = recorded(f"{format_name}.jsonl").splitlines(keepends=True)
    ended = ProviderError("timeout", "the agent did not end within 5 s", detail="stderr")
    error = failure(format_name, b"".join(lines[:5]), ended)
    assert (error.kind, error.detail) == ("timeout", "stderr")
    assert error.message.startswith("the agent did not end within 5 s; its transcript has ")
    assert error.partial.steps


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("data", [b"", b"Fixed it.\n", b"{\n", b'{"other": 1}\n', b"[" * 100_000])
def test_other_output_is_said_with_the_options_to_use(format_name: str, data: bytes) -> None:
    error = failure(format_name, data)
    assert error.kind == "bad_answer"
    assert f"is not a transcript of {format_name}: it " in error.message
    assert f"run the agent with `{TRANSCRIPTS[format_name].options}`" in error.message
    ended = ProviderError("crash", "exit status 2")
    assert failure(format_name, data, ended) is ended


def twice(usage: Usage | None) -> Usage | None:
    return usage and usage + usage


def with_another_id(data: bytes) -> bytes:
    return data.replace(b"0c2f8d1e", b"1c2f8d1e").replace(b"0199a213", b"1199a213")


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("other_id", [False, True])
def test_two_sessions_in_one_transcript_add_up(format_name: str, other_id: bool) -> None:
    data = recorded(f"{format_name}.jsonl")
    second = data
    if other_id:
        second = with_another_id(data)
    once = answer(format_name, data)
    both = answer(format_name, data + second)
    assert both.output == once.output
    assert both.usage == twice(once.usage)
    assert once.steps is not None
    assert both.steps == once.steps * 2
    if once.cost_usd is None:
        assert both.cost_usd is None
    else:
        assert both.cost_usd == pytest.approx(once.cost_usd * 2)
    lines = second.splitlines(keepends=True)
    cut = failure(format_name, data + b"".join(lines[: len(lines) // 2]))
    assert "is cut off" in cut.message


def test_two_summaries_add_up() -> None:
    claude = recorded("claude-code.jsonl").splitlines()[-1]
    once, both = (answer("claude-code", data) for data in (claude, claude + b"\n" + claude))
    assert both.usage == twice(once.usage)
    assert both.cost_usd == pytest.approx(0.0842)


def test_a_session_that_goes_on_in_the_same_process_reports_its_totals() -> None:
    """Claude Code's and Codex's totals include the turns before."""
    claude = recorded("claude-code.jsonl").splitlines(keepends=True)
    once = answer("claude-code", b"".join(claude))
    end = json.loads(claude[-1])
    end["total_cost_usd"] *= 2
    for counts in end["modelUsage"].values():
        for name in counts:
            counts[name] *= 2
    both = answer("claude-code", b"".join([*claude, *claude[:-1], json.dumps(end).encode()]))
    assert both.usage == twice(once.usage)
    assert both.cost_usd == pytest.approx(0.0842)

    codex = recorded("codex.jsonl").splitlines(keepends=True)
    turn = {"type": "turn.completed", "usage": {"input_tokens": 30_000, "output_tokens": 200}}
    for goes_on in (codex[1:-1], codex[:-1]):  # as a further turn, or after `resume`
        response = answer("codex", b"".join([*codex, *goes_on, json.dumps(turn).encode()]))
        assert response.usage == Usage(30_000, 200, 0)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("other", FORMATS)
def test_a_transcript_of_another_agent_is_refused(format_name: str, other: str) -> None:
    if other == format_name:
        return
    error = failure(format_name, recorded(f"{other}.jsonl"))
    assert error.kind == "bad_answer"
    assert f"is not a transcript of {format_name}: it starts with " in error.message


def test_events_of_no_known_agent_between_a_beginning_and_an_end_are_no_transcript() -> None:
    """An agent that calls tools in events which are not read would pass every limit."""
    call = {"type": "call", "tool": "bash", "error": "failed"}
    for format_name, ends in [
        ("codex", [{"type": "turn.started"}, {"type": "turn.completed"}]),
        ("gemini-cli", [{"type": "init"}, {"type": "result", "status": "success"}]),
    ]:
        data = "\n".join(map(json.dumps, [ends[0], *[call] * 30, ends[1]])).encode()
        assert "is not a transcript of" in failure(format_name, data).message


@pytest.mark.parametrize("format_name", FORMATS)
def test_fields_of_other_types_and_missing_ones_are_not_a_crash(format_name: str) -> None:
    events = [json.loads(line) for line in recorded(f"{format_name}.jsonl").splitlines()]
    wrong: Any
    for wrong in (None, 7, "text", [], [[1]], {"x": {}}, -1, 1e400, True):
        lines = []
        for event in events:
            for key in event:
                lines.append({**event, key: wrong})
                inner = event[key]
                if isinstance(inner, dict):
                    lines += [{**event, key: {**inner, name: wrong}} for name in inner]
        data = "\n".join(map(json.dumps, [*lines, *events])).encode()
        assert TRANSCRIPTS[format_name].of(data).response().steps


def test_hostile_text_is_data() -> None:
    hostile = "::error::x\n<script>\x1b[31m\x00\ud800 ](javascript:alert(1))"
    lines = recorded("codex.jsonl").splitlines()
    message = {"type": "agent_message", "id": "x", "text": hostile}
    call = {"type": "mcp_tool_call", "id": "y", "server": hostile, "tool": hostile}
    events = [{"type": "item.completed", "item": item} for item in (message, call)]
    extra = [json.dumps(event).encode() for event in events]
    response = answer("codex", b"\n".join([*lines[:-1], *extra, lines[-1]]))
    assert response.output == hostile.replace("\ud800", "\ufffd")


def test_a_long_transcript_is_read_within_bounds() -> None:
    call = {
        "type": "tool_use",
        "part": {"tool": "read", "state": {"status": "completed", "output": "x" * 50_000}},
    }
    line = json.dumps(call).encode() + b"\n"
    end = json.dumps({"type": "text", "part": {"text": "done"}}).encode()
    too_long = b'{"type": "text", "part": {"text": "' + b"y" * MAX_EVENT_BYTES + b'"}}\n'
    response = answer("opencode", line * 800 + too_long + end)
    assert response.output == "done"
    assert response.steps is not None
    assert len(response.steps) == 801
    lengths = [len(step.result or "") for step in response.steps]
    assert max(lengths) == MAX_STEP_CHARACTERS
    assert sum(lengths) < MAX_CHARACTERS + 801 * 200 + MAX_STEP_CHARACTERS
    short = json.dumps({"type": "tool_use", "part": {"tool": "ls"}}).encode() + b"\n"
    many = answer("opencode", short * (MAX_STEPS + 7) + end)
    assert many.steps is not None
    assert len(many.steps) == MAX_STEPS
    assert many.metadata == {"steps_left_out": 8}
    assert many.output == "done"
