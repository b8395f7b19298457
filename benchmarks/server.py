"""A very cheap OpenAI-compatible server on loopback, so that what is measured is the client.

Prints its port. `POST` anything for a chat completion, `GET /stats` for what it has seen.
"""

import argparse
import asyncio
import json
import os
import random
import socket
import struct
from itertools import accumulate
from typing import NamedTuple, cast

RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, zero seconds: closing sends RST


class Options(NamedTuple):
    """How to answer: None for `answer_bytes` echoes; the shares are fractions of all requests."""

    latency_s: float = 0.0
    answer_bytes: int | None = None
    too_many_share: float = 0.0
    retry_after_s: float = 1.0
    broken_share: float = 0.0
    reset_share: float = 0.0
    seed: int = 0


class Service:
    """What is answered to the n-th request, and what was seen so far."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.active = 0
        self.stats = {"requests": 0, "peak_concurrency": 0, "429": 0, "500": 0, "reset": 0}
        self._random = random.Random(options.seed)
        shares = (options.reset_share, options.too_many_share, options.broken_share)
        self._bounds = tuple(accumulate(shares))
        self._faulty = any(shares)
        self._fixed = (
            None if options.answer_bytes is None else completion("x" * options.answer_bytes)
        )
        retry_after = f"Retry-After: {options.retry_after_s:g}\r\n"
        self._too_many = response("429 Too Many Requests", error("Rate limit reached"), retry_after)
        self._broken = response("500 Internal Server Error", error("The server had an error"))

    def respond(self, body: bytes) -> bytes | None:
        """The response to one completion request; None for a connection reset."""
        stats = self.stats
        stats["requests"] += 1
        if self._faulty:
            drawn = self._random.random()
            if drawn < self._bounds[0]:
                stats["reset"] += 1
                return None
            if drawn < self._bounds[1]:
                stats["429"] += 1
                return self._too_many
            if drawn < self._bounds[2]:
                stats["500"] += 1
                return self._broken
        return self._fixed or completion(json.loads(body)["messages"][-1]["content"])

    def enter(self) -> None:
        self.active += 1
        self.stats["peak_concurrency"] = max(self.stats["peak_concurrency"], self.active)

    def leave(self) -> None:
        self.active -= 1


class Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive and `Content-Length` bodies; no more than that."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._buffer = b""
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (head_end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:head_end].lower()
            end = head_end + 4 + content_length(head)
            if len(self._buffer) < end:
                return
            body, self._buffer = self._buffer[head_end + 4 : end], self._buffer[end:]
            if head.startswith(b"get /stats "):
                self._transport.write(response("200 OK", json.dumps(self._service.stats).encode()))
            elif b"\r\ntransfer-encoding:" in head:
                self._transport.write(
                    response("411 Length Required", error("Content-Length is required"))
                )
                self._transport.close()
            else:
                self._complete(body)

    def _complete(self, body: bytes) -> None:
        self._service.enter()
        answer = self._service.respond(body)
        if self._service.options.latency_s:
            self._loop.call_later(self._service.options.latency_s, self._send, answer)
        else:
            self._send(answer)

    def _send(self, answer: bytes | None) -> None:
        self._service.leave()
        if self._transport.is_closing():
            return
        if answer is None:
            self._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, RESET
            )
            self._transport.abort()
        else:
            self._transport.write(answer)


def content_length(head: bytes) -> int:
    """The declared length of the body; `head` is in lower case."""
    start = head.find(b"\r\ncontent-length:")
    return 0 if start < 0 else int(head[start + 17 :].split(b"\r\n", 1)[0])


def completion(text: str) -> bytes:
    """A whole HTTP response with `text` as the model's answer."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
    }
    tokens = max(1, len(text) // 4)
    usage = {"prompt_tokens": 20, "completion_tokens": tokens, "total_tokens": 20 + tokens}
    answer = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "mock"}
    return response("200 OK", json.dumps(answer | {"choices": [choice], "usage": usage}).encode())


def error(message: str) -> bytes:
    return json.dumps(
        {"error": {"message": message, "type": "mock", "param": None, "code": None}}
    ).encode()


def response(status: str, body: bytes, headers: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
        f"{headers}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def serve(options: Options, port: int) -> None:
    """Serve on loopback until the process is ended; port 0 takes a free one."""
    service = Service(options)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(service), "127.0.0.1", port, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--cpu", type=int, help="run on this core only, where the system allows it")
    parser.add_argument("--latency-s", type=float, default=0.0)
    parser.add_argument(
        "--answer-bytes", type=int, help="answer this many x; default: echo the last message"
    )
    parser.add_argument(
        "--too-many-share", type=float, default=0.0, help="share of requests answered 429"
    )
    parser.add_argument("--retry-after-s", type=float, default=1.0, help="Retry-After of the 429s")
    parser.add_argument(
        "--broken-share", type=float, default=0.0, help="share of requests answered 500"
    )
    parser.add_argument(
        "--reset-share", type=float, default=0.0, help="share of requests whose connection is reset"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the schedule of faults")
    arguments = vars(parser.parse_args())
    port, cpu = arguments.pop("port"), arguments.pop("cpu")
    if cpu is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cpu})
    asyncio.run(serve(Options(**arguments), port))


if __name__ == "__main__":
    main()
