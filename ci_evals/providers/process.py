"""One child process: what it is told, what it says, and how it and its children are ended."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct

from ci_evals.providers.descendants import Descendants, kill_every_one

STDERR_TAIL_BYTES = 4096
_READ_BYTES = 64 * 1024  # as much as pipes mostly hold
_GRACE_S = 1.0
_DRAIN_S = 1.0
_REAP_S = 5.0
_POLL_S = 0.02

Reason = Literal["exit", "timeout", "too_large"]

_running: set[int] = set()  # the process groups of children that have not been cleared away
_elsewhere: dict[str, tuple[str, ...]] = {}  # what runs in no process of ours, with the command that ends it


def kill_all() -> None:
    """End every child and whatever it started, at once: for a process that has no time left.

    What runs elsewhere is ended by commands that go on when this process is gone.
    """
    for pid in tuple(_running):  # the event loop may start and end children meanwhile
        _signal_group(pid, "SIGKILL")
    kill_every_one()
    left = _elsewhere.copy()
    for command in {*left.values()}:
        _start_apart([*command, *(name for name, ended_by in left.items() if ended_by == command)])


@contextmanager
def running_elsewhere(name: str, *, ended_by: tuple[str, ...]) -> Iterator[None]:
    """Have `kill_all` end what is no child of this process.

    Args:
        name: what runs, as `ended_by` knows it.
        ended_by: a command that ends everything whose name follows it.
    """
    _elsewhere[name] = ended_by
    try:
        yield
    finally:
        del _elsewhere[name]


def _start_apart(argv: Sequence[str]) -> None:
    nowhere = subprocess.DEVNULL
    with suppress(OSError):
        subprocess.Popen(argv, stdin=nowhere, stdout=nowhere, stderr=nowhere, **_own_group())  # noqa: S603  no shell


class Ended(Struct, frozen=True):
    """How a process ended and what it had said by then. A negative `status` is the signal that killed it."""

    why: Reason
    status: int | None
    stdout: bytes
    stderr_tail: bytes


async def exchange(  # noqa: PLR0913  all that one program may be given
    argv: Sequence[str],
    stdin: bytes,
    *,
    cwd: Path,
    env: Mapping[str, str] | None,
    timeout_s: float,
    max_bytes: int,
    descendants: Descendants | None = None,
) -> Ended:
    """Run a program to its end, and leave nothing of it behind.

    Args:
        argv: the program and its arguments; no shell is involved.
        stdin: what it may read.
        cwd: the folder it runs in.
        env: its whole environment; this process's own when None.
        timeout_s: seconds after which it is ended.
        max_bytes: how much it may write to stdout before it is ended.
        descendants: what it starts in groups of their own is among them and goes on; None: that ends with it.

    Raises:
        OSError: it could not be started.
    """
    child = _Child(max_bytes, descendants or Descendants())
    try:
        async with asyncio.timeout(timeout_s) as scope:
            await _start(child, argv, stdin, cwd, child.descendants.environment(env))
            await child.ended.wait()
            await _drain(child)
    except TimeoutError:
        if not scope.expired():
            raise
    finally:
        in_time = child.ended.is_set()
        try:
            await _clear_away(child)
        finally:
            if descendants is None:
                await end_all(child.descendants)
    why: Reason = "too_large" if child.too_large else "exit" if in_time else "timeout"
    status = child.transport.get_returncode() if child.transport else None
    return Ended(why, status, bytes(child.stdout), bytes(child.stderr))


class _Child(asyncio.SubprocessProtocol):
    """Collects what a process writes; `ended` is set once there is nothing more to wait for."""

    def __init__(self, max_bytes: int, descendants: Descendants) -> None:
        self.max_bytes = max_bytes
        self.descendants = descendants
        self.transport: asyncio.SubprocessTransport | None = None
        self.pipes: list[_Pipe] = []
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.too_large = False
        self.open_pipes = {1, 2}
        self.ended = asyncio.Event()
        self.exited = asyncio.Event()
        self.drained = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.SubprocessTransport", transport)  # uvloop's is no subclass
        _running.add(self.transport.get_pid())
        self.descendants.adopt(self.transport.get_extra_info("subprocess"))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.stderr += data
            del self.stderr[:-STDERR_TAIL_BYTES]
        elif len(self.stdout) + len(data) <= self.max_bytes:
            self.stdout += data
        else:
            self.too_large = True
            self.ended.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self.open_pipes.discard(fd)
        if not self.open_pipes:
            self.drained.set()

    def process_exited(self) -> None:
        self.exited.set()
        self.ended.set()


async def _start(child: _Child, argv: Sequence[str], stdin: bytes, cwd: Path, env: Mapping[str, str] | None) -> None:
    loop = asyncio.get_running_loop()
    with ExitStack() as ours, tempfile.TemporaryFile() as file:
        # A file and pipes of our own, because event loops may use sockets, which programs cannot open as /dev/stdin
        # or /dev/stderr; and a program that does not read its stdin breaks no pipe.
        file.write(stdin)
        file.seek(0)
        stdout, stderr = [_output(child, fd, ours) for fd in (1, 2)]
        await loop.subprocess_exec(
            lambda: child, *argv, stdin=file, stdout=stdout, stderr=stderr, cwd=cwd, env=env, **_own_group()
        )


def _output(child: _Child, fd: int, ours: ExitStack) -> int:
    """What to give the program as stdout or stderr. Our copy of its end is closed with `ours`."""
    if sys.platform == "win32":
        return subprocess.PIPE
    reading, writing = os.pipe()
    ours.callback(os.close, writing)
    child.pipes.append(_Pipe(child, fd, reading))
    return writing


class _Pipe:
    """Hands on what comes through one pipe, and closes our end of it.

    Not by `connect_read_pipe`: uvloop closes its file twice, and the second time it may be a file that another thread
    has opened meanwhile.
    """

    def __init__(self, child: _Child, fd: int, reading: int) -> None:
        self._child = child
        self._fd = fd
        self._reading = reading
        self._loop = asyncio.get_running_loop()
        os.set_blocking(reading, False)
        self._loop.add_reader(reading, self._read)

    def close(self) -> None:
        if self._reading >= 0:
            self._loop.remove_reader(self._reading)
            os.close(self._reading)
            self._reading = -1
            self._child.pipe_connection_lost(self._fd, None)

    def _read(self) -> None:
        try:
            data = os.read(self._reading, _READ_BYTES)
        except BlockingIOError:
            return
        if data:
            self._child.pipe_data_received(self._fd, data)
        else:
            self.close()


def _own_group() -> dict[str, Any]:
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


async def _drain(child: _Child) -> None:
    """Read what an ended process left in its pipes; a grandchild may hold them open for ever, so not for long."""
    if not child.too_large:
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                await child.drained.wait()


async def _clear_away(child: _Child) -> None:
    """End the process if it runs, and in any case whatever it started in its group."""
    try:
        if child.transport and not child.exited.is_set():
            await _ask_to_end(child.transport.get_pid())
    finally:  # even if a second cancellation cuts the grace short
        if child.transport:
            _signal_group(child.transport.get_pid(), "SIGKILL")
            _running.discard(child.transport.get_pid())
            child.transport.close()
        for pipe in child.pipes:
            pipe.close()
    if child.transport is None:
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(_REAP_S):
            await child.exited.wait()


async def end_all(descendants: Descendants) -> None:
    """End what programs left behind, and wait until it is gone."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_REAP_S):
            while descendants.kill():  # noqa: ASYNC110  nothing reports their end
                await asyncio.sleep(_POLL_S)


async def _ask_to_end(pid: int) -> None:
    if sys.platform == "win32":
        await _end_windows_tree(pid)
        return
    _signal_group(pid, "SIGTERM")
    with suppress(TimeoutError):
        async with asyncio.timeout(_GRACE_S):
            while _signal_group(pid, None):  # noqa: ASYNC110  nothing reports the end of a process group
                await asyncio.sleep(_POLL_S)


def _signal_group(pid: int, name: str | None) -> bool:
    """Send a signal to a group, or only look (None); whether there was anybody to get it."""
    if sys.platform == "win32":
        return False
    try:
        os.killpg(pid, signal.Signals[name] if name else 0)
    except (ProcessLookupError, PermissionError):  # macOS says EPERM of a group of zombies
        return False
    return True


async def _end_windows_tree(pid: int) -> None:
    nowhere = subprocess.DEVNULL
    taskkill = await asyncio.create_subprocess_exec(
        "taskkill", "/T", "/F", "/PID", str(pid), stdout=nowhere, stderr=nowhere
    )
    await taskkill.wait()
