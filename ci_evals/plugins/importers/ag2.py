"""ag2: records of an evaluation suite, as JSONL, or a JSON list of them."""

from typing import Any

from ci_evals.plugins.importers.draft import SuiteDraft, locate
from ci_evals.plugins.importers.parts import JUDGE, NO_PROVIDERS, raw
from ci_evals.plugins.importers.source import Source
from ci_evals.plugins.importers.writing import YamlComment
from ci_evals.suite.nodes import Node

_SCORERS = (
    "ag2 keeps its scorers in code: here an answer is compared with `reference_outputs`."
    " Add further expectations."
)


def recognize(source: Source) -> bool:
    """Return True for records."""
    rows = source.written.value
    if not isinstance(rows, list) or not rows:
        return False
    for row in rows:
        inputs = row.get("inputs") if isinstance(row, dict) else None
        if not isinstance(inputs, dict) or "input" not in inputs:
            return False
    return True


def convert(source: Source) -> SuiteDraft:
    """Make a draft of records."""
    cases = []
    for number, row in enumerate(source.written.items()):
        cases.append(locate(_case(row, number), row.line))
    suite: dict[Any, Any] = {YamlComment(NO_PROVIDERS): None}
    if any("expect" in case for case in cases):
        suite["judges"] = [dict(JUDGE)]
    suite[YamlComment(_SCORERS)] = None
    suite["cases"] = cases
    return SuiteDraft("ag2", suite)


def _case(row: Node, number: int) -> dict[Any, Any]:
    record = row.value
    vars_ = dict(record["inputs"])
    case: dict[Any, Any] = {
        "id": str(record.get("task_id") or f"task-{number:04}"),
        "input": vars_.pop("input"),
    }
    if vars_:
        case["vars"] = vars_
    if reference := record.get("reference_outputs"):
        if len(reference) == 1:
            (reference,) = reference.values()
        case["expect"] = [{"judge": {"rubric": "factual", "reference": raw(reference)}}]
    tags = record.get("tags")
    if isinstance(tags, str) and tags:
        case["tags"] = [tags]
    elif tags:
        case["tags"] = [str(tag) for tag in tags]
    if metadata := record.get("metadata"):
        case["metadata"] = metadata
    return case
