"""`${NAME}` and `${NAME:-default}` from the environment and `.env`."""

import re
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any, Self

from ci_evals.config.source import Map, Seq, line_of, read_text

_REFERENCE = r"\$\$(?=\{)|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-(?P<value>[^}]*))?\}"

Report = Callable[[int | None, str, str], None]
"""Takes line, path and message of a problem."""


class Interpolated(str):
    """Text that holds the value of an environment variable; `names` are the variables."""

    __slots__ = ("names",)
    names: tuple[str, ...]

    def __new__(cls, text: str, names: tuple[str, ...]) -> Self:
        self = super().__new__(cls, text)
        self.names = names
        return self


def read_dotenv(folder: Path) -> Mapping[str, str]:
    """The variables of the `.env` file beside the config.

    Raises:
        ConfigError: the file cannot be read.
    """
    path = folder / ".env"
    if not path.is_file():
        return {}
    from dotenv import dotenv_values

    values = dotenv_values(stream=StringIO(read_text(path, path.as_posix())), interpolate=False)
    return {name: value for name, value in values.items() if value is not None}


class Interpolation:
    """Fills in references; `named` collects the variables that were used, with their values.

    Args:
        environ: where names are looked up; an empty value counts as not set, as in `${NAME:-default}` of the shell.
        report: is told of each variable that is not set and has no default.
        offline: leave references to such variables as they are: nothing will be called.
    """

    def __init__(self, environ: Mapping[str, str], report: Report, *, offline: bool = False) -> None:
        self.environ = environ
        self.report = report
        self.offline = offline
        self.named: dict[str, str] = {}

    def fill(self, value: Any, path: str, line: int | None) -> Any:
        """Replace references in every text inside `value`; `$${` stands for a literal `${`."""
        if isinstance(value, str):
            return self._text(value, path, line) if "${" in value else value
        if isinstance(value, Map):
            mapping = Map(value.line)
            mapping.lines = value.lines
            for key, item in value.items():
                mapping[key] = self.fill(item, f"{path}.{key}" if path else key, line_of(value, key))
            return mapping
        if isinstance(value, Seq):
            items = Seq(value.line)
            items.lines = value.lines
            items.extend(self.fill(item, f"{path}[{n}]", line_of(value, n)) for n, item in enumerate(value))
            return items
        return value

    def _text(self, text: str, path: str, line: int | None) -> str:
        names: list[str] = []

        def replace(match: re.Match[str]) -> str:
            name = match["name"]
            if name is None:
                return "$"
            names.append(name)
            if value := self.environ.get(name):
                self.named[name] = value
                return value
            if match["default"] is None and self.offline:
                return match[0]
            if match["default"] is None:
                self.report(
                    line, path, f"the variable {name} is not set: export it, or put it in .env beside the config"
                )
            return match["value"] or ""

        replaced = re.sub(_REFERENCE, replace, text)
        return Interpolated(replaced, tuple(names)) if names else replaced


class Verbatim(Interpolation):
    """Leaves every text as it is: code has the environment at hand."""

    def fill(self, value: Any, path: str, line: int | None) -> Any:  # noqa: ARG002  as above
        return value
