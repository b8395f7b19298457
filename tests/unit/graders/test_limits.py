"""`latency`, `cost` and `finish_reason`."""

from collections.abc import Callable
from typing import Any

import pytest

from ci_evals.graders.limits import Cost, FinishReason, Latency
from ci_evals.model.request import Answer
from ci_evals.model.response import Response, Turn, Usage

AnswerOf = Callable[..., Answer]


@pytest.mark.parametrize(
    ("latency_s", "passed", "reason"),
    [
        (5.0, True, "took 5 s, no more than 5 s"),
        (7.25, False, "took 7.25 s, at most 5 s allowed"),
        (0.00123456, True, "took 0.001 s, no more than 5 s"),
        (1234.5, False, "took 1234.5 s, at most 5 s allowed"),
    ],
)
def test_latency_is_held_to_seconds(
    latency_s: float, passed: bool, reason: str, answer_of: AnswerOf
) -> None:
    finding = Latency(value=5).grade(answer_of(latency_s=latency_s))
    assert (finding.passed, finding.text) == (passed, reason)


@pytest.mark.parametrize(
    ("options", "passed", "reason"),
    [
        (
            {"first_token": 1.5},
            True,
            "took 0.4 s to the first token, no more than 1.5 s",
        ),
        (
            {"first_token": 0.3},
            False,
            "took 0.4 s to the first token, at most 0.3 s allowed",
        ),
        (
            {"value": 5, "first_token": 1.5},
            True,
            "took 0.4 s to the first token, no more than 1.5 s and 3 s, no more than 5 s",
        ),
        ({"value": 2, "first_token": 1.5}, False, "took 3 s, at most 2 s allowed"),
    ],
)
def test_the_first_token_is_held_to_seconds(
    options: dict[str, Any], passed: bool, reason: str, answer_of: AnswerOf
) -> None:
    finding = Latency(**options).grade(answer_of(latency_s=3.0, first_token_s=0.4))
    assert (finding.passed, finding.text) == (passed, reason)


def test_in_a_conversation_the_longest_wait_counts_and_one_that_is_not_known_does_not_pass(
    answer_of: AnswerOf,
) -> None:
    turns = [
        Turn("hi", Response("a", first_token_s=0.2)),
        Turn("so", Response("b", first_token_s=0.6)),
    ]
    finding = Latency(first_token=1).grade(answer_of(turns=tuple(turns)))
    assert finding.text == "took 0.6 s to the first token, no more than 1 s"
    finding = Latency(first_token=1).grade(answer_of(turns=(*turns, Turn("?", Response("c")))))
    assert not finding.passed
    assert (
        finding.reason
        == "the time to the first token is unknown: the provider did not stream its answer"
    )


def test_a_latency_without_a_limit_is_a_problem() -> None:
    assert Latency().problems() == [
        "sets no limit: give it seconds, as in `latency: 5`, or a `first_token`"
    ]


@pytest.mark.parametrize(
    ("cost_usd", "passed", "reason"),
    [
        (0.0, True, "cost $0, no more than $0.01"),
        (0.000002, True, "cost $0.000002, no more than $0.01"),
        (0.01001, False, "cost $0.01001, at most $0.01 allowed"),
        (0.0125, False, "cost $0.0125, at most $0.01 allowed"),
    ],
)
def test_cost_is_held_to_dollars(
    cost_usd: float, passed: bool, reason: str, answer_of: AnswerOf
) -> None:
    finding = Cost(value=0.01).grade(answer_of(cost_usd=cost_usd))
    assert (finding.passed, finding.text) == (passed, reason)


def test_a_model_without_a_listed_price_does_not_pass_and_says_how_to_set_one(
    answer_of: AnswerOf,
) -> None:
    finding = Cost(value=0.01).grade(
        answer_of(cost_usd=None, usage=Usage(10, 10), model="own-model")
    )
    assert not finding.passed
    assert 'no price of model "own-model"' in finding.reason
    assert "input_per_mtok" in finding.reason


def test_a_provider_without_usage_does_not_pass_and_says_why(answer_of: AnswerOf) -> None:
    finding = Cost(value=0.01).grade(answer_of(cost_usd=None))
    assert not finding.passed
    assert "reported neither a cost nor `usage`" in finding.reason


@pytest.mark.parametrize(
    ("wanted", "told", "passed"),
    [
        ("stop", "stop", True),
        ("stop", "end_turn", True),
        ("end_turn", "STOP", True),
        ("length", "MAX_TOKENS", True),
        ("tool_calls", "tool_use", True),
        (["stop", "length"], "max_tokens", True),
        ("stop", "length", False),
        ("paused", "Paused", True),
        ("stop", None, False),
    ],
)
def test_reasons_are_the_same_whatever_an_api_calls_them(
    wanted: str | list[str], told: str | None, passed: bool, answer_of: AnswerOf
) -> None:
    assert FinishReason(wanted).grade(answer_of(finish_reason=told)).passed is passed
