"""Runs programs in child processes, and ends all their descendants."""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal, cast

import psutil

from ci_evals.format import describe_status, one_line

MAX_OUTPUT_BYTES = 50 * 1024 * 1024
STDERR_TAIL_BYTES = 4096
_SERVICE_TAIL_BYTES = 16 * 1024
_GRACE_S = 1.0
_DRAIN_S = 1.0
_REAP_S = 5.0
_EXECVE_S = 1.0
_MOST_PASSES = 20
_POLL_S = 0.02
_VARIABLE = "_CI_EVALS_CALL"
_GUARD = Path(__file__).with_name("guard.py")
_THIS_PROCESS = os.urandom(16).hex()

_REASON_CHARACTERS = 300
_CARETS = re.compile(r"\s*\^+\s*")
# Node.js writes these after an error that nobody caught, and about itself.
_NODE_VERSION = "Node.js v"
_NODE_WARNINGS = ("(node:", "(Use `node --")

_numbers = count()
# Programs that are not cleaned up yet, each the leader of a process group.
_running: set[int] = set()
# Names of containers and other things outside our process tree, with the command that ends them.
_elsewhere: dict[str, tuple[str, ...]] = {}

_Why = Literal["exit", "timeout", "too_large"]


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """The end of a program, and its output. A negative `status` is the signal that killed it."""

    why: _Why
    status: int | None
    stdout: bytes
    stderr_tail: bytes

    @property
    def stderr(self) -> str:
        """The end of stderr as text."""
        return self.stderr_tail.decode(errors="replace")

    @property
    def reason(self) -> str:
        """The last line on stderr, shortened, without remarks of Node.js; empty if there is none.

        For an uncaught error of Node.js, it is the line of the error itself.
        """
        lines = [line for line in self.stderr.splitlines() if line.strip()]
        if lines and lines[-1].startswith(_NODE_VERSION):
            for number in range(len(lines) - 2, 0, -1):
                if _CARETS.fullmatch(lines[number - 1]):
                    return one_line(lines[number], _REASON_CHARACTERS)
        for line in reversed(lines):
            if not line.startswith((_NODE_VERSION, *_NODE_WARNINGS)):
                return one_line(line, _REASON_CHARACTERS)
        return ""


class Descendants:
    """All descendants of some programs, daemons included.

    A variable in their environment marks them, so that they are found even after their parents have
    ended. If the system hides the environment of a process, as macOS does for its own programs,
    only the members of its process group are found.
    """

    def __init__(self) -> None:
        self.mark = f"{_THIS_PROCESS}.{next(_numbers)};"
        self._before = frozenset(psutil.pids())  # older than the programs, so not descendants

    def environment(self, given: Mapping[str, str] | None) -> Mapping[str, str]:
        """Return an environment that marks a program, with the PATH of `search_path`.

        Args:
            given: the environment to extend; this process's when None.
        """
        if given is None:
            given = os.environ
        outer = given.get(_VARIABLE, "")  # ci-evals may run within ci-evals
        environment = {**given, _VARIABLE: outer + self.mark}
        if "PATH" in given:
            from ci_evals.providers.command_line import search_path

            environment["PATH"] = search_path(given["PATH"])
        return environment

    def living(self, group: int | None = None) -> list[psutil.Process]:
        """Return the living descendants, and the living members of a process group."""
        groups = []
        if group is not None:
            groups.append(group)
        return _find(self.mark, groups, set(psutil.pids()) - self._before)

    async def end(self, group: int | None = None, *, gently: bool = False) -> None:
        """Kill the remaining processes, and wait until they have ended.

        Args:
            group: a process group whose members are killed, too.
            gently: terminate them first and give them a second to exit.
        """

        def find() -> list[psutil.Process]:
            return self.living(group)

        await _end(find, gently=gently)
        # A process in execve shows no environment, and would be overlooked: wait, then look again.
        with suppress(TimeoutError):
            async with asyncio.timeout(_EXECVE_S):
                while any(map(_is_in_execve, set(psutil.pids()) - self._before)):  # noqa: ASYNC110  nothing reports it
                    await asyncio.sleep(_POLL_S)
        await _end(find)


async def run_program(
    argv: Sequence[str],
    stdin: bytes,
    *,
    cwd: Path,
    env: Mapping[str, str] | None,
    timeout_s: float,
    descendants: Descendants | None = None,
) -> ProgramEnd:
    """Run a program to its end, then end every process that it left behind.

    A program that writes more than `MAX_OUTPUT_BYTES` to stdout is ended.

    Args:
        argv: the program and its arguments; no shell is involved.
        stdin: the input.
        cwd: the working folder.
        env: the whole environment; this process's when None.
        timeout_s: seconds after which the program is ended.
        descendants: a group for the program to join: its daemons live until the group is ended.
            When None, they end with the program.

    Raises:
        OSError: the program could not be started.
    """
    members = descendants or Descendants()
    child = _Child()
    try:
        async with asyncio.timeout(timeout_s) as scope:
            await _start(child, argv, stdin, cwd, members.environment(env))
            await child.ended.wait()
            if not child.too_large:
                with suppress(TimeoutError):  # a grandchild may hold the pipes open for ever
                    async with asyncio.timeout(_DRAIN_S):
                        await child.drained.wait()
    except TimeoutError:
        if not scope.expired():
            raise
    finally:
        has_ended = child.ended.is_set()
        await _clear_away(child, members, ends_all=descendants is None)
    status = None
    if child.transport is not None:
        status = child.transport.get_returncode()
    why: _Why = "timeout"
    if child.too_large:
        why = "too_large"
    elif has_ended:
        why = "exit"
    return ProgramEnd(why, status, bytes(child.stdout), bytes(child.stderr))


class RunningProgram:
    """A program that runs in the background."""

    def __init__(self, child: "_Child") -> None:
        self._child = child

    @property
    def output(self) -> str:
        """The end of its output on stdout and stderr."""
        return self._child.stderr.decode(errors="replace")

    @property
    def has_ended(self) -> bool:
        return self._child.exited.is_set()

    @property
    def ending(self) -> str:
        """The end in words: `exit status 1`, `killed by SIGKILL`."""
        assert self._child.transport is not None
        return describe_status(self._child.transport.get_returncode() or 0)

    async def wait(self, timeout_s: float) -> bool:
        """Return True when it has ended, or False after `timeout_s` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._child.exited.wait()
                await self._child.drained.wait()
        return self.has_ended


@asynccontextmanager
async def running_program(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]
) -> AsyncIterator[RunningProgram]:
    """Run a program while the context lasts, then end it and all its descendants.

    If this process is killed meanwhile, a guard ends them.

    Raises:
        OSError: the program could not be started.
    """
    child, members = _Child(tail_bytes=_SERVICE_TAIL_BYTES), Descendants()
    with _run_guard(members):
        try:
            await _start(child, argv, b"", cwd, members.environment(env))
            yield RunningProgram(child)
        finally:
            await _clear_away(child, members, ends_all=True)


@asynccontextmanager
async def marked_environment(env: Mapping[str, str]) -> AsyncIterator[Mapping[str, str]]:
    """Yield an environment for programs that a library starts.

    They and their descendants are ended after the context, and by a guard if this process is
    killed meanwhile.
    """
    members = Descendants()
    with _run_guard(members):
        try:
            yield members.environment(env)
        finally:
            await members.end()


@contextmanager
def marked_variables() -> Iterator[Mapping[str, str]]:
    """Yield variables for the environment of programs that end with the context, together with what
    they have started; a guard ends them if this process is killed meanwhile.
    """
    members = Descendants()
    with _run_guard(members):
        try:
            yield members.environment({_VARIABLE: os.environ.get(_VARIABLE, "")})
        finally:
            _kill(members.living())


@contextmanager
def _run_guard(members: Descendants) -> Iterator[None]:
    """Start a process that ends `members` if this process is killed."""
    command = [sys.executable, "-P", str(_GUARD), _VARIABLE, members.mark]
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere, **_own_group()
    )
    try:
        yield
    finally:
        process.kill()
        process.communicate()


@contextmanager
def kill_on_exit(name: str, *, command: tuple[str, ...]) -> Iterator[None]:
    """Let `kill_all` end something that is not a child of this process, such as a container.

    Args:
        name: its name, an argument of the command.
        command: ends everything whose names are its arguments.
    """
    _elsewhere[name] = command
    try:
        yield
    finally:
        del _elsewhere[name]


def kill_all() -> None:
    """Kill every program and its descendants, for a process that is about to exit.

    It waits for nothing: containers are ended by commands that outlive this process.
    """
    _kill(_find(_THIS_PROCESS, _running.copy(), psutil.pids()))
    names: dict[tuple[str, ...], list[str]] = {}
    for name, command in _elsewhere.copy().items():
        names.setdefault(command, []).append(name)
    nowhere = subprocess.DEVNULL
    for command, arguments in names.items():
        argv = [*command, *arguments]
        with suppress(OSError):
            subprocess.Popen(argv, stdin=nowhere, stdout=nowhere, stderr=nowhere, **_own_group())  # noqa: S603  no shell


class _Child(asyncio.SubprocessProtocol):
    """Collects the output of a program; `ended` is set when it has exited or written too much.

    With `tail_bytes`, only the end of all output is kept, in `stderr`.

    `asyncio.subprocess.Process.wait` cannot be used: in some releases of Python it waits for
    grandchildren that hold the pipes open.
    """

    def __init__(self, tail_bytes: int | None = None) -> None:
        self.transport: asyncio.SubprocessTransport | None = None
        self._tail_bytes = tail_bytes
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.too_large = False
        self.open_pipes = {1, 2}
        self.ended = asyncio.Event()
        self.exited = asyncio.Event()
        self.drained = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.SubprocessTransport", transport)
        _running.add(self.transport.get_pid())

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2 or self._tail_bytes is not None:
            self.stderr += data
            del self.stderr[: -(self._tail_bytes or STDERR_TAIL_BYTES)]
        elif len(self.stdout) + len(data) <= MAX_OUTPUT_BYTES:
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


async def _start(
    child: _Child, argv: Sequence[str], stdin: bytes, cwd: Path, env: Mapping[str, str]
) -> None:
    # The input is a file, because asyncio's stdin is a socket, which programs cannot open as
    # /dev/stdin. Besides, a program that ignores its input does not break a pipe.
    with tempfile.TemporaryFile() as file:
        file.write(stdin)
        file.seek(0)
        loop = asyncio.get_running_loop()
        starting = asyncio.ensure_future(
            loop.subprocess_exec(
                lambda: child,
                *argv,
                stdin=file,
                cwd=cwd,
                env=_with_folder(env, cwd),
                **_own_group(),
            )
        )
        cancelled: asyncio.CancelledError | None = None
        while not starting.done():
            try:
                await asyncio.wait([starting])
            except asyncio.CancelledError as error:
                # Wait for the start: asyncio, cancelled in between, would wait for pipes that
                # grandchildren hold open.
                cancelled = error
        if cancelled is not None:
            starting.exception()  # avoids asyncio's warning that it was never retrieved
            raise cancelled
        starting.result()


def _with_folder(env: Mapping[str, str], cwd: Path) -> Mapping[str, str]:
    """Set PWD, from which some programs, such as OpenCode, take their working folder."""
    return {**env, "PWD": str(cwd.absolute())}


def _own_group() -> dict[str, Any]:
    # Ctrl-C in a terminal then reaches only ci-evals, which ends the group in order.
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


async def _clear_away(child: _Child, members: Descendants, *, ends_all: bool) -> None:
    """End a program that is still running, and its process group or, if `ends_all`, all its
    descendants.
    """
    if child.transport is None:  # the start failed, or its child has not been announced yet
        await members.end()
        return
    pid = child.transport.get_pid()
    gently = not child.exited.is_set()
    try:
        if ends_all:
            await members.end(pid, gently=gently)
        else:
            await _end(lambda: _find(None, (pid,), psutil.pids()), gently=gently)
        with suppress(TimeoutError):
            async with asyncio.timeout(_REAP_S):
                await child.exited.wait()
    finally:
        _running.discard(pid)
        # Last, because it reaps the program: asyncio's watcher complains if it comes second.
        child.transport.close()


async def _end(find: Callable[[], list[psutil.Process]], *, gently: bool = False) -> None:
    """Kill processes until none is found.

    Args:
        find: returns the remaining processes.
        gently: terminate them first and give them a second to exit.
    """
    try:
        if gently:
            terminating = find()
            for process in terminating:
                with suppress(psutil.Error):
                    process.terminate()
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    while any(map(_is_alive, terminating)):  # noqa: ASYNC110  nothing reports it
                        await asyncio.sleep(_POLL_S)
    finally:  # even if a second cancellation cuts the grace short
        # Several times: a process may start another one during the search.
        for _ in range(_MOST_PASSES):
            left = find()
            if not left:
                break
            _kill(left)
    with suppress(TimeoutError):
        async with asyncio.timeout(_REAP_S):
            while left := find():
                _kill(left)
                await asyncio.sleep(_POLL_S)


def _find(mark: str | None, groups: Collection[int], pids: Collection[int]) -> list[psutil.Process]:
    """Return the living processes among `pids` that have the mark or belong to a group."""
    processes = []
    for pid in pids:
        with suppress(psutil.Error, OSError):  # it has ended, or belongs to another user
            process = psutil.Process(pid)
            is_wanted = _group_of(pid) in groups
            if not is_wanted and mark is not None:
                is_wanted = mark in process.environ().get(_VARIABLE, "")
            if is_wanted and _is_alive(process):
                processes.append(process)
    return processes


def _is_in_execve(pid: int) -> bool:
    """Return True if a process is about to run another program.

    For some milliseconds, Linux shows neither its environment nor its arguments.
    """
    with suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        return bool(process.exe()) and not process.cmdline()  # a kernel thread has no file
    return False


def _group_of(pid: int) -> int:
    if sys.platform == "win32":
        return pid
    return os.getpgid(pid)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _kill(processes: Collection[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
