"""Short texts that identify values: the same in every process, and on every version of Python."""

import dataclasses
import json
from collections.abc import Mapping
from enum import Enum
from hashlib import blake2b
from typing import Any


def encode(value: Any) -> str:
    """Return a value as JSON with sorted keys; a dataclass with its fields, anything foreign by its
    `str`.
    """
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"))


def digest(value: Any) -> str:
    """Return 32 hexadecimal digits that identify a value."""
    return blake2b(encode(value).encode(), digest_size=16).hexdigest()


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return str(value) if isinstance(value, Enum) else value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    return str(value)
