"""JSONPath (RFC 9535). The library loads with the first path that is used."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

from ci_evals.format import one_line, quote


def path_problems(path: str) -> list[str]:
    """List what is wrong with a JSONPath."""
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
        # The library would parse a text as JSON. A number has no children either, so it can stand
        # in for the text.
        return [data for _ in _compile(path).findall(0)]
    found: list[Any] = _compile(path).findall(data)
    return found


def is_singular(path: str) -> bool:
    """Return True if a valid JSONPath leads to one value at most: it has no wildcard, filter or
    slice.
    """
    compiled = _compile(path)
    return isinstance(compiled, _library().JSONPath) and compiled.singular_query()


@dataclass(frozen=True, slots=True)
class MissingField:
    """A field that a JSONPath names and the data lacks.

    Args:
        name: the field's.
        known: the fields that are there instead.
    """

    name: str
    known: tuple[str, ...]


def missing_field(path: str, data: Any) -> MissingField | None:
    """Return the first field that a JSONPath names and the data lacks; None if it lacks none.

    An empty list, null, and what a filter or a search leaves out lack nothing.
    """
    compiled = _compile(path)
    parents = [data]
    before = "$"
    for segment in getattr(compiled, "segments", ()):  # a union of paths has none
        if str(segment).startswith(".."):
            return None
        before += str(segment)
        found = find_all(before, data)
        if not found:
            name = getattr(segment.selectors[0], "name", None)
            holders = [each for each in parents if isinstance(each, Mapping)]
            if name is None or not holders:
                return None
            known = dict.fromkeys(str(key) for each in holders for key in each)
            return MissingField(name, tuple(known))
        parents = found
    return None


@lru_cache(maxsize=1024)
def _compile(path: str) -> Any:
    return _library().compile(path)


@cache
def _library() -> ModuleType:
    """Return the library. It takes longer to import than most suites take to load."""
    return import_module("jsonpath")
