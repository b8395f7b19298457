"""Reads tests in CSV files: columns are vars, except those that begin with `__`."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ci_evals.model.case import Case
from ci_evals.plugins.importers.draft import UntranslatableError
from ci_evals.plugins.importers.promptfoo.assertions import KINDS
from ci_evals.suite.keys import keys_of
from ci_evals.templating import is_template

_WITH_THRESHOLD = {
    "answer-relevance": 0.75,
    "classifier": 0.75,
    "context-faithfulness": 0.75,
    "context-recall": 0.75,
    "context-relevance": 0.75,
    "cost": 0.75,
    "latency": 0.75,
    "levenshtein": 0.75,
    "perplexity": 0.75,
    "perplexity-score": 0.75,
    "rouge-n": 0.75,
    "similar": 0.8,
}
"""The assertions whose cell may have a threshold, as in `similar(0.9): …`, with its default."""
_SHORT = {"grade": "llm-rubric", "fn": "javascript", "eval": "javascript"}


def plain_columns(rows: Sequence[Mapping[str, str]]) -> frozenset[str] | None:
    """Return the columns if ci-evals can read the file directly; None if some are special."""
    if not rows:
        return frozenset()
    columns = frozenset(rows[0])
    special = columns.intersection(keys_of(Case)) - {"input"}
    if special or "" in columns or any(column.startswith("__") for column in columns):
        return None
    for row in rows:
        for cell in row.values():
            if is_template(cell) or cell.startswith("file://") or cell.endswith("\n"):
                return None
    return columns


def test_of_row(row: Mapping[str, str]) -> dict[str, Any]:
    """Return a row in the form of a test in the config.

    Raises:
        UntranslatableError: a threshold is not a number.
    """
    test: dict[str, Any] = {"vars": {}, "assert": [], "options": {}, "metadata": {}}
    for column, cell in row.items():
        if not column:
            continue  # lines that end with a separator have a column without a name
        if not column.startswith("__"):
            test["vars"][column] = cell
            continue
        if not cell.strip():
            continue
        name, _, rest = column.removeprefix("__").partition(":")
        if name == "metadata":
            key = rest.removesuffix("[]")
            if rest.endswith("[]"):
                test["metadata"][key] = [part.strip() for part in cell.split(",") if part.strip()]
            else:
                test["metadata"][key] = cell
        elif name == "description":
            test["description"] = cell
        elif name in ("prefix", "suffix"):
            test["options"][name] = cell
        elif name in ("metric", "config"):
            continue  # they belong to the column of an assertion
        elif re.fullmatch(r"expected\d*", name):
            test["assert"].append(_assertion(row, column))
        elif name == "threshold":
            test["threshold"] = _number(cell)
        else:
            test[column] = cell  # reported later as not translated
    return {key: value for key, value in test.items() if value not in ("", [], {})}


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise UntranslatableError(f"{cell!r:.80} is not a number") from None


def _assertion(row: Mapping[str, str], column: str) -> dict[str, Any]:
    """Return the assertion of a cell, with the threshold and the metric of other columns."""
    assertion = _parse_assertion(row[column].strip())
    threshold = row.get(f"__config:{column}:threshold", "").strip()
    if threshold:
        assertion["threshold"] = _number(threshold)
    if row.get("__metric"):
        assertion["metric"] = row["__metric"]
    return assertion


def _parse_assertion(text: str) -> dict[str, Any]:
    """Return the assertion in `contains: Paris` or `similar(0.8): …`; else equality to the text."""
    equals = {"type": "equals", "value": text}
    if match := re.fullmatch(r"file://.+\.([cm]?[jt]s|py)(:\w+)?", text):
        kind = "javascript"
        if match[1] == "py":
            kind = "python"
        return {"type": kind, "value": text}
    match = re.fullmatch(
        r"(not-)?([a-z:0-9-]+?)(?:\((\d+(?:\.\d+)?)\))?(?::(.*))?", text, re.DOTALL
    )
    if match is None:
        return equals
    negation, name, threshold, value = match.groups()
    kind = _SHORT.get(name, name)
    if kind not in KINDS:
        return equals
    assertion: dict[str, Any] = {"type": kind}
    if negation:
        assertion["type"] = f"not-{kind}"
    if value:
        assertion["value"] = value.strip()
    if kind in _WITH_THRESHOLD:
        assertion["threshold"] = float(threshold or _WITH_THRESHOLD[kind])
    return assertion
