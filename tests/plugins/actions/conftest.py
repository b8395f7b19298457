from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fakes.github import FakeGitHub, github
from jobs import Repository


@pytest.fixture
async def fake() -> AsyncIterator[FakeGitHub]:
    async with github() as fake:
        yield fake


@pytest.fixture
def repository(fake: FakeGitHub, tmp_path: Path) -> Repository:
    return Repository(tmp_path, fake)
