"""JSONPath (RFC 9535). The library is imported when the first path is used."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

from ci_evals.format import one_line, quote


def path_problems(path: str) -> list[str]:
    """Return the problems of a JSONPath."""
    try:
        _compile(path)
    except Exception as error:  # noqa: BLE001  the library's parser raises more than it declares
        index = getattr(getattr(error, "token", None), "index", -1)  # -1 is the end of the path
        where = f" at position {index}" if index >= 0 else ""
        message = one_line(str(error).partition("\n")[0])
        return [f"bad JSONPath {quote(path)}: {message}{where}"]
    return []


def find_all(path: str, data: Any) -> list[Any]:
    """Return every value at a valid JSONPath."""
    if isinstance(data, str):
        # The library would parse a text as JSON. Like a text, a number has no children.
        return [data for _ in _compile(path).findall(0)]
    values: list[Any] = _compile(path).findall(data)
    return values


def is_singular(path: str) -> bool:
    """Return True if a valid JSONPath has at most one value: no wildcard, filter or slice."""
    compiled = _compile(path)
    return isinstance(compiled, _library().JSONPath) and compiled.singular_query()


@dataclass(frozen=True, slots=True)
class MissingField:
    """A field that a JSONPath names and the data lacks.

    Args:
        name: the name of the field.
        known: the names of the existing fields.
    """

    name: str
    known: tuple[str, ...]


def missing_field(path: str, data: Any) -> MissingField | None:
    """Return the first field that a JSONPath names and the data lacks; None if it lacks none.

    An empty list, a null, and values that a filter or a search leaves out don't count.
    """
    compiled = _compile(path)
    parents = [data]
    before = "$"
    for segment in getattr(compiled, "segments", ()):  # a union of paths has none
        if str(segment).startswith(".."):
            return None
        before += str(segment)
        values = find_all(before, data)
        if not values:
            name = getattr(segment.selectors[0], "name", None)
            mappings = [parent for parent in parents if isinstance(parent, Mapping)]
            if name is None or not mappings:
                return None
            known = dict.fromkeys(str(key) for mapping in mappings for key in mapping)
            return MissingField(name, tuple(known))
        parents = values
    return None


@lru_cache(maxsize=1024)
def _compile(path: str) -> Any:
    return _library().compile(path)


@cache
def _library() -> ModuleType:
    """Return the library. It takes longer to import than most suites take to load."""
    return import_module("jsonpath")
