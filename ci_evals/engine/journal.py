"""The append-only file of results: header lines, each followed by one line per finished run, all JSON objects.

Every invocation that writes to a journal starts with a header. A result line is handed to the operating system before
its run counts as finished, so even SIGKILL loses no finished run; lines are synced to disk in batches.
"""

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec

from ci_evals.engine.journal_lines import OPENING, Header, decode, decode_header, decode_result, lines
from ci_evals.engine.lock import lock
from ci_evals.errors import StorageError
from ci_evals.model import Result
from ci_evals.redaction import Redactor

JOURNAL = "results.jsonl"
SYNC_INTERVAL_S = 1.0

_OWN_BYTES = len('{"fingerprint":"') + 49  # of a result's line, before what a provider could have written
_ENCODER = msgspec.json.Encoder(enc_hook=repr)


class Journal:
    """Writes results to an open, locked file.

    Args:
        path: the file; made if it is not there.
        redactor: takes secrets out of every line.

    Raises:
        StorageError: the file cannot be made or written, or another process writes to it.
    """

    def __init__(self, path: Path, redactor: Redactor) -> None:
        self.path = path
        self._redactor = redactor
        self._unsynced = False
        self._fd = _locked(path)
        self._end = os.fstat(self._fd).st_size

    @classmethod
    def new(cls, path: Path, redactor: Redactor) -> Self:
        """An empty journal; one that is there already is kept beside it as `….previous.jsonl`.

        What is a secret by now is taken out of that one as well, out of damaged lines too.

        Raises:
            StorageError: as above, or the file that is there is somebody else's.
        """
        journal = cls(path, redactor)
        if journal._end == 0:
            return journal
        try:
            journal._replace(journal._cleaned_anyhow)
            journal._rename(path, path.with_suffix(f".previous{path.suffix}"))
        except OSError as error:
            raise _unwritable(path, error) from error
        finally:
            journal.close()
        return cls.new(path, redactor)  # another process may have been quicker to make it

    def clean(self) -> None:
        """Take what is a secret by now out of the lines that are there; every line stays.

        The file is replaced as a whole by another one: whatever ends this process, one of them is there.

        Raises:
            StorageError: it is damaged, the disk is full or gone.
        """
        self._replace(self._cleaned)

    def _replace(self, cleaned: Callable[[int, bytes], bytes]) -> None:
        """Replace the file by one of cleaned lines, if any of them is another then."""
        if all(cleaned(number, line) == line for number, line in lines(self.path)):
            return
        path = self.path.resolve()
        partial = path.with_name(f".{path.name}.partial")
        try:
            with partial.open("wb") as file:
                file.writelines(cleaned(number, line) for number, line in lines(path))
                file.flush()
                os.fsync(file.fileno())
            shutil.copymode(path, partial)
            self._rename(partial, path)
        except OSError as error:
            raise _unwritable(path, error) from error
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
        self._fd = _locked(path)
        self._end = os.fstat(self._fd).st_size

    def _cleaned(self, number: int, line: bytes) -> bytes:
        """A line without what is a secret by now; a torn one is left to whoever cuts it off."""
        if not self._redactor.finds(line) or not line.endswith(b"\n"):
            return line
        decoded = (decode_header if line.startswith(OPENING) else decode_result)(line, self.path, number)
        return _ENCODER.encode(self._redactor.clean(decoded)) + b"\n"

    def _cleaned_anyhow(self, number: int, line: bytes) -> bytes:
        """Any line without what is a secret by now; of a torn or damaged one, the text is cleaned."""
        if not self._redactor.finds(line):
            return line
        if line.endswith(b"\n"):
            with suppress(StorageError):
                return self._cleaned(number, line)
        return self._redactor.clean_text(line.decode(errors="surrogateescape")).encode(errors="surrogateescape")

    def _rename(self, source: Path, target: Path) -> None:
        """Rename the journal or what takes its place, while nobody else may write to it; it is closed afterwards."""
        if sys.platform == "win32":  # where no file is renamed that somebody has open
            self.close()
            source.replace(target)
            return
        source.replace(target)
        self.close()

    @property
    def end(self) -> int:
        """Where the next line will start, in bytes."""
        return self._end

    def start(self, header: Header) -> None:
        """Write the header of an invocation."""
        self._append(_ENCODER.encode(header) + b"\n")

    def append(self, result: Result) -> tuple[Result, int]:
        """Write one result; returns it as written, without secrets, and the offset of its line in bytes.

        Raises:
            StorageError: the disk is full or gone.
        """
        try:
            line = _ENCODER.encode(result)
        except UnicodeEncodeError:  # a lone surrogate somewhere in an answer: JSON in UTF-8 has no way to say it
            result = _without_surrogates(result)
            line = _ENCODER.encode(result)
        if self._redactor.finds(line, _OWN_BYTES):
            result = self._redactor.clean(result)
            line = _ENCODER.encode(result)
        return result, self._append(line + b"\n")

    def copy(self, line: bytes) -> int:
        """Write a result line of another journal, without what is a secret by now; returns its offset."""
        if self._redactor.finds(line, _OWN_BYTES):
            line = _ENCODER.encode(self._redactor.clean(decode(line)))
        return self._append(line + b"\n")

    def cut(self, end: int) -> None:
        """Drop what follows byte `end`: the torn line of a crash."""
        try:
            os.ftruncate(self._fd, end)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self._end = end

    def _append(self, line: bytes) -> int:
        offset, written = self._end, 0
        try:
            written = os.write(self._fd, line)
            while written < len(line):  # a disk that has just become full takes a part
                written += os.write(self._fd, line[written:])
        except OSError as error:
            if written:
                self.cut(offset)
            raise _unwritable(self.path, error) from error
        self._end = offset + written
        self._unsynced = True
        return offset

    def sync(self) -> None:
        """Have what was written since the last call put on the disk itself; may be called from another thread.

        Raises:
            StorageError: the disk is full or gone.
        """
        if self._unsynced:
            self._unsynced = False
            try:
                os.fsync(self._fd)
            except OSError as error:
                raise _unwritable(self.path, error) from error

    def close(self) -> None:
        if self._fd < 0:
            return
        try:
            self.sync()
        finally:
            os.close(self._fd)
            self._fd = -1


def _locked(path: Path) -> int:
    """A file, opened and locked, that still has this name: another process may move it away before it is locked."""
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o644)
        except OSError as error:
            raise StorageError(f"{path}: cannot be written: {error.strerror}: choose another --out") from error
        if not lock(fd):
            os.close(fd)
            raise StorageError(f"{path}: another ci-evals is writing to it: wait for it, or choose another --out")
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(fd), path.stat()):
                return fd
        os.close(fd)


def _unwritable(path: Path, error: OSError) -> StorageError:
    text = f"{path}: cannot be written: {error.strerror}"
    return StorageError(f"{text}. What was written before is whole: make room and go on with --resume")


def _without_surrogates(result: Result) -> Result:
    return msgspec.convert(_scrub(msgspec.to_builtins(result, enc_hook=repr)), Result)


def _scrub(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_scrub(key): _scrub(item) for key, item in value.items()}
    return [_scrub(item) for item in value] if isinstance(value, list | tuple) else value
