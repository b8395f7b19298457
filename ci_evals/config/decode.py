"""Parsed values into typed ones, collecting every problem instead of stopping at the first."""

import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import isfinite
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec

from ci_evals.config.environment import Interpolated
from ci_evals.config.misplaced import places_of
from ci_evals.config.source import line_of, plain, resolve
from ci_evals.errors import Problem
from ci_evals.providers.base import Secret

T = TypeVar("T", bound=msgspec.Struct)
V = TypeVar("V")


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
                self.problem(line_of(data, key) or line, path, unknown("key", key, fields, places_of(key, path, cls)))
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
        """Decode one value into any type that a config Struct may name, part by part, to find all problems."""
        options = _options(kind)
        if data is None and type(None) in options:
            return None
        if Secret in options:
            return self.secret(data, path, line)
        before = len(self.problems)
        whole = self.parts(data, [option for option in options if option is not type(None)], path, line)
        return None if len(self.problems) > before else self.leaf(whole, kind, path, line)

    def quietly(self, data: Any, kind: type[V]) -> V | None:
        """Decode a value whose problems have been told; None if it has any."""
        decoded: V | None = Decoder(self.file, []).value(data, kind, "", None)
        return decoded

    def parts(self, data: Any, options: Sequence[Any], path: str, line: int | None) -> Any:
        """Decode what is in a mapping or list whose items have a type of their own; all else stays as it is."""
        for option in options:
            origin, inner = get_origin(option), get_args(option)
            if _is_struct(option) and (isinstance(data, dict) or len(options) == 1):
                return self.struct(data, option, path, line)
            if origin in (tuple, list) and isinstance(data, list) and inner[0] is not Any:
                return [
                    self.value(item, inner[0], f"{path}[{index}]", line_of(data, index) or line)
                    for index, item in enumerate(data)
                ]
            if origin in (Mapping, dict) and isinstance(data, dict) and inner[1] is not Any:
                return {
                    key: self.value(item, inner[1], _join(path, key), line_of(data, key) or line)
                    for key, item in data.items()
                }
        return data

    def secret(self, data: Any, path: str, line: int | None) -> Secret | None:
        if isinstance(data, Interpolated):
            return Secret(str(data), data.names[0])
        self.problem(
            line, path, "a key does not belong in the file: name its environment variable, as in ${MY_API_KEY}"
        )
        return None

    def leaf(self, data: Any, kind: Any, path: str, line: int | None) -> Any:
        """Decode one value; text that comes from the environment may stand for a number or a boolean."""
        try:
            value = msgspec.convert(_typed(data), kind, strict=not isinstance(data, Interpolated))
        except msgspec.ValidationError as error:
            expected = _expected(kind, str(error))
            got = str(len(data)) if expected.endswith(_COUNTED) else _shown(data)
            self.problem(line, path, f"{expected}, got {got}{_hint(expected, data)}")
            return None
        if isinstance(value, float) and not isfinite(value):
            self.problem(line, path, f"expected a number, got {_shown(data)}")
            return None
        return value


def unknown(noun: str, name: str, known: Iterable[str], places: Iterable[str] = ()) -> str:
    """`unknown key 'promts', did you mean 'prompts'?`, or the list of what is known.

    Args:
        noun: what it is.
        name: what it was called.
        known: what may stand there.
        places: where it may stand instead, under the very same name.
    """
    import difflib

    known = tuple(known)
    meant = list(places) or [repr(close) for close in difflib.get_close_matches(name, known, n=1)]
    hint = f"did you mean {' or '.join(meant)}?" if meant else f"known: {', '.join(sorted(known)) or 'none'}"
    return f"unknown {noun} {name!r}, {hint}"


def is_written_in_code(entry: Any) -> bool:
    """Whether an entry of `cases`, `expect` or `providers` is no text, mapping or list but an object."""
    return entry is not None and not isinstance(entry, str | int | float | dict | list)


@cache
def _fields(cls: type[msgspec.Struct]) -> Mapping[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(cls)}


def _typed(data: Any) -> Any:
    """The value without line numbers; what stands for a number inside a free mapping or list becomes one."""
    if isinstance(data, dict):
        return {key: _typed_item(item) for key, item in data.items()}
    if isinstance(data, list):
        return [_typed_item(item) for item in data]
    return plain(data)


def _typed_item(item: Any) -> Any:
    return resolve(str(item)) if isinstance(item, Interpolated) else _typed(item)


def _options(kind: Any) -> tuple[Any, ...]:
    """The members of a union, or the one type that it is."""
    if get_origin(kind) is Annotated:
        return _options(get_args(kind)[0])
    return get_args(kind) if get_origin(kind) in (types.UnionType, typing.Union) else (kind,)


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
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
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


_COUNTED = ("entry", "entries")


def _expected(kind: Any, error: str) -> str:
    """What msgspec says was expected, in plain words."""
    for option in _options(kind):
        if get_origin(option) is Literal and error.startswith("Invalid enum value"):
            words = (_shown(each) if isinstance(each, bool) else str(each) for each in get_args(option))
            return f"expected {' or '.join(words)}"
    if counted := re.match(r"Expected `(?:array|object)` of length (>=|<=) (\d+)", error):
        bound = "at least" if counted[1] == ">=" else "at most"
        return f"expected {bound} {counted[2]} {_COUNTED[counted[2] != '1']}"
    message = re.sub(r", got `[^`]*`$", "", error)
    message = re.sub(r"`([^`]*)`", lambda found: _names(found[1]), message).replace("Expected", "expected", 1)
    return message.removesuffix(".0")


def _hint(expected: str, data: Any) -> str:
    """What to write instead, for the usual slips."""
    if isinstance(data, Interpolated) or data is None:
        return ""
    if expected == "expected a list":
        return ": write `- ` before each item, or put [ ] round them"
    if isinstance(data, dict | list):
        return ""
    if "text" in expected and not isinstance(data, str):
        return f': put quotes round it, as in "{_shown(data)}"'
    if expected.endswith("<= 1") and isinstance(data, int | float) and 1 < data <= 100:
        return f": {data:g} % is written {data / 100:g}"
    return ""


def _names(kinds: str) -> str:
    words = [_PLAIN_WORDS.get(kind, kind) for kind in kinds.split(" | ")]
    return " or ".join(word for word in words if word != "nothing") or "nothing"
