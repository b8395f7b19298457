"""What Anthropic's API has of its own; the rest is in `test_model_apis.py`."""

from typing import Any

from fakes.http_server import FakeResources, FakeServer, answered

from ci_evals.model.response import Message
from ci_evals.providers.anthropic import Anthropic

HELLO: dict[str, Any] = {
    "content": [{"type": "text", "text": "Hi! My name is Claude."}],
    "model": "claude-sonnet-4-20250514",
    "stop_reason": "end_turn",
}


def anthropic(server: FakeServer, **changes: Any) -> Anthropic:
    return Anthropic(model="claude-sonnet-4-0", base_url=server.url, **changes)


async def test_the_version_of_the_api_is_named(
    server: FakeServer, resources: FakeResources
) -> None:
    await answered(server, resources, anthropic(server), HELLO)
    assert server.seen[0].headers["anthropic-version"] == "2023-06-01"


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
    body = {**HELLO, "content": blocks}
    response = await answered(server, resources, anthropic(server), body)
    assert (response.output, response.tool_calls) == ("Paris", ())


async def test_params_set_the_length_and_a_prompts_system_text_wins(
    server: FakeServer, resources: FakeResources
) -> None:
    options = anthropic(server, params={"max_tokens": 64, "system": "of the provider"})
    prompt = (Message("system", "of the prompt"), Message("user", "Hi"))
    await answered(server, resources, options, HELLO)
    await answered(server, resources, options, HELLO, *prompt)
    assert [(seen.json["max_tokens"], seen.json["system"]) for seen in server.seen] == [
        (64, "of the provider"),
        (64, "of the prompt"),
    ]
