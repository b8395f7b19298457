"""`tools` of a model provider: calls are carried out, and the model goes on with their results."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes.http_server import FakeServer, Scripted, serving
from leftovers import journaled, report_in
from processes import Finished, ci_evals
from suites import write_suite

from ci_evals import Case, Suite, evaluate
from ci_evals.graders import Equals
from ci_evals.model.response import ToolCall
from ci_evals.providers import OpenAI
from ci_evals.providers.mock import Mock, MockAnswer
from ci_evals.providers.mock_server import run_server
from ci_evals.suite.load import load_suite

SHOP = '''
import asyncio
from typing import Annotated, Literal

from pydantic import Field

from ci_evals import Request

ORDERS = {17: "shipped", 18: "packed"}


def find_order(
    number: Annotated[int, Field(description="As on the invoice.")],
    detail: Literal["short", "long"] = "short",
) -> dict[str, str]:
    """Look an order up."""
    return {"state": ORDERS[number], "detail": detail}


arrived = asyncio.Event()


async def one() -> str:
    """Wait for the other one."""
    await arrived.wait()
    return "1"


async def other() -> str:
    """Let the first one go on."""
    arrived.set()
    return "2"


def whoami(request: Request) -> str:
    """Say which case asks."""
    return request.case.id


def positional(number, /):
    """Cannot be called by name."""


def hang() -> None:
    """Never come back."""
    import time

    time.sleep(600)
'''

QUESTION = "Where is order 17?"


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments)


def provider(url: str, *tools: Any, kind: str = "openai", **settings: Any) -> dict[str, Any]:
    base_url = url
    if kind != "openai":
        base_url = url.removesuffix("/v1")
    return {
        "type": kind,
        "name": "shop",
        "model": "mock",
        "base_url": base_url,
        "tools": list(tools),
        **settings,
    }


def case(*expect: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": "order", "input": QUESTION, "expect": list(expect), **fields}


async def run(folder: Path, mock: Mock, *tools: Any, expect: Any = (), **settings: Any) -> Finished:
    (folder / "shop.py").write_text(SHOP)
    async with run_server(mock) as url:
        write_suite(
            folder,
            [case({"not_empty": True}, *expect)],
            providers=[provider(url, *tools, **settings)],
        )
        return await ci_evals(folder, "run")


def result_in(folder: Path) -> dict[str, Any]:
    (result,) = journaled(folder / "ci-evals-results")
    return result


def tool_steps(folder: Path) -> list[dict[str, Any]]:
    steps = result_in(folder)["response"]["steps"]
    return [step for step in steps if step["kind"] == "tool_call"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "api",
    [
        {"kind": "openai"},
        {"kind": "openai", "api": "responses"},
        {"kind": "anthropic"},
        {"kind": "gemini"},
    ],
)
async def test_a_model_calls_a_function_and_answers_with_its_result(
    tmp_path: Path, api: dict[str, str], stream: bool
) -> None:
    asks = MockAnswer(tool_calls=[call("find_order", number=17)], then="It says {{ results[0] }}.")
    expect = [
        {"contains": '"state":"shipped"'},
        {"trajectory": ["find_order"]},
        {"tool_call": {"tool": "find_order", "arguments": {"number": 17}}},
        {"max_model_requests": 2},
        {"no_tool_errors": True},
        {"max_steps": 3},
    ]
    ended = await run(
        tmp_path,
        Mock(answers={QUESTION: asks}),
        "shop:find_order",
        **api,
        stream=stream,
        expect=expect,
        price={"input_per_mtok": 1e6, "output_per_mtok": 0},
    )
    assert ended.code == 0, ended.out + ended.err
    result = result_in(tmp_path)
    response = result["response"]
    first, used, last = response["steps"]
    assert first["kind"] == last["kind"] == "model_request"
    assert used["name"] == "find_order"
    assert used["arguments"] == {"number": 17}
    assert used["result"] == '{"state":"shipped","detail":"short"}'
    assert used["duration_s"] > 0
    assert result["latency_s"] >= first["duration_s"] + used["duration_s"] + last["duration_s"]
    asked = [step["usage"]["input_tokens"] for step in (first, last)]
    assert asked[0] > 0
    assert asked[1] > asked[0]
    assert response["usage"]["input_tokens"] == sum(asked)
    assert result["cost_usd"] == pytest.approx(sum(asked))


async def test_calls_of_one_answer_run_at_once_and_keep_their_order(tmp_path: Path) -> None:
    asks = MockAnswer(tool_calls=[call("one"), call("other")], then="{{ results | join(' and ') }}")
    ended = await run(
        tmp_path,
        Mock(answers={QUESTION: asks}),
        "shop:one",
        "shop:other",
        expect=[{"equals": "1 and 2"}, {"trajectory": ["one", "other"]}],
    )
    assert ended.code == 0, ended.out + ended.err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"number": 99}, "KeyError: 99"),
        ({"number": "x"}, "wrong arguments: number: Input should be a valid integer"),
        ({"order": 17}, "wrong arguments: number: Field required"),
        ("17", "the arguments are not a JSON object"),
    ],
)
async def test_a_tool_that_raises_tells_the_model_and_the_report(
    tmp_path: Path, arguments: Any, error: str
) -> None:
    asks = MockAnswer(
        tool_calls=[ToolCall("find_order", arguments)], then="Sorry: {{ results[0] }}"
    )
    ended = await run(
        tmp_path,
        Mock(answers={QUESTION: asks}),
        "shop:find_order",
        expect=[{"contains": f"Error: {error}"}, {"no_tool_errors": True}],
    )
    assert ended.code == 1, ended.out + ended.err
    (step,) = tool_steps(tmp_path)
    assert step["error"].startswith(error)
    assert ("(shop.py:17 in find_order)" in step["error"]) == ("KeyError" in error)
    assert ended.out.count('the call of "find_order" failed') == 1


async def test_a_tool_that_does_not_exist_or_hangs_tells_the_model(tmp_path: Path) -> None:
    asks = MockAnswer(
        tool_calls=[call("find"), call("hang")], then="Sorry: {{ results | join(' / ') }}"
    )
    known = "there is no tool 'find'; known: find_order, hang"
    ended = await run(
        tmp_path,
        Mock(answers={QUESTION: asks}),
        "shop:find_order",
        "shop:hang",
        timeout_s=0.5,
        expect=[{"contains": known}, {"contains": "no result within 0.5 s"}],
    )
    assert ended.code == 0, ended.out + ended.err


async def test_a_model_that_never_answers_has_failed_and_its_calls_are_paid(
    tmp_path: Path,
) -> None:
    asks = MockAnswer(tool_calls=[call("find_order", number=17)])
    ended = await run(
        tmp_path,
        Mock(answers={QUESTION: asks}),
        "shop:find_order",
        max_steps=3,
        price={"input_per_mtok": 1e6, "output_per_mtok": 0},
    )
    assert ended.code == 1, ended.out + ended.err
    result = result_in(tmp_path)
    assert result["status"] == "failed"
    assert result["error"]["kind"] == "max_steps"
    assert "`max_steps: 3`" in result["error"]["message"]
    assert [step["name"] for step in tool_steps(tmp_path)] == ["find_order", "find_order"]
    assert result["cost_usd"] > 0


async def test_a_model_that_calls_thousands_of_tools_at_once_has_failed(tmp_path: Path) -> None:
    asks = MockAnswer(tool_calls=[call("find_order", number=17)] * 5_000, then="done")
    ended = await run(tmp_path, Mock(answers={QUESTION: asks}), "shop:find_order")
    assert ended.code == 1, ended.out + ended.err
    result = result_in(tmp_path)
    assert result["status"] == "failed"
    assert result["error"]["message"].endswith("an answer has at most 5,000 steps")
    assert tool_steps(tmp_path) == []


async def test_a_parameter_of_type_request_gets_it_and_the_model_is_not_told(
    tmp_path: Path,
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    asks = MockAnswer(tool_calls=[call("whoami")], then="Case {{ results[0] }}.")
    async with run_server(Mock(answers={QUESTION: asks})) as url:
        write_suite(
            tmp_path, [case({"equals": "Case order."})], providers=[provider(url, "shop:whoami")]
        )
        ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err


CALLS: dict[str, Any] = {
    "openai": {
        "model": "m",
        "choices": [
            {
                "message": {
                    "content": None,
                    "reasoning_content": "Look it up.",
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "find_order", "arguments": '{"number": 99}'},
                        }
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
    },
    "anthropic": {
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "Look it up.", "signature": "sig"},
            {"type": "redacted_thinking", "data": "xyz"},
            {"type": "tool_use", "id": "toolu_1", "name": "find_order", "input": {"number": 99}},
        ],
        "stop_reason": "tool_use",
    },
    "gemini": {
        "modelVersion": "m",
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [
                        {
                            "functionCall": {"name": "find_order", "args": {"number": 99}},
                            "thoughtSignature": "sig",
                        }
                    ],
                },
                "finishReason": "STOP",
            }
        ],
    },
}
CALLS["responses"] = {
    "status": "completed",
    "model": "m",
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "xyz"},
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "find_order",
            "arguments": '{"number": 99}',
            "status": "completed",
        },
    ],
}
ANSWERS: dict[str, Any] = {
    "responses": {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Lost."}]}],
    },
    "openai": {"choices": [{"message": {"content": "Lost."}, "finish_reason": "stop"}]},
    "anthropic": {"content": [{"type": "text", "text": "Lost."}], "stop_reason": "end_turn"},
    "gemini": {"candidates": [{"content": {"parts": [{"text": "Lost."}]}, "finishReason": "STOP"}]},
}
SCHEMA = {
    "additionalProperties": False,
    "properties": {
        "number": {"description": "As on the invoice.", "title": "Number", "type": "integer"},
        "detail": {"enum": ["short", "long"], "title": "Detail", "type": "string"},
    },
    "required": ["number"],
    "type": "object",
}
OFFERED: dict[str, Any] = {
    "responses": [
        {"type": "web"},
        {
            "type": "function",
            "name": "find_order",
            "description": "Look an order up.",
            "parameters": SCHEMA,
            "strict": False,
        },
    ],
    "openai": [
        {"type": "web"},
        {
            "type": "function",
            "function": {
                "name": "find_order",
                "description": "Look an order up.",
                "parameters": SCHEMA,
            },
        },
    ],
    "anthropic": [
        {"type": "web"},
        {"name": "find_order", "description": "Look an order up.", "input_schema": SCHEMA},
    ],
    "gemini": [
        {"type": "web"},
        {
            "functionDeclarations": [
                {
                    "name": "find_order",
                    "description": "Look an order up.",
                    "parametersJsonSchema": SCHEMA,
                }
            ]
        },
    ],
}
FAILED = "Error: KeyError: 99"
SENT_BACK: dict[str, Any] = {
    "responses": [
        *CALLS["responses"]["output"],
        {"type": "function_call_output", "call_id": "call_1", "output": FAILED},
    ],
    "openai": [
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "Look it up.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "find_order", "arguments": '{"number":99}'},
                }
            ],
        },
        {"role": "tool", "content": FAILED, "tool_call_id": "call_1"},
    ],
    "anthropic": [
        {"role": "assistant", "content": CALLS["anthropic"]["content"]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": FAILED,
                    "is_error": True,
                }
            ],
        },
    ],
    "gemini": [
        CALLS["gemini"]["candidates"][0]["content"],
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "find_order", "response": {"error": FAILED}}}],
        },
    ],
}


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with serving() as server:
        yield server


@pytest.mark.parametrize("api", ["openai", "responses", "anthropic", "gemini"])
async def test_each_api_is_told_of_tools_and_results_in_its_own_words(
    tmp_path: Path, server: FakeServer, api: str
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    server.answers(Scripted(CALLS[api]), Scripted(ANSWERS[api]))
    settings: dict[str, Any] = {"kind": api, "params": {"tools": [{"type": "web"}]}}
    if api == "responses":
        settings |= {"kind": "openai", "api": api}
    shop = provider(server.url, "shop:find_order", **settings)
    write_suite(tmp_path, [case({"equals": "Lost."})], providers=[shop])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err
    first, second = (seen.json for seen in server.seen)
    assert first["tools"] == second["tools"] == OFFERED[api]
    turns = {"gemini": "contents", "responses": "input"}.get(api, "messages")
    assert second[turns] == [*first[turns], *SENT_BACK[api]]


async def test_each_call_of_the_model_is_retried_by_itself(
    tmp_path: Path, server: FakeServer
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    busy = Scripted({"error": {"message": "busy"}}, 503, {"Retry-After": "0"})
    server.answers(Scripted(CALLS["openai"]), busy, Scripted(ANSWERS["openai"]))
    write_suite(
        tmp_path, [case({"equals": "Lost."})], providers=[provider(server.url, "shop:find_order")]
    )
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err
    assert len(tool_steps(tmp_path)) == 1  # it was not called again
    assert result_in(tmp_path)["attempts"] == 2


async def test_a_call_that_is_lost_after_a_tool_errors_the_run_and_what_was_paid_counts(
    tmp_path: Path, server: FakeServer
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    usage = {"usage": {"prompt_tokens": 10, "completion_tokens": 1}}
    server.answers(
        Scripted({**CALLS["openai"], **usage}), Scripted({"error": {"message": "no"}}, 403)
    )
    price = {"input_per_mtok": 1e6, "output_per_mtok": 0}
    write_suite(
        tmp_path,
        [case({"equals": "Lost."})],
        providers=[provider(server.url, "shop:find_order", price=price)],
    )
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 3, ended.out + ended.err
    result = result_in(tmp_path)
    assert result["status"] == "errored"
    assert result["error"]["kind"] == "auth"
    assert len(tool_steps(tmp_path)) == 1
    assert result["cost_usd"] == pytest.approx(10)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"tools": ["shop"]}, "tools[0]: 'shop' is not of the form module:function, as in"),
        ({"tools": ["shop:find_ordr"]}, "tools[0]: there is no 'find_ordr' in shop, did you mean"),
        ({"tools": [{"type": "function"}]}, "tools[0]: expected a function as module:function, or"),
        ({"tools": [7]}, "tools[0]: expected a function as module:function, or an MCP server"),
        (
            {"tools": [{"mcp": ["python3"], "evn": {}}]},
            (
                "evals.yaml:1: providers[0].tools[0]: unknown key 'evn', did you mean 'env'?\n\n"
                "1 problem"
            ),
        ),
        ({"tools": ["shop:find_order"], "max_steps": 0}, "max_steps"),
        (
            {"tools": ["shop:find_order"], "before": ["shop:one"]},
            "a provider with tools cannot have",
        ),
        ({"tools": [{"mcp": "no-such-program"}]}, "tools[0]: mcp: there is no program 'no-such-"),
        (
            {"tools": [{"mcp": "http://h/mcp", "headers": {"a b": "1"}}]},
            "tools[0]: headers.a b: use",
        ),
        ({"tools": [{"mcp": "http://127.0.0.1/mcp", "env": {"A": "1"}}]}, "env: belongs to a"),
        ({"tools": [{"mcp": ["python3"], "headers": {"A": "1"}}]}, "headers: belong to a server"),
        ({"tools": [{"mcp": ["python3"], "cwd": "nowhere"}]}, "cwd: there is no folder"),
    ],
)
async def test_validate_finds_what_is_wrong_with_tools(
    tmp_path: Path, settings: dict[str, Any], problem: str
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    wrong = provider("http://127.0.0.1:9/v1", **settings)
    write_suite(tmp_path, [case({"not_empty": True})], providers=[wrong])
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    assert problem in ended.out + ended.err


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        (["shop:positional"], "a model passes arguments by name, which `number` does not allow"),
        (
            ["shop:find_order", "shop:find_order"],
            "evals.yaml:1: providers[0]: tools: there are two tools called 'find_order'",
        ),
    ],
)
async def test_tools_that_cannot_be_described_stop_a_run_before_its_first_call(
    tmp_path: Path, server: FakeServer, tools: list[str], problem: str
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    server.answers(Scripted(ANSWERS["openai"]))
    write_suite(tmp_path, [case({"not_empty": True})], providers=[provider(server.url, *tools)])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 2, ended.out + ended.err
    assert problem in ended.out + ended.err
    assert server.seen == []


async def test_answers_with_tools_are_not_reused_as_the_code_behind_them_may_have_changed(
    tmp_path: Path,
) -> None:
    asks = MockAnswer(tool_calls=[call("find_order", number=17)], then="{{ results[0] }}")
    await run(tmp_path, Mock(answers={QUESTION: asks}), "shop:find_order")
    assert report_in(tmp_path / "ci-evals-results")["suite"]["own_code"] == ["shop"]


async def test_an_answer_that_calls_only_what_is_defined_in_params_is_the_last_one(
    tmp_path: Path,
) -> None:
    first = MockAnswer(
        tool_calls=[call("find_order", number=17)],
        then=MockAnswer(tool_calls=[call("hand_over", to="Ada")]),
    )
    ended = await run(
        tmp_path,
        Mock(answers={QUESTION: first}),
        "shop:find_order",
        params={"tools": [{"type": "function", "function": {"name": "hand_over"}}]},
        expect=[
            {"tool_call": {"tool": "hand_over", "arguments": {"to": "Ada"}}},
            {"trajectory": ["find_order"]},
        ],
    )
    assert ended.code == 0, ended.out + ended.err


async def test_each_turn_of_a_conversation_has_its_tools(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    answers = {
        f"And {number}?": MockAnswer(
            tool_calls=[call("find_order", number=number)], then="{{ results | join }}"
        )
        for number in (17, 18)
    }
    turns = [
        {"user": "And 17?", "expect": [{"contains": "shipped"}]},
        {"user": "And 18?", "expect": [{"contains": "packed"}, {"not_contains": "shipped"}]},
    ]
    trajectory = {"calls": ["find_order", "find_order"], "match": "exact"}
    talk = {"id": "talk", "turns": turns, "expect": [{"trajectory": trajectory}]}
    async with run_server(Mock(answers=answers)) as url:
        write_suite(tmp_path, [talk], providers=[provider(url, "shop:find_order")])
        ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err


async def test_a_judge_may_have_tools(tmp_path: Path, server: FakeServer) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    verdict = {"content": '{"reason": "so", "verdict": "pass"}'}
    judged = {"choices": [{"message": verdict, "finish_reason": "stop"}]}
    server.answers(Scripted(CALLS["openai"]), Scripted(judged))
    judge = provider(server.url, "shop:find_order")
    write_suite(tmp_path, [case({"judge": {"rubric": "is it right?"}})], judges=[judge])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err
    assert len(server.seen) == 2
    assert server.seen[1].json["messages"][-1]["content"] == FAILED


async def test_in_python_a_tool_is_the_function_itself() -> None:
    def find(number: int) -> str:
        """Look an order up."""
        return f"order {number} is shipped"

    asks = MockAnswer(tool_calls=[call("find", number=17)], then="{{ results[0] }}")
    async with run_server(Mock(answers={QUESTION: asks})) as url:
        asked = Case(input=QUESTION, expect=[Equals("order 17 is shipped")])
        model = OpenAI(model="m", base_url=url, tools=[find])
        report = await evaluate(Suite(providers=[model], cases=[asked]), runs=1)
    assert [run.status for run in report.runs] == ["passed"]


@pytest.mark.parametrize("changed", [{"tools": ["shop:one"]}, {"max_steps": 3}])
async def test_a_fingerprint_changes_with_the_tools(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    prints = set()
    for settings in ({}, changed):
        shop = provider("http://127.0.0.1:9/v1", "shop:find_order") | settings
        config = write_suite(tmp_path, [case({"not_empty": True})], providers=[shop])
        prints.add(load_suite(config, {}).fingerprint)
    assert len(prints) == 2


async def test_a_suite_is_not_skipped_as_unchanged_if_the_code_of_its_tools_is_not_named(
    tmp_path: Path,
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    shop = provider("http://127.0.0.1:9/v1", "shop:find_order")
    write_suite(tmp_path, [case({"not_empty": True})], providers=[shop], skip_unchanged=True)
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    assert "what the tools of shop run is your own code: name its files here" in ended.err


async def test_a_call_without_a_name_or_of_no_shape_tells_the_model(
    tmp_path: Path, server: FakeServer
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    calls = [
        {"id": "1", "type": "function", "function": {"name": "", "arguments": "{}"}},
        {"id": "2", "type": "function", "function": {"arguments": "[" * 2000}},
        {"id": "3", "type": "function", "function": {"name": "n" * 500, "arguments": None}},
    ]
    message = {"content": None, "tool_calls": calls}
    server.answers(
        Scripted({"choices": [{"message": message, "finish_reason": "tool_calls"}]}),
        Scripted(ANSWERS["openai"]),
    )
    shop = provider(server.url, "shop:find_order")
    write_suite(tmp_path, [case({"equals": "Lost."})], providers=[shop])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err
    assert all("there is no tool" in step["error"] for step in tool_steps(tmp_path))
    sent = server.seen[1].json["messages"][-3:]
    assert [message["tool_call_id"] for message in sent] == ["1", "2", "3"]
    assert all(len(message["content"]) < 200 for message in sent)


@pytest.mark.parametrize("given", [[17], 17, True])
async def test_arguments_that_are_no_object_tell_the_model(
    tmp_path: Path, server: FakeServer, given: Any
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    asks = {"type": "tool_use", "id": "1", "name": "find_order", "input": given}
    server.answers(
        Scripted({"content": [asks], "stop_reason": "tool_use"}),
        Scripted({"content": [{"type": "text", "text": "Lost."}], "stop_reason": "end_turn"}),
    )
    shop = provider(server.url, "shop:find_order", kind="anthropic")
    write_suite(tmp_path, [case({"equals": "Lost."})], providers=[shop])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err
    (step,) = tool_steps(tmp_path)
    assert step["error"] == "the arguments are not a JSON object"
    said, answered = server.seen[1].json["messages"][-2:]
    assert said["content"][0]["input"] == {"arguments": json.dumps(given, separators=(",", ":"))}
    assert answered["content"][0]["is_error"] is True
