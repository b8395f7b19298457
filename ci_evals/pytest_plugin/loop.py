"""An event loop beside the tests' own: an evaluation runs the same way whatever async plug-in there is."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from threading import Event, Thread
from typing import Any, TypeVar

T = TypeVar("T")


def in_a_loop_of_its_own(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in another thread and return or raise what it does; Ctrl-C ends it."""
    returned: list[T] = []
    raised: list[BaseException] = []
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = []
    ended = Event()

    async def main() -> None:
        task = asyncio.ensure_future(make())
        started.append((asyncio.get_running_loop(), task))
        returned.append(await task)

    def work() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001  it is raised again where it was waited for
            raised.append(error)
        finally:
            ended.set()

    context = contextvars.copy_context()
    thread = Thread(target=lambda: context.run(work), name="ci-evals", daemon=True)
    thread.start()
    try:
        ended.wait()
    except BaseException:
        for loop, task in started:
            loop.call_soon_threadsafe(task.cancel)
        thread.join()
        raise
    thread.join()
    if raised:
        raise raised[0]
    return returned[0]
