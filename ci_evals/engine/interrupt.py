"""Signals and streams: the first SIGINT, SIGTERM or SIGHUP stops a run and saves its report, the
second exits.
"""

import asyncio
import io
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Self, TextIO, TypeVar

from typing_extensions import Buffer

from ci_evals.engine.runner import Run
from ci_evals.errors import StorageError
from ci_evals.providers.subprocess import kill_all

T = TypeVar("T")

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
if sys.platform != "win32":
    EXIT_CODES[signal.SIGHUP] = 129  # the terminal is gone
_LONGEST_LINE = 1024 * 1024


# Signals.


class Stop:
    """Tells a run why it is to end. Its task is cancelled after that."""

    reason: str | None = None
    run: Run | None = None

    def request(self, reason: str) -> None:
        self.reason = reason
        if self.run is not None:
            self.run.abort(reason)


class StoppableRun:
    """Runs work on an event loop of its own until it ends or the first SIGINT, SIGTERM or SIGHUP
    stops it.

    The handlers stay until the context ends, so that a second signal ends the process while reports
    are written, too. The journal is whole at any moment.

    Args:
        around: makes the context in which code under test runs.
    """

    def __init__(self, around: Callable[[], AbstractContextManager[None]]) -> None:
        self.stop = Stop()
        self._around = around
        self._runner = asyncio.Runner()
        self._signals = _Signals(self.stop.request)
        self._handled = ExitStack()

    @property
    def exit_code(self) -> int | None:
        """See `EXIT_CODES` after a signal, else None."""
        return EXIT_CODES[self._signals.received] if self._signals.received else None

    def __enter__(self) -> Self:
        self._handled.enter_context(self._signals.handle(self._runner.get_loop()))
        return self

    def __exit__(self, *_: object) -> None:
        self._handled.close()
        if (
            self._signals.received is None
        ):  # else nobody waits for threads and tasks that code under test left behind
            with self._around():
                self._runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of some work; the process ends where a signal cancels it before there
        is one.
        """
        with self._around():
            try:
                return self._runner.run(self._signals.cancel(work))
            except asyncio.CancelledError:
                if self._signals.received is not None:
                    _exit_at_once(self._signals.received)
                raise


def run_until_signal(work: Coroutine[Any, Any, T]) -> T:
    """Run work that leaves no report. A signal ends the process, and all that it started."""
    signals = _Signals(lambda _: None)
    with asyncio.Runner() as runner, signals.handle(runner.get_loop()):
        try:
            return runner.run(signals.cancel(work))
        finally:
            if signals.received is not None:
                _exit_at_once(signals.received)


class _Signals:
    """Lets the first of the signals cancel a task, and the second one end the process; ignored ones
    (`nohup`) stay so.

    Args:
        on_first: called with the name of the first one, before the task is cancelled.
    """

    def __init__(self, on_first: Callable[[str], None]) -> None:
        self.received: signal.Signals | None = None
        self._on_first = on_first
        self._task: asyncio.Task[Any] | None = None

    async def cancel(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work that the first signal cancels, even one that came before it began."""
        self._task = task = asyncio.create_task(work)
        if self.received is not None:
            task.cancel()
        return await task

    @contextmanager
    def handle(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        def on_signal(number: int, _frame: FrameType | None) -> None:
            which = signal.Signals(number)
            if self.received is not None:
                _exit_at_once(which)
            self.received = which
            self._on_first(which.name)
            if self._task is not None:
                loop.call_soon_threadsafe(self._task.cancel)

        heeded = [which for which in EXIT_CODES if signal.getsignal(which) is not signal.SIG_IGN]
        before = {which: signal.signal(which, on_signal) for which in heeded}
        try:
            yield
        finally:
            for which, handler in before.items():
                signal.signal(which, handler)


def _exit_at_once(which: signal.Signals) -> NoReturn:
    kill_all()
    os._exit(EXIT_CODES[which])


# Streams.


def prepare_streams() -> None:
    """Make stdout and stderr safe to print to, closed or ASCII as they may be."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if (
            stream is None
        ):  # closed (`>&-`): the next file opened would get its number, and all that is printed
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  until the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # an ASCII terminal shows a question mark for what it lacks


def say(stream: TextIO, text: str) -> None:
    """Print a text at once. A reader who is gone (`ci-evals run | head -1`) is no error.

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
    """Return the width of a terminal in cells; 0 if it is unknown, or the stream is no terminal."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # ValueError of a stream that is closed
        return 0


def rows_of(stream: TextIO) -> int:
    """Return the height of a terminal; 24 lines if it is unknown."""
    try:
        return os.get_terminal_size(stream.fileno()).lines or 24
    except (OSError, ValueError):
        return 24


def flush_streams() -> None:
    """Flush for the last time, so that the interpreter does not complain of a reader who is
    gone.
    """
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
    """Send what code under test prints to `stderr`, a line at a time, each through `clean` and
    after `start`.

    Stdout has the outcome and nothing else. Programs that the code starts inherit stderr as their
    stdout, too.
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
    """Passes on whole lines. It stays usable afterwards: loggers may keep it."""

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
        """Pass on what has no line end."""
        if self._rest:
            self._pass_on(self._rest + b"\n")
            self._rest = b""

    def _pass_on(self, lines: bytes) -> None:
        say(self._stream, self._start + self._clean(lines.decode("utf-8", "replace")))


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Let file descriptor 1, which child processes inherit, be 2 for a while."""
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
