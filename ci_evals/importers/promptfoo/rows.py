"""Tests in CSV files: columns are vars, and those that begin with `__` say what is expected."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ci_evals.importers.promptfoo.assertions import KINDS
from ci_evals.model.case import Case
from ci_evals.suite.keys import keys_of

_SHORT = {"grade": "llm-rubric", "fn": "javascript", "eval": "javascript"}


def plain_columns(rows: Sequence[Mapping[str, str]]) -> frozenset[str] | None:
    """Return the columns of a file that ci-evals reads as it is; None if some have a meaning of
    their own.
    """
    columns = frozenset(rows[0]) if rows else frozenset()
    special = {
        column for column in columns if column.startswith("__") or column in keys_of(Case)
    } - {"input"}
    return None if special else columns


def test_of_row(row: Mapping[str, str]) -> dict[str, Any]:
    """Return a row as a test, as it would stand in the config."""
    test: dict[str, Any] = {"vars": {}, "assert": [], "options": {}, "metadata": {}}
    for column, cell in row.items():
        name, _, rest = column.removeprefix("__").partition(":")
        if not column.startswith("__"):
            test["vars"][column] = cell
        elif re.fullmatch(r"expected\d*", name) and cell.strip():
            threshold = row.get(f"__config:{column}:threshold", "").strip()
            test["assert"].append(
                _assertion(cell.strip())
                | ({"threshold": float(threshold)} if threshold else {})
                | ({"metric": row["__metric"]} if row.get("__metric") else {})
            )
        elif name == "metadata":
            is_list = rest.endswith("[]")
            values = [part.strip() for part in cell.split(",") if part.strip()]
            test["metadata"][rest.removesuffix("[]")] = values if is_list else cell
        elif name in ("prefix", "suffix") and cell:
            test["options"][name] = cell
        elif name == "threshold" and cell.strip():
            test["threshold"] = float(cell)
        elif name == "description":
            test["description"] = cell
        elif cell.strip() and name not in ("expected", "metric", "config"):
            test[column] = cell  # listed as what is not translated
    return {key: value for key, value in test.items() if value}


def _assertion(text: str) -> dict[str, Any]:
    """Return the assertion that a cell is: `contains: Paris`, `similar(0.8): …`, or a text to
    equal.
    """
    found = re.match(r"(not-)?([a-z:-]+?)(?:\((\d*\.?\d+)\))?\s*(?::\s*(.*))?$", text, re.DOTALL)
    kind = _SHORT.get(found[2], found[2]) if found else ""
    if not found or kind not in KINDS:
        return {"type": "equals", "value": text}
    assertion: dict[str, Any] = {"type": (found[1] or "") + kind}
    if found[4]:
        assertion["value"] = found[4]
    if found[3]:
        assertion["threshold"] = float(found[3])
    return assertion
