"""JSON Schemas as text that is the same on every version of Python."""

from inspect import cleandoc
from typing import Any

import msgspec


def schema_text(schema: dict[str, Any]) -> bytes:
    """A schema as indented JSON with a final newline; descriptions that were docstrings lose their indentation."""
    return msgspec.json.format(msgspec.json.encode(_cleaned(schema)), indent=2) + b"\n"


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: cleandoc(item) if key == "description" and isinstance(item, str) else _cleaned(item)
            for key, item in value.items()
        }
    return [_cleaned(item) for item in value] if isinstance(value, list | tuple) else value
