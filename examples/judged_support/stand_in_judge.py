"""Stands in for a model that judges: it reads what a judge is sent, and replies as one must."""

import json
import re
from typing import Any

from ci_evals.model.request import Request


def judge(turns: list[dict[str, Any]], request: Request) -> str:
    """Give a verdict, or list the statements of the answer where it is judged by its context."""
    data = json.loads("\n".join(turns[1]["content"].splitlines()[1:-1]))
    schema = (request.schema or {})["properties"]
    return by_context(data) if "statements" in schema else verdict(data, schema["verdict"]["enum"])


def verdict(data: dict[str, Any], verdicts: list[Any]) -> str:
    """Look for the reference in the answer, and for rude words."""
    known = data.get("reference", "")
    agrees = not known or any(part in data["answer"] for part in known.split(", "))
    polite = "fool" not in data["answer"]
    best, worst = (
        (verdicts[-1], verdicts[0]) if isinstance(verdicts[0], int) else (verdicts[0], verdicts[-1])
    )
    return json.dumps(
        {
            "reason": f"agrees: {agrees}, polite: {polite}",
            "verdict": best if agrees and polite else worst,
        }
    )


def by_context(data: dict[str, Any]) -> str:
    """Look for each sentence of the answer in the texts of the context."""
    sentences = re.findall(r"[^.]+\.", data["answer"])
    found = [
        [each["number"] for each in data["context"] if sentence.strip(" .") in each["text"]]
        for sentence in sentences
    ]
    listed = [
        {"text": sentence.strip(), "texts": texts, "holds": bool(texts)}
        for sentence, texts in zip(sentences, found, strict=True)
    ]
    return json.dumps({"statements": listed})
