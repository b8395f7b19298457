"""Reads files of other tools: their values with lines, and their comments."""

import csv
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import yaml
from pydantic_core import from_json

from ci_evals.errors import ConfigError, Problem
from ci_evals.plugins.importers.writing import YamlComment
from ci_evals.suite.nodes import Node
from ci_evals.suite.yaml import LOADER, Lines, parse, read_text


@dataclass(slots=True)
class Source:
    """A file of another tool.

    Args:
        path: the file.
        shown: its name in messages.
        folder: the folder of the new suite, where its relative paths start.
        written: its value; rows of CSV and JSONL are a list.
        comments: comments by the line that they precede or follow on; removed when they are used.
        start: the folder where the paths in the file start; its own if left out.
    """

    path: Path
    shown: str
    folder: Path
    written: Node
    comments: dict[int, list[str]] = field(default_factory=dict)
    start: Path | None = None

    def __post_init__(self) -> None:
        if self.start is None:
            self.start = self.path.parent

    def locate(self, name: str) -> Path:
        """Return the file at a path in this file."""
        assert self.start is not None
        return self.start / name

    def relative(self, name: str) -> str:
        """Return a path in this file, relative to the new suite."""
        return Path(os.path.relpath(self.locate(name), self.folder)).as_posix()

    def take_comments(self, node: Node) -> list[YamlComment]:
        """Remove and return the comments before and inside a value, joined into one."""
        return self._take_at(node, _last_line(node.lines))

    def take_comments_before(self, node: Node) -> list[YamlComment]:
        """Remove and return the comments before and on the first line of a value."""
        return self._take_at(node, node.line)

    def with_comments(self, made: Mapping[Any, Any], written: Node) -> dict[Any, Any]:
        """Return a mapping with the comments of the same keys in its original."""
        commented: dict[Any, Any] = {}
        for key, value in made.items():
            if isinstance(key, str) and key in written:
                commented |= dict.fromkeys(self.take_comments(written[key]))
            commented[key] = value
        return commented

    def take_other_comments(self) -> list[YamlComment]:
        """Remove and return the remaining comments, joined into one."""
        return self._take(range(1, max(self.comments, default=0) + 1))

    def _take_at(self, node: Node, last: int | None) -> list[YamlComment]:
        if node.line is None or last is None or node.file != self.shown:
            return []
        return self._take(range(node.line, last + 1))

    def _take(self, numbers: range) -> list[YamlComment]:
        lines = []
        for number in numbers:
            lines += self.comments.pop(number, [])
        if not lines:
            return []
        return [YamlComment("\n".join(lines))]

    def find(self, name: str) -> list[str]:
        """Return the files of a path or glob in this file.

        Raises:
            ConfigError: the glob matches no file.
        """
        if not any(sign in name for sign in "*?["):
            return [name]
        start = self.locate("")
        names = [path.relative_to(start).as_posix() for path in sorted(start.glob(name))]
        if not names:
            raise ConfigError([Problem(self.shown, None, "", f"no file matches {name!r}")])
        return names

    def read_text(self, name: str) -> str:
        """Return the text of another file that this one names.

        Raises:
            ConfigError: the other file cannot be read.
        """
        return read_text(self.locate(name), self.relative(name))

    def read(self, name: str) -> "Source":
        """Return another file that this one names; paths in both start in the same folder.

        Raises:
            ConfigError: the other file cannot be read.
        """
        other = read_source(self.locate(name), self.relative(name), self.folder)
        other.start = self.start
        return other


def read_source(path: Path, shown: str, folder: Path) -> Source:
    """Read a file of another tool.

    Args:
        path: a file of YAML, JSON, JSONL or CSV, or Markdown.
        shown: its name in messages.
        folder: the folder of the new suite.

    Raises:
        ConfigError: the file cannot be read.
    """
    text = read_text(path, shown)
    comments: dict[int, list[str]] = {}
    value: Any
    match path.suffix.lower():
        case ".jsonl" | ".ndjson":
            value, lines = _read_jsonl(text, shown)
        case ".csv":
            value, lines = _read_csv(text, shown)
        case ".md":  # a skill, recognized by its name
            value, lines = {}, Lines(1)
        case suffix:
            value, lines, problems = parse(text, shown)
            if problems:
                raise ConfigError(problems)
            if suffix != ".json":
                comments = _read_comments(text)
    return Source(path, shown, folder, Node(value, lines, shown), comments)


def _last_line(lines: Lines) -> int:
    """Return the last line on which a part of a value begins."""
    last = lines.line or 0
    for inner in lines.inside.values():
        if isinstance(inner, Lines):
            last = max(last, _last_line(inner))
        else:
            last = max(last, inner)
    return last


def _read_jsonl(text: str, shown: str) -> tuple[list[Any], Lines]:
    rows: list[Any] = []
    lines = Lines(1)
    # Only "\n" ends a line: JSON may have U+2028 in a text, where `splitlines` would cut.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = from_json(line)
        except ValueError as error:
            problem = Problem(shown, number, "", f"not a line of JSON: {error}")
            raise ConfigError([problem]) from None
        lines.inside[len(rows)] = Lines(number)
        rows.append(row)
    return rows, lines


def _read_csv(text: str, shown: str) -> tuple[list[Any], Lines]:
    rows: list[Any] = []
    lines = Lines(1)
    reader = csv.reader(StringIO(text, newline=""))
    try:
        columns = [column.strip() for column in next(reader, [])]
        number = reader.line_num + 1
        for cells in reader:
            if any(cells):
                lines.inside[len(rows)] = Lines(number)
                rows.append(dict(zip(columns, cells, strict=False)))
            number = reader.line_num + 1
    except csv.Error as error:
        problem = Problem(shown, reader.line_num, "", f"not valid CSV: {error}")
        raise ConfigError([problem]) from None
    return rows, lines


def _read_comments(text: str) -> dict[int, list[str]]:
    """Return the comments of a YAML text by the line that they precede or follow on."""
    inside_texts: set[int] = set()
    ends: dict[int, int] = {}  # the column after the last token, by line
    for token in yaml.scan(text, Loader=LOADER):
        start, end = token.start_mark, token.end_mark
        if end is None:
            continue
        ends[end.line] = max(ends.get(end.line, 0), end.column)
        if isinstance(token, yaml.ScalarToken) and start is not None:
            last = end.line
            if token.style in ("|", ">"):
                last -= 1
            inside_texts.update(range(start.line + 1, last + 1))
    comments: dict[int, list[str]] = {}
    waiting: list[str] = []
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if index in inside_texts or not line.strip():
            continue
        if line.lstrip().startswith("#"):
            waiting += _worth_keeping(line.lstrip())
            continue
        after = line[ends.get(index, len(line)) :]
        if comment := re.search(r"(?:^|\s)(#.*)", after):
            waiting += _worth_keeping(comment[1])
        if waiting:
            comments[index + 1] = waiting
            waiting = []
    if waiting:
        comments[len(lines) + 1] = waiting
    return comments


def _worth_keeping(comment: str) -> list[str]:
    text = comment.removeprefix("#").removeprefix(" ").rstrip()
    if not text or text.startswith("yaml-language-server"):
        return []
    return [text]
