"""What every model API is held to: requests, answers, streams and errors as its vendor documents.

Each table has an entry for each API. What one of them has of its own is in a file of its own.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fakes.bedrock import check_answer, check_request, event_frame, exception_frame
from fakes.google import check_vertex
from fakes.http_server import (
    FakeResources,
    FakeServer,
    Scripted,
    Seen,
    answered,
    ask,
    event,
    streaming,
)
from fakes.responses import check_responses, output_text, responding

from ci_evals.errors import ProviderError
from ci_evals.faults import ErrorKind
from ci_evals.model.fields import Secret
from ci_evals.model.response import Message, Part, Response, Step, ToolCall, Usage
from ci_evals.providers.base import ProviderOptions
from ci_evals.providers.mock import Mock, MockAnswer
from ci_evals.providers.mock_server import run_server
from ci_evals.providers.parts import identify
from ci_evals.registry import PROVIDERS

KEY = "key-0123456789"


@dataclass(frozen=True, kw_only=True)
class Api:
    """How the provider of an API is made, and where it asks.

    Args:
        kind: the provider's type.
        model: one of its models.
        settings: further settings.
        base: what follows the host in the base URL.
        path: where an answer is asked for.
        stream_path: where a streamed one is asked for.
        stream_type: the content type of a stream.
        key: the header that has the key.
        name: what the provider is called without a name.
        key_variable: where the key is found at the vendor's own address.
        check_answer: holds the body of an answer against the vendor's machine-readable reference.
        check_request: does so with a request.
    """

    kind: str
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    base: str = ""
    path: str
    stream_path: str
    stream_type: str = "text/event-stream; charset=utf-8"
    key: tuple[str, str] = ("Authorization", f"Bearer {KEY}")
    name: str
    key_variable: str | None
    check_answer: Callable[[Any], object] = lambda _body: None
    check_request: Callable[[Seen], object] = lambda _seen: None

    def options(self, url: str, **changes: Any) -> ProviderOptions:
        """The provider, asking the server at a URL."""
        settings = {"model": self.model, "base_url": url + self.base, **self.settings, **changes}
        options: ProviderOptions = PROVIDERS[self.kind](**settings)
        return options


CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
CLAUDE_PATH = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0"
GEMINI_PATH = "/v1beta/models/gemini-2.5-flash"
VERTEX_PATH = "/v1/projects/shop/locations/global/publishers/google/models/gemini-2.5-flash"
APIS = {
    "openai": Api(
        kind="openai",
        model="gpt-4.1",
        base="/v1",
        path="/v1/chat/completions",
        stream_path="/v1/chat/completions",
        name="openai:gpt-4.1",
        key_variable="OPENAI_API_KEY",
    ),
    "responses": Api(
        kind="openai",
        model="gpt-5",
        settings={"api": "responses"},
        base="/v1",
        path="/v1/responses",
        stream_path="/v1/responses",
        name="openai:gpt-5",
        key_variable="OPENAI_API_KEY",
        check_answer=lambda body: check_responses(body, "response"),
        check_request=lambda seen: check_responses(seen.json, "request"),
    ),
    "anthropic": Api(
        kind="anthropic",
        model="claude-sonnet-4-0",
        path="/v1/messages",
        stream_path="/v1/messages",
        key=("x-api-key", KEY),
        name="anthropic:claude-sonnet-4-0",
        key_variable="ANTHROPIC_API_KEY",
    ),
    "gemini": Api(
        kind="gemini",
        model="gemini-2.5-flash",
        path=f"{GEMINI_PATH}:generateContent",
        stream_path=f"{GEMINI_PATH}:streamGenerateContent?alt=sse",
        key=("x-goog-api-key", KEY),
        name="gemini:gemini-2.5-flash",
        key_variable="GEMINI_API_KEY",
    ),
    "bedrock": Api(
        kind="bedrock",
        model=CLAUDE,
        path=f"{CLAUDE_PATH}/converse",
        stream_path=f"{CLAUDE_PATH}/converse-stream",
        stream_type="application/vnd.amazon.eventstream",
        name=f"bedrock:{CLAUDE}",
        key_variable=None,
        check_answer=check_answer,
        check_request=check_request,
    ),
    "vertex": Api(
        kind="vertex",
        model="gemini-2.5-flash",
        settings={"project": "shop", "location": "global"},
        path=f"{VERTEX_PATH}:generateContent",
        stream_path=f"{VERTEX_PATH}:streamGenerateContent?alt=sse",
        key=("x-goog-api-key", KEY),
        name="vertex:gemini-2.5-flash",
        key_variable=None,
        check_answer=lambda body: check_vertex(body, "response"),
        check_request=lambda seen: check_vertex(seen.json, "request"),
    ),
}
INSTALLED = [name for name, api in APIS.items() if api.kind in PROVIDERS]
every_api = pytest.mark.parametrize("api", INSTALLED)


def each(table: Mapping[str, Sequence[Any]]) -> pytest.MarkDecorator:
    """Try every entry of a table that has several for an API."""
    entries = [(api, entry) for api in INSTALLED for entry in table[api]]
    return pytest.mark.parametrize(("api", "entry"), entries)


class Failing(NamedTuple):
    """A body or a stream that is an error: its kind, and some words of the message."""

    sent: Any
    kind: ErrorKind
    words: str
    status: int = 200


async def documented(
    api: str,
    body: Any,
    server: FakeServer,
    resources: FakeResources,
    *messages: Message,
    **changes: Any,
) -> Response:
    """Ask, and answer with a body that the vendor documents."""
    options = APIS[api].options(server.url, **changes)
    APIS[api].check_answer(body)
    response = await answered(server, resources, options, body, *messages)
    for seen in server.seen:
        APIS[api].check_request(seen)
    return response


# What is answered.

CHAT: dict[str, Any] = {
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


def chosen(message: Any, finish_reason: str) -> dict[str, Any]:
    return {**CHAT, "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}


MESSAGE: dict[str, Any] = {
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
CONTENT: dict[str, Any] = {
    "candidates": [
        {
            "content": {
                "parts": [
                    {"text": "The user greets me.", "thought": True},
                    {"text": "Hello! ", "thoughtSignature": "CpwB"},
                    {"text": "How can I help you today?"},
                ],
                "role": "model",
            },
            "finishReason": "STOP",
            "index": 0,
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 20,
        "candidatesTokenCount": 9,
        "totalTokenCount": 66,
        "cachedContentTokenCount": 16,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 20}],
        "thoughtsTokenCount": 30,
        "toolUsePromptTokenCount": 7,
    },
    "modelVersion": "gemini-2.5-flash",
    "responseId": "aGVsbG8",
}
CONVERSE: dict[str, Any] = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {
                    "reasoningContent": {
                        "reasoningText": {"text": "The user greets me.", "signature": "Cpw"}
                    }
                },
                {"text": "Hello! "},
                {"text": "How can I help you?"},
            ],
        }
    },
    "stopReason": "end_turn",
    "usage": {
        "inputTokens": 10,
        "outputTokens": 9,
        "totalTokens": 135,
        "cacheReadInputTokens": 16,
        "cacheWriteInputTokens": 100,
    },
    "metrics": {"latencyMs": 551},
}
ANSWERS: dict[str, Any] = {
    "openai": CHAT,
    "responses": responding(
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [
                {"type": "summary_text", "text": "The user greets me."},
                {"type": "summary_text", "text": "I greet back."},
            ],
        },
        {"type": "reasoning", "id": "rs_2", "summary": []},
        output_text("Hello!"),
    ),
    "anthropic": MESSAGE,
    "gemini": CONTENT,
    "bedrock": CONVERSE,
    "vertex": {**CONTENT, "createTime": "2026-01-01T00:00:00.000000Z"},
}
REQUESTED = Step("model_request", "gpt-5-2025-08-07", usage=Usage(36, 87, 12))
READ = {
    "openai": Response(
        "Hello! How can I assist you today?",
        usage=Usage(input_tokens=19, output_tokens=10, cached_tokens=4),
        model="gpt-4.1-2025-04-14",
        finish_reason="stop",
    ),
    "responses": Response(
        "Hello!",
        usage=Usage(input_tokens=36, output_tokens=87, cached_tokens=12),
        model="gpt-5-2025-08-07",
        finish_reason="completed",
        steps=(
            REQUESTED,
            Step("message", "reasoning", result="The user greets me.\nI greet back."),
        ),
        metadata={"reasoning_tokens": 64},
    ),
    "anthropic": Response(
        "Hi! My name is Claude.",
        usage=Usage(
            input_tokens=2095 + 2051 + 2048,
            output_tokens=503,
            cached_tokens=2048,
            cache_write_tokens=2051,
        ),
        model="claude-sonnet-4-20250514",
        finish_reason="end_turn",
    ),
    "gemini": Response(
        "Hello! How can I help you today?",
        usage=Usage(input_tokens=20 + 7, output_tokens=9 + 30, cached_tokens=16),
        model="gemini-2.5-flash",
        finish_reason="STOP",
    ),
    "bedrock": Response(
        "Hello! How can I help you?",
        usage=Usage(
            input_tokens=10 + 16 + 100, output_tokens=9, cached_tokens=16, cache_write_tokens=100
        ),
        finish_reason="end_turn",
    ),
}
READ["vertex"] = READ["gemini"]


@every_api
async def test_the_documented_answer_is_read_and_all_of_its_tokens_counted(
    api: str, server: FakeServer, resources: FakeResources
) -> None:
    assert await documented(api, ANSWERS[api], server, resources) == READ[api]


MEETING = {"attendees": ["Bob", "Alice"], "date": "2025-03-14", "time": "10:00"}
TOOL_CALLS: dict[str, Any] = {
    "openai": chosen(
        {
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
                },
                {"id": "c", "type": "custom", "custom": {"name": "run_sql", "input": "select 1"}},
            ],
        },
        "tool_calls",
    ),
    "responses": responding(
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
    ),
    "anthropic": {
        **MESSAGE,
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
    },
    "gemini": {
        **CONTENT,
        "candidates": [
            {
                "content": {
                    "parts": [
                        {
                            "functionCall": {"name": "schedule_meeting", "args": MEETING},
                            "thoughtSignature": "CpwB",
                        },
                        {"functionCall": {"id": "f2", "name": "notify"}},
                    ],
                    "role": "model",
                },
                "finishReason": "STOP",
                "index": 0,
            }
        ],
    },
    "bedrock": {
        **CONVERSE,
        "output": {
            "message": {
                "role": "assistant",
                "content": [
                    {"text": "Booking."},
                    {
                        "toolUse": {
                            "toolUseId": "tooluse_1",
                            "name": "book",
                            "input": {"to": "Paris"},
                        }
                    },
                ],
            }
        },
        "stopReason": "tool_use",
    },
}
TOOL_CALLS["vertex"] = TOOL_CALLS["gemini"]
CALLED = {
    "openai": replace(
        READ["openai"],
        output="",
        tool_calls=(
            ToolCall("get_current_weather", {"location": "Boston, MA"}, "call_abc123"),
            ToolCall("run_sql", "select 1", "c"),
        ),
        finish_reason="tool_calls",
    ),
    "responses": replace(
        READ["responses"],
        output="",
        tool_calls=(
            ToolCall("book", {"to": "Paris"}, "call_1"),
            ToolCall("sql", "select 1", "call_2"),
            ToolCall("pay", "{oops", "mcpr_1"),
        ),
        steps=(REQUESTED,),
    ),
    "anthropic": replace(
        READ["anthropic"],
        output="I'll look that up.",
        tool_calls=(
            ToolCall("get_stock_price", {"ticker": "^GSPC"}, "toolu_01D7FLrfh4GYq7yT1ULFeyMV"),
        ),
        finish_reason="tool_use",
    ),
    "gemini": replace(
        READ["gemini"],
        output="",
        tool_calls=(ToolCall("schedule_meeting", MEETING), ToolCall("notify", {}, "f2")),
    ),
    "bedrock": replace(
        READ["bedrock"],
        output="Booking.",
        tool_calls=(ToolCall("book", {"to": "Paris"}, "tooluse_1"),),
        finish_reason="tool_use",
    ),
}
CALLED["vertex"] = CALLED["gemini"]


@every_api
async def test_the_documented_tool_calls_are_read_and_thoughts_left_out(
    api: str, server: FakeServer, resources: FakeResources
) -> None:
    assert await documented(api, TOOL_CALLS[api], server, resources) == CALLED[api]


class Ended(NamedTuple):
    """An answer that ended early: its body, and what is read from it."""

    body: Mapping[str, Any]
    output: str
    reason: str


def withheld(candidate: Mapping[str, Any]) -> Ended:
    return Ended({**CONTENT, "candidates": [candidate]}, "", "SAFETY")


EARLY: dict[str, Sequence[Ended]] = {
    "openai": [Ended(chosen({"content": "Par"}, "length"), "Par", "length")],
    "responses": [
        Ended(
            responding(
                output_text("Hel", "incomplete"),
                status="incomplete",
                incomplete_details={"reason": reason},
            ),
            "Hel",
            reason,
        )
        for reason in ("max_output_tokens", "content_filter")
    ],
    "anthropic": [
        Ended({**MESSAGE, "content": [], "stop_reason": reason}, "", reason)
        for reason in ("refusal", "max_tokens")
    ],
    "gemini": [
        withheld({"finishReason": "SAFETY", "index": 0}),
        withheld({"content": {"role": "model"}, "finishReason": "SAFETY"}),
        withheld({"content": {"parts": None}, "finishReason": "SAFETY"}),
    ],
    "bedrock": [
        Ended(
            {
                **CONVERSE,
                "output": {"message": {"role": "assistant", "content": []}},
                "stopReason": reason,
            },
            "",
            reason,
        )
        for reason in ("guardrail_intervened", "max_tokens")
    ],
    "vertex": [withheld({"finishReason": "SAFETY", "index": 0})],
}


@each(EARLY)
async def test_an_empty_or_short_answer_says_why_it_ended(
    api: str, entry: Ended, server: FakeServer, resources: FakeResources
) -> None:
    response = await documented(api, entry.body, server, resources)
    assert (response.output, response.finish_reason) == (entry.output, entry.reason)


def lost_choice(**fields: Any) -> dict[str, Any]:
    """A completion whose choice reports that the provider broke down."""
    return {"choices": [{"message": {"content": "Par"}, "finish_reason": "stop", **fields}]}


BEDROCK_STATUSES: Sequence[tuple[int, ErrorKind]] = (
    (403, "auth"),
    (400, "rejected"),
    (429, "rate_limit"),
    (408, "server"),
    (503, "server"),
)
FAILED: dict[str, Sequence[Failing]] = {
    "openai": [
        Failing(
            {"error": {"message": "upstream is down", "code": 502}},
            "server",
            "answered 502: upstream is down",
        ),
        Failing(
            {"error": {"message": "slow down", "code": 429}},
            "rate_limit",
            "answered 429: slow down",
        ),
        Failing({"error": "model not loaded"}, "server", "reported an error: model not loaded"),
        Failing({"choices": []}, "server", "an empty list of choices"),
        *(
            Failing(lost_choice(finish_reason=reason), "server", f"reported an error: {reason}")
            for reason in ("error", "network_error", "insufficient_system_resource")
        ),
        Failing(
            lost_choice(error={"code": 502, "message": "the upstream is gone"}),
            "server",
            "answered 502: the upstream is gone",
        ),
        Failing(
            lost_choice(error={"code": "insufficient_quota", "message": "Top up."}),
            "no_credit",
            "reported an error: insufficient_quota: Top up.",
        ),
        Failing({"choices": [{"text": "legacy"}]}, "bad_answer", "answered without a message"),
        Failing({"object": "list"}, "bad_answer", "is this a chat completions endpoint?"),
        Failing(
            "<html><title>Sign in</title></html>",
            "bad_answer",
            "answered with HTML, not JSON: Sign in",
        ),
    ],
    "responses": [
        Failing(
            responding(status="failed", error={"code": "server_error", "message": "Try again."}),
            "server",
            "reported an error: server_error: Try again.",
        ),
        Failing(
            responding(status="failed", error={"code": "rate_limit_exceeded", "message": "Slow."}),
            "rate_limit",
            "reported an error: rate_limit_exceeded: Slow.",
        ),
        Failing(
            responding(status="failed", error={"code": "invalid_prompt", "message": "No."}),
            "rejected",
            "reported an error: invalid_prompt: No.",
        ),
        Failing(
            responding(status="cancelled"), "bad_answer", "answered with the status 'cancelled'"
        ),
        Failing({"choices": []}, "bad_answer", "is this a responses endpoint"),
    ],
    "anthropic": [
        Failing(
            {
                "type": "error",
                "error": {"type": "overloaded_error", "message": "Overloaded"},
                "request_id": "req_1",
            },
            "server",
            "answered 529: Overloaded",
            529,
        ),
        Failing({"choices": []}, "bad_answer", "content: Field required"),
    ],
    "gemini": [
        Failing(
            {
                "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
                "usageMetadata": {"promptTokenCount": 9},
            },
            "rejected",
            "blocked the prompt (PROHIBITED_CONTENT)",
        ),
        Failing({}, "server", "without a candidate"),
    ],
    "bedrock": [
        *(
            Failing({"message": "You are not welcome"}, kind, "You are not welcome", status)
            for status, kind in BEDROCK_STATUSES
        ),
        Failing({"choices": []}, "bad_answer", "is this Bedrock's Converse"),
    ],
}
FAILED["vertex"] = FAILED["gemini"]


@each(FAILED)
async def test_what_is_no_answer_is_an_error_of_its_kind(
    api: str, entry: Failing, server: FakeServer, resources: FakeResources
) -> None:
    server.answers(Scripted(entry.sent, entry.status))
    with pytest.raises(ProviderError) as caught:
        await ask(APIS[api].options(server.url), resources)
    assert caught.value.kind == entry.kind
    assert entry.words in caught.value.message
    if entry.status != 200:
        assert caught.value.status == entry.status
    assert len(server.seen) == 1, "the engine decides what is tried again"


def test_an_api_is_left_out_only_where_its_plugin_is_missing() -> None:
    kinds = {api.kind for api in APIS.values()}
    assert kinds <= {*PROVIDERS, *PROVIDERS.missing}


@every_api
async def test_a_key_that_is_repeated_in_a_refusal_is_not_shown(
    api: str, server: FakeServer, resources: FakeResources
) -> None:
    server.answers(Scripted({"error": {"message": f"{KEY} is not welcome"}}, 401))
    with pytest.raises(ProviderError, match=r"\*\*\* is not welcome") as caught:
        await ask(APIS[api].options(server.url, api_key=Secret(KEY)), resources)
    assert caught.value.kind == "auth"


# What is asked.

CONVERSATION = (
    Message("system", "Be brief."),
    Message("user", "To Paris"),
    Message(
        "assistant",
        tool_calls=(ToolCall("book", {"to": "Paris"}, "c1"), ToolCall("pay", "{oops", "c2")),
    ),
    Message("tool", "booked", tool_call_id="c1"),
    Message("tool", "paid", tool_call_id="c2"),
    Message("assistant", "Done.", tool_calls=(ToolCall("book", {"to": "Paris"}, "c3"),)),
    Message("tool", "again", tool_call_id="c3"),
    Message("user", "Thanks"),
)
PARAMS: dict[str, Any] = {
    "openai": {
        "temperature": 0,
        "tools": [{"type": "function", "function": {"name": "book", "parameters": {}}}],
    },
    "responses": {"max_output_tokens": 50, "store": False},
    "anthropic": {"temperature": 0},
    "gemini": {"generationConfig": {"temperature": 0}},
    "bedrock": {
        "inferenceConfig": {"temperature": 0, "maxTokens": 50},
        "additionalModelRequestFields": {"top_k": 5},
    },
    "vertex": {"generationConfig": {"temperature": 0}, "labels": {"team": "support"}},
}
ASKED: dict[str, Any] = {
    "openai": {
        "model": "gpt-4.1",
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
            {"role": "tool", "content": "paid", "tool_call_id": "c2"},
            {
                "role": "assistant",
                "content": "Done.",
                "tool_calls": [
                    {
                        "id": "c3",
                        "type": "function",
                        "function": {"name": "book", "arguments": '{"to":"Paris"}'},
                    }
                ],
            },
            {"role": "tool", "content": "again", "tool_call_id": "c3"},
            {"role": "user", "content": "Thanks"},
        ],
    },
    "responses": {
        "model": "gpt-5",
        "input": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "To Paris"},
            {
                "type": "function_call",
                "call_id": "c1",
                "name": "book",
                "arguments": '{"to":"Paris"}',
            },
            {"type": "function_call", "call_id": "c2", "name": "pay", "arguments": "{oops"},
            {"type": "function_call_output", "call_id": "c1", "output": "booked"},
            {"type": "function_call_output", "call_id": "c2", "output": "paid"},
            {"role": "assistant", "content": "Done."},
            {
                "type": "function_call",
                "call_id": "c3",
                "name": "book",
                "arguments": '{"to":"Paris"}',
            },
            {"type": "function_call_output", "call_id": "c3", "output": "again"},
            {"role": "user", "content": "Thanks"},
        ],
    },
    "anthropic": {
        "model": "claude-sonnet-4-0",
        "max_tokens": 1024,
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "To Paris"},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "c1", "name": "book", "input": {"to": "Paris"}},
                    {
                        "type": "tool_use",
                        "id": "c2",
                        "name": "pay",
                        "input": {"arguments": "{oops"},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "booked"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "paid"},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Done."},
                    {"type": "tool_use", "id": "c3", "name": "book", "input": {"to": "Paris"}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c3", "content": "again"}],
            },
            {"role": "user", "content": "Thanks"},
        ],
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "To Paris"}]},
            {
                "role": "model",
                "parts": [
                    {"functionCall": {"id": "c1", "name": "book", "args": {"to": "Paris"}}},
                    {"functionCall": {"id": "c2", "name": "pay", "args": {"arguments": "{oops"}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "id": "c1",
                            "name": "book",
                            "response": {"output": "booked"},
                        }
                    },
                    {
                        "functionResponse": {
                            "id": "c2",
                            "name": "pay",
                            "response": {"output": "paid"},
                        }
                    },
                ],
            },
            {
                "role": "model",
                "parts": [
                    {"text": "Done."},
                    {"functionCall": {"id": "c3", "name": "book", "args": {"to": "Paris"}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "id": "c3",
                            "name": "book",
                            "response": {"output": "again"},
                        }
                    }
                ],
            },
            {"role": "user", "parts": [{"text": "Thanks"}]},
        ],
    },
    "bedrock": {
        "system": [{"text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"text": "To Paris"}]},
            {
                "role": "assistant",
                "content": [
                    {"toolUse": {"toolUseId": "c1", "name": "book", "input": {"to": "Paris"}}},
                    {
                        "toolUse": {
                            "toolUseId": "c2",
                            "name": "pay",
                            "input": {"arguments": "{oops"},
                        }
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": "c1", "content": [{"text": "booked"}]}},
                    {"toolResult": {"toolUseId": "c2", "content": [{"text": "paid"}]}},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"text": "Done."},
                    {"toolUse": {"toolUseId": "c3", "name": "book", "input": {"to": "Paris"}}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": "c3", "content": [{"text": "again"}]}},
                    {"text": "Thanks"},
                ],
            },
        ],
    },
}
ASKED["vertex"] = ASKED["gemini"]


@every_api
async def test_the_request_is_as_documented(
    api: str, server: FakeServer, resources: FakeResources
) -> None:
    await documented(
        api,
        ANSWERS[api],
        server,
        resources,
        *CONVERSATION,
        api_key=Secret(f"{KEY}\n"),
        params=PARAMS[api],
        headers={"X-Team": "support"},
    )
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", APIS[api].path)
    header, value = APIS[api].key
    assert seen.headers[header] == value
    assert seen.headers["Content-Type"] == "application/json"
    assert seen.headers["X-Team"] == "support"
    assert seen.json == {**ASKED[api], **PARAMS[api]}


@every_api
async def test_without_a_key_none_is_sent(
    api: str, server: FakeServer, resources: FakeResources
) -> None:
    await documented(api, ANSWERS[api], server, resources)
    assert not {"Authorization", "x-api-key", "x-goog-api-key"} & set(server.seen[0].headers)


@every_api
async def test_half_a_surrogate_pair_is_replaced(
    api: str, server: FakeServer, resources: FakeResources
) -> None:
    await documented(api, ANSWERS[api], server, resources, Message("user", "a\ud800b"))
    assert '"a\ufffdb"' in server.seen[0].body.decode()


PNG, PDF = b"\x89PNG\r\n\x1a\n", b"%PDF-1.7"
PNG64, PDF64, NOTES64 = b64encode(PNG).decode(), b64encode(PDF).decode(), "QmUga2luZC4="
PICTURE = "https://example.com/pictures/dog.jpg?size=2"
TERMS = "https://example.com/a.pdf"
FILES = (
    Part(text="Compare these."),
    Part(image="pictures/cat.png"),
    Part(image=PNG, media_type="image/webp"),
    Part(file="terms.pdf"),
    Part(file="notes.txt"),
    Part(file=PDF, media_type="application/pdf"),
)
LINKED_PICTURE, LINKED_FILE = Part(image=PICTURE), Part(file=TERMS)
PARTS = {
    "openai": (*FILES, LINKED_PICTURE),
    "responses": (*FILES, LINKED_PICTURE, LINKED_FILE),
    "anthropic": (*FILES, LINKED_PICTURE, LINKED_FILE),
    "gemini": (*FILES, LINKED_PICTURE),
    "bedrock": FILES,
    "vertex": (*FILES, LINKED_PICTURE),
}
SENT_PARTS: dict[str, Any] = {
    "openai": [
        {"type": "text", "text": "Compare these."},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG64}"}},
        {"type": "image_url", "image_url": {"url": f"data:image/webp;base64,{PNG64}"}},
        {
            "type": "file",
            "file": {
                "filename": "terms.pdf",
                "file_data": f"data:application/pdf;base64,{PDF64}",
            },
        },
        {
            "type": "file",
            "file": {"filename": "notes.txt", "file_data": f"data:text/plain;base64,{NOTES64}"},
        },
        {
            "type": "file",
            "file": {"filename": "file", "file_data": f"data:application/pdf;base64,{PDF64}"},
        },
        {"type": "image_url", "image_url": {"url": PICTURE}},
    ],
    "responses": [
        {"type": "input_text", "text": "Compare these."},
        {
            "type": "input_image",
            "image_url": f"data:image/png;base64,{PNG64}",
            "detail": "auto",
        },
        {
            "type": "input_image",
            "image_url": f"data:image/webp;base64,{PNG64}",
            "detail": "auto",
        },
        {
            "type": "input_file",
            "filename": "terms.pdf",
            "file_data": f"data:application/pdf;base64,{PDF64}",
        },
        {
            "type": "input_file",
            "filename": "notes.txt",
            "file_data": f"data:text/plain;base64,{NOTES64}",
        },
        {
            "type": "input_file",
            "filename": "file",
            "file_data": f"data:application/pdf;base64,{PDF64}",
        },
        {"type": "input_image", "image_url": PICTURE, "detail": "auto"},
        {"type": "input_file", "file_url": TERMS},
    ],
    "anthropic": [
        {"type": "text", "text": "Compare these."},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG64}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/webp", "data": PNG64}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF64},
            "title": "terms.pdf",
        },
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "Be kind."},
            "title": "notes.txt",
        },
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF64},
            "title": "file",
        },
        {"type": "image", "source": {"type": "url", "url": PICTURE}},
        {"type": "document", "source": {"type": "url", "url": TERMS}, "title": "a.pdf"},
    ],
    "gemini": [
        {"text": "Compare these."},
        {"inlineData": {"mimeType": "image/png", "data": PNG64}},
        {"inlineData": {"mimeType": "image/webp", "data": PNG64}},
        {"inlineData": {"mimeType": "application/pdf", "data": PDF64}},
        {"inlineData": {"mimeType": "text/plain", "data": NOTES64}},
        {"inlineData": {"mimeType": "application/pdf", "data": PDF64}},
        {"fileData": {"mimeType": "image/jpeg", "fileUri": PICTURE}},
    ],
    "bedrock": [
        {"text": "Compare these."},
        {"image": {"format": "png", "source": {"bytes": PNG64}}},
        {"image": {"format": "webp", "source": {"bytes": PNG64}}},
        {"document": {"name": "terms", "format": "pdf", "source": {"bytes": PDF64}}},
        {"document": {"name": "notes", "format": "txt", "source": {"bytes": NOTES64}}},
        {"document": {"name": "file", "format": "pdf", "source": {"bytes": PDF64}}},
    ],
}
SENT_PARTS["vertex"] = SENT_PARTS["gemini"]
TURNS = {"responses": "input", "gemini": "contents", "vertex": "contents"}
CONTENTS = {"gemini": "parts", "vertex": "parts"}


@every_api
async def test_images_and_files_are_sent_as_documented(
    api: str, server: FakeServer, resources: FakeResources, tmp_path: Path
) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "cat.png").write_bytes(PNG)
    (tmp_path / "terms.pdf").write_bytes(PDF)
    (tmp_path / "notes.txt").write_text("Be kind.")
    resources.folder = tmp_path
    message = identify(Message("user", PARTS[api]), tmp_path)
    await documented(api, ANSWERS[api], server, resources, message)
    (turn,) = server.seen[0].json[TURNS.get(api, "messages")]
    assert turn["role"] == "user"
    assert turn[CONTENTS.get(api, "content")] == SENT_PARTS[api]


# What is streamed.


def chunk(
    delta: Mapping[str, Any] | None = None, finish_reason: str | None = None, **more: Any
) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish_reason}
    shared = {
        "id": "chatcmpl-123",
        "object": "chat.completion.chunk",
        "created": 1694268190,
        "model": "gpt-4.1",
    }
    choices = [choice] if delta is not None else []
    return event({**shared, "choices": choices, "usage": None, **more})


def named(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


def numbered(kind: str, **fields: Any) -> bytes:
    return named(kind, sequence_number=1, **fields)


def generated(parts: Sequence[Mapping[str, Any]], **more: Any) -> bytes:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if "finishReason" in more:
        candidate["finishReason"] = more.pop("finishReason")
    return event({"candidates": [candidate], "modelVersion": "gemini-2.5-flash", **more})


def delta(piece: Mapping[str, Any], index: int = 0) -> bytes:
    return event_frame("contentBlockDelta", {"delta": piece, "contentBlockIndex": index})


STREAMS: dict[str, Sequence[bytes]] = {
    "openai": [
        chunk({"role": "assistant", "content": "", "refusal": None}),
        chunk({"content": "Hällo"}),
        b": OPENROUTER PROCESSING\n\n",
        b"data:\n\n",
        # Azure.
        event(
            {"choices": [{"index": 0, "content_filter_offsets": {}}, {"index": 0, "delta": None}]}
        ),
        chunk({"content": " there"}),
        chunk({}, "stop"),
        chunk(
            usage={
                "prompt_tokens": 19,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 4},
            }
        ),
        b"data: [DONE]\n\n",
    ],
    "responses": [
        numbered("response.created", response=responding(status="in_progress", usage=None)),
        numbered("response.output_text.delta", item_id="m", output_index=0, delta="Hel"),
        numbered("response.output_text.delta", item_id="m", output_index=0, delta="lo!"),
        numbered("response.completed", response=responding(output_text("Hello!"))),
    ],
    "anthropic": [
        named(
            "message_start",
            message={
                "id": "msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyY",
                "type": "message",
                "role": "assistant",
                "content": [],
                "model": "claude-sonnet-4-5",
                "stop_reason": None,
                "usage": {"input_tokens": 25, "output_tokens": 1, "cache_read_input_tokens": 5},
            },
        ),
        named("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        named("ping"),
        named("content_block_delta", index=0, delta={"type": "text_delta", "text": "Let me"}),
        named("content_block_delta", index=0, delta={"type": "text_delta", "text": " look."}),
        named("content_block_stop", index=0),
        named(
            "content_block_start",
            index=1,
            content_block={"type": "tool_use", "id": "toolu_01", "name": "look", "input": {}},
        ),
        *(
            named(
                "content_block_delta",
                index=1,
                delta={"type": "input_json_delta", "partial_json": piece},
            )
            for piece in ("", '{"a"', ": 1}")
        ),
        named("content_block_stop", index=1),
        named("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 89}),
        named("message_stop"),
    ],
    "gemini": [
        generated([{"text": "Hmm.", "thought": True}], usageMetadata={"promptTokenCount": 4}),
        generated([{"text": "Par"}]),
        generated(
            [{"text": "is"}, {"functionCall": {"name": "book", "args": {"to": "Paris"}}}],
            finishReason="STOP",
            usageMetadata={
                "promptTokenCount": 4,
                "candidatesTokenCount": 2,
                "thoughtsTokenCount": 1,
            },
        ),
    ],
    "bedrock": [
        event_frame("messageStart", {"role": "assistant"}),
        delta({"reasoningContent": {"text": "Hm."}}),
        delta({"reasoningContent": {"signature": "Cpw"}}),
        delta({"text": "Bon"}, 1),
        delta({"text": "jour"}, 1),
        event_frame(
            "contentBlockStart",
            {"start": {"toolUse": {"toolUseId": "t1", "name": "book"}}, "contentBlockIndex": 2},
        ),
        delta({"toolUse": {"input": '{"to": '}}, 2),
        delta({"toolUse": {"input": '"Paris"}'}}, 2),
        event_frame("contentBlockStop", {"contentBlockIndex": 2}),
        event_frame("messageStop", {"stopReason": "tool_use"}),
        event_frame("metadata", {"usage": CONVERSE["usage"], "metrics": {"latencyMs": 5}}),
    ],
}
STREAMS["vertex"] = STREAMS["gemini"]
STREAMED = {
    "openai": Response("Hällo there", usage=Usage(19, 2, 4), model="gpt-4.1", finish_reason="stop"),
    "responses": replace(READ["responses"], steps=(REQUESTED,)),
    "anthropic": Response(
        "Let me look.",
        tool_calls=(ToolCall("look", {"a": 1}, "toolu_01"),),
        usage=Usage(25 + 5, 89, 5),
        model="claude-sonnet-4-5",
        finish_reason="tool_use",
    ),
    "gemini": Response(
        "Paris",
        tool_calls=(ToolCall("book", {"to": "Paris"}),),
        usage=Usage(4, 2 + 1),
        model="gemini-2.5-flash",
        finish_reason="STOP",
    ),
    "bedrock": Response(
        "Bonjour",
        tool_calls=(ToolCall("book", {"to": "Paris"}, "t1"),),
        usage=READ["bedrock"].usage,
        finish_reason="tool_use",
    ),
}
STREAMED["vertex"] = STREAMED["gemini"]
ASKS_TO_STREAM: dict[str, Any] = {
    "openai": {"stream": True, "stream_options": {"include_usage": True}},
    "responses": {"stream": True},
    "anthropic": {"stream": True},
    "gemini": {},
    "bedrock": {},
    "vertex": {},
}


@every_api
async def test_a_stream_is_assembled_and_its_first_token_timed(
    api: str, server: FakeServer, resources: FakeResources
) -> None:
    server.answers(streaming(STREAMS[api], kind=APIS[api].stream_type))
    response = await ask(APIS[api].options(server.url, stream=True), resources)
    assert response.first_token_s is not None
    assert 0 < response.first_token_s < 5
    assert replace(response, first_token_s=None) == STREAMED[api]
    (seen,) = server.seen
    APIS[api].check_request(seen)
    assert (seen.method, seen.path) == ("POST", APIS[api].stream_path)
    assert seen.json | ASKS_TO_STREAM[api] == seen.json


CUT_OFF = "broke off its stream before the answer was complete"
BROKEN: dict[str, Sequence[Failing]] = {
    "openai": [
        Failing([chunk({"content": "He"})], "network", CUT_OFF),
        Failing([], "network", CUT_OFF),
        Failing(
            [event({"error": {"message": "overloaded", "code": 503}})],
            "server",
            "answered 503: overloaded",
        ),
        Failing(
            [event({"error": {"message": "gone", "code": "x"}})],
            "server",
            "reported an error: x: gone",
        ),
        *(
            Failing([chunk({"content": "He"}, finish_reason=reason)], "server", reason)
            for reason in ("error", "network_error", "insufficient_system_resource")
        ),
        Failing([event("{]")], "bad_answer", "something unexpected"),
        Failing([event({"choices": "none"})], "bad_answer", "something unexpected"),
    ],
    "responses": [
        Failing(STREAMS["responses"][:1], "network", CUT_OFF),
        Failing(
            [
                STREAMS["responses"][0],
                numbered("error", code="rate_limit_exceeded", message="Slow down.", param=None),
            ],
            "rate_limit",
            "rate_limit_exceeded: Slow down.",
        ),
        Failing(
            [
                STREAMS["responses"][0],
                numbered(
                    "response.failed",
                    response=responding(
                        status="failed", error={"code": "server_error", "message": "Oops."}
                    ),
                ),
            ],
            "server",
            "server_error: Oops.",
        ),
    ],
    "anthropic": [
        Failing(STREAMS["anthropic"][:5], "network", CUT_OFF),
        Failing(
            [
                *STREAMS["anthropic"][:5],
                named("error", error={"type": "overloaded_error", "message": "Overloaded"}),
            ],
            "server",
            "127.0.0.1 reported an error: overloaded_error: Overloaded",
        ),
    ],
    "gemini": [
        Failing(STREAMS["gemini"][:2], "network", CUT_OFF),
        Failing(
            [event({"promptFeedback": {"blockReason": "SAFETY"}})], "rejected", "blocked the prompt"
        ),
    ],
    "bedrock": [
        Failing(STREAMS["bedrock"][:4], "network", CUT_OFF),
        Failing(
            [*STREAMS["bedrock"][:3], STREAMS["bedrock"][3][:-1] + b"?"],
            "bad_answer",
            "the stream is damaged",
        ),
        Failing(
            [STREAMS["bedrock"][0], exception_frame("throttlingException", "Slow.")],
            "rate_limit",
            "throttlingException: Slow.",
        ),
        Failing(
            [STREAMS["bedrock"][0], exception_frame("modelStreamErrorException", "Oops.")],
            "server",
            "Oops.",
        ),
    ],
}
BROKEN["vertex"] = BROKEN["gemini"]


@each(BROKEN)
async def test_a_stream_that_is_no_answer_is_an_error_of_its_kind(
    api: str, entry: Failing, server: FakeServer, resources: FakeResources
) -> None:
    server.answers(streaming(entry.sent, kind=APIS[api].stream_type))
    with pytest.raises(ProviderError) as caught:
        await ask(APIS[api].options(server.url, stream=True), resources)
    assert caught.value.kind == entry.kind
    assert entry.words in caught.value.message
    assert caught.value.retryable == (entry.kind in {"network", "rate_limit", "server"})


# The mock server, which speaks all of them.

BOOKED = MockAnswer("I book two  seats.\n", tool_calls=(ToolCall("book", {"to": "Paris"}),))


@every_api
async def test_the_mock_server_answers_as_the_provider_reads_it(
    api: str, resources: FakeResources
) -> None:
    async with run_server(Mock(answers={"Hello!": BOOKED})) as url:
        host = url.removesuffix("/v1")
        at_once = await ask(APIS[api].options(host), resources)
        streamed = await ask(APIS[api].options(host, stream=True), resources)
    assert (at_once.first_token_s, streamed.first_token_s is None) == (None, False)
    for response in (at_once, streamed):
        assert response.output == "I book two  seats.\n"
        (call,) = response.tool_calls
        assert (call.name, call.arguments) == ("book", {"to": "Paris"})
    assert (streamed.usage, streamed.model) == (at_once.usage, at_once.model)
    assert streamed.finish_reason == at_once.finish_reason
    assert at_once.usage
    assert at_once.usage.output_tokens > 0


# Settings.


@every_api
def test_it_is_named_and_keyed_after_its_vendor(api: str) -> None:
    settings: dict[str, Any] = {"model": APIS[api].model, **APIS[api].settings}
    options = PROVIDERS[APIS[api].kind](**settings)
    assert (options.default_name, options.key_variable) == (APIS[api].name, APIS[api].key_variable)
    assert not options.own_code
    keyed: dict[str, Any] = {**settings, "api_key": Secret(KEY, "A_KEY")}
    with_key = PROVIDERS[APIS[api].kind](**keyed)
    assert with_key.key_variable is None
    assert KEY not in repr(with_key)


class Mistake(NamedTuple):
    """Settings that are wrong, and how the problems begin that are found."""

    settings: Mapping[str, Any]
    problems: Sequence[str]


OURS = "is set by ci-evals itself"
TO_GOOGLE = "params.temperature: belongs in `generationConfig`"
MISTAKES: dict[str, Sequence[Mistake]] = {
    "openai": [
        Mistake({"model": " "}, ["model: is empty"]),
        Mistake({"base_url": "localhost:11434/v1"}, ["base_url: is not a complete address"]),
        Mistake({"base_url": "http://[::1/v1"}, ["base_url: is not a complete address"]),
        Mistake({"params": {"messages": []}}, [f"params.messages: {OURS}"]),
        Mistake(
            {"params": {"stream": True}},
            [f"params.stream: {OURS}; write `stream: true` next to `model`"],
        ),
        Mistake({"headers": {"X Team": "a"}}, ["headers.X Team: "]),
        Mistake({"headers": {"X-Team": "a\r\nb"}}, ["headers.X-Team: "]),
    ],
    "responses": [
        Mistake(
            {"params": {"input": "Hello", "background": True}},
            [
                f"params.input: {OURS}; remove it",
                "params.background: ci-evals waits for each answer; remove it",
            ],
        )
    ],
    "anthropic": [Mistake({"params": {"messages": []}}, [f"params.messages: {OURS}"])],
    "gemini": [
        Mistake({"params": {"temperature": 0}}, [TO_GOOGLE]),
        Mistake({"params": {"contents": []}}, [f"params.contents: {OURS}"]),
    ],
    "bedrock": [
        Mistake(
            {"params": {"temperature": 0, "messages": []}},
            [
                f"params.messages: {OURS}; remove it",
                (
                    "params.temperature: belongs in `inferenceConfig`: "
                    "params: {inferenceConfig: {temperature: …}}"
                ),
            ],
        )
    ],
    "vertex": [
        Mistake({"params": {"temperature": 0}}, [TO_GOOGLE]),
        Mistake({"params": {"contents": []}}, [f"params.contents: {OURS}"]),
    ],
}


@each(MISTAKES)
def test_mistakes_are_found_before_any_call(api: str, entry: Mistake) -> None:
    options = APIS[api].options("http://localhost", **entry.settings)
    problems = options.problems(Path())
    assert len(problems) == len(entry.problems)
    for found, expected in zip(problems, entry.problems, strict=True):
        assert found.startswith(expected)


@every_api
def test_good_options_have_no_problems(api: str) -> None:
    options = APIS[api].options(
        "http://localhost", params=PARAMS[api], headers={"X-Team": "support"}
    )
    assert options.problems(Path()) == []
