"""Traces of emitters with attribute names of their own say the same as those of OpenInference."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from counting import count_calls
from processes import ci_evals
from suites import write_lines, write_suite

from ci_evals.engine.traces import read_traces
from ci_evals.suite.yaml import parse

QUESTION = "Where is parcel 7?"
ANSWER = "It comes on Monday."
ASKED = [{"role": "user", "content": QUESTION}]
CALL = {"parcel": 7}
FEW_CALLS = 150

Event = tuple[str, Mapping[str, Any]]


def span(
    name: str,
    attributes: Mapping[str, Any],
    *events: Event,
    parent: int | None = None,
    number: int = 0,
) -> dict[str, Any]:
    """A span of OTLP JSON; values that are not texts are their JSON."""
    made: dict[str, Any] = {
        "traceId": "t",
        "spanId": str(number),
        "name": name,
        "startTimeUnixNano": str((number + 1) * 10**9),
        "endTimeUnixNano": str((number + 2) * 10**9),
        "attributes": encode(attributes),
        "events": [{"name": event, "attributes": encode(details)} for event, details in events],
    }
    if parent is not None:
        made["parentSpanId"] = str(parent)
    return made


def encode(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    encoded = []
    for key, value in attributes.items():
        if isinstance(value, int):
            typed = {"intValue": str(value)}
        elif isinstance(value, str):
            typed = {"stringValue": value}
        else:
            typed = {"stringValue": json.dumps(value)}
        encoded.append({"key": key, "value": typed})
    return encoded


def nest(*spans: dict[str, Any]) -> list[dict[str, Any]]:
    """Put spans into the first one, in their order."""
    for number, each in enumerate(spans):
        each["spanId"] = str(number)
        each["startTimeUnixNano"] = str((number + 1) * 10**9)
        if number:
            each["parentSpanId"] = "0"
    return list(spans)


def write(path: Path, spans: Sequence[dict[str, Any]], scope: str = "") -> Path:
    scopes = [{"scope": {"name": scope}, "spans": list(spans)}]
    return write_lines(path, {"resourceSpans": [{"scopeSpans": scopes}]})


VERCEL = nest(
    span(
        "ai.generateText",
        {
            "ai.operationId": "ai.generateText",
            "ai.prompt": {"system": "Be brief.", "prompt": QUESTION},
            "ai.response.text": ANSWER,
            "ai.usage.inputTokens": 20,
        },
    ),
    span(
        "ai.generateText.doGenerate",
        {
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.prompt.messages": [
                {"role": "user", "content": [{"type": "text", "text": QUESTION}]}
            ],
            "ai.response.toolCalls": [{"toolCallId": "c", "toolName": "track", "input": CALL}],
            "ai.model.id": "m",
            "ai.usage.inputTokens": 20,
            "ai.usage.outputTokens": 4,
        },
    ),
    span(
        "ai.toolCall",
        {
            "ai.operationId": "ai.toolCall",
            "ai.toolCall.name": "track",
            "ai.toolCall.args": CALL,
            "ai.toolCall.result": '"late"',
        },
    ),
)
TOKENS = {"gen_ai.usage.input_tokens": 20, "gen_ai.usage.output_tokens": 4}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"} | TOKENS
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "track"}
EVENTS = nest(
    span("turn", {}),
    span(
        "chat m",
        CHAT,
        ("gen_ai.system.message", {"content": "Be brief."}),
        ("gen_ai.user.message", {"content": QUESTION}),
        ("gen_ai.choice", {"index": 0, "message": {"role": "assistant", "content": ANSWER}}),
    ),
    span(
        "track",
        TOOL | {"gen_ai.tool.call.arguments": CALL, "gen_ai.tool.call.result": "late"},
    ),
)
CONTENT_EVENTS = nest(
    span("turn", {}),
    span(
        "chat m",
        CHAT,
        ("gen_ai.content.prompt", {"gen_ai.prompt": ASKED}),
        (
            "gen_ai.content.completion",
            {"gen_ai.completion": [{"role": "assistant", "content": ANSWER}]},
        ),
    ),
    span(
        "track",
        TOOL | {"gen_ai.tool.call.arguments": CALL, "gen_ai.tool.call.result": "late"},
    ),
)
STRANDS = nest(
    span(
        "invoke_agent Post",
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Post"},
        ("gen_ai.user.message", {"content": [{"text": QUESTION}]}),
        ("gen_ai.choice", {"message": ANSWER, "finish_reason": "end_turn"}),
    ),
    span(
        "chat",
        CHAT,
        ("gen_ai.user.message", {"content": [{"text": QUESTION}]}),
        (
            "gen_ai.choice",
            {"message": [{"toolUse": {"toolUseId": "c", "name": "track", "input": CALL}}]},
        ),
    ),
    span(
        "execute_tool track",
        TOOL | {"gen_ai.tool.status": "success"},
        ("gen_ai.tool.message", {"role": "tool", "content": CALL, "id": "c"}),
        ("gen_ai.choice", {"message": [{"text": "late"}], "id": "c"}),
    ),
)
ADK = nest(
    span("invocation", {}),
    span(
        "call_llm",
        {
            "gen_ai.system": "gcp.vertex.agent",
            "gen_ai.request.model": "m",
            "gcp.vertex.agent.llm_request": {
                "model": "m",
                "contents": [{"role": "user", "parts": [{"text": QUESTION}]}],
            },
            "gcp.vertex.agent.llm_response": {
                "content": {"role": "model", "parts": [{"text": ANSWER}]}
            },
        }
        | TOKENS,
    ),
    span(
        "execute_tool track",
        TOOL
        | {
            "gcp.vertex.agent.llm_request": {},
            "gcp.vertex.agent.tool_call_args": CALL,
            "gcp.vertex.agent.tool_response": "late",
        },
    ),
    span(
        "execute_tool (merged tools)",
        TOOL
        | {
            "gen_ai.tool.name": "(merged tools)",
            "gcp.vertex.agent.tool_call_args": "N/A",
            "gcp.vertex.agent.tool_response": "<not serializable>",
        },
    ),
)
MLFLOW = nest(
    span(
        "predict",
        {
            "mlflow.spanType": '"AGENT"',
            "mlflow.spanInputs": {"messages": ASKED},
            "mlflow.spanOutputs": {
                "choices": [{"message": {"role": "assistant", "content": ANSWER}}]
            },
        },
    ),
    span(
        "Completions",
        {
            "mlflow.spanType": "CHAT_MODEL",
            "mlflow.spanInputs": {"messages": ASKED},
            "mlflow.chat.tokenUsage": {"input_tokens": 20, "output_tokens": 4},
            "mlflow.llm.model": '"m"',
        },
    ),
    span(
        "track",
        {"mlflow.spanType": '"TOOL"', "mlflow.spanInputs": CALL, "mlflow.spanOutputs": '"late"'},
    ),
)
LANGFUSE = nest(
    span(
        "bot",
        {
            "langfuse.observation.type": "span",
            "langfuse.observation.input": QUESTION,
            "langfuse.observation.output": ANSWER,
        },
    ),
    span(
        "reply",
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.input": ASKED,
            "langfuse.observation.output": {"role": "assistant", "content": ANSWER},
            "langfuse.observation.usage_details": {"input": 20, "output": 4},
            "langfuse.observation.model.name": "m",
        },
    ),
    span(
        "track",
        {
            "langfuse.observation.type": "tool",
            "langfuse.observation.input": CALL,
            "langfuse.observation.output": "late",
        },
    ),
)
OPENLLMETRY = nest(
    span(
        "bot.workflow",
        {
            "traceloop.span.kind": "workflow",
            "traceloop.entity.input": {"args": [QUESTION], "kwargs": {}},
            "traceloop.entity.output": json.dumps(ANSWER),
        },
    ),
    span(
        "openai.chat",
        {
            "llm.request.type": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": QUESTION,
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": ANSWER,
            "gen_ai.usage.prompt_tokens": 20,
            "gen_ai.usage.completion_tokens": 4,
        },
    ),
    span(
        "track.tool",
        {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "track",
            "traceloop.entity.input": {"args": [], "kwargs": CALL},
            "traceloop.entity.output": '"late"',
        },
    ),
)
LANGSMITH = nest(
    span(
        "RunnableSequence",
        {
            "langsmith.span.kind": "chain",
            "gen_ai.operation.name": "chain",
            "gen_ai.prompt": {"question": QUESTION},
            "gen_ai.completion": {"output": ANSWER},
        },
    ),
    span(
        "ChatPromptTemplate",
        {"langsmith.span.kind": "prompt", "gen_ai.operation.name": "chat"},
    ),
    span(
        "ChatOpenAI",
        {
            "langsmith.span.kind": "llm",
            "gen_ai.prompt": {"messages": [ASKED]},
            "gen_ai.completion": {"generations": [[{"text": ANSWER}]]},
        }
        | CHAT,
    ),
    span(
        "track",
        {
            "langsmith.span.kind": "tool",
            "langsmith.trace.name": "track",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.prompt": CALL,
            "gen_ai.completion": "late",
        },
    ),
)
EMITTERS = {
    "vercel": VERCEL,
    "events": EVENTS,
    "content events": CONTENT_EVENTS,
    "strands": STRANDS,
    "adk": ADK,
    "mlflow": MLFLOW,
    "langfuse": LANGFUSE,
    "openllmetry": OPENLLMETRY,
    "langsmith": LANGSMITH,
}


@pytest.mark.parametrize("spans", EMITTERS.values(), ids=EMITTERS)
async def test_traces_become_the_same_case(tmp_path: Path, spans: list[dict[str, Any]]) -> None:
    write(tmp_path / "t.jsonl", spans)
    done = await ci_evals(tmp_path, "import", "t.jsonl", "--to", "evals.yaml")
    assert done.code == 0, done.err
    suite, _, _ = parse((tmp_path / "evals.yaml").read_text("utf-8"), "evals.yaml")
    (case,) = suite["cases"]
    assert case["input"] == QUESTION
    assert case["expect"] == [{"judge": {"rubric": "factual", "reference": ANSWER}}]
    assert case["metadata"]["tools"] == ["track"]


@pytest.mark.parametrize("spans", EMITTERS.values(), ids=EMITTERS)
def test_traces_have_the_same_steps(tmp_path: Path, spans: list[dict[str, Any]]) -> None:
    (trace,) = read_traces(write(tmp_path / "t.jsonl", spans))
    assert trace.question == QUESTION
    assert trace.response is not None
    assert trace.response.output == ANSWER
    (call,) = trace.response.list_calls()
    assert (call.name, call.arguments) == ("track", CALL)
    steps = trace.response.steps or ()
    assert [step.result for step in steps if step.kind == "tool_call"] == ["late"]
    (request,) = [step for step in steps if step.kind == "model_request"]
    assert request.name == "m"
    assert request.usage is not None
    assert (request.usage.input_tokens, request.usage.output_tokens) == (20, 4)


def test_a_text_that_looks_like_json_stays_as_the_app_wrote_it(tmp_path: Path) -> None:
    text = '{"answer":  "Monday"}'
    spans = [
        span(
            "ai.generateText",
            {"ai.operationId": "ai.generateText", "ai.prompt": {"prompt": QUESTION}}
            | {"ai.response.text": text},
        )
    ]
    (trace,) = read_traces(write(tmp_path / "t.jsonl", spans))
    assert trace.response is not None
    assert trace.response.output == text


def test_a_tool_that_strands_saw_fail_is_a_failed_call(tmp_path: Path) -> None:
    failed = span(
        "execute_tool track",
        TOOL | {"gen_ai.tool.status": "error"},
        ("gen_ai.choice", {"message": [{"text": "no such parcel"}], "id": "c"}),
    )
    (trace,) = read_traces(write(tmp_path / "t.jsonl", [failed]))
    assert trace.response is not None
    assert [step.error for step in trace.response.steps or ()] == ["no such parcel"]


def test_a_request_that_two_instrumentations_recorded_counts_once(tmp_path: Path) -> None:
    outer = span("call", CHAT | {"gen_ai.input.messages": ASKED}, number=0)
    inner = span("POST", CHAT, number=1, parent=0)
    (trace,) = read_traces(write(tmp_path / "t.jsonl", [outer, inner]))
    assert trace.response is not None
    assert trace.response.usage is not None
    assert len(trace.response.steps or ()) == 1
    assert trace.response.usage.input_tokens == 20


SILENT: Sequence[tuple[Mapping[str, Any], str, str]] = (
    (
        {"ai.operationId": "ai.generateText", "ai.model.id": "m"},
        "ai",
        "the Vercel AI SDK recorded no question: set `recordInputs: true`",
    ),
    (CHAT, "x", "GenAI conventions recorded no question: set OTEL_INSTRUMENTATION_GENAI_"),
    (
        {"harbour.question": QUESTION},
        "harbour-tracer",
        "the attributes of harbour-tracer are not known: set `input.value`",
    ),
    ({"harbour.question": QUESTION}, "", "the attributes of harbour.* are not known"),
    ({}, "", "the attributes of an unnamed tracer are not known"),
)
"""Spans without a question: their attributes, their tracer, and what is said about them."""


@pytest.mark.parametrize(("attributes", "scope", "told"), SILENT)
async def test_an_emitter_without_questions_is_named(
    tmp_path: Path, attributes: Mapping[str, Any], scope: str, told: str
) -> None:
    write(tmp_path / "t.jsonl", [span("bot", attributes)], scope)
    done = await ci_evals(tmp_path, "import", "t.jsonl", "--to", "evals.yaml")
    assert done.code == 2
    assert told in done.err
    assert "t.jsonl: no question in 1 trace" in done.err


def write_tracked(folder: Path) -> None:
    """A suite with one case, which is found by the question or by its id."""
    cases = [{"id": "parcel", "input": QUESTION, "expect": [{"contains": "Monday"}]}]
    write_suite(folder, cases)


@pytest.mark.parametrize(("attributes", "scope", "told"), SILENT)
async def test_grade_names_the_emitter_of_traces_without_a_question(
    tmp_path: Path, attributes: Mapping[str, Any], scope: str, told: str
) -> None:
    write_tracked(tmp_path)
    write(tmp_path / "t.jsonl", [span("bot", attributes)], scope)
    done = await ci_evals(tmp_path, "grade", "t.jsonl")
    assert done.code == 3
    assert "warning: no question in 1 trace: " in done.err
    assert told in done.err


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        (
            {"ai.operationId": "ai.generateText", "ai.prompt": {"prompt": QUESTION}},
            "the Vercel AI SDK recorded no answer: set `recordOutputs: true`",
        ),
        (
            {**CHAT, "ci_evals.case.id": "parcel"},
            "GenAI conventions recorded no answer: set OTEL_INSTRUMENTATION_GENAI_",
        ),
        (
            {"harbour.answer": ANSWER, "ci_evals.case.id": "parcel"},
            "harbour-tracer recorded no answer under a known name: set `output.value`",
        ),
        (
            {"input.value": QUESTION},
            "harbour-tracer recorded no answer under a known name: set `output.value`",
        ),
    ],
)
async def test_grade_names_the_emitter_of_traces_without_an_answer(
    tmp_path: Path, attributes: Mapping[str, Any], told: str
) -> None:
    write_tracked(tmp_path)
    write(tmp_path / "t.jsonl", [span("bot", attributes)], "harbour-tracer")
    done = await ci_evals(tmp_path, "grade", "t.jsonl")
    assert done.code == 1
    assert "warning: no answer in 1 trace, graded as empty: " in done.err
    assert told in done.err


async def test_grade_names_a_few_emitters_and_all_traces_that_match_no_case(
    tmp_path: Path,
) -> None:
    write_tracked(tmp_path)
    scopes = [
        {"scope": {"name": f"tracer {n}"}, "spans": [span("bot", {}) | {"traceId": f"t{n}"}]}
        for n in range(5)
    ]
    asks = {"input.value": "And parcel 8?", "output.value": ANSWER}
    scopes.append({"scope": {}, "spans": [span("bot", asks) | {"traceId": "other"}]})
    write_lines(tmp_path / "t.jsonl", {"resourceSpans": [{"scopeSpans": scopes}]})
    done = await ci_evals(tmp_path, "grade", "t.jsonl")
    assert "6 traces match no case of evals.yaml: 'trace t0 (bot)', " in done.err
    assert "no question in 5 traces" in done.err
    assert "tracer 2" in done.err
    assert "tracer 3" not in done.err
    assert "and so on for 2 other emitters" in done.err


def test_a_long_chain_costs_no_more_per_span_than_a_short_one(tmp_path: Path) -> None:
    """Each span of the chain is an agent in the one before it."""
    calls = {}
    for length in (500, 5000):
        spans = []
        for number in range(length):
            attributes = {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": f"agent {number}",
                "input.value": QUESTION,
            }
            parent = None
            if number:
                parent = number - 1
            spans.append(span("turn", attributes, number=number, parent=parent))
        path = write(tmp_path / f"{length}.jsonl", spans)
        (trace,) = read_traces(path)
        assert trace.response is not None
        steps = trace.response.steps or ()
        assert len(steps) == length
        assert steps[-1].agent == f"agent {length - 2}"
        calls[length] = count_calls(partial(read_traces, path))
    assert calls[5000] / 5000 < FEW_CALLS
    assert calls[5000] / 5000 < 1.2 * calls[500] / 500


def test_spans_that_are_each_others_parents_are_read(tmp_path: Path) -> None:
    agent = {"gen_ai.operation.name": "invoke_agent", "input.value": QUESTION}
    spans = [span("a", agent, number=0, parent=1), span("b", agent, number=1, parent=0)]
    (trace,) = read_traces(write(tmp_path / "t.jsonl", spans))
    assert trace.response is not None
    assert len(trace.response.steps or ()) == 2
