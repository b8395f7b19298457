"""A service that is down while the planned runs are made, and up again for the repeats, gives no verdict."""

from pathlib import Path

from leftovers import journaled, report_in
from processes import Finished, ci_evals
from suites import write_suite

CASES = 10
AGENT = """
import pathlib

def answer(question, request):
    if pathlib.Path("down").exists() and request.run <= 3:
        raise ConnectionError("the database is away")
    return question
"""


async def run(folder: Path, *arguments: str) -> Finished:
    return await ci_evals(folder, "run", "--baseline", "base", *arguments)


async def made_a_baseline(folder: Path) -> None:
    (folder / "agent.py").write_text(AGENT)
    cases = [{"id": f"case-{n}", "input": f"q{n}", "expect": [{"equals": f"q{n}"}]} for n in range(CASES)]
    providers = [{"name": "agent", "type": "python", "target": "agent:answer"}]
    write_suite(folder, cases, providers=providers, runs=3)
    assert (await ci_evals(folder, "run", "--out", "base", "--runs", "9")).code == 0


async def test_an_outage_is_no_regression(tmp_path: Path) -> None:
    await made_a_baseline(tmp_path)
    (tmp_path / "down").touch()
    found = await run(tmp_path, "--out", "out")
    assert found.code == 3, found.out
    sentence = "an outage: the planned runs failed as one (0 of 30 passed), and 70 repeats of 10 cases show no drop"
    assert sentence in found.out
    assert sentence in found.err
    report = report_in(tmp_path / "out")
    assert report["totals"]["errored"] == 30
    assert report["verdict"]["status"] == "error"
    assert not [cell for cell in report["cells"] if cell["comparison"]["kind"] == "regressed"]


async def test_when_it_is_over_a_resumed_run_makes_every_planned_run_again(tmp_path: Path) -> None:
    await made_a_baseline(tmp_path)
    (tmp_path / "down").touch()
    await run(tmp_path, "--out", "out")
    (tmp_path / "down").unlink()
    found = await run(tmp_path, "--out", "out", "--resume")
    assert found.code == 0, found.out
    assert report_in(tmp_path / "out")["totals"]["passed"] == 30
    assert len([each for each in journaled(tmp_path / "out") if each["status"] == "failed"]) == 30


async def test_a_change_that_breaks_as_much_is_red(tmp_path: Path) -> None:
    await made_a_baseline(tmp_path)
    (tmp_path / "agent.py").write_text("def answer(question):\n    return 'no'\n")
    found = await run(tmp_path, "--out", "out")
    assert found.code == 1, found.out
    assert report_in(tmp_path / "out")["comparison"]["counts"]["regressed"] == CASES
