"""Daemon threads for blocking calls: one that never returns keeps no program from exiting."""

import asyncio
import inspect
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any

_Job = tuple[Callable[[], Any], "asyncio.Future[_Ended]", asyncio.AbstractEventLoop]
_Inbox = SimpleQueue[_Job | None]


class DaemonThreads:
    """Runs blocking calls, each in a thread of its own while it lasts and in its caller's context (`contextvars`).

    Idle threads are used again: there are as many as calls under way at once. A call whose caller gave up goes on by
    itself; its thread is of use again when it returns.
    """

    def __init__(self) -> None:
        self._idle: list[_Inbox] = []
        self._closed = False

    async def run(self, call: Callable[[], Any]) -> Any:
        """Return or raise what `call` returns or raises; if that is awaitable, what it comes to on the event loop.

        Raises:
            RuntimeError: the system allows no further thread.
        """
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = self._start()
        inbox.put((partial(copy_context().run, call), future, loop))
        try:
            ended: _Ended = await future
        finally:
            del future  # which a traceback would keep, and a coroutine in it that nobody takes any more
        if ended.error is not None:
            raise ended.error
        value = ended.take()
        return await value if inspect.isawaitable(value) else value

    def close(self) -> None:
        """Let idle threads end; busy ones end after their call, or with the program."""
        self._closed = True
        while self._idle:
            self._idle.pop().put(None)

    def _start(self) -> _Inbox:
        inbox: _Inbox = SimpleQueue()
        Thread(target=self._work, args=(inbox,), name="ci-evals-call", daemon=True).start()
        return inbox

    def _work(self, inbox: _Inbox) -> None:
        while (job := inbox.get()) is not None:
            call, future, loop = job
            ended = _Ended(call)
            try:
                loop.call_soon_threadsafe(self._deliver, inbox, future, ended)
            except RuntimeError:  # the loop is closed: nobody waits any more, or knows of this inbox
                return
            del job, call, future, loop, ended  # or an idle thread keeps them alive

    def _deliver(self, inbox: _Inbox, future: asyncio.Future["_Ended"], ended: "_Ended") -> None:
        if self._closed:
            inbox.put(None)
        else:
            self._idle.append(inbox)
        if not future.done():
            future.set_result(ended)


class _Ended:
    """What a call came to. A coroutine that nobody takes is closed: one that is never awaited would warn."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._value: Any = None
        self.error: BaseException | None = None
        try:
            self._value = call()
        except BaseException as raised:  # noqa: BLE001  the user's code: the caller decides what it means
            self.error = raised

    def take(self) -> Any:
        value, self._value = self._value, None
        return value

    def __del__(self) -> None:
        if inspect.iscoroutine(self._value):
            self._value.close()
