"""results.jsonl: the append-only file of results.

Each invocation writes a header line, then a line for each finished run. A line is handed to the
operating system before its run counts as finished, so that even SIGKILL loses no finished run; the
disk is synced about once a second. If grading may take long, the answer gets a line of its own
before it is graded, so that it isn't paid twice if something ends the grading.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from mimetypes import guess_extension
from pathlib import Path
from typing import Any, Literal, NamedTuple

import filelock
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from ci_evals.errors import StorageError
from ci_evals.files import untrusted_path, write_atomically
from ci_evals.format import abridge
from ci_evals.model.fields import first_problem
from ci_evals.model.report import SuiteInfo
from ci_evals.model.response import Content, Message, Response
from ci_evals.model.result import Result, decode_result, encode_result
from ci_evals.redaction import Redactor

JOURNAL = "results.jsonl"
MAIN_FOLDER = "merge-base"
"""The folder inside the results for what main's code leaves."""
MAIN_JOURNAL = "main.jsonl"
"""The journal of main's runs. Whatever looks for the change's journal, in a folder or in an
artifact, must not find main's.
"""
SCHEMA_VERSION = 1
SYNC_INTERVAL_S = 1.0
MAX_ASKED_CHARACTERS = 20_000
"""The longest message that is kept as it was sent; the middle of a longer one is left out."""
FILES = "files"
"""The folder next to the journal for files of answers, and for long answers."""

_OPENING = b'{"journal":'
_ANSWER = b'{"answered":'
_SUFFIXES = {"audio/wav": ".wav", "audio/x-wav": ".wav", "audio/mpeg": ".mp3", "text/plain": ".txt"}
_DEEPEST = 100  # levels of nesting; JSON readers refuse much more


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first line of an invocation, which names its suite; `planned` is the number of runs at
    its start.
    """

    journal: Literal["ci-evals"] = "ci-evals"
    schema_version: int = SCHEMA_VERSION
    suite: SuiteInfo
    started_at: float
    planned: int | None = None


@cache
def _header_adapter() -> TypeAdapter[Header]:
    return TypeAdapter(Header)


# Reading.


class JournalEntry(NamedTuple):
    """A line of a journal: the result of a run, or its answer if `is_graded` is False.

    `offset` is the position of the line in bytes.
    """

    offset: int
    result: Result
    is_graded: bool


def read_entries(path: Path, start: int = 0) -> Iterator[JournalEntry]:
    """Yield the results and the ungraded answers of a journal, without a torn last line.

    An empty file is a journal whose first line was never written. `start` is the offset of the
    first line to read.

    Raises:
        StorageError: the file is missing, is not a journal, or is damaged before its last line.
    """
    for number, offset, line in _whole_lines(path, start):
        if line.startswith(_OPENING):
            _decode_header(line, path, number)
            continue
        try:
            result = decode_entry(line)
        except ValidationError as error:
            problem = f"the line is damaged ({first_problem(error)})"
            raise StorageError(
                f"{path}:{number}: {problem}: remove it, or start without it"
            ) from error
        yield JournalEntry(offset, result, is_graded=not line.startswith(_ANSWER))


def read_results(path: Path, start: int = 0) -> Iterator[tuple[int, Result]]:
    """Yield the results of a journal, each after the offset of its line; see `read_entries`."""
    for entry in read_entries(path, start):
        if entry.is_graded:
            yield entry.offset, entry.result


def decode_entry(line: bytes) -> Result:
    """Return the result in a line, or the answer as an errored result.

    Raises:
        ValidationError: the line is damaged.
    """
    line = line.rstrip(b"\n")
    if line.startswith(_ANSWER):
        line = line[len(_ANSWER) : -1]
    return decode_result(line)


def headers(path: Path) -> list[Header]:
    """Return the headers of a journal.

    Raises:
        StorageError: the file is missing or is not a journal.
    """
    return [
        _decode_header(line, path, number)
        for number, _, line in _whole_lines(path)
        if line.startswith(_OPENING)
    ]


def first_header(path: Path) -> Header | None:
    """Return the first header of a journal; None if a crash cut it off.

    Raises:
        StorageError: the file is missing or is not a journal.
    """
    for number, _, line in _whole_lines(path):
        return _decode_header(line, path, number)
    return None


def journals_of(paths: Sequence[Path], suite: str) -> tuple[Path, ...]:
    """Return the journals of the suite with this name. A single journal is returned under any name:
    the suite may have been renamed.

    Raises:
        StorageError: a file is missing or is not a journal.
    """
    if len(paths) < 2:
        return tuple(paths)
    journals = []
    for path in paths:
        header = first_header(path)
        if header is not None and header.suite.name == suite:
            journals.append(path)
    return tuple(journals)


def main_journals_of(journals: Iterable[Path]) -> tuple[Path, ...]:
    """Return main's journals, where main's code ran alongside what some journals are of."""
    found = [journal.parent / MAIN_FOLDER / MAIN_JOURNAL for journal in journals]
    return tuple(path for path in found if path.is_file())


def journals_at(path: Path) -> tuple[Path, ...]:
    """Return the journals at a path: a journal, its folder, or a folder of such folders."""
    if not path.is_dir():
        return (path,)
    journal = path / JOURNAL
    if journal.is_file():
        return (journal,)
    below = sorted(path.glob(f"*/{JOURNAL}"))
    return tuple(below) or (journal,)  # does not exist: the error names it


_REMEDY = "code under test must leave the results folder alone"


def read_lines(path: Path, offsets: Iterable[int]) -> Iterator[bytes]:
    """Yield the lines that start at the given offsets, in the given order.

    Raises:
        StorageError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            for offset in offsets:
                file.seek(offset)
                yield file.readline().rstrip(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        raise StorageError(f"{path}: something removed it while the suite ran: {_REMEDY}") from None
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}") from error


def restore_output(response: Response, folder: Path) -> Response:
    """Return a response with its full output restored; `folder` is the journal's.

    Raises:
        StorageError: the file with the output cannot be read, or is not in the folder.
    """
    if response.whole is None and not response.turns:
        return response
    turns = []
    for turn in response.turns:
        restored = restore_output(turn.response, folder)
        turns.append(replace(turn, response=restored))
    if response.whole is None:
        return replace(response, turns=tuple(turns))
    try:
        output = untrusted_path(folder, response.whole).read_text("utf-8")
    except (OSError, ValueError) as error:
        path = folder / response.whole
        raise StorageError(f"{path}: the rest of a long answer cannot be read: {error}") from error
    return replace(response, output=output, whole=None, turns=tuple(turns))


def is_being_written(path: Path) -> bool:
    """Return True if an invocation holds the lock of a journal, or was killed while it did."""
    return _lock_file(path).exists()


def _lock_file(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def is_torn(path: Path) -> bool:
    """Return True if a crash cut off the last line."""
    return _whole_bytes(path) < path.stat().st_size


def _whole_lines(path: Path, start: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """Yield the number, offset and text of each line that ends in a line feed, from the one at
    `start`.
    """
    refuse_pipe(path)
    offset = start
    try:
        with path.open("rb") as file:
            file.seek(start)
            for number, line in enumerate(file, 1):
                # A crash may have torn the first line: its beginning is enough.
                if offset == 0 and not line.startswith(_OPENING[: len(line)]):
                    raise StorageError(
                        f"{path}: is not a ci-evals journal: name another file, or move it away"
                    )
                if line.endswith(b"\n"):
                    yield number, offset, line[:-1]
                offset += len(line)
    except FileNotFoundError:
        raise StorageError(
            f"{path}: there is no journal here: pass the results folder of a run,"
            f" or their {JOURNAL}"
        ) from None
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}") from error


def refuse_pipe(path: Path) -> None:
    """Refuse a named pipe: opening one waits for its other end, and none can be read twice.

    Raises:
        StorageError: this is one.
    """
    if path.is_fifo():
        raise StorageError(
            f"{path}: is a named pipe, but a journal must be a regular file: choose another path"
        )


def _whole_bytes(path: Path) -> int:
    with path.open("rb") as file:
        return sum(len(line) for line in file if line.endswith(b"\n"))


def _decode_header(line: bytes, path: Path, number: int) -> Header:
    try:
        header = _header_adapter().validate_json(line)
    except ValidationError as error:
        raise StorageError(
            f"{path}:{number}: is not a ci-evals header: {first_problem(error)}"
        ) from error
    version = header.schema_version
    if version != SCHEMA_VERSION:
        ours = f"this ci-evals reads version {SCHEMA_VERSION}"
        problem = f"the journal has version {version}, but {ours}"
        raise StorageError(f"{path}:{number}: {problem}: start without it")
    return header


# Files next to the journal.


def keep_files(response: Response, folder: Path | None) -> Response:
    """Keep the files of a response in the results folder; see `keep_file`."""
    kept = []
    for content in response.files:
        if content.sha256:  # a stage has kept it already
            kept.append(content)
        else:
            kept.append(keep_file(content, folder))
    return replace(response, files=tuple(kept))


def keep_file(content: Content, folder: Path | None) -> Content:
    """Write a file into `files` in the results folder, if there is one; return it with its digest
    and path.

    Its name is its digest, so that answers that repeat a file share one copy.

    Raises:
        StorageError: it cannot be written.
    """
    sha256 = digest_of(content)
    if folder is None:
        return replace(content, sha256=sha256, size=len(content.data))
    name = f"{FILES}/{sha256}{_suffix_of(content.media_type)}"
    path = folder / name
    if not path.exists():
        try:
            write_atomically(path, [content.data])
        except StorageError:
            if not path.exists():  # Windows replaces no file that another writer has open
                raise
    return replace(content, sha256=sha256, size=len(content.data), path=name)


def digest_of(content: Content) -> str:
    """Return the SHA-256 of a file."""
    return content.sha256 or hashlib.sha256(content.data).hexdigest()


def _suffix_of(media_type: str) -> str:
    if media_type in _SUFFIXES:
        return _SUFFIXES[media_type]
    return guess_extension(media_type.partition(";")[0].strip()) or ".bin"


def without_data(response: Response) -> Response:
    """Return a response as a journal may keep it: its files with type and path, without their
    bytes.
    """
    return replace(response, files=tuple(replace(content, data=b"") for content in response.files))


# Writing.


def _lock(path: Path) -> filelock.FileLock:
    """Lock a journal.

    Raises:
        StorageError: the file cannot be written, or another process is writing to it.
    """
    refuse_pipe(path)
    lock = filelock.FileLock(_lock_file(path), blocking=False, thread_local=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Opening the file tells why it cannot be written; the lock tells only that it is taken.
        path.open("ab").close()
        lock.acquire()
    except filelock.Timeout:
        remedy = "wait for it, or choose another --out"
        raise StorageError(f"{path}: another ci-evals is writing to it: {remedy}") from None
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be written: {error.strerror}: choose another --out"
        ) from error
    return lock


class Journal:
    """The only writer of a results.jsonl, which stays locked until `close`.

    Args:
        path: the file.
        redactor: takes secrets out of every line.
        max_answer_bytes: the longest output that is kept in the journal; see `shorten`.
        resume: append to the existing journal. Otherwise, it is renamed to `….previous.jsonl`.
            Either way, values that have become secret since it was written are taken out of it.

    Raises:
        StorageError: the file cannot be written, is not a journal, or another process is writing to
            it.
    """

    def __init__(
        self,
        path: Path,
        redactor: Redactor,
        *,
        max_answer_bytes: int = 1_000_000,
        resume: bool = False,
    ) -> None:
        self.path = path
        self.torn = False
        """True if a crash had torn the last line, which was removed."""
        self._redactor = redactor
        self._max_answer_bytes = max_answer_bytes
        self._unsynced = False
        self._fd = -1
        self._lock = _lock(path)
        try:
            self._open(resume=resume)
        except BaseException:
            self.close()
            raise

    def _open(self, *, resume: bool) -> None:
        path = self.path
        next(_whole_lines(path), None)  # refuses a foreign file before it is touched
        try:
            if resume and is_torn(path):
                os.truncate(path, _whole_bytes(path))
                self.torn = True
            # Before the rename: the previous journal must not keep a secret either.
            with path.open("rb") as file:
                if any(map(self._redactor.finds, file)):
                    file.seek(0)
                    write_atomically(path.resolve(), map(self._clean_line, file))
            if not resume and path.stat().st_size:
                path.replace(path.with_suffix(f".previous{path.suffix}"))
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            # Text mode on Windows would write \r\n, and offsets would be wrong.
            flags |= getattr(os, "O_BINARY", 0)
            self._fd = os.open(path, flags, 0o644)
            self._end = os.fstat(self._fd).st_size
        except OSError as error:
            raise self._unwritable(error) from error

    def _clean_line(self, line: bytes) -> bytes:
        """Take secrets out of a line. One that is torn or damaged is cleaned as text."""
        if not self._redactor.finds(line):
            return line
        try:
            if line.startswith(_OPENING):
                header = _header_adapter().validate_json(line)
                cleaned = _encode_header(self._redactor.clean(header))
            else:
                cleaned = encode_result(self._redactor.clean(decode_entry(line)))
                if line.startswith(_ANSWER):
                    cleaned = _ANSWER + cleaned + b"}"
        except ValidationError:
            text = line.decode(errors="surrogateescape")
            return self._redactor.clean_text(text).encode(errors="surrogateescape")
        return cleaned + b"\n"

    def start(self, header: Header) -> None:
        """Write the header of an invocation, without secrets."""
        self._append(_encode_header(self._redactor.clean(header)))

    def append(self, result: Result) -> tuple[Result, int]:
        """Write a result. Return it without secrets, as it was written, and the byte offset of its
        line.

        Raises:
            StorageError: the disk is full or gone.
        """
        result, line = self._encode(result)
        return result, self._append(line)

    def append_answer(self, result: Result) -> None:
        """Write an answer before it is graded, as an errored result.

        Raises:
            StorageError: the disk is full or gone.
        """
        _, line = self._encode(result)
        self._append(_ANSWER + line + b"}")

    def _encode(self, result: Result) -> tuple[Result, bytes]:
        """Return a result without secrets, and its line.

        Almost every result is encoded once: the line tells quickly whether more is needed.
        """
        try:
            line = encode_result(result)
        except PydanticSerializationError:
            result = _encodable(result)
            line = encode_result(result)
        if len(line) > MAX_ASKED_CHARACTERS and result.messages:
            messages = tuple(map(self._abridge, result.messages))
            result = replace(result, messages=messages)
            line = encode_result(result)
        if self._redactor.suspects(line):
            result = self._redactor.clean(result)
            line = encode_result(result)
        return result, line

    def _abridge(self, message: Message) -> Message:
        """Leave out the middle of a long message, without cutting a secret in two."""

        def short(text: str) -> str:
            cleaned = self._redactor.clean_text(text)
            return abridge(cleaned, MAX_ASKED_CHARACTERS)

        if isinstance(message.content, str):
            return replace(message, content=short(message.content))
        parts = []
        for part in message.content:
            if part.text is None:
                parts.append(part)
            else:
                parts.append(replace(part, text=short(part.text)))
        return replace(message, content=tuple(parts))

    def is_too_long(self, response: Response) -> bool:
        """Return True if an output or the thoughts of the response, or of one of its turns, are
        longer than `max_answer_bytes`.
        """
        if self._exceeds(response.output):
            return True
        if response.thoughts and self._exceeds(response.thoughts):
            return True
        return any(self.is_too_long(turn.response) for turn in response.turns)

    def _exceeds(self, output: str) -> bool:
        if len(output) <= self._max_answer_bytes // 4:
            return False  # UTF-8 takes at most 4 bytes a character
        if len(output) > self._max_answer_bytes:
            return True
        return len(output.encode(errors="replace")) > self._max_answer_bytes

    def shorten(self, response: Response) -> Response:
        """Write outputs that are too long to files next to the journal; return the response with
        their beginnings. The middle of thoughts that are too long is left out.

        May be called from another thread.

        Raises:
            StorageError: a file cannot be written.
        """
        most = self._max_answer_bytes
        turns = []
        for turn in response.turns:
            shortened = self.shorten(turn.response)
            turns.append(replace(turn, response=shortened))
        thoughts = response.thoughts
        if self._exceeds(thoughts):
            thoughts = abridge(self._redactor.clean_text(thoughts), most // 4)
        response = replace(response, turns=tuple(turns), thoughts=thoughts)
        output = response.output.encode(errors="replace")
        if len(output) <= most:
            return response
        cleaned = self._redactor.clean_text(output.decode()).encode()
        digest = hashlib.sha256(cleaned).hexdigest()
        whole = f"{FILES}/{digest}.txt"
        write_atomically(self.path.parent / whole, [cleaned])
        start = cleaned[:most].decode(errors="ignore")
        note = f"[the first {most:,} of {len(cleaned):,} bytes; all of them are in {whole}]"
        return replace(response, output=f"{start}\n{note}", whole=whole)

    def _append(self, line: bytes) -> int:
        offset = self._end
        data = line + b"\n"
        written = 0
        try:
            while written < len(data):  # a disk that is nearly full may take only a part
                written += os.write(self._fd, data[written:])
        except OSError as error:
            with suppress(OSError):  # half a line would make the next one unreadable
                os.ftruncate(self._fd, offset)
            raise self._unwritable(error) from error
        self._end += written
        self._unsynced = True
        return offset

    def sync(self) -> None:
        """Sync everything written so far to the disk. May be called from another thread.

        Raises:
            StorageError: the disk is full or gone.
        """
        if self._unsynced:
            self._unsynced = False  # first: the main thread may write while this one syncs
            try:
                os.fsync(self._fd)
            except OSError as error:
                raise self._unwritable(error) from error

    def close(self) -> None:
        """Sync and unlock the file."""
        try:
            if self._fd >= 0:
                self.sync()
        finally:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
            if self._lock.is_locked:
                # Deleted while it is locked: nobody else can hold this file, and the next one to
                # lock creates its own.
                with suppress(OSError):
                    Path(self._lock.lock_file).unlink()
                self._lock.release()

    def _unwritable(self, error: OSError) -> StorageError:
        problem = f"{self.path}: cannot be written: {error.strerror}"
        advice = "Earlier results are intact: free some space and continue with --resume"
        return StorageError(f"{problem}. {advice}")


def _encode_header(header: Header) -> bytes:
    return _header_adapter().dump_json(header, exclude_none=True)


def _encodable(value: Any, depth: int = 0) -> Any:
    """Return a value without anything that JSON cannot express: lone surrogates, bytes, very deep
    nesting.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, bytes) and value:
        return repr(value)
    is_container = isinstance(value, dict | list | tuple)
    if depth == _DEEPEST:
        if is_container:
            return "(nested too deeply)"
        return value
    if isinstance(value, dict):
        keys = [_encodable(key, depth + 1) for key in value]
        items = [_encodable(item, depth + 1) for item in value.values()]
        return dict(zip(keys, items, strict=True))
    if is_container:
        items = [_encodable(item, depth + 1) for item in value]
        return type(value)(items)
    if is_dataclass(value) and not isinstance(value, type):
        changes = {}
        for field in fields(value):
            item = getattr(value, field.name)
            changes[field.name] = _encodable(item, depth + 1)
        return replace(value, **changes)
    return value
