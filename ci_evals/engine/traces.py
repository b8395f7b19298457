"""Exported traces of an agent, read from files and matched to cases, to grade without running
anything.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_evals.engine.recordings import CASE_ATTRIBUTES, Trace
from ci_evals.errors import StorageError
from ci_evals.model.case import Case
from ci_evals.model.response import Response, Usage
from ci_evals.providers.answer import as_response
from ci_evals.providers.span_files import (
    EXPECTED,
    emitter_of,
    mapping_in,
    mappings_in,
    read_documents,
    spans_in,
)
from ci_evals.providers.spans import Span, attribute, question_of, response_of

_MAX_DURATION_MS = 1e15


def read_traces(path: Path, match: str | None = None) -> list[Trace]:
    """Read every trace of a file, or of the .json and .jsonl files of a folder, in their order.

    Args:
        path: OTLP JSON, an export of Phoenix, Langfuse or LangSmith, or a run JSON of ag2; one
            document, or one per line.
        match: the attribute that holds the case's id; without it `CASE_ATTRIBUTES`.

    Raises:
        StorageError: a file cannot be read or is not a trace.
    """
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.json*") if file.is_file())
    spans: dict[str, list[Span]] = {}
    traces: list[Trace] = []
    for file in files:
        for place, document in read_documents(file):
            tasks = _tasks(document)
            if tasks is not None:
                traces += map(_from_task, tasks)
                continue
            spans_of_document = spans_in(document)
            if spans_of_document is None:
                expected = f"expected {EXPECTED}, or a run JSON of ag2"
                raise StorageError(f"{place}: is not a trace: {expected}")
            for span in spans_of_document:
                spans.setdefault(span.trace_id, []).append(span)
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
        # An agent may recover from errors: only one at the root, without an output, is its failure.
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
        emitter=emitter_of(spans),
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
    latency_s = _seconds(task.get("duration_ms"))
    if task.get("exception"):
        error = json.dumps(task["exception"], default=str)
        return Trace(case_id, None, None, latency_s, 0.0, error)
    events = mappings_in(task, "events")
    steps = [step for step in map(_event_step, events) if step is not None]
    try:
        response = as_response({"output": _output_of(task, events), "steps": steps})
    except ValueError as wrong:
        return Trace(case_id, None, None, latency_s, 0.0, str(wrong))
    response = Response(response.output, usage=_usage_of(task), steps=response.steps)
    question = mapping_in(task, "inputs").get("input")
    if not isinstance(question, str):
        question = None
    return Trace(case_id, question, response, latency_s, 0.0)


def _seconds(milliseconds: Any) -> float:
    """Return a duration in seconds; 0 if it is not a possible one."""
    try:
        duration_ms = float(milliseconds or 0)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    if not 0 <= duration_ms < _MAX_DURATION_MS:  # also for NaN
        return 0.0
    return duration_ms / 1000


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
    tokens = mapping_in(task, "tokens")
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
    """Return the content of an event if it is a message, else an empty text."""
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
