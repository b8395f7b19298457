"""Figures in sentences, computed again from report.json by scipy."""

import json
import re
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from leftovers import report_in
from processes import ci_evals
from suites import write_suite

AGENT = """
import json
import pathlib

def answer(question, request):
    passing = json.loads(pathlib.Path("passing.json").read_text())
    return question if request.run in passing[question] else "maintenance"
"""


def write_team(folder: Path, passing: dict[str, list[int]], **options: Any) -> None:
    """Write a suite of which each case passes the runs of these numbers."""
    cases = []
    for name in passing:
        case = {"id": name, "input": name, "expect": [{"equals": name}]}
        cases.append(case | options.pop(name, {}))
    (folder / "agent.py").write_text(AGENT)
    change(folder, passing)
    providers = [{"name": "agent", "type": "python", "target": "agent:answer"}]
    write_suite(folder, cases, providers=providers, **options)


def change(folder: Path, passing: dict[str, list[int]]) -> None:
    (folder / "passing.json").write_text(json.dumps(passing))


def statuses(report: dict[str, Any], case: str) -> list[str]:
    return [each["status"] for each in report["results"] if each["case"] == case]


def figures_after(text: str, folder: Path) -> list[float]:
    """The figures of the line of summary.md that has a text, from there on."""
    summary = (folder / "out" / "summary.md").read_text()
    [line] = [line for line in summary.splitlines() if text in line]
    return [float(each) for each in re.findall(r"[\d.]+", line.partition(text)[2])]


# Flaky cases.


async def test_flaky_cases_are_said_to_differ_as_two_of_their_runs_do(tmp_path: Path) -> None:
    passing = {
        "often": [1, 2, 3, 4],
        "rarely": [1, 2],
        "always": [1, 2, 3, 4, 5],
        "never": [],
    }
    never = {"min_pass_rate": 0}
    write_team(tmp_path, passing, runs=5, never=never, gate={"min_pass_rate": 0.3})
    await ci_evals(tmp_path, "run", "--baseline", "none", "--out", "out")
    report = report_in(tmp_path / "out")
    disagreeing = []
    for case in ("often", "rarely"):
        pairs = list(combinations(statuses(report, case), 2))
        disagreeing.append(sum(one != other for one, other in pairs) / len(pairs))
    [percent] = figures_after("(2): two runs of the same case disagree in", tmp_path)
    assert percent == pytest.approx(100 * fmean(disagreeing), abs=0.05)
    assert {cell["case"]: cell["outcome"] for cell in report["cells"]} == {
        "often": "flaky",
        "rarely": "flaky",
        "always": "passed",
        "never": "failed",
    }


async def test_a_case_that_fails_every_run_is_failing_whatever_its_bar(tmp_path: Path) -> None:
    never = {"min_pass_rate": 0}
    write_team(tmp_path, {"fine": [1, 2, 3], "never": []}, runs=3, never=never)
    await ci_evals(tmp_path, "run", "--baseline", "none", "--out", "base")
    found = await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "out")
    assert found.code == 0
    text = (tmp_path / "out" / "summary.md").read_text()
    assert "Still failing (1)" in text
    assert "laky" not in text
    assert report_in(tmp_path / "out")["cells"][1]["outcome"] == "failed"


async def test_steady_runs_are_not_flaky_even_if_the_two_sides_differ(tmp_path: Path) -> None:
    write_team(tmp_path, {"fine": [1, 2, 3], "cured": []}, runs=3, gate={"min_pass_rate": 0.4})
    await ci_evals(tmp_path, "run", "--baseline", "none", "--out", "base")
    change(tmp_path, {"fine": [1, 2, 3], "cured": [1, 2, 3]})
    await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "out")
    report = report_in(tmp_path / "out")
    assert report["comparison"]["counts"] == {"unchanged": 2}
    [_, cured] = [cell["comparison"]["sentence"] for cell in report["cells"]]
    assert cured == "cured: 0 of 3 on the baseline, 3 of 3 here: too few runs to call it a change"
