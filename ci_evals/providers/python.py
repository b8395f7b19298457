"""A function of the team's own, called in this process."""

import difflib
import importlib.util
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from ci_evals.providers.answer import one_line
from ci_evals.providers.base import Provider, ProviderOptions, Resources

_TARGET = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<names>[^\W\d]\w*(\.[^\W\d]\w*)*)")


class Python(ProviderOptions, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="python"):
    """Calls `module:function` with the case's input, and with the `Request` too if it asks for one.

    The function gets the request as second argument if it has a second positional parameter that is required or is
    called `request`. It may be async; otherwise it runs in a thread. It returns text, a mapping with `output` or
    `tool_calls`, or a `Response`. The config's folder is importable.

    Args:
        target: `module:function`, or `module:object.method`.
        factory: the target takes nothing and makes a fresh agent for each run, which is then called. A plain
            function or class makes it in a thread; an `async def` on the event loop.
    """

    retried: ClassVar[bool] = False  # the team's own code: what broke once is broken

    target: str
    factory: bool = False

    @property
    def default_name(self) -> str:
        return f"python:{self.target}"

    @property
    def own_code(self) -> bool:
        return True

    def problems(self, folder: Path) -> list[str]:
        parsed = _TARGET.fullmatch(self.target)
        if not parsed:
            return [f"target {self.target!r} is not of the form module:function, as in agent:answer"]
        return list(_module_problems(parsed["module"], folder))

    def open(self, resources: Resources) -> Provider:
        """Import the target.

        Raises:
            ConfigError: it cannot be imported, or cannot be called as documented.
        """
        from ci_evals.providers.callee import open_target

        return open_target(self.target, resources, factory=self.factory)


def _module_problems(module: str, folder: Path) -> Iterator[str]:
    """Look for the module without running it; only the packages that it lies in are imported."""
    try:
        with _importable(folder):
            found = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        found = False
    except (Exception, SystemExit) as error:  # noqa: BLE001  a package's own code raises what it likes
        yield f"target: looking for module {module!r} raised {type(error).__name__}: {one_line(str(error))}"
        return
    if not found:
        yield f"target: there is no module {module!r} in {folder} or installed{_suggestion(module, folder)}"


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    path = str(folder.absolute())
    importlib.invalidate_caches()
    sys.path.insert(0, path)
    try:
        yield
    finally:
        sys.path.remove(path)


def _suggestion(module: str, folder: Path) -> str:
    try:
        beside = [file.stem for file in folder.glob("*.py")]
    except OSError:
        beside = []
    close = difflib.get_close_matches(module, beside, n=1)
    return f", did you mean {close[0]!r}?" if close else ""
