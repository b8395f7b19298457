"""The team's own functions by their `module:function`: whether the module is there, and what is in it."""

from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ci_evals.folder_modules import importable, named_spec


def module_problem(module: str, folder: Path) -> str | None:
    """What keeps a module from being found in the config's folder or among what is installed.

    The module itself is not run; only the packages that it lies in are imported.
    """
    try:
        _find(module, folder)
    except ModuleNotFoundError:
        return f"there is no module {module!r} in {folder} or installed{_hint(module, _beside(folder))}"
    except (Exception, SystemExit) as error:  # noqa: BLE001  a package's own code raises what it likes
        what = " ".join(str(error).split())
        return f"looking for module {module!r} raised {type(error).__name__}: {what}"
    return None


def target_parts(target: str) -> tuple[str, str] | None:
    """The module and the name in it of `module:function`, either of them dotted or not; None if it is no such text."""
    module, _, names = target.partition(":")
    is_target = all(part.isidentifier() for part in (*module.split("."), *names.split(".")))
    return (module, names) if is_target else None


def member(module: ModuleType, target: str) -> Any:
    """What a module has under the dotted name at the end of `module:name`.

    Raises:
        AttributeError: it has nothing of that name, with the closest that it has.
    """
    found: Any = module
    where, _, names = target.partition(":")
    for name in names.split("."):
        if not hasattr(found, name):
            raise AttributeError(f"there is no {name!r} in {where}{_hint(name, dir(found))}")
        found = getattr(found, name)
        where = f"{where}.{name}"
    return found


def identity(function: object) -> str:
    """`module:function`, the same in every process; for an object, its class."""
    named: Any = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', None) or 'builtins'}:{named.__qualname__}"


def asked_to_stop() -> bool:
    """Whether the running task is being cancelled, rather than the team's code having tripped over its own."""
    from asyncio import current_task

    task = current_task()
    return task is None or task.cancelling() > 0


@lru_cache(maxsize=256)
def _find(module: str, folder: Path) -> None:
    """Raises ModuleNotFoundError, which is not cached: the file may be written in the meantime."""
    with importable(folder):
        if named_spec(module) is None:
            raise ModuleNotFoundError(module)


def _beside(folder: Path) -> list[str]:
    try:
        return [file.stem for file in folder.glob("*.py")]
    except OSError:
        return []


def _hint(name: str, known: list[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, known, n=1)
    return f", did you mean {close[0]!r}?" if close else ""
