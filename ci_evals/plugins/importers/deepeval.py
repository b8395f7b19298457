"""Imports goldens of deepeval from JSON, JSONL or CSV."""

from collections.abc import Mapping
from typing import Any

from ci_evals.format import number_of
from ci_evals.plugins.importers.draft import SuiteDraft, UntranslatableError, locate
from ci_evals.plugins.importers.parts import JUDGE, NO_PROVIDERS, as_data, raw
from ci_evals.plugins.importers.source import Source
from ci_evals.plugins.importers.writing import YamlComment
from ci_evals.suite.nodes import Node

_ANSWER = ("actual_output", "retrieval_context", "tools_called")
_OWN = frozenset({*_ANSWER, "expected_output", "expected_tools", "source_file"})
_METADATA = ("additional_metadata", "comments", "source_file", "custom_column_key_values")
_TOOLS_THRESHOLD = 0.5
"""The share of the expected tools that passes, as in `ToolCorrectnessMetric`."""
_METRICS = (
    "deepeval keeps its metrics in code: here an answer is compared with the expected one."
    " Add further expectations."
)


def recognize(source: Source) -> bool:
    """Return True for goldens."""
    rows = source.written.value
    if not isinstance(rows, list):
        return False
    has_own_keys = False
    for row in rows:
        if not isinstance(row, dict) or "target" in row:
            return False
        if "input" not in row and "scenario" not in row:
            return False
        if not _OWN.isdisjoint(row):
            has_own_keys = True
    return has_own_keys


def convert(source: Source) -> SuiteDraft:
    """Make a draft of goldens."""
    draft = SuiteDraft("deepeval")
    cases: list[Any] = []
    is_judged = False
    for row in source.written.items():
        try:
            case = _case(row)
        except UntranslatableError as error:
            cases.append(draft.lose(row, "golden", str(error), weakens=True))
            continue
        cases.append(locate(case, row.line))
        is_judged = is_judged or any("judge" in entry for entry in case.get("expect", ()))
    draft.suite[YamlComment(NO_PROVIDERS)] = None
    if is_judged:
        draft.suite["judges"] = [dict(JUDGE)]
    draft.suite[YamlComment(_METRICS)] = None
    for key in _ANSWER:
        answers = [row for row in source.written.items() if as_data(row.value.get(key))]
        if answers:
            goldens = number_of(len(answers), "golden")
            reason = f"{goldens} with an earlier answer: here every run gets a new one"
            comment = draft.lose(answers[0][key], f"golden: {key}", reason, weakens=False)
            draft.suite[comment] = None
    draft.suite["cases"] = cases
    return draft


def _case(row: Node) -> dict[Any, Any]:
    golden = {}
    for key, value in row.value.items():
        if value not in (None, "", []):
            golden[key] = as_data(value)
    if "input" not in golden:
        reason = "a golden of a conversation: write a simulated `user`, with a persona and a goal"
        raise UntranslatableError(reason)
    case: dict[Any, Any] = {}
    if "name" in golden:
        case["id"] = str(golden["name"])
    case["input"] = golden["input"]
    if context := golden.get("context"):
        if isinstance(context, str) and "|" in context:  # deepeval's format in CSV files
            context = context.split("|")
        case["vars"] = {"context": context}
    expect: list[Any] = []
    if "expected_output" in golden:
        reference = raw(str(golden["expected_output"]))
        expect.append({"judge": {"rubric": "factual", "reference": reference}})
    if tools := golden.get("expected_tools"):
        calls = [_tool(tool) for tool in tools]
        called = {"trajectory": {"calls": calls, "match": "superset"}}
        expect.append({"all_of": {"of": [called], "threshold": _TOOLS_THRESHOLD}})
    if expect:
        case["expect"] = expect
    metadata = {key: golden[key] for key in _METADATA if key in golden}
    if metadata:
        case["metadata"] = metadata
    return case


def _tool(tool: Any) -> str:
    """Return the name of a tool; deepeval does not compare arguments by default."""
    if isinstance(tool, Mapping):
        return str(tool["name"])
    return str(tool)
