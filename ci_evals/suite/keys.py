"""The keys of options: their names, the types behind them, and the place of one that is written
elsewhere.
"""

import dataclasses
import types
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from ci_evals.model.case import Case
from ci_evals.suite.types import Suite

Loc = tuple[int | str, ...]
"""The keys and indices that lead to a value inside another."""


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
    """Return the dataclass that a location inside a value of a type leads to, if it is one."""
    kinds = list(_options(kind))
    for part in loc:
        inner: list[Any] = []
        for each in kinds:
            arguments = get_args(each)
            if dataclasses.is_dataclass(each) and isinstance(each, type) and part in _hints(each):
                inner += _options(_hints(each)[str(part)])
            elif arguments and (isinstance(part, int) or len(arguments) > 1):
                inner += _options(arguments[0] if isinstance(part, int) else arguments[1])
        kinds = inner
    return next(
        (each for each in kinds if dataclasses.is_dataclass(each) and isinstance(each, type)), None
    )


_SAY_LITTLE = (
    "name",
    "description",
    "label",
)  # and are seldom meant for anything but what they stand in


def places_of(key: str, path: str, cls: type) -> list[str]:
    """Return places that may be meant, as a message shows them: `'report.formats'`; none if nothing
    is called so.

    Args:
        key: what was written.
        path: where it stands.
        cls: whose keys may stand there; its `settings`, if it has any, are keys that belong deeper
            into it.
    """
    if key in _SAY_LITTLE:
        return []
    settings: Mapping[str, str] = getattr(cls, "settings", {})
    meant = [repr(settings[key])] if key in settings else []
    if place := _places().get(key):
        meant.append(place)
    elif "[" not in path and key in keys_of(Case):  # what stands in an entry is seldom another's
        meant.append(repr(f"cases[].{key}"))
    return meant


@cache
def _places() -> Mapping[str, str]:
    """Return the place of each key outside of the entries of lists, the uppermost where it has
    several.
    """
    found: dict[str, str] = {}
    levels: list[tuple[str, type]] = [("", Suite)]
    for path, cls in levels:  # which grows
        for name in keys_of(cls):
            found.setdefault(
                name, repr(f"{path}{name}") if path else f"{name!r} at the top level of the suite"
            )
            inner = [each for each in _options(_hints(cls)[name]) if dataclasses.is_dataclass(each)]
            levels += [(f"{path}{name}.", each) for each in inner if isinstance(each, type)]
    return found


@cache
def _hints(cls: type) -> Mapping[str, Any]:
    return get_type_hints(cls)


def _options(kind: Any) -> Iterator[Any]:
    """Yield the members of a union, or the one type that it is."""
    origin = get_origin(kind)
    if origin is Annotated:
        yield from _options(get_args(kind)[0])
    elif origin in (Union, types.UnionType):
        for member in get_args(kind):
            yield from _options(member)
    else:
        yield kind
