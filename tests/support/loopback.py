"""Serves applications on loopback."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def on_loopback(
    app: web.Application, *, cancels: bool = True, shutdown_timeout_s: float = 1
) -> AsyncIterator[str]:
    """Serve an application on a free port, and yield its address.

    Args:
        app: the application.
        cancels: cancel a handler whose client has left; otherwise it answers nobody.
        shutdown_timeout_s: the time that handlers get at the end.
    """
    runner = web.AppRunner(app, handler_cancellation=cancels, shutdown_timeout=shutdown_timeout_s)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
