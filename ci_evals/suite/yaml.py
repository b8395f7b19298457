"""Parses YAML and JSON text into plain values and a tree of their lines."""

import math
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml

from ci_evals.errors import ConfigError, Problem
from ci_evals.format import closest
from ci_evals.model.fields import resolve

MAX_BYTES = 50_000_000
MAX_DEPTH = 100  # readers of values are recursive, and Python's stack is limited
MAX_ALIASED_VALUES = 1_000_000  # aliases of aliases multiply: a few lines could fill the memory

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_HINTS = {
    "found character that cannot start any token": (
        ": indent with spaces, and quote text that starts with @, ` or %"
    ),
    "mapping values are not allowed in this context": (
        ": check the indentation, and quote text that has `: ` in it"
    ),
    "could not find expected ':'": ": write `key: value`, and check the indentation",
}
_SURROGATE_PAIR = r"(?i)(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})"


@dataclass(slots=True)
class Lines:
    """The line of a value, and the lines of its entries by key or index."""

    line: int | None
    inside: "dict[str | int, Lines | int]" = field(default_factory=dict)

    def at(self, key: str | int) -> "Lines":
        """Return the lines of an entry; without such an entry, the line of the whole."""
        lines = self.inside.get(key, self.line)
        if isinstance(lines, Lines):
            return lines
        return Lines(lines)


def read_text(path: Path, shown: str) -> str:
    """Read a UTF-8 file of at most 50 MB.

    Raises:
        ConfigError: the file is missing, unreadable, too large or not UTF-8.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        _refuse(shown, None, f"no such file{_similar_file(path)}")
    except OSError as error:
        _refuse(shown, None, f"cannot be read: {error.strerror}")
    except ValueError as error:  # a NUL in the name
        _refuse(shown, None, f"cannot be read: {error}")
    if len(content) > MAX_BYTES:
        hint = "keep many cases in a .jsonl file, which is read line by line"
        _refuse(shown, None, f"larger than 50 MB: {hint}")
    try:
        return content.removeprefix(BOM_UTF8).decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        _refuse(shown, content[: error.start].count(b"\n") + 1, "not UTF-8: save the file as UTF-8")


def _similar_file(path: Path) -> str:
    """Return `, did you mean 'evals.yaml'?`; empty if its folder has no file of a similar name."""
    try:
        names = sorted(each.name for each in path.parent.iterdir() if each.is_file())
    except OSError:
        return ""
    close = closest(path.name, names)
    if close is None:
        return ""
    return f", did you mean {close!r}?"


def parse(text: str, file: str) -> tuple[Any, Lines, list[Problem]]:
    """Parse one YAML or JSON document.

    Args:
        text: the document.
        file: its name in error messages.

    Returns:
        The value, its lines, and the problems that do not stop the parser: duplicate keys, and
        numbers that JSON cannot hold.

    Raises:
        ConfigError: a syntax error, more than one document, or nesting or aliases out of bounds.
    """
    if file.endswith(".json"):  # YAML has neither tabs as indentation nor surrogate pairs
        text = re.sub(_SURROGATE_PAIR, _join_surrogates, text.replace("\t", " "))
    builder = _Builder(file)
    try:
        value, lines = builder.build(yaml.parse(text, Loader=LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if (
            error.context == "while scanning a simple key"
        ):  # PyYAML notices it only on the next line
            mark = error.context_mark
        line = None
        if mark is not None:
            line = mark.line + 1
        what = ", ".join(filter(None, (error.context, error.problem)))
        hint = _HINTS.get(str(error.problem), "")
        _refuse(file, line, f"not valid YAML: {what}{hint}")
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        code = error.character
        if not isinstance(code, int):
            code = ord(code)
        what = f"the character U+{code:04X} may only be written as an escape, in quotes"
        _refuse(file, line, f"not valid YAML: {what}")
    return value, lines, builder.problems


@dataclass(slots=True)
class _Node:
    """A value under construction.

    Args:
        value: the value so far.
        lines: its lines.
        size: the number of values in it, including itself.
        height: the levels of nesting inside it.
        anchor: its name for aliases.
        key: of a mapping: the key whose value comes next, and its line.
        merged: keys that come from `<<`; the mapping's own keys win.
    """

    value: Any
    lines: Lines
    size: int = 1
    height: int = 0
    anchor: str | None = None
    key: tuple[str, int] | None = None
    merged: set[str] = field(default_factory=set)


class _Builder:
    """Builds values from parser events. It has its own stack: depth cannot exhaust Python's."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.open: list[_Node] = []
        self.anchors: dict[str, _Node] = {}
        self.aliased = 0
        self.root: tuple[Any, Lines] = (None, Lines(1))

    def build(self, events: Iterator[yaml.Event]) -> tuple[Any, Lines]:
        documents = 0
        for event in events:
            line = 0
            if event.start_mark:
                line = event.start_mark.line + 1
            match event:
                case yaml.ScalarEvent():
                    self.scalar(event, line)
                case yaml.MappingStartEvent():
                    self.start(event, {}, line)
                case yaml.SequenceStartEvent():
                    self.start(event, [], line)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self.end()
                case yaml.AliasEvent():
                    self.alias(str(event.anchor), line)
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        what = "a second YAML document (`---`): one file is one suite"
                        _refuse(self.file, line, what)
        return self.root

    def start(self, event: Any, value: Any, line: int) -> None:
        """Open a mapping or a list."""
        if event.tag is not None:
            _refuse(self.file, line, f"the tag {event.tag} is not supported")
        if self.awaits_key():
            what = "a key must be text, not a list or mapping"
            _refuse(self.file, line, f'{what}: quote a template, as in "{{{{ question }}}}"')
        self.open.append(_Node(value, Lines(line), anchor=event.anchor))
        self.check_depth(0, line)

    def end(self) -> None:
        """Close the mapping or list that was opened last."""
        node = self.open.pop()
        node.height += 1
        if node.anchor:
            self.anchors[node.anchor] = node
        self.add(node)

    def awaits_key(self) -> bool:
        """Return True if the next value is a key of the open mapping."""
        if not self.open:
            return False
        node = self.open[-1]
        return node.key is None and isinstance(node.value, dict)

    def scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            hint = "quote text, write anything else bare"
            _refuse(self.file, line, f"the tag {event.tag} is not supported: {hint}")
        is_key = self.awaits_key()
        value: Any = event.value
        if event.implicit[0] and not is_key:  # neither quoted nor tagged as text
            value = resolve(value)
        if isinstance(value, float) and not math.isfinite(value):
            what = f"{event.value} is not a number that JSON can hold"
            self.problem(line, f"{what}: quote it if it is text")
        node = _Node(value, Lines(line))
        if event.anchor:
            self.anchors[event.anchor] = node
        if is_key:
            self.open[-1].key = (value, line)
        else:
            self.add(node)

    def alias(self, anchor: str, line: int) -> None:
        if anchor not in self.anchors:
            what = f"the alias *{anchor} points to nothing before it, or into itself"
            _refuse(self.file, line, what)
        if self.awaits_key():
            _refuse(self.file, line, f"a key must be text, not the alias *{anchor}")
        target = self.anchors[anchor]
        self.check_depth(target.height, line)
        self.aliased += target.size
        if self.aliased > MAX_ALIASED_VALUES:
            _refuse(self.file, line, f"aliases expand to more than {MAX_ALIASED_VALUES:,} values")
        self.add(_Node(target.value, Lines(line, target.lines.inside), target.size, target.height))

    def add(self, node: _Node) -> None:
        """Add a finished value to the open mapping or list."""
        if not self.open:
            self.root = (node.value, node.lines)
            return
        parent = self.open[-1]
        parent.size += node.size
        parent.height = max(parent.height, node.height)
        if isinstance(parent.value, list):
            self.place(parent, len(parent.value), node, node.lines.line)
            return
        key, line = parent.key or ("", 0)
        if key == "<<" and isinstance(node.value, dict | list):
            self.merge(parent, node, line)
        elif key in parent.value and key not in parent.merged:
            first = parent.lines.at(key).line
            self.problem(line, f"the key {key!r} is already set in line {first}")
        else:
            parent.merged.discard(key)
            self.place(parent, key, node, line)
        parent.key = None

    def place(self, parent: _Node, key: Any, node: _Node, line: int | None) -> None:
        if isinstance(parent.value, list):
            parent.value.append(node.value)
        else:
            parent.value[key] = node.value
        inside = node.lines.inside
        if inside:
            parent.lines.inside[key] = Lines(line, inside)
        else:
            parent.lines.inside[key] = line or 0  # a bare number: most values are scalars

    def merge(self, parent: _Node, node: _Node, line: int) -> None:
        """Merge `<<: *defaults`. The mapping's own keys win, whether they come before or after."""
        sources = node.value
        if not isinstance(sources, list):
            sources = [sources]
        for source in sources:
            if not isinstance(source, dict):
                _refuse(self.file, line, "`<<` takes a mapping or a list of mappings")
            for key, item in source.items():
                if key not in parent.value:
                    parent.value[key] = item
                    parent.merged.add(key)
                    parent.lines.inside[key] = line

    def check_depth(self, height: int, line: int) -> None:
        if len(self.open) + height > MAX_DEPTH:
            _refuse(self.file, line, f"nested more than {MAX_DEPTH} levels deep")

    def problem(self, line: int, message: str) -> None:
        """Record a problem with the value that comes next."""
        path = ""
        for node in self.open:
            if isinstance(node.value, list):
                path += f"[{len(node.value)}]"
            elif node.key and path:
                path += f".{node.key[0]}"
            elif node.key:
                path = node.key[0]
        self.problems.append(Problem(self.file, line, path, message))


def _join_surrogates(match: re.Match[str]) -> str:
    return match[1] + bytes.fromhex(match[2] + match[3]).decode("utf-16-be")


def _refuse(file: str, line: int | None, message: str) -> NoReturn:
    raise ConfigError([Problem(file, line, "", message)])
