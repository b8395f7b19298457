"""Spans of an instrumented agent, made into steps: GenAI semantic conventions of OpenTelemetry, and
OpenInference.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ci_evals.model.response import Passage, Response, Step, StepKind, Usage
from ci_evals.providers.answer import as_context, as_steps

_MODEL_OPERATIONS = ("chat", "text_completion", "generate_content")
_DOCUMENT = re.compile(r"retrieval\.documents\.(\d{1,6})\.document\.(content|id|score)")
_KINDS: Mapping[str, StepKind] = {"LLM": "model_request", "TOOL": "tool_call", "AGENT": "agent"}


@dataclass(frozen=True, slots=True)
class Span:
    """One span: when it began and ended, in nanoseconds since 1970; `error` is None if it did not
    fail.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    attributes: Mapping[str, Any]
    start_ns: int
    end_ns: int
    error: str | None = None


def response_of(spans: Sequence[Span]) -> Response:
    """Return the answer of one trace: its last output, its steps, and the tokens of its model
    requests.

    Raises:
        ValueError: it has more steps than are kept.
    """
    ordered = sorted(spans, key=lambda span: span.start_ns)
    steps = steps_of(ordered)
    used = [step.usage for step in steps if step.usage is not None]
    usage = sum(used, Usage()) if used else None
    models = [step.name for step in steps if step.kind == "model_request" and step.name]
    return Response(
        _output(ordered),
        usage=usage,
        model=models[-1] if models else None,
        steps=steps,
        context=context_of(ordered),
    )


def steps_of(spans: Sequence[Span]) -> tuple[Step, ...]:
    """Return model requests, tool calls and agents among spans, in the order in which they
    began.
    """
    ordered = sorted(spans, key=lambda span: span.start_ns)
    by_id = {span.span_id: span for span in ordered}
    found = [(span, kind) for span in ordered if (kind := _kind(span)) is not None]
    return as_steps([_step(span, kind, by_id) for span, kind in found]) or ()


def context_of(spans: Sequence[Span]) -> tuple[Passage, ...] | None:
    """Return the documents that retrievers found, in the order of their spans; None if there is no
    such span.

    Raises:
        ValueError: there are more than are kept, or they are of another shape.
    """
    retrievers = [
        span for span in spans if span.attributes.get("openinference.span.kind") == "RETRIEVER"
    ]
    if not retrievers:
        return None
    found: list[dict[str, Any]] = []
    for span in sorted(retrievers, key=lambda span: span.start_ns):
        documents: dict[int, dict[str, Any]] = {}
        for name, value in span.attributes.items():
            if part := _DOCUMENT.fullmatch(name):
                documents.setdefault(int(part[1]), {})[
                    "text" if part[2] == "content" else part[2]
                ] = value
        found += [{"text": "", **documents[rank]} for rank in sorted(documents)]
    return as_context(found)


def attribute(spans: Sequence[Span], names: Sequence[str]) -> str | None:
    """Return the first value under one of some names on any span."""
    found = (span.attributes.get(name) for name in names for span in spans)
    return next((str(value) for value in found if value not in (None, "")), None)


def question_of(spans: Sequence[Span]) -> str | None:
    """Return the input of a trace: that of its first span that has one, or its last user
    message.
    """
    for span in sorted(spans, key=lambda span: span.start_ns):
        if isinstance(value := span.attributes.get("input.value"), str):
            return value
        asked = [
            text
            for role, text in _messages(span.attributes.get("gen_ai.input.messages"))
            if role == "user"
        ]
        if asked:
            return asked[-1]
    return None


def _kind(span: Span) -> StepKind | None:
    operation = span.attributes.get("gen_ai.operation.name")
    if operation in _MODEL_OPERATIONS:
        return "model_request"
    if operation == "execute_tool":
        return "tool_call"
    if operation == "invoke_agent":
        return "agent"
    return _KINDS.get(str(span.attributes.get("openinference.span.kind")))


def _step(span: Span, kind: StepKind, by_id: Mapping[str, Span]) -> dict[str, Any]:
    get = span.attributes.get
    step: dict[str, Any] = {
        "kind": kind,
        "error": span.error,
        "duration_s": max(0, span.end_ns - span.start_ns) / 1e9,
        "agent": _sub_agent(span, by_id),
    }
    if kind == "tool_call":
        step["name"] = str(get("gen_ai.tool.name") or get("tool.name") or span.name or "(unnamed)")
        step["arguments"] = _text(
            get("gen_ai.tool.call.arguments") or get("tool.parameters") or get("input.value")
        )
        step["result"] = _text(get("gen_ai.tool.call.result") or get("output.value"))
    elif kind == "agent":
        step["name"] = _agent_name(span)
    else:
        step["name"] = str(
            get("gen_ai.response.model")
            or get("gen_ai.request.model")
            or get("llm.model_name")
            or ""
        )
        step["usage"] = _usage(span.attributes)
    return step


def _sub_agent(span: Span, by_id: Mapping[str, Span]) -> str | None:
    """Return the name of the agent that a span is within, if that agent is within another."""
    agents = [each for each in _ancestors(span, by_id) if _kind(each) == "agent"]
    return _agent_name(agents[0]) if len(agents) > 1 else None


def _agent_name(span: Span) -> str:
    return str(
        span.attributes.get("gen_ai.agent.name") or span.attributes.get("agent.name") or span.name
    )


def _ancestors(span: Span, by_id: Mapping[str, Span]) -> Iterator[Span]:
    seen = {span.span_id}
    while (parent := by_id.get(span.parent_id or "")) is not None and parent.span_id not in seen:
        seen.add(parent.span_id)
        yield parent
        span = parent


def _usage(attributes: Mapping[str, Any]) -> Usage | None:
    asked = attributes.get("gen_ai.usage.input_tokens", attributes.get("llm.token_count.prompt"))
    said = attributes.get(
        "gen_ai.usage.output_tokens", attributes.get("llm.token_count.completion")
    )
    return None if asked is None and said is None else Usage(_count(asked), _count(said))


def _count(value: Any) -> int:
    return max(0, int(value)) if isinstance(value, int | float) else 0


def _output(ordered: Sequence[Span]) -> str:
    """Return the output of the outermost span that has one, or the last message of a model."""
    outermost = sorted(ordered, key=lambda span: (span.parent_id is not None, span.start_ns))
    for span in outermost:
        if _kind(span) in (None, "agent"):
            for name in ("output.value", "final_result"):
                if (value := _text(span.attributes.get(name))) is not None:
                    return value
    for span in reversed(ordered):
        said = [text for _, text in _messages(span.attributes.get("gen_ai.output.messages"))]
        if said:
            return said[-1]
        if (
            _kind(span) == "model_request"
            and (value := _text(span.attributes.get("output.value"))) is not None
        ):
            return value
    return ""


def _messages(value: Any) -> list[tuple[str, str]]:
    """Return role and text of each message that has any, in the JSON of `gen_ai.….messages`."""
    try:
        messages = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return []
    found = []
    for message in messages if isinstance(messages, list) else ():
        parts = message.get("parts") if isinstance(message, dict) else None
        texts = [
            str(part.get("content"))
            for part in parts or ()
            if isinstance(part, dict) and part.get("type") == "text"
        ]
        if texts:
            found.append((str(message.get("role")), "\n".join(texts)))
    return found


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
