"""Answers to grade."""

from collections.abc import Callable
from typing import Any

import pytest

from ci_evals.model.case import Case
from ci_evals.model.request import Answer, Request
from ci_evals.model.response import Response

AnswerOf = Callable[..., Answer]


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
