"""Pythons that fork from one with ci-evals imported: the import takes most of a second."""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple, NoReturn

# macOS forbids a fork after the frameworks are loaded.
SUPPORTED = hasattr(os, "fork") and sys.platform != "darwin"

Constants = Mapping[str, float]
"""Waiting times by their place, as in `{"ci_evals.plugins.ci.comment.SETTLE_S": 0.1}`."""


class Child(NamedTuple):
    """A process that was forked. When it has ended, `STATUS_BYTES` arrive by the socket."""

    pid: int
    socket: socket.socket


STATUS_BYTES = 4
_LEFT_OUT = ("ci_evals.__main__", "ci_evals.pytest_plugin", "ci_evals.plugins.ray")
"""Modules that no forked process imports. Ray reads its settings as it is imported, which is when a
suite names it.
"""
_LIBRARIES = ("botocore.session", "genai_prices", "google.auth.transport.requests", "jsonschema")
"""What is imported no sooner than it is needed, besides modules of ours that import it."""


def exit_code(status: bytes) -> int:
    """Return the exit code of a child, negative if it was ended by a signal."""
    return os.waitstatus_to_exitcode(int.from_bytes(status, "big"))


def fork(
    folder: Path,
    arguments: Sequence[str],
    environ: Mapping[str, str],
    constants: Constants,
    out: int,
    err: int,
) -> Child:
    """Start `python ARGUMENTS` with these descriptors as stdout and stderr; its stdin is empty.

    `-W`, `-m` and `-c` are the only options of Python that are known, and of its variables none is
    heeded.
    """
    with Path(os.devnull).open("rb") as nothing:
        server = socket.socket(socket.AF_UNIX)
        server.connect(_server())
        request = json.dumps([str(folder), list(arguments), dict(environ), dict(constants)])
        data = request.encode("utf-8", "surrogateescape")
        server.sendall(len(data).to_bytes(4, "big"))
        socket.send_fds(server, [b"."], [nothing.fileno(), out, err])
        server.sendall(data)
        return Child(int.from_bytes(_exactly(server, 4), "big"), server)


def run(
    folder: Path, arguments: Sequence[str], environ: Mapping[str, str], constants: Constants
) -> tuple[int, bytes, bytes]:
    """Run `python ARGUMENTS`; return its exit code (negative: the signal), stdout and stderr."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = fork(folder, arguments, environ, constants, out.fileno(), err.fileno())
        with child.socket:
            code = exit_code(_exactly(child.socket, STATUS_BYTES))
        return code, _written(out), _written(err)


def _written(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


@cache
def _server() -> str:
    folder = tempfile.mkdtemp(prefix="prefork-")
    path = f"{folder}/socket"
    process = subprocess.Popen(
        [sys.executable, __file__, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
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


def _serve(path: str) -> list[str]:
    """Answer requests until stdin closes; in each child, return the arguments of its Python."""
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
        folder, arguments, environ, constants = json.loads(
            _exactly(connection, size).decode("utf-8", "surrogateescape")
        )
        command = os.fork()
        if command:
            for fd in fds:
                os.close(fd)
            with suppress(OSError):  # nobody may wait any more
                connection.sendall(command.to_bytes(4, "big"))
                _, status = os.waitpid(command, 0)
                connection.sendall(status.to_bytes(STATUS_BYTES, "big"))
            os._exit(0)
        connection.close()
        _become(folder, environ, constants, fds)
        return list(arguments)


def _become(folder: str, environ: dict[str, str], constants: Constants, fds: list[int]) -> None:
    """Look like a process that was just started."""
    import random
    from importlib import import_module

    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    random.seed()
    for name, seconds in constants.items():
        module, _, constant = name.rpartition(".")
        assert hasattr(import_module(module), constant), name
        setattr(import_module(module), constant, seconds)


def _warm_up() -> None:
    """Run a suite, so that children need not build what is made on first use, such as templates."""
    import gc
    import threading
    from contextlib import redirect_stderr, redirect_stdout
    from importlib import import_module
    from pkgutil import walk_packages

    import ci_evals
    from ci_evals.cli.main import group

    for module in walk_packages(ci_evals.__path__, "ci_evals."):
        if not module.name.startswith(_LEFT_OUT):
            with suppress(ImportError):  # of an extra that is not installed
                import_module(module.name)
    for name in _LIBRARIES:
        with suppress(ImportError):
            import_module(name)
    for name in [name for name in os.environ if name.startswith(("CI_EVALS_", "GITHUB_"))]:
        del os.environ[name]
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as nothing:
        suite = Path(folder, "evals.yaml")
        suite.write_text(
            "providers: [{type: mock}]\ncases: [{id: a, input: a, expect: [{contains: a}]}]\n"
        )
        arguments = ["run", "--quiet", "--config", str(suite), "--out", folder]
        with redirect_stdout(nothing), redirect_stderr(nothing), suppress(SystemExit):
            group.main(arguments, standalone_mode=False)
    if threading.active_count() != 1:
        raise RuntimeError("a thread is left: forking would copy its locks")
    gc.collect()
    gc.freeze()


def _run(arguments: list[str]) -> None:
    """Do what `python ARGUMENTS` does."""
    import runpy
    import warnings

    while arguments[0] == "-W":
        warnings.simplefilter(arguments[1])  # type: ignore[arg-type]
        arguments = arguments[2:]
    if arguments[0] == "-m":
        sys.path[0] = str(Path.cwd())
        sys.argv[:] = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.path[0] = ""
        sys.argv[:] = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0] = str(Path(arguments[0]).absolute().parent)
        sys.argv[:] = arguments
        runpy.run_path(arguments[0], run_name="__main__")


def _exit(code: int) -> NoReturn:
    """End as Python does, but skip the tenth of a second that it takes to unload modules."""
    import gc
    import threading

    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # objects may say that they were never closed
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _warm_up()
    wanted = _serve(sys.argv[1])
    try:
        _run(wanted)
    except SystemExit as ending:
        if not isinstance(ending.code, int):
            raise
        _exit(ending.code & 0xFF)
    _exit(0)
