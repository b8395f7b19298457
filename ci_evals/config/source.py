"""YAML and JSON text into plain values that remember their lines. Refuses what could exhaust the machine."""

import math
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import yaml
from msgspec import Struct

from ci_evals.errors import ConfigError, Problem

MAX_BYTES = 50_000_000
MAX_DEPTH = 100
MAX_ALIASED_VALUES = 1_000_000

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# YAML 1.2 core schema: `yes`, `on` and dates are text, as in JSON Schema and in every editor.
_INT = r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
_FLOAT = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NOT_FINITE = r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
_TEMPLATE_HINT = 'quote a template, as in "{{ question }}"'
_HINTS = {
    "found character that cannot start any token": ": indent with spaces, and quote text that starts with @, ` or %",
    "mapping values are not allowed in this context": ": check the indentation, and quote text that has `: ` in it",
    "could not find expected ':'": ": write `key: value`, and check the indentation",
}
_SURROGATE_PAIR = r"(?i)(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})"


class Map(dict[str, Any]):
    """A mapping that knows the line of each key."""

    __slots__ = ("line", "lines")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


class Seq(list[Any]):
    """A list that knows the line of each item."""

    __slots__ = ("line", "lines")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: list[int] = []


def line_of(container: object, key: str | int) -> int | None:
    """The line of one entry of a `Map` or `Seq`, else None."""
    if isinstance(container, Map):
        return container.lines.get(str(key), container.line)
    if isinstance(container, Seq) and isinstance(key, int):
        return container.lines[key]
    return None


def plain(value: Any) -> Any:
    """The same value in Python's own types, without line numbers."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


def read_text(path: Path, shown: str) -> str:
    """Read a UTF-8 file of at most 50 MB.

    Raises:
        ConfigError: it is missing, unreadable, too large or not UTF-8.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        _refuse(shown, None, "no such file")
    except OSError as error:
        _refuse(shown, None, f"cannot be read: {error.strerror}")
    except ValueError as error:  # a NUL in the name
        _refuse(shown, None, f"cannot be read: {error}")
    if len(content) > MAX_BYTES:
        _refuse(shown, None, "larger than 50 MB: keep many cases in a .jsonl file, which is read line by line")
    try:
        return content.removeprefix(BOM_UTF8).decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        _refuse(shown, content[: error.start].count(b"\n") + 1, "not UTF-8: save the file as UTF-8")


def parse(text: str, file: str, problems: list[Problem]) -> Any:
    """Parse one YAML (or JSON) document.

    Args:
        text: the document.
        file: its name in error messages.
        problems: gets what is wrong but does not stop the reading: duplicate keys, numbers that are none.

    Returns:
        `Map`, `Seq`, str, int, float, bool or None.

    Raises:
        ConfigError: a syntax error, more than one document, or nesting or aliases out of bounds.
    """
    if file.endswith(".json"):
        text = re.sub(_SURROGATE_PAIR, _join_surrogates, text.replace("\t", " "))  # YAML knows neither
    try:
        return _Builder(file, problems).build(yaml.parse(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        in_key = error.context == "while scanning a simple key"  # noticed only on the next line
        mark = error.context_mark if in_key else error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        hint = _HINTS.get(str(error.problem), "")
        _refuse(file, mark.line + 1 if mark else None, f"not valid YAML: {what}{hint}")
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        code = error.character if isinstance(error.character, int) else ord(error.character)
        _refuse(file, line, f"not valid YAML: the character U+{code:04X} may only be written as an escape, in quotes")


class _Anchored(Struct, frozen=True):
    """What an anchor stands for, of how many values it is made, and how deep it is nested."""

    value: Any
    size: int
    height: int


class _Builder:
    """Builds values from parser events with an explicit stack, so that depth cannot exhaust Python's."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self.file = file
        self.problems = problems
        self.stack: list[tuple[Map | Seq, str | None, int]] = []  # container, its anchor, values seen before it
        self.keys: list[tuple[str, int] | None] = []
        self.heights: list[int] = []
        self.anchors: dict[str, _Anchored] = {}
        self.values = 0
        self.aliased = 0
        self.root: Any = None
        self.documents = 0

    def build(self, events: Iterator[yaml.Event]) -> Any:
        for event in events:
            line = event.start_mark.line + 1 if event.start_mark else 0
            if isinstance(event, yaml.ScalarEvent):
                self.scalar(event, line)
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                self.open(Map(line) if isinstance(event, yaml.MappingStartEvent) else Seq(line), event)
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                self.close(line)
            elif isinstance(event, yaml.AliasEvent):
                self.alias(str(event.anchor), line)
            elif isinstance(event, yaml.DocumentStartEvent):
                self.documents += 1
                if self.documents > 1:
                    _refuse(self.file, line, "a second YAML document (`---`): one file is one suite")
        return self.root

    def open(self, container: Map | Seq, event: Any) -> None:
        if event.tag is not None:
            _refuse(self.file, container.line, f"the tag {event.tag} is not supported")
        if self.at_key():
            _refuse(self.file, container.line, f"a key must be text, not a list or mapping: {_TEMPLATE_HINT}")
        self.stack.append((container, event.anchor, self.values))
        self.keys.append(None)
        self.heights.append(0)
        self.check_depth(0, container.line)
        self.values += 1

    def close(self, line: int) -> None:
        container, anchor, before = self.stack.pop()
        self.keys.pop()
        height = self.heights.pop() + 1
        self.values -= 1  # `add` counts it again
        if anchor:
            self.anchors[anchor] = _Anchored(container, self.values + 1 - before, height)
        self.add(container, container.line if container else line, height)

    def at_key(self) -> bool:
        """Whether a mapping is open and its next key is due."""
        return bool(self.stack) and isinstance(self.stack[-1][0], Map) and self.keys[-1] is None

    def check_depth(self, height: int, line: int) -> None:
        if len(self.stack) + height > MAX_DEPTH:
            _refuse(self.file, line, f"nested more than {MAX_DEPTH} levels deep")

    def alias(self, anchor: str, line: int) -> None:
        if anchor not in self.anchors:
            _refuse(self.file, line, f"the alias *{anchor} points to nothing before it, or into itself")
        if self.at_key():
            _refuse(self.file, line, f"a key must be text, not the alias *{anchor}")
        found = self.anchors[anchor]
        self.check_depth(found.height, line)
        self.aliased += found.size
        if self.aliased > MAX_ALIASED_VALUES:
            _refuse(self.file, line, f"aliases expand to more than {MAX_ALIASED_VALUES:,} values")
        self.values += found.size - 1
        self.add(found.value, line, found.height)

    def scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            _refuse(self.file, line, f"the tag {event.tag} is not supported: quote text, write anything else bare")
        is_key = self.at_key()
        value = resolve(event.value) if event.implicit[0] and not is_key else event.value
        if isinstance(value, float) and not math.isfinite(value):
            self.problem(line, f"{event.value} is no number that JSON can hold: quote it if it is text")
        if event.anchor:
            self.anchors[event.anchor] = _Anchored(value, 1, 0)
        if is_key:
            self.keys[-1] = (event.value, line)
        else:
            self.add(value, line, 0)

    def problem(self, line: int, message: str) -> None:
        """Note a problem with what comes next; its path is that of the keys and items that are open."""
        path = ""
        for (container, _, _), key in zip(self.stack, self.keys, strict=True):
            if isinstance(container, Seq):
                path += f"[{len(container)}]"
            elif key:
                path += f".{key[0]}" if path else key[0]
        self.problems.append(Problem(self.file, line, path, message))

    def add(self, value: Any, line: int, height: int) -> None:
        self.values += 1
        if not self.stack:
            self.root = value
            return
        self.heights[-1] = max(self.heights[-1], height)
        container = self.stack[-1][0]
        if isinstance(container, Seq):
            container.append(value)
            container.lines.append(line)
            return
        key, key_line = self.keys[-1] or ("", line)
        if key == "<<" and isinstance(value, Map | Seq):
            self.merge(container, value, key_line)
        elif key in container and container.lines[key] > 0:
            self.problem(key_line, f"the key {key!r} is already there, in line {container.lines[key]}")
        else:
            container[key] = value
            container.lines[key] = key_line
        self.keys[-1] = None

    def merge(self, container: Map, value: Map | Seq, line: int) -> None:
        """`<<: *defaults`: keys of the container itself win, whether they come before or after."""
        for source in value if isinstance(value, Seq) else (value,):
            if not isinstance(source, Map):
                _refuse(self.file, line, "`<<` takes a mapping or a list of mappings")
            for key, item in source.items():
                if key not in container:
                    container[key] = item
                    container.lines[key] = -line  # negative: merged, so the key itself may still follow


def resolve(text: str) -> Any:
    """A bare scalar by the YAML 1.2 core schema: null, a boolean, a number, or the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789" or len(text) > 400:
        return text
    if re.fullmatch(_INT, text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if re.fullmatch(_FLOAT, text):
        return float(text)
    return math.nan if re.fullmatch(_NOT_FINITE, text) else text


def _join_surrogates(match: re.Match[str]) -> str:
    pair = bytes.fromhex(match[2] + match[3]).decode("utf-16-be")
    return match[1] + pair


def _refuse(file: str, line: int | None, message: str) -> NoReturn:
    raise ConfigError([Problem(file, line, "", message)])
