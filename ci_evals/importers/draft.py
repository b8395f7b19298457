"""A suite on its way from another tool's format: values with comments among them, and what could
not be translated.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ci_evals.importers.writing import YamlComment, write_value
from ci_evals.redaction import Redactor
from ci_evals.suite.nodes import Node
from ci_evals.suite.yaml import Lines

T = TypeVar("T")

_KEY_NAME = re.compile(r"(api[-_]?key|token|secret|password|authorization)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Lost:
    """A part that was not translated.

    Args:
        file: where it stands.
        line: its line, if that is known.
        what: its name, as `assert: bleu`.
        reason: why, and what to do instead.
        weakens: True if an answer could pass for want of it.
    """

    file: str
    line: int | None
    what: str
    reason: str
    weakens: bool

    def __str__(self) -> str:
        return f"{self.file}{f':{self.line}' if self.line else ''}: {self.what}: {self.reason}"


class UntranslatableError(Exception):
    """A part has no counterpart here; the message says why, and what to do instead."""


@dataclass(slots=True)
class Draft:
    """A suite that is being made.

    Args:
        origin: the name of the tool whose format it has.
        suite: the keys of the suite; has `YamlComment`s.
        lost: what could not be translated.
        files: further files of the suite, by name, with their text.
    """

    origin: str
    suite: dict[Any, Any] = field(default_factory=dict)
    lost: list[Lost] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    _lines: dict[int, int] = field(default_factory=dict)
    _kept: list[Any] = field(default_factory=list)

    def lose(self, written: Node, what: str, reason: str, *, weakens: bool) -> YamlComment:
        """Note a part that is not translated, and return the comment that stands in its place.

        Args:
            written: the part.
            what: its name, as `assert: bleu`.
            reason: why, and what to do instead.
            weakens: an answer could pass for want of it.
        """
        self.lost.append(Lost(written.file, written.line, what, reason, weakens))
        key = written.path.rpartition(".")[2]
        value = written.value if key.endswith("]") or not key else {key: written.value}
        return YamlComment(f"not imported: {reason}\n{original(value)}")

    def at(self, value: T, line: int | None) -> T:
        """Return a mapping or list, and remember the line in which its original stands."""
        if line is not None:
            self._lines[id(value)] = line
            self._kept.append(value)  # while it lives, no other has its id
        return value

    def plain(self) -> tuple[dict[str, Any], Lines]:
        """Return the suite without comments, and the lines of the originals."""
        value, lines = self._plain(self.suite, 1)
        return value, lines

    def _plain(self, value: Any, line: int) -> tuple[Any, Lines]:
        line = self._lines.get(id(value), line)
        if isinstance(value, Mapping):
            parts = {
                key: self._plain(item, line)
                for key, item in value.items()
                if not isinstance(key, YamlComment)
            }
            return {key: part for key, (part, _) in parts.items()}, Lines(
                line, {k: at for k, (_, at) in parts.items()}
            )
        if isinstance(value, list):
            items = [self._plain(item, line) for item in value if not isinstance(item, YamlComment)]
            return [item for item, _ in items], Lines(
                line, {n: at for n, (_, at) in enumerate(items)}
            )
        return value, Lines(line)


def original(value: Any) -> str:
    """Return a value as it may have been written, for a comment; API keys stay out."""
    return Redactor(()).clean_text(write_value(_without_keys(value)))


def is_key(name: str, text: str) -> bool:
    """Return True for a setting that is an API key itself, and no reference to one."""
    return Redactor(()).clean_text(text) != text or (
        bool(_KEY_NAME.search(name)) and "{" not in text
    )


def _without_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_key(str(key), item) for key, item in value.items()}
    return [_without_keys(item) for item in value] if isinstance(value, list) else value


def _without_key(name: str, value: Any) -> Any:
    if name == "env" and isinstance(value, Mapping):
        return dict.fromkeys(value, "…")
    return "…" if isinstance(value, str) and is_key(name, value) else _without_keys(value)


def seconds(milliseconds: float) -> float:
    """Return seconds, without a fraction where there is none."""
    return int(milliseconds // 1000) if milliseconds % 1000 == 0 else milliseconds / 1000
