"""`${NAME}` and `${NAME:-default}` from the environment and `.env`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from ci_evals.model.fields import Interpolated
from ci_evals.suite.nodes import Node, Reading, read_each
from ci_evals.suite.yaml import read_text

_REFERENCE = r"\$\$(?=\{)|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-(?P<value>[^}]*))?\}"


def read_dotenv(folder: Path) -> Mapping[str, str]:
    """Read the variables of `.env` next to the config and in the working folder; the first wins.

    Raises:
        ConfigError: a file cannot be read.
    """
    variables: dict[str, str] = {}
    for path in (Path(".env"), folder / ".env"):
        if not path.is_file():
            continue
        values = dotenv_values(stream=StringIO(read_text(path, path.as_posix())), interpolate=False)
        variables |= {name: value for name, value in values.items() if value is not None}
    return variables


@dataclass(frozen=True, slots=True)
class Interpolation:
    """Fills in references to variables, and records which ones were used.

    Args:
        environ: the variables; an empty value counts as not set, as in `${NAME:-default}` of the
            shell.
        offline: keep references to unset variables, because nothing will be called.
        verbatim: keep every text, because Python code can read the environment itself.
        used: the variables that were used, with their values, which reports must redact.
    """

    environ: Mapping[str, str]
    offline: bool = False
    verbatim: bool = False
    used: dict[str, str] = field(default_factory=dict)

    def fill(self, node: Node) -> Reading[Node]:
        """Replace references in every text inside a value; `$${` is a literal `${`.

        A variable that is not set and has no default is a problem.
        """
        if self.verbatim:
            return node
        value = yield from self._fill(node)
        return node.with_value(value)

    def _fill(self, node: Node) -> Reading[Any]:
        value = node.value
        if isinstance(value, str):
            if "${" not in value:
                return value
            return (yield from self._fill_text(node))
        if isinstance(value, dict):
            filled = {}
            for key in value:
                filled[key] = yield from self._fill(node[key])
            return filled
        if isinstance(value, list):
            return (yield from read_each(map(self._fill, node.items())))
        return value

    def _fill_text(self, node: Node) -> Reading[str]:
        names: list[str] = []
        unset: list[str] = []

        def value_of(match: re.Match[str]) -> str:
            name = match["name"]
            if name is None:
                return "$"
            names.append(name)
            value = self.environ.get(name)
            if value:
                self.used[name] = value
                return value
            if match["default"] is not None:
                return match["value"]
            if self.offline:
                return match[0]
            unset.append(name)
            return ""

        text = re.sub(_REFERENCE, value_of, node.value)
        for name in unset:
            text = (
                f"the variable {name} is not set: export it, or put it in .env next to the config"
            )
            # With a cause, a variable is reported once, however many places refer to it.
            yield node.problem(text)._replace(cause=name)
        if not names:
            return text
        return Interpolated(text, tuple(names))
