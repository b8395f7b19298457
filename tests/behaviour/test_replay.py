"""`--replay`: a recorded journal answers, so that nothing is called, or only what is new."""

import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from fakes.chat import ChatServer, Fault, chatting
from leftovers import comparable, journaled, report_in
from suites import chat, echo_case, run, write_suite


def suite(folder: Path, cases: list[dict[str, Any]], url: str, **options: Any) -> None:
    report = {"formats": ["json", "junit", "markdown", "html"]}
    write_suite(
        folder, cases, providers=[chat(url, **options)], gate={"max_error_rate": 0.5}, report=report
    )


async def recorded(folder: Path, cases: list[dict[str, Any]], **options: Any) -> str:
    """Record the cases in `first/` and return the URL of a server that is no longer there."""
    async with chatting(ChatServer()) as server:
        suite(folder, cases, server.url, **options)
        await run(folder, out="first", environ={"A_KEY": "sk-0123456789abcdef0123"})
    return server.url


async def test_a_recording_answers_without_key_and_network_and_is_marked_everywhere(
    tmp_path: Path,
) -> None:
    cases = [echo_case(n) for n in range(6)]
    url = await recorded(tmp_path, cases, api_key="${A_KEY}")
    suite(tmp_path, cases, url, api_key="${A_KEY}", rpm=1)
    refused = await run(tmp_path, "--replay", "first")
    assert refused.code == 2, "without --replay-only the key is needed"
    found = await run(tmp_path, "--replay", "first", "--replay-only")
    assert found.code == 0, found.err
    assert "Recorded: 6 of 6 runs were recorded, no provider was called for them" in found.out
    assert (
        "**Recorded**: 6 of 6 runs were recorded" in (tmp_path / "out" / "summary.md").read_text()
    )
    assert "6 of 6 runs were recorded" in (tmp_path / "out" / "report.html").read_text()
    assert (
        '<property name="Recorded" value="6 of 6 runs were recorded'
        in (tmp_path / "out" / "junit.xml").read_text()
    )
    assert re.search(r"^chat .* recorded ", found.out, re.MULTILINE)
    report = report_in(tmp_path / "out")
    assert report["totals"]["recorded"] == 6
    assert [each["recorded"] for each in report["results"]] == [True] * 6
    assert [each["recorded"] for each in journaled(tmp_path / "out")] == [True] * 6
    assert all("recorded" not in each for each in journaled(tmp_path / "first"))


async def test_a_replay_of_what_did_not_change_says_the_same(tmp_path: Path) -> None:
    await recorded(tmp_path, [echo_case(n, expect=[{"equals": "q1"}]) for n in range(3)])
    await run(tmp_path, "--replay", "first", "--replay-only")
    first, replayed = comparable(tmp_path / "first"), comparable(tmp_path / "out")
    for result in replayed["results"]:
        del result["recorded"]
    assert replayed["results"] == first["results"]
    assert replayed["cells"] == first["cells"]
    assert replayed["verdict"] == first["verdict"]
    times = {
        each["case"]: (each["started_at"], each["latency_s"])
        for each in journaled(tmp_path / "first")
    }
    assert times == {
        each["case"]: (each["started_at"], each["latency_s"])
        for each in journaled(tmp_path / "out")
    }


async def test_changed_graders_judge_recorded_answers_anew(tmp_path: Path) -> None:
    url = await recorded(tmp_path, [echo_case(0), echo_case(1)])
    suite(
        tmp_path,
        [echo_case(0, expect=[{"contains": "x"}]), echo_case(1, expect=[{"regex": "^q"}])],
        url,
    )
    found = await run(tmp_path, "--replay", "first/results.jsonl", "--replay-only")
    assert found.code == 1
    assert "✗ case-0: 0 of 1 run passed" in found.out
    assert [each["status"] for each in report_in(tmp_path / "out")["results"]] == [
        "failed",
        "passed",
    ]


@pytest.mark.parametrize("on_error", ["fail", "exclude"])
async def test_what_is_asked_otherwise_is_not_recorded_and_errored_with_the_reason(
    tmp_path: Path, on_error: str
) -> None:
    url = await recorded(tmp_path, [echo_case(n) for n in range(5)])
    suite(
        tmp_path,
        [echo_case(0, input="other"), *(echo_case(n) for n in range(1, 5)), echo_case(5)],
        url,
        on_error=on_error,
        rpm=1,
    )
    found = await run(tmp_path, "--replay", "first", "--replay-only")
    assert found.code == 0, found.err
    assert "Not checked: no recorded answer (2)" in found.out
    assert "Recorded: 4 of 6 runs were recorded" in found.out
    errors = {
        each["case"]: each["error"]
        for each in report_in(tmp_path / "out")["results"]
        if "error" in each
    }
    reason = {
        "kind": "not_recorded",
        "message": "not in the recording: the question is new or has changed",
    }
    assert errors == {"case-0": reason, "case-5": reason}


@pytest.mark.parametrize("how", [("--replay-only",), ()], ids=["only", "first"])
async def test_a_recording_of_your_own_code_checks_nothing(
    tmp_path: Path, how: tuple[str, ...]
) -> None:
    agent = {"name": "agent", "type": "command", "command": [sys.executable, "agent.py"]}
    (tmp_path / "agent.py").write_text("import json, sys; print(json.load(sys.stdin)['input'])")
    providers = [agent, {"name": "model", "type": "mock"}]
    write_suite(tmp_path, [echo_case(0)], providers=providers)
    assert (await run(tmp_path, out="first")).code == 0
    (tmp_path / "agent.py").write_text("raise SystemExit(1)")
    found = await run(tmp_path, "--replay", "first", *how)
    reason = "not checked: your own code (agent) was not run, only a recording of it was graded"
    assert found.code == 3
    assert f"NO VERDICT  {reason}" in found.out
    suites = ET.parse(tmp_path / "out" / "junit.xml").getroot()
    agents, models = suites.findall("testsuite")
    (skipped,) = agents.iter("skipped")
    assert skipped.get("message") == reason
    assert (agents.get("skipped"), models.get("skipped"), models.get("tests")) == ("1", "0", "1")

    resumed = await run(tmp_path, "--resume")
    assert (resumed.code, reason in resumed.out) == (3, True), "a resumed replay is one"

    write_suite(tmp_path, [echo_case(0)], providers=providers, gate={"on_unchecked": "warn"})
    assert (await run(tmp_path, "--replay", "first", *how)).code == 0
    write_suite(tmp_path, [echo_case(0), echo_case(1)], providers=providers)
    mixed = await run(tmp_path, "--replay", "first")
    assert mixed.code == 1, "what is called is checked"


async def test_only_what_is_not_recorded_is_called(tmp_path: Path) -> None:
    async with chatting(ChatServer()) as server:
        suite(tmp_path, [echo_case(n) for n in range(57)], server.url)
        await run(tmp_path, out="first")
        server.asked.clear()
        suite(tmp_path, [echo_case(n) for n in range(60)], server.url)
        found = await run(tmp_path, "--replay", "first")
    assert server.asked == {"q57": 1, "q58": 1, "q59": 1}
    assert found.code == 0
    assert "Recorded: 57 of 60 runs were recorded" in found.out
    results = report_in(tmp_path / "out")["results"]
    assert [each["case"] for each in results if "recorded" not in each] == [
        "case-57",
        "case-58",
        "case-59",
    ]


async def test_recorded_runs_are_done_even_if_the_provider_is_gone(tmp_path: Path) -> None:
    url = await recorded(tmp_path, [echo_case(n) for n in range(30)])
    suite(tmp_path, [echo_case(n) for n in range(50)], url, retries=0, max_concurrency=2)
    await run(tmp_path, "--replay", "first")
    totals = report_in(tmp_path / "out")["totals"]
    assert (totals["passed"], totals["errored"], totals["recorded"]) == (30, 20, 30)


async def test_errored_runs_are_no_answers(tmp_path: Path) -> None:
    def refuse_first(question: str, ordinal: int) -> Fault | None:
        return "500" if question == "q0" and ordinal == 0 else None

    async with chatting(ChatServer(refuse_first)) as server:
        suite(tmp_path, [echo_case(0), echo_case(1)], server.url, retries=0)
        await run(tmp_path, out="first")
        await run(tmp_path, "--replay", "first")
    assert server.asked == {"q0": 2, "q1": 1}
    assert report_in(tmp_path / "out")["totals"]["passed"] == 2


async def test_a_replay_can_be_replayed(tmp_path: Path) -> None:
    await recorded(tmp_path, [echo_case(0), echo_case(1)])
    await run(tmp_path, "--replay", "first", "--replay-only", out="second")
    third = await run(tmp_path, "--replay", "second", "--replay-only", out="third")
    assert "Recorded: 2 of 2 runs were recorded" in third.out
    assert comparable(tmp_path / "third") == comparable(tmp_path / "second")


async def test_the_last_results_can_be_judged_anew_in_their_own_folder(tmp_path: Path) -> None:
    url = await recorded(tmp_path, [echo_case(n) for n in range(20)])
    suite(tmp_path, [echo_case(n, expect=[{"regex": "^q"}]) for n in range(20)], url)
    found = await run(tmp_path, "--replay", "first", "--replay-only", out="first")
    assert found.code == 0, found.err
    assert [each["response"]["output"] for each in report_in(tmp_path / "first")["results"]] == [
        f"q{n}" for n in range(20)
    ]
    assert len(journaled(tmp_path / "first")) == 20


async def test_a_changed_grader_can_be_tried_on_a_stopped_run_that_is_gone_on_with(
    tmp_path: Path,
) -> None:
    async with chatting(ChatServer()) as server:
        suite(tmp_path, [echo_case(n) for n in range(3)], server.url)
        await run(tmp_path)
        suite(
            tmp_path,
            [echo_case(0), echo_case(1, expect=[{"regex": "^q"}]), echo_case(2), echo_case(3)],
            server.url,
        )
        found = await run(tmp_path, "--resume", "--replay", "out")
    assert set(server.asked.values()) == {1}
    assert "Resumed: 2 of 4 runs kept, 1 changed one run again, 1 new one" in found.out
    assert "Recorded: 1 of 4 runs was recorded" in found.out


async def test_recorded_answers_cost_nothing_of_the_budget(tmp_path: Path) -> None:
    price = {
        "input_per_mtok": 100_000.0,
        "output_per_mtok": 100_000.0,
    }  # $1 for each answer of the server
    url = await recorded(tmp_path, [echo_case(n) for n in range(5)], price=price)
    write_suite(
        tmp_path,
        [echo_case(n) for n in range(5)],
        providers=[chat(url, price=price)],
        budget={"max_cost_usd": 0.5},
    )
    found = await run(tmp_path, "--replay", "first")
    assert (found.code, report_in(tmp_path / "out")["totals"]["passed"]) == (0, 5)


async def test_a_file_that_is_no_recording_is_refused_and_earlier_results_stay(
    tmp_path: Path,
) -> None:
    await recorded(tmp_path, [echo_case(0)])
    (tmp_path / "notes.txt").write_text("my notes\n")
    before = (tmp_path / "first" / "results.jsonl").read_bytes()
    found = await run(tmp_path, "--replay", "notes.txt", out="first")
    assert found.code == 3
    assert "notes.txt: is not a ci-evals journal" in found.err
    assert (tmp_path / "first" / "results.jsonl").read_bytes() == before


async def test_replay_only_needs_a_recording(tmp_path: Path) -> None:
    write_suite(tmp_path)
    found = await run(tmp_path, "--replay-only")
    assert found.code == 2
    assert "--replay-only needs --replay" in found.err


async def test_json_on_stdout_counts_recorded_runs(tmp_path: Path) -> None:
    await recorded(tmp_path, [echo_case(0)])
    found = await run(tmp_path, "--replay", "first", "--replay-only", "--format", "json")
    assert json.loads(found.out)["totals"]["recorded"] == 1
