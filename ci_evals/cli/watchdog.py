"""Runs a command in a child process, and trusts only an exit code that the command proves.

Code under test runs in the process of the command: `os._exit(0)`, an `exec`, an `atexit` handler or
a crash in it ends the command with a status that says nothing about the gate. Therefore the console
script runs the command in a child, whose last act is to tell its exit code by a pipe. Without that
there is no verdict (docs/decisions/0020).

Code under test may also keep that process alive, by a thread after the report or a computation that
no signal interrupts. The parent ends it then.

The parent alone has the credentials of the job, and does what needs them when it is asked to: code
under test can read its own memory and, on Linux, what its process and each of its parents were
started with (docs/decisions/0039).
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread, Timer
from types import FrameType, MappingProxyType
from typing import Any, BinaryIO, NamedTuple, NoReturn, Protocol

from ci_evals.errors import EXIT_CODES
from ci_evals.format import join_first
from ci_evals.registry import credentials_of
from ci_evals.streams import prepare_streams, say

_PIPES = "_CI_EVALS_WATCHDOG"
"""The variable that tells a child on Windows, which is not forked, that it is one."""
_CREDENTIALS = "_CI_EVALS_CREDENTIALS"
"""The variable that tells a process, which was started again without the job's credentials, the
pipe that they are in, and their names.
"""
_KILLED = 137  # the exit code that shells report for SIGKILL
_MOST_NAMED = 3
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4  # prctl(2)

LINGER_S = 5.0
"""Seconds that threads and exit handlers of code under test may take after the report."""
SECOND_SIGNAL_S = 2.0
"""Seconds after a second signal, in which a command ends that runs Python code at all."""


class ParentService(Protocol):
    """What the parent does for the command, apart from code under test."""

    def answer(self, request: Any) -> Any:
        """Do what a request says. Both are JSON values; it raises nothing."""
        ...

    def report_unproven(self, status: int) -> int:
        """Report that the command ended without a proof, and return the exit code.

        Args:
            status: its exit status; negative if a signal ended it.
        """
        ...

    def close(self) -> None:
        """End what requests have started."""
        ...


class _Watched(NamedTuple):
    """This process, if it is the child of a watchdog.

    Attributes:
        pid: its number: a process that code under test forks inherits everything else.
        requests: the pipe to the parent.
        answers: lines from the parent, one for each request.
        withheld: the names of the job's credentials.
    """

    pid: int
    requests: BinaryIO
    answers: SimpleQueue[bytes]
    withheld: frozenset[str]


_watched: _Watched | None = None
_asking = Lock()


def watch(
    command: Callable[[], NoReturn], open_service: Callable[[Mapping[str, str]], ParentService]
) -> NoReturn:
    """Run a command in a child process, and exit with the code that it proves.

    Signals are passed on to the child, and a second one ends it whatever it does. If this process
    is killed, so is the child. What still runs some seconds after the proof is ended as well.

    Args:
        command: runs the command, calls `prove_exit_code` and exits.
        open_service: makes what answers requests, from the environment with the job's credentials.
    """
    prepare_streams()  # first: where stdout is closed, a pipe would get its number
    credentials = _take_credentials()
    sys.exit(_run_in_child(command, credentials, open_service))


def prove_exit_code(code: int) -> None:
    """Prove the exit code of this command. The process must end right after it."""
    watched = _unforked()
    # A copy that code under test has forked must not decide for the command.
    if watched is not None:
        _send(watched.requests, {"exit_code": code, "running": list(_running())})


def is_watched() -> bool:
    """Return True if this process has a parent that answers requests."""
    return _unforked() is not None


def withheld_names() -> frozenset[str]:
    """Return the names of variables that the parent alone has: the job's credentials."""
    if _watched is None:
        return frozenset()
    return _watched.withheld


def ask_parent(request: Any) -> Any:
    """Return the answer of the parent's `ParentService` to a request. Both are JSON values.

    Raises:
        RuntimeError: this process is a fork of the command, or has no parent.
    """
    watched = _unforked()
    if watched is None:
        raise RuntimeError("only the command itself has a parent that answers")
    with _asking:  # else two threads could take each other's answer
        _send(watched.requests, {"request": request})
        while True:
            # On Windows, nothing interrupts a wait without a limit.
            with suppress(Empty):
                return json.loads(watched.answers.get(timeout=1.0))


def expect_end(within_s: float | None, code: int | None = None) -> None:
    """Tell the parent to end this process if it says nothing more within some time.

    To be called before code under test is closed, which may block for ever.

    Args:
        within_s: the time; None to wait as before.
        code: the exit code that holds then; None if there is no verdict yet.
    """
    watched = _unforked()
    if watched is not None:
        _send(watched.requests, {"within_s": within_s, "code": code})


def end_if_forked() -> None:
    """End this process if it is a fork of the command, made by code under test.

    It would otherwise write reports and post a comment a second time.
    """
    if _watched is not None and _unforked() is None:
        os._exit(3)


def _unforked() -> _Watched | None:
    """Return this process if it is the command itself; None for a fork, or without a parent."""
    if _watched is None or _watched.pid != os.getpid():
        return None
    return _watched


def _running() -> Iterator[str]:
    """Yield the names of threads and processes that Python waits for at its end."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            yield f"thread {thread.name}"
    processes = sys.modules.get("multiprocessing")
    if processes is not None:
        for child in processes.active_children():
            yield f"process {child.name}"


def _send(pipe: BinaryIO, message: Mapping[str, Any]) -> None:
    """Send a message as a line. The line before may have been cut off by an interrupt."""
    pipe.write(b"\n%s\n" % json.dumps(message).encode())
    pipe.flush()


def _become_child(lifeline: int, requests: int, withheld: frozenset[str]) -> None:
    global _watched  # noqa: PLW0603  a process is watched or it is not
    answers: SimpleQueue[bytes] = SimpleQueue()
    _watched = _Watched(os.getpid(), os.fdopen(requests, "wb"), answers, withheld)
    # The thread below can't run while code under test holds the interpreter's lock.
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    reader = Thread(
        target=_read_answers, args=(lifeline, answers), name="ci-evals-lifeline", daemon=True
    )
    reader.start()


def _prctl(option: int, value: int) -> None:
    """Set an option of this process, which only Linux has."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value)


def _read_answers(lifeline: int, answers: SimpleQueue[bytes]) -> None:
    """Pass on answers of the parent until its end, whatever ends it: even SIGKILL closes a pipe."""
    with os.fdopen(lifeline, "rb") as lines:
        for line in lines:
            answers.put(line)
    os._exit(_KILLED)


class _Parent(Thread):
    """Answers the requests of the child, and learns how it ends.

    Args:
        requests: the end of a pipe from the child.
        answers: the end of a pipe to the child.
        open_service: makes what answers.
        kill: ends the child.
        on_end: is called when everything that the child has left is answered.
    """

    def __init__(
        self,
        requests: BinaryIO,
        answers: BinaryIO,
        open_service: Callable[[], ParentService],
        kill: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        super().__init__(name="ci-evals-parent", daemon=True)
        self.exit_code = 3
        """What the child has proved, or what its end comes to."""
        self.is_done = False
        self._has_proof = False
        self._code_if_stuck: int | None = None
        self._patience = Timer(0, kill)  # not started
        self._requests = requests
        self._answers = answers
        self._open_service = open_service
        self._service: ParentService | None = None
        self._kill = kill
        self._on_end = on_end
        self._has_ended = Event()

    def end(self, writer: BinaryIO, status: int, *, interrupted: bool) -> None:
        """Judge the end of the child, once the requests that it has left are answered; after a
        signal, at once.

        Args:
            writer: another end of the pipe from the child. A process that code under test has left
                behind may keep the child's open.
            status: the exit status of the child; negative if a signal ended it.
            interrupted: a signal was passed on to it.
        """
        self._has_ended.set()
        # A second signal ends the child at once, before it can prove anything. Without one, code
        # under test has chosen this status.
        if interrupted and status in EXIT_CODES.values():
            self.exit_code, self.is_done = status, True
            if self._service is not None:  # nobody waits for its answer any more
                self._service.close()
        else:
            _send(writer, {"status": status})

    def run(self) -> None:
        try:
            for line in self._requests:
                if self._handle(line):
                    break
        finally:
            self.is_done = True
            self._on_end()

    def _handle(self, line: bytes) -> bool:
        """Do what a line says; return True if it is about the end of the child."""
        try:
            message = json.loads(line)
        except ValueError:
            return False  # blank, or cut off
        self._patience.cancel()
        match message:
            case {"request": request}:
                answer = self._opened.answer(request)
                with suppress(OSError):  # the child has ended meanwhile
                    self._answers.write(json.dumps(answer).encode() + b"\n")
                    self._answers.flush()
            case {"exit_code": int() as code, "running": list() as running}:
                self.exit_code, self._has_proof = code, True
                Thread(target=self._end_lingering, args=(running,), daemon=True).start()
            case {"within_s": float() as within_s, "code": code}:
                self._code_if_stuck = code
                self._patience = Timer(within_s, self._kill)
                self._patience.daemon = True
                self._patience.start()
            case {"status": int() as status}:
                if not self._has_proof and self._code_if_stuck is not None:
                    self.exit_code = self._code_if_stuck
                elif not self._has_proof:
                    self.exit_code = self._opened.report_unproven(status)
                return True
        return False

    @property
    def _opened(self) -> ParentService:
        if self._service is None:
            self._service = self._open_service()
        return self._service

    def _end_lingering(self, running: list[str]) -> None:
        """End the child some time after its proof, and say what was still running."""
        if self._has_ended.wait(LINGER_S):
            return
        names = join_first(running, _MOST_NAMED) or "an exit handler"
        text = f"warning: ended {LINGER_S:g} s after the report; still running: {names}\n"
        say(sys.stderr, text)
        self._kill()


class _Credentials(NamedTuple):
    """The credentials of a job, out of the environment.

    Attributes:
        names: the variables that had them.
        pipe: the end of a pipe from which they can be read once; None if there are none, or if no
            process is forked from this one.
        values: they themselves, where no process is forked.
    """

    names: frozenset[str] = frozenset()
    pipe: int | None = None
    values: Mapping[str, str] = MappingProxyType({})

    def read(self) -> Mapping[str, str]:
        """Return the values by their names. To be called once, by the process that keeps them."""
        if self.pipe is None:
            return self.values
        _prctl(_PR_SET_DUMPABLE, 0)  # no other process of this user may read its memory
        with os.fdopen(self.pipe, encoding="utf-8") as pipe:
            values: Mapping[str, str] = json.load(pipe)
        return values

    def forget(self) -> None:
        """Close the pipe without reading it."""
        if self.pipe is not None:
            os.close(self.pipe)


def _take_credentials() -> _Credentials:
    """Take the credentials of this job out of the environment.

    The system keeps showing what a process was started with. If they are among that, this process
    starts itself again without them.
    """
    if known := os.environ.pop(_CREDENTIALS, ""):
        pipe, *names = known.split(",")
        return _Credentials(frozenset(names), int(pipe))
    values = {name: os.environ.pop(name) for name in credentials_of(os.environ)}
    if not values or sys.platform == "win32":
        return _Credentials(frozenset(values), values=values)
    to_read, to_write = os.pipe()
    os.write(to_write, json.dumps(values).encode())
    os.close(to_write)
    if _shows_start(values):
        os.set_inheritable(to_read, True)  # noqa: FBT003  positional-only
        os.environ[_CREDENTIALS] = ",".join([str(to_read), *values])
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  this command
    return _Credentials(frozenset(values), to_read)


def _shows_start(values: Mapping[str, str]) -> bool:
    """Return True if other processes can see these variables in what this one was started with."""
    try:
        started_with = Path("/proc/self/environ").read_bytes()
    except OSError:
        return True  # macOS shows it by `ps -E`
    entries = started_with.split(b"\0")
    return any(os.fsencode(f"{name}={value}") in entries for name, value in values.items())


if sys.platform == "win32":
    import msvcrt

    def _run_in_child(
        command: Callable[[], NoReturn],
        credentials: _Credentials,
        open_service: Callable[[Mapping[str, str]], ParentService],
    ) -> int:
        """Start this command line once more, and return its exit code.

        Windows has no fork.
        """
        if pipes := os.environ.pop(_PIPES, ""):  # this process is the child
            # Removed at once, so that a ci-evals which this process starts isn't taken for it.
            lifeline, requests, *withheld = pipes.split(",")
            _become_child(
                msvcrt.open_osfhandle(int(lifeline), os.O_RDONLY),
                msvcrt.open_osfhandle(int(requests), os.O_WRONLY),
                frozenset(withheld),
            )
            command()
        lifeline_end, answers = os.pipe()
        requests_end, to_parent = os.pipe()
        handles = []
        for pipe in (lifeline_end, to_parent):
            os.set_inheritable(pipe, True)  # noqa: FBT003  positional-only
            handles.append(str(msvcrt.get_osfhandle(pipe)))
        environ = {**os.environ, _PIPES: ",".join([*handles, *credentials.names])}
        # The console script does not import from the working folder, and nor may the child.
        options = ["-P"] if sys.flags.safe_path else []
        again = [sys.executable, *options, "-m", "ci_evals", *sys.argv[1:]]
        interrupts: list[int] = []
        # The console sends a Ctrl-C to the child, too.
        signal.signal(signal.SIGINT, lambda number, _frame: interrupts.append(number))
        child = subprocess.Popen(again, env=environ, close_fds=False)  # noqa: S603  itself
        values = credentials.read()
        parent = _Parent(
            os.fdopen(requests_end, "rb"),
            os.fdopen(answers, "wb"),
            lambda: open_service({**os.environ, **values}),
            child.kill,
            lambda: None,
        )
        parent.start()
        status = child.wait()
        parent.end(os.fdopen(to_parent, "wb"), status, interrupted=bool(interrupts))
        while not parent.is_done:
            parent.join(1.0)
        return parent.exit_code

else:

    def _run_in_child(
        command: Callable[[], NoReturn],
        credentials: _Credentials,
        open_service: Callable[[Mapping[str, str]], ParentService],
    ) -> int:
        """Run a command in a fork of this process, and return its exit code."""
        lifeline, answers = os.pipe()
        requests, to_parent = os.pipe()
        signals = [*EXIT_CODES, signal.SIGTSTP]
        # Signals that are ignored, as under `nohup`, stay ignored.
        awaited = {number for number in signals if signal.getsignal(number) is not signal.SIG_IGN}
        awaited.add(signal.SIGCHLD)
        # Blocked before the fork and taken by `sigwait`: a handler that passes them on could lose
        # one of two that arrive together, or one that arrives before there is a child.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
        signal.signal(signal.SIGCHLD, _do_nothing)  # some systems discard it without a handler
        child = os.fork()
        if child == 0:
            os.close(answers)  # else the child would keep its own lifeline open
            os.close(requests)
            credentials.forget()
            # The terminal sends a Ctrl-C to every process of its session. In one of its own, the
            # child gets it once, from the parent.
            os.setsid()
            # Its thread starts while signals are blocked, so that they go to the main thread, which
            # handles them.
            _become_child(lifeline, to_parent, credentials.names)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            command()
        os.close(lifeline)
        values = credentials.read()
        parent = _Parent(
            os.fdopen(requests, "rb"),
            os.fdopen(answers, "wb"),
            lambda: open_service({**os.environ, **values}),
            lambda: _kill_group(child),
            lambda: os.kill(os.getpid(), signal.SIGCHLD),  # wakes up the loop that waits for it
        )
        parent.start()
        _pass_signals_on(child, parent, awaited, os.fdopen(to_parent, "wb"))
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return parent.exit_code

    def _pass_signals_on(
        child: int, parent: _Parent, awaited: Collection[int], writer: BinaryIO
    ) -> None:
        """Pass signals on to the child until it has ended and its end is judged."""
        has_ended = False
        passed_on: list[int] = []
        while not parent.is_done:
            received = signal.sigwait(awaited)
            match received:
                case signal.SIGCHLD if not has_ended:
                    # Also sent when the child is stopped or continued.
                    ended, status = os.waitpid(child, os.WNOHANG)
                    if ended:
                        has_ended = True
                        _kill_group(child)  # forks of code under test
                        ending = _describe_end(status, passed_on)
                        parent.end(writer, ending, interrupted=bool(passed_on))
                case signal.SIGCHLD:
                    pass
                case signal.SIGTSTP if not has_ended:
                    # A Ctrl-Z, which doesn't reach the child's session. The shell continues this
                    # process, which then continues the child.
                    os.kill(child, signal.SIGSTOP)
                    os.kill(os.getpid(), signal.SIGSTOP)
                    os.kill(child, signal.SIGCONT)
                case signal.SIGTSTP:
                    os.kill(os.getpid(), signal.SIGSTOP)
                case _ if has_ended:
                    passed_on.append(received)
                    if len(passed_on) > 1:  # whatever is still being published
                        os._exit(EXIT_CODES[signal.Signals(received)])
                case _:
                    os.kill(child, received)
                    passed_on.append(received)
                    if len(passed_on) > 1:  # which ends the command, if it runs Python code at all
                        killer = Timer(SECOND_SIGNAL_S, _kill_group, [child])
                        killer.daemon = True
                        killer.start()

    def _kill_group(child: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)

    def _describe_end(status: int, passed_on: list[int]) -> int:
        """Return the exit status of a child; negative if a signal ended it that is not a user's."""
        ending = os.waitstatus_to_exitcode(status)
        # The command does not handle it, or can't: a user's signal is not a crash.
        if passed_on and -ending in {*passed_on, signal.SIGKILL}:
            return EXIT_CODES[signal.Signals(passed_on[0])]
        return ending

    def _do_nothing(_number: int, _frame: FrameType | None) -> None:
        pass
