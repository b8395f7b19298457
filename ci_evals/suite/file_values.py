"""Values that stand in files of their own: `{file: policy.md}`."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci_evals.errors import ConfigError, Problem
from ci_evals.suite.problems import Written
from ci_evals.suite.yaml import parse, read_text


def file_named(value: Any) -> str | None:
    """Return the path that a value names instead of standing there itself: a mapping with `file`
    alone.
    """
    if isinstance(value, Mapping) and set(value) == {"file"} and isinstance(value["file"], str):
        return str(value["file"])
    return None


def file_url(value: Any) -> str | None:
    """Return the path of a text that names a file in the way of other tools, `file://policy.md`;
    None for all else.
    """
    found = re.fullmatch(r"file://([^/\s]\S*)", value) if isinstance(value, str) else None
    return found[1] if found else None


def name_file(path: str) -> str:
    """Say how to name a file whose path stands as text where its content is meant."""
    return f"this is text; for what the file holds, write `{{file: {path}}}`"


class FileValues:
    """Reads values from files, each file once.

    Args:
        folder: where relative paths start.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, Any] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The files that were read."""
        return tuple(self._known)

    def fill(self, written: Written, problems: list[Problem]) -> Any:
        """Return a value; if it names a file, its content: data of .json, .yaml and .yml, any other
        as text.

        Args:
            written: the value.
            problems: gets what is wrong with the file.
        """
        name = file_named(written.value)
        if name is None:
            if path := file_url(written.value):
                problems.append(written.problem(name_file(path)))
            return written.value
        if name not in self._known:
            try:
                text = read_text(self.folder / name, name)
                is_data = name.endswith((".json", ".yaml", ".yml"))
                self._known[name] = parse(text, name, problems)[0] if is_data else text
            except ConfigError as error:
                problems += [
                    written["file"].problem(f"{each} (looked in {self.folder})")
                    for each in error.problems
                ]
                return None
        return self._known[name]
