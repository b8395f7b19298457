"""A base branch that is broken itself: nothing is compared with it, and the verdict says so."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from leftovers import report_in
from processes import Finished, ci_evals
from suites import write_suite

from ci_evals.reports.read import read_summary

CASES = 40
AGENTS = """
import json
import pathlib

def passing(name):
    return json.loads(pathlib.Path("passing.json").read_text())[name]

def first(question):
    return question if int(question) < passing("first") else "maintenance"

def second(question):
    return question if int(question) < passing("second") else "maintenance"
"""
DEAD = 4
NO_BREAK_SPACE = "\u00a0"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=main", "-c", "user.email=main@example.com", *arguments]
    ended = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return ended.stdout.strip()


class Team:
    """A repository whose agents pass as many of the cases as its last change says."""

    def __init__(self, folder: Path, *providers: str, **options: Any) -> None:
        self.folder = folder
        self.runs = 0
        self.newest = "none"
        (folder / "agents.py").write_text(AGENTS)
        cases = [
            {"id": f"case-{n}", "input": f"{n}", "expect": [{"equals": f"{n}"}]}
            for n in range(CASES)
        ]
        write_suite(
            folder,
            cases,
            providers=[
                {"name": name, "type": "python", "target": f"agents:{name}"} for name in providers
            ],
            runs=3,
            **options,
        )
        (folder / ".gitignore").write_text("main-*\npull-request\n__pycache__\n")
        git(folder, "init", "-q", "-b", "main")

    async def push(self, first: int = CASES, second: int = CASES) -> str:
        """Change how many cases pass on main, and leave a report of that; return the commit."""
        self.change(first, second)
        git(self.folder, "add", ".")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", "Change the agents")
        self.runs += 1
        name = f"main-{self.runs}"
        await ci_evals(self.folder, "run", "--baseline", self.newest, "--out", name)
        self.newest = name
        return git(self.folder, "rev-parse", "--short=7", "HEAD")

    def change(self, first: int = CASES, second: int = CASES) -> None:
        text = json.dumps({"first": first, "second": second})
        (self.folder / "passing.json").write_text(text)

    async def pull_request(
        self, first: int = CASES, second: int = CASES, *arguments: str
    ) -> Finished:
        self.change(first, second)
        return await ci_evals(
            self.folder, "run", "--baseline", self.newest, "--out", "pull-request", *arguments
        )

    @property
    def report(self) -> dict[str, Any]:
        return report_in(self.folder / "pull-request")


async def test_nothing_is_compared_with_a_base_branch_that_is_broken(tmp_path: Path) -> None:
    team = Team(tmp_path, "first", gate={"min_pass_rate": 0.7})
    await team.push()
    await team.push()
    since = await team.push(first=1)
    await team.push(first=2)
    found = await team.pull_request(first=CASES - DEAD)
    assert found.code == 0, found.out
    why = f"the baseline itself passes 3.8 % since {since}: not compared"
    assert why in found.err
    assert why in " ".join(found.out.split())
    report = team.report
    assert report["verdict"]["status"] == "borderline"
    assert report["verdict"]["reason"].startswith(why)
    assert report["comparison"]["counts"] == {"not compared": CASES}
    [broken] = report["comparison"]["broken"]
    assert broken["runs"] == [9, 240]
    assert broken["since"]["revision"].startswith(since)
    assert report["comparison"]["variants"] == []
    assert not [each for each in report["results"] if each["run"] > 3], "nothing ran again"

    for name in ("report.html", "summary.md"):
        text = (tmp_path / "pull-request" / name).read_text().replace(NO_BREAK_SPACE, " ")
        assert "the baseline itself passes 3.8 % since" in text.lower()
        assert "9 of 240 runs passed in the reports of the baseline since" in text
        assert "likely an outage" not in text
    again = read_summary(tmp_path / "pull-request" / "report.json")
    assert again.verdict.reason == report["verdict"]["reason"]


@pytest.mark.parametrize(
    ("gate", "code"),
    [
        pytest.param({"require_baseline": True}, 3, id="required"),
        pytest.param({"require_baseline": "expected"}, 3, id="expected"),
        pytest.param({"on_borderline": "fail"}, 1, id="borderline blocks"),
    ],
)
async def test_it_blocks_where_a_comparison_or_a_clear_verdict_is_required(
    tmp_path: Path, gate: dict[str, Any], code: int
) -> None:
    team = Team(tmp_path, "first", gate={"min_pass_rate": 0.7, **gate})
    for passing in (CASES, 0, 0):
        await team.push(first=passing)
    found = await team.pull_request()
    assert found.code == code, found.out
    reason = team.report["verdict"]["reason"]
    assert reason.startswith("the baseline itself passes 0 % since ")
    assert reason.endswith("and the gate requires a comparison") == (code == 3)


async def test_the_first_good_report_ends_it(tmp_path: Path) -> None:
    team = Team(tmp_path, "first")
    for passing in (CASES, CASES, 1, 2):
        await team.push(first=passing)
    ended = await team.push()
    assert report_in(tmp_path / team.newest)["verdict"]["status"] == "borderline"
    found = await team.pull_request(first=CASES - DEAD)
    assert found.code == 1, found.out
    assert "itself passes" not in found.err
    report = team.report
    assert report["comparison"]["counts"] == {"regressed": DEAD, "unchanged": CASES - DEAD}
    assert report["comparison"]["broken"] == report["comparison"]["lost"] == []
    assert report["comparison"]["baseline"][0]["revision"].startswith(ended)
    base = {tuple(cell["comparison"]["base"]) for cell in report["cells"]}
    assert base == {(9, 9)}, "the reports of the broken branch are left out for good"


async def test_a_variant_that_is_broken_on_the_base_branch_does_not_hide_the_others(
    tmp_path: Path,
) -> None:
    team = Team(tmp_path, "first", "second", gate={"min_pass_rate": 0.7})
    await team.push()
    since = await team.push(second=1)
    await team.push(second=1)
    found = await team.pull_request()
    assert found.code == 0, found.out
    why = f"the baseline itself passes 2.5 % on second since {since}: not compared"
    report = team.report
    assert report["verdict"]["status"] == "borderline"
    assert report["verdict"]["reason"].startswith(why)
    assert report["comparison"]["counts"] == {"unchanged": CASES, "not compared": CASES}
    assert [each["provider"] for each in report["comparison"]["variants"]] == ["first"]
    assert "6 of 240 runs of second passed in the reports" in " ".join(found.out.split())
    assert "baseline 100 %" not in found.out, "that is of the first variant alone"

    found = await team.pull_request(first=CASES - DEAD)
    assert found.code == 1, found.out
    assert f"{DEAD} cases regressed" in found.out
    assert why in " ".join(found.out.split())


async def test_a_case_is_not_compared_with_a_broken_base_branch(tmp_path: Path) -> None:
    team = Team(tmp_path, "first")
    for passing in (CASES, 1, 1):
        await team.push(first=passing)
    await team.pull_request(first=CASES - DEAD)
    found = await ci_evals(tmp_path, "explain", "case-39", "--report", "pull-request")
    assert (
        "not compared: the baseline itself is broken: "
        "0 of 6 on the baseline, 0 of 3 here" in " ".join(found.out.split())
    )
    reports = found.out.partition("report by report")[2].splitlines()[1:4]
    assert [line.partition(": ")[2] for line in reports] == [
        "0 of 3, not compared",
        "0 of 3, not compared",
        "3 of 3, not compared",
    ]
    compared = await ci_evals(tmp_path, "compare", team.newest, "pull-request")
    assert compared.code == 3
    assert "the baseline itself passes 2.5 % since" in compared.out
