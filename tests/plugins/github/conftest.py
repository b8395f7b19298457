"""A fake GitHub, and the client that talks to it."""

from collections.abc import AsyncIterator

import pytest
from fakes.github import FakeGitHub, github
from pulls import context_of

from ci_evals.plugins.github.api import GitHub, connect


@pytest.fixture
async def fake() -> AsyncIterator[FakeGitHub]:
    async with github() as running:
        yield running


@pytest.fixture
async def client(fake: FakeGitHub) -> AsyncIterator[GitHub]:
    async with connect(context_of(fake), sleep=fake.time.sleep) as connection:
        yield connection
