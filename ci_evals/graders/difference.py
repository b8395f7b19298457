"""Where two pieces of data differ."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from ci_evals.graders.quoting import clip, show

ABSENT: Final = object()


class Difference(Struct, frozen=True):
    """One place where data is not as expected; `ABSENT` stands for a value that is not there."""

    path: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        if self.actual is ABSENT:
            return f"{self.path} is missing, expected {show(self.expected)}"
        if self.expected is ABSENT:
            return f"{self.path} was not expected, got {show(self.actual)}"
        return f"{self.path}: expected {show(self.expected)}, got {show(self.actual)}"


def first_difference(expected: Any, actual: Any, path: str = "$") -> Difference | None:
    """The first place where `actual` is not `expected`, as JSON sees it: 1 is 1.0, and neither is true."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        places = (
            (f"{path}.{clip(str(key), 60)}", expected.get(key, ABSENT), actual.get(key, ABSENT))
            for key in dict.fromkeys((*expected, *actual))
        )
        return _first(places)
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        if len(expected) != len(actual):
            return Difference(f"{path} (of {len(expected)} items)", expected, actual)
        pairs = zip(expected, actual, strict=True)
        return _first((f"{path}[{index}]", *pair) for index, pair in enumerate(pairs))
    same = expected is actual if _is_bool(expected) or _is_bool(actual) else expected == actual
    return None if same else Difference(path, expected, actual)


def _first(places: Iterable[tuple[str, Any, Any]]) -> Difference | None:
    found = (first_difference(expected, actual, path) for path, expected, actual in places)
    return next((difference for difference in found if difference), None)


def _is_bool(value: Any) -> bool:
    return value is True or value is False
