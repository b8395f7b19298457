"""Exported traces of an agent, read from files and matched to cases: answers to grade without
running anything.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_evals.engine.recordings import CASE_ATTRIBUTES, Trace
from ci_evals.errors import StorageError
from ci_evals.model.case import Case
from ci_evals.model.response import Response, Usage
from ci_evals.providers.answer import as_response
from ci_evals.providers.spans import Span, attribute, question_of, response_of


def read_traces(path: Path, match: str | None = None) -> list[Trace]:
    """Read every trace of a file, or of the .json and .jsonl files of a folder, in their order.

    Args:
        path: OTLP JSON (one document, or one per line), or a run JSON of ag2.
        match: the attribute that holds the case's id; without it `CASE_ATTRIBUTES`.

    Raises:
        StorageError: a file cannot be read, or is neither.
    """
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.json*") if file.is_file())
    spans: dict[str, list[Span]] = {}
    traces: list[Trace] = []
    for file in files:
        for document in _documents(file):
            if isinstance(document, dict) and "resourceSpans" in document:
                for span in _spans(document):
                    spans.setdefault(span.trace_id, []).append(span)
                continue
            tasks = _tasks(document)
            if tasks is None:
                raise StorageError(
                    f"{file}: is not a trace: expected OTLP JSON (`resourceSpans`) or a run JSON"
                    " of ag2"
                )
            traces.extend(map(_from_task, tasks))
    names = (match,) if match else CASE_ATTRIBUTES
    traces.extend(_from_spans(spans_of_one, names) for spans_of_one in spans.values())
    return traces


@dataclass(frozen=True, slots=True)
class MatchedTraces:
    """Traces by the case that they answer, and those that answer none."""

    by_case: Mapping[str, Sequence[Trace]]
    unmatched: Sequence[Trace]


def match_traces(traces: Iterable[Trace], cases: Iterable[Case]) -> MatchedTraces:
    """Find the case of each trace: by its id (`book`, or `book#2` for a further run), else by the
    exact question.
    """
    ids: set[str] = set()
    by_question: dict[str, str] = {}
    for case in cases:
        ids.add(case.id)
        if isinstance(case.input, str):
            by_question.setdefault(case.input, case.id)
    by_case: dict[str, list[Trace]] = {}
    unmatched = []
    for trace in traces:
        case_id = trace.case_id
        if case_id is None:
            case_id = by_question.get(trace.question or "")
        elif case_id not in ids:
            case_id = case_id.rpartition("#")[0]
        if case_id in ids:
            by_case.setdefault(case_id, []).append(trace)
        else:
            unmatched.append(trace)
    return MatchedTraces(by_case, unmatched)


def _documents(file: Path) -> Iterator[Any]:
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{file}: cannot be read: {error}") from error
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        pass  # it may have a document on each line
    else:
        yield whole
        return
    lines = text.split("\n")  # not by `splitlines`: JSON may have U+2028 in a text
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except (ValueError, RecursionError) as error:
            raise StorageError(f"{file}:{number}: is not valid JSON: {error}") from error


# OTLP JSON.


def _spans(document: Mapping[str, Any]) -> Iterator[Span]:
    for resource in _list(document, "resourceSpans"):
        shared = _attributes(_mapping(resource, "resource"))
        for scope in _list(resource, "scopeSpans"):
            for span in _list(scope, "spans"):
                attributes = {**shared, **_attributes(span)}
                status, error = _mapping(span, "status"), None
                if status.get("code") in (2, "STATUS_CODE_ERROR"):
                    error = str(status.get("message") or attributes.get("error.type") or "failed")
                yield Span(
                    trace_id=str(span.get("traceId")),
                    span_id=str(span.get("spanId")),
                    parent_id=span.get("parentSpanId") or None,
                    name=str(span.get("name") or ""),
                    attributes=attributes,
                    start_ns=_nanoseconds(span.get("startTimeUnixNano")),
                    end_ns=_nanoseconds(span.get("endTimeUnixNano")),
                    error=error,
                )


def _attributes(holder: Mapping[str, Any]) -> dict[str, Any]:
    return _values(_list(holder, "attributes"))


def _values(pairs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return OTLP's list of keys and values as a mapping."""
    return {str(pair.get("key")): _value(pair.get("value")) for pair in pairs}


def _value(value: Any) -> Any:
    """Unpack an OTLP `AnyValue`; 64-bit integers are text there."""
    match value:
        case {"intValue": number}:
            return int(number) if str(number).lstrip("-").isdecimal() else None
        case {"arrayValue": {"values": list(values)}}:
            return [_value(each) for each in values]
        case {"kvlistValue": dict(pairs)}:
            return _values(_list(pairs, "values"))
        case dict():
            return next(iter(value.values()), None)
        case _:
            return value


def _list(holder: Any, key: str) -> list[dict[str, Any]]:
    """Return the mappings in a list that an untrusted mapping should have."""
    if not isinstance(holder, dict):
        return []
    items = holder.get(key)
    if not isinstance(items, list):
        return []
    return [item for item in items if isinstance(item, dict)]


def _mapping(holder: Any, key: str) -> dict[str, Any]:
    """Return the mapping that an untrusted mapping should have."""
    inner = holder.get(key) if isinstance(holder, dict) else None
    return inner if isinstance(inner, dict) else {}


def _nanoseconds(value: Any) -> int:
    return int(value) if str(value).isdecimal() else 0


def _from_spans(spans: Sequence[Span], names: Sequence[str]) -> Trace:
    start_ns = min(span.start_ns for span in spans)
    end_ns = max(span.end_ns for span in spans)
    response, error = None, None
    try:
        response = response_of(spans)
    except ValueError as wrong:
        error = str(wrong)
    name = f"trace {spans[0].trace_id}"
    root = next((span for span in spans if span.parent_id is None), None)
    if root is not None:
        if root.name:
            name = f"{name} ({root.name})"
        if root.error is not None and response is not None and not response.output:
            response, error = None, root.error
    return Trace(
        case_id=attribute(spans, names),
        question=question_of(spans),
        response=response,
        latency_s=max(0, end_ns - start_ns) / 1e9,
        started_at=start_ns / 1e9,
        error=error,
        name=name,
    )


# ag2.


def _tasks(document: Any) -> list[dict[str, Any]] | None:
    """Return the tasks of a run; None if the document is no such run."""
    holders = [document]
    if isinstance(document, dict):
        holders = list(document.values())
    for tasks in holders:
        if isinstance(tasks, list) and tasks and all(map(_is_task, tasks)):
            return tasks
    return [document] if _is_task(document) else None


def _is_task(value: Any) -> bool:
    return isinstance(value, dict) and "task_id" in value


def _from_task(task: Mapping[str, Any]) -> Trace:
    case_id, latency_s = str(task["task_id"]), float(task.get("duration_ms") or 0) / 1000
    if task.get("exception"):
        error = json.dumps(task["exception"], default=str)
        return Trace(case_id, None, None, latency_s, 0.0, error)
    events = _list(task, "events")
    output = task.get("output")
    if "output" not in task:
        texts = map(_message, reversed(events))
        output = next((text for text in texts if text), "")
    steps = [step for step in map(_event_step, events) if step is not None]
    response = as_response({"output": output or "", "steps": steps})
    usage, tokens = None, _mapping(task, "tokens")
    if tokens:
        counts = [tokens.get(key) for key in ("input", "output")]
        usage = Usage(*[count if isinstance(count, int) else 0 for count in counts])
    question = _mapping(task, "inputs").get("input")
    return Trace(
        case_id,
        question if isinstance(question, str) else None,
        Response(response.output, usage=usage, steps=response.steps),
        latency_s,
        0.0,
    )


def _event_step(event: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = _kind_of(event)
    if "tool" in kind and "result" not in kind and event.get("name"):
        arguments = event.get("arguments", event.get("args"))
        return {
            "kind": "tool_call",
            "name": str(event["name"]),
            "arguments": arguments if isinstance(arguments, dict | str) else {},
            "error": str(event["error"]) if event.get("error") else None,
        }
    if "model" in kind and "response" in kind:
        return {"kind": "model_request", "name": str(event.get("model") or "")}
    return None


def _message(event: Mapping[str, Any]) -> str:
    """Return what an event says, if it is a message; else nothing."""
    kind, content = _kind_of(event), event.get("content")
    if isinstance(content, str) and ("message" in kind or "response" in kind):
        return content
    return ""


def _kind_of(event: Mapping[str, Any]) -> str:
    return str(event.get("type") or event.get("kind") or "").lower()
