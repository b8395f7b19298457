"""The agent under test: it books tables, and is sometimes in a hurry."""

import random


def answer(request: str) -> dict[str, object]:
    """Answer a guest; one time in ten the agent forgets to confirm."""
    guests = next((int(word) for word in request.replace(",", " ").split() if word.isdigit()), 2)
    text = "Done." if random.random() < 0.1 else f"Your table for {guests} is booked."
    return {"output": text, "tool_calls": [{"name": "book_table", "arguments": {"guests": guests}}]}
