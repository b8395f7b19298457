"""Stands in for a judge model: splits a text into sentences and looks up their words in context."""

import json
import re
from typing import Any


def judge(turns: list[dict[str, Any]]) -> str:
    """Reply as a judge must: with a verdict, or with a list of statements."""
    rubric = turns[0]["content"]
    data = json.loads("\n".join(turns[1]["content"].splitlines()[1:-1]))
    texts = [each["text"] for each in data.get("context", [])]
    if "Go through the texts" in rubric:
        wanted = words(f"{data['question']} {data.get('reference', '')}")
        return reply(
            statement(text, [number], len(words(text) & wanted) > 1)
            for number, text in enumerate(texts, 1)
        )
    if "Take the " in rubric:
        told = data["reference"] if "Take the reference" in rubric else data["answer"]
        return reply(look_up(sentence, texts) for sentence in sentences(told))
    relevant = (
        bool(words(data["answer"]) & words(data["question"])) or "does not say" in data["answer"]
    )
    return json.dumps(
        {"reason": "by the words that they share", "verdict": "pass" if relevant else "fail"}
    )


def words(text: str) -> set[str]:
    """The longer words of a text, without their endings."""
    return {
        re.sub(r"(ing|ed|es|s)$", "", word) for word in re.findall(r"[a-z0-9]{2,}", text.lower())
    }


def sentences(text: str) -> list[str]:
    """The statements of a text; to know nothing is none."""
    return [
        each.strip()
        for each in re.split(r"\.\s|\.$", text)
        if each.strip() and "does not say" not in each
    ]


def look_up(sentence: str, texts: list[str]) -> dict[str, Any]:
    """A statement with the texts that have nearly all of its words."""
    own = words(sentence)
    found = [
        number for number, text in enumerate(texts, 1) if len(own & words(text)) >= 0.8 * len(own)
    ]
    return statement(sentence, found, bool(found))


def statement(text: str, numbers: list[int], holds: bool) -> dict[str, Any]:  # noqa: FBT001  as the judge's JSON has it
    """One entry of the list."""
    return {"text": text, "texts": numbers, "holds": holds}


def reply(listed: Any) -> str:
    """The list as JSON."""
    return json.dumps({"statements": list(listed)})
