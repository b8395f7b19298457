"""What OpenAI's responses API has of its own; the rest is in `test_model_apis.py`."""

from typing import Any

from fakes.http_server import FakeResources, FakeServer, Scripted, answered, request_of
from fakes.responses import check_responses, output_text, responding

from ci_evals.model.response import Passage, Response, Step, ToolCall, Usage
from ci_evals.providers.mock_apis import Responses
from ci_evals.providers.openai import OpenAI


async def asked(
    server: FakeServer,
    resources: FakeResources,
    *output: dict[str, Any],
    schema: Any = None,
    **changes: Any,
) -> Response:
    """The response to items of output; what is sent either way is of the published shape."""
    body = responding(*output)
    check_responses(body, "response")
    settings = {"model": "gpt-5", "base_url": f"{server.url}/v1", "api": "responses", **changes}
    response = await answered(server, resources, OpenAI(**settings), body, schema=schema)
    for seen in server.seen:
        check_responses(seen.json, "request")
    return response


async def test_tools_that_the_api_carries_out_are_steps(
    server: FakeServer, resources: FakeResources
) -> None:
    items: list[dict[str, Any]] = [
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
        output_text("Within 30 days."),
    ]
    response = await asked(server, resources, *items)
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


async def test_a_schema_constrains_the_text(server: FakeServer, resources: FakeResources) -> None:
    schema = {"type": "object", "properties": {"score": {"type": "number"}}}
    params = {"text": {"verbosity": "low"}}
    await asked(server, resources, output_text('{"score": 1}'), schema=schema, params=params)
    text_format = {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}
    assert server.seen[0].json["text"] == {"verbosity": "low", "format": text_format}


async def test_a_schema_is_left_out_where_it_is_refused(
    server: FakeServer, resources: FakeResources
) -> None:
    refusal = Scripted({"error": {"message": "text.format is not supported"}}, status=400)
    server.answers(refusal, Scripted(responding(output_text("1"))))
    options = OpenAI(model="old", base_url=server.url, api="responses")
    provider = options.open(resources)
    request = request_of(schema={"type": "object"})
    assert (await provider.answer(request)).output == "1"
    assert (await provider.answer(request)).output == "1"
    assert ["text" in seen.json for seen in server.seen] == [True, False, False]


async def test_a_refusal_is_the_answer(server: FakeServer, resources: FakeResources) -> None:
    refused = {**output_text(""), "content": [{"type": "refusal", "refusal": "I can't help."}]}
    assert (await asked(server, resources, refused)).output == "I can't help."


def test_the_mock_server_answers_in_the_published_shape() -> None:
    calls = (ToolCall("book", {"to": "Paris"}),)
    response = Response("Hello!", calls, Usage(3, 4), finish_reason="stop")
    api = Responses()
    rendered = api.render(response, "gpt-5", 1)
    check_responses(rendered, "response")
    *_, (kind, last) = api.events(rendered)
    assert kind == "response.completed"
    check_responses(last["response"], "response")
