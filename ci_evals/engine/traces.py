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
                expected = "expected OTLP JSON (`resourceSpans`) or a run JSON of ag2"
                raise StorageError(f"{file}: is not a trace: {expected}")
            traces += map(_from_task, tasks)
    names: Sequence[str] = CASE_ATTRIBUTES
    if match:
        names = (match,)
    for spans_of_trace in spans.values():
        traces.append(_from_spans(spans_of_trace, names))
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
                attributes = shared | _attributes(span)
                yield Span(
                    trace_id=str(span.get("traceId")),
                    span_id=str(span.get("spanId")),
                    parent_id=span.get("parentSpanId") or None,
                    name=str(span.get("name") or ""),
                    attributes=attributes,
                    start_ns=_nanoseconds(span.get("startTimeUnixNano")),
                    end_ns=_nanoseconds(span.get("endTimeUnixNano")),
                    error=_error_of(span, attributes),
                )


def _error_of(span: Mapping[str, Any], attributes: Mapping[str, Any]) -> str | None:
    status = _mapping(span, "status")
    if status.get("code") not in (2, "STATUS_CODE_ERROR"):
        return None
    error = status.get("message") or attributes.get("error.type")
    return str(error or "failed")


def _attributes(holder: Mapping[str, Any]) -> dict[str, Any]:
    return _values(_list(holder, "attributes"))


def _values(pairs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return OTLP's list of keys and values as a mapping."""
    return {str(pair.get("key")): _value(pair.get("value")) for pair in pairs}


def _value(value: Any) -> Any:
    """Unpack an OTLP `AnyValue`; 64-bit integers are text there."""
    match value:
        case {"intValue": number}:
            digits = str(number).removeprefix("-")
            if not digits.isdecimal():
                return None
            return int(number)
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
    if not isinstance(holder, dict):
        return {}
    inner = holder.get(key)
    if not isinstance(inner, dict):
        return {}
    return inner


def _nanoseconds(value: Any) -> int:
    if not str(value).isdecimal():
        return 0
    return int(value)


def _from_spans(spans: Sequence[Span], names: Sequence[str]) -> Trace:
    start_ns = min(span.start_ns for span in spans)
    end_ns = max(span.end_ns for span in spans)
    response = None
    error = None
    try:
        response = response_of(spans)
    except ValueError as wrong:
        error = str(wrong)
    name = f"trace {spans[0].trace_id}"
    roots = [span for span in spans if span.parent_id is None]
    if roots:
        root = roots[0]
        if root.name:
            name = f"{name} ({root.name})"
        has_no_output = response is not None and not response.output
        if root.error is not None and has_no_output:
            response = None
            error = root.error
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
    """Return the tasks of a run; None if the document is not a run."""
    holders = [document]
    if isinstance(document, dict):
        holders = list(document.values())
    for tasks in holders:
        if isinstance(tasks, list) and tasks and all(map(_is_task, tasks)):
            return tasks
    if _is_task(document):
        return [document]
    return None


def _is_task(value: Any) -> bool:
    return isinstance(value, dict) and "task_id" in value


def _from_task(task: Mapping[str, Any]) -> Trace:
    case_id = str(task["task_id"])
    duration_ms = float(task.get("duration_ms") or 0)
    latency_s = duration_ms / 1000
    if task.get("exception"):
        error = json.dumps(task["exception"], default=str)
        return Trace(case_id, None, None, latency_s, 0.0, error)
    events = _list(task, "events")
    steps = [step for step in map(_event_step, events) if step is not None]
    response = as_response({"output": _output_of(task, events), "steps": steps})
    response = Response(response.output, usage=_usage_of(task), steps=response.steps)
    question = _mapping(task, "inputs").get("input")
    if not isinstance(question, str):
        question = None
    return Trace(case_id, question, response, latency_s, 0.0)


def _output_of(task: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> Any:
    """Return the output of a task, or its last message."""
    if "output" in task:
        return task["output"] or ""
    for event in reversed(events):
        message = _message(event)
        if message:
            return message
    return ""


def _usage_of(task: Mapping[str, Any]) -> Usage | None:
    tokens = _mapping(task, "tokens")
    if not tokens:
        return None
    counts = []
    for key in ("input", "output"):
        count = tokens.get(key)
        if not isinstance(count, int):
            count = 0
        counts.append(count)
    return Usage(*counts)


def _event_step(event: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = _kind_of(event)
    if "tool" in kind and "result" not in kind and event.get("name"):
        arguments = event.get("arguments", event.get("args"))
        if not isinstance(arguments, dict | str):
            arguments = {}
        error = event.get("error") or None
        if error is not None:
            error = str(error)
        return {
            "kind": "tool_call",
            "name": str(event["name"]),
            "arguments": arguments,
            "error": error,
        }
    if "model" in kind and "response" in kind:
        model = event.get("model") or ""
        return {
            "kind": "model_request",
            "name": str(model),
        }
    return None


def _message(event: Mapping[str, Any]) -> str:
    """Return the content of an event if it is a message; else nothing."""
    kind = _kind_of(event)
    if "message" not in kind and "response" not in kind:
        return ""
    content = event.get("content")
    if not isinstance(content, str):
        return ""
    return content


def _kind_of(event: Mapping[str, Any]) -> str:
    kind = event.get("type") or event.get("kind") or ""
    return str(kind).lower()
