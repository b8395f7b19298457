"""What Anthropic's API has of its own; the rest is in `test_model_apis.py`."""

from dataclasses import replace
from typing import Any

import pytest
from fakes.http_server import FakeResources, FakeServer, answered

from ci_evals.model.response import Message, Response, Usage
from ci_evals.providers.anthropic import Anthropic
from ci_evals.providers.base import Price
from ci_evals.providers.openai import OpenAI
from ci_evals.providers.pricing import pricer

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


def test_what_was_written_to_the_cache_costs_more_than_other_input() -> None:
    """1.25 times as much for minutes, twice as much for an hour, or what `price` says."""
    usage = Usage(31_100, 500, cached_tokens=1000, cache_write_tokens=30_000)
    price = Price(input_per_mtok=3, output_per_mtok=15, cached_per_mtok=0.3)
    cost = {}
    for name, used, at in (
        ("minutes", usage, price),
        ("an hour", replace(usage, hour_write_tokens=30_000), price),
        ("own", usage, replace(price, cache_write_per_mtok=10)),
    ):
        options = OpenAI(model="m", price=at)
        cost[name] = pricer(options)(Response("ok", usage=used))
    other = (100 * 3 + 1000 * 0.3 + 500 * 15) / 1e6
    assert cost == {
        "minutes": pytest.approx(other + 30_000 * 3.75 / 1e6),
        "an hour": pytest.approx(other + 30_000 * 6 / 1e6),
        "own": pytest.approx(other + 30_000 * 10 / 1e6),
    }
    listed = Usage(31_100, 500, cache_write_tokens=30_000)
    model = OpenAI(model="m", price="claude-sonnet-4-5")
    assert pricer(model)(Response("ok", usage=listed)) == pytest.approx(
        (1100 * 3 + 30_000 * 3.75 + 500 * 15) / 1e6
    )


async def test_tokens_written_to_the_cache_for_an_hour_are_told_apart(
    server: FakeServer, resources: FakeResources
) -> None:
    written = {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30}
    usage = {"input_tokens": 7, "cache_creation_input_tokens": 50, "cache_creation": written}
    response = await answered(server, resources, anthropic(server), HELLO | {"usage": usage})
    assert response.usage == Usage(57, cache_write_tokens=50, hour_write_tokens=30)
