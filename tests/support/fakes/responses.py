"""Answers of OpenAI's responses API, and its published description."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "data" / "openai-responses.schema.json").read_text("utf-8")
)


def check_responses(value: Any, kind: str) -> None:
    """Check a `request` or a `response` against the published reference."""
    jsonschema.validate(value, {**SCHEMA, "$ref": f"#/$defs/{kind}"})


def responding(*output: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """An answer with some items of output, but for what is given."""
    return {
        "id": "resp_67ccd2be",
        "object": "response",
        "created_at": 1741476542,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": "gpt-5-2025-08-07",
        "output": list(output),
        "parallel_tool_calls": True,
        "usage": {
            "input_tokens": 36,
            "input_tokens_details": {"cached_tokens": 12},
            "output_tokens": 87,
            "output_tokens_details": {"reasoning_tokens": 64},
            "total_tokens": 123,
        },
        **changes,
    }


def output_text(text: str, status: str = "completed") -> dict[str, Any]:
    return {
        "type": "message",
        "id": "msg_67ccd3ac",
        "status": status,
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
