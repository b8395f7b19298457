"""Digests of the source of the team's own code, and of what it imports from the repository."""

import ast
import functools
import inspect
import json
import os
import re
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, Final

from ci_evals.user_code.crashes import is_their_own
from ci_evals.user_code.folders import CodeFolders, editable_packages, find_repository
from ci_evals.user_code.targets import CodeSource

_INSTALLED: Final = {"node_modules", ".venv", "dist-packages"}
"""The folders of installed packages, besides those that `is_their_own` knows."""

# In a comment or a string, it names a file that exists or nothing: neither is a wrong digest.
_JAVASCRIPT_IMPORT = re.compile(
    r"""\b(?:(?:require|import)\s*\(|from|import)\s*(["'`])(\.{1,2}(?:/[^"'`\n]*)?)\1"""
)
_JAVASCRIPT_SUFFIXES: Final = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".json")


_HELD: Final = (type, FunctionType, MethodType, functools.partial)
"""What is followed from an object or a closure to its parts."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file that was read: the digest of its content, and the files that it imports."""

    digest: str
    imports: Sequence[Path] = ()


class SourceDigests:
    """Digests of the team's own code, for which each file is read once and nothing is executed.

    A digest is of the file that holds the code, of the `__init__.py` of its packages, and of all
    files of the repository that these import, at any depth and wherever the import stands. It
    changes with any byte of them, except line endings. Without git, the folders of the suite's code
    take the place of the repository. Installed packages take no part, and neither do files that
    code only reads, nor modules that it imports by a computed name.

    Args:
        folder: the suite's folder.
        folders: the other folders of its code.
    """

    def __init__(self, folder: Path, folders: CodeFolders) -> None:
        self._folder = folder.resolve()
        self._import_path = _import_path(self._folder, folders)
        self._repository = find_repository(self._folder)
        self._roots = [self._folder, *(path.resolve() for path in folders.named)]
        if self._repository is not None:
            self._roots.append(self._repository)
        else:
            above = [path.resolve() for path in self._import_path]
            self._roots += [path for path in above if self._folder.is_relative_to(path)]
        self._files: dict[Path, _File | None] = {}
        self._places: dict[str, Sequence[Path]] = {}
        self._digests: dict[tuple[str, str | int], str | None] = {}

    def digest(self, source: CodeSource) -> str | None:
        """Return 32 hexadecimal digits that identify some code; None if none of it is the team's.

        Objects must outlive this one.
        """
        value = source.value
        if not isinstance(value, str):
            value = id(value)
        key = (source.kind, value)
        if key not in self._digests:
            self._digests[key] = self._digest(source)
        return self._digests[key]

    @property
    def files(self) -> Mapping[str, str]:
        """The digest of each file that was read so far, by its path in the repository."""
        root = self._repository or self._folder
        known = {path: file.digest for path, file in self._files.items() if file is not None}
        return {Path(os.path.relpath(path, root)).as_posix(): known[path] for path in known}

    def _digest(self, source: CodeSource) -> str | None:
        value = source.value
        match source.kind:
            case "module":
                return self._combine(self._find_module(value))
            case "python":
                code = textwrap.dedent(value)
                return self._combine(self._python_imports(code, self._folder), self._folder)
            case "script":
                return self._combine(self._own_files([self._folder / value]))
            case "javascript":
                return self._combine(self._javascript_imports(value, self._folder), self._folder)
            case "object":
                files, texts = _find_source(value)
                return self._combine(self._own_files(files), texts=texts)

    def _combine(
        self,
        start: Iterable[Path],
        base: Path | None = None,
        texts: Sequence[str] = (),
    ) -> str | None:
        """Return the digest of files, of all files that they import, and of texts.

        Args:
            start: the files; the last one holds the code, if it is in a file.
            base: the folder from which files are named; by default, that of the last one.
            texts: source that is in no file.
        """
        files = list(dict.fromkeys(start))
        if base is None and files:
            base = files[-1].parent
        known = set(files)
        parts = [("", _digest_of(text.encode(errors="replace"))) for text in texts]
        for path in files:  # the loop extends the list
            file = self._read(path)
            if file is None:
                continue
            # A name that is the same in every checkout, so that two files cannot be swapped.
            parts.append((Path(os.path.relpath(path, base)).as_posix(), file.digest))
            for imported in file.imports:
                if imported not in known:
                    known.add(imported)
                    files.append(imported)
        if not parts:
            return None
        return _digest_of(json.dumps(sorted(parts)).encode())

    def _read(self, path: Path) -> _File | None:
        """Read a file of code; None if it cannot be read, which the suite's checks report."""
        if path not in self._files:
            self._files[path] = None
            with suppress(OSError):
                content = path.read_bytes().replace(b"\r\n", b"\n")  # as git may check out
                imports: Iterable[Path] = ()
                if path.suffix == ".py":
                    imports = self._python_imports(content, path.parent)
                elif path.suffix != ".json":
                    text = content.decode(errors="replace")
                    imports = self._javascript_imports(text, path.parent)
                self._files[path] = _File(_digest_of(content), tuple(imports))
        return self._files[path]

    def _python_imports(self, code: str | bytes, folder: Path) -> Iterator[Path]:
        """Yield the files of the repository that Python code in a folder imports."""
        for statement in _import_statements(code):
            prefix = ""
            package = None
            if isinstance(statement, ast.ImportFrom):  # each name may be a module of the package
                if statement.module:
                    prefix = f"{statement.module}."
                if statement.level:
                    package = folder
                    for _ in range(statement.level - 1):
                        package = package.parent
            for alias in statement.names:
                name = prefix + alias.name
                if package is None:
                    yield from self._find_module(name)
                else:
                    yield from self._own_files(_module_files(package, name.split(".")))

    def _javascript_imports(self, code: str, folder: Path) -> Sequence[Path]:
        """Return the files that JavaScript in a folder imports by relative paths."""
        files: list[Path] = []
        for match in _JAVASCRIPT_IMPORT.finditer(code):
            files += _script_files(Path(os.path.normpath(folder / match[2])))
        return self._own_files(files)

    def _find_module(self, name: str) -> Sequence[Path]:
        """Return the files of the packages around a module of the repository, then its own."""
        top, *inside = name.split(".")
        if top not in self._places:
            self._places[top] = self._find_places(top)
        files: list[Path] = []
        for place in self._places[top]:
            files += _module_files(place, inside)
        own = self._own_files(files)
        return [file for file in own if any(map(file.is_relative_to, self._roots))]

    def _own_files(self, files: Iterable[Path]) -> Sequence[Path]:
        """Return the real paths of the files that are not installed."""
        own = []
        for file in files:
            path = file.resolve()
            inside = path
            if self._repository is not None and path.is_relative_to(self._repository):
                inside = path.relative_to(self._repository)  # a checkout may be in `.venv/src`
            if is_their_own(str(path)) and not _INSTALLED.intersection(inside.parts):
                own.append(path)
        return own

    def _find_places(self, top: str) -> Sequence[Path]:
        """Return the path of a top-level module without its suffix; several for a namespace."""
        if top in sys.stdlib_module_names:
            return ()
        namespaces = []
        for folder in self._import_path:
            place = folder / top
            if _module_file(place) is not None:
                return (place,)
            if place.is_dir():
                namespaces.append(place)
        editable = editable_packages().get(top)
        if editable is not None and not namespaces:
            return (Path(editable.removesuffix(".py")),)
        return namespaces


def _import_path(folder: Path, folders: CodeFolders) -> Sequence[Path]:
    """Return the folders to look for modules in.

    The repository's folders come before the rest of `sys.path`, so that a package that is installed
    from the repository counts as its source.
    """
    own = []
    for text in sys.path:
        path = Path(text).absolute()
        if is_their_own(f"{path}{os.sep}") and os.access(path, os.X_OK):
            own.append(path)
    return tuple(dict.fromkeys((folder, *folders.named, *folders.usual, *own)))


def _import_statements(code: str | bytes) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield all import statements of Python code; none if it cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes, for example: importing it tells
            module = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    # Only statements are visited, since expressions are most of a tree.
    nodes: list[ast.AST] = [module]
    for node in nodes:  # the loop extends the list
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        for block in ("body", "handlers", "orelse", "finalbody", "cases"):
            inner = getattr(node, block, ())
            if isinstance(inner, list):
                nodes += inner


def _module_files(place: Path, inside: Sequence[str]) -> Sequence[Path]:
    """Return the files of a module and of the packages around it, as far as there are any.

    Args:
        place: the path of a package or module, without its suffix.
        inside: the names that lead from there to the module, and maybe to something in it.
    """
    files = []
    for name in ("", *inside):
        place = place / name
        file = _module_file(place)
        if file is not None:
            files.append(file)
        if not place.is_dir():
            break
    return files


def _module_file(place: Path) -> Path | None:
    for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
        if file.is_file():
            return file
    return None


def _script_files(place: Path) -> Sequence[Path]:
    """Return the file that Node.js loads for a path without its suffix, or for a folder.

    If a `package.json` says which file of a folder that is, it is returned, too.
    """
    candidates = [place, *_with_suffixes(place)]
    found = []
    with suppress(OSError, ValueError, TypeError, KeyError):
        package = place / "package.json"
        main = Path(os.path.normpath(place / json.loads(package.read_bytes())["main"]))
        found.append(package)
        candidates += [main, *_with_suffixes(main), *_with_suffixes(main / "index")]
    candidates += _with_suffixes(place / "index")
    for file in candidates:
        if file.is_file():
            return [*found, file]
    return found


def _with_suffixes(place: Path) -> Iterator[Path]:
    for suffix in _JAVASCRIPT_SUFFIXES:
        yield Path(f"{place}{suffix}")


def _find_source(value: Any) -> tuple[Sequence[Path], Sequence[str]]:
    """Return the files in which an object of this process is defined, and source without a file."""
    files: list[Path] = []
    texts = []
    for definition in _definitions_of(value):
        with suppress(TypeError, OSError):  # it is of C, or its source is lost
            name = inspect.getsourcefile(definition)
            if name is None or not Path(name).is_file():
                texts.append(inspect.getsource(definition))
            else:
                files += _with_packages(Path(name), definition.__module__)
    return files, texts


def _with_packages(file: Path, module: str) -> Iterator[Path]:
    """Yield the `__init__.py` of the packages around a module, then its file."""
    for folder in tuple(file.parents)[: module.count(".")]:
        if (folder / "__init__.py").is_file():
            yield folder / "__init__.py"
    yield file


def _definitions_of(value: Any) -> Iterator[Any]:
    """Yield the functions and classes that make up a callable: also those that it holds."""
    seen: list[Any] = []
    values = [value]
    for each in values:  # the loop extends the list
        if any(each is earlier for earlier in seen):
            continue
        seen.append(each)
        held: Iterable[Any]
        if inspect.isclass(each):
            yield each
            continue
        if inspect.isfunction(each):
            yield each
            held = _closure_of(each)
        elif inspect.ismethod(each):
            values += [each.__func__, each.__self__]
            continue
        elif isinstance(each, functools.partial):
            values.append(each.func)
            held = (*each.args, *each.keywords.values())
        else:
            values.append(type(each))
            held = getattr(each, "__dict__", {}).values()
        # Not any callable: a client of a library holds half of that library.
        values += [part for part in held if isinstance(part, _HELD)]
        # Static, since a proxy may have an attribute of any name.
        wrapped = inspect.getattr_static(each, "__wrapped__", None)
        if wrapped is not None:
            values.append(wrapped)


def _closure_of(function: Any) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it is still empty
            yield cell.cell_contents


def _digest_of(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
