"""Checks values against types, and describes each problem: where it is and what to try."""

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from ci_evals.errors import Problem
from ci_evals.format import closest, number_of
from ci_evals.model.case import Case
from ci_evals.model.fields import Interpolated, resolve
from ci_evals.suite.keys import Loc, class_at, keys_of, places_of, required_keys
from ci_evals.suite.nodes import Hint, Node, Reading, collect

T = TypeVar("T")

_CHOICES = frozenset({"providers", "prompts"})
"""In a case, these keys choose by name: `model` of another tool's case does not mean them."""
MAX_KNOWN = 50  # names listed in a message
MAX_UNKNOWN = 20  # unknown keys of one mapping; with more, it is damaged or another tool's

# The kind of value that is expected, by the type of pydantic's error. Those of parsing come from
# the plain `int`, `float` and `bool` of plug-ins.
_KINDS = {
    "int_type": "integer",
    "int_parsing": "integer",
    "float_parsing": "number",
    "bool_parsing": "boolean",
    "path_type": "text",
    "set_type": "list",
    "frozen_set_type": "list",
    "int_from_float": "integer",
    "float_type": "number",
    "finite_number": "number",
    "bool_type": "boolean",
    "string_type": "text",
    "sequence_str": "list",
    "list_type": "list",
    "tuple_type": "list",
    "is_instance_of": "list",
    "dict_type": "mapping",
    "mapping_type": "mapping",
    "dataclass_type": "mapping",
    "callable_type": "function",
    "none_required": "nothing",
}
_KIND_NAMES = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "text": "text",
    "list": "a list",
    "mapping": "a mapping",
    "function": "a function",
}
_BOUNDS = {
    "greater_than": (">", "gt"),
    "greater_than_equal": (">=", "ge"),
    "less_than": ("<", "lt"),
    "less_than_equal": ("<=", "le"),
}
_SIZES = {"too_short": ("at least", "min_length"), "too_long": ("at most", "max_length")}
_CONSTRAINTS = {
    "literal_error": "{expected}",
    "enum": "{expected}",
    "string_too_short": "text of length >= {min_length}",
    "string_too_long": "text of length <= {max_length}",
    "string_pattern_mismatch": "text that matches {pattern}",
}


def problems_of_cases(misfits: Iterable[tuple[Case, str, str]]) -> Iterator[Problem]:
    """Yield one problem for each mistake, at the first of the cases that share it.

    Args:
        misfits: a case, the path in it, and what is wrong there.
    """
    sharing: dict[tuple[str, str], list[Case]] = {}
    for case, path, message in misfits:
        sharing.setdefault((path, message), []).append(case)
    for (path, message), (first, *others) in sharing.items():
        where = f"case {first.id!r}{and_more(len(others))}"
        if path:
            where = f"{where}: {path}"
        yield Problem(first.file, first.line, where, message)


def once_per_cause(problems: Sequence[Problem]) -> list[Problem]:
    """Keep one problem for each cause that several share, at its first place."""
    others = Counter(problem.cause for problem in problems)
    listed: list[Problem] = []
    causes = {""}
    for problem in problems:
        if problem.cause not in causes:
            causes.add(problem.cause)
            more = and_more(others[problem.cause] - 1)
            listed.append(problem._replace(path=problem.path + more))
        elif not problem.cause:
            listed.append(problem)
    return listed


def and_more(others: int) -> str:
    """Return ` and 2 more`; empty for none."""
    if others == 0:
        return ""
    return f" and {others:,} more"


def unknown(noun: str, name: str, known: Iterable[str]) -> str:
    """Return `unknown key 'promts', did you mean 'prompts'?`

    Args:
        noun: the kind of thing that the name is for, such as `key`.
        name: the name.
        known: the names that exist.
    """
    if isinstance(name, Interpolated):
        name = f"${{{name.names[0]}}}"  # its value may be a secret
    return f"unknown {noun} {name!r}{suggestion(noun, name, known)}"


def suggestion(noun: str, name: str, known: Iterable[str]) -> str:
    """Return `, did you mean 'prompts'?` or `, known: prompts, providers`."""
    return _suggest(noun, name, tuple(known)).text


def _suggest(noun: str, name: str, known: Collection[str]) -> Hint:
    """Return a hint: our name for another tool's, the closest name, or all known names."""
    from ci_evals.suite.spellings import translate_name

    translation = translate_name(noun, name, known)
    if translation is not None:
        return translation
    close = closest(name, known)
    if close is not None:
        return Hint(f", did you mean {close!r}?", (close,))
    names = sorted(known)
    shown = ", ".join(names[:MAX_KNOWN]) or "none"
    if len(names) > MAX_KNOWN:
        shown += ", …"
    return Hint(f", known: {shown}")


def _suggest_key(key: str, path: str, cls: type, missing: str | None = None) -> Hint:
    """Return a hint for an unknown key of a type.

    Args:
        key: the key.
        path: the place of its mapping.
        cls: the type.
        missing: the required key that is missing if there is exactly one: it may be meant.
    """
    from ci_evals.suite.spellings import translate_name

    keys = keys_of(cls)
    meant = set(keys)
    if "cases" not in meant:
        meant -= _CHOICES
    translation = translate_name("key", key, meant)
    if translation is not None:
        return translation
    places = places_of(key, path, cls)
    if places:
        return Hint(f", did you mean {' or '.join(places)}?")
    if missing is not None and closest(key, keys) is None:
        return Hint(f", did you mean {missing!r}?", (missing,))
    return _suggest("key", key, keys)


def is_object(value: Any) -> bool:
    """Return True for a value that only Python code can hold: a grader, a function, a case."""
    return value is not None and not isinstance(value, str | int | float | dict | list | tuple)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the adapter of a type, which is slow to make, once for each type."""
    return TypeAdapter(kind)


def check(
    kind: type[T], node: Node, *, extra: Mapping[str, Any] | None = None, unread: Sequence[str] = ()
) -> Reading[T | None]:
    """Validate a written value as a type; return None if it is invalid.

    Args:
        kind: a dataclass whose fields are the keys, or any other type.
        node: a mapping of plain values, or an object that was made in Python.
        extra: values of fields that the file does not set.
        unread: keys that are allowed and ignored.
    """
    value = node.value
    strangers: list[str] = []
    suggested: set[str] = set()
    if isinstance(value, dict | Mapping) and dataclasses.is_dataclass(kind):
        keys = keys_of(kind)
        strangers = [key for key in value if key not in keys and key not in unread]
        if strangers:
            suggested = yield from _check_unknown_keys(kind, node, strangers)
        value = {key: item for key, item in value.items() if key in keys}
        if extra is not None:
            value.update(extra)
    # Checked even with unknown keys, so that wrong values are reported at the same time.
    try:
        checked = _adapter(cast("Any", kind)).validate_python(value)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        yield from _describe_errors(kind, node, value, errors, suggested)
        return None
    if strangers:
        return None
    return cast("T", checked)


def _check_unknown_keys(kind: type, node: Node, strangers: Sequence[str]) -> Reading[set[str]]:
    """Yield a problem for each unknown key; return the missing keys that the messages suggest."""
    absent = required_keys(kind) - node.value.keys()
    missing = None
    if len(strangers) == len(absent) == 1:
        (missing,) = absent
    suggested: set[str] = set()
    for key in strangers[:MAX_UNKNOWN]:
        hint = _suggest_key(str(key), node.path, kind, missing)
        suggested.update(absent.intersection(hint.keys))
        yield _at_line_of(node, key, f"unknown key {str(key)!r}{hint.text}")
    further = strangers[MAX_UNKNOWN:]
    if further:
        count = number_of(len(further), "more unknown key")
        yield _at_line_of(node, further[0], f"{count}, from {str(further[0])!r} on")
    return suggested


def _at_line_of(node: Node, key: str, message: str) -> Problem:
    """Return a problem of a mapping, at the line of one of its keys."""
    return Problem(node.file, node[key].line, node.path, message)


def try_check(kind: type[T], node: Node) -> T | None:
    """Check a value whose problems are reported elsewhere; None if it has any."""
    value, _ = collect(check(kind, node))
    return value


def resolve_texts(value: Any) -> Any:
    """Return a checked value with plain text in place of text of the environment.

    Inside a free mapping or list, where no type says what it is, text that reads like a number
    becomes one.
    """
    match value:
        case Interpolated():
            return str(value)
        case dict():
            return {key: _resolve_item(item) for key, item in value.items()}
        case list() | tuple():
            return type(value)(map(_resolve_item, value))
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    fields = dataclasses.fields(value)
    texts = {field.name: resolve_texts(getattr(value, field.name)) for field in fields}
    return dataclasses.replace(value, **texts)


def _resolve_item(item: Any) -> Any:
    if isinstance(item, Interpolated):
        return resolve(str(item))
    return resolve_texts(item)


# Pydantic's errors as problems. They never show a value that comes from the environment.


def _describe_errors(
    kind: Any, node: Node, value: Any, errors: Sequence[ErrorDetails], unknown_for: Collection[str]
) -> Iterator[Problem]:
    """Yield one problem per place; skip containers whose contents are already reported.

    Args:
        kind: the type.
        node: what is written.
        value: the checked value.
        errors: pydantic's errors.
        unknown_for: required keys that another problem suggests for unknown ones.
    """
    wrong: dict[Loc, list[ErrorDetails]] = {}
    missing: dict[Loc, None] = {}
    for error in errors:
        loc = _locate(value, error["loc"])
        if error["type"] == "missing":
            missing[*loc, error["loc"][-1]] = None
        else:
            wrong.setdefault(loc, []).append(error)
    suggested: set[Loc] = {(key,) for key in unknown_for}
    for loc, errors_there in wrong.items():
        place = _node_at(node, loc)
        if errors_there[0]["type"] == "unexpected_keyword_argument":
            parent, key = loc[:-1], str(loc[-1])
            outer = _node_at(node, parent)
            cls = class_at(kind, parent)
            if cls is None:  # one entry of a list, written without it
                cls = class_at(kind, (*parent, 0))
            hint = Hint("")
            if cls is not None:
                hint = _suggest_key(key, outer.path, cls)
            suggested.update((*parent, each) for each in hint.keys)
            yield place.problem(f"unknown key {key!r}{hint.text}")._replace(path=outer.path)
        elif not _holds_another(loc, (*wrong, *missing)) or not all(
            map(_is_about_kind, errors_there)
        ):
            yield place.problem(_message(kind, loc, place.value, errors_there))
    for loc in missing:
        if loc not in suggested:
            yield _node_at(node, loc[:-1]).problem(f"the key {loc[-1]!r} is missing")


def _locate(value: Any, loc: Loc) -> Loc:
    """Return the part of an error's location that is in the value, without tags of unions."""
    path: list[int | str] = []
    for part in loc:
        if isinstance(value, Mapping) and part in value:
            value = value.get(part)
        elif isinstance(value, list | tuple) and isinstance(part, int) and part < len(value):
            value = value[part]
        elif dataclasses.is_dataclass(value) and isinstance(part, str) and hasattr(value, part):
            value = getattr(value, part)
        else:
            continue
        path.append(part)
    return tuple(path)


def _node_at(node: Node, loc: Loc) -> Node:
    for part in loc:
        node = node[part]
    return node


def _holds_another(loc: Loc, others: Iterable[Loc]) -> bool:
    """Return True if another place lies inside this one."""
    return any(len(other) > len(loc) and other[: len(loc)] == loc for other in others)


def _is_about_kind(error: ErrorDetails) -> bool:
    if error["type"] == "literal_error":  # one of some words, where a mapping is written
        return isinstance(error["input"], Mapping)
    return error["type"] in _KINDS or error["type"] in _SIZES


_BESIDES_WORDS = ("boolean", "integer", "number")
"""The kinds that are named where a word is expected, too."""


def _message(kind: Any, loc: Loc, value: Any, errors: Sequence[ErrorDetails]) -> str:
    """Return the message for the errors at one place.

    In a union, members of another kind than what is written say nothing if one of the right kind
    refuses the value.
    """
    kinds = {_KINDS[error["type"]]: None for error in errors if error["type"] in _KINDS}
    kinds.pop("nothing", None)  # `null` is the same as leaving the key out
    refusals = [error for error in errors if error["type"] not in _KINDS]
    if not refusals:
        expected = " or ".join(_KIND_NAMES[each] for each in kinds) or _own_words(errors[0])
        if list(kinds) == ["mapping"]:
            expected = _describe_mapping(kind, loc)
        return f"expected {expected}, got {_describe(value)}{_advise(value, kinds)}"
    first = refusals[0]
    match first["type"]:
        case "problem":
            return first["msg"]
        case "value_error" | "assertion_error":
            return str(first["ctx"]["error"])
        case "too_short" | "too_long":
            return f"expected {_describe_constraint(first)}, got {len(value)}"
        case "literal_error":
            others = [_KIND_NAMES[each] for each in kinds if each in _BESIDES_WORDS]
            expected = " or ".join((*others, _describe_constraint(first)))
        case _:
            expected = _describe_constraint(first)
    return f"expected {expected}, got {_describe(value)}{_advise(value, kinds, first)}"


def _describe_mapping(kind: Any, loc: Loc) -> str:
    cls = class_at(kind, loc)
    if cls is None:
        return "a mapping"
    example = getattr(cls, "example", None)
    if loc and example:
        return f"a mapping, as in `{loc[-1]}: {example}`"
    return f"a mapping with keys such as {', '.join(keys_of(cls)[:3])}"


def _describe_constraint(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _BOUNDS:
        sign, name = _BOUNDS[kind]
        noun = _KIND_NAMES["integer"]
        if isinstance(context[name], float):
            noun = _KIND_NAMES["number"]
        return f"{noun} {sign} {context[name]:g}"
    if kind in _CONSTRAINTS:
        return _CONSTRAINTS[kind].format(**context).replace("'", "")
    if kind in _SIZES:
        least_or_most, name = _SIZES[kind]
        noun = "entries"
        if context[name] == 1:
            noun = "entry"
        return f"{least_or_most} {context[name]} {noun}"
    return _own_words(error)


def _own_words(error: ErrorDetails) -> str:
    """Return what pydantic says is expected, for the kinds of error that no table has."""
    return error["msg"].removeprefix("Input should be ")


def _describe(value: Any) -> str:
    """Return a value as a person would name it in an error."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    if is_object(value):
        if hasattr(value, "__name__"):
            return f"the {type(value).__name__} {value.__name__}"
        return f"a {type(value).__name__}"
    if isinstance(value, Interpolated):
        text = f"the value of ${{{value.names[0]}}}"
    else:
        text = repr(value)
    if len(text) > 80:
        return f"{text[:77]}..."
    return text


def _advise(value: Any, kinds: Mapping[str, None], refusal: ErrorDetails | None = None) -> str:
    """Return advice for the usual slips.

    Args:
        value: what is written.
        kinds: the kinds of value that are expected.
        refusal: why a value of the right kind is refused.
    """
    if isinstance(value, Interpolated) or value is None or is_object(value):
        return ""
    if refusal is None and list(kinds) == ["list"]:
        return ": write `- ` before each item, or put [ ] round them"
    if isinstance(value, Mapping | list | tuple):
        return ""
    if refusal is None and "text" in kinds and not isinstance(value, str):
        return f': put quotes round it, as in "{_describe(value)}"'
    if isinstance(value, str):
        percent = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", value)
        if percent and ("integer" in kinds or "number" in kinds):
            return f": {value} is written {float(percent[1]) / 100:g}"
        return ""
    is_share = refusal is not None and refusal.get("ctx", {}).get("le") == 1
    if is_share and 1 < value <= 100:
        return f": {value:g} % is written {value / 100:g}"
    return ""
