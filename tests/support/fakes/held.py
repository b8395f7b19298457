"""A chat endpoint that answers nobody until it is told to."""

import asyncio

from aiohttp import web

from fakes.chat import ChatServer


class HeldServer(ChatServer):
    """Echoes once `released` is set; `full` is set as soon as `count` requests are waiting.

    The first `free` requests are answered at once.
    """

    def __init__(self, count: int, *, free: int = 0) -> None:
        super().__init__()
        self.full = asyncio.Event()
        self.released = asyncio.Event()
        self.arrived = 0
        self._count = count
        self._free = free

    async def complete(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.arrived += 1
        if self.arrived <= self._free:
            return await super().complete(request)
        if self.arrived == self._free + self._count:
            self.full.set()
        await self.released.wait()
        return await super().complete(request)
