"""Worker processes for code that may compute forever (docs/decisions/0025)."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, ClassVar

from ci_evals.format import describe_status, one_line

START_S = 60.0
"""Seconds that a process may take to start, including its imports."""

_PATIENCE_S = 2.0  # without an answer; then the process must show that it is not stuck
_PING_S = 1.0
_END_S = 1.0
_STDERR_LINES = 20
_MOST_PROCESSES = 4


class WorkerEndedError(Exception):
    """The process ended before it answered.

    Args:
        ending: the end in words: `Node.js ended with exit status 1`.
        stderr: the last lines that it wrote to stderr.
    """

    def __init__(self, ending: str, stderr: str = "") -> None:
        message = ending
        if stderr:
            message = f"{ending}: {one_line(stderr, 300)}"
        super().__init__(message)
        self.ending = ending
        self.stderr = stderr


class WorkerStartError(WorkerEndedError):
    """The process never took a request."""


class WorkerTimeoutError(Exception):
    """A request took too long."""


class _StuckError(Exception):
    """The process was killed because it was stuck."""


class Worker:
    """A process that answers requests: a line on stdin for each request, a line on stdout for each
    answer.

    Args:
        command: starts it.
        folder: its working folder.
        environ: its environment; None for the environment of this process.
    """

    title: ClassVar[str]

    def __init__(
        self, command: Sequence[str], folder: Path, environ: Mapping[str, str] | None = None
    ) -> None:
        self.retired = False
        """True if it gets no further requests, since one that was given up is still running."""
        self._lock = Lock()
        self._numbers = count(1)
        self._pending: dict[int, Future[Any]] = {}
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._has_started = False
        self._ending: Exception | None = None
        self._tail: deque[str] = deque(maxlen=_STDERR_LINES)
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(  # noqa: S603  no shell
            command,
            cwd=folder,
            env=environ,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,  # a Ctrl-C reaches only this process, which ends the other
        )
        self._start_thread(self._write)
        self._stderr_reader = self._start_thread(self._read_stderr)
        self._reader = self._start_thread(self._read)

    # The protocol of the process.

    def encode(self, request: Mapping[str, Any]) -> bytes:
        """Return a request as a line, without its line feed."""
        raise NotImplementedError

    def decode(self, line: bytes) -> Mapping[str, Any]:
        """Return an answer: its `id` and either its `value` or its `error`.

        If `leftover` is true, the process is still busy with a request that was given up.

        Raises:
            ValueError: the line is not an answer; code may write to file descriptor 1 itself.
        """
        raise NotImplementedError

    def error(self, answer: Mapping[str, Any]) -> Exception:
        """Return the exception of an answer with an `error`."""
        raise NotImplementedError

    def note(self, line: str) -> None:
        """Handle a line that was written to stderr. Called in a thread."""

    # Requests.

    @property
    def is_alive(self) -> bool:
        return self._ending is None

    @property
    def is_busy(self) -> bool:
        """True if somebody waits for an answer."""
        with self._lock:
            return not all(future.done() for future in self._pending.values())

    def send(self, request: Mapping[str, Any]) -> Future[Any]:
        """Send a request; return the future of its value."""
        future: Future[Any] = Future()
        with self._lock:  # `end` may run in another thread, and must see every request
            number = next(self._numbers)
            line = self.encode({"id": number, **request}) + b"\n"
            if self._ending is not None:
                future.set_exception(self._ending)
                return future
            self._pending[number] = future
            self._lines.put(line)
        return future

    async def start(self) -> None:
        """Wait until the process is ready.

        Raises:
            WorkerStartError: it does not start.
        """
        if self._has_started:
            return
        try:
            async with asyncio.timeout(START_S):
                await asyncio.wrap_future(self.send({"do": "ping"}))
        except TimeoutError:
            late = WorkerStartError(f"{self.title} did not start within {START_S:g} s")
            self.end(late)
            raise late from None
        except WorkerEndedError as error:
            raise WorkerStartError(error.ending, error.stderr) from error
        self._has_started = True

    async def answers(self, within_s: float) -> bool:
        """Return True unless the process is stuck."""
        try:
            async with asyncio.timeout(within_s):
                await asyncio.wrap_future(self.send({"do": "ping"}))
        except TimeoutError:
            return False
        except (WorkerEndedError, _StuckError):
            pass  # the caller learns of its end by its own request
        return True

    def end(self, error: Exception) -> None:
        """Kill the process, and raise `error` in the callers that wait for it."""
        with self._lock:
            if self._ending is not None:
                return
            self._ending = error
            pending, self._pending = self._pending, {}
        for future in pending.values():
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
        self._kill()

    def close(self) -> None:
        """Kill the process and read the rest of its output."""
        self.end(_StuckError())
        self._reader.join(_END_S)
        self._stderr_reader.join(_END_S)

    def _kill(self) -> None:
        if sys.platform == "win32":
            self._process.kill()
        else:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)  # with its children
        self._process.wait()
        self._lines.put(None)

    # Threads.

    def _start_thread(self, work: Callable[[], None]) -> Thread:
        thread = Thread(target=work, name="ci-evals-worker", daemon=True)
        thread.start()
        return thread

    def _write(self) -> None:
        """Write requests. A stuck process does not read them, so a caller must not write itself."""
        assert self._process.stdin is not None
        with suppress(OSError):  # the process has ended, as its reader notices
            while (line := self._lines.get()) is not None:
                self._process.stdin.write(line)
                self._process.stdin.flush()
        with suppress(OSError):
            self._process.stdin.close()

    def _read(self) -> None:
        """Give each answer to the caller that waits for it, until the process ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                answer = self.decode(line)
            except ValueError:
                continue
            with self._lock:
                future = self._pending.pop(answer["id"], None)
            if answer.get("leftover"):
                self.retired = True
            if future is None or not future.set_running_or_notify_cancel():
                continue
            if "error" in answer:
                future.set_exception(self.error(answer))
            else:
                future.set_result(answer["value"])
        self._process.stdout.close()
        status = self._process.wait()
        self._stderr_reader.join(_END_S)
        ending = f"{self.title} ended with {describe_status(status)}"
        if status < 0:
            ending = f"{self.title} was {describe_status(status)}"
        self.end(WorkerEndedError(ending, "".join(self._tail).strip()))

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            text = line.decode("utf-8", "replace")
            self._tail.append(text)
            self.note(text)
        self._process.stderr.close()


class Workers:
    """Processes of one kind, started on first use and replaced if they hang or end.

    Requests of `ask` share a process. If it is stuck or ends, each of its requests gets a process
    of its own, so that only the one to blame is lost.

    Args:
        start: starts a process.
    """

    def __init__(self, start: Callable[[], Worker]) -> None:
        self._start = start
        self._shared: Worker | None = None
        self._started: list[Worker] = []
        self._is_closed = False
        self._idle: list[Worker] = []
        cores = os.cpu_count() or 1
        self._places = asyncio.Semaphore(min(cores, _MOST_PROCESSES))

    async def ask(self, request: Mapping[str, Any], timeout_s: float) -> Any:
        """Return the answer to a request.

        Raises:
            WorkerTimeoutError: it took too long.
            WorkerStartError: the process cannot be started.
            WorkerEndedError: it ended its process.
            Exception: the error of its answer.
        """
        worker = self._share()
        try:
            await worker.start()
            return await self._wait(worker, request, timeout_s)
        except (_StuckError, WorkerEndedError):  # another request may be to blame
            return await self.ask_alone(request, timeout_s)

    async def ask_alone(self, request: Mapping[str, Any], timeout_s: float) -> Any:
        """Return the answer to a request that has a process of its own. Raises as `ask`."""
        async with self._places:
            worker = self._take_idle()
            answered = False
            try:
                await worker.start()
                answer = asyncio.wrap_future(worker.send(request))
                try:
                    await asyncio.wait([answer], timeout=timeout_s)
                finally:
                    if not answer.done():
                        answer.cancel()  # the process is killed below
                if answer.cancelled():
                    raise WorkerTimeoutError
                answered = worker.is_alive and not worker.retired
                return await answer
            finally:
                if answered:
                    self._idle.append(worker)
                else:
                    worker.end(_StuckError())

    def check(self, request: Mapping[str, Any]) -> Any:
        """Return the answer to a quick request. Blocks.

        Raises:
            WorkerTimeoutError: it took too long.
            WorkerEndedError: the process ended.
            Exception: the error of its answer.
        """
        try:
            return self._share().send(request).result(START_S)
        except TimeoutError:
            raise WorkerTimeoutError from None

    def close(self) -> None:
        """End all processes."""
        self._is_closed = True
        for worker in self._started:
            worker.close()

    def _share(self) -> Worker:
        if self._shared is None or self._shared.retired or not self._shared.is_alive:
            self._shared = self._new()
        return self._shared

    def _take_idle(self) -> Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive:
                return worker
        return self._new()

    def _new(self) -> Worker:
        if self._is_closed:
            raise WorkerStartError("the run has ended")
        self._started = [worker for worker in self._started if worker.is_alive]
        worker = self._start()
        self._started.append(worker)
        return worker

    async def _wait(self, worker: Worker, request: Mapping[str, Any], timeout_s: float) -> Any:
        """Return the answer of the shared process.

        Raises:
            WorkerTimeoutError: it took too long, while the process could answer other requests.
        """
        loop = asyncio.get_running_loop()
        sent = worker.send(request)
        answer = asyncio.wrap_future(sent)
        ends_at = loop.time() + timeout_s
        try:
            while not answer.done():
                left_s = ends_at - loop.time()
                await asyncio.wait([answer], timeout=min(left_s, _PATIENCE_S))
                if answer.done():
                    break
                if not await worker.answers(_PING_S):
                    worker.end(_StuckError())  # which wakes all requests in it
                elif worker.is_alive and loop.time() >= ends_at:
                    # A thread can't be killed: the process ends once the others are done.
                    worker.retired = True
                    raise WorkerTimeoutError
            return await answer
        finally:
            sent.cancel()
            if worker.retired and not worker.is_busy:
                worker.end(_StuckError())
