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
        (5.0, True, "took no more than the 5 s allowed, got 5 s"),
        (7.25, False, "took more than the 5 s allowed, got 7.25 s"),
        (0.00123456, True, "took no more than the 5 s allowed, got 0.001 s"),
        (1234.5, False, "took more than the 5 s allowed, got 1234.5 s"),
    ],
)
def test_latency_is_held_to_seconds(
    latency_s: float, passed: bool, reason: str, answer_of: AnswerOf
) -> None:
    finding = Latency(value=5).grade(answer_of(latency_s=latency_s))
    assert (finding.passed, finding.sentence) == (passed, reason)


@pytest.mark.parametrize(
    ("options", "passed", "reason"),
    [
        (
            {"first_token": 1.5},
            True,
            "took no more than the 1.5 s allowed to the first token, got 0.4 s",
        ),
        (
            {"first_token": 0.3},
            False,
            "took more than the 0.3 s allowed to the first token, got 0.4 s",
        ),
        (
            {"value": 5, "first_token": 1.5},
            True,
            (
                "took no more than the 1.5 s allowed to the first token and the 5 s allowed,"
                " got 0.4 s and 3 s"
            ),
        ),
        ({"value": 2, "first_token": 1.5}, False, "took more than the 2 s allowed, got 3 s"),
    ],
)
def test_the_first_token_is_held_to_seconds(
    options: dict[str, Any], passed: bool, reason: str, answer_of: AnswerOf
) -> None:
    finding = Latency(**options).grade(answer_of(latency_s=3.0, first_token_s=0.4))
    assert (finding.passed, finding.sentence) == (passed, reason)


def test_in_a_conversation_the_longest_wait_counts_and_one_that_is_not_known_does_not_pass(
    answer_of: AnswerOf,
) -> None:
    turns = [
        Turn("hi", Response("a", first_token_s=0.2)),
        Turn("so", Response("b", first_token_s=0.6)),
    ]
    assert Latency(first_token=1).grade(answer_of(turns=tuple(turns))).got == "0.6 s"
    finding = Latency(first_token=1).grade(answer_of(turns=(*turns, Turn("?", Response("c")))))
    assert not finding.passed
    assert (
        finding.reason
        == "the time to the first token is not known: the provider did not stream its answer"
    )


def test_a_latency_without_a_limit_is_a_problem() -> None:
    assert Latency().problems() == [
        "sets no limit: give it seconds, as in `latency: 5`, or a `first_token`"
    ]


@pytest.mark.parametrize(
    ("cost_usd", "passed", "reason"),
    [
        (0.0, True, "cost no more than the $0.01 allowed, got $0"),
        (0.000002, True, "cost no more than the $0.01 allowed, got $0.000002"),
        (0.01001, False, "cost more than the $0.01 allowed, got $0.01001"),
        (0.0125, False, "cost more than the $0.01 allowed, got $0.0125"),
    ],
)
def test_cost_is_held_to_dollars(
    cost_usd: float, passed: bool, reason: str, answer_of: AnswerOf
) -> None:
    finding = Cost(value=0.01).grade(answer_of(cost_usd=cost_usd))
    assert (finding.passed, finding.sentence) == (passed, reason)


def test_a_model_without_a_listed_price_does_not_pass_and_says_how_to_set_one(
    answer_of: AnswerOf,
) -> None:
    finding = Cost(value=0.01).grade(
        answer_of(cost_usd=None, usage=Usage(10, 10), model="own-model")
    )
    assert not finding.passed
    assert "no price of model 'own-model'" in finding.reason
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
