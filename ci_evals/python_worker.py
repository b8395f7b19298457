"""Python in worker processes: functions of ours that may compute forever, and the team's own."""

import json
import pickle
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

from ci_evals.errors import describe_exception
from ci_evals.user_code.folders import CodeFolders
from ci_evals.workers import START_S, Worker, Workers

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]);"
    " from ci_evals.python_worker_main import serve; serve(*json.loads(sys.argv[1]))"
)


class PythonWorker(Worker):
    """A process of this Python, in which the suite's code is importable.

    Its requests are `{"do": "call", "call": pickled}`, with a function and its arguments. The
    function's output goes to stderr of this process.
    """

    title = "the worker process"

    def __init__(self, folder: Path, folders: CodeFolders) -> None:
        own = str(folder.absolute())
        named = [str(path) for path in folders.named]
        usual = [str(path) for path in folders.usual]
        paths = [str(Path(path).absolute()) for path in sys.path]
        # These folders join `sys.path` only after ours is imported: their modules may have the
        # names of ours.
        first = {own, *named}
        others = [path for path in paths if path not in first]
        arguments = json.dumps([own, named, usual]), json.dumps(others)
        command = [sys.executable, "-P", "-c", _START, *arguments]
        super().__init__(command, Path.cwd())

    def encode(self, request: Mapping[str, Any]) -> bytes:
        return b64encode(pickle.dumps(request))

    def decode(self, line: bytes) -> Mapping[str, Any]:
        number, _, pickled = line.partition(b" ")
        try:
            answer = pickle.loads(b64decode(pickled))
        except Exception as error:  # noqa: BLE001  unpickling raises anything
            answer = {"error": UnsendableError(describe_exception(error))}
        return {"id": int(number), **answer}

    def error(self, answer: Mapping[str, Any]) -> Exception:
        error: Exception = answer["error"]
        return error

    def note(self, line: str) -> None:
        sys.stderr.write(line)


class UnsendableError(Exception):
    """A call or its result cannot be pickled: its objects exist in one process only."""


class PythonWorkers:
    """The worker processes of an invocation, started on first use.

    Args:
        folder: the folder of the suite.
        folders: the other folders of its code.
    """

    def __init__(self, folder: Path, folders: CodeFolders) -> None:
        self._workers = Workers(partial(PythonWorker, folder, folders))

    async def call(self, function: Callable[..., Any], *arguments: Any, timeout_s: float) -> Any:
        """Call a function in the process that all calls of the team's own code share.

        Raises:
            UnsendableError: the function, an argument or the result cannot be sent.
            WorkerTimeoutError: it took too long.
            WorkerEndedError: it ended its process.
            Exception: the function's own exception.
        """
        request = _request(function, arguments, timeout_s)
        return await self._workers.ask(request, timeout_s)

    async def call_alone(
        self, function: Callable[..., Any], *arguments: Any, timeout_s: float
    ) -> Any:
        """Call a function in a process of its own. Raises as `call`."""
        request = _request(function, arguments, timeout_s)
        return await self._workers.ask_alone(request, timeout_s)

    def check(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a quick function in the process that calls share. Blocks."""
        return self._workers.check(_request(function, arguments, START_S))

    def close(self) -> None:
        """End the processes."""
        self._workers.close()


def _request(
    function: Callable[..., Any], arguments: tuple[Any, ...], timeout_s: float
) -> Mapping[str, Any]:
    try:
        call = pickle.dumps((function, arguments))
    except Exception as error:  # pickling raises anything
        raise UnsendableError(describe_exception(error)) from error
    return {"do": "call", "call": call, "timeout_s": timeout_s}


_current: ContextVar[PythonWorkers | None] = ContextVar("python_workers", default=None)


@contextmanager
def python_workers(folder: Path, folders: CodeFolders) -> Iterator[None]:
    """Within the context, provide worker processes for the suite in a folder."""
    workers = PythonWorkers(folder, folders)
    before = _current.get()
    _current.set(workers)
    try:
        yield
    finally:
        _current.set(before)
        workers.close()


def current_workers() -> PythonWorkers | None:
    """Return the worker processes of the innermost `python_workers`; None outside of one."""
    return _current.get()
