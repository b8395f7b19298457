"""The append-only file of results: a header line, then one line per finished run, each a JSON object.

Every line is handed to the operating system before its run counts as finished, so even SIGKILL loses no finished
run; lines are synced to disk in batches.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ci_evals.errors import StorageError
from ci_evals.model import Result
from ci_evals.report import SuiteInfo

SCHEMA_VERSION = 1
SYNC_INTERVAL_S = 1.0


class Header(Struct, frozen=True, kw_only=True):
    """The first line of a journal: which suite its results are of."""

    journal: Literal["ci-evals"] = "ci-evals"
    schema_version: int = SCHEMA_VERSION
    suite: SuiteInfo
    started_at: float

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            raise ValueError(f"journal schema version {self.schema_version}, this ci-evals reads {SCHEMA_VERSION}")


def _encode_other(value: Any) -> str:
    return repr(value)


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_other)
_DECODER = msgspec.json.Decoder(Result)
decode = _DECODER.decode


class Journal:
    """Writes results to an open file and reads them back by their offsets.

    Args:
        path: the file; replaced if it is there.
        header: its first line.

    Raises:
        StorageError: the file cannot be made or written.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        self._buffer = bytearray()
        self._unsynced = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o644)
        except OSError as error:
            raise StorageError(f"{path}: cannot be written: {error.strerror}") from error
        self._end = 0
        self._append(_ENCODER.encode(header) + b"\n")

    def append(self, result: Result) -> int:
        """Write one result; returns the offset of its line in bytes.

        Raises:
            StorageError: the disk is full or gone.
        """
        try:
            _ENCODER.encode_into(result, self._buffer)
        except UnicodeEncodeError:  # a lone surrogate somewhere in an answer: JSON in UTF-8 has no way to say it
            _ENCODER.encode_into(_without_surrogates(result), self._buffer)
        self._buffer += b"\n"
        return self._append(self._buffer)

    def _append(self, line: bytes | bytearray) -> int:
        offset = self._end
        written = 0
        try:
            while written < len(line):
                written += os.write(self._fd, memoryview(line)[written:] if written else line)
        except OSError as error:
            raise StorageError(f"{self.path}: cannot be written: {error.strerror}") from error
        self._end += written
        self._unsynced = True
        return offset

    def sync(self) -> None:
        """Have what was written since the last call put on the disk itself; may be called from another thread."""
        if self._unsynced:
            self._unsynced = False
            os.fsync(self._fd)

    def close(self) -> None:
        self.sync()
        os.close(self._fd)


def read_lines(path: Path, offsets: Iterable[int]) -> Iterator[bytes]:
    """The lines that start at the given offsets, without their newline, in the order of the offsets."""
    with path.open("rb") as file:
        for offset in offsets:
            file.seek(offset)
            yield file.readline().rstrip(b"\n")


def _without_surrogates(value: Any) -> Any:
    builtins = msgspec.to_builtins(value, enc_hook=_encode_other)
    return msgspec.convert(_scrub(builtins), type(value))


def _scrub(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_scrub(key): _scrub(item) for key, item in value.items()}
    return [_scrub(item) for item in value] if isinstance(value, list | tuple) else value
