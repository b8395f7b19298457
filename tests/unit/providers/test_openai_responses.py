"""The responses API of the OpenAI provider, against answers in the documented shapes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fakes.http_server import FakeResources, FakeServer, Scripted, event, request_of, streaming

from ci_evals.errors import ProviderError
from ci_evals.model.fields import Secret
from ci_evals.model.response import Message, Part, Passage, Response, Step, ToolCall, Usage
from ci_evals.providers.mock_apis import Responses
from ci_evals.providers.openai import OpenAI

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "data" / "openai-responses.schema.json").read_text("utf-8")
)
USAGE: dict[str, Any] = {
    "input_tokens": 36,
    "input_tokens_details": {"cached_tokens": 12},
    "output_tokens": 87,
    "output_tokens_details": {"reasoning_tokens": 64},
    "total_tokens": 123,
}
REQUESTED = Step("model_request", "gpt-5-2025-08-07", usage=Usage(36, 87, 12))


def text_of(text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "id": "msg_67ccd3ac",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def responding(*output: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "id": "resp_67ccd2be",
        "object": "response",
        "created_at": 1741476542,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": "gpt-5-2025-08-07",
        "output": list(output),
        "parallel_tool_calls": True,
        "usage": USAGE,
        **changes,
    }


def check(value: Any, kind: str) -> None:
    """Check a request or a response against the published reference."""
    jsonschema.validate(value, {**SCHEMA, "$ref": f"#/$defs/{kind}"})


async def answer(
    server: FakeServer,
    resources: FakeResources,
    body: Any,
    *messages: Message,
    schema: Any = None,
    **changes: Any,
) -> Response:
    check(body, "response")
    server.answers(Scripted(body))
    settings = {"model": "gpt-5", "base_url": f"{server.url}/v1", "api": "responses", **changes}
    request = request_of(*messages, schema=schema)
    response = await OpenAI(**settings).open(resources).answer(request)
    for seen in server.seen:
        check(seen.json, "request")
    return response


async def test_text_usage_and_reasoning_are_read(
    server: FakeServer, resources: FakeResources
) -> None:
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [
            {"type": "summary_text", "text": "The user greets me."},
            {"type": "summary_text", "text": "I greet back."},
        ],
    }
    without_summary = {"type": "reasoning", "id": "rs_2", "summary": []}
    body = responding(reasoning, without_summary, text_of("Hello!"))
    assert await answer(server, resources, body) == Response(
        output="Hello!",
        usage=Usage(input_tokens=36, output_tokens=87, cached_tokens=12),
        model="gpt-5-2025-08-07",
        finish_reason="completed",
        steps=(
            REQUESTED,
            Step("message", "reasoning", result="The user greets me.\nI greet back."),
        ),
        metadata={"reasoning_tokens": 64},
    )
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/v1/responses")


async def test_tools_that_the_api_carries_out_are_steps(
    server: FakeServer, resources: FakeResources
) -> None:
    body = responding(
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "shop", "tools": []},
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {
                "type": "search",
                "query": "refunds",
                "sources": [{"type": "url", "url": "https://shop.example/refunds"}],
            },
        },
        {
            "type": "web_search_call",
            "id": "ws_2",
            "status": "failed",
            "action": {"type": "open_page", "url": "https://shop.example"},
        },
        {
            "type": "file_search_call",
            "id": "fs_1",
            "status": "completed",
            "queries": ["refund time"],
            "results": [
                {
                    "file_id": "file-1",
                    "filename": "policy.md",
                    "score": 0.83,
                    "text": "30 days.",
                    "attributes": {},
                }
            ],
        },
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "status": "completed",
            "container_id": "cntr_1",
            "code": "print(6 * 5)",
            "outputs": [{"type": "logs", "logs": "30\n"}],
        },
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "server_label": "shop",
            "name": "order",
            "arguments": '{"id": 7}',
            "output": "shipped",
            "error": None,
        },
        {
            "type": "mcp_call",
            "id": "mcp_2",
            "server_label": "shop",
            "name": "refund",
            "arguments": "{}",
            "output": None,
            "error": {"type": "mcp_tool_execution_error", "message": "no such order"},
        },
        text_of("Within 30 days."),
    )
    response = await answer(server, resources, body)
    assert response.steps is not None
    found = '[{"file_id":"file-1","filename":"policy.md","score":0.83,"text":"30 days."}]'
    assert response.steps[1:] == (
        Step(
            "tool_call",
            "web_search",
            {"query": "refunds"},
            result='[{"type":"url","url":"https://shop.example/refunds"}]',
        ),
        Step("tool_call", "web_search", {"url": "https://shop.example"}, error="failed"),
        Step("tool_call", "file_search", {"queries": ["refund time"]}, result=found),
        Step("tool_call", "code_interpreter", {"code": "print(6 * 5)"}, result="30\n"),
        Step("tool_call", "order", {"id": 7}, result="shipped"),
        Step("tool_call", "refund", {}, error="no such order"),
    )
    assert response.context == (Passage("30 days.", "policy.md", 0.83),)
    assert (response.output, response.tool_calls) == ("Within 30 days.", ())


async def test_calls_left_to_the_caller_are_tool_calls_and_no_steps(
    server: FakeServer, resources: FakeResources
) -> None:
    body = responding(
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "book",
            "arguments": '{"to": "Paris"}',
            "status": "completed",
        },
        {
            "type": "custom_tool_call",
            "id": "ctc_1",
            "call_id": "call_2",
            "name": "sql",
            "input": "select 1",
        },
        {
            "type": "mcp_approval_request",
            "id": "mcpr_1",
            "server_label": "shop",
            "name": "pay",
            "arguments": "{oops",
        },
    )
    response = await answer(server, resources, body)
    assert response.tool_calls == (
        ToolCall("book", {"to": "Paris"}, "call_1"),
        ToolCall("sql", "select 1", "call_2"),
        ToolCall("pay", "{oops", "mcpr_1"),
    )
    assert (response.output, response.steps) == ("", (REQUESTED,))


async def test_the_request_is_as_documented(
    server: FakeServer, resources: FakeResources, tmp_path: Path
) -> None:
    (tmp_path / "cat.png").write_bytes(b"png")
    resources.folder = tmp_path
    parts = (
        Part(text="What is this?"),
        Part(image="cat.png", media_type="image/png"),
        Part(image="https://shop.example/dog.png"),
        Part(file=b"%PDF", media_type="application/pdf"),
        Part(file="https://shop.example/terms.pdf"),
    )
    await answer(
        server,
        resources,
        responding(text_of("Done.")),
        Message("system", "Be brief."),
        Message("user", parts),
        Message("assistant", tool_calls=(ToolCall("book", {"to": "Paris"}, "c1"),)),
        Message("tool", "booked", tool_call_id="c1"),
        Message("assistant", "Booked.", tool_calls=(ToolCall("pay", "{oops", "c2"),)),
        Message("tool", "paid", tool_call_id="c2"),
        Message("user", "Thanks"),
        api_key=Secret("sk-12345"),
        params={"max_output_tokens": 50, "store": False},
    )
    (seen,) = server.seen
    assert seen.headers["Authorization"] == "Bearer sk-12345"
    assert seen.json == {
        "model": "gpt-5",
        "max_output_tokens": 50,
        "store": False,
        "input": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is this?"},
                    {
                        "type": "input_image",
                        "image_url": "data:image/png;base64,cG5n",
                        "detail": "auto",
                    },
                    {
                        "type": "input_image",
                        "image_url": "https://shop.example/dog.png",
                        "detail": "auto",
                    },
                    {
                        "type": "input_file",
                        "filename": "file",
                        "file_data": "data:application/pdf;base64,JVBERg==",
                    },
                    {"type": "input_file", "file_url": "https://shop.example/terms.pdf"},
                ],
            },
            {
                "type": "function_call",
                "call_id": "c1",
                "name": "book",
                "arguments": '{"to":"Paris"}',
            },
            {"type": "function_call_output", "call_id": "c1", "output": "booked"},
            {"role": "assistant", "content": "Booked."},
            {"type": "function_call", "call_id": "c2", "name": "pay", "arguments": "{oops"},
            {"type": "function_call_output", "call_id": "c2", "output": "paid"},
            {"role": "user", "content": "Thanks"},
        ],
    }


async def test_a_schema_constrains_the_text(server: FakeServer, resources: FakeResources) -> None:
    schema = {"type": "object", "properties": {"score": {"type": "number"}}}
    params = {"text": {"verbosity": "low"}}
    body = responding(text_of('{"score": 1}'))
    await answer(server, resources, body, schema=schema, params=params)
    text_format = {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}
    assert server.seen[0].json["text"] == {"verbosity": "low", "format": text_format}


async def test_a_schema_is_left_out_where_it_is_refused(
    server: FakeServer, resources: FakeResources
) -> None:
    refusal = Scripted({"error": {"message": "text.format is not supported"}}, status=400)
    server.answers(refusal, Scripted(responding(text_of("1"))))
    options = OpenAI(model="old", base_url=server.url, api="responses")
    provider = options.open(resources)
    request = request_of(schema={"type": "object"})
    assert (await provider.answer(request)).output == "1"
    assert (await provider.answer(request)).output == "1"
    assert ["text" in seen.json for seen in server.seen] == [True, False, False]


@pytest.mark.parametrize("reason", ["max_output_tokens", "content_filter"])
async def test_an_incomplete_answer_says_why(
    server: FakeServer, resources: FakeResources, reason: str
) -> None:
    cut = {**text_of("Hel"), "status": "incomplete"}
    body = responding(cut, status="incomplete", incomplete_details={"reason": reason})
    response = await answer(server, resources, body)
    assert (response.output, response.finish_reason) == ("Hel", reason)


async def test_a_refusal_is_the_answer(server: FakeServer, resources: FakeResources) -> None:
    refused = {**text_of(""), "content": [{"type": "refusal", "refusal": "I can't help."}]}
    assert (await answer(server, resources, responding(refused))).output == "I can't help."


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        (
            {"status": "failed", "error": {"code": "server_error", "message": "Try again."}},
            "server",
            "failed: server_error: Try again.",
        ),
        (
            {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "Slow."}},
            "rate_limit",
            "failed: rate_limit_exceeded: Slow.",
        ),
        (
            {"status": "failed", "error": {"code": "invalid_prompt", "message": "No."}},
            "rejected",
            "failed: invalid_prompt: No.",
        ),
        ({"status": "cancelled"}, "bad_answer", "answered with the status 'cancelled'"),
    ],
)
async def test_a_failed_answer_is_an_error_of_its_kind(
    server: FakeServer, resources: FakeResources, changes: Any, kind: str, message: str
) -> None:
    with pytest.raises(ProviderError, match=message) as caught:
        await answer(server, resources, responding(**changes))
    assert caught.value.kind == kind


async def test_another_kind_of_endpoint_is_a_bad_answer(
    server: FakeServer, resources: FakeResources
) -> None:
    server.answers(Scripted({"choices": []}))
    options = OpenAI(model="m", base_url=server.url, api="responses")
    with pytest.raises(ProviderError, match="is this a responses endpoint") as caught:
        await options.open(resources).answer(request_of())
    assert caught.value.kind == "bad_answer"


# Streams.


def named(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, "sequence_number": 1, **fields}, kind)


def streamed(server: FakeServer) -> OpenAI:
    return OpenAI(model="gpt-5", base_url=server.url, api="responses", stream=True)


async def test_a_stream_ends_with_the_answer_and_tells_its_first_token(
    server: FakeServer, resources: FakeResources
) -> None:
    body = responding(text_of("Hello!"))
    started = {**body, "status": "in_progress", "output": [], "usage": None}
    pieces = [
        named("response.created", response=started),
        named("response.output_text.delta", item_id="m", output_index=0, delta="Hel"),
        named("response.output_text.delta", item_id="m", output_index=0, delta="lo!"),
        named("response.completed", response=body),
    ]
    server.answers(streaming(pieces))
    response = await streamed(server).open(resources).answer(request_of())
    assert (response.output, response.usage) == ("Hello!", Usage(36, 87, 12))
    assert response.first_token_s is not None
    (seen,) = server.seen
    check(seen.json, "request")
    assert seen.json["stream"] is True


@pytest.mark.parametrize(
    ("last", "kind", "message"),
    [
        (
            named("error", code="rate_limit_exceeded", message="Slow down.", param=None),
            "rate_limit",
            "rate_limit_exceeded: Slow down.",
        ),
        (
            named(
                "response.failed",
                response=responding(
                    status="failed", error={"code": "server_error", "message": "Oops."}
                ),
            ),
            "server",
            "server_error: Oops.",
        ),
        (b"", "network", "broke off its stream before the answer was complete"),
    ],
)
async def test_a_stream_that_fails_is_an_error_of_its_kind(
    server: FakeServer, resources: FakeResources, last: bytes, kind: str, message: str
) -> None:
    started = responding(status="in_progress", usage=None)
    server.answers(streaming([named("response.created", response=started), last]))
    with pytest.raises(ProviderError, match=message) as caught:
        await streamed(server).open(resources).answer(request_of())
    assert caught.value.kind == kind


def test_the_mock_server_answers_in_the_published_shape() -> None:
    calls = (ToolCall("book", {"to": "Paris"}),)
    response = Response("Hello!", calls, Usage(3, 4), finish_reason="stop")
    api = Responses()
    rendered = api.render(response, "gpt-5", 1)
    check(rendered, "response")
    *_, (kind, last) = api.events(rendered)
    assert kind == "response.completed"
    check(last["response"], "response")


# Settings.


def test_fields_that_are_set_already_are_problems() -> None:
    params = {"input": "Hello", "background": True}
    options = OpenAI(model="gpt-5", api="responses", params=params)
    assert options.problems(Path()) == [
        "params.input: is set by ci-evals itself; remove it",
        "params.background: ci-evals waits for each answer; remove it",
    ]
