"""A server on loopback, and resources for providers."""

from collections.abc import AsyncIterator

import pytest
from fakes.http_server import FakeResources, FakeServer, fake_resources, serving


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with serving() as server:
        yield server


@pytest.fixture
async def resources() -> AsyncIterator[FakeResources]:
    async with fake_resources() as resources:
        yield resources
