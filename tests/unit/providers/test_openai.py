"""The OpenAI-compatible provider, against answers in the documented shapes."""

from pathlib import Path
from typing import Any

import pytest
from fakes.http_server import FakeResources, FakeServer, Scripted, request_of

from ci_evals.errors import ProviderError
from ci_evals.model.fields import Secret
from ci_evals.model.response import Message, Response, ToolCall, Usage
from ci_evals.providers.openai import OpenAI

HELLO: dict[str, Any] = {
    "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
    "object": "chat.completion",
    "created": 1741569952,
    "model": "gpt-4.1-2025-04-14",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hello! How can I assist you today?",
                "refusal": None,
                "annotations": [],
            },
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 19,
        "completion_tokens": 10,
        "total_tokens": 29,
        "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    },
    "service_tier": "default",
    "system_fingerprint": None,
}

WEATHER: dict[str, Any] = {
    "id": "chatcmpl-abc123",
    "object": "chat.completion",
    "created": 1699896916,
    "model": "gpt-4o-mini",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_abc123",
                        "type": "function",
                        "function": {
                            "name": "get_current_weather",
                            "arguments": '{\n"location": "Boston, MA"\n}',
                        },
                    }
                ],
            },
            "logprobs": None,
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {
        "prompt_tokens": 82,
        "completion_tokens": 17,
        "total_tokens": 99,
        "completion_tokens_details": {"reasoning_tokens": 0},
    },
}


def options(server: FakeServer, **changes: Any) -> OpenAI:
    defaults: dict[str, Any] = {"model": "gpt-4.1", "base_url": f"{server.url}/v1"}
    return OpenAI(**(defaults | changes))


async def answer(
    server: FakeServer, resources: FakeResources, body: Any, *messages: Message
) -> Response:
    server.answers(Scripted(body))
    return await options(server).open(resources).answer(request_of(*messages))


def completion(message: Any, finish_reason: str = "stop") -> dict[str, Any]:
    return {**HELLO, "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}


async def test_the_documented_answer_is_read(server: FakeServer, resources: FakeResources) -> None:
    assert await answer(server, resources, HELLO) == Response(
        output="Hello! How can I assist you today?",
        usage=Usage(input_tokens=19, output_tokens=10, cached_tokens=4),
        model="gpt-4.1-2025-04-14",
        finish_reason="stop",
    )


async def test_the_documented_tool_call_is_read(
    server: FakeServer, resources: FakeResources
) -> None:
    assert await answer(server, resources, WEATHER) == Response(
        tool_calls=(ToolCall("get_current_weather", {"location": "Boston, MA"}, "call_abc123"),),
        usage=Usage(input_tokens=82, output_tokens=17),
        model="gpt-4o-mini",
        finish_reason="tool_calls",
    )


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('{"to": "Paris"}', {"to": "Paris"}),
        ("", {}),
        (None, {}),
        ({"to": "Paris"}, {"to": "Paris"}),
        ('{"to": "Par', '{"to": "Par'),
        ('["Paris"]', '["Paris"]'),
        ("[" * 100_000, "[" * 100_000),
    ],
)
async def test_arguments_are_decoded_or_kept_as_text(
    server: FakeServer, resources: FakeResources, written: Any, read: Any
) -> None:
    message = {
        "content": None,
        "tool_calls": [{"id": "c", "function": {"name": "book", "arguments": written}}],
    }
    response = await answer(server, resources, completion(message))
    assert response.tool_calls == (ToolCall("book", read, "c"),)


async def test_a_custom_tool_gets_its_text(server: FakeServer, resources: FakeResources) -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "run_sql", "input": "select 1"}}
    response = await answer(server, resources, completion({"content": None, "tool_calls": [call]}))
    assert response.tool_calls == (ToolCall("run_sql", "select 1", "c"),)


@pytest.mark.parametrize(
    ("message", "output"),
    [
        ({"content": None, "refusal": "I cannot assist with that."}, "I cannot assist with that."),
        ({"content": None}, ""),
        ({}, ""),
        ({"content": [{"type": "text", "text": "Par"}, {"type": "text", "text": "is"}]}, "Paris"),
        ({"content": [{"type": "refusal", "refusal": "No."}]}, "No."),
    ],
)
async def test_the_output_is_found_wherever_it_stands(
    server: FakeServer, resources: FakeResources, message: Any, output: str
) -> None:
    assert (await answer(server, resources, completion(message))).output == output


async def test_an_answer_that_was_cut_off_says_so(
    server: FakeServer, resources: FakeResources
) -> None:
    response = await answer(server, resources, completion({"content": "Par"}, "length"))
    assert (response.output, response.finish_reason) == ("Par", "length")


async def test_usage_may_be_missing_or_null(server: FakeServer, resources: FakeResources) -> None:
    assert (await answer(server, resources, HELLO | {"usage": None})).usage is None
    counts = {"prompt_tokens": None, "completion_tokens": 3, "prompt_tokens_details": None}
    assert (await answer(server, resources, HELLO | {"usage": counts})).usage == Usage(0, 3, 0)


async def test_the_request_is_as_documented(server: FakeServer, resources: FakeResources) -> None:
    server.answers(Scripted(HELLO))
    params = {
        "temperature": 0,
        "tools": [{"type": "function", "function": {"name": "book", "parameters": {}}}],
    }
    provider = options(
        server,
        api_key=Secret("sk-12345\n"),
        params=params,
        headers={"OpenAI-Organization": "org-1"},
    ).open(resources)
    await provider.answer(
        request_of(
            Message("system", "Be brief."),
            Message("user", "To Paris"),
            Message(
                "assistant",
                tool_calls=(
                    ToolCall("book", {"to": "Paris"}, "c1"),
                    ToolCall("pay", "{oops", "c2"),
                ),
            ),
            Message("tool", "booked", tool_call_id="c1"),
        )
    )
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/v1/chat/completions")
    assert seen.headers["Authorization"] == "Bearer sk-12345"
    assert seen.headers["Content-Type"] == "application/json"
    assert seen.headers["OpenAI-Organization"] == "org-1"
    assert seen.json == {
        "model": "gpt-4.1",
        **params,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "To Paris"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "book", "arguments": '{"to":"Paris"}'},
                    },
                    {
                        "id": "c2",
                        "type": "function",
                        "function": {"name": "pay", "arguments": "{oops"},
                    },
                ],
            },
            {"role": "tool", "content": "booked", "tool_call_id": "c1"},
        ],
    }


async def test_half_a_surrogate_pair_is_replaced(
    server: FakeServer, resources: FakeResources
) -> None:
    await answer(server, resources, HELLO, Message("user", "a\ud800b"))
    assert server.seen[0].json["messages"] == [{"role": "user", "content": "a\ufffdb"}]


async def test_without_a_key_none_is_sent(server: FakeServer, resources: FakeResources) -> None:
    await answer(server, resources, HELLO)
    assert "Authorization" not in server.seen[0].headers


async def test_the_base_url_keeps_its_query(server: FakeServer, resources: FakeResources) -> None:
    server.answers(Scripted(HELLO))
    provider = options(server, base_url=f"{server.url}/openai/?api-version=2025-01-01").open(
        resources
    )
    await provider.answer(request_of())
    assert server.seen[0].path == "/openai/chat/completions?api-version=2025-01-01"


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (
            {"error": {"message": "upstream is down", "code": 502}},
            "server",
            "answered 502: upstream is down",
        ),
        ({"error": {"message": "slow down", "code": 429}}, "rate_limit", "answered 429: slow down"),
        ({"error": "model not loaded"}, "bad_answer", "without a choice: model not loaded"),
        ({"choices": []}, "bad_answer", "is this a chat completions endpoint?"),
        ({"choices": [{"text": "legacy"}]}, "bad_answer", "choices[0].message: Field required"),
        (
            "<html><title>Sign in</title></html>",
            "bad_answer",
            "answered with HTML, not JSON: Sign in",
        ),
    ],
)
async def test_an_answer_without_a_choice_is_an_error(
    server: FakeServer, resources: FakeResources, body: Any, kind: str, message: str
) -> None:
    with pytest.raises(ProviderError) as caught:
        await answer(server, resources, body)
    assert caught.value.kind == kind
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("base_url", "needed"),
    [
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com/v1", True),
        ("http://localhost:11434/v1", False),
        ("https://api.openai.com.example/v1", False),
        ("https://notapi.openai.com/v1", False),
        ("http://[::1", False),
    ],
)
def test_only_the_vendor_itself_needs_a_key(base_url: str, needed: bool) -> None:
    options = OpenAI(model="m", base_url=base_url)
    assert options.key_variable == ("OPENAI_API_KEY" if needed else None)
    assert options.api_url == (None if "localhost" in base_url else base_url)


def test_a_key_that_is_given_is_not_looked_for() -> None:
    assert OpenAI(model="m", api_key=Secret("sk-12345")).key_variable is None


def test_the_name_says_which_model() -> None:
    assert OpenAI(model="gpt-4.1").default_name == "openai:gpt-4.1"


def test_a_key_is_not_shown() -> None:
    assert "sk-12345" not in repr(OpenAI(model="m", api_key=Secret("sk-12345", "OPENAI_API_KEY")))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model": " "}, "model: is empty"),
        ({"base_url": "localhost:11434/v1"}, "base_url: is not a complete address"),
        ({"base_url": "http://[::1/v1"}, "base_url: is not a complete address"),
        ({"params": {"messages": []}}, "params.messages: is set by ci-evals itself"),
        ({"params": {"stream": True}}, "params.stream: is set by ci-evals itself"),
        ({"headers": {"X Team": "a"}}, "headers.X Team: "),
        ({"headers": {"X-Team": "a\r\nb"}}, "headers.X-Team: "),
    ],
)
def test_mistakes_are_found_before_any_call(changes: dict[str, Any], problem: str) -> None:
    (found,) = OpenAI(**({"model": "gpt-4.1"} | changes)).problems(Path())
    assert found.startswith(problem)


def test_good_options_have_no_problems() -> None:
    assert (
        OpenAI(model="m", params={"temperature": 0}, headers={"X-Team": "a"}).problems(Path()) == []
    )


async def test_a_gateway_tells_the_cost_in_a_header(
    server: FakeServer, resources: FakeResources
) -> None:
    server.answers(Scripted(HELLO, headers={"x-litellm-response-cost": "0.00042"}))
    response = (
        await OpenAI(model="gpt-4.1", base_url=server.url).open(resources).answer(request_of())
    )
    assert response.cost_usd == 0.00042
