"""deepeval: goldens, saved as JSON, JSONL or CSV."""

from collections.abc import Mapping
from typing import Any

from ci_evals.format import number_of
from ci_evals.importers.draft import Draft, UntranslatableError
from ci_evals.importers.parts import JUDGE, NO_PROVIDERS, as_data
from ci_evals.importers.source import Source
from ci_evals.importers.writing import YamlComment
from ci_evals.suite.nodes import Node

_OWN = frozenset(
    {
        "expected_output",
        "actual_output",
        "retrieval_context",
        "expected_tools",
        "tools_called",
        "source_file",
    }
)
_KEPT = ("additional_metadata", "comments", "source_file", "custom_column_key_values")
_METRICS = "deepeval keeps its metrics in code: here an answer is compared with the expected one. Say what else is expected."


def recognize(source: Source) -> bool:
    """Return True for goldens."""
    rows = source.written.value
    return (
        isinstance(rows, list)
        and bool(rows)
        and all(
            isinstance(row, dict) and ("input" in row or "scenario" in row) and "target" not in row
            for row in rows
        )
        and any(_OWN & row.keys() for row in rows)
    )


def convert(source: Source) -> Draft:
    """Make a draft of goldens."""
    draft = Draft("deepeval")
    cases: list[Any] = []
    for row in source.written.items():
        try:
            cases.append(draft.at(_case(row), row.line))
        except UntranslatableError as error:
            cases.append(draft.lose(row, "golden", str(error), weakens=True))
    answers: dict[YamlComment, None] = {}
    for key in ("actual_output", "retrieval_context", "tools_called"):
        if rows := [
            row for row in source.written.items() if row.value.get(key) not in (None, "", "[]", [])
        ]:
            reason = f"{number_of(len(rows), 'golden')} with what an earlier answer was: here every run gets a new one"
            answers[draft.lose(rows[0][key], f"golden: {key}", reason, weakens=False)] = None
    judged = any(
        "judge" in entry
        for case in cases
        if isinstance(case, dict)
        for entry in case.get("expect", ())
    )
    draft.suite = {
        YamlComment(NO_PROVIDERS): None,
        **({"judges": [dict(JUDGE)]} if judged else {}),
        YamlComment(_METRICS): None,
        **answers,
        "cases": cases,
    }
    return draft


def _case(row: Node) -> dict[Any, Any]:
    golden: Mapping[str, Any] = {
        key: as_data(value) for key, value in row.value.items() if value not in (None, "", [])
    }
    if "input" not in golden:
        raise UntranslatableError(
            "a golden of a conversation: write a simulated `user`, with a persona and a goal"
        )
    expect: list[Any] = []
    if "expected_output" in golden:
        expect.append({"judge": {"rubric": "factual", "reference": str(golden["expected_output"])}})
    if tools := golden.get("expected_tools"):
        expect.append(
            {"trajectory": {"calls": [_tool(each) for each in tools], "match": "superset"}}
        )
    case: dict[Any, Any] = {"id": str(golden["name"])} if "name" in golden else {}
    case["input"] = golden["input"]
    if context := golden.get("context"):
        is_joined = (
            isinstance(context, str) and "|" in context
        )  # as deepeval writes it into CSV files
        case["vars"] = {"context": context.split("|") if is_joined else context}
    if expect:
        case["expect"] = expect
    metadata = {key: golden[key] for key in _KEPT if key in golden}
    return case | ({"metadata": metadata} if metadata else {})


def _tool(tool: Any) -> Any:
    if not isinstance(tool, Mapping):
        return str(tool)
    arguments = tool.get("input_parameters") or tool.get("inputParameters")
    return {"name": tool["name"], "arguments": arguments} if arguments else str(tool["name"])
