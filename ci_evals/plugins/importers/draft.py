"""A suite under translation from another tool's format: values, comments, and lost parts."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ci_evals.format import one_line
from ci_evals.plugins.importers.writing import YamlComment, write_value
from ci_evals.providers.answer import encode_json
from ci_evals.redaction import Redactor
from ci_evals.suite.nodes import Node
from ci_evals.suite.yaml import Lines

NO_COUNTERPART = "ci-evals has no counterpart"
_ABOVE = "../"
_KEY_NAME = r"(?i)(api[-_]?key|token|secret|password|authorization)$"


@dataclass(frozen=True, slots=True)
class LostPart:
    """A part that was not translated.

    Args:
        file: the file that has it.
        line: its line, if known.
        what: its name, such as `assert: bleu`.
        reason: why, and what to do instead.
        weakens: True if a wrong answer could pass without it.
    """

    file: str
    line: int | None
    what: str
    reason: str
    weakens: bool

    @property
    def heading(self) -> str:
        if self.weakens:
            return "not imported, which weakens the suite"
        return "not imported"

    def __str__(self) -> str:
        place = self.file
        if self.line:
            place = f"{self.file}:{self.line}"
        return f"{place}: {self.what}: {self.reason}"


class UntranslatableError(Exception):
    """A part has no counterpart here; the message says why, and what to do instead."""


WRONG_SHAPE = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""The exceptions that a value of an unexpected shape causes."""


@contextmanager
def check_shape() -> Iterator[None]:
    """Within the context, in which one part of a file is translated, raise an UntranslatableError
    for a value of an unexpected shape, so that only this part is lost.
    """
    try:
        yield
    except WRONG_SHAPE as error:
        cause = f"{type(error).__name__}: {error}"
        raise UntranslatableError(f"it does not have the shape of its format: {cause}") from error


class LocatedMapping(dict[Any, Any]):
    """A mapping of the draft, and the line of its original."""

    line: int | None = None


class LocatedText(str):
    """A text of the draft, and the line of its original."""

    __slots__ = ("line",)
    line: int | None


@dataclass(slots=True)
class SuiteDraft:
    """A suite under construction.

    Args:
        origin: the name of the tool whose format it has.
        suite: the keys of the suite; has `YamlComment`s.
        lost: the parts that could not be translated.
        files: further files of the suite, by name, with their text.
        targets: the functions that code in the suite imports, as `module:function`.
        modules: the Python files that the suite imports, relative to it, by their modules.
        folder: the folder of the suite, if it imports any.
    """

    origin: str
    suite: dict[Any, Any] = field(default_factory=dict)
    lost: list[LostPart] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)
    folder: Path = field(default_factory=Path)

    def module_of(self, path: str) -> str:
        """Return the module of a Python file; one above the suite is imported from its own folder.

        Args:
            path: the file, relative to the suite's folder.

        Raises:
            UntranslatableError: another file has the same module.
        """
        module = path.removesuffix(".py")
        other = None
        if path.startswith(_ABOVE):
            folder, _, module = module.rpartition("/")
            other = self._found_before(folder, f"{module}.py")
        module = module.replace("/", ".")
        other = other or self.modules.setdefault(module, path)
        if other != path:
            raise UntranslatableError(f"{other} has the same name as {path}: rename one of them")
        return module

    def _found_before(self, folder: str, name: str) -> str | None:
        """Return the file of a name that is imported in place of the one in a folder above."""
        for earlier in ("", *self.code_folders):
            if earlier == folder:
                break
            path = f"{earlier}/{name}".removeprefix("/")
            if (self.folder / path).is_file():
                return path
        return None

    @property
    def code_folders(self) -> list[str]:
        """The folders above the suite's to import from, relative to it."""
        paths = [path for path in self.modules.values() if path.startswith(_ABOVE)]
        return list(dict.fromkeys(path.rpartition("/")[0] for path in paths))

    def move_cases(self, name: str) -> None:
        """Move the cases into a file of JSON Lines, which has no place for comments."""
        lines = [encode_json(case).decode() for case in self.suite["cases"]]
        self.files[name] = "".join(f"{line}\n" for line in lines)
        self.suite["cases"] = [{"file": name}]

    def lose(self, written: Node, what: str, reason: str, *, weakens: bool) -> YamlComment:
        """Record a part that is not translated, and return a comment in its place.

        Args:
            written: the part.
            what: its name, such as `assert: bleu`.
            reason: why, and what to do instead.
            weakens: True if a wrong answer could pass without it.
        """
        lost = self.record_loss(written.file, written.line, what, reason, weakens=weakens)
        return _comment(lost.heading, lost.reason, written)

    def record_loss(
        self, file: str, line: int | None, what: str, reason: str, *, weakens: bool
    ) -> LostPart:
        """Record a part that is not translated, as `lose`; text of its file stays on one line."""
        lost = LostPart(file, line, one_line(what), one_line(reason, 1000), weakens)
        self.lost.append(lost)
        return lost

    def ignore(self, written: Node) -> YamlComment:
        """Return a comment in place of a part that the original tool ignores as well."""
        return _comment("not imported", f"{self.origin} ignores it, too", written)

    def lose_other_keys(self, written: Node, known: Iterable[str]) -> dict[YamlComment, None]:
        """Record the keys of a mapping that are not `known`, and return their comments."""
        comments: dict[YamlComment, None] = {}
        for key in written.value:
            if key not in known:
                comment = self.lose(written[key], key, NO_COUNTERPART, weakens=False)
                comments[comment] = None
        return comments

    def plain(self) -> tuple[dict[str, Any], Lines]:
        """Return the suite without comments, and the lines of the originals."""
        value, lines = _plain(self.suite, 1)
        return value, lines


def _comment(heading: str, reason: str, written: Node) -> YamlComment:
    key = written.path.rpartition(".")[2]
    value = written.value
    if key and not key.endswith("]"):
        value = {key: value}
    return YamlComment(f"{heading}: {reason}\n{original(value)}")


def locate(value: Any, line: int | None) -> Any:
    """Attach the line of the original to a mapping or text; return other values unchanged."""
    located: LocatedMapping | LocatedText
    if isinstance(value, dict):
        located = LocatedMapping(value)
    elif isinstance(value, str):
        located = LocatedText(value)
    else:
        return value
    located.line = line
    return located


def _plain(value: Any, line: int) -> tuple[Any, Lines]:
    """Return a value without comments, and its lines; `line` is its container's."""
    if isinstance(value, LocatedMapping | LocatedText):
        line = value.line or line
    lines = Lines(line)
    if isinstance(value, Mapping):
        mapping = {}
        for key, item in value.items():
            if not isinstance(key, YamlComment):
                mapping[key], lines.inside[key] = _plain(item, line)
        return mapping, lines
    if isinstance(value, list):
        items: list[Any] = []
        for item in value:
            if not isinstance(item, YamlComment):
                plain, lines.inside[len(items)] = _plain(item, line)
                items.append(plain)
        return items, lines
    if isinstance(value, LocatedText):
        return str(value), lines
    return value, lines


def original(value: Any) -> str:
    """Return the YAML of a value for a comment, without API keys."""
    return Redactor(()).clean_text(write_value(_without_keys(value)))


def is_key(name: str, text: str) -> bool:
    """Return True for a setting that is an API key itself, not a reference to one."""
    if Redactor(()).clean_text(text) != text:
        return True
    return "{" not in text and re.search(_KEY_NAME, name) is not None


def _without_keys(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_keys(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    cleaned: dict[Any, Any] = {}
    for key, item in value.items():
        if key == "env" and isinstance(item, Mapping):
            cleaned[key] = dict.fromkeys(item, "…")
        elif isinstance(item, str) and is_key(str(key), item):
            cleaned[key] = "…"
        else:
            cleaned[key] = _without_keys(item)
    return cleaned


def seconds(milliseconds: float) -> float:
    """Convert milliseconds to seconds, as an int if they are whole."""
    if milliseconds % 1000 == 0:
        return int(milliseconds // 1000)
    return milliseconds / 1000
