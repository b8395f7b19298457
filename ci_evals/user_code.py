"""Finds the team's own functions, `module:function` in the suite's folder, and calls them in
threads.
"""

import asyncio
import importlib.util
import inspect
import os
import pkgutil
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import lru_cache, partial
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from symtable import symtable
from threading import Thread
from types import ModuleType
from typing import Any

from ci_evals.errors import ConfigError, Problem, describe_exception
from ci_evals.format import closest, one_line

PACKAGE = f"{Path(__file__).parent}{os.sep}"
"""The start of the file names of ci-evals itself."""

_INSTALLED = tuple(
    sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_NOT_IMPORTED_BY_LIBRARIES = {"antigravity", "test", "this"}
_imported: dict[str, str] = {}  # the folder of each top-level module that a suite imported


class NamesakeError(ImportError):
    """Another module has already been loaded under the name of a module in the suite's folder."""


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Put a folder first on `sys.path`, as pytest and `python agent.py` do.

    A module that an earlier suite of this process imported from its own folder is unloaded if this
    folder has a module of the same name. If a file of the folder is named like a module of the
    standard library, Python's is imported first, so that a library that imports `queue` later gets
    Python's.
    """
    path = str(folder.absolute())
    importlib.invalidate_caches()
    for name, home in tuple(_imported.items()):
        if home != path and home not in sys.path and PathFinder.find_spec(name, [path]):
            del _imported[name]
            for module in tuple(sys.modules):
                if module == name or module.startswith(f"{name}."):
                    del sys.modules[module]
    with suppress(OSError):
        names = {entry.stem for entry in folder.iterdir()} & sys.stdlib_module_names
        for name in names - _NOT_IMPORTED_BY_LIBRARIES:
            with suppress(ImportError):  # this Python was built without it
                importlib.import_module(name)
    before = set(sys.modules)
    sys.path.insert(0, path)
    try:
        yield
    finally:
        with suppress(ValueError):  # code under test may have removed it
            sys.path.remove(path)
        for name in sys.modules.keys() - before:
            if "." not in name and _is_in(path, sys.modules[name]):
                _imported[name] = path


def _is_in(path: str, module: ModuleType) -> bool:
    spec: ModuleSpec | None = getattr(module, "__spec__", None)
    if spec is None:
        return False
    places = list(spec.submodule_search_locations or ()) or [spec.origin or ""]
    return str(Path(places[0]).parent) == path


def find_module(name: str) -> ModuleSpec | None:
    """Return the spec of a module without running it; the packages around it are imported.

    Raises:
        NamesakeError: another module was loaded under its name.
        Exception: whatever the packages raise.
    """
    importlib.invalidate_caches()
    top = name.partition(".")[0]
    first, spec = PathFinder.find_spec(top), importlib.util.find_spec(top)
    if first and first.origin and spec and not _is_same_file(first.origin, spec.origin):
        raise NamesakeError(
            f"a module {top!r} was already loaded from {spec.origin or 'elsewhere'}: give one of them another name",
            path=first.origin,
        )
    return importlib.util.find_spec(name)


def _is_same_file(one: str, other: str | None) -> bool:
    return other is not None and Path(one).resolve() == Path(other).resolve()


def load_module(name: str) -> ModuleType:
    """Import a module that a suite names.

    Raises:
        NamesakeError: another module was loaded under its name.
        Exception: whatever the module raises.
    """
    find_module(name)
    return importlib.import_module(name)


def load(target: str) -> Any:
    """Return the object that `module:name` names; its module has been imported.

    Raises:
        AttributeError: there is no such object; the message suggests the closest name.
    """
    try:
        return pkgutil.resolve_name(target)
    except AttributeError as error:
        missing = error.name or target.partition(":")[2]
        where = target.replace(":", ".").rpartition(f".{missing}")[0]
        raise AttributeError(
            f"there is no {missing!r} in {where}{_hint(missing, dir(error.obj))}"
        ) from None


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
        raise ConfigError(
            [Problem(str(error.path), None, "", f"target {target!r}: {error}")]
        ) from None
    except (Exception, SystemExit) as error:  # the module may raise anything
        raise ConfigError([_import_problem(error, target)]) from error
    try:
        function = load(target)
    except Exception as error:  # a `__getattr__` of the team's own may raise anything, too
        raise target_problem(target, module, str(error)) from error
    if not callable(function):
        raise target_problem(
            target,
            module,
            f"{names!r} is of type {type(function).__name__}, which cannot be called",
        )
    return function  # type: ignore[no-any-return]  # it is whatever the module has


def is_their_own(file: str) -> bool:
    """Return True for the file of code of the team's own: neither ci-evals nor anything that is
    installed.
    """
    return not file.startswith(("<", PACKAGE, *_INSTALLED)) and "site-packages" not in file


def describe_crash(error: BaseException, place: str = "") -> str:
    """Return what was raised and where the team's code raised it: `KeyError: 'seat' (agent.py:12 in
    book)`.

    Of an exception group, each cause is told.

    Args:
        error: what was raised.
        place: where, if its traceback has no code outside of installed packages.
    """
    frames = [
        each for each in traceback.extract_tb(error.__traceback__) if is_their_own(each.filename)
    ]
    if frames:
        last, folder = frames[-1], f"{Path.cwd()}{os.sep}"
        place = f" ({last.filename.removeprefix(folder)}:{last.lineno} in {last.name})"
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(describe_crash(each, place) for each in error.exceptions))
    return f"{describe_exception(error)}{place}"


def describe_stack(error: BaseException) -> str:
    """Return the traceback of what was raised, from the team's code on; all of it if there is none
    of theirs.
    """
    stack = error.__traceback__
    while stack is not None and not is_their_own(stack.tb_frame.f_code.co_filename):
        stack = stack.tb_next
    shown = traceback.TracebackException(type(error), error, stack or error.__traceback__)
    return "".join(shown.format())


def _import_problem(error: BaseException, target: str) -> Problem:
    file, line = target.partition(":")[0], None
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno
    else:
        for frame in traceback.extract_tb(error.__traceback__):
            if not frame.filename.startswith(("<frozen ", PACKAGE, importlib.__file__)):
                file, line = frame.filename, frame.lineno
    hint = (
        f"; is it installed for {sys.executable}?" if isinstance(error, ModuleNotFoundError) else ""
    )
    message = f"importing it raised {type(error).__name__}: {one_line(str(error), 300)}{hint}"
    return Problem(file, line, "", f"target {target!r}: {message}")


def target_problem(target: str, what: object, message: str) -> ConfigError:
    """Return the error of a target, at the place in the team's code where `what` is defined."""
    file, line = target.partition(":")[0], None
    try:
        file = inspect.getfile(what)  # type: ignore[arg-type]  # raises TypeError for what has no file
        line = None if inspect.ismodule(what) else inspect.getsourcelines(what)[1]  # type: ignore[arg-type]
    except (TypeError, OSError):
        pass
    return ConfigError([Problem(file, line, "", f"target {target!r}: {message}")])


def missing_target(target: str, folder: Path) -> str | None:
    """Say why `module:function` can't be found in the suite's folder or among the installed
    modules; None if it can.

    The module itself is not run, it is read; only the packages around it are imported. A name that
    may come about as it runs, as by `from x import *`, counts as found.
    """
    name, _, names = target.partition(":")
    try:
        file = _find_in(name, folder)
        known = _names_in(file.read_bytes(), file.name) if file else None
    except ModuleNotFoundError:
        try:
            beside = [file.stem for file in folder.glob("*.py")]
        except OSError:
            beside = []
        return f"there is no module {name!r} in {folder} or installed{_hint(name, beside)}"
    except NamesakeError as error:
        return str(error)
    except SyntaxError as error:
        return (
            f"importing {name!r} raises SyntaxError: {error.msg} ({error.filename}:{error.lineno})"
        )
    except (Exception, SystemExit) as error:  # noqa: BLE001  a package's own code raises what it likes
        return f"looking for module {name!r} raised {type(error).__name__}: {' '.join(str(error).split())}"
    wanted = names.partition(".")[0]
    if known is None or wanted in known:
        return None
    return f"there is no {wanted!r} in {name}{_hint(wanted, sorted(known))}"


@lru_cache(
    maxsize=256
)  # many cases name the same module; an error is not cached, as the file may be written later
def _find_in(name: str, folder: Path) -> Path | None:
    """Return the Python file of a module; None for a package, and for what is written in another
    language.
    """
    with importable(folder):
        spec = find_module(name)
        if spec is None:
            raise ModuleNotFoundError(name)
        is_file = (
            spec.origin is not None
            and spec.origin.endswith(".py")
            and not spec.submodule_search_locations
        )
        return Path(str(spec.origin)) if is_file else None


_DYNAMIC = re.compile(
    rb"\b(exec|globals|setattr|vars|__dict__|__getattr__|sys\.modules)\b|\bimport\s*\*"
)


@lru_cache(maxsize=16)
def _names_in(source: bytes, file: str) -> frozenset[str] | None:
    """Return the names that a module defines; None if it may get others as it runs.

    Raises:
        SyntaxError, ValueError: it is no Python; `file` is its name in the message.
    """
    module = symtable(source, file, "exec")  # type: ignore[arg-type]  # takes bytes as `compile` does
    if _DYNAMIC.search(source):
        return None
    names: set[str] = set()
    tables = [module]
    for table in tables:  # which grows
        for symbol in table.get_symbols():
            if (symbol.is_assigned() or symbol.is_imported()) and (
                table is module or symbol.is_declared_global()
            ):
                names.add(symbol.get_name())
        tables += table.get_children()
    return frozenset(names)


def _hint(name: str, known: list[str]) -> str:
    close = closest(name, known)
    return f", did you mean {close!r}?" if close else ""


def target_parts(target: str) -> tuple[str, str] | None:
    """Split `module:function`, either of which may be dotted; None if the text has another form."""
    module, _, names = target.partition(":")
    is_target = all(part.isidentifier() for part in (*module.split("."), *names.split(".")))
    return (module, names) if is_target else None


def target_of_file(reference: str) -> str | None:
    """Return the target that is meant by a file, with or without a function: `file://graders/polite.py:judge`."""
    found = re.fullmatch(
        r"(?:file://|python:)?(?:\./)?(\w[\w/]*)\.py(?::(\w+))?", reference.strip()
    )
    return f"{found[1].replace('/', '.')}:{found[2] or 'function'}" if found else None


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
    if variadic and any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return True
    second = [
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ][1:2]
    return any(each.default is each.empty or each.name == name for each in second)


def identity(function: object) -> str:
    """Return `module:function`, the same in every process; for an object, that of its class."""
    named: Any = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', None) or 'builtins'}:{named.__qualname__}"


def is_cancelling() -> bool:
    """Return True if the running task is being cancelled; if not, the team's code raised a
    `CancelledError` itself.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def is_async(function: Any) -> bool:
    """Return True if calling a function, or an object like one, gives a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    )


async def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call one of the team's functions and return its result: an async one as it is, any other in a
    thread.
    """
    return await (
        function(*arguments)
        if is_async(function)
        else call_in_thread(partial(function, *arguments))
    )


async def call_in_thread(call: Callable[[], Any]) -> Any:
    """Run a blocking call in a daemon thread, with the caller's context, and return its result.

    An awaitable result is awaited on the event loop. When the caller is cancelled, the thread goes
    on by itself; it does not keep the program from exiting.

    Raises:
        RuntimeError: the system allows no more threads.
        BaseException: whatever the call raises.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = copy_context()

    def deliver(value: Any, error: BaseException | None) -> None:
        if not ended.done():
            ended.set_result((value, error))
        elif inspect.iscoroutine(value):
            value.close()  # the caller gave up, and a coroutine that is never awaited warns

    def work() -> None:
        value, error = None, None
        try:
            value = context.run(call)
        except BaseException as raised:  # noqa: BLE001  the team's code: the caller decides what it means
            error = raised
        try:
            loop.call_soon_threadsafe(deliver, value, error)
        except RuntimeError:  # the loop is closed: nobody is waiting
            if inspect.iscoroutine(value):
                value.close()

    Thread(target=work, name="ci-evals-call", daemon=True).start()
    value, error = await ended
    if error is not None:
        raise error
    return await value if inspect.isawaitable(value) else value
