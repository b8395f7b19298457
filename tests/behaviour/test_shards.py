"""Shards as separate jobs, and what `merge` makes of them."""

import asyncio
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from fakes.chat import ChatServer, chatting
from fakes.held import HeldServer
from hypothesis import given
from hypothesis import strategies as st
from leftovers import comparable, journal_lines, journaled, report_in
from processes import Finished, ci_evals, finished, start
from suites import ECHO, chat, write_suite

from ci_evals.engine.journal import JOURNAL
from ci_evals.invocation import Invocation, known_durations
from ci_evals.model.plan import Shard
from ci_evals.reports.files import write_reports
from ci_evals.reports.summary import summarize
from ci_evals.session import execute
from ci_evals.suite.load import load_suite

SHARDS = 5


def cases_of(count: int, wrong: int | None = 0) -> list[dict[str, Any]]:
    """Cases of which one expects what an echo will not say."""
    return [
        {
            "id": f"case-{n}",
            "input": f"q{n}",
            "expect": [{"equals": "never" if n == wrong else f"q{n}"}],
        }
        for n in range(count)
    ]


def two_providers(server: ChatServer) -> dict[str, Any]:
    return {
        "providers": [chat(server.url, "a", retries=0), chat(server.url, "b", retries=0)],
        "runs": 2,
    }


async def shard(folder: Path, number: int, *arguments: str, of: int = SHARDS) -> Finished:
    return await ci_evals(
        folder, "run", "--shard", f"{number}/{of}", "--out", f"shard-{number}", *arguments
    )


async def merge(folder: Path, *arguments: str, shards: int = SHARDS) -> Finished:
    names = [f"shard-{number}" for number in range(1, shards + 1)]
    return await ci_evals(
        folder, "merge", *(name for name in names if (folder / name).exists()), *arguments
    )


async def test_five_shards_one_of_them_killed_and_run_again_give_the_report_of_one_run(
    tmp_path: Path,
) -> None:
    server = HeldServer(4, free=11)
    async with chatting(server):
        write_suite(tmp_path, cases_of(40), **two_providers(server))
        killed = await start(
            tmp_path, "run", "--shard", "3/5", "--out", "shard-3", "--max-concurrency", "4"
        )
        await server.full.wait()
        killed.kill()
        await finished(killed)
        server.released.set()
        ended = await asyncio.gather(*(shard(tmp_path, number) for number in (1, 2)))
        ended += await asyncio.gather(*(shard(tmp_path, number) for number in (4, 5)))
        ended.append(await shard(tmp_path, 3, "--resume"))
        paid_twice = server.asked.total() - 160
        await ci_evals(tmp_path, "run", "--out", "whole")
    assert "resumed: 11 of 32 runs kept, 21 new ones" in ended[-1].err
    assert paid_twice == 4, "what was under way when the process was killed"
    assert [each.code for each in ended] == [0] * SHARDS
    assert all("no verdict: `ci-evals merge` gives it" in each.err for each in ended)
    merged = await merge(tmp_path, "--out", "merged")
    assert merged.code == 1
    assert "missing" not in merged.err
    assert comparable(tmp_path / "merged") == comparable(tmp_path / "whole")
    again = await ci_evals(tmp_path, "run", "--resume", "--out", "merged")
    assert "Resumed: 160 of 160 runs kept" in again.out, (
        "the merged journal is a journal like any other"
    )


async def test_a_killed_shard_can_be_merged_as_it_is_and_what_it_lacks_is_told(
    tmp_path: Path,
) -> None:
    write_suite(tmp_path, cases_of(10))
    await asyncio.gather(shard(tmp_path, 1, of=2), shard(tmp_path, 2, of=2))
    journal = tmp_path / "shard-2" / "results.jsonl"
    journal.write_bytes(journal.read_bytes()[:-9])
    merged = await merge(tmp_path, "--out", "merged", shards=2)
    assert merged.code == 1
    assert "Torn: the last line of shard-2/results.jsonl was cut off in the middle" in merged.out
    assert "1 not run" in merged.out
    assert report_in(tmp_path / "merged")["resumption"]["torn"] == ["shard-2/results.jsonl"]


async def test_missing_shards_are_named_and_run_when_asked_for(tmp_path: Path) -> None:
    async with chatting(ChatServer()) as server:
        write_suite(tmp_path, cases_of(10, wrong=None), **two_providers(server))
        await asyncio.gather(*(shard(tmp_path, number) for number in (1, 3)))
        await shard(tmp_path, 4)
        before = server.asked.total()
        told = await merge(tmp_path, "--out", "told")
        assert told.code == 3
        hint = "name the folder of every shard, or add --run-missing"
        assert f"shards 2/5, 5/5 are missing: {hint}" in told.err
        assert "Incomplete: shards 2/5, 5/5 are missing" in told.out
        assert "Interrupted" not in told.out
        assert re.search(r"\d+ of \d+ runs ran: shards 2/5, 5/5 are missing", told.out)
        assert "stopped after" not in told.out
        assert (
            "not run: shards 2/5, 5/5 are missing" in (tmp_path / "told" / "junit.xml").read_text()
        )
        assert server.asked.total() == before
        ran = await merge(tmp_path, "--out", "ran", "--run-missing")
        assert "shards 2/5, 5/5 are missing: running the missing cells" in ran.err
        assert set(server.asked.values()) == {4}
        await ci_evals(tmp_path, "run", "--out", "whole")
    assert comparable(tmp_path / "ran") == comparable(tmp_path / "whole")


async def test_a_folder_that_went_on_as_another_share_counts_as_that_share(tmp_path: Path) -> None:
    write_suite(tmp_path, cases_of(10, wrong=None))
    await shard(tmp_path, 1, of=2)
    await shard(tmp_path, 1, "--resume", of=3)
    await asyncio.gather(shard(tmp_path, 2, of=3), shard(tmp_path, 3, of=3))
    merged = await merge(tmp_path, "--out", "merged", shards=3)
    assert merged.code == 0, merged.out
    assert "missing" not in merged.err
    assert report_in(tmp_path / "merged")["interrupted"] is None


async def test_a_shard_whose_runs_are_all_there_is_not_missing(tmp_path: Path) -> None:
    write_suite(tmp_path, cases_of(10, wrong=None))
    await ci_evals(tmp_path, "run", "--out", "shard-1")
    await shard(tmp_path, 2, of=3)
    merged = await merge(tmp_path, "--out", "merged", shards=2)
    assert merged.code == 0, merged.out
    assert "missing" not in merged.err
    assert report_in(tmp_path / "merged")["interrupted"] is None


async def test_a_shard_that_its_budget_stopped_is_no_success(tmp_path: Path) -> None:
    async with chatting(ChatServer()) as server:
        write_suite(
            tmp_path,
            cases_of(10),
            providers=[chat(server.url)],
            budget={"max_tokens": 20},
            max_concurrency=1,
        )
        stopped = await shard(tmp_path, 1, of=2)
    assert stopped.code == 3
    assert "incomplete: the budget" in stopped.err


async def test_a_shard_without_any_graded_run_is_no_success(tmp_path: Path) -> None:
    provider = chat("http://127.0.0.1:9/v1", retries=0)
    write_suite(tmp_path, cases_of(4), providers=[provider])
    down = await shard(tmp_path, 1, of=2)
    assert down.code == 3, down.err
    assert "shard 1/2 of test: 0 of 2 runs passed, 2 errored" in down.err


async def test_a_shard_of_which_no_run_passed_says_that_it_gives_no_verdict(tmp_path: Path) -> None:
    write_suite(tmp_path, cases_of(1), runs=4)
    ended = await shard(tmp_path, 1, of=1)
    assert ended.code == 0
    assert "0 of 4 runs passed (0 %), 4 failed; no verdict: `ci-evals merge` gives it" in ended.err


async def test_a_share_without_any_case_is_a_success(tmp_path: Path) -> None:
    write_suite(tmp_path, cases_of(1, wrong=None))
    ended = [await shard(tmp_path, number, of=2) for number in (1, 2)]
    assert [each.code for each in ended] == [0, 0]


async def test_shards_are_merged_from_the_folder_that_has_their_folders(tmp_path: Path) -> None:
    write_suite(tmp_path, cases_of(4, wrong=None))
    for number in (1, 2):
        await ci_evals(tmp_path, "run", "--shard", f"{number}/2", "--out", f"shards/{number} of 2")
    merged = await ci_evals(tmp_path, "merge", "shards", "--out", "merged")
    assert merged.code == 0, merged.err
    assert report_in(tmp_path / "merged")["totals"]["passed"] == 4


async def test_merging_needs_no_keys(tmp_path: Path) -> None:
    provider = chat("http://127.0.0.1:9/v1", api_key="${A_KEY_OF_NOBODY}", retries=0)
    write_suite(tmp_path, cases_of(2), providers=[provider])
    await ci_evals(
        tmp_path, "run", "--shard", "1/1", "--out", "shard-1", environ={"A_KEY_OF_NOBODY": "k"}
    )
    merged = await merge(tmp_path, "--out", "merged", shards=1)
    assert merged.code == 3
    assert "2 errored" in merged.out


@pytest.mark.parametrize(
    ("changes", "arguments"),
    [
        ({"cases": 9}, []),
        ({"providers": [ECHO, {"name": "other", "type": "mock"}]}, []),
        ({}, ["--runs", "2"]),
    ],
)
async def test_journals_of_another_suite_are_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], arguments: list[str]
) -> None:
    write_suite(tmp_path, cases_of(10))
    await shard(tmp_path, 1, of=2)
    write_suite(tmp_path, cases_of(changes.pop("cases", 10)), **changes)
    merged = await merge(tmp_path, "--out", "merged", *arguments, shards=2)
    assert (merged.code, merged.out) == (2, "")
    assert "shard-1/results.jsonl is of another suite than evals.yaml" in merged.err
    assert not (tmp_path / "merged").exists()


async def test_a_result_folder_that_is_one_of_the_sources_is_refused_and_left_as_it_is(
    tmp_path: Path,
) -> None:
    write_suite(tmp_path, cases_of(4))
    await asyncio.gather(shard(tmp_path, 1, of=2), shard(tmp_path, 2, of=2))
    before = (tmp_path / "shard-1" / "results.jsonl").read_bytes()
    merged = await merge(tmp_path, "--out", "./shard-1", shards=2)
    assert merged.code == 2
    assert (
        "shard-1/results.jsonl is one of the journals to merge: choose another --out" in merged.err
    )
    assert (tmp_path / "shard-1" / "results.jsonl").read_bytes() == before


@pytest.mark.parametrize("name", ["results.jsonl", "report.json", ""])
async def test_shards_are_balanced_by_an_earlier_journal_or_report(
    tmp_path: Path, name: str
) -> None:
    write_suite(tmp_path, cases_of(9))
    await ci_evals(tmp_path, "run", "--out", "earlier")
    slow = {"case-0": 8.0}
    for file in ("results.jsonl", "report.json"):
        _with_latencies(tmp_path / "earlier" / file, slow)
    shares = []
    for number in (1, 2):
        await shard(tmp_path, number, "--balance-by", f"earlier/{name}", of=2)
        shares.append({each["case"] for each in journaled(tmp_path / f"shard-{number}")})
    assert sorted(map(len, shares)) == [1, 8]
    assert {"case-0"} in shares
    merged = await merge(tmp_path, "--out", "merged", shards=2)
    assert report_in(tmp_path / "merged")["totals"]["planned"] == 9, merged.err


async def test_a_file_without_durations_is_refused(tmp_path: Path) -> None:
    write_suite(tmp_path)
    (tmp_path / "notes.json").write_text("{}")
    found = await shard(tmp_path, 1, "--balance-by", "notes.json")
    assert found.code == 3
    assert "notes.json: is not a ci-evals report" in found.err
    assert not (tmp_path / "shard-1").exists()


async def test_a_shard_is_named_in_its_journal(tmp_path: Path) -> None:
    write_suite(tmp_path)
    await shard(tmp_path, 2)
    assert journal_lines(tmp_path / "shard-2")[0]["suite"]["shard"] == "2/5"


@pytest.mark.parametrize("share", ["2", "0/5", "6/5", "2/0", "two/5"])
async def test_a_share_that_does_not_exist_is_refused(tmp_path: Path, share: str) -> None:
    write_suite(tmp_path)
    found = await ci_evals(tmp_path, "run", "--shard", share)
    assert found.code == 2
    assert f"'{share}' is not a share such as 2/5" in found.err


async def test_a_journal_of_a_share_that_does_not_exist_is_damaged(tmp_path: Path) -> None:
    write_suite(tmp_path)
    await shard(tmp_path, 2)
    journal = tmp_path / "shard-2" / JOURNAL
    journal.write_text(journal.read_text().replace('"shard":"2/5"', '"shard":"five"'))
    found = await merge(tmp_path)
    assert found.code == 3
    assert "'five' is not a share such as 2/5" in found.err


@given(st.integers(1, 12), st.integers(1, 9), st.integers(1, 3), st.randoms(use_true_random=False))
async def test_any_number_of_shards_merged_in_any_order_gives_the_report_of_one_run(
    cases: int, of: int, runs: int, source: Any
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        providers = [
            ECHO,
            {"name": "flaky", "type": "mock", "flakiness": 0.5, "error_rate": 0.2, "retries": 0},
        ]
        suite = load_suite(write_suite(folder, cases_of(cases), providers=providers, runs=runs), {})
        whole, _ = await execute(Invocation(suite=suite, journal=folder / "whole" / JOURNAL))
        journals = [folder / f"shard-{number}" / JOURNAL for number in range(1, of + 1)]
        for number, journal in enumerate(journals, 1):
            await execute(Invocation(suite=suite, journal=journal, shard=Shard(number, of)))
        source.shuffle(journals)
        order = Invocation(
            suite=suite,
            journal=folder / "merged" / JOURNAL,
            sources=tuple(journals),
            merge=True,
            run_missing=False,
        )
        merged, _ = await execute(order)
        for report, out in ((whole, "whole"), (merged, "merged")):
            write_reports(summarize(report, None), folder / out, ("json",))
        assert comparable(folder / "merged") == comparable(folder / "whole")
        assert known_durations(folder / "merged" / "report.json") == known_durations(
            folder / "merged"
        )


def _with_latencies(path: Path, latencies_s: dict[str, float]) -> None:
    """Write a journal or report anew with other latencies, one second where none is given."""

    def edited(result: dict[str, Any]) -> dict[str, Any]:
        return result | {"latency_s": latencies_s.get(result["case"], 1.0)}

    if path.suffix == ".json":
        document = json.loads(path.read_bytes())
        document["results"] = list(map(edited, document["results"]))
        path.write_text(json.dumps(document))
        return
    header, *lines = path.read_text().splitlines()
    path.write_text(
        "\n".join([header, *(json.dumps(edited(json.loads(line))) for line in lines), ""])
    )
