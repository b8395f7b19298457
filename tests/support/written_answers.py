"""Answers of models, for the corpora of code that judges them in `tests/data`."""

import json

TEXT = "The capital of France is Paris.\nIt lies on the Seine, and has 2,102,650 inhabitants."
JSON = json.dumps(
    {
        "intent": "book_flight",
        "confidence": 0.92,
        "ok": True,
        "error": None,
        "tags": ["travel", "urgent"],
        "flight": {"from": "Berlin", "to": "Paris", "price": 99.5, "stops": []},
        "items": [{"name": "seat", "qty": 1}, {"name": "bag", "qty": 2}],
    }
)
FENCED = f"Here you are:\n```json\n{JSON}\n```\nAnything else?"

ANSWERS = {"text": TEXT, "json": JSON, "fenced": FENCED, "empty": ""}
