"""Files of other tools: their values with lines, and their comments."""

import csv
import os
import re
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import yaml
from pydantic_core import from_json

from ci_evals.errors import ConfigError, Problem
from ci_evals.suite.nodes import Node
from ci_evals.suite.yaml import Lines, parse, read_text


@dataclass(slots=True)
class Source:
    """A file of another tool.

    Args:
        path: the file.
        shown: its name in messages.
        folder: of the suite that is made: where its relative paths start.
        written: what it holds; rows of CSV and JSONL are a list.
        comments: by the line that they stand before or beside; taken out as they find their place.
    """

    path: Path
    shown: str
    folder: Path
    written: Node
    comments: dict[int, list[str]] = field(default_factory=dict)

    def relative(self, name: str) -> str:
        """Return a path that starts at this file as one that starts at the suite."""
        return Path(os.path.relpath(self.path.parent / name, self.folder)).as_posix()

    def take_comments(self, first: int | None, last: int | None = None) -> str | None:
        """Return and forget the comments of a range of lines."""
        if first is None:
            return None
        numbers = [number for number in self.comments if first <= number <= (last or first)]
        return (
            "\n".join(line for number in sorted(numbers) for line in self.comments.pop(number))
            or None
        )

    def find(self, name: str) -> list[str]:
        """Return the files of a path or glob that starts at this file.

        Raises:
            ConfigError: there is none.
        """
        if not any(sign in name for sign in "*?["):
            return [name]
        found = [
            path.relative_to(self.path.parent).as_posix()
            for path in sorted(self.path.parent.glob(name))
        ]
        if not found:
            raise ConfigError([Problem(self.shown, None, "", f"no file matches {name!r}")])
        return found

    def read_text(self, name: str) -> str:
        """Return the text of another file that this one names.

        Raises:
            ConfigError: it cannot be read.
        """
        return read_text(self.path.parent / name, self.relative(name))

    def read(self, name: str) -> "Source":
        """Return another file that this one names.

        Raises:
            ConfigError: it cannot be read.
        """
        path = self.path.parent / name
        return read_source(path, self.relative(name), self.folder)


def read_source(path: Path, shown: str, folder: Path) -> Source:
    """Read a file of another tool.

    Args:
        path: a file of YAML, JSON, JSONL or CSV.
        shown: its name in messages.
        folder: of the suite that is made.

    Raises:
        ConfigError: it cannot be read.
    """
    text = read_text(path, shown)
    comments: dict[int, list[str]] = {}
    match path.suffix.lower():
        case ".jsonl" | ".ndjson":
            value, lines = _jsonl(text, shown)
        case ".csv":
            value, lines = _csv(text, shown)
        case suffix:
            value, lines, problems = parse(text, shown)
            if problems:
                raise ConfigError(problems)
            if suffix != ".json":
                comments = _comments(text)
    return Source(path, shown, folder, Node(value, lines, shown), comments)


def last_line(lines: Lines) -> int:
    """Return the last line in which something of a value begins."""
    inner = (last_line(each) if isinstance(each, Lines) else each for each in lines.inside.values())
    return max((lines.line or 0, *inner))


def _jsonl(text: str, shown: str) -> tuple[list[Any], Lines]:
    rows, numbers = [], []
    for number, line in enumerate(
        text.split("\n"), 1
    ):  # only these end a line: JSON may have U+2028 in a text
        if line.strip():
            try:
                rows.append(from_json(line))
            except ValueError as error:
                raise ConfigError(
                    [Problem(shown, number, "", f"not a line of JSON: {error}")]
                ) from None
            numbers.append(number)
    return rows, Lines(1, {index: Lines(number) for index, number in enumerate(numbers)})


def _csv(text: str, shown: str) -> tuple[list[Any], Lines]:
    reader = csv.reader(StringIO(text, newline=""))
    try:
        columns = [column.strip() for column in next(reader, [])]
        rows, numbers, line = [], [], reader.line_num + 1
        for cells in reader:
            if any(cells):
                rows.append(dict(zip(columns, cells, strict=False)))
                numbers.append(line)
            line = reader.line_num + 1
    except csv.Error as error:
        raise ConfigError(
            [Problem(shown, reader.line_num, "", f"not valid CSV: {error}")]
        ) from None
    return rows, Lines(1, {index: Lines(number) for index, number in enumerate(numbers)})


def _comments(text: str) -> dict[int, list[str]]:
    """Return the comments of a YAML text by the line that they stand before or beside."""
    in_text: set[int] = set()
    ends: dict[int, int] = {}
    for token in yaml.scan(text):
        if isinstance(token, yaml.ScalarToken) and token.start_mark and token.end_mark:
            last = token.end_mark.line - (1 if token.style in ("|", ">") else 0)
            in_text.update(range(token.start_mark.line + 1, last + 1))
        if token.end_mark:
            ends[token.end_mark.line] = max(ends.get(token.end_mark.line, 0), token.end_mark.column)
    found: dict[int, list[str]] = {}
    waiting: list[str] = []
    for index, line in enumerate(text.splitlines()):
        if index in in_text:
            continue
        if line.lstrip().startswith("#"):
            waiting += _worth_keeping(line.lstrip())
        elif line.strip():
            beside = re.search(r"(?:^|\s)(#.*)", line[ends.get(index, len(line)) :])
            if kept := waiting + (_worth_keeping(beside[1]) if beside else []):
                found[index + 1] = kept
            waiting = []
    if waiting:
        found[len(text.splitlines()) + 1] = waiting
    return found


def _worth_keeping(comment: str) -> list[str]:
    text = comment.removeprefix("#").removeprefix(" ").rstrip()
    return [text] if text and not text.startswith("yaml-language-server") else []
