"""Whole runs against a real HTTP server on loopback."""

import json
from pathlib import Path

from fakes.chat import ChatServer, Fault, chatting
from suites import chat, write_cases, write_suite

from ci_evals import evaluate

CASES = 300


def echo_cases(count: int) -> list[dict[str, object]]:
    """Every tenth case expects what an echo will not say."""
    return [
        {
            "id": f"case-{n}",
            "input": f"q{n}",
            "expect": [{"equals": "never" if n % 10 == 0 else f"q{n}"}],
        }
        for n in range(count)
    ]


async def test_every_cell_runs_as_often_as_planned_and_the_limit_is_reached_but_never_passed(
    tmp_path: Path,
) -> None:
    write_cases(tmp_path, echo_cases(CASES))
    async with chatting(ChatServer(hold=32)) as server:
        providers = [chat(server.url, "a"), chat(server.url, "b")]
        suite = write_suite(
            tmp_path, [{"file": "cases.jsonl"}], runs=3, providers=providers, max_concurrency=32
        )
        report = await evaluate(suite)
    assert (report.total, report.passed, report.failed, report.errored) == (1800, 1620, 180, 0)
    assert set(server.asked.values()) == {6}
    assert server.peak == 32
    order = [(result.case, result.provider, result.run) for result in report.runs]
    assert order == [
        (f"case-{n}", name, run) for n in range(CASES) for name in ("a", "b") for run in (1, 2, 3)
    ]


def seventeen_percent(question: str, ordinal: int) -> Fault | None:
    """10 % refusals, 5 % server errors, 2 % resets; never two of the three runs of a case."""
    draw = (int(question[1:]) + 33 * ordinal) % 100
    return "429" if draw < 10 else "500" if draw < 15 else "reset" if draw < 17 else None


async def test_injected_faults_are_retried_until_every_run_is_graded(tmp_path: Path) -> None:
    async with chatting(ChatServer(seventeen_percent)) as server:
        suite = write_suite(
            tmp_path, echo_cases(CASES), runs=3, providers=[chat(server.url, retries=8)]
        )
        report = await evaluate(suite)
    assert server.faulted.total() > 150
    assert (report.passed, report.failed, report.errored) == (810, 90, 0)
    assert report.pass_rate == 0.9


async def test_without_retries_exactly_the_faulted_runs_are_errored_and_the_pass_rate_stays(
    tmp_path: Path,
) -> None:
    async with chatting(ChatServer(seventeen_percent)) as server:
        suite = write_suite(
            tmp_path, echo_cases(CASES), runs=3, providers=[chat(server.url, retries=0)]
        )
        report = await evaluate(suite)
    errored = {case: counts.errored for case, counts in report.by_case.items() if counts.errored}
    assert errored == {f"case-{question[1:]}": count for question, count in server.faulted.items()}
    assert sum(errored.values()) == server.faulted.total() > 150
    assert report.pass_rate == 0.9
    reasons = {result.error.message for result in report.runs if result.error}
    assert any("injected 429" in reason for reason in reasons)
    assert any("injected 500" in reason for reason in reasons)


async def test_results_on_disk_are_in_plan_order_whatever_the_order_of_finishing(
    tmp_path: Path,
) -> None:
    async with chatting(ChatServer(seventeen_percent)) as server:
        suite = write_suite(tmp_path, echo_cases(60), runs=2, providers=[chat(server.url)])
        await evaluate(suite, out=tmp_path / "out")
    results = json.loads((tmp_path / "out" / "report.json").read_bytes())["results"]
    assert [(each["case"], each["run"]) for each in results] == [
        (f"case-{n}", r) for n in range(60) for r in (1, 2)
    ]
    finished = [
        json.loads(line)
        for line in (tmp_path / "out" / "results.jsonl").read_bytes().splitlines()[1:]
    ]
    assert [(each["case"], each["run"]) for each in finished] != [
        (each["case"], each["run"]) for each in results
    ]
    assert {each["run"] for each in finished[:20]} == {1}
