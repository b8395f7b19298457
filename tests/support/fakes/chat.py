"""An OpenAI-compatible endpoint that echoes, counts, holds and injects faults."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Literal

import msgspec
from aiohttp import web
from loopback import on_loopback

Fault = Literal["401", "429", "500", "reset"]


class ChatServer:
    """Answers every question with itself. `url` is a `base_url`.

    Args:
        fault: from a question and how often it was asked before (from 0) to a fault, or None.
        hold: the first so many requests are answered only when all of them are there.
        retry_after: what a 429 asks for.
        headers: of every answer.
    """

    def __init__(
        self,
        fault: Callable[[str, int], Fault | None] = lambda _question, _ordinal: None,
        *,
        hold: int = 0,
        retry_after: str = "0",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.url = ""
        self.asked: Counter[str] = Counter()
        self.faulted: Counter[str] = Counter()
        self.active = 0
        self.peak = 0
        self._fault = fault
        self._hold = hold
        self._retry_after = retry_after
        self._headers = headers
        self._all_there = asyncio.Event()

    async def complete(self, request: web.Request) -> web.StreamResponse:
        self.active += 1
        self.peak = max(self.peak, self.active)
        try:
            if self.active >= self._hold:
                self._all_there.set()
            await self._all_there.wait()
            return self._answer(
                request, msgspec.json.decode(await request.read())["messages"][-1]["content"]
            )
        finally:
            self.active -= 1

    def let_go(self) -> None:
        """Answer whatever is held: a server cannot close before."""
        self._all_there.set()

    def _answer(self, request: web.Request, question: str) -> web.StreamResponse:
        fault = self._fault(question, self.asked[question])
        self.asked[question] += 1
        if fault is None:
            body = completion(question)
            return web.Response(body=body, content_type="application/json", headers=self._headers)
        self.faulted[question] += 1
        if fault == "reset":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        headers = {"Retry-After": self._retry_after} if fault == "429" else {}
        return web.json_response(
            {"error": {"message": f"injected {fault}"}}, status=int(fault), headers=headers
        )


def completion(text: str) -> bytes:
    """The body of a chat completion."""
    return msgspec.json.encode(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": "echo",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        }
    )


@asynccontextmanager
async def chatting(server: ChatServer) -> AsyncIterator[ChatServer]:
    """Serve on a free port of loopback."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.complete)
    async with on_loopback(app, cancels=False, shutdown_timeout_s=0) as url:
        server.url = f"{url}/v1"
        try:
            yield server
        finally:
            server.let_go()
