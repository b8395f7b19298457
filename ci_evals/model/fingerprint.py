"""Short texts that identify values, the same in every process and version of Python."""

import dataclasses
import json
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from typing import Any


def encode(value: Any) -> str:
    """Return a value as JSON with sorted keys.

    A dataclass becomes a mapping of its fields; any other object that JSON lacks becomes its `str`.
    """
    try:
        return _dump(value)
    except TypeError:  # a mapping with keys that cannot be sorted, such as 1 and "one"
        return _dump(_with_text_keys(value))


def digest(value: Any) -> str:
    """Return 32 hexadecimal digits that identify a value."""
    return blake2b(encode(value).encode(), digest_size=16).hexdigest()


def question_half(fingerprint: str) -> str:
    """Return the half of `question.grading` that identifies the question."""
    return fingerprint.partition(".")[0]


def grading_half(fingerprint: str) -> str:
    """Return the half of `question.grading` that identifies how answers are graded."""
    return fingerprint.rpartition(".")[2]


def _dump(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: getattr(value, name) for name in _field_names(type(value))}
    return str(value)


@cache
def _field_names(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls) if field.compare)


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_with_text_keys(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    plain = _plain(value)
    if isinstance(plain, dict):
        return {str(key): _with_text_keys(item) for key, item in plain.items()}
    return plain
