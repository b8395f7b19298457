"""Checks as promptfoo calls them."""

from typing import Any


def get_assert(output: str, context: dict[str, Any]) -> dict[str, Any]:
    return {"pass": context["vars"]["question"] in output, "score": 1.0, "reason": "says it again"}


def is_short(output: str, context: dict[str, Any]) -> bool:
    return len(output) < len(context["prompt"])
