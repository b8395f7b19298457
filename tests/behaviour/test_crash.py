"""SIGKILL at any moment: nothing finished is lost, nothing finished is paid for again."""

import asyncio
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from fakes.chat import ChatServer, chatting
from leftovers import comparable, journaled, report_in
from processes import ci_evals, finished, start
from suites import chat, write_cases, write_suite

QUESTIONS = 1000
KILLS = 8
CONCURRENCY = 16
PRICE = {"input_per_mtok": 1.0, "output_per_mtok": 2.0}


class Session:
    """The requests of one session; `reached` is set at the chosen one of them."""

    def __init__(self, moment: int | None = None) -> None:
        self.questions: list[str] = []
        self.reached = asyncio.Event()
        self._moment = moment

    def note(self, question: str) -> None:
        self.questions.append(question)
        if len(self.questions) == self._moment:
            self.reached.set()


class Sessions:
    """A server's own log, session by session."""

    def __init__(self) -> None:
        self.current = Session()

    def begin(self, moment: int | None = None) -> Session:
        self.current = Session(moment)
        return self.current

    def note(self, question: str, _ordinal: int) -> None:
        self.current.note(question)


def graded(folder: Path) -> list[str]:
    """What was asked in the runs that the journal has as finished."""
    path = folder / "results.jsonl"
    return (
        [f"q{each['case'].removeprefix('case-')}" for each in journaled(folder)]
        if path.exists()
        else []
    )


async def test_a_job_killed_eight_times_grades_every_run_once_and_asks_for_no_finished_run_again(
    tmp_path: Path,
) -> None:
    moments = sorted(random.Random(20).sample(range(1, 750), KILLS))
    write_cases(
        tmp_path,
        (
            {"id": f"case-{n}", "input": f"q{n}", "expect": [{"equals": f"q{n - n % 10}"}]}
            for n in range(QUESTIONS)
        ),
    )
    sessions = Sessions()
    async with chatting(ChatServer(sessions.note)) as server:
        providers = [chat(server.url, price=PRICE)]
        write_suite(
            tmp_path, [{"file": "cases.jsonl"}], providers=providers, max_concurrency=CONCURRENCY
        )
        for before, moment in pairwise([0, *moments]):
            already = graded(tmp_path / "out")
            session = sessions.begin(moment - before)
            process = await start(tmp_path, "run", "--resume", "--out", "out")
            await session.reached.wait()
            process.kill()
            assert (await finished(process)).code == -9
            assert not set(session.questions) & set(already)
        already = graded(tmp_path / "out")
        session = sessions.begin()
        last = await ci_evals(tmp_path, "run", "--resume", "--out", "out")
        assert not set(session.questions) & set(already)
        assert last.code == 1, last.err
        assert Counter(graded(tmp_path / "out")) == Counter(f"q{n}" for n in range(QUESTIONS))
        asked_again = server.asked.total() - QUESTIONS
        assert asked_again <= KILLS * CONCURRENCY, (
            "only what was under way when the process was killed"
        )
        sessions.begin()
        await ci_evals(tmp_path, "run", "--out", "undisturbed")
    assert comparable(tmp_path / "out") == comparable(tmp_path / "undisturbed")
    kept = len(already)
    found = report_in(tmp_path / "out")["resumption"]
    assert (found["kept"], found["retried"], found["changed"]) == (kept, 0, 0)
    assert f"Resumed: {kept:,} of 1,000 runs kept, {QUESTIONS - kept:,} new ones" in last.out


@pytest.mark.parametrize("place", ["in the last line", "in the header"])
async def test_a_line_torn_by_a_crash_is_cut_off_with_a_warning_and_its_run_is_done_again(
    tmp_path: Path, place: str
) -> None:
    async with chatting(ChatServer()) as server:
        cases = [
            {"id": f"case-{n}", "input": f"q{n}", "expect": [{"equals": f"q{n}"}]} for n in range(5)
        ]
        write_suite(tmp_path, cases, providers=[chat(server.url)], max_concurrency=1)
        await ci_evals(tmp_path, "run", "--out", "out")
        journal = tmp_path / "out" / "results.jsonl"
        whole = journal.read_bytes()
        journal.write_bytes(whole[:-7] if place == "in the last line" else whole[:20])
        resumed = await ci_evals(tmp_path, "run", "--resume", "--out", "out")
    kept = 4 if place == "in the last line" else 0
    assert server.asked.total() == 5 + 5 - kept
    assert resumed.code == 0
    assert "Torn: the last line of out/results.jsonl was cut off in the middle" in resumed.out
    assert f"Resumed: {kept} of 5 runs kept, {5 - kept} new one" in resumed.out
    assert sorted(each["case"] for each in journaled(tmp_path / "out")) == [
        case["id"] for case in cases
    ]
    assert report_in(tmp_path / "out")["resumption"]["torn"] == ["out/results.jsonl"]
