"""The keys of options: their names and types, and where a misplaced key belongs."""

import dataclasses
import types
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from ci_evals.model.case import Case
from ci_evals.suite.types import Suite

Loc = tuple[int | str, ...]
"""Keys and indices that lead to a nested value."""

_COMMON_KEYS = ("name", "description", "label")  # too common to suggest another place


def keys_of(cls: Any) -> tuple[str, ...]:
    """Return the keys of a type, without the fields that the loader fills in."""
    return _keys(cls)


@cache
def _keys(cls: Any) -> tuple[str, ...]:
    return tuple(
        field.name for field in dataclasses.fields(cls) if not field.metadata.get("set_by_loader")
    )


def required_keys(cls: Any) -> frozenset[str]:
    """Return the keys of a type that have no default."""
    return _required_keys(cls)


@cache
def _required_keys(cls: Any) -> frozenset[str]:
    required = set()
    for field in dataclasses.fields(cls):
        if field.default is field.default_factory is dataclasses.MISSING:
            required.add(field.name)
    return frozenset(required.intersection(_keys(cls)))


def class_at(kind: Any, loc: Loc) -> type | None:
    """Return the dataclass at a location inside a type; None for any other type there."""
    kinds = list(_members(kind))
    for part in loc:
        inner: list[Any] = []
        for each in kinds:
            if isinstance(each, type) and dataclasses.is_dataclass(each):
                hint = _hints(each).get(str(part))
                if hint is not None:
                    inner += _members(hint)
            else:
                inner += _members_inside(each, part)
        kinds = inner
    for each in kinds:
        if isinstance(each, type) and dataclasses.is_dataclass(each):
            return each
    return None


def _members_inside(kind: Any, part: int | str) -> Iterator[Any]:
    """Yield the types of an item of a list type, or of a value of a mapping type."""
    arguments = get_args(kind)
    if not arguments:
        return
    if isinstance(part, int):
        yield from _members(arguments[0])
    elif len(arguments) > 1:
        yield from _members(arguments[1])


def places_of(key: str, path: str, cls: type) -> list[str]:
    """Return the places where a key may belong, as messages show them: `'report.formats'`.

    Args:
        key: the key as it is written.
        path: the path of its mapping.
        cls: the type of the mapping; its `inner_keys`, if any, are the places of keys that belong
            deeper inside.
    """
    if key in _COMMON_KEYS:
        return []
    meant = []
    inner_keys: Mapping[str, str] = getattr(cls, "inner_keys", {})
    if key in inner_keys:
        meant.append(repr(inner_keys[key]))
    place = _places().get(key)
    if place is not None:
        meant.append(place)
    elif "[" not in path and key in keys_of(Case):  # a key in a list seldom belongs in another list
        meant.append(repr(f"cases[].{key}"))
    return meant


@cache
def _places() -> Mapping[str, str]:
    """Return the place of each key outside of lists; of several places, the uppermost."""
    places: dict[str, str] = {}
    levels: list[tuple[str, type]] = [("", Suite)]
    for path, cls in levels:  # the list grows while it is read, level by level
        for name in keys_of(cls):
            if path:
                places.setdefault(name, repr(f"{path}{name}"))
            else:
                places[name] = f"{name!r} at the top level of the suite"
            inner = class_at(cls, (name,))
            if inner is not None:
                levels.append((f"{path}{name}.", inner))
    return places


@cache
def _hints(cls: type) -> Mapping[str, Any]:
    return get_type_hints(cls)


def _members(kind: Any) -> Iterator[Any]:
    """Yield the members of a union, or the type itself."""
    origin = get_origin(kind)
    if origin is Annotated:
        yield from _members(get_args(kind)[0])
    elif origin in (Union, types.UnionType):
        for member in get_args(kind):
            yield from _members(member)
    else:
        yield kind
