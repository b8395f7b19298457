"""Fixtures of several folders, which their conftest.py imports."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from fakes.http_server import FakeResources, FakeServer, fake_resources, serving

from ci_evals.model.case import Case
from ci_evals.model.request import Answer, Request
from ci_evals.model.response import Response

AnswerOf = Callable[..., Answer]


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    """A server on loopback."""
    async with serving() as server:
        yield server


@pytest.fixture
async def resources() -> AsyncIterator[FakeResources]:
    """The engine's resources, for providers."""
    async with fake_resources() as resources:
        yield resources


@pytest.fixture(scope="session")
def answer_of() -> AnswerOf:
    """`answer_of("Paris", latency_s=2.0)`; what is no field of `Answer` goes to the response."""

    def make(
        output: str = "", *, latency_s: float = 0.5, cost_usd: float | None = 0.001, **response: Any
    ) -> Answer:
        request = Request(
            input="Capital of France?", messages=(), case=Case(id="capital"), run=1, timeout_s=60
        )
        return Answer(request, Response(output=output, **response), latency_s, cost_usd)

    return make
