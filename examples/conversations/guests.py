"""Two guests. Given what was said, each says its next line, or that it is satisfied."""

from typing import Any

DONE = "<goal-reached>"


def hesitant(messages: list[dict[str, Any]]) -> str:
    """Give away as little as possible."""
    told = messages[-1]["content"]
    if "Booked" in told:
        return DONE
    if "how many" in told:
        return "For three."
    return "At seven." if "time" in told else "I'd like a table."


def pushy(messages: list[dict[str, Any]]) -> str:
    """Ask again and again."""
    told = messages[-1]["content"]
    return DONE if "Smith" in told else "Who else is coming tonight?"
