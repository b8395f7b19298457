"""ci-evals as a process of its own, the way users and CI start it."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, TextIO

import prefork

COMMAND = (sys.executable, "-m", "ci_evals")


class Process(Protocol):
    """What tests use of `asyncio.subprocess.Process`."""

    @property
    def returncode(self) -> int | None: ...
    @property
    def stdout(self) -> asyncio.StreamReader | None: ...
    def send_signal(self, signal: int, /) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    async def communicate(self) -> tuple[bytes, bytes]: ...


class Finished(NamedTuple):
    """How a process ended and what it said."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        return self.stdout.decode()

    @property
    def err(self) -> str:
        return self.stderr.decode()

    @property
    def headline(self) -> str:
        """The first line of what was printed that is not blank."""
        return next(line for line in self.out.splitlines() if line.strip())

    @property
    def unwrapped(self) -> str:
        """What was printed, without the ends of lines."""
        return " ".join(self.out.split())


def environment(changes: Mapping[str, str]) -> Mapping[str, str]:
    """This process's environment without what would change a run, and with `changes`."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CI_", "GITHUB_", "GITLAB_", "COVERAGE"))
        and name not in ("COLUMNS", "NO_COLOR")
    }
    return {**inherited, **changes}


class Forked:
    """A process made by `prefork` that looks like asyncio's and does not outlive the event loop."""

    def __init__(
        self,
        child: prefork.Child,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader | None,
    ) -> None:
        self.stdout = stdout
        self._stderr = stderr
        self._pid = child.pid
        self._ended = asyncio.create_task(self._wait(child.socket))

    async def _wait(self, connection: socket.socket) -> int:
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        try:
            return prefork.exit_code(await reader.readexactly(prefork.STATUS_BYTES))
        except asyncio.CancelledError:
            os.kill(self._pid, signal.SIGKILL)
            raise
        finally:
            writer.close()

    @property
    def returncode(self) -> int | None:
        return self._ended.result() if self._ended.done() else None

    def send_signal(self, signal: int) -> None:
        if self.returncode is None:
            os.kill(self._pid, signal)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def communicate(self) -> tuple[bytes, bytes]:
        async with asyncio.TaskGroup() as group:
            stdout = group.create_task(self.stdout.read())
            stderr = group.create_task(self._stderr.read()) if self._stderr else None
        await self._ended
        return stdout.result(), stderr.result() if stderr else b""


async def start(
    folder: Path,
    *arguments: str,
    command: tuple[str, ...] = COMMAND,
    preexec: Callable[[], None] | None = None,
    environ: Mapping[str, str] = {},
    constants: Mapping[str, float] = {},
    stderr: TextIO | None = None,
) -> Process:
    """Start a command in a folder with an empty stdin; stderr goes to a file if one is given.

    `constants` shortens waiting times where processes are forked.
    """
    if command is COMMAND and preexec is None and _may_fork(environ):
        out, out_to = await _pipe()
        err, err_to = (None, os.dup(stderr.fileno())) if stderr else await _pipe()
        try:
            changed = environment(environ)
            child = prefork.fork(
                folder, (*COMMAND[1:], *arguments), changed, constants, out_to, err_to
            )
        finally:
            os.close(out_to)
            os.close(err_to)
        return Forked(child, out, err)
    return await asyncio.create_subprocess_exec(
        *command,
        *arguments,
        cwd=folder,
        env=environment(environ),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=stderr or PIPE,
        preexec_fn=preexec,
    )


async def _pipe() -> tuple[asyncio.StreamReader, int]:
    """Return the end to read from and the descriptor to write to."""
    ours, theirs = os.pipe()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb")
    )
    return reader, theirs


async def finished(process: Process) -> Finished:
    """Wait for the end of a process."""
    stdout, stderr = await process.communicate()
    assert process.returncode is not None
    return Finished(process.returncode, stdout, stderr)


async def ci_evals(
    folder: Path,
    *arguments: str,
    command: tuple[str, ...] = COMMAND,
    preexec: Callable[[], None] | None = None,
    environ: Mapping[str, str] = {},
    constants: Mapping[str, float] = {},
) -> Finished:
    """Run a command to its end. `constants` shortens waiting times where processes are forked."""
    if command is COMMAND and preexec is None:
        return await asyncio.to_thread(
            python, folder, *COMMAND[1:], *arguments, environ=environ, constants=constants
        )
    return await finished(
        await start(folder, *arguments, command=command, preexec=preexec, environ=environ)
    )


def python(
    folder: Path,
    *arguments: str,
    environ: Mapping[str, str] = {},
    constants: Mapping[str, float] = {},
) -> Finished:
    """Run `python ARGUMENTS` to its end; its stdin is empty."""
    environ = environment(environ)
    if _may_fork(environ):
        return Finished(*prefork.run(folder, arguments, environ, constants))
    done = subprocess.run(
        (sys.executable, *arguments),
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def _may_fork(environ: Mapping[str, str]) -> bool:
    """Return False for variables that Python reads on startup; a fork speaks UTF-8 in any case."""
    read = {
        name
        for name, value in environ.items()
        if name.startswith("PYTHON") and os.environ.get(name) != value
    }
    return prefork.SUPPORTED and (
        read - {"PYTHON"} <= {"PYTHONUTF8"} and environ.get("PYTHONUTF8") != "0"
    )


async def until(condition: Callable[[], bool], within_s: float = 30) -> None:
    """Wait for what files and processes have come to; they tell nobody about their changes."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  nothing to await
            await asyncio.sleep(0.01)
