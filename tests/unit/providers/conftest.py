"""A server on loopback, and what the engine lends to providers."""

from collections.abc import AsyncIterator

import pytest
from fakes.http_server import FakeServer, Lent, lending, serving


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with serving() as server:
        yield server


@pytest.fixture
async def lent() -> AsyncIterator[Lent]:
    async with lending() as lent:
        yield lent
