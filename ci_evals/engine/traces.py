"""Exported traces of an agent, read from files and matched to cases: answers to grade without
running anything.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_evals.errors import StorageError
from ci_evals.model.case import Case
from ci_evals.model.response import Response, Usage
from ci_evals.providers.answer import as_response
from ci_evals.providers.spans import Span, attribute, question_of, response_of

CASE_ATTRIBUTES = ("ci_evals.case.id", "case_id", "case.id", "task_id")


@dataclass(frozen=True, slots=True)
class Trace:
    """One answer from elsewhere; it is matched by `case_id` or by `question`, and called by
    `name`.
    """

    case_id: str | None
    question: str | None
    response: Response | None
    latency_s: float
    started_at: float
    error: str | None = None
    name: str = ""

    @property
    def title(self) -> str:
        """The name that a person knows it by."""
        return self.case_id or self.question or self.name


def read_traces(path: Path, match: str | None = None) -> list[Trace]:
    """Read every trace of a file, or of the .json and .jsonl files of a folder, in their order.

    Args:
        path: OTLP JSON (one document, or one per line), or a run JSON of ag2.
        match: the attribute that holds the case's id; without it `CASE_ATTRIBUTES`.

    Raises:
        StorageError: a file cannot be read, or is neither.
    """
    files = (
        sorted(each for each in path.rglob("*.json*") if each.is_file())
        if path.is_dir()
        else [path]
    )
    spans: dict[str, list[Span]] = {}
    traces: list[Trace] = []
    for file in files:
        for document in _documents(file):
            if isinstance(document, dict) and "resourceSpans" in document:
                for span in _spans(document):
                    spans.setdefault(span.trace_id, []).append(span)
            elif (tasks := _tasks(document)) is not None:
                traces.extend(map(_from_task, tasks))
            else:
                raise StorageError(
                    f"{file}: is not a trace: expected OTLP JSON (`resourceSpans`) or a run JSON of ag2"
                )
    names = (match,) if match else CASE_ATTRIBUTES
    return traces + [_from_spans(each, names) for each in spans.values()]


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
        if trace.case_id is None:
            found = by_question.get(trace.question or "")
        else:
            found = next(
                (each for each in (trace.case_id, trace.case_id.rpartition("#")[0]) if each in ids),
                None,
            )
        if found is None:
            unmatched.append(trace)
        else:
            by_case.setdefault(found, []).append(trace)
    return MatchedTraces(by_case, unmatched)


def _documents(file: Path) -> Iterator[Any]:
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{file}: cannot be read: {error}") from error
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        pass
    else:
        yield whole
        return
    for number, line in enumerate(
        text.split("\n"), 1
    ):  # only these end a line: JSON may have U+2028 in a text
        if line.strip():
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
                status = _mapping(span, "status")
                attributes = {**shared, **_attributes(span)}
                failed = status.get("code") in (2, "STATUS_CODE_ERROR")
                message = str(status.get("message") or attributes.get("error.type") or "failed")
                yield Span(
                    trace_id=str(span.get("traceId")),
                    span_id=str(span.get("spanId")),
                    parent_id=span.get("parentSpanId") or None,
                    name=str(span.get("name") or ""),
                    attributes=attributes,
                    start_ns=_nanoseconds(span.get("startTimeUnixNano")),
                    end_ns=_nanoseconds(span.get("endTimeUnixNano")),
                    error=message if failed else None,
                )


def _attributes(holder: Mapping[str, Any]) -> dict[str, Any]:
    return {str(each.get("key")): _value(each.get("value")) for each in _list(holder, "attributes")}


def _value(value: Any) -> Any:
    """Unpack an OTLP `AnyValue`; 64-bit integers are text there."""
    if not isinstance(value, dict):
        return value
    match value:
        case {"intValue": number}:
            return int(number) if str(number).lstrip("-").isdecimal() else None
        case {"arrayValue": {"values": list(values)}}:
            return [_value(each) for each in values]
        case {"kvlistValue": {"values": list(values)}}:
            return {
                str(each.get("key")): _value(each.get("value"))
                for each in values
                if isinstance(each, dict)
            }
        case _:
            return next(iter(value.values()), None)


def _list(holder: Any, key: str) -> list[dict[str, Any]]:
    found = holder.get(key) if isinstance(holder, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _mapping(holder: Any, key: str) -> dict[str, Any]:
    found = holder.get(key) if isinstance(holder, dict) else None
    return found if isinstance(found, dict) else {}


def _nanoseconds(value: Any) -> int:
    return int(value) if str(value).isdecimal() else 0


def _from_spans(spans: Sequence[Span], names: Sequence[str]) -> Trace:
    start, end = min(span.start_ns for span in spans), max(span.end_ns for span in spans)
    case_id, question = attribute(spans, names), question_of(spans)
    try:
        response, error = response_of(spans), None
    except ValueError as wrong:
        response, error = None, str(wrong)
    root = next((span for span in spans if span.parent_id is None), None)
    if response is not None and not response.output and root is not None and root.error is not None:
        response, error = None, root.error
    name = f"trace {spans[0].trace_id}" + (
        f" ({root.name})" if root is not None and root.name else ""
    )
    return Trace(case_id, question, response, max(0, end - start) / 1e9, start / 1e9, error, name)


# ag2.


def _tasks(document: Any) -> list[dict[str, Any]] | None:
    holders = document.values() if isinstance(document, dict) else [document]
    for tasks in holders:
        if (
            isinstance(tasks, list)
            and tasks
            and all(isinstance(each, dict) and "task_id" in each for each in tasks)
        ):
            return tasks
    return [document] if isinstance(document, dict) and "task_id" in document else None


def _from_task(task: Mapping[str, Any]) -> Trace:
    inputs = _mapping(task, "inputs")
    tokens = _mapping(task, "tokens")
    exception = task.get("exception")
    events = _list(task, "events")
    question = inputs.get("input")
    latency_s = float(task.get("duration_ms") or 0) / 1000
    output = task.get(
        "output", next((each for each in map(_message, reversed(events)) if each), "")
    )
    if exception:
        return Trace(
            str(task["task_id"]), None, None, latency_s, 0.0, json.dumps(exception, default=str)
        )
    steps = [step for event in events if (step := _event_step(event)) is not None]
    response = as_response({"output": output or "", "steps": steps})
    counted = {
        name: tokens.get(key)
        for name, key in (("input_tokens", "input"), ("output_tokens", "output"))
    }
    usage = (
        Usage(**{name: value for name, value in counted.items() if isinstance(value, int)})
        if tokens
        else None
    )
    done = Response(response.output, usage=usage, steps=response.steps)
    return Trace(
        str(task["task_id"]), question if isinstance(question, str) else None, done, latency_s, 0.0
    )


def _event_step(event: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = str(event.get("type") or event.get("kind") or "").lower()
    if "tool" in kind and "result" not in kind and event.get("name"):
        given = event.get("arguments", event.get("args"))
        arguments = given if isinstance(given, dict | str) else {}
        error = str(event["error"]) if event.get("error") else None
        return {
            "kind": "tool_call",
            "name": str(event["name"]),
            "arguments": arguments,
            "error": error,
        }
    if "model" in kind and "response" in kind:
        return {"kind": "model_request", "name": str(event.get("model") or "")}
    return None


def _message(event: Mapping[str, Any]) -> str:
    kind = str(event.get("type") or event.get("kind") or "").lower()
    content = event.get("content")
    return content if isinstance(content, str) and ("message" in kind or "response" in kind) else ""
