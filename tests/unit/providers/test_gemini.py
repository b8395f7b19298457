"""What Gemini's API has of its own; the rest is in `test_model_apis.py`."""

from typing import Any

import pytest
from fakes.http_server import FakeResources, FakeServer, answered, ask, event, streaming

from ci_evals.model.response import Message, ToolCall
from ci_evals.providers.gemini import Gemini

HELLO: dict[str, Any] = {
    "candidates": [
        {"content": {"parts": [{"text": "Hello!"}], "role": "model"}, "finishReason": "STOP"}
    ]
}


def gemini(server: FakeServer, model: str = "gemini-2.5-flash", base: str = "") -> Gemini:
    return Gemini(model=model, base_url=server.url + base, stream=bool(base))


async def test_the_result_of_a_call_without_an_id_goes_by_its_name(
    server: FakeServer, resources: FakeResources
) -> None:
    turns = (
        Message("user", "To Paris"),
        Message("assistant", tool_calls=(ToolCall("pay", {"eur": 5}),)),
        Message("tool", "paid", tool_call_id="pay"),
    )
    await answered(server, resources, gemini(server), HELLO, *turns)
    called, answer = server.seen[0].json["contents"][1:]
    assert called["parts"] == [{"functionCall": {"name": "pay", "args": {"eur": 5}}}]
    result = {"id": "pay", "name": "pay", "response": {"output": "paid"}}
    assert answer["parts"] == [{"functionResponse": result}]


@pytest.mark.parametrize(
    ("model", "signed"), [("gemini-2.5-pro", False), ("gemini-3-pro-preview", True)]
)
async def test_written_tool_calls_are_sent_with_the_signature_for_none_where_one_is_wanted(
    server: FakeServer, resources: FakeResources, model: str, signed: bool
) -> None:
    turns = (Message("user", "To Paris"), Message("assistant", tool_calls=(ToolCall("book", {}),)))
    await answered(server, resources, gemini(server, model), HELLO, *turns)
    part = server.seen[0].json["contents"][1]["parts"][0]
    assert (part.get("thoughtSignature") == "skip_thought_signature_validator") is signed


async def test_a_tuned_model_has_its_own_path(server: FakeServer, resources: FakeResources) -> None:
    await answered(server, resources, gemini(server, "tunedModels/ours-1"), HELLO)
    assert server.seen[0].path == "/v1beta/tunedModels/ours-1:generateContent"


async def test_a_stream_is_asked_for_beside_the_query_of_the_base_url(
    server: FakeServer, resources: FakeResources
) -> None:
    server.answers(streaming([event(HELLO)]))
    await ask(gemini(server, base="?v=1"), resources)
    path = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?v=1&alt=sse"
    assert server.seen[0].path == path
