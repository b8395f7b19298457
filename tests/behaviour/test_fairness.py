"""One slow provider does not hold the others back, however they are limited."""

from pathlib import Path
from typing import Any

import pytest
from fakes.chat import ChatServer, chatting
from suites import chat, write_suite

from ci_evals import evaluate
from ci_evals.model.result import Result

CASES = [{"id": f"case-{n}", "input": f"q{n}", "expect": [{"not_empty": True}]} for n in range(12)]


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"limit_group": "one key"},
        {"limit_group": "one key", "rpm": 60_000},
        {"max_concurrency": 3},
        {"tpm": 6_000_000},
    ],
    ids=["no limits", "a shared group", "a shared rate", "own limits", "by tokens"],
)
async def test_the_quick_one_is_done_before_the_hanging_one_has_answered_once(
    tmp_path: Path, limits: dict[str, Any]
) -> None:
    order: list[str] = []

    def note(result: Result) -> None:
        order.append(result.provider)
        if order == ["quick"] * 12:
            hanging.let_go()

    async with chatting(ChatServer(hold=10_000)) as hanging, chatting(ChatServer()) as quick:
        providers = [
            chat(hanging.url, "hanging", timeout_s=10, retries=0, **limits),
            chat(quick.url, "quick", **limits),
        ]
        suite = write_suite(tmp_path, CASES, providers=providers, max_concurrency=4)
        report = await evaluate(suite, on_result=note)
    assert order == ["quick"] * 12 + ["hanging"] * 12
    assert report.passed == 24


async def test_a_refused_key_costs_a_handful_of_calls_even_when_they_wait_for_the_pace(
    tmp_path: Path,
) -> None:
    async with chatting(ChatServer(lambda *_: "401")) as server:
        cases = [{**CASES[0], "id": f"c{n}", "input": f"q{n}"} for n in range(200)]
        suite = write_suite(
            tmp_path, cases, providers=[chat(server.url, rpm=3000)], max_concurrency=32
        )
        report = await evaluate(suite)
    assert report.errored == 200
    assert server.asked.total() <= 6
