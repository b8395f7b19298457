"""Recorded transcripts of coding agents as responses; see `record_transcripts.py`."""

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
    assert response.output == "`total` subtracted 1. I removed that."
    assert response.finish_reason == "end_turn"
    assert response.cost_usd == 0.01872
    assert response.usage == Usage(8000, 320, 5600, 1600)
    assert response.steps is not None
    model = "claude-opus-5-5-001"
    assert [(step.kind, step.name, step.agent) for step in response.steps] == [
        ("model_request", model, None),
        ("tool_call", "Skill", None),
        ("model_request", model, None),
        ("tool_call", "Bash", None),
        ("model_request", model, None),
        ("tool_call", "Agent", None),
        ("model_request", model, "Explore"),
        ("tool_call", "Read", "Explore"),
        ("model_request", model, None),
        ("tool_call", "Read", None),
        ("model_request", model, None),
        ("tool_call", "Edit", None),
        ("model_request", model, None),
    ]
    assert response.steps[0].result == "I will look at the notes first."
    assert response.steps[0].usage == Usage(1000, 0, 700, 200)
    skill, bash, task, script, read, edit = calls(response)
    assert skill.arguments == {"skill": "release-notes"}
    assert bash.arguments == {"command": "sh check.sh", "description": "Check the shop"}
    assert (bash.result, bash.error) == (None, "Exit code 1\nFAIL: total")
    assert task.result is not None
    assert task.result.endswith("In line 2 of shop.py.")
    assert script.arguments == {"file_path": "check.sh"}
    assert read.result == "1\tdef total(prices):\n2\t    return sum(prices) - 1\n3\t"
    assert (edit.arguments, edit.error) == (
        {"file_path": "shop.py", "old_string": " - 1", "new_string": "", "replace_all": False},
        None,
    )


def test_the_model_is_the_one_that_answered() -> None:
    """The scripted API answers as the requested model with `-001`, and Gemini CLI asks a smaller
    model which one to use. Codex and OpenCode name none.
    """
    models = {name: answer(name, recorded(f"{name}.jsonl")).model for name in FORMATS}
    assert models == {
        "claude-code": "claude-opus-5-5-001",
        "codex": None,
        "gemini-cli": "gemini-3.8-flash-001",
        "opencode": None,
    }


def test_cache_writes_that_stay_for_an_hour_are_told() -> None:
    lines = recorded("claude-code.jsonl").splitlines()
    end = json.loads(lines[-1])
    (counts,) = end["modelUsage"].values()
    counts["cacheCreationEphemeral1hInputTokens"] = 600
    response = answer("claude-code", b"\n".join([*lines[:-1], json.dumps(end).encode()]))
    assert response.usage == Usage(8000, 320, 5600, 1600, 600)


def test_claude_code_as_one_object_tells_the_answer_and_the_cost() -> None:
    last = recorded("claude-code.jsonl").splitlines()[-1]
    for data in (last, b"[" + last + b"]", json.dumps(json.loads(last), indent=2).encode()):
        response = answer("claude-code", data)
        assert response.output == "I removed that.", "it has only the last part of the message"
        assert response.cost_usd == 0.01872
        assert response.steps is None, "unknown: none would mean that it used no tool"


def test_claude_code_that_uses_up_its_turns_has_answered() -> None:
    lines = recorded("claude-code.jsonl").splitlines()
    end = {"type": "result", "subtype": "error_max_turns", "is_error": True, "total_cost_usd": 1.5}
    response = answer("claude-code", b"\n".join([*lines[:-1], json.dumps(end).encode()]))
    assert response.finish_reason == "max_turns"
    assert response.cost_usd == 1.5
    assert response.output == "`total` subtracted 1. I removed that."


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


def test_codex_tells_commands_and_changes_of_files() -> None:
    response = answer("codex", recorded("codex.jsonl"))
    assert response.output == "`total` subtracted 1. I removed that."
    assert response.usage == Usage(5000, 200, 3500)
    assert (response.model, response.cost_usd) == (None, None)
    skill, check, read, change = calls(response)
    assert [call.name for call in (skill, check, read)] == ["command_execution"] * 3
    assert check.arguments == {"command": "/bin/bash -lc 'sh check.sh'"}
    assert (check.result, check.error) == ("FAIL: total\n", "exit status 1")
    assert read.result == "def total(prices):\n    return sum(prices) - 1\n"
    assert change.name == "file_change"
    assert change.arguments == {"changes": [{"path": "/work/shop.py", "kind": "update"}]}


def test_codex_tells_calls_of_mcp_servers_after_a_lost_connection() -> None:
    lost = {"type": "error", "message": "Reconnecting... 1/5 (stream disconnected)"}
    call = {
        "id": "item_9",
        "type": "mcp_tool_call",
        "server": "docs",
        "tool": "search",
        "arguments": {"query": "total"},
    }
    result = {"content": [{"type": "text", "text": "the sum of all prices"}]}
    events = [
        lost,
        {"type": "item.started", "item": call},
        {"type": "item.completed", "item": {**call, "result": result}},
    ]
    lines = recorded("codex.jsonl").splitlines()
    extra = [json.dumps(event).encode() for event in events]
    search = calls(answer("codex", b"\n".join([*lines[:-2], *extra, *lines[-2:]])))[-1]
    assert (search.name, search.arguments) == ("docs.search", {"query": "total"})
    assert search.result == "the sum of all prices"


def test_codex_tells_what_was_written_to_the_cache() -> None:
    lines = recorded("codex.jsonl").splitlines()
    end = json.loads(lines[-1])
    end["usage"]["cache_write_input_tokens"] = 500
    response = answer("codex", b"\n".join([*lines[:-1], json.dumps(end).encode()]))
    assert response.usage == Usage(5000, 200, 3500, 500)


def test_gemini_cli_tells_how_long_tools_took() -> None:
    response = answer("gemini-cli", recorded("gemini-cli.jsonl"))
    assert response.output == "`total` subtracted 1. I removed that."
    assert response.usage == Usage(6000, 240, 4200), "40 of each 1,040 tokens are output"
    assert response.steps is not None
    assert [(step.kind, step.name) for step in response.steps] == [
        ("message", "assistant"),
        ("tool_call", "activate_skill"),
        ("tool_call", "run_shell_command"),
        ("tool_call", "read_file"),
        ("tool_call", "replace"),
        ("message", "assistant"),
    ]
    shell = calls(response)[1]
    assert response.steps[0].result == "I will look at the notes first."
    assert (shell.arguments, shell.result) == ({"command": "sh check.sh"}, "FAIL: total")
    assert shell.duration_s == 1


def test_a_tool_that_failed_in_gemini_cli_has_an_error() -> None:
    lines = recorded("gemini-cli.jsonl").splitlines()
    error = {"type": "edit_no_occurrence_found", "message": "Failed to edit: 0 occurrences found"}
    at = next(at for at, line in enumerate(lines) if b'tool_name":"replace' in line) + 1
    failed = {**json.loads(lines[at]), "status": "error", "error": error}
    lines[at] = json.dumps(failed).encode()
    assert calls(answer("gemini-cli", b"\n".join(lines)))[-1].error == error["message"]


def test_gemini_cli_as_one_document_after_a_line_of_its_own() -> None:
    document = recorded("gemini-cli.json")
    for data in (document, b"Loaded cached credentials.\n" + document):
        response = answer("gemini-cli", data)
        assert response.output == "`total` subtracted 1. I removed that."
        assert response.model == "gemini-3.8-flash-001"
        assert response.steps is None
        assert response.usage == Usage(6000, 240, 4200)


def test_opencode_tells_requests_with_their_tokens_and_the_cost_of_all() -> None:
    response = answer("opencode", recorded("opencode.jsonl"))
    assert response.output == "`total` subtracted 1. I removed that.", "both parts"
    assert response.cost_usd == pytest.approx(0.0093)
    assert response.usage == Usage(5000, 200, 3500, 1000)
    assert response.steps is not None
    assert [(step.kind, step.name) for step in response.steps[:4]] == [
        ("model_request", ""),
        ("message", "assistant"),
        ("tool_call", "skill"),
        ("model_request", ""),
    ]
    assert response.steps[0].usage == Usage(1000, 40, 700, 200)
    skill, bash, read, edit = calls(response)
    assert [call.name for call in (skill, bash, read, edit)] == ["skill", "bash", "read", "edit"]
    assert (bash.result, bash.error) == ("FAIL: total\n", "exit status 1")
    assert (bash.duration_s, read.error) == (1, None)


def test_a_tool_that_failed_in_opencode_has_an_error() -> None:
    state = {"status": "error", "input": {}, "error": "Error: File not found: /work/shop.txt"}
    failed = {"type": "tool_use", "part": {"tool": "read", "state": state}}
    lines = recorded("opencode.jsonl").splitlines()
    response = answer("opencode", b"\n".join([lines[0], json.dumps(failed).encode(), *lines[1:]]))
    assert calls(response)[0].error == "Error: File not found: /work/shop.txt"


def test_opencode_without_the_event_of_its_last_step_has_answered() -> None:
    lines = recorded("opencode.jsonl").splitlines()
    response = answer("opencode", b"\n".join(lines[:-1]))
    assert response.output == "`total` subtracted 1. I removed that."


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize(
    ("why", "kind", "status"), [("rate-limit", "rate_limit", 429), ("unauthorized", "auth", 401)]
)
def test_a_refusal_of_the_models_api_is_told_by_its_status(
    format_name: str, why: str, kind: str, status: int
) -> None:
    data = recorded(f"{format_name}-{why}.jsonl")
    for ended in (None, ProviderError("crash", "exit status 1")):
        error = failure(format_name, data, ended)
        assert (error.kind, error.status) == (kind, status)
        assert error.message.startswith("the agent stopped")


def out_of_time(detail: str = "") -> ProviderError:
    return ProviderError("timeout", "the agent did not end within 5 s", detail=detail)


def test_an_agent_that_is_out_of_time_while_its_api_refuses_it_is_not_to_blame() -> None:
    claude = recorded("claude-code-rate-limit.jsonl").splitlines()
    assert b"api_retry" in claude[1]
    error = failure("claude-code", b"\n".join(claude[:2]), out_of_time())
    assert (error.kind, error.status) == ("rate_limit", 429)
    connection = {**json.loads(claude[1]), "error": "unknown", "error_status": None}
    data = b"\n".join([claude[0], json.dumps(connection).encode()])
    assert failure("claude-code", data, out_of_time()).kind == "upstream"

    gemini = b"\n".join(recorded("gemini-cli-rate-limit.jsonl").splitlines()[:2])
    retries = "".join(
        f"Attempt {attempt} failed with status {status}. Retrying with backoff... _ApiError: {{}}\n"
        for attempt, status in ((1, 503), (2, 429))
    )
    error = failure("gemini-cli", gemini, out_of_time(retries))
    assert (error.kind, error.status) == ("rate_limit", 429)


def test_a_refusal_that_was_overcome_does_not_excuse_an_agent_that_is_out_of_time() -> None:
    retry = recorded("claude-code-rate-limit.jsonl").splitlines()[1]
    claude = recorded("claude-code.jsonl").splitlines()
    data = b"\n".join([claude[0], retry, *claude[1:4]])
    assert failure("claude-code", data, out_of_time()).kind == "timeout"

    gemini = b"\n".join(recorded("gemini-cli.jsonl").splitlines()[:10])
    retry_of_gemini = "Attempt 1 failed with status 429. Retrying with backoff..."
    assert failure("gemini-cli", gemini, out_of_time(retry_of_gemini)).kind == "timeout"


def test_codex_outside_of_a_git_repository_is_told_what_to_add() -> None:
    said = "Not inside a trusted directory and --skip-git-repo-check was not specified."
    ended = ProviderError("crash", "exit status 1", status=1, detail=said)
    error = failure("codex", b"", ended)
    assert error.kind == "setup"
    assert "add `--skip-git-repo-check` to the command" in error.message


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
    assert b'0001"' in data
    return data.replace(b'0001"', b'9001"')


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
    assert both.cost_usd == pytest.approx(0.03744)


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
    assert both.cost_usd == pytest.approx(0.03744)

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
