"""The cheap server behind a quota: a token bucket by requests or by tokens. Refusals come at once.

Prints its port. `GET /stats` tells what was asked and refused.
"""

import argparse
import asyncio
import math
import os
import time
from typing import NamedTuple

from benchmarks.server import Connection, Options, Service, error, response


class Quota(NamedTuple):
    """A bucket that holds `burst` and gets `per_minute`, evenly; an answer costs `cost` of it."""

    per_minute: float
    burst: float
    cost: float = 1.0
    telling: bool = False


class QuotaService(Service):
    """Answers as long as the bucket has enough."""

    def __init__(self, options: Options, quota: Quota) -> None:
        super().__init__(options)
        self._quota = quota
        self._level = quota.burst
        self._filled_at = time.monotonic()
        self.refusing = False

    def respond(self, body: bytes) -> bytes | None:
        quota, now = self._quota, time.monotonic()
        rate = quota.per_minute / 60
        self._level = min(quota.burst, self._level + (now - self._filled_at) * rate)
        self._filled_at = now
        self.refusing = self._level < quota.cost
        if self.refusing:
            self.stats["requests"] += 1
            self.stats["429"] += 1
            wait_s = math.ceil((quota.cost - self._level) / rate)
            return response(
                "429 Too Many Requests", error("Rate limit reached"), f"Retry-After: {wait_s}\r\n"
            )
        self._level -= quota.cost
        answer = super().respond(body)
        return answer.replace(b"\r\n", self._told(rate), 1) if quota.telling and answer else answer

    def _told(self, rate: float) -> bytes:
        """The end of the status line, followed by OpenAI's headers."""
        burst, kind = self._quota.burst, "requests" if self._quota.cost == 1 else "tokens"
        told = {
            "limit": int(burst),
            "remaining": int(self._level),
            "reset": f"{(burst - self._level) / rate:.3f}s",
        }
        return "".join(
            ["\r\n", *(f"x-ratelimit-{part}-{kind}: {value}\r\n" for part, value in told.items())]
        ).encode()


class QuotaConnection(Connection):
    """Lets answers take their time, but no refusal: gateways refuse before any model is asked."""

    def __init__(self, service: QuotaService) -> None:
        super().__init__(service)
        self._quota_service = service

    def _complete(self, body: bytes) -> None:
        service = self._quota_service
        service.enter()
        answer = service.respond(body)
        self._loop.call_later(
            0.0 if service.refusing else service.options.latency_s, self._send, answer
        )


async def serve(options: Options, quota: Quota) -> None:
    """Serve on a free port of loopback until the process is ended."""
    service = QuotaService(options, quota)
    server = await asyncio.get_running_loop().create_server(
        lambda: QuotaConnection(service), "127.0.0.1", 0, backlog=4096
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", type=int, help="run on this core only, where the system allows it")
    parser.add_argument("--latency-s", type=float, default=0.05)
    parser.add_argument("--answer-bytes", type=int, default=20)
    parser.add_argument("--per-minute", type=float, default=600.0)
    parser.add_argument("--burst", type=float, default=10.0)
    parser.add_argument("--cost", type=float, default=1.0, help="of one answer")
    parser.add_argument("--telling", action="store_true", help="send x-ratelimit-* headers")
    arguments = parser.parse_args()
    if arguments.cpu is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {arguments.cpu})
    quota = Quota(arguments.per_minute, arguments.burst, arguments.cost, arguments.telling)
    asyncio.run(
        serve(Options(latency_s=arguments.latency_s, answer_bytes=arguments.answer_bytes), quota)
    )


if __name__ == "__main__":
    main()
