"""What is imported when it is first asked for, so that a command loads only what it needs."""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


class Late(Mapping[str, T]):
    """Names with what they stand for: the names are known at once, each thing is imported with its module.

    Args:
        package: where the modules are.
        homes: for each name the `module:name` of what it stands for.
    """

    def __init__(self, package: str, homes: Mapping[str, str]) -> None:
        self._package = package
        self._homes = homes

    def __getitem__(self, name: str) -> T:
        found: T = _imported(self._package, self._homes[name])
        return found

    def get(self, name: str, default: Any = None) -> T | Any:
        """A thing, or `default` if there is no such name; a KeyError of its module's own comes through."""
        return self[name] if name in self._homes else default

    def __contains__(self, name: object) -> bool:
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)

    def exported(self, *others: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
        """A `__getattr__` and a `__dir__` for the package: these things and `others` can be imported from it."""
        homes = {home.partition(":")[2]: home for home in (*self._homes.values(), *others)}

        def get(name: str) -> Any:
            if name not in homes:
                raise AttributeError(f"module {self._package!r} has no attribute {name!r}")
            return _imported(self._package, homes[name])

        def names() -> list[str]:
            return sorted({*vars(sys.modules[self._package]), *homes})

        return get, names


@cache
def _imported(package: str, home: str) -> Any:
    module, _, name = home.partition(":")
    return getattr(import_module(f"{package}.{module}"), name)
