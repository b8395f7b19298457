"""Processes of ci-evals that fork from one that has imported it already: the import alone takes most of a second."""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

SUPPORTED = hasattr(os, "fork") and sys.platform != "darwin"  # macOS forbids a fork after the frameworks are loaded


def run(folder: Path, arguments: Sequence[str], environ: Mapping[str, str]) -> tuple[int, bytes, bytes]:
    """Run `python -m ci_evals` to its end; returns its exit code (negative: the signal), stdout and stderr."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open("rb") as nothing:
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(_server())
            request = json.dumps([str(folder), list(arguments), dict(environ)]).encode("utf-8", "surrogateescape")
            server.sendall(len(request).to_bytes(4, "big"))
            socket.send_fds(server, [b"."], [nothing.fileno(), out.fileno(), err.fileno()])
            server.sendall(request)
            status = int.from_bytes(_exactly(server, 4), "big")
        out.seek(0)
        err.seek(0)
        return os.waitstatus_to_exitcode(status), out.read(), err.read()


@cache
def _server() -> str:
    folder = tempfile.mkdtemp(prefix="prefork-")
    path = f"{folder}/socket"
    process = subprocess.Popen([sys.executable, __file__, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    if process.stdout.readline() != b"ready\n":
        raise RuntimeError("the process that ci-evals forks from did not start")
    atexit.register(process.communicate)  # closes its stdin, which ends it
    return path


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise RuntimeError("the process that ci-evals forks from has ended")
        data += more
    return data


def _serve(path: str) -> None:
    """Answer requests until stdin is closed; returns in each child, with nothing left to do but to run the command."""
    import select

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.write(1, b"ready\n")
    while True:
        readable, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in readable:
            os._exit(0)
        connection, _ = listener.accept()
        if os.fork():  # the listener goes on, a child of its own waits for the command
            connection.close()
            continue
        listener.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        size = int.from_bytes(_exactly(connection, 4), "big")
        _, fds, _, _ = socket.recv_fds(connection, 1, 3)
        folder, arguments, environ = json.loads(_exactly(connection, size).decode("utf-8", "surrogateescape"))
        command = os.fork()
        if command:
            _, status = os.waitpid(command, 0)
            connection.sendall(status.to_bytes(4, "big"))
            os._exit(0)
        connection.close()
        _become(folder, arguments, environ, fds)
        return


def _become(folder: str, arguments: list[str], environ: dict[str, str], fds: list[int]) -> None:
    """Look like a process that was just started by `python -m ci_evals`."""
    import random

    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv[:] = ["ci-evals", *arguments]
    sys.path[0] = folder
    random.seed()


def _warm_up() -> None:
    """Run a suite, so that what is built on first use (validators, templates) need not be built in each child."""
    import gc
    import threading
    from contextlib import redirect_stderr, redirect_stdout, suppress

    from ci_evals.cli.main import group

    for name in [name for name in os.environ if name.startswith(("CI_EVALS_", "GITHUB_"))]:
        del os.environ[name]
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as nothing:
        suite = Path(folder, "evals.yaml")
        suite.write_text("providers: [{type: mock}]\ncases: [{id: a, input: a, expect: [{contains: a}]}]\n")
        arguments = ["run", "--quiet", "--config", str(suite), "--out", folder]
        with redirect_stdout(nothing), redirect_stderr(nothing), suppress(SystemExit):
            group.main(arguments, standalone_mode=False)
    if threading.active_count() != 1:
        raise RuntimeError("a thread is left: forking would copy its locks")
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    from ci_evals.cli.main import main

    _warm_up()
    _serve(sys.argv[1])
    main()
