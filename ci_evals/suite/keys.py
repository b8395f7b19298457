"""The keys of options: their names, their types, and the places of keys that belong elsewhere."""

import dataclasses
import types
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from ci_evals.model.case import Case
from ci_evals.suite.types import Suite

Loc = tuple[int | str, ...]
"""The keys and indices that lead to a value inside another."""

_COMMON_KEYS = ("name", "description", "label")  # seldom meant for another place


def keys_of(cls: Any) -> tuple[str, ...]:
    """Return the keys of a type; a field marked `found` is filled in by the loader."""
    return _keys(cls)


@cache
def _keys(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls) if not field.metadata.get("found"))


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
    """Return the dataclass to which a location inside a value of a type leads, if it is one."""
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
    """Return the places for which a key may be meant, as a message shows them: `'report.formats'`.

    Args:
        key: what was written.
        path: the place of its mapping.
        cls: the type of the mapping; its `settings`, if it has any, are keys that belong deeper
            into it.
    """
    if key in _COMMON_KEYS:
        return []
    meant = []
    settings: Mapping[str, str] = getattr(cls, "settings", {})
    if key in settings:
        meant.append(repr(settings[key]))
    place = _places().get(key)
    if place is not None:
        meant.append(place)
    elif "[" not in path and key in keys_of(Case):  # a key in a list is seldom meant for another
        meant.append(repr(f"cases[].{key}"))
    return meant


@cache
def _places() -> Mapping[str, str]:
    """Return the place of each key outside of lists; the uppermost of a key with several."""
    places: dict[str, str] = {}
    levels: list[tuple[str, type]] = [("", Suite)]
    for path, cls in levels:  # which grows
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
    """Yield the members of a union, or the one type that it is."""
    origin = get_origin(kind)
    if origin is Annotated:
        yield from _members(get_args(kind)[0])
    elif origin in (Union, types.UnionType):
        for member in get_args(kind):
            yield from _members(member)
    else:
        yield kind
