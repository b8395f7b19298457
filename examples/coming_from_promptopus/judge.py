"""Stands in for the model that judges: it reads what a judge is sent, and replies as one must."""

import json
from typing import Any


def find_days(turns: list[dict[str, Any]]) -> str:
    """List the one statement that answers here make, and the texts of the context that have its number of days."""
    data = json.loads("\n".join(turns[1]["content"].splitlines()[1:-1]))
    days = [word for word in data["answer"].split() if word.isdigit()]
    texts = [each["number"] for each in data["context"] if days and all(number in each["text"] for number in days)]
    return json.dumps({"statements": [{"text": data["answer"], "texts": texts, "holds": bool(texts)}]})
