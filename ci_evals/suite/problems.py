"""Checks what is written against the types of options, and says of every problem where it is and
what to try.
"""

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from ci_evals.errors import Place, Problem
from ci_evals.format import closest, number_of
from ci_evals.model.case import Case
from ci_evals.model.fields import Interpolated, resolve
from ci_evals.suite.elsewhere import spelling_here
from ci_evals.suite.keys import Loc, class_at, keys_of, places_of, required_keys
from ci_evals.suite.yaml import Lines

T = TypeVar("T")

_KINDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "sequence_str": "a list",
    "list_type": "a list",
    "tuple_type": "a list",
    "is_instance_of": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "dataclass_type": "a mapping",
    "none_required": "nothing",
}
_BOUNDS = {
    "greater_than": (">", "gt"),
    "greater_than_equal": (">=", "ge"),
    "less_than": ("<", "lt"),
    "less_than_equal": ("<=", "le"),
}
_TEXTS = {
    "literal_error": "{expected}",
    "string_too_short": "text of length >= {min_length}",
    "string_too_long": "text of length <= {max_length}",
    "string_pattern_mismatch": "text that matches {pattern}",
}


@dataclass(frozen=True, slots=True)
class Written:
    """A value as it is written, with its place: in a file, or `in_code`, in the Python code that
    made it.
    """

    value: Any
    lines: Lines
    file: str
    path: str = ""
    in_code: bool = False

    @property
    def line(self) -> int | None:
        return self.lines.line

    @property
    def place(self) -> Place:
        return Place(self.file, self.line, self.path)

    def __getitem__(self, key: str | int) -> "Written":
        """Return the value under a key or at an index; None with the place of the whole where there
        is nothing.
        """
        value = None
        if isinstance(self.value, Mapping):
            value = self.value.get(key)
        elif isinstance(key, str):
            value = getattr(self.value, key, None)
        elif isinstance(self.value, Sequence):
            value = self.value[key]
        path = (
            f"{self.path}[{key}]"
            if isinstance(key, int)
            else f"{self.path}.{key}"
            if self.path
            else key
        )
        return Written(value, self.lines.at(key), self.file, path, self.in_code)

    def __contains__(self, key: str) -> bool:
        return isinstance(self.value, Mapping) and key in self.value

    def items(self) -> Iterator["Written"]:
        """Yield the items of a list."""
        return (self[index] for index in range(len(self.value)))

    def having(self, value: Any) -> "Written":
        """Return another value in the same place."""
        return Written(value, self.lines, self.file, self.path, self.in_code)

    def problem(self, message: str) -> Problem:
        return Problem(self.file, self.line, self.path, message)


def problems_of_cases(found: Iterable[tuple[Case, str, str]]) -> Iterator[Problem]:
    """Yield one problem for each mistake, however many cases share it: at the first of them, with
    how many follow.

    Args:
        found: a case, the path in it, and what is wrong there.
    """
    sharing: dict[tuple[str, str], list[Case]] = {}
    for case, path, message in found:
        sharing.setdefault((path, message), []).append(case)
    for (path, message), (first, *others) in sharing.items():
        who = f"case {first.id!r}{and_more(len(others))}"
        yield Problem(first.file, first.line, f"{who}: {path}" if path else who, message)


def and_more(others: int) -> str:
    """Return ` and 2 more`, or nothing if there are no others."""
    return f" and {others:,} more" if others else ""


MAX_KNOWN = 50
MAX_STRANGERS = (
    20  # unknown keys of one mapping that are told one by one: the file is none of ours, or damaged
)


def unknown(noun: str, name: str, known: Iterable[str], places: Iterable[str] = ()) -> str:
    """Return `unknown key 'promts', did you mean 'prompts'?`, its name here if it is another
    tool's, or what is known.

    Args:
        noun: what it is.
        name: what it was called.
        known: what may stand there.
        places: where it may stand instead, under the very same name.
    """
    if isinstance(name, Interpolated):
        name = f"${{{name.names[0]}}}"  # its value may be a secret
    known = tuple(known)
    close = closest(name, known)
    meant = list(places) or ([repr(close)] if close else [])
    names = sorted(known)
    shown = ", ".join(names[:MAX_KNOWN]) + (", …" if len(names) > MAX_KNOWN else "")
    hint = f", did you mean {' or '.join(meant)}?" if meant else f", known: {shown or 'none'}"
    hint = spelling_here(noun, name, known) or hint
    return f"unknown {noun} {name!r}{hint}"


def is_object(value: Any) -> bool:
    """Return True for what only Python code can put into a suite: a grader, a function, a case."""
    return value is not None and not isinstance(value, str | int | float | dict | list | tuple)


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return what checks a type."""
    return TypeAdapter(kind)


def check(
    kind: type[T],
    written: Written,
    problems: list[Problem],
    *,
    found: Mapping[str, Any] | None = None,
    unread: Collection[str] = (),
) -> T | None:
    """Make a value of a type out of what is written; None if it is wrong, and then `problems` says
    why.

    Args:
        kind: a dataclass whose fields are the keys, or any other type.
        written: a mapping of plain values, or an object that was made in Python.
        problems: gets every problem.
        found: values for fields that are not written.
        unread: keys that are allowed and skipped.
    """
    before, value = len(problems), written.value
    checks: TypeAdapter[T] = adapter(cast("Any", kind))
    renamed: set[str] = set()
    if dataclasses.is_dataclass(kind) and isinstance(value, Mapping):
        keys = keys_of(kind)
        strangers = [key for key in value if key not in keys and key not in unread]
        absent = required_keys(kind) - value.keys()
        for key in strangers[:MAX_STRANGERS]:
            text = _unknown_key(str(key), written.path, kind, absent if len(strangers) == 1 else ())
            renamed |= {each for each in absent if _suggests(text, each)}
            problems.append(Problem(written.file, written[key].line, written.path, text))
        if further := strangers[MAX_STRANGERS:]:
            text = f"{number_of(len(further), 'more unknown key')}, from {str(further[0])!r} on"
            problems.append(Problem(written.file, written[further[0]].line, written.path, text))
        value = {key: item for key, item in value.items() if key in keys} | dict(found or {})
    try:
        checked = checks.validate_python(value)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        told = [
            each for each in errors if each["type"] != "missing" or each["loc"][0] not in renamed
        ]
        problems += _problems(kind, written, value, told)
    return checked if len(problems) == before else None


def _unknown_key(key: str, path: str, cls: type, absent: Collection[str]) -> str:
    """Say what is meant by a key that a type does not have: the one that is `absent`, if nothing
    else is likelier.
    """
    places = places_of(key, path, cls)
    if len(absent) == 1 and not places and not closest(key, keys_of(cls)):
        places = [repr(*absent)]
    return unknown("key", key, keys_of(cls), places)


def _suggests(text: str, key: str) -> bool:
    return repr(key) in text.partition(", ")[2] or f"`{key}:" in text


def try_check(kind: type[T], written: Written) -> T | None:
    """Check a value whose problems are reported elsewhere; None if it has any."""
    return check(kind, written, [])


def resolve_texts(value: Any) -> Any:
    """Return a checked value with plain text in place of text of the environment.

    Inside a free mapping or list, where no type says what it is, text that reads like a number
    becomes one.
    """

    def item(inner: Any) -> Any:
        return resolve(str(inner)) if isinstance(inner, Interpolated) else resolve_texts(inner)

    match value:
        case Interpolated():
            return str(value)
        case dict():
            return {key: item(inner) for key, inner in value.items()}
        case list() | tuple():
            return type(value)(map(item, value))
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {
                field.name: resolve_texts(getattr(value, field.name))
                for field in dataclasses.fields(value)
            }
            return dataclasses.replace(value, **fields)
        case _:
            return value


# Pydantic's errors as problems. They never show a value that comes from the environment.


def _locate(value: Any, loc: Loc) -> tuple[Loc, Any]:
    """Return the part of an error's location that is in the value, without tags of unions, and what
    is there.
    """
    path: list[int | str] = []
    for part in loc:
        if isinstance(value, Mapping) and part in value:
            inner = value.get(part)
        elif isinstance(value, list | tuple) and isinstance(part, int) and part < len(value):
            inner = value[part]
        elif dataclasses.is_dataclass(value) and isinstance(part, str) and hasattr(value, part):
            inner = getattr(value, part)
        else:
            continue
        value = inner
        path.append(part)
    return tuple(path), value


def _problems(
    kind: Any, written: Written, value: Any, errors: Sequence[ErrorDetails]
) -> Iterator[Problem]:
    """Yield one problem for each place, and none for what holds a wrong part."""
    by_place: dict[Loc, list[ErrorDetails]] = {}
    renamed: dict[Loc, list[str]] = {}
    for error in sorted(errors, key=lambda each: each["type"] == "missing"):
        loc, _ = _locate(value, error["loc"])
        if error["type"] == "missing":
            loc = (*loc, error["loc"][-1])
        by_place.setdefault(loc, []).append(error)
    for loc, found in by_place.items():
        outer = written
        for part in loc[:-1]:
            outer = outer[part]
        place = outer[loc[-1]] if loc else written
        holds_problem = any(other[: len(loc)] == loc != other for other in by_place)
        if found[0]["type"] == "missing":
            if any(_suggests(text, str(loc[-1])) for text in renamed.get(loc[:-1], ())):
                continue
            yield outer.problem(f"the key {loc[-1]!r} is missing")
        elif found[0]["type"] == "unexpected_keyword_argument":
            cls = class_at(kind, loc[:-1])
            keys, key = keys_of(cls) if cls else (), str(loc[-1])
            text = unknown("key", key, keys, places_of(key, outer.path, cls) if cls else ())
            renamed.setdefault(loc[:-1], []).append(text)
            yield place.problem(text)._replace(path=outer.path)
        elif not (
            holds_problem
            and all(error["type"] in (*_KINDS, "too_short", "too_long") for error in found)
        ):
            yield place.problem(_message(kind, loc, _locate(value, loc)[1], found))


def _message(kind: Any, loc: Loc, raw: Any, errors: Sequence[ErrorDetails]) -> str:
    """Say what is wrong at one place; in a union, for the member that fits the kind of what is
    written.
    """
    numbers = dict.fromkeys(
        _KINDS[error["type"]] for error in errors if "number" in _KINDS.get(error["type"], "")
    )
    errors = [error for error in errors if error["type"] not in _KINDS] or errors
    first = errors[0]
    if first["type"] in ("problem", "value_error", "assertion_error"):
        return first["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    kinds = list(
        dict.fromkeys(_KINDS[error["type"]] for error in errors if error["type"] in _KINDS)
    )
    got = str(len(raw)) if first["type"] in ("too_short", "too_long") else _describe(raw)
    if kinds == ["a mapping"] and (cls := class_at(kind, loc)):
        expected = f"a mapping with keys such as {', '.join(keys_of(cls)[:3])}"
        if loc and (example := getattr(cls, "example", None)):
            expected = f"a mapping, as in `{loc[-1]}: {example}`"
    elif first["type"] == "literal_error":
        expected = " or ".join((*numbers, _bound(first)))
    else:
        expected = " or ".join(each for each in kinds if each != "nothing") or _bound(first)
    return f"expected {expected}, got {got}{_advice(expected, raw)}"


def _bound(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _BOUNDS:
        sign, name = _BOUNDS[kind]
        return f"{'a number' if isinstance(context[name], float) else 'a whole number'} {sign} {context[name]:g}"
    if kind in _TEXTS:
        return _TEXTS[kind].format(**context).replace("'", "")
    if kind in ("too_short", "too_long"):
        bound = context["min_length" if kind == "too_short" else "max_length"]
        least = "at least" if kind == "too_short" else "at most"
        return f"{least} {bound} {'entry' if bound == 1 else 'entries'}"
    return str(error["msg"])


def _describe(value: Any) -> str:
    """Return a value as a person would name it in an error."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    if is_object(value):
        return (
            f"the {type(value).__name__} {value.__name__}"
            if hasattr(value, "__name__")
            else f"a {type(value).__name__}"
        )
    text = (
        repr(value)
        if not isinstance(value, Interpolated)
        else f"the value of ${{{value.names[0]}}}"
    )
    return text if len(text) <= 80 else f"{text[:77]}..."


def _advice(expected: str, value: Any) -> str:
    """Say what to write instead, for the usual slips."""
    if isinstance(value, Interpolated) or value is None or is_object(value):
        return ""
    if expected == "a list":
        return ": write `- ` before each item, or put [ ] round them"
    if isinstance(value, Mapping | list | tuple):
        return ""
    if "text" in expected and not isinstance(value, str) and not expected.startswith("a mapping"):
        return f': put quotes round it, as in "{_describe(value)}"'
    if expected.endswith("<= 1") and isinstance(value, int | float) and 1 < value <= 100:
        return f": {value:g} % is written {value / 100:g}"
    share = (
        re.fullmatch(r"(\d+(?:\.\d+)?) ?%", value)
        if "number" in expected and isinstance(value, str)
        else None
    )
    return f": {value} is written {float(share[1]) / 100:g}" if share else ""
