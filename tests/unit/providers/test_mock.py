import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes.http_server import request_of
from suites import write_suite

from ci_evals.engine.resources import open_resources
from ci_evals.errors import ConfigError, ProviderError
from ci_evals.model.case import Case
from ci_evals.model.request import Request
from ci_evals.model.response import Message, Response, ToolCall
from ci_evals.providers.base import Provider
from ci_evals.providers.mock import Mock, MockAnswer, MockProvider
from ci_evals.suite.load import load_suite

SAMPLE = 2000


def requests(runs: int = SAMPLE, case: str = "capital") -> Sequence[Request]:
    return [request_of(case=Case(id=case), run=run) for run in range(1, runs + 1)]


async def outcome(provider: Provider, request: Request) -> str:
    """The output, or the kind of the error."""
    try:
        return (await provider.answer(request)).output
    except ProviderError as error:
        return error.kind


async def outcomes(options: Mock, asked: Sequence[Request]) -> list[str]:
    async with open_resources(Path(), 8) as resources:
        provider = options.open(resources)
        return [await outcome(provider, request) for request in asked]


async def answer(options: Mock, request: Request | None = None) -> Response:
    return await MockProvider(options).answer(request or request_of())


async def test_the_input_comes_back_when_nothing_else_is_said() -> None:
    response = await answer(Mock())
    assert (response.output, response.model, response.finish_reason) == ("Hello!", "mock", "stop")


@pytest.mark.parametrize(
    ("given", "output"),
    [({"q": 1}, '{"q":1}'), (None, "Hello!"), ({"output": None}, '{"output":null}')],
)
async def test_an_input_that_is_no_text_is_answered_too(given: Any, output: str) -> None:
    assert (await answer(Mock(), request_of(input=given))).output == output


async def test_a_conversation_is_answered_by_its_last_user_message() -> None:
    turns = (
        Message("user", "One?"),
        Message("assistant", "1"),
        Message("user", "Two?"),
        Message("assistant", "2"),
    )
    assert (
        await answer(Mock(answers={"Two?": "yes"}), request_of(*turns, input=None))
    ).output == "yes"


async def test_the_table_is_looked_up_by_case_then_by_input() -> None:
    options = Mock(answers={"capital": "by case", "Hello!": "by input"}, default="neither")
    assert (await answer(options, request_of(case=Case(id="capital")))).output == "by case"
    assert (await answer(options)).output == "by input"
    assert (await answer(options, request_of(input="Bye!"))).output == "neither"


async def test_an_empty_answer_in_the_table_is_an_answer() -> None:
    assert (await answer(Mock(answers={"Hello!": ""}))).output == ""


async def test_the_table_may_hold_tool_calls() -> None:
    call = ToolCall("book", {"to": "Paris"})
    response = await answer(Mock(answers={"Hello!": MockAnswer(tool_calls=(call,))}))
    assert response.tool_calls == (ToolCall("book", {"to": "Paris"}),)
    assert response.finish_reason == "tool_calls"


async def test_the_default_may_be_a_template() -> None:
    case = Case(id="a", vars={"city": "Paris"})
    options = Mock(default="{{ input.upper() }} {{ city }}")
    assert (await answer(options, request_of(case=case))).output == "HELLO! Paris"


@pytest.mark.parametrize("source", ["{{ nobody }}", "{{ 1 / 0 }}", "{{ input.__class__.__mro__ }}"])
async def test_a_template_that_fails_is_refused_without_a_retry(source: str) -> None:
    with pytest.raises(ProviderError, match="mock: default cannot be rendered") as refused:
        await answer(Mock(default=source))
    assert not refused.value.retryable


async def test_usage_is_a_quarter_of_the_characters() -> None:
    usage = (await answer(Mock(default="x" * 40), request_of(Message("user", "y" * 80)))).usage
    assert usage
    assert (usage.input_tokens, usage.output_tokens) == (20, 10)


async def test_flakiness_is_the_share_of_wrong_answers_and_the_same_again() -> None:
    options = Mock(flakiness=0.3, wrong="dunno")
    first = await outcomes(options, requests())
    assert 0.25 < first.count("dunno") / SAMPLE < 0.35
    assert await outcomes(options, requests()) == first
    assert await outcomes(options, requests()[::-1]) == first[::-1]


async def test_another_seed_or_case_draws_otherwise() -> None:
    first = await outcomes(Mock(flakiness=0.5), requests())
    assert await outcomes(Mock(flakiness=0.5, seed=1), requests()) != first
    assert await outcomes(Mock(flakiness=0.5), requests(case="other")) != first


async def test_the_extremes_leave_nothing_to_chance() -> None:
    assert set(await outcomes(Mock(flakiness=1), requests())) == {"I don't know."}
    assert set(await outcomes(Mock(error_rate=1), requests())) == {"server"}
    assert set(await outcomes(Mock(), requests())) == {"Hello!"}


async def test_errors_and_refusals_come_at_their_rates() -> None:
    counts = Counter(await outcomes(Mock(error_rate=0.1, rate_limit_rate=0.2), requests()))
    assert 0.07 < counts["server"] / SAMPLE < 0.13
    assert 0.16 < counts["rate_limit"] / SAMPLE < 0.24


async def test_faults_and_wrong_answers_are_independent() -> None:
    found = Counter(await outcomes(Mock(error_rate=0.5, flakiness=0.5), requests()))
    assert 0.2 < found["I don't know."] / SAMPLE < 0.3


async def test_errors_look_like_a_vendors() -> None:
    with pytest.raises(ProviderError, match="mock error 500") as broken:
        await answer(Mock(error_rate=1))
    assert (broken.value.status, broken.value.retry_after_s) == (500, None)
    with pytest.raises(ProviderError, match="mock error 429") as refused:
        await answer(Mock(rate_limit_rate=1, retry_after_s=2.5))
    assert (refused.value.status, refused.value.retry_after_s) == (429, 2.5)


async def test_a_retry_draws_anew() -> None:
    provider = MockProvider(Mock(error_rate=0.5))
    for request in requests(200):
        attempts = 1
        while await outcome(provider, request) == "server":
            attempts += 1
            assert attempts < 50


async def test_an_answer_that_comes_too_late_is_a_timeout() -> None:
    with pytest.raises(ProviderError) as late:
        await answer(Mock(latency_s=60), request_of(timeout_s=0.01))
    assert late.value.kind == "timeout"


async def test_latency_gives_way_to_other_work() -> None:
    order: list[str] = []

    async def ask(latency_s: float, name: str) -> None:
        await answer(Mock(latency_s=latency_s, latency_jitter_s=0.001))
        order.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(ask(0.2, "slow"))
        group.create_task(ask(0, "quick"))
    assert order == ["quick", "slow"]


async def test_hostile_text_is_fit_to_be_stored() -> None:
    options = Mock(answers={"x\ud800": "a\ud800"}, default="{{ input }}")
    for text in ("x\ud800", "y\ud800"):
        response = await answer(options, request_of(input=text, case=Case(id="\ud800")))
        response.output.encode()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Mock(default="{{ input"), "default is not a valid template"),
        (Mock(error_rate=0.6, rate_limit_rate=0.6), "their sum is at most 1"),
        (
            Mock(answers={"a": MockAnswer(tool_calls=(ToolCall(""),))}),
            "answers['a']: tool_calls[0].name: expected a text that is not empty",
        ),
    ],
)
def test_what_is_wrong_is_seen_before_any_call(options: Mock, words: str) -> None:
    (problem,) = options.problems(Path())
    assert words in problem


def test_a_sound_mock_has_no_problems() -> None:
    assert not Mock(
        answers={"a": "b"}, default="{{ input }}", error_rate=0.5, rate_limit_rate=0.5
    ).problems(Path())


@pytest.mark.parametrize(
    ("wrong", "key"),
    [({"tool_calls": [{"name": "f", "args": {}}]}, "args"), ({"outptu": "x"}, "outptu")],
)
def test_the_table_is_strict(wrong: dict[str, Any], key: str, tmp_path: Path) -> None:
    config = write_suite(
        tmp_path, [{"input": "a"}], providers=[{"type": "mock", "answers": {"a": wrong}}]
    )
    with pytest.raises(ConfigError, match=f"unknown key '{key}'"):
        load_suite(config, {})


@pytest.mark.parametrize(
    ("messages", "output"),
    [
        ([], ""),
        ([Message("assistant"), Message("tool", "1"), Message("tool", "2")], ""),
        (
            [
                Message("assistant"),
                Message("tool", "1"),
                Message("assistant"),
                Message("tool", "2"),
            ],
            "1, 2",
        ),
        ([Message("assistant", "before"), Message("user", "q")], ""),
    ],
)
async def test_then_answers_once_tools_were_called(messages: list[Message], output: str) -> None:
    later = MockAnswer(tool_calls=[ToolCall("g")], then="{{ results | join(', ') }}")
    first = MockAnswer(tool_calls=[ToolCall("f")], then=later)
    asked = request_of(Message("user", "q"), *messages, input="q")
    response = await answer(Mock(answers={"q": first}), asked)
    assert response.output == output
    assert bool(response.tool_calls) == (not output)


def test_then_has_a_valid_template() -> None:
    wrong = Mock(answers={"a": MockAnswer(then="{{ results")})
    (problem,) = wrong.problems(Path())
    assert "answers['a']: then is not a valid template" in problem


def test_it_is_not_the_teams_own_code() -> None:
    assert not Mock().own_code
    assert Mock().default_name == "mock"
