"""The team's own functions: their folders, finding `module:function` there, and calling it."""

import ast
import asyncio
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import shlex
import signal
import socket
import sys
import sysconfig
import threading
import tomllib
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from symtable import symtable
from types import ModuleType
from typing import Any

from ci_evals.errors import CiEvalsError, ConfigError, Problem, describe_exception
from ci_evals.format import closest, one_line

CALL_THREAD = "ci-evals-call"
"""The name of each thread that calls a function."""

PACKAGE = f"{Path(__file__).parent}{os.sep}"
"""The start of the file names of ci-evals itself."""

CODE_IN_SUITE = "<python>"
"""The file name of code that is written in a suite."""

_NOT_IMPORTED_BY_LIBRARIES = {"antigravity", "test", "this"}
_homes: dict[str, str] = {}
"""The folder of each top-level module that a suite imported."""
_imports: list[str] = []
"""The modules that `load_module` is importing in the main thread."""


@dataclass(frozen=True, slots=True)
class CodeFolders:
    """The folders that may hold a suite's code, besides its own folder.

    Args:
        named: those that the suite or the project names; they come before what is installed.
        usual: those of the repository; they come after what is installed, and so hide nothing.
    """

    named: tuple[Path, ...] = ()
    usual: tuple[Path, ...] = ()


def find_code_folders(folder: Path, pythonpath: Sequence[str]) -> CodeFolders:
    """Return the folders of a suite's code.

    They are those of `pythonpath`. Without any, they are those that pytest is told of, the
    project's folder, the repository's root, and `src` in both; none of them is outside of the
    repository, and no link leads there. The project is that of the nearest `pyproject.toml`.

    Args:
        folder: the suite's.
        pythonpath: the suite's, relative to its folder.
    """
    own = folder.resolve()
    if pythonpath:
        return CodeFolders(tuple(Path(os.path.normpath(own / each)) for each in pythonpath))
    above = (own, *own.parents)
    root = next((each for each in above if (each / ".git").exists()), None)
    if root is None:
        return CodeFolders()
    inside = above[: above.index(root) + 1]
    project = next((each for each in inside if (each / "pyproject.toml").is_file()), root)
    named = [path for path in _pytest_folders(inside) if path.is_relative_to(root)]
    known = (own, *named)
    usual = dict.fromkeys((project, project / "src", root, root / "src"))
    others = [path for path in usual if path not in known and _is_folder_of(root, path)]
    return CodeFolders(tuple(named), tuple(others))


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
    """Return the `pythonpath` of pytest's settings, which are those of the first folder with any;
    nothing if pytest would not take it.
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
                return [(folder / each).resolve() for each in named]
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
    """Make these the `code_folders` while the context lasts, in which a suite is loaded."""
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
    """Put a suite's folder first on `sys.path`, as pytest and `python agent.py` do, and the other
    folders of its code in their places.

    A module that an earlier suite of this process imported from its own folder is unloaded if these
    folders have a module of the same name. A module of the standard library that a file of the
    folder hides, such as `queue.py`, is imported first, so that libraries still get it.
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
            found_in = _home_of(sys.modules[name])
            if found_in in added:
                _homes[name] = found_in


def _import_hidden(folder: Path) -> None:
    """Import the modules of the standard library that files of a folder hide."""
    try:
        names = {entry.stem for entry in folder.iterdir()}
    except OSError:
        return
    hidden = names & sys.stdlib_module_names
    for name in hidden - _NOT_IMPORTED_BY_LIBRARIES:
        with suppress(ImportError):  # this Python was built without it
            importlib.import_module(name)


def _unload(name: str) -> None:
    del _homes[name]
    for module in tuple(sys.modules):
        if module == name or module.startswith(f"{name}."):
            del sys.modules[module]


def _home_of(module: ModuleType) -> str:
    """Return the folder in which a top-level module is; empty if it is in none."""
    spec: ModuleSpec | None = getattr(module, "__spec__", None)
    if spec is None:
        return ""
    place = spec.origin or ""
    if spec.submodule_search_locations:
        place = next(iter(spec.submodule_search_locations))
    return str(Path(place).parent)


class NamesakeError(ImportError):
    """Another module has already been loaded under the name of a module in the suite's folder."""


def find_module(name: str) -> ModuleSpec | None:
    """Return the spec of a module without running it; the packages around it are imported.

    Raises:
        NamesakeError: another module was loaded under its name.
        Exception: whatever the packages raise.
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
        file = str(folder)  # a module hides a folder without __init__.py wherever it is
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
        Exception: whatever the module raises.
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
    """Return True while the main thread imports a module of a suite, which a signal may end."""
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
    except Exception as error:  # a `__getattr__` of the team's own may raise anything, too
        raise target_problem(target, module, str(error)) from error
    if not callable(function):
        kind = type(function).__name__
        raise target_problem(target, module, f"{names!r} is of type {kind}, which cannot be called")
    return function  # type: ignore[no-any-return]  # it is whatever the module has


def target_problems(target: str) -> Sequence[Problem]:
    """Import the function that `module:function` names; return why it cannot be called, if so."""
    try:
        load_target(target)
    except ConfigError as error:
        return error.problems
    return ()


def is_their_own(file: str) -> bool:
    """Return True for a file of the team's own code: neither ci-evals nor anything installed."""
    if "site-packages" in file:
        return False
    return not file.startswith(("<", PACKAGE, *_installed_folders()))


@cache
def _installed_folders() -> tuple[str, ...]:
    """Return the folders of the standard library and of installed packages."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple(sysconfig.get_path(name) + os.sep for name in names)


def is_setup_error(error: BaseException) -> bool:
    """Return True if an error is not about the data that code was given: a module is missing or
    cannot be parsed, a service does not answer, or it is one of ours that the user can fix.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_setup_error, error.exceptions))
    if isinstance(error, ImportError):
        return _lacks_module(error)
    unrelated = (ConnectionError, TimeoutError, socket.gaierror, CiEvalsError)
    if isinstance(error, unrelated):
        return True
    if isinstance(error, SyntaxError) and error.filename:
        return Path(error.filename).is_file()  # else it is of a text, such as the answer
    cause = error.__cause__
    if cause is None and isinstance(error, OSError):
        cause = error.__context__  # urllib and requests raise errors of their own
    return cause is not None and is_setup_error(cause)


def _lacks_module(error: ImportError) -> bool:
    """Return True if a file or the code of the suite imports what is not there.

    An answer that is executed may import anything, and code may raise the error by hand.
    """
    if error.name is None:
        return False
    frames = traceback.extract_tb(error.__traceback__)
    importing = [each.filename for each in frames if not each.filename.startswith("<frozen ")]
    if not importing:
        return True
    return importing[-1] == CODE_IN_SUITE or not importing[-1].startswith("<")


def describe_crash(error: BaseException, place: str = "") -> str:
    """Return what was raised and where: `KeyError: 'seat' (agent.py:12 in book)`, or of code in the
    suite `(line 2)`.

    Each exception of a group is described.

    Args:
        error: what was raised.
        place: where, if its traceback has no code of the team's own.
    """
    here = f"{Path.cwd()}{os.sep}"
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == CODE_IN_SUITE:
            place = f" (line {frame.lineno})"
        elif is_their_own(frame.filename):
            file = frame.filename.removeprefix(here)
            place = f" ({file}:{frame.lineno} in {frame.name})"
    if isinstance(error, BaseExceptionGroup):
        causes = [describe_crash(each, place) for each in error.exceptions]
        return "; ".join(dict.fromkeys(causes))
    return f"{describe_exception(error)}{place}"


def describe_stack(error: BaseException) -> str:
    """Return a traceback from the team's own code on; all of it if there is none of theirs."""
    stack = error.__traceback__
    while stack is not None:
        file = stack.tb_frame.f_code.co_filename
        if file == CODE_IN_SUITE or is_their_own(file):
            break
        stack = stack.tb_next
    shown = traceback.TracebackException(type(error), error, stack or error.__traceback__)
    return "".join(shown.format())


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
    message = f"importing it raised {type(error).__name__}: {one_line(str(error), 300)}"
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
    with suppress(TypeError, OSError):  # it has no file, or none that can be read
        file = inspect.getfile(what)  # type: ignore[arg-type]
        if not inspect.ismodule(what):
            line = inspect.getsourcelines(what)[1]  # type: ignore[arg-type]
    return ConfigError([Problem(file, line, "", f"target {target!r}: {message}")])


def missing_target(target: str, folder: Path) -> str | None:
    """Say why `module:function` is not in the suite's folder, in the `code_folders` or among
    installed modules; None if it is.

    The module itself is read and not run; only the packages around it are imported. A name that may
    come about as it runs, as by `from x import *`, counts as found.
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
    except (Exception, SystemExit) as error:  # noqa: BLE001  a package's own code raises what it likes
        message = " ".join(str(error).split())
        return f"looking for module {name!r} raised {type(error).__name__}: {message}"
    wanted = names.partition(".")[0]
    if known is None or wanted in known:
        return None
    return f"there is no {wanted!r} in {name}{_hint(wanted, sorted(known))}"


def _missing_module(name: str, folder: Path) -> str:
    folders = code_folders()
    others = (*folders.named, *folders.usual)
    modules: list[str] = []
    for each in (folder, *others):
        with suppress(OSError):
            modules += [file.stem for file in each.glob("*.py")]
    places = ", ".join([str(folder), *(os.path.relpath(each, folder) for each in others)])
    remedy = _hint(name, modules)
    if not remedy:
        remedy = "; install it, as in `pip install -e .`, or name its folder in `pythonpath:`"
    return f"there is no module {name!r} in {places} or installed{remedy}"


# Many cases name the same module. An error is not cached, as the file may be written later.
@lru_cache(maxsize=256)
def _find_in(name: str, folder: Path, folders: CodeFolders) -> Path | None:
    """Return the Python file of a module; None for a package or what is not written in Python."""
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
    """Return the names that a module defines; None if it may get others as it runs.

    Raises:
        SyntaxError, ValueError: it is no Python; `file` is its name in the message.
    """
    module = symtable(source, file, "exec")  # type: ignore[arg-type]  # takes bytes as `compile` does
    if re.search(_DYNAMIC, source):
        return None
    names: set[str] = set()
    tables = [module]
    for table in tables:  # which grows
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
    """Return the target that a file stands for, such as `file://graders/polite.py:judge`."""
    form = r"(?:file://|python:)?(?:\./)?(\w[\w/]*)\.py(?::(\w+))?"
    found = re.fullmatch(form, reference.strip())
    if found is None:
        return None
    module, function = found.groups(default="function")
    return f"{module.replace('/', '.')}:{function}"


def takes_text(target: str, folder: Path) -> bool:
    """Return True if the first parameter of `module:function` is annotated as `str`.

    The module is read and not run. Of a method, and of a function that is not written in the
    module itself, nothing is known.
    """
    name, _, function = target.partition(":")
    try:
        file = _find_in(name, folder, code_folders())
        if file is None:
            return False
        module = ast.parse(file.read_bytes())
    except (Exception, SystemExit):  # noqa: BLE001  `missing_target` says what is wrong with it
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

    If `variadic`, a function that takes `*args` has one, too.
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
    """Return `module:function`, the same in every process; for an object, that of its class."""
    named: Any = function
    if not hasattr(function, "__qualname__"):
        named = type(function)
    module = getattr(named, "__module__", None) or "builtins"
    return f"{module}:{named.__qualname__}"


def ends_work(error: BaseException) -> bool:
    """Return True if an exception ends the run: it was cancelled, or somebody pressed Ctrl-C.

    The team's own code may raise the same exceptions by itself, as it may raise any other.
    """
    if not isinstance(error, asyncio.CancelledError | GeneratorExit | KeyboardInterrupt):
        return False
    task = asyncio.current_task()
    if task is None or task.cancelling():
        return True
    if not isinstance(error, KeyboardInterrupt):
        return False
    # Only Python's own handler raises it, in the main thread; ours and asyncio's cancel a task.
    if threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def is_async(function: Any) -> bool:
    """Return True if calling a function, or an object like one, gives a coroutine."""
    if inspect.iscoroutinefunction(function):
        return True
    return inspect.iscoroutinefunction(type(function).__call__)


@asynccontextmanager
async def time_limit(timeout_s: float, error: Exception) -> AsyncIterator[None]:
    """Raise `error` if the block takes longer. A TimeoutError of its own gets through."""
    scope = asyncio.timeout(timeout_s)
    try:
        async with scope:
            yield
    except TimeoutError:
        if scope.expired():
            raise error from None
        raise


async def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call one of the team's functions, in a thread unless it is async, and return its result."""
    if is_async(function):
        return await function(*arguments)
    return await call_in_thread(partial(function, *arguments))


async def call_in_thread(call: Callable[[], Any]) -> Any:
    """Run a blocking call in a daemon thread, with the caller's context, and return its result.

    An awaitable result is awaited on the event loop. If the caller is cancelled, the thread goes on
    by itself; it does not keep the program from exiting.

    Raises:
        RuntimeError: the system allows no more threads.
        BaseException: whatever the call raises.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = copy_context()

    def deliver(value: Any, error: BaseException | None) -> None:
        if ended.done():
            _discard(value)  # the caller gave up
        else:
            ended.set_result((value, error))

    def work() -> None:
        value = None
        error = None
        try:
            value = context.run(call)
        except BaseException as raised:  # noqa: BLE001  the team's code: the caller decides what it means
            error = raised
        try:
            loop.call_soon_threadsafe(deliver, value, error)
        except RuntimeError:  # the loop is closed: nobody is waiting
            _discard(value)

    threading.Thread(target=work, name=CALL_THREAD, daemon=True).start()
    try:
        value, error = await ended
    except asyncio.CancelledError:
        if ended.done() and not ended.cancelled():  # it came as the caller gave up
            _discard(ended.result()[0])
        raise
    if error is not None:
        raise error
    if inspect.isawaitable(value):
        return await value
    return value


def _discard(value: Any) -> None:
    """Close a coroutine that nobody will await, as Python would warn of it."""
    if inspect.iscoroutine(value):
        value.close()
