"""The folders of the team's own code, and imports from them."""

import importlib
import importlib.util
import os
import shlex
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

# Importing these opens a browser, loads Python's own tests, or prints a poem.
_NOT_IMPORTED_BY_LIBRARIES = {"antigravity", "test", "this"}

_homes: dict[str, str] = {}
"""The folder of each top-level module that a suite imported."""


@dataclass(frozen=True, slots=True)
class CodeFolders:
    """The folders that may have a suite's code, besides its own folder.

    Args:
        named: folders that the suite or the project names; they precede installed packages.
        usual: folders of the repository; they follow installed packages, and so hide nothing.
    """

    named: tuple[Path, ...] = ()
    usual: tuple[Path, ...] = ()


def find_code_folders(folder: Path, pythonpath: Sequence[str]) -> CodeFolders:
    """Return the folders of a suite's code.

    If `pythonpath` is set, only these. Otherwise, the folders in pytest's settings, the project's
    folder, the repository's root, and `src` in both, but none outside of the repository, not even
    by a link. The project's folder is the one of the nearest `pyproject.toml`.

    Args:
        folder: the folder of the suite.
        pythonpath: the suite's setting, relative to its folder.
    """
    own = folder.resolve()
    if pythonpath:
        return CodeFolders(tuple(Path(os.path.normpath(own / path)) for path in pythonpath))
    root = find_repository(own)
    if root is None:
        return CodeFolders()
    above = (own, *own.parents)
    inside = above[: above.index(root) + 1]
    project = next((parent for parent in inside if (parent / "pyproject.toml").is_file()), root)
    named = [path for path in _pytest_folders(inside) if path.is_relative_to(root)]
    known = (own, *named)
    usual = dict.fromkeys((project, project / "src", root, root / "src"))
    others = [path for path in usual if path not in known and _is_folder_of(root, path)]
    return CodeFolders(tuple(named), tuple(others))


def find_repository(folder: Path) -> Path | None:
    """Return the root of the repository around a folder; None outside of one."""
    above = (folder, *folder.parents)
    return next((parent for parent in above if (parent / ".git").exists()), None)


def editable_packages() -> Mapping[str, str]:
    """Return the places of packages that setuptools has installed editably, by an import hook."""
    mapping: dict[str, str] = {}
    for name, module in tuple(sys.modules.items()):
        if name.startswith("__editable__") and isinstance(module, ModuleType):
            mapping |= getattr(module, "MAPPING", {})
    return mapping


def _is_folder_of(root: Path, path: Path) -> bool:
    return path.is_dir() and path.resolve().is_relative_to(root)


_PYTEST_FILES = {
    "pytest.toml": ("pytest",),
    ".pytest.toml": ("pytest",),
    "pytest.ini": ("pytest",),
    ".pytest.ini": ("pytest",),
    "pyproject.toml": ("tool", "pytest"),
    "tox.ini": ("pytest",),
    "setup.cfg": ("tool:pytest",),
}
"""The files and tables in which pytest looks for its settings, in its order."""


def _pytest_folders(folders: Sequence[Path]) -> Sequence[Path]:
    """Return the `pythonpath` of pytest's settings in the first folder that has any; nothing if
    pytest would refuse it.
    """
    for folder in folders:
        for name, keys in _PYTEST_FILES.items():
            settings = _read_pytest_settings(folder / name, keys)
            if settings is None:
                continue
            named = settings.get("pythonpath", ())
            try:
                if isinstance(named, str):
                    named = shlex.split(named)
                return [(folder / path).resolve() for path in named]
            except (ValueError, TypeError):
                return ()
    return ()


def _read_pytest_settings(file: Path, keys: Sequence[str]) -> Mapping[str, Any] | None:
    """Return the settings of pytest in a file; None if it has none."""
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".toml":
            table: Any = tomllib.loads(text)
        else:
            parser = ConfigParser(interpolation=None)
            parser.read_string(text)
            table = parser
        for key in keys:
            table = table[key]
        if "ini_options" in table:
            table = table["ini_options"]
        return dict(table)
    except (OSError, ValueError, TypeError, KeyError, ConfigParserError):
        return None


NO_CODE_FOLDERS = CodeFolders()

_current: ContextVar[CodeFolders] = ContextVar("code_folders", default=NO_CODE_FOLDERS)


@contextmanager
def code_in(folders: CodeFolders) -> Iterator[None]:
    """Within the context, in which a suite is loaded, make these the `code_folders`."""
    before = _current.get()
    _current.set(folders)
    try:
        yield
    finally:
        _current.set(before)


def code_folders() -> CodeFolders:
    """Return the folders of the innermost `code_in`; none outside of one."""
    return _current.get()


@contextmanager
def importable(folder: Path, folders: CodeFolders = NO_CODE_FOLDERS) -> Iterator[None]:
    """Within the context, put a suite's folder first on `sys.path`, as pytest and `python agent.py`
    do, and the other folders of its code in their places.

    If an earlier suite of this process imported a module from its own folder, and these folders
    have a module of the same name, the earlier one is unloaded. If a file of the folder hides a
    module of the standard library, as `queue.py` would, that is imported first, so that libraries
    still get it.
    """
    first = [str(path) for path in dict.fromkeys((folder.absolute(), *folders.named))]
    usual = [str(path) for path in folders.usual]
    last = [path for path in usual if path not in sys.path]
    added = [*first, *last]
    importlib.invalidate_caches()
    for name, home in tuple(_homes.items()):
        is_left = home not in added and home not in sys.path
        if is_left and PathFinder.find_spec(name, added):
            _unload(name)
    for path in first:
        _import_hidden(Path(path))
    before = set(sys.modules)
    sys.path[:0] = first
    sys.path += last
    try:
        yield
    finally:
        for path in added:
            with suppress(ValueError):  # code under test may have removed it
                sys.path.remove(path)
        for name in sys.modules.keys() - before:
            if "." in name:
                continue
            home = _home_of(sys.modules[name])
            if home in added:
                _homes[name] = home


def _import_hidden(folder: Path) -> None:
    """Import the modules of the standard library that files of a folder hide."""
    try:
        names = {entry.stem for entry in folder.iterdir()}
    except OSError:
        return
    hidden = names & sys.stdlib_module_names
    for name in hidden - _NOT_IMPORTED_BY_LIBRARIES:
        with suppress(ImportError):  # some builds of Python lack modules
            importlib.import_module(name)


def _unload(name: str) -> None:
    del _homes[name]
    for module in tuple(sys.modules):
        if module == name or module.startswith(f"{name}."):
            del sys.modules[module]


def _home_of(module: ModuleType) -> str:
    """Return the folder of a top-level module; empty if it has none."""
    spec: ModuleSpec | None = getattr(module, "__spec__", None)
    if spec is None:
        return ""
    place = spec.origin or ""
    if spec.submodule_search_locations:
        place = next(iter(spec.submodule_search_locations))
    return str(Path(place).parent)
