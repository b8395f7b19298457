"""Finds the files that a suite depends on, as patterns. Other changes affect no answer."""

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
from ci_evals.user_code.folders import NO_CODE_FOLDERS, CodeFolders

_LONGEST: Final = 300
# A glob with one of these extensions names files; any other text with `*` is an expression.
_EXTENSIONS: Final = (".yaml", ".yml", ".json", ".jsonl", ".csv", ".tsv", ".xlsx", ".toml")
_TARGET = re.compile(r"([a-zA-Z_]\w*(?:\.\w+)*):\w[\w.]*")  # module:function
_PYTHON_IMPORT = re.compile(r"^\s*(?:from|import)\s+([a-zA-Z_][\w.]*)", re.MULTILINE)
_JAVASCRIPT_IMPORT = re.compile(r"(?:require|import)\(\s*[\"'`](\.[^\"'`]+)")
_WILDCARD = re.compile(r"[*?\[]")


def find_dependencies(
    written: Any,
    cases: Iterable[Case],
    paths: Iterable[str],
    folder: Path,
    folders: CodeFolders = NO_CODE_FOLDERS,
) -> tuple[str, ...]:
    """Return patterns of all files that a suite refers to, relative to its folder.

    Every short text is taken for a path: one that is not a path matches no file.

    Args:
        written: the suite as it is written.
        cases: its cases, which may refer to further files.
        paths: the suite's `paths`; a leading slash starts at the root of the repository.
        folder: the suite's folder.
        folders: further folders of its code.
    """
    patterns: list[str] = []
    texts = list(_texts(written))
    for text in texts:
        if _may_be_path(text):
            patterns += _paths_in(text)
    for text in texts:
        patterns += _imported_by(text)
    modules = [name for text in texts for name in _modules_in(text)]
    homes = [".", *(relpath(each, folder) for each in (*folders.named, *folders.usual))]
    for name in modules:
        path = name.replace(".", "/")
        for home in homes:
            patterns += (posixpath.join(home, f"{path}.py"), posixpath.join(home, path))
    for case in cases:
        for message in case.messages:
            patterns += _parts(message.content)
        if case.task is not None:
            patterns.append(relpath(case.task.folder, folder))
        if case.recording is not None:
            patterns.append(relpath(case.recording.path, folder))
    patterns += paths
    return tuple(dict.fromkeys(patterns))


def _parts(content: Any) -> Iterator[str]:
    """Yield the images and files of a message that are paths."""
    if content is None or isinstance(content, str):
        return
    for part in content:
        if isinstance(part.source, str) and "://" not in part.source:
            yield part.source


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a value; a command line word by word."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key in ("command", "mcp", "teardown") and isinstance(item, str):
                yield from _split_command(item)
            else:
                yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _split_command(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return [command]


def _may_be_path(text: str) -> bool:
    return len(text) <= _LONGEST and "\n" not in text and bool(re.search(r"\w", text))


def _paths_in(text: str) -> Iterator[str]:
    script = split_file(text)
    if script:
        text = script["file"]
    if "://" in text or _TARGET.fullmatch(text):
        return
    if _WILDCARD.search(text) and not text.endswith(_EXTENSIONS):
        return
    yield text
    before_wildcard = _WILDCARD.split(posixpath.normpath(text))[0]
    folder = posixpath.dirname(before_wildcard)
    if folder.strip("./"):  # a script may read its neighbours, unless it is in the suite's folder
        yield folder


def _modules_in(text: str) -> Iterator[str]:
    """Yield the Python module that a text names, or the modules that it imports if it is code."""
    target = _TARGET.fullmatch(text)
    if target:
        yield target[1]
    for match in _PYTHON_IMPORT.finditer(text):
        yield match[1]


def _imported_by(code: str) -> Iterator[str]:
    """Yield the JavaScript files that a text imports from the suite's folder if it is code."""
    for match in _JAVASCRIPT_IMPORT.finditer(code):
        for extension in ("", ".js", ".cjs", ".mjs", ".json"):
            yield match[1] + extension


def fits_any_file(pattern: str, folder: Path) -> bool:
    """Return True if a pattern of `paths` matches a file, or if there is no repository to look in.

    Args:
        pattern: the pattern as it is written.
        folder: the suite's folder.
    """
    start = folder.absolute()
    if pattern.startswith("/"):
        while not (start / ".git").exists():
            if start == start.parent:
                return True
            start = start.parent
    relative = posixpath.normpath(pattern.lstrip("/"))
    if not _WILDCARD.search(relative):
        return (start / relative).exists()
    fixed = posixpath.dirname(_WILDCARD.split(relative)[0])
    rest = relative.removeprefix(f"{fixed}/")
    top = start / fixed
    for parent, _, names in os.walk(top):
        for name in names:
            file = Path(parent, name).relative_to(top)
            if _matches(file.as_posix(), rest):
                return True
    return False


def touched(changed: Iterable[str], file: str, patterns: Sequence[str]) -> list[str]:
    """Return the changed files that a suite depends on.

    Args:
        changed: paths from the root of the repository.
        file: the suite's path.
        patterns: its dependencies. `*` and `**` match slashes, too; a folder matches its content.
    """
    folder = posixpath.dirname(file) or "."
    wanted = [posixpath.normpath(file)]
    for pattern in patterns:
        if pattern.startswith("/"):
            wanted.append(posixpath.normpath(pattern.lstrip("/")))
        else:
            wanted.append(posixpath.normpath(posixpath.join(folder, pattern)))
    return [path for path in changed if any(_matches(path, pattern) for pattern in wanted)]


def touched_data(changed: Iterable[str], written: Any) -> list[str]:
    """Return the changed files that hold prompts or cases of a suite.

    Files that a case only names are left out, because the code under test may read them.

    Args:
        changed: paths, relative to the suite's folder.
        written: the suite as it is written, which may be invalid.
    """
    patterns: list[str] = []
    if isinstance(written, Mapping):
        for key in ("prompts", "cases"):
            patterns += _files_read(written.get(key))
    return [path for path in changed if any(_matches(path, each) for each in patterns)]


def _files_read(entries: Any) -> Iterator[str]:
    """Yield the `file` of prompts, or of sources of cases."""
    if isinstance(entries, Mapping):
        entries = [entries]
    if not isinstance(entries, list | tuple):
        return
    for entry in entries:
        if isinstance(entry, Mapping):
            for name in _texts(entry.get("file")):
                yield posixpath.normpath(name)


def _matches(path: str, pattern: str) -> bool:
    if path == pattern or path.startswith(f"{pattern}/"):
        return True
    # `*` of fnmatch matches slashes, too. `**/` has to match no folder at all as well.
    return fnmatchcase(path, pattern.replace("**/", "*"))
