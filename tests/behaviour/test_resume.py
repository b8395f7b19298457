"""`run --resume` as users and CI start it: what is kept, what is repeated, and the notice."""

import json
from pathlib import Path
from typing import Any

import pytest
from fakes.chat import ChatServer, Fault, chatting
from fakes.held import HeldServer
from leftovers import journal_lines, journaled, report_in
from processes import ci_evals, finished, start
from suites import chat, echo_case, run, write_suite

SETTINGS = {
    "gate": {"max_error_rate": 1},
    "report": {"formats": ["json", "junit", "markdown", "html"]},
}


def refuse_odd_ones_first(question: str, ordinal: int) -> Fault | None:
    return "500" if int(question[1:]) % 2 and ordinal == 0 else None


def suite(folder: Path, server: ChatServer, cases: list[dict[str, Any]], **settings: Any) -> None:
    write_suite(folder, cases, providers=[chat(server.url, retries=0)], **{**SETTINGS, **settings})


async def test_graded_runs_are_kept_errored_tried_again_and_changed_and_new_ones_run(
    tmp_path: Path,
) -> None:
    async with chatting(ChatServer(refuse_odd_ones_first)) as server:
        suite(tmp_path, server, [echo_case(n) for n in range(10)])
        await run(tmp_path)
        assert server.asked.total() == 10
        edited = [
            echo_case(0, expect=[{"contains": "q"}]),
            echo_case(2, input="q200"),
            *(echo_case(n) for n in range(3, 13)),
        ]
        suite(tmp_path, server, edited)
        resumed = await run(tmp_path, "--resume")
        assert server.asked == {"q0": 2, "q1": 1, "q2": 1, "q200": 1} | {
            f"q{n}": 1 + (n in (3, 5, 7, 9)) for n in range(3, 13)
        }
        again = await run(tmp_path, "--resume")
    found = report_in(tmp_path / "out")
    assert (found["totals"]["errored"], found["totals"]["planned"]) == (0, 12)
    sentence = (
        "Resumed: 3 of 12 runs kept, 4 errored ones tried again, "
        "2 changed ones run again, 3 new ones"
    )
    assert sentence in resumed.out
    assert "Resumed: 11 of 12 runs kept, 1 errored one tried again" in again.out
    assert found["resumption"] == {"kept": 11, "retried": 1, "changed": 0, "torn": []}
    sentence = "11 of 12 runs kept, 1 errored one tried again"
    assert f"**Resumed**: {sentence}" in (tmp_path / "out" / "summary.md").read_text()
    assert f'name="Resumed" value="{sentence}"' in (tmp_path / "out" / "junit.xml").read_text()
    assert sentence in (tmp_path / "out" / "report.html").read_text()


async def test_the_report_of_a_resumed_run_has_each_run_once_and_in_plan_order(
    tmp_path: Path,
) -> None:
    async with chatting(ChatServer(refuse_odd_ones_first)) as server:
        suite(tmp_path, server, [echo_case(n) for n in range(6)], runs=2)
        await run(tmp_path)
        await run(tmp_path, "--resume")
    results = report_in(tmp_path / "out")["results"]
    assert [(each["case"], each["run"]) for each in results] == [
        (f"case-{n}", r) for n in range(6) for r in (1, 2)
    ]
    assert {each["status"] for each in results} == {"passed"}


async def test_without_a_journal_it_just_starts_and_says_so(tmp_path: Path) -> None:
    write_suite(tmp_path)
    found = await run(tmp_path, "--resume")
    assert found.code == 0
    assert "nothing to resume: there was no out/results.jsonl" in found.err
    assert report_in(tmp_path / "out")["resumption"] is None
    assert "Resumed" not in found.out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("my notes\n", "is not a ci-evals journal"),
        ('{"question": "q", "answer": "a"}\n', "is not a ci-evals journal"),
        ("{}", "is not a ci-evals journal"),
    ],
)
async def test_a_foreign_file_is_refused_and_left_as_it_is(
    tmp_path: Path, content: str, words: str
) -> None:
    write_suite(tmp_path)
    file = tmp_path / "out" / "results.jsonl"
    file.parent.mkdir()
    file.write_text(content)
    found = await run(tmp_path, "--resume")
    assert (found.code, found.out) == (3, "")
    assert f"out/results.jsonl: {words}" in found.err
    assert file.read_text() == content


async def test_a_journal_of_another_schema_version_is_refused_and_left_as_it_is(
    tmp_path: Path,
) -> None:
    write_suite(tmp_path)
    await run(tmp_path)
    file = tmp_path / "out" / "results.jsonl"
    newer = file.read_bytes().replace(b'"schema_version":1', b'"schema_version":7')
    file.write_bytes(newer)
    found = await run(tmp_path, "--resume")
    assert found.code == 3
    assert (
        "out/results.jsonl:1: the journal has version 7, but this ci-evals reads version 1"
        in found.err
    )
    assert file.read_bytes() == newer


async def test_a_damaged_line_in_the_midst_is_refused_by_its_number(tmp_path: Path) -> None:
    write_suite(tmp_path, [echo_case(n) for n in range(3)])
    await run(tmp_path)
    file = tmp_path / "out" / "results.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], b"\x00\x00\x00\n", *lines[2:]]))
    found = await run(tmp_path, "--resume")
    assert found.code == 3
    assert "out/results.jsonl:3: the line is damaged" in found.err


@pytest.mark.parametrize("arguments", [["--resume"], []])
async def test_a_journal_that_another_process_writes_to_is_refused(
    tmp_path: Path, arguments: list[str]
) -> None:
    server = HeldServer(1)
    async with chatting(server):
        suite(tmp_path, server, [echo_case(0)])
        holder = await start(tmp_path, "run", "--out", "out")
        await server.full.wait()
        second = await run(tmp_path, *arguments)
        holder.kill()
        await finished(holder)
        server.released.set()
    assert server.arrived == 1
    assert second.code == 3
    assert (
        "out/results.jsonl: another ci-evals is writing to it: wait for it, or choose another --out"
        in second.err
    )
    assert len(journal_lines(tmp_path / "out")) == 1, "the first one's header"


@pytest.mark.parametrize(
    "named",
    [
        ("--resume-from", "earlier/a", "--resume-from", "earlier/b/results.jsonl"),
        ("--resume-from", "earlier"),
    ],
)
async def test_results_are_taken_over_from_other_folders(
    tmp_path: Path, named: tuple[str, ...]
) -> None:
    async with chatting(ChatServer()) as server:
        for name, numbers in (("a", (0, 1)), ("b", (2, 3))):
            suite(tmp_path, server, [echo_case(n) for n in numbers])
            await ci_evals(tmp_path, "run", "--out", f"earlier/{name}")
        suite(tmp_path, server, [echo_case(n) for n in range(5)])
        found = await run(tmp_path, *named)
    assert "Resumed: 4 of 5 runs kept, 1 new one" in found.out
    assert set(server.asked.values()) == {1}
    assert sorted(each["case"] for each in journaled(tmp_path / "out")) == [
        f"case-{n}" for n in range(5)
    ]


async def test_a_foreign_source_leaves_no_result_behind(tmp_path: Path) -> None:
    write_suite(tmp_path)
    (tmp_path / "notes.txt").write_text("my notes\n")
    found = await run(tmp_path, "--resume-from", "notes.txt")
    assert found.code == 3
    assert "notes.txt: is not a ci-evals journal" in found.err
    assert not (tmp_path / "out" / "report.json").exists()


async def test_fewer_runs_leave_the_others_in_the_journal_for_later(tmp_path: Path) -> None:
    async with chatting(ChatServer()) as server:
        suite(tmp_path, server, [echo_case(0), echo_case(1)])
        await run(tmp_path, "--runs", "3")
        fewer = await run(tmp_path, "--resume", "--runs", "2")
        assert "Resumed: 4 of 4 runs kept" in fewer.out
        assert report_in(tmp_path / "out")["totals"]["planned"] == 4
        more = await run(tmp_path, "--resume", "--runs", "3")
    assert "Resumed: 6 of 6 runs kept" in more.out
    assert server.asked.total() == 6


async def test_json_on_stdout_says_what_was_resumed(tmp_path: Path) -> None:
    write_suite(tmp_path)
    await run(tmp_path)
    found = await run(tmp_path, "--resume", "--format", "json")
    assert json.loads(found.out)["resumption"] == {
        "kept": 1,
        "retried": 0,
        "changed": 0,
        "torn": [],
    }
