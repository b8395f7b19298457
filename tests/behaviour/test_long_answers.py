"""Answers that are too long for journals and reports are judged whole, and kept whole in a file."""

import json
from pathlib import Path

import pytest
from leftovers import journaled, report_in
from processes import ci_evals
from suites import run, write_suite

SECRET = "hunter2-and-more"
SIZE = 3_000_000
AGENT = f"""
def answer(question):
    return "é" * {SIZE // 2} + " the end {SECRET} " + question
"""


def suite(folder: Path, *, expect: str = "the end", **settings: object) -> None:
    (folder / "agent.py").write_text(AGENT)
    (folder / ".env").write_text(f"PASSWORD={SECRET}\n")
    case = {"id": "long", "input": "hi", "expect": [{"contains": expect}]}
    providers = [{"name": "agent", "type": "python", "target": "agent:answer"}]
    write_suite(folder, [case], providers=providers, **settings)


async def test_a_long_answer_is_judged_whole_and_kept_in_a_file(tmp_path: Path) -> None:
    suite(tmp_path)
    found = await run(tmp_path)
    assert found.code == 0, found.out
    (result,) = journaled(tmp_path / "out")
    output, whole = result["response"]["output"], result["response"]["whole"]
    assert output.startswith("é" * 500_000 + "\n[the first 1,000,000 of 3,000,015 bytes; ")
    assert whole in output
    kept = (tmp_path / "out" / whole).read_text("utf-8")
    assert kept == "é" * (SIZE // 2) + " the end *** hi"
    (in_report,) = report_in(tmp_path / "out")["results"]
    assert in_report["response"] == result["response"]


async def test_whoever_reads_a_report_finds_the_whole_answer(tmp_path: Path) -> None:
    suite(tmp_path, expect="another end", report={"formats": ["json", "markdown", "html"]})
    assert (await run(tmp_path)).code == 1
    (result,) = journaled(tmp_path / "out")
    file = result["response"]["whole"]
    assert f"The whole answer is in <code>{file}</code>" in (
        tmp_path / "out" / "summary.md"
    ).read_text("utf-8")
    assert f'<a href="{file}">The whole answer</a>' in (tmp_path / "out" / "report.html").read_text(
        "utf-8"
    )
    explained = await ci_evals(tmp_path, "explain", "long", "--report", "out")
    assert f"all of it: {file}" in explained.out


async def test_the_bound_is_the_suites(tmp_path: Path) -> None:
    suite(tmp_path, settings={"max_answer_bytes": 10})
    await run(tmp_path)
    (result,) = journaled(tmp_path / "out")
    assert result["response"]["output"].startswith("ééééé\n[the first 10 of ")


async def test_a_recorded_answer_is_judged_whole_again(tmp_path: Path) -> None:
    suite(tmp_path)
    await run(tmp_path)
    (tmp_path / "out").rename(tmp_path / "first")
    suite(tmp_path, expect="*** hi")
    found = await run(tmp_path, "--replay", "first", "--replay-only")
    assert found.code == 3, "the agent itself was not run"
    assert journaled(tmp_path / "out")[0]["status"] == "passed"
    assert (
        journaled(tmp_path / "out")[0]["response"] == journaled(tmp_path / "first")[0]["response"]
    )


async def test_without_its_file_a_recorded_answer_is_not_judged(tmp_path: Path) -> None:
    suite(tmp_path)
    await run(tmp_path)
    (tmp_path / "out").rename(tmp_path / "first")
    whole = journaled(tmp_path / "first")[0]["response"]["whole"]
    (tmp_path / "first" / whole).unlink()
    found = await run(tmp_path, "--replay", "first", "--replay-only")
    assert found.code == 3
    (result,) = journaled(tmp_path / "out")
    assert result["error"]["kind"] == "not_recorded"
    assert "the rest of a long answer cannot be read" in result["error"]["message"]


@pytest.mark.parametrize("way", ["absolute", "above", "link"])
async def test_a_recording_cannot_name_a_file_outside_of_its_folder(
    tmp_path: Path, way: str
) -> None:
    suite(tmp_path)
    await run(tmp_path)
    recorded = (tmp_path / "out").rename(tmp_path / "first")
    private = tmp_path / "private.txt"
    private.write_text("the end of what nobody may see")
    whole = journaled(recorded)[0]["response"]["whole"]
    (recorded / "files" / "link.txt").symlink_to(private)
    named = {"absolute": str(private), "above": "../private.txt", "link": "files/link.txt"}[way]
    journal = recorded / "results.jsonl"
    journal.write_text(journal.read_text("utf-8").replace(f'"{whole}"', f'"{named}"'), "utf-8")
    found = await run(tmp_path, "--replay", "first", "--replay-only")
    assert found.code == 3
    (result,) = journaled(tmp_path / "out")
    assert result["error"]["kind"] == "not_recorded"
    assert "nobody may see" not in (tmp_path / "out" / "results.jsonl").read_text("utf-8")


async def test_each_turn_of_a_conversation_has_the_bound(tmp_path: Path) -> None:
    suite(tmp_path)
    case = {
        "id": "talk",
        "turns": [{"user": "one", "expect": [{"contains": "the end"}]}, {"user": "two"}],
    }
    providers = [{"name": "agent", "type": "python", "target": "agent:answer"}]
    write_suite(tmp_path, [case], providers=providers)
    (tmp_path / "agent.py").write_text(AGENT.replace("question\n", "question[-1]['content']\n"))
    found = await run(tmp_path)
    assert found.code == 0, found.out
    (result,) = journaled(tmp_path / "out")
    turns = result["response"]["turns"]
    assert len({turn["response"]["whole"] for turn in turns}) == 2
    assert len(json.dumps(result, ensure_ascii=False).encode()) < 4_000_000
