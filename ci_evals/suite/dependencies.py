"""The files that a suite depends on, as patterns: whoever changes none of them cannot change its
answers.
"""

import os
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from os.path import relpath
from pathlib import Path
from typing import Any, Final

from ci_evals.javascript import split_file
from ci_evals.model.case import Case

_LONGEST: Final = 300
_EXTENSIONS: Final = (
    ".yaml",
    ".yml",
    ".json",
    ".jsonl",
    ".csv",
    ".toml",
)  # of files that may be named by globs
_TARGET = re.compile(r"([a-zA-Z_]\w*(?:\.\w+)*):\w[\w.]*")  # module:function
_PYTHON_IMPORT = re.compile(r"^\s*(?:from|import)\s+([a-zA-Z_][\w.]*)", re.MULTILINE)
_JAVASCRIPT_IMPORT = re.compile(r"(?:require|import)\(\s*[\"'`](\.[^\"'`]+)")
_WILDCARD = re.compile(r"[*?\[]")


def dependencies(
    written: Any, cases: Iterable[Case], paths: Iterable[str], folder: Path
) -> tuple[str, ...]:
    """Return patterns of the files that a suite names anywhere, relative to its folder.

    A text that names no file matches none, so every short text is taken for a path.

    Args:
        written: the suite as it is written.
        cases: its cases, whose datasets may name further files.
        paths: what its author names besides; a leading slash starts at the root of the repository.
        folder: the suite's.
    """
    texts = list(_texts(written))
    named = [pattern for text in texts if _may_be_path(text) for pattern in _paths_in(text)]
    named += (pattern for text in texts for pattern in _imported_by(text))
    files = [case.task.folder for case in cases if case.task]
    files += [case.recording.path for case in cases if case.recording]
    parts = (
        part for case in cases for message in case.messages for part in _parts(message.content)
    )
    return tuple(
        dict.fromkeys((*named, *parts, *(relpath(each, folder) for each in files), *paths))
    )


def _parts(content: Any) -> Iterator[str]:
    """Yield the images and files of a message that are paths."""
    for part in () if isinstance(content, str) else content or ():
        if isinstance(part.source, str) and "://" not in part.source:
            yield part.source


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (
            text
            for key, each in value.items()
            for text in _texts(_words(each) if key == "command" else each)
        )
    elif isinstance(value, list | tuple):
        yield from (text for each in value for text in _texts(each))
    elif isinstance(value, str):
        yield value


def _words(command: Any) -> Any:
    """Split a command that is one line; one that cannot be split stays as it is."""
    try:
        return shlex.split(command) if isinstance(command, str) else command
    except ValueError:
        return command


def _may_be_path(text: str) -> bool:
    return len(text) <= _LONGEST and "\n" not in text and bool(re.search(r"\w", text))


def _paths_in(text: str) -> Iterator[str]:
    if script := split_file(text):
        text = script["file"]
    if target := _TARGET.fullmatch(text):
        module = target[1].replace(".", "/")
        yield from (f"{module}.py", module)
    elif "://" not in text and (
        text.endswith(_EXTENSIONS) or not _WILDCARD.search(text)
    ):  # or else an expression
        yield text
        if (folder := posixpath.dirname(_WILDCARD.split(posixpath.normpath(text))[0])).strip("./"):
            yield folder  # what lies beside a file in a folder of its own


def _imported_by(code: str) -> Iterator[str]:
    """Yield the modules beside the suite that code in it imports, if a text is code."""
    for found in _PYTHON_IMPORT.finditer(code):
        module = found[1].replace(".", "/")
        yield from (f"{module}.py", module)
    for found in _JAVASCRIPT_IMPORT.finditer(code):
        yield from (
            found[1],
            *(f"{found[1]}{extension}" for extension in (".js", ".cjs", ".mjs", ".json")),
        )


def fits_any_file(pattern: str, folder: Path) -> bool:
    """Return True if a pattern of `paths` fits a file, or if that cannot be known as there is no
    repository.

    Args:
        pattern: as its author wrote it.
        folder: the suite's.
    """
    start = folder.absolute()
    if pattern.startswith("/"):
        root = next((each for each in (start, *start.parents) if (each / ".git").exists()), None)
        if root is None:
            return True
        start = root
    relative = posixpath.normpath(pattern.lstrip("/"))
    if not _WILDCARD.search(relative):
        return (start / relative).exists()
    fixed = posixpath.dirname(_WILDCARD.split(relative)[0])
    rest, top = relative.removeprefix(f"{fixed}/"), start / fixed
    files = (
        Path(parent, name).relative_to(top) for parent, _, names in os.walk(top) for name in names
    )
    return any(_matches(file.as_posix(), rest) for file in files)


def touched(changed: Iterable[str], file: str, patterns: Sequence[str]) -> list[str]:
    """Return the changed files that a suite depends on.

    Args:
        changed: paths from the root of the repository.
        file: that of the suite.
        patterns: its dependencies. `*` and `**` match slashes, too, and a folder all that is in it.
    """
    folder = posixpath.dirname(file) or "."
    wanted = [
        posixpath.normpath(file),
        *(posixpath.normpath(_from_root(each, folder)) for each in patterns),
    ]
    return [path for path in changed if any(_matches(path, pattern) for pattern in wanted)]


def _from_root(pattern: str, folder: str) -> str:
    return pattern.lstrip("/") if pattern.startswith("/") else posixpath.join(folder, pattern)


def _matches(path: str, pattern: str) -> bool:
    return (
        path == pattern
        or path.startswith(f"{pattern}/")
        or fnmatchcase(path, pattern.replace("**/", "*"))
    )
