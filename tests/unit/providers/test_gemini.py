"""The Gemini provider, against answers in the documented shapes."""

from pathlib import Path
from typing import Any

import pytest
from fakes.http_server import FakeResources, FakeServer, Scripted, request_of

from ci_evals.errors import ProviderError
from ci_evals.model.fields import Secret
from ci_evals.model.response import Message, Response, ToolCall, Usage
from ci_evals.providers.gemini import Gemini

HELLO: dict[str, Any] = {
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

MEETING: dict[str, Any] = {
    "candidates": [
        {
            "content": {
                "parts": [
                    {
                        "functionCall": {
                            "name": "schedule_meeting",
                            "args": {
                                "attendees": ["Bob", "Alice"],
                                "date": "2025-03-14",
                                "time": "10:00",
                            },
                        },
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
    "usageMetadata": {"promptTokenCount": 110, "candidatesTokenCount": 30, "totalTokenCount": 140},
    "modelVersion": "gemini-2.5-flash",
}


async def answer(
    server: FakeServer, resources: FakeResources, body: Any, *messages: Message, **changes: Any
) -> Response:
    server.answers(Scripted(body))
    options = Gemini(**({"model": "gemini-2.5-flash", "base_url": server.url} | changes))
    return await options.open(resources).answer(request_of(*messages))


async def test_the_documented_answer_is_read_and_thoughts_counted_but_not_shown(
    server: FakeServer, resources: FakeResources
) -> None:
    assert await answer(server, resources, HELLO) == Response(
        output="Hello! How can I help you today?",
        usage=Usage(input_tokens=20 + 7, output_tokens=9 + 30, cached_tokens=16),
        model="gemini-2.5-flash",
        finish_reason="STOP",
    )


async def test_the_documented_function_call_is_read(
    server: FakeServer, resources: FakeResources
) -> None:
    response = await answer(server, resources, MEETING)
    arguments = {"attendees": ["Bob", "Alice"], "date": "2025-03-14", "time": "10:00"}
    assert response.tool_calls == (
        ToolCall("schedule_meeting", arguments),
        ToolCall("notify", {}, "f2"),
    )
    assert (response.output, response.usage) == ("", Usage(110, 30))


@pytest.mark.parametrize(
    "candidate",
    [
        {"finishReason": "SAFETY", "index": 0},
        {"content": {"role": "model"}, "finishReason": "SAFETY"},
        {"content": {"parts": None}, "finishReason": "SAFETY"},
    ],
)
async def test_a_withheld_answer_is_empty_and_says_why(
    server: FakeServer, resources: FakeResources, candidate: Any
) -> None:
    response = await answer(server, resources, HELLO | {"candidates": [candidate]})
    assert (response.output, response.finish_reason) == ("", "SAFETY")


async def test_a_blocked_prompt_is_rejected_with_its_reason(
    server: FakeServer, resources: FakeResources
) -> None:
    body = {
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 9},
    }
    with pytest.raises(
        ProviderError, match="blocked the prompt \\(PROHIBITED_CONTENT\\)"
    ) as caught:
        await answer(server, resources, body)
    assert caught.value.kind == "rejected"


async def test_an_answer_without_candidate_or_reason_is_a_bad_answer(
    server: FakeServer, resources: FakeResources
) -> None:
    with pytest.raises(ProviderError) as caught:
        await answer(server, resources, {})
    assert caught.value.kind == "bad_answer"


async def test_the_request_is_as_documented(server: FakeServer, resources: FakeResources) -> None:
    await answer(
        server,
        resources,
        HELLO,
        Message("system", "Be brief."),
        Message("user", "To Paris"),
        Message(
            "assistant",
            tool_calls=(ToolCall("book", {"to": "Paris"}, "f1"), ToolCall("pay", "{oops")),
        ),
        Message("tool", "booked", tool_call_id="f1"),
        Message("tool", "paid", tool_call_id="pay"),
        Message("assistant", "Done."),
        api_key=Secret("AIza12345"),
        params={"generationConfig": {"temperature": 0}},
    )
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/v1beta/models/gemini-2.5-flash:generateContent")
    assert seen.headers["x-goog-api-key"] == "AIza12345"
    assert seen.json == {
        "generationConfig": {"temperature": 0},
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "To Paris"}]},
            {
                "role": "model",
                "parts": [
                    {"functionCall": {"id": "f1", "name": "book", "args": {"to": "Paris"}}},
                    {"functionCall": {"name": "pay", "args": {"arguments": "{oops"}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "id": "f1",
                            "name": "book",
                            "response": {"output": "booked"},
                        }
                    },
                    {
                        "functionResponse": {
                            "id": "pay",
                            "name": "pay",
                            "response": {"output": "paid"},
                        }
                    },
                ],
            },
            {"role": "model", "parts": [{"text": "Done."}]},
        ],
    }


@pytest.mark.parametrize(
    ("model", "signed"), [("gemini-2.5-pro", False), ("gemini-3-pro-preview", True)]
)
async def test_written_tool_calls_are_sent_with_the_signature_for_none_where_one_is_wanted(
    server: FakeServer, resources: FakeResources, model: str, signed: bool
) -> None:
    written = Message("assistant", tool_calls=(ToolCall("book", {}),))
    await answer(server, resources, HELLO, Message("user", "To Paris"), written, model=model)
    part = server.seen[0].json["contents"][1]["parts"][0]
    assert (part.get("thoughtSignature") == "skip_thought_signature_validator") is signed


async def test_a_tuned_model_has_its_own_path(server: FakeServer, resources: FakeResources) -> None:
    await answer(server, resources, HELLO, model="tunedModels/ours-1")
    assert server.seen[0].path == "/v1beta/tunedModels/ours-1:generateContent"


def test_a_generation_setting_beside_generation_config_is_pointed_out() -> None:
    (problem,) = Gemini(model="m", params={"temperature": 0}).problems(Path())
    assert problem.startswith("params.temperature: belongs in `generationConfig`")
    (problem,) = Gemini(model="m", params={"contents": []}).problems(Path())
    assert problem.startswith("params.contents: is set by ci-evals itself")
    assert Gemini(model="m", params={"generationConfig": {"temperature": 0}}).problems(Path()) == []


def test_it_is_named_and_keyed_after_its_vendor() -> None:
    options = Gemini(model="gemini-2.5-flash")
    assert (options.default_name, options.key_variable) == (
        "gemini:gemini-2.5-flash",
        "GEMINI_API_KEY",
    )
