"""Reads spans of emitters that have attribute names of their own: one table, and one reader that
adds the names of OpenInference and of OpenTelemetry's GenAI conventions.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ci_evals.format import number_of, one_line
from ci_evals.providers.chats import answer_in, decode, first

_KIND = "openinference.span.kind"
_INPUT = "input.value"
_OUTPUT = "output.value"
_MODEL = "llm.model_name"
_INPUT_TOKENS = "llm.token_count.prompt"
_OUTPUT_TOKENS = "llm.token_count.completion"
_EMPTY: tuple[Any, ...] = (None, "", {}, [], "N/A", "<not specified>")
"""Values that say nothing; the last two are Google ADK's."""

_MAX_ADVICE = 3
"""The most emitters that get a sentence of advice."""

Event = tuple[str, Mapping[str, Any]]
"""The name and the attributes of a span's event."""


@dataclass(frozen=True, slots=True)
class Emitter:
    """What writes spans, and the names that it gives to what we read.

    Args:
        name: as its users call it.
        kinds: the attributes that tell the kind of a span, with the kinds of OpenInference.
        names: for each name that we read, its own names, in order of preference.
        usage: the attribute with both counts of tokens.
        texts: its names of values that are text, even if they look like JSON.
        wraps_calls: values are the arguments of functions, `{"args": […], "kwargs": {…}}`.
        record_inputs: how its user gets the inputs recorded.
        record_outputs: likewise for the outputs; None if the same setting records them.
    """

    name: str
    kinds: Mapping[str, Mapping[str, str]]
    names: Mapping[str, Sequence[str]]
    record_inputs: str
    record_outputs: str | None = None
    usage: str | None = None
    texts: Sequence[str] = ()
    wraps_calls: bool = False


_CHAIN_KINDS = dict.fromkeys(("chain", "prompt", "parser"), "CHAIN")
_OBSERVATION_KINDS = {
    kind.lower(): kind
    for kind in ("TOOL", "AGENT", "RETRIEVER", "EMBEDDING", "EVALUATOR", "GUARDRAIL", "CHAIN")
} | {"generation": "LLM"}

EMITTERS: Mapping[str, Emitter] = {
    "ai.": Emitter(
        "the Vercel AI SDK",
        kinds={
            "ai.operationId": {
                "ai.generateText.doGenerate": "LLM",
                "ai.streamText.doStream": "LLM",
                "ai.generateObject.doGenerate": "LLM",
                "ai.streamObject.doStream": "LLM",
                "ai.toolCall": "TOOL",
                "ai.embed": "EMBEDDING",
                "ai.embed.doEmbed": "EMBEDDING",
                "ai.embedMany": "EMBEDDING",
                "ai.embedMany.doEmbed": "EMBEDDING",
            }
        },
        names={
            _INPUT: ("ai.toolCall.args", "ai.prompt", "ai.prompt.messages"),
            _OUTPUT: ("ai.toolCall.result", "ai.response.text", "ai.response.object"),
            "tool.name": ("ai.toolCall.name",),
            _MODEL: ("ai.response.model", "ai.model.id"),
            _INPUT_TOKENS: ("ai.usage.inputTokens", "ai.usage.promptTokens"),
            _OUTPUT_TOKENS: ("ai.usage.outputTokens", "ai.usage.completionTokens"),
        },
        texts=("ai.response.text", "ai.response.object"),
        record_inputs="set `recordInputs: true` in its telemetry settings",
        record_outputs="set `recordOutputs: true` in its telemetry settings",
    ),
    "gcp.vertex.agent.": Emitter(
        "Google ADK",
        kinds={
            # The span of calls that ran in parallel repeats those calls.
            "gen_ai.tool.name": {"(merged tools)": "MERGED"},
            "gen_ai.system": {"gcp.vertex.agent": "LLM"},
        },
        names={
            _INPUT: ("gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.llm_request"),
            _OUTPUT: ("gcp.vertex.agent.tool_response", "gcp.vertex.agent.llm_response"),
        },
        record_inputs="set ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true",
    ),
    "mlflow.": Emitter(
        "MLflow",
        kinds={
            "mlflow.spanType": {
                "LLM": "LLM",
                "CHAT_MODEL": "LLM",
                "TOOL": "TOOL",
                "AGENT": "AGENT",
                "RETRIEVER": "RETRIEVER",
                "EMBEDDING": "EMBEDDING",
                "RERANKER": "RERANKER",
                "EVALUATOR": "EVALUATOR",
            }
        },
        names={
            _INPUT: ("mlflow.spanInputs",),
            _OUTPUT: ("mlflow.spanOutputs",),
            _MODEL: ("mlflow.llm.model",),
        },
        usage="mlflow.chat.tokenUsage",
        record_inputs="trace the function that takes the question with `@mlflow.trace`",
        record_outputs="trace the function that returns the answer with `@mlflow.trace`",
    ),
    "langfuse.": Emitter(
        "Langfuse",
        kinds={"langfuse.observation.type": _OBSERVATION_KINDS},
        names={
            _INPUT: ("langfuse.observation.input", "langfuse.trace.input"),
            _OUTPUT: ("langfuse.observation.output", "langfuse.trace.output"),
            _MODEL: ("langfuse.observation.model.name",),
        },
        usage="langfuse.observation.usage_details",
        record_inputs="pass `input=` to its observations, or leave `capture_input` on",
        record_outputs="pass `output=` to its observations, or leave `capture_output` on",
    ),
    "langsmith.": Emitter(
        "LangSmith",
        kinds={
            "langsmith.span.kind": {
                "llm": "LLM",
                "tool": "TOOL",
                "retriever": "RETRIEVER",
                "embedding": "EMBEDDING",
                **_CHAIN_KINDS,
            }
        },
        names={
            _INPUT: ("gen_ai.prompt",),
            _OUTPUT: ("gen_ai.completion",),
            "tool.name": ("langsmith.trace.name",),
        },
        record_inputs="unset LANGSMITH_HIDE_INPUTS",
        record_outputs="unset LANGSMITH_HIDE_OUTPUTS",
    ),
    "traceloop.": Emitter(
        "OpenLLMetry",
        kinds={"traceloop.span.kind": {"tool": "TOOL", "agent": "AGENT"}},
        names={
            _INPUT: ("traceloop.entity.input",),
            _OUTPUT: ("traceloop.entity.output",),
            "tool.name": ("traceloop.entity.name",),
            "agent.name": ("traceloop.entity.name",),
        },
        record_inputs="set TRACELOOP_TRACE_CONTENT=true",
        wraps_calls=True,
    ),
    "llm.request.": Emitter(
        "OpenLLMetry",
        kinds={
            "llm.request.type": {
                "chat": "LLM",
                "completion": "LLM",
                "embedding": "EMBEDDING",
                "rerank": "RERANKER",
            }
        },
        names={},
        record_inputs="set TRACELOOP_TRACE_CONTENT=true",
    ),
    "openinference.": Emitter(
        "OpenInference",
        kinds={},
        names={},
        record_inputs="unset OPENINFERENCE_HIDE_INPUTS",
        record_outputs="unset OPENINFERENCE_HIDE_OUTPUTS",
    ),
    "gen_ai.": Emitter(
        "OpenTelemetry's GenAI conventions",
        kinds={},
        names={
            "gen_ai.system_instructions": ("gen_ai.agent.system_prompt",),  # Strands
            _INPUT_TOKENS: ("gen_ai.usage.prompt_tokens",),
            _OUTPUT_TOKENS: ("gen_ai.usage.completion_tokens",),
        },
        texts=("gen_ai.agent.system_prompt",),
        record_inputs="set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true",
    ),
}
"""The emitters, by the start of their attributes' names; those that also use the names of others
stand first."""

_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE = "gen_ai.choice"
_ATTRIBUTE_EVENTS = frozenset(
    (
        "gen_ai.client.inference.operation.details",
        "gen_ai.content.prompt",
        "gen_ai.content.completion",
    )
)
"""Events that have attributes of the span itself, with the question or the answer."""


def emitter_name(attributes: Iterable[str], scope: str) -> str:
    """Return the name of what wrote a span: of the table, else of the library of its tracer, else
    the start of its attributes' names. An empty text if the span tells nothing.
    """
    names = list(attributes)
    for emitter in _emitters_of(names):
        return emitter.name
    if scope or not names:
        return scope
    return f"{names[0].partition('.')[0]}.*"


def advise(emitters: Iterable[str], lack: Literal["question", "answer"]) -> list[str]:
    """Say why traces of these emitters have no question or no answer, and what to do about it: a
    sentence for each of the first emitters.
    """
    sentences = [_advise(one_line(emitter, 80), lack) for emitter in dict.fromkeys(emitters)]
    if len(sentences) > _MAX_ADVICE:
        others = number_of(len(sentences) - _MAX_ADVICE, "other emitter")
        sentences[_MAX_ADVICE:] = [f"and so on for {others}"]
    return sentences


def _advise(emitter: str, lack: Literal["question", "answer"]) -> str:
    for known in EMITTERS.values():
        if known.name == emitter:
            setting = known.record_inputs
            if lack == "answer" and known.record_outputs is not None:
                setting = known.record_outputs
            return f"{emitter} recorded no {lack}: {setting}"
    if lack == "answer":
        return (
            f"{emitter or 'an unnamed tracer'} recorded no answer under a known name: set"
            " `output.value` (OpenInference) on its spans"
        )
    return (
        f"the attributes of {emitter or 'an unnamed tracer'} are not known: set `input.value` and "
        "`output.value` (OpenInference) on its spans"
    )


def read_attributes(
    attributes: Mapping[str, Any], events: Iterable[Event] = ()
) -> Mapping[str, Any]:
    """Return the attributes of a span with the names that we read, from those of its emitter and
    from its events. A name that the span already has keeps its value.
    """
    read = dict(attributes)
    for name, value in _read_events(events, attributes).items():
        read.setdefault(name, value)
    for emitter in _emitters_of(read):
        for name, value in _read(emitter, read).items():
            read.setdefault(name, value)
    return read


def documents_of(output: Any) -> dict[str, Any]:
    """Return the documents of a retriever as attributes of OpenInference."""
    documents = decode(output)
    if isinstance(documents, dict):
        documents = documents.get("documents")
    attributes = {}
    if isinstance(documents, list):
        for index, document in enumerate(documents):
            text = document
            if isinstance(document, dict):
                text = first(document, "page_content", "pageContent", "content", "text")
            if isinstance(text, str):
                attributes[f"retrieval.documents.{index}.document.content"] = text
    return attributes


def _emitters_of(names: Iterable[str]) -> list[Emitter]:
    """Return the emitters of the table that wrote some of a span's attributes, in its order."""
    starts = set()
    for name in names:
        for start in EMITTERS:
            if name.startswith(start):
                starts.add(start)
    return [emitter for start, emitter in EMITTERS.items() if start in starts]


def _read(emitter: Emitter, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an emitter says under its own names, under those that we read."""
    read: dict[str, Any] = {}
    for attribute, kinds in emitter.kinds.items():
        kind = kinds.get(str(_decode(attributes.get(attribute))))
        if kind is not None:
            read.setdefault(_KIND, kind)
    for name, own_names in emitter.names.items():
        for own_name in own_names:
            value = attributes.get(own_name)
            if own_name not in emitter.texts:
                value = _decode(value)
            if emitter.wraps_calls:
                value = _unwrap(value)
            if value not in _EMPTY:
                read[name] = value
                break
    if emitter.usage is not None:
        counts = decode(attributes.get(emitter.usage))
        match counts:
            case {"input_tokens": count} | {"input": count}:
                read[_INPUT_TOKENS] = count
        match counts:
            case {"output_tokens": count} | {"output": count}:
                read[_OUTPUT_TOKENS] = count
    if read.get(_KIND) == "RETRIEVER":
        read |= documents_of(read.get(_OUTPUT))
    return read


def _decode(value: Any) -> Any:
    """Return the value of a JSON text, which may be a text itself; any other value unchanged."""
    if isinstance(value, str) and value.startswith('"'):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return decode(value)


def _unwrap(value: Any) -> Any:
    """Return the input or output of a function from the record of its call."""
    match value:
        case {"args": [only], "kwargs": {**named}} if not named:
            return only
        case {"args": [], "kwargs": {**named}}:
            return named
        case {"inputs": inner, "kwargs": _} | {"outputs": inner, "kwargs": _}:  # of LangChain
            return inner
    return value


def _read_events(events: Iterable[Event], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what events say: the messages to a model and its choice, or a tool's call."""
    read: dict[str, Any] = {}
    asked = []
    chosen = []
    for name, details in events:
        if name in _ATTRIBUTE_EVENTS:
            read |= details
        elif name in _EVENT_ROLES:
            asked.append({"role": _EVENT_ROLES[name], **_message(details)})
        elif name == _CHOICE:
            chosen.append({"role": "assistant", **_message(details)})
    if attributes.get("gen_ai.operation.name") == "execute_tool":  # Strands
        if asked:
            read["gen_ai.tool.call.arguments"] = asked[-1].get("content")
        if chosen:
            read["gen_ai.tool.call.result"] = answer_in(chosen[-1].get("content"))
        return read
    if asked:
        read["gen_ai.input.messages"] = asked
    if chosen:
        read["gen_ai.output.messages"] = chosen
    return read


def _message(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message in the attributes of an event: its own parts, or the JSON of a whole
    message or of its content.
    """
    message: dict[Any, Any] = {}
    for name in ("content", "tool_calls"):
        if name in details:
            message[name] = decode(details[name])
    if "id" in details:
        message["tool_call_id"] = details["id"]
    match decode(details.get("message")):
        case {**whole}:
            message |= whole
        case None:
            pass
        case content:
            message["content"] = content
    return message
