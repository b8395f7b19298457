"""Short texts that identify values: the same in every process, and on every version of Python."""

import dataclasses
import json
from collections.abc import Mapping
from enum import Enum
from functools import cache
from hashlib import blake2b
from types import NoneType
from typing import Any

_AS_IN_JSON = frozenset((str, int, float, bool, NoneType))


def encode(value: Any) -> str:
    """Return a value as JSON with sorted keys.

    A dataclass is an object of its fields; anything foreign is its `str`.
    """
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"))


def digest(value: Any) -> str:
    """Return 32 hexadecimal digits that identify a value."""
    return blake2b(encode(value).encode(), digest_size=16).hexdigest()


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _AS_IN_JSON:
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict | Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    names = _field_names(kind)  # type: ignore[arg-type]  # mypy hashes the instance
    if names is not None:
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, str | int | float) and not isinstance(value, Enum):
        return value
    return str(value)


@cache
def _field_names(kind: type) -> tuple[str, ...] | None:
    """Return the names of a dataclass's fields; None for another type."""
    if not dataclasses.is_dataclass(kind):
        return None
    return tuple(field.name for field in dataclasses.fields(kind))
