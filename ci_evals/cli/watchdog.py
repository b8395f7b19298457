"""Runs a command in a child process, and trusts only an exit code that the command proves.

Code under test runs in the process of the command: `os._exit(0)`, an `exec`, an `atexit` handler or
a crash in it ends the command with a status that says nothing about the gate. Therefore the console
script runs the command in a child, which writes its exit code to a file as its last act. Without
that file there is no verdict (docs/decisions/0020).

Code under test may also keep that process alive, by a thread after the report or a computation that
no signal interrupts. The parent ends it then.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from threading import Event, Thread, Timer
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from ci_evals.errors import EXIT_CODES, StorageError
from ci_evals.format import join_first
from ci_evals.streams import say

_FOLDER = "_CI_EVALS_WATCHDOG_FOLDER"
_LIFELINE = "_CI_EVALS_WATCHDOG_LIFELINE"
"""The variables that tell a child on Windows, which is not forked, that it is one."""
_EXIT_CODE = "exit-code"
_NOTE = "note.json"
_LINGERING = "lingering"
_KILLED = 137  # the exit code that shells report for SIGKILL
_MOST_NAMED = 3
_PR_SET_PDEATHSIG = 1  # prctl(2)

LINGER_S = 5.0
"""Seconds that threads and exit handlers of code under test may take after the report."""
SECOND_SIGNAL_S = 2.0
"""Seconds after a second signal, in which a command ends that runs Python code at all."""


class Unproven(NamedTuple):
    """The end of a child that did not prove an exit code.

    Attributes:
        status: its exit status; negative if a signal ended it.
        note: the last note that it left; empty if it left none.
    """

    status: int
    note: Mapping[str, Any]


class _End(NamedTuple):
    """The end of the child.

    Attributes:
        status: its exit status; negative if a signal ended it.
        interrupted: a signal was passed on to it.
    """

    status: int
    interrupted: bool


class _Watched(NamedTuple):
    """This process, if it is the child of a watchdog."""

    folder: Path
    pid: int  # a process that code under test forks inherits everything else
    proof: int | None = None  # the end of a pipe that tells the parent of the proof


_watched: _Watched | None = None


def watch(command: Callable[[], NoReturn], report: Callable[[Unproven], int]) -> NoReturn:
    """Run a command in a child process, and exit with the code that it proves.

    Signals are passed on to the child, and a second one ends it whatever it does. If this process
    is killed, so is the child. What still runs some seconds after the proof is ended as well.

    Args:
        command: runs the command, calls `prove_exit_code` and exits.
        report: reports that the child ended without a proof, and returns the exit code.
    """
    folder = Path(mkdtemp(prefix="ci-evals-"))
    end = _run_in_child(command, folder)
    try:
        code = int((folder / _EXIT_CODE).read_text(encoding="ascii"))
    except (OSError, ValueError):
        code = end.status
        # A second signal ends the child at once, before it can prove anything. Without one, code
        # under test has chosen this status.
        if not end.interrupted or end.status not in EXIT_CODES.values():
            code = report(Unproven(end.status, _read_note(folder)))
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(code)


def prove_exit_code(code: int) -> None:
    """Prove the exit code of this command. The process must end right after it."""
    # A copy that code under test has forked must not decide for the command.
    if _watched is not None and _watched.pid == os.getpid():
        _write(_watched.folder / _EXIT_CODE, str(code))
        _write(_watched.folder / _LINGERING, "\n".join(_lingering()))
        if _watched.proof is not None:
            os.write(_watched.proof, b"1")  # not closed: a fork by code under test may have it, too


def _lingering() -> list[str]:
    """Return the names of threads and processes that Python waits for at its end."""
    names = [
        f"thread {thread.name}"
        for thread in threading.enumerate()
        if thread is not threading.main_thread() and not thread.daemon
    ]
    processes = sys.modules.get("multiprocessing")
    if processes is not None:
        names += [f"process {child.name}" for child in processes.active_children()]
    return names


def leave_note(note: Mapping[str, Any]) -> None:
    """Leave a note for the report that the command ended without a proof.

    To be called before code under test runs, since nothing can be asked of this process afterwards.

    Args:
        note: JSON values. It replaces an earlier note.
    """
    if _watched is not None:
        _write(_watched.folder / _NOTE, json.dumps(note))


def end_if_forked() -> None:
    """End this process if it is a fork of the command, made by code under test.

    It would otherwise write reports and post a comment a second time.
    """
    if _watched is not None and _watched.pid != os.getpid():
        os._exit(3)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{file}: cannot be written: {error.strerror}") from error


def _read_note(folder: Path) -> Mapping[str, Any]:
    try:
        note: Mapping[str, Any] = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note


def _become_child(folder: Path, lifeline: int, proof: int | None = None) -> None:
    global _watched  # noqa: PLW0603  a process is watched or it is not
    _watched = _Watched(folder, os.getpid(), proof)
    if sys.platform == "linux":
        # The thread below can't run while code under test holds the interpreter's lock.
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    Thread(target=_die_with_parent, args=(lifeline,), name="ci-evals-lifeline", daemon=True).start()


def _die_with_parent(lifeline: int) -> None:
    """Wait for the end of the parent, whatever ends it: even SIGKILL closes its end of a pipe."""
    os.read(lifeline, 1)  # nobody ever writes: it returns when the other end is closed
    os._exit(_KILLED)


if sys.platform == "win32":
    import msvcrt

    def _run_in_child(command: Callable[[], NoReturn], folder: Path) -> _End:
        """Start this command line once more, and return how that process ended.

        Windows has no fork.
        """
        if _FOLDER in os.environ:  # this process is the child
            # Removed at once, so that a ci-evals which this process starts isn't taken for it.
            lifeline = msvcrt.open_osfhandle(int(os.environ.pop(_LIFELINE)), os.O_RDONLY)
            _become_child(Path(os.environ.pop(_FOLDER)), lifeline)
            command()
        lifeline, _end_of_parent = os.pipe()  # kept open until this process ends
        os.set_inheritable(lifeline, True)  # noqa: FBT003  positional-only
        handle = msvcrt.get_osfhandle(lifeline)
        environ = {**os.environ, _FOLDER: str(folder), _LIFELINE: str(handle)}
        # The console script does not import from the working folder, and nor may the child.
        options = ["-P"] if sys.flags.safe_path else []
        again = [sys.executable, *options, "-m", "ci_evals", *sys.argv[1:]]
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the console sends a Ctrl-C to the child, too
        ended = subprocess.run(again, env=environ, close_fds=False, check=False)  # noqa: S603  itself
        return _End(ended.returncode, interrupted=True)  # nobody knows: the console sends signals

else:

    def _run_in_child(command: Callable[[], NoReturn], folder: Path) -> _End:
        """Run a command in a fork of this process, and return how it ended."""
        lifeline, end_of_parent = os.pipe()
        proven, proof = os.pipe()
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
            os.close(end_of_parent)  # else the child would keep its own lifeline open
            os.close(proven)
            # The terminal sends a Ctrl-C to every process of its session. In one of its own, the
            # child gets it once, from the parent.
            os.setsid()
            # Started while signals are blocked, so that they go to the main thread, which handles
            # them.
            _become_child(folder, lifeline, proof)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            command()
        os.close(proof)
        has_ended = Event()
        ender = Thread(target=_end_lingering, args=(child, proven, folder, has_ended), daemon=True)
        ender.start()
        ended = 0
        passed_on: list[int] = []
        while not ended:
            received = signal.sigwait(awaited)
            if received == signal.SIGCHLD:  # also sent when the child is stopped or continued
                ended, status = os.waitpid(child, os.WNOHANG)
            elif received == signal.SIGTSTP:
                # A Ctrl-Z, which doesn't reach the child's session. The shell continues this
                # process, which then continues the child.
                os.kill(child, signal.SIGSTOP)
                os.kill(os.getpid(), signal.SIGSTOP)
                os.kill(child, signal.SIGCONT)
            else:
                os.kill(child, received)
                passed_on.append(received)
                if len(passed_on) > 1:  # which ends the command, if it runs Python code at all
                    killer = Timer(SECOND_SIGNAL_S, _kill_group, [child])
                    killer.daemon = True
                    killer.start()
        has_ended.set()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        ending = os.waitstatus_to_exitcode(status)
        # The command does not handle it, or can't: a user's signal is not a crash.
        if passed_on and -ending in {*passed_on, signal.SIGKILL}:
            ending = EXIT_CODES[signal.Signals(passed_on[0])]
        return _End(ending, interrupted=bool(passed_on))

    def _end_lingering(child: int, proven: int, folder: Path, has_ended: Event) -> None:
        """End the child some time after its proof, and say what was still running."""
        is_proven = os.read(proven, 1)
        if not is_proven or has_ended.wait(LINGER_S):
            return
        names: list[str] = []
        with suppress(OSError):
            names = (folder / _LINGERING).read_text(encoding="utf-8").splitlines()
        running = join_first(names, _MOST_NAMED) or "an exit handler"
        text = f"warning: ended {LINGER_S:g} s after the report; still running: {running}\n"
        say(sys.stderr, text)
        _kill_group(child)

    def _kill_group(child: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)

    def _do_nothing(_number: int, _frame: FrameType | None) -> None:
        pass
