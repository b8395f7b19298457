"""The lines of a journal: a header for each invocation, and the results; how they are read back."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ci_evals.errors import StorageError
from ci_evals.model import Result
from ci_evals.report import SuiteInfo

SCHEMA_VERSION = 1
OPENING = b'{"journal":'


class Header(Struct, frozen=True, kw_only=True):
    """The first line of an invocation: which suite its results are of."""

    journal: Literal["ci-evals"] = "ci-evals"
    schema_version: int = SCHEMA_VERSION
    suite: SuiteInfo
    started_at: float


@cache
def _decoder() -> msgspec.json.Decoder[Result]:
    """Made when a journal is read: most runs read none before they call."""
    return msgspec.json.Decoder(Result)


def decode(line: bytes) -> Result:
    return _decoder().decode(line)


class Scanned(Struct, frozen=True):
    """What was found in a journal: where its last whole line ends, and whether a torn one follows."""

    end: int
    torn: bool


def scan(path: Path, found: Callable[[Result, bytes, int], None]) -> Scanned:
    """Read a journal from the start.

    Args:
        path: the file.
        found: called with each result, its line without newline, and the line's offset in bytes.

    An empty file is a journal whose first line was never written.

    Raises:
        StorageError: there is no such file, it is not a journal, or a line in its midst is damaged.
    """
    offset = 0
    for number, line in lines(path):
        if not line.endswith(b"\n"):
            return Scanned(offset, torn=True)
        if line.startswith(OPENING):
            decode_header(line, path, number)
        else:
            found(decode_result(line, path, number), line[:-1], offset)
        offset += len(line)
    return Scanned(offset, torn=False)


def headers(path: Path) -> tuple[Header, ...]:
    """The headers of a journal, whatever stands between them.

    Raises:
        StorageError: there is no such file, or it is not a journal.
    """
    starting = ((number, line) for number, line in lines(path) if line.startswith(OPENING) and line.endswith(b"\n"))
    return tuple(decode_header(line, path, number) for number, line in starting)


def first_header(path: Path) -> Header | None:
    """The header that a journal starts with; None if a crash cut it off.

    Raises:
        StorageError: there is no such file, or it is not a journal.
    """
    number, line = next(lines(path), (1, b""))
    return decode_header(line, path, number) if line.endswith(b"\n") else None


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Every line of a journal with its number, from 1; the last one may be torn."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if number == 1 and not line.startswith(OPENING[: len(line)]):
                    raise StorageError(f"{path}: is not a journal of ci-evals: name another file, or move it away")
                yield number, line
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}") from error


def decode_header(line: bytes, path: Path, number: int) -> Header:
    try:
        header = msgspec.json.decode(line, type=Header)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path}:{number}: not a header of ci-evals: {error}") from error
    if header.schema_version != SCHEMA_VERSION:
        version = f"version {header.schema_version}, and this ci-evals reads version {SCHEMA_VERSION}"
        raise StorageError(f"{path}:{number}: the journal is of {version}: start without it")
    return header


def decode_result(line: bytes, path: Path, number: int) -> Result:
    try:
        return decode(line)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path}:{number}: the line is damaged ({error}): remove it, or start without it") from error


def read_lines(path: Path, offsets: Iterable[int]) -> Iterator[bytes]:
    """The lines that start at the given offsets, without their newline, in the order of the offsets."""
    with path.open("rb") as file:
        for offset in offsets:
            file.seek(offset)
            yield file.readline().rstrip(b"\n")
