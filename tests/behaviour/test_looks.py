"""`max_runs` and `stop_early`: which runs are saved once the verdict is settled, and the notice."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes.chat import ChatServer, Fault, chatting
from fakes.held import HeldServer
from leftovers import journaled, report_in
from processes import ci_evals, finished, start
from suites import chat, run, write_suite

FILES = ("report.json", "junit.xml", "summary.md")


def cases_of(count: int, wrong: int = 0) -> list[dict[str, Any]]:
    """Cases of which the first ones expect what an echo will not say."""
    return [
        {
            "id": f"case-{n}",
            "input": f"q{n}",
            "expect": [{"equals": "never" if n < wrong else f"q{n}"}],
        }
        for n in range(count)
    ]


def looked(folder: Path) -> Any:
    return report_in(folder / "out")["looks"]


def written(folder: Path) -> list[bytes]:
    return [(folder / "out" / name).read_bytes() for name in FILES]


@pytest.mark.parametrize(
    ("wrong", "taken", "code", "status"),
    [(40, 1, 1, "fail"), (0, 1, 0, "pass"), (4, 3, 0, "pass")],
    ids=["surely-missed", "surely-met", "open"],
)
async def test_it_goes_on_only_while_the_verdict_is_open(
    tmp_path: Path, wrong: int, taken: int, code: int, status: str
) -> None:
    write_suite(tmp_path, cases_of(40, wrong), runs=2, max_runs=4, gate={"min_pass_rate": 0.9})
    ended = await run(tmp_path)
    found = report_in(tmp_path / "out")
    assert (ended.code, found["verdict"]["status"]) == (code, status), found["verdict"]["reason"]
    assert found["looks"] == {"rounds": [2, 3, 4], "taken": taken}
    assert found["totals"]["planned"] == 40 * (1 + taken)
    told = [line for line in ended.err.splitlines() if line.startswith("the verdict is open")]
    assert told == [
        f"the verdict is open after {runs} rounds: going on to {runs + 1}"
        for runs in (2, 3)[: taken - 1]
    ]
    assert found["interrupted"] is None


async def test_several_looks_share_what_one_may_be_wrong(tmp_path: Path) -> None:
    write_suite(tmp_path, cases_of(40, 10), runs=2, max_runs=4, gate={"min_pass_rate": 0.9})
    await run(tmp_path)
    assert "(at most " in report_in(tmp_path / "out")["verdict"]["reason"]


async def test_a_bar_of_one_is_never_proven(tmp_path: Path) -> None:
    write_suite(tmp_path, cases_of(3), runs=1, max_runs=3)
    await run(tmp_path)
    assert looked(tmp_path) == {"rounds": [1, 2, 3], "taken": 3}


async def test_a_required_baseline_does_not_keep_a_lost_suite_going(tmp_path: Path) -> None:
    write_suite(
        tmp_path,
        cases_of(40, 40),
        max_runs=4,
        gate={"min_pass_rate": 0.9, "require_baseline": True},
    )
    assert (await run(tmp_path)).code == 1
    assert looked(tmp_path)["taken"] == 1


async def test_too_many_errors_are_no_proof(tmp_path: Path) -> None:
    def faulty(question: str, ordinal: int) -> Fault | None:
        return "500" if int(question[1:]) < 8 and ordinal == 0 else None

    async with chatting(ChatServer(faulty)) as server:
        gate = {"min_pass_rate": 0.5, "max_error_rate": 0.1}
        write_suite(
            tmp_path, cases_of(40), providers=[chat(server.url, retries=0)], max_runs=3, gate=gate
        )
        ended = await run(tmp_path)
    assert ended.code == 0, ended.out
    assert looked(tmp_path)["taken"] == 2


async def test_cases_with_runs_of_their_own_stay_at_these(tmp_path: Path) -> None:
    cases = cases_of(3)
    cases[0]["runs"] = 2
    write_suite(tmp_path, cases, runs=1, max_runs=3)
    await run(tmp_path)
    assert [cell["planned"] for cell in report_in(tmp_path / "out")["cells"]] == [2, 3, 3]


async def test_more_runs_than_the_most_are_all_run(tmp_path: Path) -> None:
    write_suite(tmp_path, cases_of(2), runs=1, max_runs=3)
    await run(tmp_path, "--runs", "5")
    assert looked(tmp_path) is None
    assert report_in(tmp_path / "out")["totals"]["planned"] == 10
    await run(tmp_path, "--max-runs", "1")
    assert looked(tmp_path) is None


async def test_the_most_runs_of_a_file_are_not_less_than_its_runs(tmp_path: Path) -> None:
    (tmp_path / "evals.yaml").write_text(
        "runs: 3\nmax_runs: 2\nproviders: [{name: echo, type: mock}]\n"
        "cases: [{id: a, input: b, expect: [{equals: b}]}]\n"
    )
    ended = await run(tmp_path)
    assert ended.code == 2
    assert "evals.yaml:2: max_runs: 2 is less than `runs: 3`" in ended.err


async def test_a_run_that_was_killed_in_its_second_look_goes_on_there(tmp_path: Path) -> None:
    server = HeldServer(2, free=15)
    async with chatting(server):
        settings = {
            "providers": [chat(server.url)],
            "max_concurrency": 2,
            "gate": {"min_pass_rate": 0.9},
        }
        write_suite(tmp_path, cases_of(10, 1), runs=1, max_runs=3, **settings)
        killed = await start(tmp_path, "run", "--out", "out")
        await server.full.wait()
        killed.kill()
        await finished(killed)
        assert len(journaled(tmp_path / "out")) == 15
        server.released.set()
        resumed = await run(tmp_path, "--resume")
        assert server.asked.total() == 32, "what was under way is paid twice"
    assert "the verdict is open after 2 rounds: going on to 3" in resumed.err
    assert "resumed: 15 of 30 runs kept" in resumed.err or "15 of 30 runs kept" in resumed.out
    results = report_in(tmp_path / "out")["results"]
    assert [each["run"] for each in results] == [1, 2, 3] * 10
    first = written(tmp_path)
    await run(tmp_path, "--resume")
    await run(tmp_path, "--resume")
    second = written(tmp_path)
    await run(tmp_path, "--resume")
    assert written(tmp_path) == second
    assert json.loads(first[0])["verdict"] == json.loads(second[0])["verdict"]


# Stopping before the last round.


async def test_a_lost_suite_stops_as_soon_as_that_is_certain(tmp_path: Path) -> None:
    write_suite(tmp_path, cases_of(40, 20), runs=3, stop_early=True, gate={"min_pass_rate": 0.9})
    ended = await run(tmp_path)
    found = report_in(tmp_path / "out")
    totals = found["totals"]
    assert ended.code == 1
    assert (found["settled"], found["interrupted"]) == ("fail", None)
    assert (totals["passed"], totals["failed"], totals["planned"]) == (20, 20, 40)
    assert found["verdict"]["reason"] == (
        "pass rate 50 % is below the bar of 90 % (at most 63.9 %, 95 % confidence); "
        "stopped after 1 round: the rest could not change the verdict"
    )
    assert found["variants"][0]["pass_rate"] == 0.5


async def test_a_suite_that_is_sure_to_pass_stops_as_well(tmp_path: Path) -> None:
    write_suite(tmp_path, cases_of(40), runs=3, stop_early=True, gate={"min_pass_rate": 0.5})
    ended = await run(tmp_path)
    found = report_in(tmp_path / "out")
    assert (ended.code, found["settled"]) == (0, "pass")
    assert found["totals"]["passed"] == 80
    assert found["verdict"]["reason"] == (
        "pass rate 100 % meets the bar of 50 %; "
        "stopped after 2 rounds: the rest could not change the verdict"
    )


async def test_with_a_baseline_only_a_red_verdict_stops(tmp_path: Path) -> None:
    write_suite(tmp_path, cases_of(40), runs=3, stop_early=True, gate={"min_pass_rate": 0.5})
    await ci_evals(tmp_path, "run", "--out", "base")
    await run(tmp_path, "--baseline", "base")
    assert report_in(tmp_path / "out")["totals"]["passed"] == 120


async def test_one_failure_settles_a_suite_in_which_every_run_must_pass(tmp_path: Path) -> None:
    write_suite(tmp_path, cases_of(10, 1), runs=3, stop_early=True)
    await run(tmp_path)
    totals = report_in(tmp_path / "out")["totals"]
    assert (totals["passed"], totals["failed"], totals["planned"]) == (9, 1, 10)


async def test_what_may_still_break_another_rule_is_not_settled(tmp_path: Path) -> None:
    gate = {"min_pass_rate": 0.1, "max_budget_violations": 0}
    budget = {"per_run": {"max_tokens": 100_000}}
    write_suite(tmp_path, cases_of(10), runs=3, stop_early=True, gate=gate, budget=budget)
    await run(tmp_path)
    assert report_in(tmp_path / "out")["totals"]["passed"] == 30


@pytest.mark.parametrize(
    "bars", [{"tags": {"odd": 0.9}}, {"providers": {"echo": 0.9}}, {"per_variant": True}]
)
async def test_every_bar_takes_part(tmp_path: Path, bars: dict[str, Any]) -> None:
    cases = cases_of(20)
    for n, case in enumerate(cases):
        case["tags"] = ["odd"] if n % 2 else []
    write_suite(tmp_path, cases, runs=2, stop_early=True, gate={"min_pass_rate": 0.1, **bars})
    ended = await run(tmp_path)
    assert ended.code == 0
    ran = report_in(tmp_path / "out")["totals"]["passed"]
    assert ran == (20 if "per_variant" in bars else 40)


async def test_a_settled_run_that_goes_on_pays_nothing_and_writes_the_same_bytes(
    tmp_path: Path,
) -> None:
    async with chatting(ChatServer()) as server:
        settings = {"providers": [chat(server.url)], "gate": {"min_pass_rate": 0.9}}
        write_suite(
            tmp_path, cases_of(40, 30), runs=3, stop_early=True, max_concurrency=4, **settings
        )
        first = await run(tmp_path)
        before = server.asked.total()
        texts = []
        for _ in range(2):
            again = await run(tmp_path, "--resume")
            assert again.code == first.code == 1
            texts.append(written(tmp_path))
        assert server.asked.total() == before < 120
    assert texts[0] == texts[1]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
async def test_a_signal_in_the_second_look_leaves_a_report_of_both(tmp_path: Path) -> None:
    server = HeldServer(2, free=15)
    async with chatting(server):
        settings = {"providers": [chat(server.url)], "max_concurrency": 2}
        gate = {"min_pass_rate": 0.9}
        write_suite(tmp_path, cases_of(10, 1), runs=1, max_runs=3, gate=gate, **settings)
        process = await start(tmp_path, "run", "--out", "out")
        await server.full.wait()
        process.send_signal(signal.SIGINT)
        assert (await finished(process)).code == 130
        server.released.set()
    report = report_in(tmp_path / "out")
    assert len(report["results"]) == 15
    assert report["totals"]["planned"] == 20
    assert looked(tmp_path) == {"rounds": [1, 2, 3], "taken": 2}


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
async def test_a_signal_wins_over_a_verdict(tmp_path: Path) -> None:
    server = HeldServer(2, free=10)
    async with chatting(server):
        write_suite(
            tmp_path,
            cases_of(40),
            runs=3,
            stop_early=True,
            max_concurrency=2,
            providers=[chat(server.url)],
        )
        process = await start(tmp_path, "run", "--out", "out")
        await server.full.wait()
        process.send_signal(signal.SIGINT)
        assert (await finished(process)).code == 130
        server.released.set()
    assert report_in(tmp_path / "out")["settled"] is None
