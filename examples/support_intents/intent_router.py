"""Routes messages by the words in them: a stand-in for a model that classifies."""

from typing import Any

WORDS = {"refund": ("refund", "money back"), "cancel": ("cancel",)}


def route(message: str) -> dict[str, Any]:
    """The intent of a message, with a score for each."""
    text = message.lower()
    hits = {intent: sum(word in text for word in words) for intent, words in WORDS.items()}
    intent = max(hits, key=lambda each: hits[each]) if any(hits.values()) else "other"
    scores = {each: 0.8 if each == intent else 0.1 for each in (*WORDS, "other")}
    return {"output": {"intent": intent, "scores": scores}}
