"""JavaScript of a suite, in one process of the machine's Node.js for the whole invocation."""

import asyncio
import json
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitTimeoutError
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from ci_evals.errors import ConfigError, Problem
from ci_evals.format import one_line

_WORKER = Path(__file__).with_name("javascript_worker.cjs")
_OLDEST = (18, 0)
_DETECTS_MODULES = (20, 10)  # the first that can tell ES modules in .js files by itself
_START_S = 30.0
_PING_S = 1.0
_END_S = 1.0
_STDERR_LINES = 20


class JavaScriptError(Exception):
    """JavaScript threw something.

    Args:
        stack: its type, its message and the frames of the suite's code.
        place: where in the suite's code: `checks.mjs:2`, or `line 2` of code in the suite itself.
        setup: True if it says nothing about the data: a module is missing or cannot be parsed, a
            service does not answer.
    """

    def __init__(self, stack: str, place: str = "", *, setup: bool = False) -> None:
        super().__init__(stack)
        self.place = place
        self.setup = setup


class NodeEndedError(Exception):
    """Node.js ended before it answered."""


class _RestartedError(Exception):
    """Node.js was ended because of another request."""


def split_file(reference: str) -> Mapping[str, str] | None:
    """Split `file.mjs:name` into `file` and, if there is one, `name`; None for any other text."""
    found = re.fullmatch(r"(?P<file>.+\.[cm]?js)(?::(?P<name>\w+))?", reference)
    if found is None:
        return None
    return {key: value for key, value in found.groupdict().items() if value}


def file_problem(reference: str, folder: Path) -> str | None:
    """Return why a reference does not lead to a file of JavaScript; None if it does."""
    parts = split_file(reference.removeprefix("file://"))
    if parts is None:
        return f"expected a file of JavaScript (.js, .mjs or .cjs), got {reference!r:.80}"
    if reference.startswith("file://"):
        return f"write the path alone: {parts['file']}"
    path = folder / parts["file"]
    if not path.is_file():
        return f"there is no file {path}"
    return None


class NodeProcess:
    """One process of Node.js in a folder, started on first use, and again if it had to be ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._numbers = count(1)
        self._process: subprocess.Popen[str] | None = None
        self._pending: dict[int, Future[Any]] = {}
        self._readers: list[Thread] = []

    async def ask(self, **request: Any) -> Any:
        """Return the value that JavaScript returns.

        If the caller is cancelled, as by a time-out, a process that is stuck is ended; the requests
        of other callers are then sent again.

        Raises:
            JavaScriptError: it threw something.
            NodeEndedError: the process ended meanwhile, twice.
        """
        endings = 0
        while True:
            future = self._send(request)
            try:
                return await asyncio.wrap_future(future)
            except asyncio.CancelledError:
                Thread(target=self._end_if_stuck, name="ci-evals-node", daemon=True).start()
                raise
            except _RestartedError:
                continue
            except NodeEndedError:  # perhaps by the code of another request
                endings += 1
                if endings > 1:
                    raise

    def check(self, **request: Any) -> None:
        """Send a request that calls no function of the suite; its modules may be loaded.

        Raises:
            ConfigError: there is no Node.js, or the code is wrong.
        """
        try:
            self._send(request).result(_START_S)
        except (JavaScriptError, NodeEndedError) as error:
            raise _config_error(one_line(str(error), 500)) from error
        except WaitTimeoutError as error:
            raise _config_error(f"Node.js did not answer within {_START_S:g} s") from error

    def close(self) -> None:
        """End the process."""
        self._end(_RestartedError())
        for reader in self._readers:
            reader.join(_END_S)

    def _send(self, request: Mapping[str, Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            number = next(self._numbers)
            process = self._process or self._start()
            self._pending[number] = future
            assert process.stdin is not None
            with suppress(OSError):  # it has just ended, which its reader is about to notice
                process.stdin.write(json.dumps({"id": number, **request}, default=str) + "\n")
                process.stdin.flush()
        return future

    def _start(self) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [*node_command(), str(_WORKER)]
        process = subprocess.Popen(  # noqa: S603  no shell
            command,
            cwd=self._folder,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # a Ctrl-C is for this process alone, which then ends that one
        )
        self._process = process
        reader = Thread(target=self._read, args=(process,), name="ci-evals-node", daemon=True)
        self._readers.append(reader)
        reader.start()
        return process

    def _read(self, process: subprocess.Popen[str]) -> None:
        """Give each answer to the caller that waits for it, until the process ends."""
        assert process.stdout is not None
        assert process.stderr is not None
        tail: deque[str] = deque(maxlen=_STDERR_LINES)
        listener = Thread(
            target=tail.extend, args=(process.stderr,), name="ci-evals-node", daemon=True
        )
        listener.start()
        for line in process.stdout:
            try:
                answer = json.loads(line)
            except ValueError:  # code may write past `console`
                continue
            with self._lock:
                future = self._pending.pop(answer["id"], None)
            if future is None or not future.set_running_or_notify_cancel():
                continue
            if "error" in answer:
                error = answer["error"]
                thrown = JavaScriptError(error["stack"], error["place"], setup=error["setup"])
                future.set_exception(thrown)
            else:
                future.set_result(answer["value"])
        status = process.wait()
        listener.join(_END_S)
        process.stdout.close()
        process.stderr.close()
        text = f"Node.js ended with exit status {status}"
        if stderr := one_line("".join(tail).strip(), 300):
            text = f"{text}: {stderr}"
        self._end(NodeEndedError(text), process)

    def _end_if_stuck(self) -> None:
        try:
            self._send({"do": "ping"}).result(_PING_S)
        except WaitTimeoutError:
            self._end(_RestartedError())
        except (NodeEndedError, _RestartedError):
            pass

    def _end(self, error: Exception, ended: subprocess.Popen[str] | None = None) -> None:
        """End the process, and raise an error in the callers that wait for it.

        Args:
            error: the error.
            ended: a process that has ended by itself; nothing is done if it is not the current one.
        """
        with self._lock:
            process = self._process
            if process is None or ended not in (None, process):
                return
            self._process = None
            pending, self._pending = self._pending, {}
        for future in pending.values():
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
        process.kill()
        process.wait()
        with suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()


@cache
def node_command() -> tuple[str, ...]:
    """Return the command that starts Node.js.

    Raises:
        ConfigError: there is none on the PATH, or it is too old.
    """
    program = shutil.which("node")
    if program is None:
        raise _config_error("JavaScript needs Node.js: there is no `node` on the PATH")
    ended = subprocess.run(  # noqa: S603
        [program, "--version"], capture_output=True, text=True, check=False
    )
    version = (0, 0)
    if numbers := re.match(r"v(\d+)\.(\d+)", ended.stdout):
        version = (int(numbers[1]), int(numbers[2]))
    if version < _OLDEST:
        found = ended.stdout.strip() or "of an unknown version"
        text = f"JavaScript needs Node.js {_OLDEST[0]} or newer: {program} is {found}"
        raise _config_error(text)
    if version < _DETECTS_MODULES:
        return (program,)
    return (program, "--experimental-detect-module")


def _config_error(text: str) -> ConfigError:
    return ConfigError([Problem("", None, "", text)])


_current: ContextVar[NodeProcess | None] = ContextVar("node", default=None)


@contextmanager
def node_process(folder: Path) -> Iterator[None]:
    """Run JavaScript in a folder while the context lasts. It is started when it is needed."""
    node = NodeProcess(folder)
    before = _current.get()
    _current.set(node)
    try:
        yield
    finally:
        _current.set(before)
        node.close()


def syntax_problem(code: str) -> str | None:
    """Return why code in a suite cannot be parsed; None if it can, or if there is no Node.js."""
    node = _current.get()
    if node is None:
        return None
    try:
        node_command()
    except ConfigError:
        return None  # reported when the code is run
    try:
        node.check(do="check", code=code)
    except ConfigError as error:
        return error.problems[0].message
    return None


def current_node() -> NodeProcess:
    """Return the process of the innermost `node_process`."""
    node = _current.get()
    if node is None:
        raise RuntimeError("no `node_process` is open here")
    return node
