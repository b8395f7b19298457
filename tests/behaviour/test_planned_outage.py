"""A service that is down for the planned runs and up for the repeats gives no verdict."""

from pathlib import Path
from typing import Any

from leftovers import journaled, report_in
from processes import Finished, ci_evals
from suites import AGENT, echo_cases, run, write_suite

CASES = 10
BESIDE_BASE = ("--baseline", "base")
SOURCE = """
import pathlib

def is_down(run):
    if not pathlib.Path("down").exists():
        return False
    rounds = pathlib.Path("down").read_text()
    return rounds == "always" or str(run) in rounds.split()

def answer(question, request):
    if is_down(request.run):
        raise ConnectionError("the database is away")
    return question
"""


def write_agent(folder: Path, number: int = CASES, **options: Any) -> None:
    (folder / "agent.py").write_text(SOURCE)
    write_suite(folder, echo_cases(number), providers=[AGENT], runs=3, **options)


async def made_a_baseline(folder: Path) -> None:
    write_agent(folder)
    assert (await ci_evals(folder, "run", "--out", "base", "--runs", "9")).code == 0


async def test_an_outage_is_no_regression(tmp_path: Path) -> None:
    await made_a_baseline(tmp_path)
    (tmp_path / "down").write_text("1 2 3")
    found = await run(tmp_path, *BESIDE_BASE)
    assert found.code == 3, found.out
    sentence = (
        "all 30 planned runs of 10 cases failed, and all 140 repeats passed: likely an outage"
    )
    assert sentence in found.out
    assert sentence in found.err
    report = report_in(tmp_path / "out")
    assert report["totals"]["errored"] == 30
    assert report["verdict"]["status"] == "error"
    assert not [cell for cell in report["cells"] if cell["comparison"]["kind"] == "regressed"]


async def test_an_outage_of_one_round_is_neither_red_nor_named(tmp_path: Path) -> None:
    await made_a_baseline(tmp_path)
    (tmp_path / "down").write_text("2")
    found = await run(tmp_path, *BESIDE_BASE)
    assert found.code == 3, found.out
    sentence = "all 10 failures were in run 2, and all 20 other runs passed: likely an outage"
    assert sentence in found.out
    assert sentence in found.err
    report = report_in(tmp_path / "out")
    assert report["totals"]["errored"] == 10
    assert report["verdict"]["status"] == "error"
    assert report["comparison"]["counts"] == {"unchanged": 10}

    (tmp_path / "down").unlink()
    found = await run(tmp_path, *BESIDE_BASE, "--resume")
    assert found.code == 0, found.out
    assert report_in(tmp_path / "out")["totals"]["passed"] == 30


async def test_an_outage_of_one_round_needs_no_baseline_to_be_seen(tmp_path: Path) -> None:
    await made_a_baseline(tmp_path)
    (tmp_path / "down").write_text("1")
    found = await ci_evals(tmp_path, "run", "--baseline", "none", "--out", "out")
    assert found.code == 3, found.out
    assert "all 10 failures were in run 1" in found.out


async def test_a_withdrawn_round_tells_why_its_runs_failed(tmp_path: Path) -> None:
    write_agent(tmp_path)
    (tmp_path / "down").write_text("2")
    found = await ci_evals(tmp_path, "run", "--baseline", "none", "--out", "out")
    assert "the database is away" in found.out
    lost = [
        each["error"]
        for each in report_in(tmp_path / "out")["results"]
        if each["status"] == "errored"
    ]
    assert len(lost) == CASES
    for error in lost:
        assert error["message"].startswith(
            "all 10 failures were in run 2, and all 20 other runs passed: likely an"
        )
        assert "ConnectionError: the database is away" in error["cause"]
        assert "agent.py" in error["detail"]
    for name in ("summary.md", "report.html"):
        assert "the database is away" in (tmp_path / "out" / name).read_text()


async def test_an_outage_settles_nothing(tmp_path: Path) -> None:
    write_agent(tmp_path, 12, stop_early=True)
    (tmp_path / "down").write_text("2")
    found = await ci_evals(tmp_path, "run", "--out", "out")
    assert found.code == 3, found.out
    report = report_in(tmp_path / "out")
    assert (report["totals"]["passed"], report["totals"]["errored"], report["settled"]) == (
        12,
        12,
        None,
    )


async def test_a_run_that_is_red_after_its_first_round_is_confirmed(tmp_path: Path) -> None:
    await made_a_baseline(tmp_path)
    write_agent(tmp_path, stop_early=True, gate={"min_pass_rate": 0.9})
    (tmp_path / "down").write_text("1")
    found = await run(tmp_path, *BESIDE_BASE)
    assert found.code == 3, found.out
    assert (
        "planned runs of 10 cases failed, and all 40 repeats passed: likely an outage" in found.out
    )
    assert report_in(tmp_path / "out")["settled"] is None

    (tmp_path / "down").write_text("always")
    found = await run(tmp_path, *BESIDE_BASE, out="changed")
    assert found.code == 1, found.out
    report = report_in(tmp_path / "changed")
    assert report["settled"] == "fail"
    assert report["totals"]["failed"] == 10
    assert report["comparison"]["counts"] == {"regressed": 10}


async def test_each_shard_sets_its_lost_round_aside_and_their_merge_has_no_verdict(
    tmp_path: Path,
) -> None:
    write_agent(tmp_path, 24)
    (tmp_path / "down").write_text("2")
    for shard in ("1/2", "2/2"):
        await ci_evals(tmp_path, "run", "--shard", shard, "--out", shard[0])
    merged = await ci_evals(tmp_path, "merge", "1", "2", "--out", "out")
    assert merged.code == 3, merged.out
    assert report_in(tmp_path / "out")["totals"]["errored"] == 24


async def test_repeats_that_are_out_name_nothing_and_are_made_again(tmp_path: Path) -> None:
    await made_a_baseline(tmp_path)
    flaky = 'return "no" if question in ("q1", "q2", "q3") and request.run == 1 else question'
    (tmp_path / "agent.py").write_text(SOURCE.replace("return question", flaky))
    (tmp_path / "down").write_text("4 5 6 7")
    found = await run(tmp_path, *BESIDE_BASE)
    why = (
        "0 of 12 repeats passed, and 6 of 9 planned runs of the same cases: "
        "likely an outage, so nothing is named"
    )
    assert why in found.err
    assert why in (tmp_path / "out" / "summary.md").read_text()
    assert report_in(tmp_path / "out")["comparison"]["counts"] == {"suspect": 3, "unchanged": 7}
    (tmp_path / "down").unlink()
    await run(tmp_path, *BESIDE_BASE, "--resume")
    assert report_in(tmp_path / "out")["comparison"]["counts"] == {"flaky": 3, "unchanged": 7}


async def test_a_case_that_breaks_is_red_in_spite_of_an_outage_of_one_round(
    tmp_path: Path,
) -> None:
    await made_a_baseline(tmp_path)
    (tmp_path / "down").write_text("2")
    broken = 'return "no" if question == "q7" else question'
    (tmp_path / "agent.py").write_text(SOURCE.replace("return question", broken))
    found = await run(tmp_path, *BESIDE_BASE)
    assert found.code == 1, found.out
    report = report_in(tmp_path / "out")
    lost = "; also, 10 of 30 runs errored (33.3 %), more than the 5 % that the gate allows"
    assert lost in report["verdict"]["reason"]
    assert [
        cell["case"] for cell in report["cells"] if cell["comparison"]["kind"] == "regressed"
    ] == ["case-7"]


async def test_when_it_is_over_a_resumed_run_makes_every_planned_run_again(tmp_path: Path) -> None:
    await made_a_baseline(tmp_path)
    (tmp_path / "down").write_text("1 2 3")
    await run(tmp_path, *BESIDE_BASE)
    (tmp_path / "down").unlink()
    found = await run(tmp_path, *BESIDE_BASE, "--resume")
    assert found.code == 0, found.out
    assert report_in(tmp_path / "out")["totals"]["passed"] == 30
    assert len([each for each in journaled(tmp_path / "out") if each["status"] == "failed"]) == 30


async def test_a_change_that_breaks_as_much_is_red(tmp_path: Path) -> None:
    await made_a_baseline(tmp_path)
    (tmp_path / "agent.py").write_text("def answer(question):\n    return 'no'\n")
    found = await run(tmp_path, *BESIDE_BASE)
    assert found.code == 1, found.out
    assert report_in(tmp_path / "out")["comparison"]["counts"]["regressed"] == CASES


async def main_ran(folder: Path, name: str, *arguments: str) -> Finished:
    """The base branch runs and leaves a report, which is the next one's baseline."""
    return await ci_evals(folder, "run", "--runs", "3", "--out", name, *arguments)


async def test_a_base_report_that_had_an_outage_is_not_compared_with(tmp_path: Path) -> None:
    await made_a_baseline(tmp_path)
    (tmp_path / "agent.py").write_text("def answer(question):\n    return 'maintenance'\n")
    await main_ran(tmp_path, "base/out", "--baseline", "base/report.json")
    broken = 'return "no" if question == "q7" else question'
    (tmp_path / "agent.py").write_text(SOURCE.replace("return question", broken))
    found = await ci_evals(tmp_path, "run", "--baseline", "base/out/report.json", "--out", "out")
    assert found.code == 1, found.out
    why = "0 of 30 runs on the baseline passed: likely an outage, so these runs do not count"
    assert why in found.err
    assert why in " ".join(found.out.split())
    assert why in (tmp_path / "out" / "summary.md").read_text()
    report = report_in(tmp_path / "out")
    assert [
        cell["case"] for cell in report["cells"] if cell["comparison"]["kind"] == "regressed"
    ] == ["case-7"]
    assert len(report["comparison"]["baseline"]) == 1
    explained = await ci_evals(tmp_path, "explain", "case-7", "--report", "out")
    assert "0 of 3, left out: likely an outage" in explained.out


async def test_a_base_branch_of_which_no_run_ever_passed_is_no_baseline(tmp_path: Path) -> None:
    await made_a_baseline(tmp_path)
    (tmp_path / "agent.py").write_text("def answer(question):\n    return 'maintenance'\n")
    await main_ran(tmp_path, "base")
    found = await run(tmp_path, *BESIDE_BASE)
    assert "no baseline: 0 of 30 runs on the baseline passed: likely an outage" in found.err
    assert report_in(tmp_path / "out")["comparison"]["reason"].startswith(
        "0 of 30 runs on the baseline passed: likely an outage"
    )


async def test_of_a_base_report_of_which_much_crashed_only_the_answers_count(
    tmp_path: Path,
) -> None:
    await made_a_baseline(tmp_path)
    down = SOURCE.replace("is_down(request.run)", 'question in ("q1", "q2", "q3")')
    (tmp_path / "agent.py").write_text(down)
    await main_ran(tmp_path, "base/out", "--baseline", "base/report.json")
    (tmp_path / "agent.py").write_text(SOURCE)
    found = await ci_evals(tmp_path, "run", "--baseline", "base/out/report.json", "--out", "out")
    assert found.code == 0, found.out
    assert "9 of 30 runs on the baseline failed without an answer, and do not count" in found.err
    report = report_in(tmp_path / "out")
    assert {tuple(cell["comparison"]["base"]) for cell in report["cells"]} == {(9, 9), (12, 12)}
