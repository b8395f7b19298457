"""`${NAME}` and `${NAME:-default}` from the environment and `.env`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from ci_evals.errors import Problem
from ci_evals.model.fields import Interpolated
from ci_evals.suite.problems import Written
from ci_evals.suite.yaml import read_text

_REFERENCE = r"\$\$(?=\{)|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-(?P<value>[^}]*))?\}"


def read_dotenv(folder: Path) -> Mapping[str, str]:
    """Read the variables of the `.env` file beside the config.

    Raises:
        ConfigError: the file cannot be read.
    """
    path = folder / ".env"
    if not path.is_file():
        return {}
    values = dotenv_values(stream=StringIO(read_text(path, path.as_posix())), interpolate=False)
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Interpolation:
    """Fills in references to variables.

    Args:
        environ: where names are looked up; an empty value counts as not set, as in
            `${NAME:-default}` of the shell.
        problems: gets each variable that is not set and has no default.
        offline: leave references to such variables as they are: nothing will be called.
        verbatim: leave every text as it is: Python code has the environment at hand.
        named: gets the variables that were used, with their values.
    """

    environ: Mapping[str, str]
    problems: list[Problem]
    offline: bool = False
    verbatim: bool = False
    named: dict[str, str] = field(default_factory=dict)

    def fill(self, written: Written) -> Written:
        """Replace references in every text inside a value; `$${` stands for a literal `${`."""
        return written if self.verbatim else written.having(self._fill(written))

    def _fill(self, written: Written) -> Any:
        value = written.value
        if isinstance(value, str):
            return self._text(written) if "${" in value else value
        if isinstance(value, dict):
            return {key: self._fill(written[key]) for key in value}
        if isinstance(value, list):
            return [self._fill(item) for item in written.items()]
        return value

    def _text(self, written: Written) -> str:
        names: list[str] = []

        def value_of(match: re.Match[str]) -> str:
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
                text = f"the variable {name} is not set: export it, or put it in .env beside the config"
                self.problems.append(written.problem(text))
            return match["value"] or ""

        replaced = re.sub(_REFERENCE, value_of, written.value)
        return Interpolated(replaced, tuple(names)) if names else replaced
