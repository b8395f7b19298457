"""The inside of a worker process: takes calls from `python_worker.py` and returns their results."""

import asyncio
import faulthandler
import os
import pickle
import sys
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO

from ci_evals.python_worker import UnsendableError
from ci_evals.user_code.folders import CodeFolders, importable
from ci_evals.user_code.threads import CALL_THREAD, call

_TICK_S = 1.0
_LAST_S = 5.0  # a stuck process ends this long after the time of its calls


def serve(folder: str, named: Sequence[str], usual: Sequence[str]) -> None:
    """Answer the requests on stdin until it ends. Output of the code goes to stderr.

    Args:
        folder: the folder of the suite.
        named: see `CodeFolders`.
        usual: see `CodeFolders`.
    """
    # Copies with other numbers: code that reads stdin or writes to stdout must not disturb the
    # protocol, nor may programs that it starts.
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]  # they are files
    folders = CodeFolders(tuple(map(Path, named)), tuple(map(Path, usual)))
    with importable(Path(folder), folders):
        asyncio.run(_Server(requests, answers).serve())


class _Server:
    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests = requests
        self._answers = answers
        self._tasks: dict[asyncio.Task[None], float] = {}  # the seconds that each may take
        self._nowhere = Path(os.devnull).open("w")  # noqa: SIM115  until the end

    async def serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        Thread(target=self._read, daemon=True).start()
        Thread(target=self._tick, daemon=True).start()
        await asyncio.Event().wait()

    def _read(self) -> None:
        for line in self._requests:
            request = pickle.loads(b64decode(line))
            self._loop.call_soon_threadsafe(self._take, request)
        os._exit(0)  # the parent is gone: threads of given-up calls must not keep the process

    def _tick(self) -> None:
        """Postpone the end of the process as long as its threads make progress."""
        while True:
            self._put_off_end()
            time.sleep(_TICK_S)

    def _put_off_end(self) -> None:
        """Restart the timer that ends the process if code in C holds Python's lock for too long.

        Such a process cannot notice the end of its parent. faulthandler's timer is a thread in C,
        which does not need the lock.
        """
        limit_s = max(list(self._tasks.values()), default=0.0) + _LAST_S
        faulthandler.dump_traceback_later(limit_s, exit=True, file=self._nowhere)

    def _take(self, request: Mapping[str, Any]) -> None:
        if request["do"] == "ping":
            self._answer(request, {"value": None})
            return
        task = self._loop.create_task(self._call(request))
        self._tasks[task] = request["timeout_s"]
        task.add_done_callback(self._tasks.pop)
        self._put_off_end()

    async def _call(self, request: Mapping[str, Any]) -> None:
        answer: dict[str, Any] = {}
        try:
            function, arguments = pickle.loads(request["call"])
            answer["value"] = await call(function, *arguments)
        except BaseException as error:  # noqa: BLE001  the team's own code may raise anything
            answer["error"] = error
        answer["leftover"] = self._has_leftover()
        try:
            self._answer(request, answer)
        except Exception:  # noqa: BLE001  pickling raises anything
            self._answer(request, {"error": UnsendableError("the result cannot be sent")})

    def _has_leftover(self) -> bool:
        """Return True if the thread of a call that was given up is still running."""
        threads = [thread for thread in threading.enumerate() if thread.name == CALL_THREAD]
        # The task that asks is counted, but its thread has ended.
        return len(threads) >= len(self._tasks)

    def _answer(self, request: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        line = f"{request['id']} ".encode() + b64encode(pickle.dumps(answer)) + b"\n"
        self._answers.write(line)
        self._answers.flush()
