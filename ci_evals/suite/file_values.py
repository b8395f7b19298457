"""Values that are kept in files: `{file: policy.md}`."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci_evals.errors import ConfigError
from ci_evals.suite.nodes import Node, Reading
from ci_evals.suite.yaml import parse, read_text


def file_named(value: Any) -> str | None:
    """Return the path in `{file: path}`; None for any other value."""
    if isinstance(value, Mapping) and len(value) == 1:
        path = value.get("file")
        if isinstance(path, str):
            return path
    return None


def file_url(value: Any) -> str | None:
    """Return the path in a `file://policy.md`, as other tools write it; None for other values."""
    if not isinstance(value, str) or not value.startswith("file://"):
        return None
    url = re.fullmatch(r"file://([^/\s]\S*)", value)
    if url is None:
        return None
    return url[1]


def name_file(path: str) -> str:
    """Return a hint for a path in place of the file's content."""
    return f"this is text; for the file's content, write `{{file: {path}}}`"


class FileValues:
    """Reads values from files, each file once.

    Args:
        folder: where relative paths start.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._values: dict[str, Any] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The files that were read."""
        return tuple(self._values)

    def fill(self, node: Node) -> Reading[Any]:
        """Return a value or, if it names a file, the file's content; None if it cannot be read.

        .json, .yaml and .yml files hold data, other files text, without the final line feed.
        """
        name = file_named(node.value)
        if name is None:
            path = file_url(node.value)
            if path is not None:
                yield node.problem(name_file(path))
            return node.value
        if name not in self._values:
            try:
                text = read_text(self.folder / name, name)
                if not name.endswith((".json", ".yaml", ".yml")):
                    self._values[name] = text.removesuffix("\n")
                else:
                    self._values[name], _, problems = parse(text, name)
                    yield from problems
            except ConfigError as error:
                for problem in error.problems:
                    yield node["file"].problem(f"{problem} (looked in {self.folder})")
                return None
        return self._values[name]
