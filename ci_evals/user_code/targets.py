"""Finds and imports the function that `module:function` names, and describes its problems."""

import ast
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from symtable import symtable
from types import ModuleType
from typing import Any, Literal, NamedTuple

from ci_evals.errors import ConfigError, Problem, describe_exception, exception_text
from ci_evals.format import closest, one_line
from ci_evals.user_code.crashes import PACKAGE
from ci_evals.user_code.folders import CodeFolders, code_folders, importable

_imports: list[str] = []
"""The modules that `load_module` is importing in the main thread."""


class CodeSource(NamedTuple):
    """Some code of the team's own.

    Args:
        kind: of the value.
        value: the name of a Python `module`, `python` code in the suite, the path of a JavaScript
            file (`script`), `javascript` code in the suite, or an `object` of this process.
    """

    kind: Literal["module", "python", "script", "javascript", "object"]
    value: Any


class NamesakeError(ImportError):
    """A module in the suite's folder has the name of another module, which is already loaded."""


def find_module(name: str) -> ModuleSpec | None:
    """Return the spec of a module without running it; its parent packages are imported.

    Raises:
        NamesakeError: another module was loaded under its name.
        Exception: any exception of the packages.
    """
    importlib.invalidate_caches()
    top = name.partition(".")[0]
    wanted = PathFinder.find_spec(top)
    loaded = importlib.util.find_spec(top)
    if wanted is None or wanted.origin is None or loaded is None:
        return importlib.util.find_spec(name)
    file = wanted.origin
    folder = Path(sys.path[0], top)
    if "." in name and loaded.submodule_search_locations is None and folder.is_dir():
        file = str(folder)  # any module on the path hides a folder without __init__.py
    if not _is_same_file(file, loaded.origin):
        place = loaded.origin or "elsewhere"
        text = f"a module {top!r} was already loaded from {place}: give one of them another name"
        raise NamesakeError(text, path=file)
    return importlib.util.find_spec(name)


def _is_same_file(one: str, other: str | None) -> bool:
    if other is None:
        return False
    return Path(one).resolve() == Path(other).resolve()


def load_module(name: str) -> ModuleType:
    """Import a module that a suite names.

    Raises:
        NamesakeError: another module was loaded under its name.
        Exception: any exception of the module.
    """
    find_module(name)
    if threading.current_thread() is not threading.main_thread():
        return importlib.import_module(name)
    _imports.append(name)
    try:
        return importlib.import_module(name)
    finally:
        _imports.remove(name)


def is_importing() -> bool:
    """Return True while the main thread imports a module of a suite: a signal may end that."""
    return bool(_imports)


def load(target: str) -> Any:
    """Return the object that `module:name` names; its module has been imported.

    Raises:
        AttributeError: there is no such object; the message suggests the closest name.
    """
    try:
        return pkgutil.resolve_name(target)
    except AttributeError as error:
        missing = error.name or target.partition(":")[2]
        place = target.replace(":", ".").rpartition(f".{missing}")[0]
        hint = _hint(missing, dir(error.obj))
        raise AttributeError(f"there is no {missing!r} in {place}{hint}") from None


def load_target(target: str) -> Callable[..., Any]:
    """Import the function that `module:function` names.

    Raises:
        ConfigError: the function cannot be imported, or is not callable; the problem names the file
            and line.
    """
    module_name, _, names = target.partition(":")
    try:
        module = load_module(module_name)
    except NamesakeError as error:
        text = f"target {target!r}: {error}"
        raise ConfigError([Problem(str(error.path), None, "", text)]) from None
    except (Exception, SystemExit) as error:  # the module may raise anything
        raise ConfigError([_import_problem(error, target)]) from error
    try:
        function = load(target)
    except Exception as error:  # the module's own `__getattr__` may raise anything
        raise target_problem(target, module, exception_text(error)) from error
    if not callable(function):
        kind = type(function).__name__
        raise target_problem(target, module, f"{names!r} is of type {kind}, which cannot be called")
    return function  # type: ignore[no-any-return]  # it was checked to be callable


def target_problems(target: str) -> Sequence[Problem]:
    """Import the function that `module:function` names; return its problems."""
    try:
        load_target(target)
    except ConfigError as error:
        return error.problems
    return ()


def _import_problem(error: BaseException, target: str) -> Problem:
    file = target.partition(":")[0]
    line = None
    if isinstance(error, SyntaxError) and error.filename:
        file = error.filename
        line = error.lineno
    else:
        for frame in traceback.extract_tb(error.__traceback__):
            if not frame.filename.startswith(("<frozen ", PACKAGE, importlib.__file__)):
                file = frame.filename
                line = frame.lineno
    message = f"importing it raised {one_line(describe_exception(error), 300)}"
    if isinstance(error, ModuleNotFoundError):
        top, dot, _ = (error.name or "").partition(".")
        if dot and top in sys.stdlib_module_names:
            message += f"; Python has a module {top!r} of its own: if this is yours, rename it"
        else:
            message += f"; is it installed for {sys.executable}?"
    return Problem(file, line, "", f"target {target!r}: {message}")


def target_problem(target: str, what: object, message: str) -> ConfigError:
    """Return the error of a target, at the place in the team's code where `what` is defined."""
    file = target.partition(":")[0]
    line = None
    with suppress(TypeError, OSError):  # it has no file, or the file cannot be read
        file = inspect.getfile(what)  # type: ignore[arg-type]
        if not inspect.ismodule(what):
            line = inspect.getsourcelines(what)[1]  # type: ignore[arg-type]
    return ConfigError([Problem(file, line, "", f"target {target!r}: {message}")])


def missing_target(target: str, folder: Path) -> str | None:
    """Return why `module:function` is not in the suite's folder, in the `code_folders` or among
    installed modules; None if it is.

    The module itself is read, not run; only its parent packages are imported. A name that the
    module may define while it runs, as with `from x import *`, counts as found.
    """
    name, _, names = target.partition(":")
    known: frozenset[str] | None = None
    try:
        file = _find_in(name, folder, code_folders())
        if file is not None:
            known = _names_in(file.read_bytes(), file.name)
    except ModuleNotFoundError:
        return _missing_module(name, folder)
    except NamesakeError as error:
        return str(error)
    except SyntaxError as error:
        place = f"{error.filename}:{error.lineno}"
        return f"importing {name!r} raises SyntaxError: {error.msg} ({place})"
    except (Exception, SystemExit) as error:  # noqa: BLE001  a package's own code may raise anything
        message = " ".join(describe_exception(error).split())
        return f"looking for module {name!r} raised {message}"
    wanted = names.partition(".")[0]
    if known is None or wanted in known:
        return None
    return f"there is no {wanted!r} in {name}{_hint(wanted, sorted(known))}"


def _missing_module(name: str, folder: Path) -> str:
    folders = code_folders()
    others = (*folders.named, *folders.usual)
    modules: list[str] = []
    for place in (folder, *others):
        with suppress(OSError):
            modules += [file.stem for file in place.glob("*.py")]
    places = ", ".join([str(folder), *(os.path.relpath(other, folder) for other in others)])
    remedy = _hint(name, modules)
    if not remedy:
        remedy = (
            "; install it, as in `pip install -e .`, or name its folder in `settings.pythonpath`"
        )
    return f"there is no module {name!r} in {places} or installed{remedy}"


# Many cases name the same module. Errors are not cached: the file may be written later.
@lru_cache(maxsize=256)
def _find_in(name: str, folder: Path, folders: CodeFolders) -> Path | None:
    """Return the Python file of a module; None for a package, or a module in another language."""
    with importable(folder, folders):
        spec = find_module(name)
    if spec is None:
        raise ModuleNotFoundError(name)
    if spec.submodule_search_locations or spec.origin is None:
        return None
    file = Path(spec.origin)
    if file.suffix != ".py":
        return None
    return file


_DYNAMIC = rb"\b(exec|globals|setattr|vars|__dict__|__getattr__|sys\.modules)\b|\bimport\s*\*"


@lru_cache(maxsize=16)
def _names_in(source: bytes, file: str) -> frozenset[str] | None:
    """Return the names that a module defines; None if it may define others while it runs.

    Raises:
        SyntaxError, ValueError: it is not valid Python; `file` is its name in the message.
    """
    module = symtable(source, file, "exec")  # type: ignore[arg-type]  # takes bytes as `compile` does
    if re.search(_DYNAMIC, source):
        return None
    names: set[str] = set()
    tables = [module]
    for table in tables:  # the loop extends the list
        for symbol in table.get_symbols():
            is_global = table is module or symbol.is_declared_global()
            if is_global and (symbol.is_assigned() or symbol.is_imported()):
                names.add(symbol.get_name())
        tables += table.get_children()
    return frozenset(names)


def _hint(name: str, known: list[str]) -> str:
    close = closest(name, known)
    if close is None:
        return ""
    return f", did you mean {close!r}?"


def target_parts(target: str) -> tuple[str, str] | None:
    """Split `module:function`, either of which may be dotted; None if the text has another form."""
    module, _, names = target.partition(":")
    parts = [*module.split("."), *names.split(".")]
    if all(map(str.isidentifier, parts)):
        return module, names
    return None


def target_of_file(reference: str) -> str | None:
    """Return the target of a reference such as `file://graders/polite.py:judge`; None for other
    text.
    """
    form = r"(?:file://|python:)?(?:\./)?(\w[\w/]*)\.py(?::(\w+))?"
    match = re.fullmatch(form, reference.strip())
    if match is None:
        return None
    module, function = match.groups(default="function")
    return f"{module.replace('/', '.')}:{function}"


def takes_text(target: str, folder: Path) -> bool:
    """Return True if the first parameter of `module:function` is annotated as `str`.

    The module is read, not run. Methods, and functions that the module imports, count as not
    annotated.
    """
    name, _, function = target.partition(":")
    try:
        file = _find_in(name, folder, code_folders())
        if file is None:
            return False
        module = ast.parse(file.read_bytes())
    except (Exception, SystemExit):  # noqa: BLE001  `missing_target` reports it
        return False
    for statement in module.body:
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        parameters = [*statement.args.posonlyargs, *statement.args.args]
        if statement.name == function and parameters and parameters[0].annotation is not None:
            return ast.unparse(parameters[0].annotation) in ("str", "'str'")
    return False


def annotated_as_text(function: Callable[..., Any]) -> bool:
    """Return True if the first parameter of a function is annotated as `str`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some builtins have no signature
        return False
    return bool(parameters) and parameters[0].annotation in (str, "str")


def has_second_parameter(
    function: Callable[..., Any], name: str, *, variadic: bool = False
) -> bool:
    """Return True if a function's second positional parameter is required, or is called `name`.

    If `variadic`, `*args` counts as well.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        return False
    positional = []
    for parameter in parameters:
        match parameter.kind:
            case parameter.VAR_POSITIONAL if variadic:
                return True
            case parameter.POSITIONAL_ONLY | parameter.POSITIONAL_OR_KEYWORD:
                positional.append(parameter)
    if len(positional) < 2:
        return False
    second = positional[1]
    return second.default is second.empty or second.name == name


def identity(function: object) -> str:
    """Return `module:function`, the same in every process; for other objects, `module:class`."""
    named: Any = function
    if not hasattr(function, "__qualname__"):
        named = type(function)
    module = getattr(named, "__module__", None) or "builtins"
    return f"{module}:{named.__qualname__}"
