"""What the engine lends to providers while it runs: an HTTP session, the config's folder, a place for clean-up."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_evals.folder_modules import importable
from ci_evals.providers.deadlines import Deadlines

if TYPE_CHECKING:
    import aiohttp

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_BEYOND_A_READ_BYTES = 512 * 1024  # asyncio makes a buffer of 256 KiB for every read

Observe = Callable[[Mapping[str, str]], None]


class EngineResources(Struct, frozen=True):
    """See `providers.base.Resources`."""

    folder: Path
    max_concurrency: int
    stack: AsyncExitStack
    observe: Observe
    deadlines: Deadlines
    make_session: Callable[[], "aiohttp.ClientSession"]
    files: Path | None = None

    @property
    def session(self) -> "aiohttp.ClientSession":
        """The session of all providers, made when the first one asks for it."""
        return self.make_session()


@asynccontextmanager
async def lent(
    folder: Path, max_concurrency: int, files: Path | None = None
) -> AsyncIterator[Callable[[Observe], EngineResources]]:
    """Resources for one invocation, by who observes the answers' headers.

    While they are lent, the config's folder is importable.
    """
    with importable(folder):
        async with AsyncExitStack() as stack:
            deadlines = Deadlines()

            @cache
            def make_session() -> "aiohttp.ClientSession":
                session = _session(max_concurrency)
                stack.push_async_callback(session.close)
                return session

            yield lambda observe: EngineResources(
                folder, max_concurrency, stack, observe, deadlines, make_session, files
            )


def _session(max_concurrency: int) -> "aiohttp.ClientSession":
    import aiohttp

    keep_read_buffers()
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=max_concurrency, ttl_dns_cache=300),
        timeout=aiohttp.ClientTimeout(total=None),  # `Deadlines` keeps time
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=any(name.lower() in _PROXIES for name in os.environ),
    )


def keep_read_buffers() -> None:
    """Have the C library keep the memory of read buffers, which else takes three system calls for each answer.

    glibc maps large blocks one by one, and gives them back to the system when they are freed. It stops doing so for
    all blocks that are smaller than one that it saw freed once (mallopt(3), "dynamic mmap threshold").
    """
    bytearray(_BEYOND_A_READ_BYTES)
