"""The files through which a step hands on its outputs and its summary."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final
from uuid import uuid4

from ci_evals.errors import StorageError, UsageError

MAX_SUMMARY_BYTES: Final = 1_048_576
"""GitHub drops a step's summary whole if it has one byte more."""

_LEFT_OUT: Final = "\n*{number} more sections did not fit here; the report has them.*\n"
_ROOM_FOR_NOTE: Final = 100  # bytes


def write_outputs(path: Path, values: Mapping[str, str], delimiter: Callable[[], str] = lambda: uuid4().hex) -> None:
    """Append outputs to the file that `GITHUB_OUTPUT` names.

    Args:
        path: the file.
        values: output by name; a value may have several lines.
        delimiter: makes a word that nobody can guess.

    Raises:
        UsageError: a value holds the delimiter, or a name could not be one.
        StorageError: the file cannot be written.
    """
    _append(path, "".join(_output(name, value, f"ci_evals_{delimiter()}") for name, value in values.items()).encode())


def append_summary(path: Path, sections: Iterable[str]) -> int:
    """Append Markdown to the file that `GITHUB_STEP_SUMMARY` names, by whole sections, as many as GitHub takes.

    Args:
        path: the file; what a step has written to it before counts, too.
        sections: the most important first.

    Returns:
        How many sections were left out; a note at the end says so.

    Raises:
        StorageError: the file cannot be written.
    """
    encoded = [f"{section.rstrip()}\n\n".encode("utf-8", "replace") for section in sections]
    try:
        left_bytes = MAX_SUMMARY_BYTES - (path.stat().st_size if path.exists() else 0)
    except OSError as error:
        raise _unwritable(path, error) from error
    shown = len(encoded)
    while shown and sum(map(len, encoded[:shown])) + _ROOM_FOR_NOTE * (shown < len(encoded)) > left_bytes:
        shown -= 1
    left_out = len(encoded) - shown
    note = _LEFT_OUT.format(number=left_out).encode() if left_out and left_bytes >= _ROOM_FOR_NOTE else b""
    _append(path, b"".join(encoded[:shown]) + note)
    return left_out


def _output(name: str, value: str, delimiter: str) -> str:
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise UsageError(f"{name!a} cannot be the name of an output")
    if delimiter in value:
        raise UsageError(f"the output {name} holds the delimiter that was to end it")
    return f"{name}<<{delimiter}\n{value.encode('utf-8', 'replace').decode()}\n{delimiter}\n"


def _append(path: Path, content: bytes) -> None:
    try:
        with path.open("ab") as file:
            file.write(content)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> StorageError:
    return StorageError(f"{path}: cannot be written: {error.strerror}")
