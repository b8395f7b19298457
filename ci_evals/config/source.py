"""YAML and JSON text into plain values that remember their lines. Refuses what could exhaust the machine."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import yaml

from ci_evals.errors import ConfigError, Problem

MAX_BYTES = 50_000_000
MAX_DEPTH = 100
MAX_ALIASED_VALUES = 1_000_000

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# YAML 1.2 core schema: `yes`, `on` and dates are text, as in JSON Schema and in every editor.
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), math.inf),
    "-.inf": -math.inf,
    ".nan": math.nan,
}
_SURROGATE_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)


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
    """The same value without line numbers."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def read_text(path: Path, shown: str) -> str:
    """Read a UTF-8 file of at most 50 MB.

    Raises:
        ConfigError: it is missing, unreadable, too large or not UTF-8.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            _refuse(shown, None, "larger than 50 MB: keep many cases in a .jsonl file, which is read line by line")
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        _refuse(shown, None, "no such file")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        _refuse(shown, line, "not UTF-8: save the file as UTF-8")
    except OSError as error:
        _refuse(shown, None, f"cannot be read: {error.strerror}")


def parse(text: str, file: str) -> Any:
    """Parse one YAML (or JSON) document.

    Args:
        text: the document.
        file: its name in error messages.

    Returns:
        `Map`, `Seq`, str, int, float, bool or None.

    Raises:
        ConfigError: a syntax error, a duplicate key, more than one document, or nesting or aliases out of bounds.
    """
    if file.endswith(".json"):
        text = _SURROGATE_PAIR.sub(_join_surrogates, text)
    try:
        return _Builder(file).build(yaml.parse(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        _refuse(file, mark.line + 1 if mark else None, f"not valid YAML: {what}")
    except yaml.YAMLError as error:
        _refuse(file, None, f"not valid YAML: {' '.join(str(error).split())}")


class _Builder:
    """Builds values from parser events with an explicit stack, so that depth cannot exhaust Python's."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.stack: list[tuple[Map | Seq, str | None, int]] = []  # container, its anchor, values seen before it
        self.keys: list[tuple[str, int] | None] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.values = 0
        self.aliased = 0
        self.root: Any = None
        self.documents = 0
        self.problems: list[Problem] = []

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
        if self.problems:
            raise ConfigError(self.problems)
        return self.root

    def open(self, container: Map | Seq, event: Any) -> None:
        if event.tag is not None:
            _refuse(self.file, container.line, f"the tag {event.tag} is not supported")
        if len(self.stack) >= MAX_DEPTH:
            _refuse(self.file, container.line, f"nested more than {MAX_DEPTH} levels deep")
        if self.keys and isinstance(self.stack[-1][0], Map) and self.keys[-1] is None:
            _refuse(self.file, container.line, "a key must be text, not a list or mapping")
        self.stack.append((container, event.anchor, self.values))
        self.keys.append(None)
        self.values += 1

    def close(self, line: int) -> None:
        container, anchor, before = self.stack.pop()
        self.keys.pop()
        self.values -= 1  # `add` counts it again
        if anchor:
            self.anchors[anchor] = (container, self.values + 1 - before)
        self.add(container, container.line if container else line)

    def alias(self, anchor: str, line: int) -> None:
        if anchor not in self.anchors:
            _refuse(self.file, line, f"the alias *{anchor} points to nothing before it, or into itself")
        value, size = self.anchors[anchor]
        self.aliased += size
        if self.aliased > MAX_ALIASED_VALUES:
            _refuse(self.file, line, f"aliases expand to more than {MAX_ALIASED_VALUES:,} values")
        self.values += size - 1
        self.add(value, line)

    def scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        is_key = bool(self.stack) and isinstance(self.stack[-1][0], Map) and self.keys[-1] is None
        if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            _refuse(self.file, line, f"the tag {event.tag} is not supported: quote text, write anything else bare")
        if is_key:
            self.keys[-1] = (event.value, line)
            return
        value = _resolve(event.value) if event.implicit[0] else event.value
        if event.anchor:
            self.anchors[event.anchor] = (value, 1)
        self.add(value, line)

    def add(self, value: Any, line: int) -> None:
        self.values += 1
        if not self.stack:
            self.root = value
            return
        container = self.stack[-1][0]
        if isinstance(container, Seq):
            container.append(value)
            container.lines.append(line)
            return
        key, key_line = self.keys[-1] or ("", line)
        self.keys[-1] = None
        if key == "<<" and isinstance(value, Map | Seq):
            self.merge(container, value, key_line)
        elif key in container and container.lines[key] > 0:
            text = f"the key {key!r} is already there, in line {container.lines[key]}"
            self.problems.append(Problem(self.file, key_line, "", text))
        else:
            container[key] = value
            container.lines[key] = key_line

    def merge(self, container: Map, value: Map | Seq, line: int) -> None:
        """`<<: *defaults`: keys of the container itself win, whether they come before or after."""
        for source in value if isinstance(value, Seq) else (value,):
            if not isinstance(source, Map):
                _refuse(self.file, line, "`<<` takes a mapping or a list of mappings")
            for key, item in source.items():
                if key not in container:
                    container[key] = item
                    container.lines[key] = -line  # negative: merged, so the key itself may still follow


def _resolve(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789" or len(text) > 400:
        return text
    if _INT.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _join_surrogates(match: re.Match[str]) -> str:
    pair = bytes.fromhex(match[2] + match[3]).decode("utf-16-be")
    return match[1] + pair


def _refuse(file: str, line: int | None, message: str) -> NoReturn:
    raise ConfigError([Problem(file, line, "", message)])
