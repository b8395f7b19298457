"""ag2: records of an evaluation suite, as JSONL, or a JSON list of them."""

from typing import Any

from ci_evals.importers.draft import Draft
from ci_evals.importers.parts import JUDGE, NO_PROVIDERS
from ci_evals.importers.source import Source
from ci_evals.importers.writing import YamlComment
from ci_evals.suite.nodes import Node

_SCORERS = "ag2 keeps its scorers in code: here an answer is compared with `reference_outputs`. Say what else is expected."


def recognize(source: Source) -> bool:
    """Return True for records."""
    rows = source.written.value
    if not isinstance(rows, list) or not rows:
        return False
    return all(
        isinstance(row, dict) and isinstance(row.get("inputs"), dict) and "input" in row["inputs"]
        for row in rows
    )


def convert(source: Source) -> Draft:
    """Make a draft of records."""
    draft = Draft("ag2")
    cases = [
        draft.at(_case(row, number), row.line) for number, row in enumerate(source.written.items())
    ]
    judges = {"judges": [dict(JUDGE)]} if any("expect" in case for case in cases) else {}
    draft.suite = {
        YamlComment(NO_PROVIDERS): None,
        **judges,
        YamlComment(_SCORERS): None,
        "cases": cases,
    }
    return draft


def _case(row: Node, number: int) -> dict[Any, Any]:
    record, rest = row.value, dict(row.value["inputs"])
    case: dict[Any, Any] = {
        "id": str(record.get("task_id") or f"task-{number:04}"),
        "input": rest.pop("input"),
    }
    if rest:
        case["vars"] = rest
    outputs = record.get("reference_outputs") or {}
    if outputs:
        reference = next(iter(outputs.values())) if len(outputs) == 1 else outputs
        case["expect"] = [{"judge": {"rubric": "factual", "reference": reference}}]
    if tags := record.get("tags"):
        case["tags"] = [tags] if isinstance(tags, str) else [str(tag) for tag in tags]
    if metadata := record.get("metadata"):
        case["metadata"] = metadata
    return case
