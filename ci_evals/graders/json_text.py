"""Reads JSON in answers, and compares JSON data."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from json import JSONDecoder
from typing import Any, Final

from pydantic_core import from_json

from ci_evals.format import cite, one_line
from ci_evals.graders.base import failed
from ci_evals.model.grading import Finding

ABSENT: Final = object()
"""Represents a missing value in a `Mismatch`."""


_FENCE = "```"


_MAX_STARTS = 1_000  # brackets in a text that may start an object or a list


_MAX_WASTED_CHARACTERS = 10_000_000  # of attempts that turned out to be neither

_EARLY = 50  # characters: a difference after them may not be visible at the beginning
_CONTEXT = 20  # characters to show before it
_LONG = 100_000  # characters of data that are searched for a difference


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
        return failed("the answer is not JSON but a code fence, which `fenced: true` allows")
    try:
        data = read_json(body)
    except ValueError as error:
        reason, sentence = "the answer is not JSON", None
        if body.startswith(("{", "[")):  # it was meant to be, so the place of the mistake helps
            sentence = f"{reason}: {one_line(str(error))}"
        return failed(reason, sentence=sentence)
    try:
        return judge(data)
    except OverflowError:
        return failed("the answer cannot be judged: a number in it is too large")


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


_SLIPS = re.compile(
    r"""
    (?P<string> "(?:[^"\\]|\\.)*" )
    | (?P<comma> , (?=\s*[}\]]) )
    | \b(?P<constant> True | False | None )\b
    """,
    re.VERBOSE | re.DOTALL,
)
_BACKSLASH = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u2060\ufeff"))  # blanks of no width


def mend_json(text: str) -> str:
    """Mend what models often get wrong in JSON and what has one meaning only: raw line breaks and
    backslashes in strings (LaTeX), a comma before a closing bracket, Python's constants, and
    invisible blanks.
    """

    def mend(slip: re.Match[str]) -> str:
        if slip["string"] is not None:
            whole = _BACKSLASH.sub(_keep_escape, slip["string"])
            return whole.replace("\n", r"\n").replace("\r", r"\r").replace("\t", r"\t")
        return _CONSTANTS.get(slip[0], "")

    return _SLIPS.sub(mend, text.translate(_INVISIBLE))


def _keep_escape(backslash: re.Match[str]) -> str:
    """Return an escape as it is, and a backslash that begins none as two."""
    return backslash[0] if backslash[1] else r"\\"


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
        """`people is not 2`: what was missed, without the actual value."""
        if self.actual is ABSENT:
            return f"{self._subject} is missing, expected {cite(self.expected)}"
        if self.expected is ABSENT:
            return f"{self._subject} was not expected"
        return f"{self._subject} is not {cite(self.expected)}"

    @property
    def sentence(self) -> str:
        """`people is "two", expected 2`."""
        if self.actual is ABSENT:
            return self.reason
        if self.expected is ABSENT:
            return f"{self._subject} is {cite(self.actual)}, but was not expected"
        wanted, found = cite_both(self.expected, self.actual)
        return f"{self._subject} is {found}, expected {wanted}"

    @property
    def _subject(self) -> str:
        if self.path == "$":
            return "the answer"
        return self.path


def cite_both(expected: Any, actual: Any) -> tuple[str, str]:
    """Cite two values that differ so that the difference is visible: long ones with the same
    beginning from shortly before it.
    """
    wanted, found = _single_spaced(expected), _single_spaced(actual)
    at = 0
    for want, got in zip(wanted, found, strict=False):
        if want != got:
            break
        at += 1
    if at < _EARLY:
        return cite(expected), cite(actual)
    start = at - _CONTEXT
    quoted = [cite(f"…{text[start:]}") for text in (wanted, found)]
    if isinstance(expected, str) and isinstance(actual, str):
        return quoted[0], quoted[1]
    return quoted[0].strip('"'), quoted[1].strip('"')


def _single_spaced(value: Any) -> str:
    """Return a value as `cite` shows it, without quotes and uncut."""
    if isinstance(value, str):
        return " ".join(value.split())
    return cite(value, _LONG)


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
            return Mismatch(path, expected, actual)
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
