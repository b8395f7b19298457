"""Stands in for the model that judges: it reads what a judge is sent, and replies as one must."""

import json
from typing import Any

from ci_evals.model.request import Request


def verdict(turns: list[dict[str, Any]], request: Request) -> str:
    """Look for the reference in the answer, and for the answer's last words in the context."""
    data = json.loads("\n".join(turns[1]["content"].splitlines()[1:-1]))
    properties = (request.schema or {})["properties"]
    if "statements" in properties:
        words = data["answer"].rstrip(".").split()[-3:]
        texts = [each["number"] for each in data["context"] if " ".join(words) in each["text"]]
        return json.dumps(
            {"statements": [{"text": data["answer"], "texts": texts, "holds": bool(texts)}]}
        )
    verdicts = properties["verdict"]["enum"]
    good = data.get("reference", "") in data["answer"]
    best, worst = (
        (max(verdicts), min(verdicts)) if isinstance(verdicts[0], int) else ("pass", "fail")
    )
    return json.dumps(
        {
            "reason": "the reference is in the answer" if good else "it is not",
            "verdict": best if good else worst,
        }
    )
