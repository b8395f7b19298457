"""A run spends what it may spend, and says what it left out."""

import re
from pathlib import Path
from typing import Any

import pytest
from fakes.chat import ChatServer, chatting
from fakes.held import HeldServer
from leftovers import journaled, report_in
from processes import ci_evals, finished, start
from suites import ECHO, chat, echo_cases, run, write_suite

CASES = 40
PRICE = {
    "input_per_mtok": 100_000.0,
    "output_per_mtok": 100_000.0,
}  # $1 for each answer of the server


def suite(
    folder: Path,
    url: str,
    budget: dict[str, Any],
    gate: dict[str, Any] | None = None,
    **options: Any,
) -> None:
    provider = chat(url, **{"price": PRICE, "max_concurrency": 2, **options})
    write_suite(folder, echo_cases(CASES), providers=[provider], budget=budget, gate=gate)


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        ({"max_cost_usd": 9.5}, "the budget of $9.5 is used up ($10)"),
        ({"max_tokens": 100}, "the budget of 100 tokens is used up (100)"),
    ],
)
async def test_when_it_is_used_up_no_run_starts_and_those_under_way_end(
    tmp_path: Path, budget: dict[str, Any], reason: str
) -> None:
    async with chatting(ChatServer()) as server:
        suite(tmp_path, server.url, budget)
        found = await run(tmp_path)
    assert found.code == 3, "10 of 40 runs are too few for a verdict"
    assert server.asked.total() in (10, 11), "one more may have been under way"
    assert len(journaled(tmp_path / "out")) == server.asked.total()
    report = report_in(tmp_path / "out")
    assert report["interrupted"] == reason
    assert report["totals"]["passed"] == server.asked.total()
    assert report["totals"]["planned"] == CASES
    assert f"Incomplete: {reason}" in found.out
    assert f"{CASES - server.asked.total()} not run" in found.out
    assert "**Incomplete**: the budget of" in (tmp_path / "out" / "summary.md").read_text()


AGENT = """
def answer(question):
    step = {"kind": "model_request", "name": "m", "usage": {"input_tokens": 6, "output_tokens": 4}}
    return {"output": question, "steps": [step, step]}
"""


async def test_tokens_that_only_steps_tell_count(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    provider = {"name": "agent", "type": "python", "target": "agent:answer", "max_concurrency": 1}
    write_suite(tmp_path, echo_cases(CASES), providers=[provider], budget={"max_tokens": 100})
    found = await run(tmp_path)
    assert found.code == 3
    report = report_in(tmp_path / "out")
    assert report["interrupted"] == "the budget of 100 tokens is used up (100)"
    assert re.search(r"^agent .* unknown +100 ", found.out, re.MULTILINE), "the tokens of the steps"


async def test_what_was_left_out_is_done_when_the_run_is_gone_on_with(tmp_path: Path) -> None:
    async with chatting(ChatServer()) as server:
        suite(tmp_path, server.url, {"max_tokens": 200}, max_concurrency=1)
        assert (await run(tmp_path)).code == 3
        found = await run(tmp_path, "--resume")
    assert found.code == 0
    assert set(server.asked.values()) == {1}
    assert "Resumed: 20 of 40 runs kept, 20 new ones" in found.out


async def test_enough_runs_for_a_verdict_give_one(tmp_path: Path) -> None:
    async with chatting(ChatServer()) as server:
        suite(tmp_path, server.url, {"max_tokens": 390}, max_concurrency=1)
        found = await run(tmp_path)
    assert found.code == 0, found.out
    assert "39 of 40 runs" in found.out


async def test_failures_that_are_certain_fail_even_when_the_budget_is_used_up(
    tmp_path: Path,
) -> None:
    cases = [
        {"id": f"case-{n}", "input": f"q{n}", "expect": [{"equals": "never"}]} for n in range(CASES)
    ]
    async with chatting(ChatServer()) as server:
        write_suite(
            tmp_path,
            cases,
            providers=[chat(server.url)],
            budget={"max_tokens": 50},
            max_concurrency=1,
        )
        found = await run(tmp_path)
    assert found.code == 1


async def test_when_the_time_is_up_what_is_under_way_ends_and_nothing_starts(
    tmp_path: Path,
) -> None:
    server = HeldServer(2)
    async with chatting(server):
        suite(tmp_path, server.url, {"max_duration_s": 1e-6})
        process = await start(tmp_path, "run", "--out", "out")
        await server.full.wait()
        server.released.set()
        found = await finished(process)
    assert server.arrived == 2
    assert found.code == 3
    assert "Incomplete: the budget of 1e-06 s is used up" in found.out
    assert [each["status"] for each in journaled(tmp_path / "out")] == ["passed", "passed"]


async def test_nothing_that_waits_for_a_slot_starts_after_the_end(tmp_path: Path) -> None:
    """Two providers share one slot: the run that waits for it is not started."""
    async with chatting(ChatServer()) as server:
        cases = [
            {"id": f"case-{n}", "input": f"q{n}", "expect": [{"contains": "q"}]} for n in range(5)
        ]
        providers = [chat(server.url, "a"), chat(server.url, "b")]
        write_suite(
            tmp_path, cases, providers=providers, max_concurrency=1, budget={"max_tokens": 1}
        )
        await run(tmp_path)
    assert server.asked.total() == 1


async def test_runs_that_take_more_than_their_allowance_are_flagged_and_shown(
    tmp_path: Path,
) -> None:
    allowance = {"max_cost_usd": 0.5, "max_tokens": 9, "max_duration_s": 60}
    async with chatting(ChatServer()) as server:
        suite(tmp_path, server.url, {"per_run": allowance})
        found = await run(tmp_path)
    flags = ["cost $1 of $0.5", "10 tokens of 9"]
    assert found.code == 0, "flags are only shown unless the gate counts them"
    report = report_in(tmp_path / "out")
    assert report["totals"]["budget_violations"] == CASES
    assert all(
        each["budget_violations"] == flags
        for each in (*report["results"], *journaled(tmp_path / "out"))
    )
    assert "Over budget (40): case-0, run 1: cost $1 of $0.5, 10 tokens of 9, case-1" in found.out
    markdown = (tmp_path / "out" / "summary.md").read_text()
    assert "### Over budget (40)" in markdown
    assert "- <code>case-39</code>, run 1: cost &#36;1 of &#36;0.5, 10 tokens of 9\n" in markdown


@pytest.mark.parametrize(("allowed", "code"), [(CASES - 1, 1), (CASES, 0)])
async def test_the_gate_may_bound_how_many_runs_exceed_their_allowance(
    tmp_path: Path, allowed: int, code: int
) -> None:
    async with chatting(ChatServer()) as server:
        suite(
            tmp_path, server.url, {"per_run": {"max_tokens": 9}}, {"max_budget_violations": allowed}
        )
        found = await run(tmp_path)
    assert found.code == code
    sentence = "40 runs exceeded their budget, and the gate allows 39"
    assert (sentence in found.out) == bool(code)


@pytest.mark.parametrize("budget", [{"max_cost_usd": 1}, {"per_run": {"max_cost_usd": 1}}])
async def test_a_budget_in_usd_needs_prices_before_anything_is_called(
    tmp_path: Path, budget: dict[str, Any]
) -> None:
    stranger: dict[str, Any] = {"model": "stranger", "price": None}
    suite(tmp_path, "https://api.mistral.ai/v1", budget, **stranger)
    found = await run(tmp_path)
    assert found.code == 2
    assert (
        "budget: counts USD, and the price of chat is not known: give the provider a `price`"
        in found.err
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("budget", [{"max_cost_usd": 100}, {"per_run": {"max_cost_usd": 1}}])
async def test_the_cost_that_a_gateway_reports_in_a_header_counts(
    tmp_path: Path, budget: dict[str, Any]
) -> None:
    headers = {"x-litellm-response-cost": "0.25"}
    async with chatting(ChatServer(headers=headers)) as server:
        suite(tmp_path, server.url, budget, price=None)
        found = await run(tmp_path)
    assert found.code == 0, found.out
    assert report_in(tmp_path / "out")["totals"]["cost_usd"] == 0.25 * CASES


async def test_an_endpoint_that_reports_no_cost_stops_a_run_that_counts_it(tmp_path: Path) -> None:
    async with chatting(ChatServer()) as server:
        suite(tmp_path, server.url, {"max_cost_usd": 1}, price=None)
        found = await run(tmp_path)
    assert found.code == 3
    assert server.asked.total() <= 3, "a few may have been under way"
    assert (
        "Incomplete: the budget is in USD, but chat does not report what its answers" in found.out
    )


async def test_a_budget_in_usd_needs_the_prices_of_all_that_a_case_asks(tmp_path: Path) -> None:
    listed = {"name": "known", "type": "openai", "model": "gpt-4o-mini", "api_key": "${A_KEY}"}
    stranger = {"type": "openai", "model": "stranger", "api_key": "${A_KEY}"}
    cases: list[dict[str, Any]] = [
        {"id": "usual", "input": "q", "expect": [{"not_empty": True}]},
        {
            "id": "other",
            "input": "q",
            "expect": [{"not_empty": True}],
            "overrides": {"model": "no-such-model"},
        },
        {
            "id": "talk",
            "user": {"provider": stranger, "persona": "p", "goal": "g"},
            "expect": [{"not_empty": True}],
        },
    ]
    write_suite(tmp_path, cases, providers=[listed], budget={"max_cost_usd": 1})
    found = await ci_evals(tmp_path, "run", environ={"A_KEY": "sk-0123456789abcdef0123"})
    assert found.code == 2
    for name in ("known with no-such-model", "openai:stranger"):
        assert (
            f"budget: counts USD, and the price of {name} is not known: give the provider a `price`"
            in found.err
        )
    assert "2 problems" in found.err


@pytest.mark.parametrize(
    ("budget", "answer", "reason"),
    [
        (
            {"max_cost_usd": 1},
            "'hello'",
            "the budget is in USD, but agent does not report what its answers cost",
        ),
        (
            {"per_run": {"max_cost_usd": 1}},
            "'hello'",
            "the budget is in USD, but agent does not report",
        ),
        (
            {"max_tokens": 9},
            "'hello'",
            "the budget is in tokens, but agent does not report how many it used",
        ),
        ({"max_cost_usd": 1}, "{'output': 'hello', 'cost_usd': 0.01}", None),
        ({"max_cost_usd": 1}, "{'output': 'hello', 'cost_usd': 0.0}", None),
    ],
)
async def test_own_code_that_does_not_say_what_it_took_stops_a_run_that_counts_it(
    tmp_path: Path, budget: dict[str, Any], answer: str, reason: str | None
) -> None:
    (tmp_path / "agent.py").write_text(f"def answer(question):\n    return {answer}\n")
    cases = [
        {"id": f"case-{n}", "input": "hello", "expect": [{"equals": "hello"}]} for n in range(20)
    ]
    provider = {"name": "agent", "type": "python", "target": "agent:answer"}
    write_suite(tmp_path, cases, providers=[provider], budget=budget, max_concurrency=1)
    found = await run(tmp_path)
    assert found.code == (3 if reason else 0), found.out
    assert len(journaled(tmp_path / "out")) == (1 if reason else 20)
    assert reason is None or f"Incomplete: {reason}" in found.out


async def test_a_budget_that_is_not_reached_is_not_mentioned(tmp_path: Path) -> None:
    write_suite(tmp_path, providers=[ECHO | {"price": PRICE}], budget={"max_tokens": 1_000_000})
    found = await run(tmp_path)
    assert found.code == 0
    assert "budget" not in found.out.lower()


@pytest.mark.parametrize(
    ("allowance", "figures"),
    [
        ({"max_tokens": 9}, "tokens"),
        ({"max_cost_usd": 1}, "cost"),
        ({"max_tokens": 9, "max_cost_usd": 1}, "cost and tokens"),
    ],
)
@pytest.mark.parametrize(
    ("gate", "verdict", "code"),
    [
        ({"max_budget_violations": 0}, "borderline", 0),
        ({"max_budget_violations": 0, "on_borderline": "fail"}, "borderline", 1),
        ({"require_usage": True}, "error", 3),
        ({}, "pass", 0),
    ],
)
async def test_a_budget_per_run_that_cannot_be_checked_is_told(
    tmp_path: Path,
    allowance: dict[str, Any],
    figures: str,
    gate: dict[str, Any],
    verdict: str,
    code: int,
) -> None:
    (tmp_path / "agent.py").write_text("def answer(question):\n    return question\n")
    provider = {"name": "agent", "type": "python", "target": "agent:answer"}
    case = {"id": "a", "input": "hello", "expect": [{"equals": "hello"}]}
    write_suite(tmp_path, [case], providers=[provider], budget={"per_run": allowance}, gate=gate)
    found = await run(tmp_path)
    report = report_in(tmp_path / "out")
    assert (report["verdict"]["status"], found.code) == (verdict, code)
    assert report["results"][0]["budget_unknown"] == figures.split(" and ")
    sentence = f"1 of 1 run doesn't report its {figures}, so budget.per_run was not checked"
    if gate:
        assert sentence in found.out.splitlines()[0]
    assert "Interrupted" not in found.out
    assert "Incomplete" not in found.out


async def test_a_run_over_its_budget_is_red_whatever_others_do_not_report(tmp_path: Path) -> None:
    source = "def answer(question):\n    return {'output': question, 'usage': USAGE[question]}\n"
    usage = "USAGE = {'hi': {'input_tokens': 10, 'output_tokens': 1}, 'ho': None}\n"
    (tmp_path / "agent.py").write_text(usage + source)
    cases = [{"id": text, "input": text, "expect": [{"equals": text}]} for text in ("hi", "ho")]
    provider = {"name": "agent", "type": "python", "target": "agent:answer"}
    gate = {"max_budget_violations": 0, "require_usage": True}
    budget = {"per_run": {"max_tokens": 9}}
    write_suite(tmp_path, cases, providers=[provider], budget=budget, gate=gate)
    found = await run(tmp_path)
    assert found.code == 1, found.out
