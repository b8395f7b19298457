"""Stands in for a model that judges: it reads what a judge is sent, and replies as one must."""

import json
from typing import Any

from ci_evals.model.case import Request


def judge(turns: list[dict[str, Any]], request: Request) -> str:
    """Look for the reference or the context in the answer, and for rude words."""
    data = json.loads("\n".join(turns[1]["content"].splitlines()[1:-1]))
    known = str(data.get("reference") or data.get("context") or "")
    agrees = not known or any(part in data["answer"] for part in known.split(", "))
    polite = "fool" not in data["answer"]
    asked_for = (request.schema or {})["properties"]
    if "statements" in asked_for:  # what a judge of retrieval lists instead of a verdict
        return json.dumps({"statements": [{"text": data["answer"], "texts": [1] if agrees else [], "holds": agrees}]})
    verdicts = asked_for["verdict"]["enum"]
    best, worst = (verdicts[-1], verdicts[0]) if isinstance(verdicts[0], int) else (verdicts[0], verdicts[-1])
    return json.dumps(
        {"reason": f"agrees: {agrees}, polite: {polite}", "verdict": best if agrees and polite else worst}
    )
