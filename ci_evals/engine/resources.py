"""What the engine lends to providers while it runs: an HTTP session, the config's folder, a place for clean-up."""

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


class EngineResources:
    """See `providers.base.Resources`. The session is made when the first provider asks for it."""

    def __init__(self, folder: Path, max_concurrency: int, stack: AsyncExitStack, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.max_concurrency = max_concurrency
        self.stack = stack
        self._environ = environ
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> "aiohttp.ClientSession":
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self.max_concurrency, ttl_dns_cache=300),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=any(name.lower() in _PROXIES for name in self._environ),
            )
            self.stack.push_async_callback(self._session.close)
        return self._session


@asynccontextmanager
async def lent(folder: Path, max_concurrency: int) -> AsyncIterator[EngineResources]:
    """Resources for one invocation; while they are lent, the config's folder is importable."""
    sys.path.insert(0, str(folder))
    try:
        async with AsyncExitStack() as stack:
            yield EngineResources(folder, max_concurrency, stack, os.environ)
    finally:
        sys.path.remove(str(folder))
