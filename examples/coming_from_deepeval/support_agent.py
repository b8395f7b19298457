"""The agent under test: what it called and what it retrieved stand beside its answer."""

from typing import Any


def answer(question: str) -> dict[str, Any]:
    """Answer a question of a customer."""
    if "1042" in question:
        return {
            "output": "We are sorry! You get a refund within 5 days.",
            "context": ["Parcels that never arrive are worth a refund within 5 days."],
            "tool_calls": [
                {"name": "find_order", "arguments": {"order": 1042}},
                {"name": "refund", "arguments": {"order": 1042}},
            ],
        }
    return {
        "output": "We are open from 9 to 5.",
        "context": ["Our shop is open from 9 to 5."],
        "tool_calls": [],
    }
