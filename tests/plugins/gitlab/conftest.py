from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fakes.gitlab import FakeGitLab, gitlab
from pipelines import Project


@pytest.fixture
async def fake() -> AsyncIterator[FakeGitLab]:
    async with gitlab() as fake:
        yield fake


@pytest.fixture
def project(fake: FakeGitLab, tmp_path: Path) -> Project:
    return Project(tmp_path, fake)
