"""Where a key belongs that a suite knows, but not where it stands."""

from collections.abc import Mapping
from functools import cache
from typing import get_args

import msgspec

from ci_evals.config.file_types import CaseEntry, SuiteEntry

_SAY_LITTLE = ("name", "description", "label")  # and are seldom meant for anything but what they stand in


def places_of(key: str, path: str, cls: type[msgspec.Struct]) -> list[str]:
    """Places that may be meant, as they stand in a message: `'report.formats'`; none if nothing here is called so.

    Args:
        key: what was written.
        path: where it stands.
        cls: whose keys may stand there; its `settings`, if it has any, are keys that belong deeper into it.
    """
    if key in _SAY_LITTLE:
        return []
    settings: Mapping[str, str] = getattr(cls, "settings", {})
    meant = [repr(settings[key])] if key in settings else []
    if place := _places().get(key):
        meant.append(place)
    elif "[" not in path and key in CaseEntry.__struct_fields__:  # what stands in an entry is seldom another's
        meant.append(repr(f"cases[].{key}"))
    return meant


@cache
def _places() -> Mapping[str, str]:
    """For each key outside of the entries of lists the place that it has, the uppermost where it has several."""
    found: dict[str, str] = {}
    levels: list[tuple[str, type[msgspec.Struct]]] = [("", SuiteEntry)]
    for path, cls in levels:  # which grows
        for field in msgspec.structs.fields(cls):
            name = field.encode_name
            found.setdefault(name, repr(f"{path}{name}") if path else f"{name!r} at the top level of the suite")
            kinds = (field.type, *get_args(field.type))
            levels += [(f"{path}{name}.", kind) for kind in kinds if isinstance(kind, type(msgspec.Struct))]
    return found
