"""The standard streams of a command, and the width of a terminal."""

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import TextIO

from typing_extensions import Buffer

from ci_evals.errors import StorageError

_LONGEST_LINE = 1024 * 1024

ERASE_VIEW = "\r\x1b[J"
"""Erases the view of a run, which is below the cursor."""


def prepare_streams() -> None:
    """Make stdout and stderr safe to print to, even if they are closed or ASCII only."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        # Closed (`>&-`): the next file to be opened would get its number, and the output with it.
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  until the end
        elif isinstance(stream, io.TextIOWrapper):
            # An ASCII terminal shows a question mark for other characters.
            stream.reconfigure(errors="replace")


def say(stream: TextIO, text: str) -> None:
    """Print a text at once. A reader that is gone (`ci-evals run | head -1`) is not an error.

    Raises:
        StorageError: the stream is a file that cannot be written.
    """
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        pass
    except OSError as error:
        raise StorageError(f"{stream.name}: cannot be written: {error.strerror}") from error


def columns_of(stream: TextIO) -> int:
    """Return the width of a terminal in cells; 0 if it is unknown or not a terminal."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # ValueError: the stream is closed
        return 0


def rows_of(stream: TextIO) -> int:
    """Return the height of a terminal; 24 lines if it is unknown."""
    try:
        return os.get_terminal_size(stream.fileno()).lines or 24
    except (OSError, ValueError):
        return 24


def flush_streams() -> None:
    """Flush for the last time: the interpreter would print an error if a reader is gone."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def redirect_prints(
    stderr: TextIO, clean: Callable[[str], str], *, start: str = ""
) -> Iterator[None]:
    """Send output of code under test to `stderr`, line by line, each line cleaned with `clean` and
    preceded by `start`.

    Stdout is for the outcome only. Programs that the code starts inherit stderr as their stdout.
    """
    lines = _Lines(stderr, clean, start)
    printed = io.TextIOWrapper(
        io.BufferedWriter(lines), "utf-8", "backslashreplace", line_buffering=True
    )
    with ExitStack() as stack:
        stack.callback(lines.finish)
        stack.callback(printed.flush)
        stack.enter_context(_stdout_to_stderr())
        stack.enter_context(redirect_stdout(printed))
        stack.enter_context(redirect_stderr(printed))
        yield


class _Lines(io.RawIOBase):
    """Passes on complete lines. It stays usable afterwards: loggers may keep it."""

    def __init__(self, stream: TextIO, clean: Callable[[str], str], start: str) -> None:
        self._stream = stream
        self._clean = clean
        self._rest = b""
        self._start = start

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, data: Buffer) -> int:
        new = bytes(data)
        end = max(new.rfind(b"\n"), new.rfind(b"\r")) + 1
        if end:
            self._pass_on(self._rest + new[:end])
        self._rest = new[end:] if end else self._rest + new
        if len(self._rest) > _LONGEST_LINE:
            self.finish()
        return len(new)

    def finish(self) -> None:
        """Pass on the rest, which has no line end."""
        if self._rest:
            self._pass_on(self._rest + b"\n")
            self._rest = b""

    def _pass_on(self, lines: bytes) -> None:
        say(self._stream, self._start + self._clean(lines.decode("utf-8", "replace")))


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Within the context, let file descriptor 1, which child processes inherit, be stderr."""
    sys.stdout.flush()
    try:
        stdout = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of them is closed
        yield
        return
    try:
        yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
