"""Reads JSON in answers, and compares JSON data."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from json import JSONDecoder
from typing import Any, Final

from pydantic_core import from_json

from ci_evals.format import one_line, quote
from ci_evals.graders.base import failed
from ci_evals.model.grading import Finding

ABSENT: Final = object()
"""Represents a missing value in a `Mismatch`."""


_FENCE = "```"


_MAX_STARTS = 1_000  # brackets in a text that may start an object or a list


_MAX_WASTED_CHARACTERS = 10_000_000  # of attempts that turned out to be neither


def judge_json(text: str, judge: Callable[[Any], Finding], *, fenced: bool = True) -> Finding:
    """Read a text as JSON and judge the data; text that is not JSON fails.

    Args:
        text: the answer.
        judge: judges its data.
        fenced: allow one code fence around it.
    """
    bare = text.strip()
    body = strip_fence(text)
    if not fenced and body != bare:
        reason = "is not JSON but a code fence, which `fenced: true` allows"
        return failed(reason, got=quote(bare))
    try:
        data = read_json(body)
    except ValueError as error:
        return failed("is not JSON", got=f"{quote(body)}: {one_line(str(error))}")
    try:
        return judge(data)
    except OverflowError:
        reason = "is not JSON that can be judged: it holds a number that is too large"
        return failed(reason, got=quote(body))


def json_values(text: str, starts: str = "{[") -> Iterator[Any]:
    """Yield the outermost JSON objects and lists in a text."""
    decoder = JSONDecoder(parse_constant=_refuse)
    start = re.compile(f"[{re.escape(starts)}]")
    at = 0
    wasted = 0  # many unclosed brackets would make the search quadratic
    for _ in range(_MAX_STARTS):
        bracket = start.search(text, at)
        if bracket is None or wasted > _MAX_WASTED_CHARACTERS:
            return
        try:
            value, at = decoder.raw_decode(text, bracket.start())
        except (ValueError, RecursionError) as error:
            at = bracket.end()
            wasted += getattr(error, "pos", at) - bracket.start()
        else:
            yield value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def read_json(text: str) -> Any:
    """Parse a text as JSON.

    Raises:
        ValueError: the text is not JSON.
    """
    try:
        return from_json(text, allow_inf_nan=False)
    except TypeError as error:  # half of a surrogate pair
        raise ValueError(str(error)) from error


def strip_fence(text: str) -> str:
    """Strip white space, and the code fence if it encloses all of the text."""
    text = text.strip()
    if text.startswith(_FENCE) and text.endswith(_FENCE):
        language, newline, body = text[len(_FENCE) :].partition("\n")
        if newline and language.strip().lower() in ("", "json"):
            return body[: -len(_FENCE)].strip()
    return text


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One place where data is not as expected; `ABSENT` represents a missing value."""

    path: str
    expected: Any
    actual: Any

    @property
    def reason(self) -> str:
        if self.actual is ABSENT:
            return f"{self.path} is missing, expected {quote(self.expected)}"
        if self.expected is ABSENT:
            return f"{self.path} was not expected"
        return f"{self.path}: expected {quote(self.expected)}"

    @property
    def got(self) -> str | None:
        """The actual value, quoted; None if it is missing."""
        if self.actual is ABSENT:
            return None
        return quote(self.actual)


def first_difference(
    expected: Any, actual: Any, path: str = "$", *, subset: bool = False
) -> Mismatch | None:
    """Return the first place where two values differ as JSON data: 1 equals 1.0, and neither equals
    true.

    If `subset`, objects of `actual` may have more keys.
    """
    places: Iterable[tuple[str, Any, Any]]
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        keys = list(expected)
        if not subset:
            keys += [key for key in actual if key not in expected]
        places = [
            (f"{path}.{one_line(str(key), 60)}", expected.get(key, ABSENT), actual.get(key, ABSENT))
            for key in keys
        ]
    elif isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        if len(expected) != len(actual):
            return Mismatch(f"{path} (of {len(expected)} items)", expected, actual)
        places = [
            (f"{path}[{index}]", expected[index], actual[index]) for index in range(len(expected))
        ]
    elif _same(expected, actual):
        return None
    else:
        return Mismatch(path, expected, actual)
    for inner_path, inner_expected, inner_actual in places:
        difference = first_difference(inner_expected, inner_actual, inner_path, subset=subset)
        if difference is not None:
            return difference
    return None


def _same(expected: Any, actual: Any) -> bool:
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    return bool(expected == actual)
