"""Results in the shapes of agent frameworks; examples/real_agents has the real ones."""

from dataclasses import dataclass
from types import SimpleNamespace as Shape
from typing import Any

import pytest

from ci_evals.model.response import Passage, Response, Step, ToolCall, Usage
from ci_evals.providers.answer import as_response
from ci_evals.providers.frameworks import unpack_result


async def unpacked(value: object) -> Response:
    response = await unpack_result(value)
    assert isinstance(response, Response)
    return response


# Pydantic AI.


def part(kind: str, **fields: Any) -> Shape:
    return Shape(part_kind=kind, **fields)


def model_response(*parts: Shape, usage: object = None, **fields: Any) -> Shape:
    told = {"model_name": "gpt-x", "usage": usage, "finish_reason": None, **fields}
    return Shape(kind="response", parts=parts, **told)


def run_result(output: object, *messages: Shape, **fields: Any) -> Shape:
    used = Shape(input_tokens=90, output_tokens=9, cache_read_tokens=40)
    return Shape(
        **{
            "output": output,
            "new_messages": lambda: messages,
            "usage": used,
            "metadata": None,
            **fields,
        }
    )


async def test_a_result_of_pydantic_ai_tells_its_steps_tokens_and_finish_reason() -> None:
    response = await unpacked(
        run_result(
            "Booked.",
            Shape(kind="request", parts=[part("user-prompt", content="Book!")]),
            model_response(
                part("thinking", content="Hm."),
                part("tool-call", tool_name="search", args='{"to": "Paris"}', tool_call_id="1"),
                part("tool-call", tool_name="book", args={"seat": 1}, tool_call_id="2"),
                usage=Shape(input_tokens=50, output_tokens=5),
            ),
            Shape(
                kind="request",
                parts=[
                    part("tool-return", tool_name="search", content=["LH400"], tool_call_id="1"),
                    part(
                        "retry-prompt", tool_name="book", content="no such seat", tool_call_id="2"
                    ),
                ],
            ),
            model_response(part("text", content="Booked."), finish_reason="stop"),
            metadata={"tenant": "x"},
        )
    )
    assert response == Response(
        "Booked.",
        usage=Usage(90, 9, 40),
        model="gpt-x",
        finish_reason="stop",
        steps=(
            Step("model_request", "gpt-x", usage=Usage(50, 5)),
            Step("tool_call", "search", {"to": "Paris"}, result='["LH400"]'),
            Step("tool_call", "book", {"seat": 1}, error="no such seat"),
            Step("model_request", "gpt-x", result="Booked."),
        ),
        metadata={"tenant": "x"},
    )


async def test_the_output_tool_of_pydantic_ai_is_the_answer_and_not_a_step() -> None:
    @dataclass
    class Seat:
        number: int

    call = part("tool-call", tool_name="final_result", args={"number": 1}, tool_call_id="1")
    told = part(
        "tool-return", tool_name="final_result", content="Final result processed.", tool_call_id="1"
    )
    messages = (model_response(call), Shape(kind="request", parts=[told]))
    response = await unpacked(run_result(Seat(1), *messages, _output_tool_name="final_result"))
    assert response.output == '{"number":1}'
    assert response.list_calls() == ()


async def test_before_version_2_the_usage_is_a_method_with_other_names() -> None:
    old = Shape(request_tokens=7, response_tokens=3)
    assert (await unpacked(run_result("x", usage=lambda: old))).usage == Usage(7, 3)


async def test_a_call_that_nobody_carried_out_is_asked_for_and_no_step() -> None:
    call = part("tool-call", tool_name="pay", args={"usd": 5}, tool_call_id="1")
    response = await unpacked(run_result("", model_response(call)))
    assert response.tool_calls == (ToolCall("pay", {"usd": 5}, "1"),)
    assert [step.kind for step in response.steps or ()] == ["model_request"]


# The OpenAI Agents SDK.


def item(kind: str, agent: str = "triage", output: object = None, **raw: Any) -> Shape:
    return Shape(type=kind, agent=Shape(name=agent), raw_item=raw, output=output)


async def test_a_result_of_openai_agents_tells_handoffs_tools_and_tokens() -> None:
    handoff = {
        "type": "function_call",
        "call_id": "1",
        "name": "transfer_to_seller",
        "arguments": "{}",
    }
    search = {
        "type": "function_call",
        "call_id": "2",
        "name": "search",
        "arguments": '{"to": "Paris"}',
    }
    message = {"type": "message", "content": [{"type": "output_text", "text": "LH400."}]}
    used = Shape(input_tokens=20, output_tokens=2, input_tokens_details=Shape(cached_tokens=5))
    response = await unpacked(
        Shape(
            final_output="LH400.",
            new_items=[
                item("handoff_call_item", **handoff),
                item("handoff_output_item", call_id="1", output={}),
                item("tool_call_item", "seller", **search),
                item("tool_call_output_item", "seller", output={"flight": "LH400"}, call_id="2"),
                item("message_output_item", "seller", **message),
            ],
            raw_responses=[
                Shape(output=[handoff], usage=used),
                Shape(output=[{"type": "reasoning"}, search], usage=used),
                Shape(output=[message], usage=used),
            ],
            context_wrapper=Shape(
                usage=Shape(input_tokens=60, output_tokens=6, input_tokens_details=None)
            ),
        )
    )
    assert response.output == "LH400."
    assert response.usage == Usage(60, 6)
    request = Step("model_request", usage=Usage(20, 2, 5))
    assert response.steps == (
        request,
        Step("agent", "seller"),
        request,
        Step("tool_call", "search", {"to": "Paris"}, result='{"flight":"LH400"}', agent="seller"),
        Step("model_request", usage=Usage(20, 2, 5), result="LH400."),
    )


# LangGraph and LangChain.


def message(kind: str, content: object, **fields: Any) -> Shape:
    return Shape(type=kind, content=content, additional_kwargs={}, **fields)


def state() -> dict[str, Any]:
    calls = [
        {"name": "search", "args": {"to": "Paris"}, "id": "1"},
        {"name": "pay", "args": {}, "id": "2"},
    ]
    about = {"model_name": "gpt-x", "finish_reason": "stop"}
    return {
        "messages": [
            message("human", "An earlier question"),
            message(
                "ai",
                "An earlier answer",
                usage_metadata={"input_tokens": 1000, "output_tokens": 1000},
            ),
            message("human", "Book!"),
            message(
                "ai", "", tool_calls=calls, usage_metadata={"input_tokens": 20, "output_tokens": 2}
            ),
            message("tool", "LH400", tool_call_id="1", status="success"),
            message("tool", "declined", tool_call_id="2", status="error"),
            message(
                "ai",
                [{"type": "reasoning"}, {"type": "text", "text": "No "}, "money."],
                tool_calls=[],
                usage_metadata={
                    "input_tokens": 40,
                    "output_tokens": 3,
                    "input_token_details": {"cache_read": 30},
                },
                response_metadata=about,
            ),
        ],
        "documents": [
            Shape(page_content="Fares.", id=None, metadata={"source": "fares.md", "score": 0.5})
        ],
    }


async def test_a_state_of_langgraph_tells_what_came_after_the_last_question() -> None:
    assert await unpacked(state()) == Response(
        "No money.",
        usage=Usage(60, 5, 30),
        model="gpt-x",
        finish_reason="stop",
        steps=(
            Step("model_request", usage=Usage(20, 2)),
            Step("tool_call", "search", {"to": "Paris"}, result="LH400"),
            Step("tool_call", "pay", error="declined"),
            Step("model_request", "gpt-x", result="No money.", usage=Usage(40, 3, 30)),
        ),
        context=(Passage("Fares.", "fares.md", 0.5),),
    )


async def test_a_structured_response_is_the_answer() -> None:
    assert (await unpacked(state() | {"structured_response": {"seat": 1}})).output == '{"seat":1}'


async def test_a_message_and_a_list_of_messages_are_answers_too() -> None:
    said = message("ai", "Hello.", tool_calls=[])
    assert (await unpacked(said)).output == "Hello."
    assert (await unpacked([message("human", "Hi."), said])).output == "Hello."


async def test_documents_of_langchain_are_the_context_wherever_they_stand() -> None:
    documents = [
        Shape(page_content="Fares.", id="7", metadata={}),
        Shape(page_content="Hours.", id=None, metadata={}),
    ]
    context = (Passage("Fares.", "7"), Passage("Hours."))
    chain = {"input": "How much?", "context": documents, "answer": "120."}
    assert await unpacked(chain) == Response("120.", context=context)
    assert await unpacked(chain | {"answer": message("ai", "120.")}) == Response(
        "120.", context=context
    )
    assert await unpacked(chain | {"context": []}) == Response("120.", context=())
    mapping = await unpack_result({"output": "120.", "context": documents, "cost_usd": 1})
    assert as_response(mapping) == Response("120.", context=context, cost_usd=1)


# AG2.


class ModelRequest:
    pass


@dataclass
class ModelResponse:
    content: str | None
    usage: object
    model: str | None = "gpt-x"
    finish_reason: str | None = "stop"


@dataclass
class ToolCallEvent:
    id: str
    name: str
    arguments: str


@dataclass
class ToolResultEvent:
    parent_id: str
    result: object


@dataclass
class ToolErrorEvent(ToolResultEvent):
    error: Exception


async def test_a_reply_of_ag2_tells_the_events_since_the_last_question() -> None:
    async def get_events() -> list[object]:
        used = Shape(prompt_tokens=20.0, completion_tokens=2.0, cache_read_input_tokens=None)
        return [
            *(ModelRequest(), ModelResponse("An earlier answer", used), ModelRequest()),
            *(
                ModelResponse(None, used),
                ToolCallEvent("1", "search", '{"to": "Paris"}'),
                ToolCallEvent("2", "pay", ""),
            ),
            ToolResultEvent("1", Shape(parts=[Shape(content="LH400")])),
            ToolErrorEvent("2", Shape(parts=[]), ValueError("declined")),
            ModelResponse("No money.", Shape(prompt_tokens=None)),
        ]

    reply = Shape(body="No money.", context=None, history=Shape(get_events=get_events))
    assert await unpacked(reply) == Response(
        "No money.",
        usage=Usage(20, 2),
        model="gpt-x",
        finish_reason="stop",
        steps=(
            Step("model_request", "gpt-x", usage=Usage(20, 2)),
            Step("tool_call", "search", {"to": "Paris"}, result="LH400"),
            Step("tool_call", "pay", error="declined"),
            Step("model_request", "gpt-x", result="No money."),
        ),
    )


@pytest.mark.parametrize(
    "value",
    [
        "text",
        {"output": "x"},
        {"messages": [{"role": "user", "content": "x"}]},
        [],
        ["a"],
        5,
        None,
        Shape(output="x"),
    ],
)
async def test_anything_else_stays_what_it_is(value: object) -> None:
    assert await unpack_result(value) is value
