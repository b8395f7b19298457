"""Stands in for the model that judges: it reads what a judge is sent, and replies as one must."""

import json
from typing import Any


def verdict(turns: list[dict[str, Any]]) -> str:
    """An answer is faithful if the context has its number of days."""
    data = json.loads("\n".join(turns[1]["content"].splitlines()[1:-1]))
    days = [word for word in data["answer"].split() if word.isdigit()]
    faithful = bool(days) and all(number in str(data["context"]) for number in days)
    return json.dumps(
        {
            "statements": [
                {"text": data["answer"], "texts": [1] if faithful else [], "holds": faithful}
            ]
        }
    )
