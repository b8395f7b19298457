"""Reads files of spans: OTLP JSON, and exports of Phoenix (OpenInference), Langfuse, LangSmith."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from ci_evals.errors import StorageError
from ci_evals.providers.chats import answer_in, first
from ci_evals.providers.emitters import EMITTERS, documents_of, emitter_name, read_attributes
from ci_evals.providers.spans import Span

EXPECTED = "OTLP JSON (`resourceSpans`), or spans exported from Phoenix, Langfuse or LangSmith"
_MAX_BYTES = 200_000_000
_MAX_DEPTH = 20
_HOLDERS = ("data", "spans", "traces", "runs", "items")
"""The keys under which exports have their list."""

_LANGFUSE_KINDS = {
    "GENERATION": "LLM",
    "TOOL": "TOOL",
    "AGENT": "AGENT",
    "RETRIEVER": "RETRIEVER",
    "EMBEDDING": "EMBEDDING",
    "SPAN": "CHAIN",
    "CHAIN": "CHAIN",
    "EVENT": "CHAIN",
    "EVALUATOR": "EVALUATOR",
    "GUARDRAIL": "GUARDRAIL",
}
_LANGSMITH_KINDS = {
    "llm": "LLM",
    "tool": "TOOL",
    "retriever": "RETRIEVER",
    "embedding": "EMBEDDING",
}


def read_documents(file: Path) -> Iterator[tuple[str, Any]]:
    """Yield the JSON documents of a file, each with its place: one document, or one per line.

    Lines are read one by one, so that a file of lines may have any size.

    Raises:
        StorageError: the file cannot be read, is too large, or is not valid JSON.
    """
    try:
        with file.open("rb") as stream:
            yield from _documents(stream, file)
    except OSError as error:
        raise StorageError(f"{file}: cannot be read: {error}") from error


def _documents(stream: IO[bytes], file: Path) -> Iterator[tuple[str, Any]]:
    first = stream.readline(_MAX_BYTES)
    number = 1
    while first.isspace():
        first = stream.readline(_MAX_BYTES)
        number += 1
    # If the first line is a document by itself, so is every other; else the file is one document.
    try:
        document = json.loads(first)
    except (ValueError, RecursionError):
        text = first + stream.read(_MAX_BYTES)
        if len(text) >= _MAX_BYTES:
            hint = "export it as JSON Lines, which are read one by one"
            raise StorageError(f"{file}: one document of more than 200 MB: {hint}") from None
        if text.strip():
            yield str(file), _decode(text, file, number)
        return
    yield f"{file}:{number}", document
    while line := stream.readline(_MAX_BYTES):
        number += 1
        if line.strip():
            yield f"{file}:{number}", _decode(line, file, number)


def _decode(text: bytes, file: Path, number: int) -> Any:
    """Return the value of a JSON text that begins on a line of a file."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        number += error.lineno - 1
        raise StorageError(f"{file}:{number}: is not valid JSON: {error}") from error
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{file}:{number}: is not valid JSON: {error}") from error


def spans_in(document: Any) -> list[Span] | None:
    """Return the spans of a document; None if it is not one of the formats.

    Logs and metrics, which the collector may write to the same file, have no spans.
    """
    try:
        return _spans_in(document)
    except RecursionError:
        return None


def _spans_in(document: Any) -> list[Span] | None:
    match document:
        case {"resourceSpans": _}:
            return list(_otlp_spans(document))
        case {"resourceLogs": _} | {"resourceMetrics": _}:
            return []
        case {"context": {"trace_id": _}} | {"context.trace_id": _}:
            return [_openinference_span(document)]
        case {"run_type": str(), "id": str()}:
            return list(_langsmith_spans(document, None, None))
        case {"trace": {"id": str()} as trace, "observations": list(observations)}:
            return list(_langfuse_spans({**trace, "observations": observations}))
        case {"type": str(kind), "id": str()} if kind in _LANGFUSE_KINDS:
            return list(_langfuse_spans(document))
        case {"id": str(), "timestamp": _, "input": _}:
            return list(_langfuse_spans(document))
        case {**holder}:
            for key in _HOLDERS:
                spans = _spans_of_list(holder.get(key))
                if spans is not None:
                    return spans
            return None
    return _spans_of_list(document)


def _spans_of_list(items: Any) -> list[Span] | None:
    if not isinstance(items, list) or not items:
        return None
    spans: list[Span] = []
    for item in items:
        if not isinstance(item, dict):
            return None
        spans_of_item = _spans_in(item)
        if spans_of_item is None:
            return None
        spans += spans_of_item
    return spans


def emitter_of(spans: Sequence[Span]) -> str:
    """Return the emitter of a trace: a known one, else that of its first span."""
    ordered = sorted(spans, key=lambda span: span.start_ns)
    known = {emitter.name for emitter in EMITTERS.values()}
    for span in ordered:
        if span.emitter in known:
            return span.emitter
    return ordered[0].emitter


# OTLP JSON.


def _otlp_spans(document: Mapping[str, Any]) -> Iterator[Span]:
    for resource in mappings_in(document, "resourceSpans"):
        shared = _attributes(mapping_in(resource, "resource"))
        for scope in mappings_in(resource, "scopeSpans"):
            scope_name = str(mapping_in(scope, "scope").get("name") or "")
            for span in mappings_in(scope, "spans"):
                events = [
                    (str(event.get("name")), _attributes(event))
                    for event in mappings_in(span, "events")
                ]
                own = _attributes(span)
                attributes = read_attributes(shared | own, events)
                yield Span(
                    trace_id=str(span.get("traceId")),
                    span_id=str(span.get("spanId")),
                    parent_id=_id_or_none(span.get("parentSpanId")),
                    name=str(span.get("name") or ""),
                    attributes=attributes,
                    start_ns=_nanoseconds(span.get("startTimeUnixNano")),
                    end_ns=_nanoseconds(span.get("endTimeUnixNano")),
                    error=_error_of(span, attributes),
                    emitter=emitter_name(own, scope_name),
                )


def _error_of(span: Mapping[str, Any], attributes: Mapping[str, Any]) -> str | None:
    status = mapping_in(span, "status")
    if status.get("code") not in (2, "STATUS_CODE_ERROR"):
        return None
    error = status.get("message") or attributes.get("error.type")
    return str(error or "failed")


def _attributes(holder: Mapping[str, Any]) -> dict[str, Any]:
    return _values(mappings_in(holder, "attributes"))


def _values(pairs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return OTLP's list of keys and values as a mapping."""
    return {str(pair.get("key")): _value(pair.get("value")) for pair in pairs}


def _value(value: Any) -> Any:
    """Unpack an OTLP `AnyValue`, in which 64-bit integers are text."""
    match value:
        case {"intValue": number}:
            text = str(number)
            if not re.fullmatch(r"-?[0-9]{1,20}", text):
                return None
            return int(text)
        case {"arrayValue": {"values": list(values)}}:
            return [_value(each) for each in values]
        case {"kvlistValue": dict(pairs)}:
            return _values(mappings_in(pairs, "values"))
        case dict():
            return next(iter(value.values()), None)
        case _:
            return value


def _nanoseconds(value: Any) -> int:
    text = str(value)
    if not re.fullmatch(r"[0-9]{1,20}", text):
        return 0
    return int(text)


# Phoenix, and the JSON that OpenTelemetry's SDK prints.


def _openinference_span(row: Mapping[str, Any]) -> Span:
    context = mapping_in(row, "context")
    attributes = _flatten(mapping_in(row, "attributes"))
    for key, value in row.items():
        if key.startswith("attributes."):
            attributes |= _flatten({key.removeprefix("attributes."): value})
    if row.get("span_kind"):
        attributes.setdefault("openinference.span.kind", row["span_kind"])
    events = [
        (str(event.get("name")), mapping_in(event, "attributes"))
        for event in mappings_in(row, "events")
    ]
    status = mapping_in(row, "status")
    error = None
    if "ERROR" in (row.get("status_code"), status.get("status_code")):
        message = row.get("status_message") or status.get("description")
        error = str(message or "failed")
    return Span(
        trace_id=str(context.get("trace_id", row.get("context.trace_id"))),
        span_id=str(context.get("span_id", row.get("context.span_id"))),
        parent_id=_id_or_none(row.get("parent_id")),
        name=str(row.get("name") or ""),
        attributes=read_attributes(attributes, events),
        start_ns=_time(row.get("start_time")),
        end_ns=_time(row.get("end_time")),
        error=error,
        emitter=emitter_name(attributes, ""),
    )


# Langfuse.


def _langfuse_spans(row: Mapping[str, Any]) -> Iterator[Span]:
    """Yield the span of a trace or of an observation, and of the observations in a trace."""
    trace_id = first(row, "traceId", "trace_id") or row["id"]
    kind = _LANGFUSE_KINDS.get(str(row.get("type")), "CHAIN")
    attributes = _flatten(mapping_in(row, "metadata"))
    attributes |= {
        "openinference.span.kind": kind,
        "session.id": first(row, "sessionId", "session_id"),
        "llm.model_name": first(row, "model", "providedModelName", "provided_model_name"),
        "input.value": _as_text(row.get("input")),
        "output.value": answer_in(row.get("output")),
        **_langfuse_usage(row),
    }
    if kind == "RETRIEVER":
        attributes |= documents_of(row.get("output"))
    error = None
    if row.get("level") == "ERROR":
        error = str(first(row, "statusMessage", "status_message") or "failed")
    start = _time(first(row, "startTime", "start_time", "timestamp"))
    yield Span(
        trace_id=str(trace_id),
        span_id=str(row["id"]),
        parent_id=_id_or_none(first(row, "parentObservationId", "parent_observation_id")),
        name=str(row.get("name") or ""),
        attributes=_without_none(attributes),
        start_ns=start,
        end_ns=_time(first(row, "endTime", "end_time")) or start,
        error=error,
        emitter="Langfuse",
    )
    for observation in mappings_in(row, "observations"):
        if isinstance(observation.get("id"), str):
            yield from _langfuse_spans({"traceId": trace_id, **observation})


def _langfuse_usage(row: Mapping[str, Any]) -> dict[str, Any]:
    usage = first(row, "usageDetails", "usage_details", "usage")
    if not isinstance(usage, dict):
        return {}
    return {
        "llm.token_count.prompt": usage.get("input"),
        "llm.token_count.completion": usage.get("output"),
    }


# LangSmith.


def _langsmith_spans(
    run: Mapping[str, Any], trace_id: str | None, parent_id: str | None
) -> Iterator[Span]:
    """Yield the spans of a run and of its child runs.

    Args:
        run: one run.
        trace_id: the trace of its parent.
        parent_id: the id of its parent.
    """
    id_ = str(run.get("id"))
    trace_id = str(run.get("trace_id") or trace_id or id_)
    extra = mapping_in(run, "extra")
    metadata = mapping_in(extra, "metadata")
    inputs = run.get("inputs")
    if isinstance(inputs, dict) and list(inputs) == ["input"]:
        inputs = inputs["input"]
    kind = _LANGSMITH_KINDS.get(str(run.get("run_type")), "CHAIN")
    attributes = _flatten(metadata)
    attributes |= {
        "openinference.span.kind": kind,
        "session.id": first(metadata, "session_id", "thread_id", "conversation_id"),
        "llm.model_name": metadata.get("ls_model_name"),
        "llm.token_count.prompt": run.get("prompt_tokens"),
        "llm.token_count.completion": run.get("completion_tokens"),
        "input.value": _as_text(inputs or None),
        "output.value": answer_in(run.get("outputs") or None),
    }
    if kind == "RETRIEVER":
        attributes |= documents_of(mapping_in(run, "outputs").get("documents"))
    error = None
    if run.get("error"):
        error = str(run["error"])
    yield Span(
        trace_id=trace_id,
        span_id=id_,
        parent_id=_id_or_none(run.get("parent_run_id")) or parent_id,
        name=str(run.get("name") or ""),
        attributes=_without_none(attributes),
        start_ns=_time(run.get("start_time")),
        end_ns=_time(run.get("end_time")),
        error=error,
        emitter="LangSmith",
    )
    for child in mappings_in(run, "child_runs"):
        yield from _langsmith_spans(child, trace_id, id_)


# Untrusted values.


def mappings_in(holder: Any, key: str) -> list[dict[str, Any]]:
    """Return the mappings in a list of an untrusted mapping; an empty list if there is none."""
    if not isinstance(holder, dict):
        return []
    items = holder.get(key)
    if not isinstance(items, list):
        return []
    return [item for item in items if isinstance(item, dict)]


def mapping_in(holder: Any, key: str) -> dict[str, Any]:
    """Return a mapping inside an untrusted mapping; an empty one if there is none."""
    if not isinstance(holder, dict):
        return {}
    inner = holder.get(key)
    if not isinstance(inner, dict):
        return {}
    return inner


def _id_or_none(value: Any) -> str | None:
    """Return the id of a span as text; None if it has none."""
    if not value:
        return None
    return str(value)


def _without_none(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _flatten(values: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """Return nested attributes in OpenTelemetry's form: `llm.input_messages.0.message.role`."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        inner = value
        if isinstance(value, list) and any(isinstance(item, dict) for item in value):
            inner = {str(index): item for index, item in enumerate(value)}
        if isinstance(inner, dict) and depth < _MAX_DEPTH:
            for name, item in _flatten(inner, depth + 1).items():
                flat[f"{key}.{name}"] = item
        else:
            flat[str(key)] = value
    return flat


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _time(value: Any) -> int:
    """Return nanoseconds since 1970 for an ISO 8601 time or a number of any unit; else 0."""
    if isinstance(value, str) and not value.isdecimal():
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return 0
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        value = moment.timestamp()
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    if not 0 < number < 1e20:
        return 0
    # In seconds, milli- or microseconds, every time since 1973 is below this bound, in nanoseconds
    # above it: that tells the unit.
    while number < 1e17:
        number *= 1000
    return int(number)
