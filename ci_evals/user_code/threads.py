"""Calls the team's own functions, each in a new thread unless it is async."""

import asyncio
import inspect
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import Any

CALL_THREAD = "ci-evals-call"
"""The name of each thread that calls a function."""


def ends_work(error: BaseException) -> bool:
    """Return True if an exception ends the run: the task was cancelled, or Ctrl-C was pressed.

    The team's own code may raise the same exceptions itself, which is a crash like any other.
    """
    if not isinstance(error, asyncio.CancelledError | GeneratorExit | KeyboardInterrupt):
        return False
    task = asyncio.current_task()
    if task is None or task.cancelling():
        return True
    if not isinstance(error, KeyboardInterrupt):
        return False
    # Only Python's default handler raises it, in the main thread; ours and asyncio's cancel a task.
    if threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def is_async(function: Any) -> bool:
    """Return True if calling a function, or a callable object, returns a coroutine."""
    if inspect.iscoroutinefunction(function):
        return True
    return inspect.iscoroutinefunction(type(function).__call__)


@asynccontextmanager
async def time_limit(timeout_s: float, error: Exception) -> AsyncIterator[None]:
    """Raise `error` if the block takes longer. A TimeoutError of the block itself passes."""
    scope = asyncio.timeout(timeout_s)
    try:
        async with scope:
            yield
    except TimeoutError:
        if scope.expired():
            raise error from None
        raise


async def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call one of the team's functions, in a thread unless it is async, and return its result."""
    if is_async(function):
        return await function(*arguments)
    return await call_in_thread(partial(function, *arguments))


async def call_in_thread(call: Callable[[], Any]) -> Any:
    """Run a blocking call in a daemon thread, with the caller's context, and return its result.

    An awaitable result is awaited on the event loop. If the caller is cancelled, the thread keeps
    running, but does not keep the program from exiting: a pool of threads would wait for it.

    Raises:
        RuntimeError: the system allows no more threads.
        BaseException: any exception of the call.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = copy_context()

    def deliver(value: Any, error: BaseException | None) -> None:
        if ended.done():
            _discard(value)  # the caller gave up
        else:
            ended.set_result((value, error))

    def work() -> None:
        value = None
        error = None
        try:
            value = context.run(call)
        except BaseException as raised:  # noqa: BLE001  the team's code: the caller decides what it means
            error = raised
        try:
            loop.call_soon_threadsafe(deliver, value, error)
        except RuntimeError:  # the loop is closed: nobody is waiting
            _discard(value)

    threading.Thread(target=work, name=CALL_THREAD, daemon=True).start()
    try:
        value, error = await ended
    except asyncio.CancelledError:
        if ended.done() and not ended.cancelled():  # the result arrived with the cancellation
            _discard(ended.result()[0])
        raise
    if error is not None:
        raise error
    if inspect.isawaitable(value):
        return await value
    return value


def _discard(value: Any) -> None:
    """Close a coroutine that nobody will await: Python would warn about it."""
    if inspect.iscoroutine(value):
        value.close()
