"""The modules in a config's folder: importable while it is worked on, and in nobody else's way.

The folder comes first on `sys.path`, but for names that are taken: `email` is the standard library's to all code, what
aiohttp imports included, whatever lies in the folder. What the config names is looked for in the folder all the same.
"""

import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Final

_OURS: Final = """
    aiohappyeyeballs aiohttp aiosignal annotated_types anyio attr attrs certifi cffi ci_evals click cryptography
    dotenv frozenlist genai_prices gidgethub h11 h2 httpcore httpcore2 httpx httpx2 idna jinja2 jsonpath jsonschema
    jsonschema_specifications jwt markupsafe msgspec multidict opentelemetry propcache pycparser pydantic
    pydantic_core rapidfuzz referencing rpds sniffio truststore typing_extensions typing_inspection uritemplate
    uvloop yaml yarl
"""
TAKEN: Final = (sys.stdlib_module_names | {*_OURS.split()}) - {"test"}  # Python's own tests, which nobody imports
_APART = "_of_the_suite"  # what the name of a module is followed by if it is taken


class NamesakeError(ImportError):
    """A module of the same name was loaded from somewhere else."""


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let the modules in a folder be imported."""
    modules = _Modules(str(folder.absolute()))
    sys.path_importer_cache.pop(modules.folder, None)  # which may be older than a file
    sys.path.insert(0, modules.folder)
    sys.meta_path.insert(0, modules)
    try:
        yield
    finally:
        with suppress(ValueError):  # code under test may have done so
            sys.meta_path.remove(modules)
        with suppress(ValueError):
            sys.path.remove(modules.folder)


def named_spec(name: str) -> ModuleSpec | None:
    """Where a module is that a config names. It is not run itself; the packages that it lies in are.

    Raises:
        Exception: whatever they raise.
    """
    return importlib.util.find_spec(_own_name(name))


def named_module(name: str) -> ModuleType:
    """Import a module that a config names.

    Raises:
        NamesakeError: two suites in one process each have such a module; judging the wrong one would be worse.
        Exception: whatever the module raises.
    """
    importlib.invalidate_caches()
    own, top = _own_name(name), name.partition(".")[0]
    module = importlib.import_module(own)
    modules = _innermost()
    here = modules and modules.find(top)
    loaded = getattr(sys.modules[own.partition(".")[0]], "__file__", None)
    if here and here.origin and loaded and Path(loaded).resolve() != Path(here.origin).resolve():
        raise NamesakeError(
            f"a module {top!r} was already loaded from {loaded}: give one of them another name", path=here.origin
        )
    return module


class _Modules:
    """Finds what is taken elsewhere, and what a config names in the folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find(self, name: str) -> ModuleSpec | None:
        """A module or a package of the folder, but for folders without `__init__.py`: those may hold anything."""
        spec = PathFinder.find_spec(name, [self.folder])
        return spec if spec and spec.origin else None

    def find_spec(self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        if path is not None:
            return None
        if name in TAKEN:
            if not self.find(name):
                return None
            elsewhere = [entry for entry in sys.path if os.path.abspath(entry) != self.folder]  # noqa: PTH100  "" too
            return PathFinder.find_spec(name, elsewhere)
        if not name.endswith(_APART) or not (here := self.find(name.removesuffix(_APART))):
            return None
        return importlib.util.spec_from_file_location(
            name, here.origin, submodule_search_locations=here.submodule_search_locations
        )


def _own_name(name: str) -> str:
    """The name by which to import a module that a config names: another one if it is taken and in the folder."""
    modules = _innermost()
    top, dot, rest = name.partition(".")
    return f"{top}{_APART}{dot}{rest}" if modules and top in TAKEN and modules.find(top) else name


def _innermost() -> _Modules | None:
    return next((finder for finder in sys.meta_path if isinstance(finder, _Modules)), None)
