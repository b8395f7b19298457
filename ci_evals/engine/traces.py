"""Exported traces of an agent, read from files and matched to cases: answers to grade without running anything."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from ci_evals.engine.cells import PreparedCell
from ci_evals.engine.outcome import Outcome
from ci_evals.errors import StorageError
from ci_evals.model import Case, Result, RunError
from ci_evals.providers.answer import as_response
from ci_evals.providers.spans import Span, attribute, input_text, response_of
from ci_evals.response import Response, Usage

CASE_ATTRIBUTES = ("ci_evals.case.id", "case_id", "case.id", "task_id")


class Trace(Struct, frozen=True):
    """One answer from elsewhere; `case_id` and `asked` are what it can be matched by, `name` what it is called."""

    case_id: str | None
    asked: str | None
    response: Response | None
    latency_s: float
    started_at: float
    error: str | None = None
    name: str = ""

    @property
    def title(self) -> str:
        """What a person knows it by."""
        return self.case_id or self.asked or self.name


def read_traces(path: Path, match: str | None = None) -> list[Trace]:
    """Every trace of a file or of the .json and .jsonl files of a folder, in their order.

    Args:
        path: OTLP JSON (one document, or one to the line), or a run JSON of ag2.
        match: the attribute that holds the case's id; without it `CASE_ATTRIBUTES`.

    Raises:
        StorageError: a file cannot be read, or is neither.
    """
    files = sorted(each for each in path.rglob("*.json*") if each.is_file()) if path.is_dir() else [path]
    spans: dict[str, list[Span]] = {}
    traces: list[Trace] = []
    for file in files:
        for document in _documents(file):
            if isinstance(document, dict) and "resourceSpans" in document:
                for span in _spans(document):
                    spans.setdefault(span.trace_id, []).append(span)
            elif (tasks := _tasks(document)) is not None:
                traces.extend(map(_of_task, tasks))
            else:
                raise StorageError(f"{file}: is no trace: expected OTLP JSON (`resourceSpans`) or a run JSON of ag2")
    names = (match,) if match else CASE_ATTRIBUTES
    return traces + [_of_spans(each, names) for each in spans.values()]


class Matched(Struct, frozen=True):
    """Traces by the case that they answer, and those that answer none."""

    by_case: Mapping[str, Sequence[Trace]]
    strangers: Sequence[Trace]


def matched(traces: Iterable[Trace], cases: Iterable[Case]) -> Matched:
    """Find the case of each trace: by its id, else by exactly what was asked."""
    ids: dict[str, str] = {}
    asked: dict[str, str] = {}
    for case in cases:
        ids[case.id] = case.id
        if isinstance(case.input, str):
            asked.setdefault(case.input, case.id)
    by_case: dict[str, list[Trace]] = {}
    strangers = []
    for trace in traces:
        known = ids.get(trace.case_id or "") or ids.get((trace.case_id or "").rpartition("#")[0])
        found = known or (asked.get(trace.asked or "") if trace.case_id is None else None)
        if found is None:
            strangers.append(trace)
        else:
            by_case.setdefault(found, []).append(trace)
    return Matched(by_case, strangers)


_REMEDY = f"give it the attribute {CASE_ATTRIBUTES[0]}, or name the attribute with --match"
NO_TRACE = Outcome("errored", error=RunError("not_recorded", f"no trace belongs to this case: {_REMEDY}"))


class TraceAnswers:
    """Answers a case's runs from its traces: the first run from the first one."""

    absence = NO_TRACE

    def __init__(self, by_case: Mapping[str, Sequence[Trace]]) -> None:
        self._by_case = by_case

    def find(self, cell: PreparedCell, run: int) -> Result | None:
        traces = self._by_case.get(cell.case.id, ())
        if run > len(traces):
            return None
        trace = traces[run - 1]
        error = RunError("crash", trace.error or "no answer") if trace.response is None else None
        return Result(
            fingerprint="",
            case=cell.case.id,
            provider=cell.variant.provider,
            run=run,
            status="failed" if error else "passed",
            score=0.0 if error else None,
            started_at=trace.started_at,
            latency_s=trace.latency_s,
            response=trace.response,
            error=error,
        )

    def close(self) -> None:
        """Nothing is open."""


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
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise StorageError(f"{file}:{number}: is no JSON: {error}") from error


# OTLP JSON.


def _spans(document: Mapping[str, Any]) -> Iterator[Span]:
    for resource in _list(document, "resourceSpans"):
        shared = _attributes(_mapping(resource, "resource"))
        for scope in _list(resource, "scopeSpans"):
            for span in _list(scope, "spans"):
                status = _mapping(span, "status")
                attributes = {**shared, **_attributes(span)}
                failed = status.get("code") in (2, "STATUS_CODE_ERROR")
                told = str(status.get("message") or attributes.get("error.type") or "failed")
                yield Span(
                    trace_id=str(span.get("traceId")),
                    span_id=str(span.get("spanId")),
                    parent_id=span.get("parentSpanId") or None,
                    name=str(span.get("name") or ""),
                    attributes=attributes,
                    start_ns=_nanoseconds(span.get("startTimeUnixNano")),
                    end_ns=_nanoseconds(span.get("endTimeUnixNano")),
                    error=told if failed else None,
                )


def _attributes(holder: Mapping[str, Any]) -> dict[str, Any]:
    return {str(each.get("key")): _value(each.get("value")) for each in _list(holder, "attributes")}


def _value(value: Any) -> Any:
    """An OTLP `AnyValue`; 64-bit integers are text there."""
    if not isinstance(value, dict):
        return value
    match value:
        case {"intValue": number}:
            return int(number) if str(number).lstrip("-").isdecimal() else None
        case {"arrayValue": {"values": list(values)}}:
            return [_value(each) for each in values]
        case {"kvlistValue": {"values": list(values)}}:
            return {str(each.get("key")): _value(each.get("value")) for each in values if isinstance(each, dict)}
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


def _of_spans(spans: Sequence[Span], names: Sequence[str]) -> Trace:
    start, end = min(span.start_ns for span in spans), max(span.end_ns for span in spans)
    case_id, asked = attribute(spans, names), input_text(spans)
    try:
        response, error = response_of(spans), None
    except (TypeError, ValueError) as wrong:
        response, error = None, str(wrong)
    root = next((span for span in spans if span.parent_id is None), None)
    if response is not None and not response.output and root is not None and root.error is not None:
        response, error = None, root.error
    name = f"trace {spans[0].trace_id}" + (f" ({root.name})" if root is not None and root.name else "")
    return Trace(case_id, asked, response, max(0, end - start) / 1e9, start / 1e9, error, name)


# ag2.


def _tasks(document: Any) -> list[dict[str, Any]] | None:
    holders = document.values() if isinstance(document, dict) else [document]
    for tasks in holders:
        if isinstance(tasks, list) and tasks and all(isinstance(each, dict) and "task_id" in each for each in tasks):
            return tasks
    return [document] if isinstance(document, dict) and "task_id" in document else None


def _of_task(task: Mapping[str, Any]) -> Trace:
    inputs = _mapping(task, "inputs")
    tokens = _mapping(task, "tokens")
    exception = task.get("exception")
    events = _list(task, "events")
    asked = inputs.get("input")
    latency_s = float(task.get("duration_ms") or 0) / 1000
    output = task.get("output", next((each for each in map(_said, reversed(events)) if each), ""))
    if exception:
        return Trace(str(task["task_id"]), None, None, latency_s, 0.0, json.dumps(exception, default=str))
    steps = [step for event in events if (step := _event_step(event)) is not None]
    response = as_response({"output": output or "", "steps": steps})
    counted = {name: tokens.get(key) for name, key in (("input_tokens", "input"), ("output_tokens", "output"))}
    usage = Usage(**{name: value for name, value in counted.items() if isinstance(value, int)}) if tokens else None
    done = Response(response.output, usage=usage, steps=response.steps)
    return Trace(str(task["task_id"]), asked if isinstance(asked, str) else None, done, latency_s, 0.0)


def _event_step(event: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = str(event.get("type") or event.get("kind") or "").lower()
    if "tool" in kind and "result" not in kind and event.get("name"):
        given = event.get("arguments", event.get("args"))
        arguments = given if isinstance(given, dict | str) else {}
        return {"kind": "tool_call", "name": str(event["name"]), "arguments": arguments, "error": _error(event)}
    if "model" in kind and "response" in kind:
        return {"kind": "model_request", "name": str(event.get("model") or "")}
    return None


def _error(event: Mapping[str, Any]) -> str | None:
    return str(event["error"]) if event.get("error") else None


def _said(event: Mapping[str, Any]) -> str:
    kind = str(event.get("type") or event.get("kind") or "").lower()
    content = event.get("content")
    return content if isinstance(content, str) and ("message" in kind or "response" in kind) else ""
