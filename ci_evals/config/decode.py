"""Parsed values into typed ones, collecting every problem instead of stopping at the first."""

import difflib
import re
import types
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from ci_evals.config.environment import Interpolated
from ci_evals.config.source import line_of, plain
from ci_evals.errors import Problem
from ci_evals.providers.base import Secret

T = TypeVar("T", bound=msgspec.Struct)


class Decoder:
    """Decodes the values of one file; `problems` grows, and a value with a problem comes back as None."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self.file = file
        self.problems = problems

    def problem(self, line: int | None, path: str, message: str) -> None:
        self.problems.append(Problem(self.file, abs(line) if line else None, path, message))

    def struct(self, data: Any, cls: type[T], path: str, line: int | None, also: Iterable[str] = ()) -> T | None:
        """Decode a mapping into `cls`.

        Args:
            data: what was parsed; usually a `Map`.
            cls: a msgspec Struct whose field names are the keys.
            path: where `data` is in the file (`cases[3]`), for messages.
            line: the line of `data`.
            also: keys that are allowed and skipped.
        """
        if not isinstance(data, dict):
            self.problem(line, path, f"expected a mapping with keys such as {_some(_fields(cls))}, got {_shown(data)}")
            return None
        before = len(self.problems)
        fields = _fields(cls)
        for key in data:
            if key not in fields and key not in also:
                self.problem(line_of(data, key), path, unknown("key", key, fields))
        values = {}
        for name, field in fields.items():
            if name in data:
                values[name] = self.value(data[name], field.type, _join(path, name), line_of(data, name) or line)
            elif field.required:
                self.problem(line, path, f"the key {name!r} is missing")
        if len(self.problems) > before:
            return None
        try:
            return cls(**values)
        except (TypeError, ValueError) as error:
            self.problem(line, path, str(error))
            return None

    def value(self, data: Any, kind: Any, path: str, line: int | None) -> Any:
        """Decode one value into any type that a config Struct may name."""
        if kind is Secret:
            return self.secret(data, path, line)
        options = get_args(kind) if get_origin(kind) in (types.UnionType, typing.Union) else (kind,)
        if data is None and type(None) in options:
            return None
        for option in options:
            inner = get_args(option)
            if option is Secret:
                return self.secret(data, path, line)
            if _is_struct(option) and (isinstance(data, dict) or len(options) <= 2):
                return self.struct(data, option, path, line)
            if get_origin(option) in (tuple, list) and inner and _is_struct(inner[0]) and isinstance(data, list):
                items = [
                    self.struct(item, inner[0], f"{path}[{index}]", line_of(data, index) or line)
                    for index, item in enumerate(data)
                ]
                return tuple(items) if get_origin(option) is tuple else items
        return self.leaf(data, kind, path, line)

    def secret(self, data: Any, path: str, line: int | None) -> Secret | None:
        if isinstance(data, Interpolated):
            return Secret(str(data), data.names[0])
        self.problem(
            line, path, "a key does not belong in the file: name its environment variable, as in ${MY_API_KEY}"
        )
        return None

    def leaf(self, data: Any, kind: Any, path: str, line: int | None) -> Any:
        try:
            return msgspec.convert(plain(data), kind, strict=not isinstance(data, Interpolated))
        except msgspec.ValidationError as error:
            inner, message = _explain(str(error))
            self.problem(
                _line_inside(data, inner, line), path + inner, f"{message}, got {_shown(_inside(data, inner))}"
            )
            return None


def unknown(noun: str, name: str, known: Iterable[str]) -> str:
    """`unknown key 'promts', did you mean 'prompts'?`, or the list of what is known."""
    known = tuple(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known)) or 'none'}"
    return f"unknown {noun} {name!r}, {hint}"


@cache
def _fields(cls: type[msgspec.Struct]) -> Mapping[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(cls)}


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _some(names: Iterable[str]) -> str:
    return ", ".join(list(names)[:3])


def _shown(value: Any) -> str:
    """A value as a person would name it in an error."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    text = repr(value) if not isinstance(value, Interpolated) else f"the value of ${{{value.names[0]}}}"
    return text if len(text) <= 80 else f"{text[:77]}..."


_PLAIN_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
_PATH_TAIL = re.compile(r" - at `\$(?P<path>[^`]*)`$")


def _explain(error: str) -> tuple[str, str]:
    """Split msgspec's message into the path inside the value and a sentence in plain words."""
    tail = _PATH_TAIL.search(error)
    path = tail["path"] if tail else ""
    message = error[: tail.start()] if tail else error
    message = re.sub(r", got `[^`]*`$", "", message)
    message = re.sub(r"`([^`]*)`", lambda found: _names(found[1]), message)
    return ("" if "..." in path else path), message[:1].lower() + message[1:]


def _names(kinds: str) -> str:
    words = [_PLAIN_WORDS.get(kind, kind) for kind in kinds.split(" | ")]
    return " or ".join(word for word in words if word != "nothing") or "nothing"


_STEP = re.compile(r"\.(?P<key>[^.\[]+)|\[(?P<index>\d+)\]")


def _inside(data: Any, path: str) -> Any:
    for step in _STEP.finditer(path):
        try:
            data = data[step["key"] if step["key"] is not None else int(step["index"])]
        except (KeyError, IndexError, TypeError):
            return data
    return data


def _line_inside(data: Any, path: str, line: int | None) -> int | None:
    for step in _STEP.finditer(path):
        key = step["key"] if step["key"] is not None else int(step["index"])
        try:
            line = line_of(data, key) or line
            data = data[key]
        except (KeyError, IndexError, TypeError):
            break
    return line
