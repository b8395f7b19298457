"""OpenAI-compatible endpoints, which differ in what they answer, where they are and what they want.

What all model APIs have in common is in `test_model_apis.py`.
"""

from typing import Any

import pytest
from fakes.http_server import FakeResources, FakeServer, Scripted, answered, ask

from ci_evals.model.response import ToolCall, Usage
from ci_evals.providers.openai import OpenAI


def openai(server: FakeServer, base: str = "/v1") -> OpenAI:
    return OpenAI(model="gpt-4.1", base_url=server.url + base)


def completion(message: Any, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"model": "gpt-4.1", "choices": [choice], **more}


HELLO = completion({"role": "assistant", "content": "Hello!"})


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
    response = await answered(server, resources, openai(server), completion(message))
    assert response.tool_calls == (ToolCall("book", read, "c"),)


@pytest.mark.parametrize(
    ("fields", "call"),
    [
        (
            {"tool_calls": [{"id": 7, "function": {"name": "book", "arguments": "{}"}}]},
            ToolCall("book", {}, "7"),
        ),
        (
            {"function_call": {"name": "book", "arguments": '{"to": "Paris"}'}, "tool_calls": None},
            ToolCall("book", {"to": "Paris"}),
        ),
    ],
)
async def test_calls_of_older_and_of_lax_endpoints_are_read(
    server: FakeServer, resources: FakeResources, fields: dict[str, Any], call: ToolCall
) -> None:
    message = {"content": None, **fields}
    response = await answered(server, resources, openai(server), completion(message))
    assert response.tool_calls == (call,)


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
    response = await answered(server, resources, openai(server), completion(message))
    assert response.output == output


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (None, None),
        (
            {"prompt_tokens": None, "completion_tokens": 3, "prompt_tokens_details": None},
            Usage(0, 3, 0),
        ),
    ],
)
async def test_usage_may_be_missing_or_null(
    server: FakeServer, resources: FakeResources, counts: Any, usage: Usage | None
) -> None:
    body = {**HELLO, "usage": counts}
    assert (await answered(server, resources, openai(server), body)).usage == usage


async def test_the_base_url_keeps_its_query(server: FakeServer, resources: FakeResources) -> None:
    options = openai(server, "/openai/?api-version=2025-01-01")
    await answered(server, resources, options, HELLO)
    assert server.seen[0].path == "/openai/chat/completions?api-version=2025-01-01"


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


async def test_a_gateway_tells_the_cost_in_a_header(
    server: FakeServer, resources: FakeResources
) -> None:
    server.answers(Scripted(HELLO, headers={"x-litellm-response-cost": "0.00042"}))
    assert (await ask(openai(server), resources)).cost_usd == 0.00042
