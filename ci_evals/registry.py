"""Things by name, imported when they are used: ours, and those of other packages' entry points."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name
from typing import Any, Generic, NamedTuple, TypeVar

from ci_evals.errors import PluginError, describe_exception

T = TypeVar("T")


class Entry(NamedTuple):
    """Where a thing is defined, as `module:attribute`, and one line of help."""

    target: str
    help: str = ""


class Registry(Mapping[str, T], Generic[T]):
    """The things of one kind by name. Iterating yields names; a lookup imports the thing once.

    Our own entries win over entry points of the same name, so using one of ours never looks for
    installed packages.

    Args:
        group: the group of entry points that other packages add to, such as `ci_evals.graders`.
        noun: what one thing is called in errors, such as `grader`.
        own: our own entries.
        accepts: returns False for a loaded object that is not of this kind.
        expected: what `accepts` asks for, for the error: `a subclass of GraderOptions`.
    """

    def __init__(
        self,
        group: str,
        noun: str,
        own: Mapping[str, Entry],
        accepts: Callable[[Any], bool] = lambda _: True,
        expected: str = "",
    ) -> None:
        self.group = group
        self.noun = noun
        self._own = own
        self._accepts = accepts
        self._expected = expected
        self._loaded: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        """Return the thing of this name, imported on first use.

        Raises:
            KeyError: there is none.
            PluginError: another package provides it and cannot be used.
        """
        if name not in self._loaded:
            if name in self._own:
                self._loaded[name] = resolve_name(self._own[name].target)
            else:
                self._loaded[name] = self._load_plugin(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        for name in self._plugins:
            if name not in self._own:
                yield name

    def __len__(self) -> int:
        return len(self._own.keys() | self._plugins.keys())

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._plugins

    @property
    def own(self) -> Mapping[str, Entry]:
        """Our own entries, which are known without looking for installed packages."""
        return self._own

    def help(self, name: str) -> str:
        """Return the line of help of a thing, without importing it."""
        if name in self._own:
            return self._own[name].help
        points = self._plugins[name]
        packages = ", ".join(_package_of(point) for point in points)
        return f"Provided by {packages}."

    @cached_property
    def _plugins(self) -> Mapping[str, tuple[EntryPoint, ...]]:
        """The entry points of other packages by name; several of one name are an error on use."""
        found: dict[str, tuple[EntryPoint, ...]] = {}
        for point in entry_points(group=self.group):
            found[point.name] = (*found.get(point.name, ()), point)
        return found

    def _load_plugin(self, name: str) -> T:
        point, *others = self._plugins[name]
        package = _package_of(point)
        if others:
            packages = " and ".join([package, *(_package_of(other) for other in others)])
            raise PluginError(
                f"{self.noun} {name!r} is provided by {packages}: uninstall one of them"
            )
        try:
            loaded = point.load()
        except Exception as error:  # the package is not ours: whatever it raises is its own
            raise PluginError(
                f"{self.noun} {name!r} of {package} cannot be loaded from {point.value}:"
                f" {describe_exception(error)}"
            ) from error
        if not self._accepts(loaded):
            raise PluginError(
                f"{self.noun} {name!r} of {package}: {point.value} is not {self._expected}"
            )
        return loaded  # type: ignore[no-any-return]  # `accepts` has looked


def _package_of(point: EntryPoint) -> str:
    """Return the name and version of the package that declares an entry point."""
    if point.dist is None:
        return point.value
    return f"{point.dist.name} {point.dist.version}"


def lazy_attributes(module: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module's `__getattr__` that imports its public names when they are first used.

    Args:
        module: the module's name.
        modules: the module that defines each name.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return get
