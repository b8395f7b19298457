"""The Anthropic provider, against answers in the documented shapes."""

from typing import Any

import pytest
from fakes.http_server import FakeResources, FakeServer, Scripted, request_of

from ci_evals.errors import ProviderError
from ci_evals.model.fields import Secret
from ci_evals.model.response import Message, Response, ToolCall, Usage
from ci_evals.providers.anthropic import Anthropic

HELLO: dict[str, Any] = {
    "id": "msg_013Zva2CMHLNnXjNJJKqJ2EF",
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "Hi! My name is Claude.", "citations": None}],
    "model": "claude-sonnet-4-20250514",
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 2095,
        "cache_creation_input_tokens": 2051,
        "cache_read_input_tokens": 2048,
        "cache_creation": {"ephemeral_5m_input_tokens": 2051, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 503,
        "server_tool_use": {"web_search_requests": 0},
        "service_tier": "standard",
    },
}

STOCK: dict[str, Any] = {
    **HELLO,
    "content": [
        {"type": "thinking", "thinking": "They want the index.", "signature": "EqQB"},
        {"type": "text", "text": "I'll look that up."},
        {
            "type": "tool_use",
            "id": "toolu_01D7FLrfh4GYq7yT1ULFeyMV",
            "name": "get_stock_price",
            "input": {"ticker": "^GSPC"},
        },
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 472, "output_tokens": 89},
}


async def answer(
    server: FakeServer, resources: FakeResources, body: Any, *messages: Message, **changes: Any
) -> Response:
    server.answers(Scripted(body))
    options = Anthropic(**({"model": "claude-sonnet-4-0", "base_url": server.url} | changes))
    return await options.open(resources).answer(request_of(*messages))


async def test_the_documented_answer_is_read_and_all_of_its_input_counted(
    server: FakeServer, resources: FakeResources
) -> None:
    assert await answer(server, resources, HELLO) == Response(
        output="Hi! My name is Claude.",
        usage=Usage(input_tokens=2095 + 2051 + 2048, output_tokens=503, cached_tokens=2048),
        model="claude-sonnet-4-20250514",
        finish_reason="end_turn",
    )


async def test_the_documented_tool_use_is_read_and_thinking_left_out(
    server: FakeServer, resources: FakeResources
) -> None:
    response = await answer(server, resources, STOCK)
    assert response.output == "I'll look that up."
    assert response.tool_calls == (
        ToolCall("get_stock_price", {"ticker": "^GSPC"}, "toolu_01D7FLrfh4GYq7yT1ULFeyMV"),
    )
    assert response.finish_reason == "tool_use"
    assert response.usage == Usage(472, 89)


async def test_what_anthropic_runs_itself_is_no_tool_call(
    server: FakeServer, resources: FakeResources
) -> None:
    blocks = [
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "q"},
        },
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "text", "text": "Par"},
        {"type": "text", "text": "is"},
    ]
    response = await answer(server, resources, HELLO | {"content": blocks})
    assert (response.output, response.tool_calls) == ("Paris", ())


@pytest.mark.parametrize("reason", ["refusal", "max_tokens"])
async def test_an_empty_or_short_answer_says_why_it_ended(
    server: FakeServer, resources: FakeResources, reason: str
) -> None:
    response = await answer(server, resources, HELLO | {"content": [], "stop_reason": reason})
    assert (response.output, response.finish_reason) == ("", reason)


async def test_the_request_is_as_documented(server: FakeServer, resources: FakeResources) -> None:
    calls = (ToolCall("book", {"to": "Paris"}, "t1"), ToolCall("pay", "{oops", "t2"))
    await answer(
        server,
        resources,
        HELLO,
        Message("system", "Be brief."),
        Message("user", "To Paris"),
        Message("assistant", tool_calls=calls),
        Message("tool", "booked", tool_call_id="t1"),
        Message("tool", "paid", tool_call_id="t2"),
        Message("assistant", "Done.", tool_calls=calls[:1]),
        Message("tool", "again", tool_call_id="t1"),
        api_key=Secret("sk-ant-12345"),
        params={"temperature": 0},
    )
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/v1/messages")
    assert seen.headers["x-api-key"] == "sk-ant-12345"
    assert seen.headers["anthropic-version"] == "2023-06-01"
    book = {"type": "tool_use", "id": "t1", "name": "book", "input": {"to": "Paris"}}
    pay = {"type": "tool_use", "id": "t2", "name": "pay", "input": {"arguments": "{oops"}}
    assert seen.json == {
        "model": "claude-sonnet-4-0",
        "max_tokens": 1024,
        "temperature": 0,
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "To Paris"},
            {"role": "assistant", "content": [book, pay]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "booked"},
                    {"type": "tool_result", "tool_use_id": "t2", "content": "paid"},
                ],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "Done."}, book]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "again"}],
            },
        ],
    }


async def test_params_set_the_length_and_a_prompts_system_text_wins(
    server: FakeServer, resources: FakeResources
) -> None:
    params = {"max_tokens": 64, "system": "of the provider"}
    await answer(server, resources, HELLO, params=params)
    await answer(
        server,
        resources,
        HELLO,
        Message("system", "of the prompt"),
        Message("user", "Hi"),
        params=params,
    )
    assert [(seen.json["max_tokens"], seen.json["system"]) for seen in server.seen] == [
        (64, "of the provider"),
        (64, "of the prompt"),
    ]


async def test_an_overloaded_api_is_the_servers_failure(
    server: FakeServer, resources: FakeResources
) -> None:
    body = {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"},
        "request_id": "req_1",
    }
    server.answers(Scripted(body, 529))
    provider = Anthropic(model="m", base_url=server.url).open(resources)
    with pytest.raises(ProviderError) as caught:
        await provider.answer(request_of())
    assert (caught.value.kind, caught.value.retryable, caught.value.status) == ("server", True, 529)


async def test_an_answer_of_another_api_is_refused(
    server: FakeServer, resources: FakeResources
) -> None:
    with pytest.raises(ProviderError, match="content: Field required") as caught:
        await answer(server, resources, {"choices": []})
    assert caught.value.kind == "bad_answer"


def test_it_is_named_and_keyed_after_its_vendor() -> None:
    options = Anthropic(model="claude-sonnet-4-0")
    assert (options.default_name, options.key_variable) == (
        "anthropic:claude-sonnet-4-0",
        "ANTHROPIC_API_KEY",
    )
    assert not options.own_code
