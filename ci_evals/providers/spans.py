"""Converts spans of an instrumented agent into steps, by OpenTelemetry's GenAI semantic conventions
and OpenInference.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ci_evals.model.response import Message, Passage, Response, Step, StepKind, Usage
from ci_evals.providers.answer import as_context, as_steps
from ci_evals.providers.chats import answer_in, decode, question_in, read_chat

_OPERATIONS: Mapping[str, StepKind] = {
    "chat": "model_request",
    "text_completion": "model_request",
    "generate_content": "model_request",
    "execute_tool": "tool_call",
    "invoke_agent": "agent",
}
_KINDS: Mapping[str, StepKind] = {
    "LLM": "model_request",
    "TOOL": "tool_call",
    "AGENT": "agent",
}
_DETAIL_KINDS = frozenset(
    ("EMBEDDING", "EVALUATOR", "GUARDRAIL", "MERGED", "RERANKER", "RETRIEVER", "TOOL")
)
_MAX_DEPTH = 20
_MAX_TOKENS = 1e15  # a larger count is an error of whoever wrote it


@dataclass(frozen=True, slots=True)
class Span:
    """One span. Times are in nanoseconds since 1970; `error` is None if it did not fail;
    `emitter` names what wrote it.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    attributes: Mapping[str, Any]
    start_ns: int
    end_ns: int
    error: str | None = None
    emitter: str = ""

    @property
    def kind(self) -> StepKind | None:
        """The kind of step; None if the span is not a step."""
        kind = str(self.attributes.get("openinference.span.kind") or "UNKNOWN").upper()
        if kind != "UNKNOWN":  # what Phoenix writes for the spans of others
            return _KINDS.get(kind)
        return _OPERATIONS.get(str(self.attributes.get("gen_ai.operation.name")))

    @property
    def is_detail(self) -> bool:
        """True if the input and the output are not those of the app or of a model."""
        kind = str(self.attributes.get("openinference.span.kind")).upper()
        return kind in _DETAIL_KINDS or self.kind == "tool_call"

    @property
    def agent_name(self) -> str:
        return self.first_text("gen_ai.agent.name", "agent.name") or self.name

    def first_text(self, *names: str) -> str | None:
        """Return the first attribute that is not empty, as text or JSON."""
        for name in names:
            value = self.attributes.get(name)
            if value:
                return _text(value)
        return None


def response_of(spans: Sequence[Span]) -> Response:
    """Return the answer of one trace: its last output, its steps, and the tokens of its model
    requests.

    Raises:
        ValueError: the trace has too many steps.
    """
    ordered = _in_order(spans)
    steps = steps_of(ordered)
    usage = None
    model = None
    for step in steps:
        if step.usage is not None:
            usage = step.usage + (usage or Usage())
        if step.kind == "model_request" and step.name:
            model = step.name
    return Response(
        _output(ordered), usage=usage, model=model, steps=steps, context=context_of(ordered)
    )


def steps_of(spans: Sequence[Span]) -> tuple[Step, ...]:
    """Return the model requests, tool calls and agents among spans, in the order of their start.

    Raises:
        ValueError: there are too many steps.
    """
    by_id = {span.span_id: span for span in spans}
    agents = _agents_around(by_id)
    steps = []
    for span in _in_order(spans):
        kind = span.kind
        if kind is None or _repeats_request(span, by_id.get(span.parent_id or "")):
            continue
        steps.append(_step(span, kind, agents))
    return as_steps(steps)


def context_of(spans: Sequence[Span]) -> tuple[Passage, ...] | None:
    """Return the documents of retrievers, in the order of their spans; None without a retriever.

    Raises:
        ValueError: there are too many documents, or they have another shape.
    """
    passages: list[dict[str, Any]] = []
    has_retriever = False
    for span in _in_order(spans):
        if span.attributes.get("openinference.span.kind") != "RETRIEVER":
            continue
        has_retriever = True
        documents: dict[int, dict[str, Any]] = {}
        for name, value in span.attributes.items():
            match = re.fullmatch(
                r"retrieval\.documents\.(\d{1,6})\.document\.(content|id|score)", name
            )
            if match:
                document = documents.setdefault(int(match[1]), {"text": ""})
                key = match[2]
                if key == "content":
                    key = "text"
                document[key] = value
        passages += [documents[rank] for rank in sorted(documents)]
    if not has_retriever:
        return None
    return as_context(passages)


def attribute(spans: Sequence[Span], names: Sequence[str]) -> str | None:
    """Return the first value of any span under one of `names`; earlier names win."""
    for name in names:
        for span in spans:
            value = span.attributes.get(name)
            if value not in (None, ""):
                return str(value)
    return None


def question_of(spans: Sequence[Span]) -> str | None:
    """Return the input or the last user message of the first span that has one."""
    for span in _in_order(spans):
        if span.is_detail:
            continue
        value = span.attributes.get("input.value")
        question = question_in(value)
        if isinstance(question, str):
            return question
        if isinstance(value, str):
            return value
        for message in reversed(input_messages(span)):
            if message.role == "user" and message.text:
                return message.text
    return None


def input_messages(span: Span) -> list[Message]:
    """Return the chat in the input of a span; an empty list if the input is not a chat."""
    return _chat(
        span, "gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt", "input.value"
    )


def system_prompt(span: Span) -> str | None:
    """Return the instructions of a model request that are separate from its chat."""
    value = decode(span.attributes.get("gen_ai.system_instructions"))
    if isinstance(value, list):
        value = {"role": "system", "parts": value}
    return answer_in(value)


def _output_messages(span: Span) -> list[Message]:
    return _chat(span, "gen_ai.output.messages", "llm.output_messages", "gen_ai.completion")


def _chat(span: Span, *names: str) -> list[Message]:
    """Return the first chat under one of `names`: a list, its JSON, or one attribute for each part
    of a message.
    """
    for name in names:
        value = span.attributes.get(name)
        if value is None:
            value = _nested(span.attributes, f"{name}.")
        messages = read_chat(value)
        if messages:
            return messages
    return []


def _nested(attributes: Mapping[str, Any], start: str) -> list[Any]:
    """Return the list in flat attributes such as `llm.input_messages.0.message.role`."""
    root: dict[str, Any] = {}
    for name, value in attributes.items():
        if not name.startswith(start):
            continue
        *parents, last = name.removeprefix(start).split(".", _MAX_DEPTH)
        holder = root
        for parent in parents:
            inner = holder.setdefault(parent, {})
            if not isinstance(inner, dict):
                break
            holder = inner
        else:
            holder[last] = value
    items = _with_lists(root)
    if not isinstance(items, list):
        return []
    return items


def _with_lists(value: Any) -> Any:
    """Turn mappings with numbers as keys into lists, in the order of the numbers."""
    if not isinstance(value, dict):
        return value
    if value and all(re.fullmatch("[0-9]{1,9}", key) for key in value):
        return [_with_lists(value[key]) for key in sorted(value, key=int)]
    return {key: _with_lists(item) for key, item in value.items()}


def _in_order(spans: Sequence[Span]) -> list[Span]:
    return sorted(spans, key=lambda span: span.start_ns)


def _repeats_request(span: Span, parent: Span | None) -> bool:
    """Return True for a request that is inside the same request: agents and the SDKs that they
    call may both be instrumented.
    """
    if parent is None or span.kind != "model_request" or parent.kind != "model_request":
        return False
    return _usage(parent.attributes) is not None or _usage(span.attributes) is None


def _step(span: Span, kind: StepKind, agents: Mapping[str, Span | None]) -> dict[str, Any]:
    step: dict[str, Any] = {
        "kind": kind,
        "error": span.error,
        "duration_s": max(0, span.end_ns - span.start_ns) / 1e9,
        "agent": _sub_agent(span, agents),
    }
    if kind == "tool_call":
        name = span.first_text("gen_ai.tool.name", "tool.name")
        step["name"] = name or span.name or "(unnamed)"
        step["arguments"] = span.first_text(
            "gen_ai.tool.call.arguments", "tool.parameters", "input.value"
        )
        step["result"] = span.first_text("gen_ai.tool.call.result", "output.value")
        if span.attributes.get("gen_ai.tool.status") == "error":  # Strands
            step["error"] = span.error or step["result"] or "failed"
    elif kind == "agent":
        step["name"] = span.agent_name
    else:
        step["name"] = span.first_text(
            "gen_ai.response.model", "gen_ai.request.model", "llm.model_name"
        )
        step["usage"] = _usage(span.attributes)
    return step


def _sub_agent(span: Span, agents: Mapping[str, Span | None]) -> str | None:
    """Return the name of the agent around a span, if that agent is inside another one."""
    agent = agents[span.span_id]
    if agent is None or agents[agent.span_id] is None:
        return None
    return agent.agent_name


def _agents_around(by_id: Mapping[str, Span]) -> dict[str, Span | None]:
    """Return the innermost agent around each span, by the span's id.

    Each parent is looked up once, so that a long chain costs no more per span than a short one.
    """
    agents: dict[str, Span | None] = {}
    for span in by_id.values():
        path = []
        above: Span | None = span
        while above is not None and above.span_id not in agents:
            # Spans of a file are untrusted, and could be each other's parents: this ends the walk.
            agents[above.span_id] = None
            path.append(above)
            above = by_id.get(above.parent_id or "")
        for inner in reversed(path):
            parent = by_id.get(inner.parent_id or "")
            if parent is not None and parent.kind == "agent":
                agents[inner.span_id] = parent
            elif parent is not None:
                agents[inner.span_id] = agents[parent.span_id]
    return agents


def _usage(attributes: Mapping[str, Any]) -> Usage | None:
    input_tokens = attributes.get(
        "gen_ai.usage.input_tokens", attributes.get("llm.token_count.prompt")
    )
    output_tokens = attributes.get(
        "gen_ai.usage.output_tokens", attributes.get("llm.token_count.completion")
    )
    if input_tokens is None and output_tokens is None:
        return None
    return Usage(_count(input_tokens), _count(output_tokens))


def _count(value: Any) -> int:
    if isinstance(value, int | float) and 0 <= value < _MAX_TOKENS:  # False for NaN
        return int(value)
    return 0


def _output(ordered: Sequence[Span]) -> str:
    """Return the output of the outermost span that has one, else the last message of a model."""
    outermost = sorted(ordered, key=lambda span: (span.parent_id is not None, span.start_ns))
    for span in outermost:
        if span.kind in (None, "agent") and not span.is_detail:
            for name in ("output.value", "final_result"):
                value = answer_in(span.attributes.get(name))
                if value is not None:
                    return value
    for span in reversed(ordered):
        for message in reversed(_output_messages(span)):
            if message.role == "assistant" and message.text:
                return message.text
        value = answer_in(span.attributes.get("output.value"))
        if span.kind == "model_request" and value is not None:
            return value
    return ""


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
