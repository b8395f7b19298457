"""Luck that cases share: reports of main that vary more than independent runs widen bounds."""

import json
from collections.abc import Sequence
from itertools import pairwise
from math import ceil, sqrt
from pathlib import Path
from typing import Any

import comments
import pytest
from leftovers import report_in
from processes import Finished, ci_evals
from scipy import stats
from suites import write_suite

from ci_evals.reports.read import read_summary
from ci_evals.stats.power import detectable_drop

CASES, RUNS = 40, 3
SWING = (0.1, -0.06, 0.09, -0.09, 0.1, -0.1, 0.06, -0.1, 0.1, -0.08, 0.09, 0.1)
"""How much more often each report of main passes than it does on average, oldest first."""
LOW_TIDE = -0.12
BAR = 0.86
FEW = 4
"""So many reports of main don't show how much they vary."""

AGENT = """
import json
import pathlib
import random

def answer(question, request):
    tide = json.loads(pathlib.Path("tide.json").read_text())
    luck = random.Random(f"{tide['name']} {question} {request.run}")
    return question if luck.random() < 0.85 + tide["by"] else "maintenance"
"""


class Team:
    """A suite whose cases all pass more or less often in one report than in another."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        (folder / "agent.py").write_text(AGENT)
        cases = [
            {"id": f"case-{n}", "input": f"{n}", "expect": [{"equals": f"{n}"}]}
            for n in range(CASES)
        ]
        providers = [{"name": "agent", "type": "python", "target": "agent:answer"}]
        options = {"runs": RUNS, "confirm_runs": 0} | options
        write_suite(folder, cases, providers=providers, **options)

    async def push(self, swing: Sequence[float]) -> None:
        """Make reports of main, each compared with the one before it."""
        newest = "none"
        for number, by in enumerate(swing, 1):
            self.set_tide(f"main-{number}", by)
            name = f"main-{number}"
            await ci_evals(self.folder, "run", "--baseline", newest, "--out", name)
            newest = name

    async def pull_request(self, baseline: str, *arguments: str) -> Finished:
        """Run a pull request that changes nothing, at a time when all cases have bad luck."""
        self.set_tide("pull request", LOW_TIDE)
        return await ci_evals(
            self.folder, "run", "--baseline", baseline, "--out", "out", *arguments
        )

    def set_tide(self, name: str, by: float) -> None:
        (self.folder / "tide.json").write_text(json.dumps({"name": name, "by": by}))

    @property
    def report(self) -> dict[str, Any]:
        return report_in(self.folder / "out")


def overdispersion_in(report: dict[str, Any]) -> float:
    """The factor, from the reports of main that a report hands on."""
    names = [each["id"] for each in report["base"]["reports"]]
    histories = [
        {name: (passed, graded) for name, passed, graded, *_ in cell["history"]}
        for cell in report["base"]["cells"]
    ]
    names = [name for name in names if name in histories[0]]
    squares = []
    for newer, older in pairwise(names):
        difference = variance = 0.0
        for history in histories:
            passed = sum(k for k, _ in history.values())
            runs = sum(n for _, n in history.values())
            weight = 2 if passed >= 2 * (runs - passed) else 1
            difference += weight * (history[newer][0] - history[older][0]) / RUNS
            variance += weight**2 * passed * (runs - passed) / (runs * (runs - 1)) * 2 / RUNS
        squares.append(min(difference**2 / variance, 10))
    return (sum(squares) + 5) / (len(squares) + 5)


def pool_in(report: dict[str, Any], case: str) -> tuple[int, int]:
    """The runs of a case on main, passed and all."""
    [history] = [cell["history"] for cell in report["base"]["cells"] if cell["case"] == case]
    return sum(each[1] for each in history), sum(each[2] for each in history)


def upper_bound_in(report: dict[str, Any], overdispersion: float) -> float:
    """The upper bound of the suite's pass rate, from its cells."""
    passed = [cell["passed"] for cell in report["cells"]]
    rate = sum(passed) / (CASES * RUNS)
    noise = sum(k * (RUNS - k) / (RUNS**2 * (RUNS - 1)) for k in passed) + 3 / RUNS**2
    n_eff = max(CASES * RUNS, rate * (1 - rate) / (noise / CASES**2)) / overdispersion
    return float(stats.beta.ppf(0.95, rate * n_eff + 1, (1 - rate) * n_eff))


async def test_a_swing_that_main_has_itself_is_no_reason_for_red(tmp_path: Path) -> None:
    team = Team(tmp_path, gate={"min_pass_rate": BAR})
    await team.push(SWING)

    few = await team.pull_request(f"main-{FEW}")
    assert few.code == 1
    assert {scope["status"] for scope in team.report["verdict"]["scopes"]} == {"fail"}
    few_reports = "cases are taken as independent: fewer than 5 reports of the baseline"
    assert few_reports in " ".join(few.out.split())

    many = await team.pull_request(f"main-{len(SWING)}")
    report = team.report
    assert (many.code, report["verdict"]["status"]) == (0, "borderline"), report["verdict"]
    assert few_reports not in " ".join(many.out.split())
    factor = overdispersion_in(report)
    [variant] = report["comparison"]["variants"]
    assert variant["overdispersion"] == pytest.approx(factor)
    [suite] = report["verdict"]["scopes"]
    assert suite["upper"] == pytest.approx(upper_bound_in(report, factor), abs=1e-6)
    assert upper_bound_in(report, 1) < BAR < suite["upper"]
    unwidened = stats.norm.cdf(stats.norm.ppf(variant["p"]) * sqrt(factor))
    assert unwidened < 0.05 < variant["p"]

    times = f"{factor:.1f} times as much as independent runs, so bounds are wider"
    told = f"eports of the baseline vary {times}"
    assert told in " ".join(many.out.split())
    for name in ("summary.md", "report.html"):
        assert told in (tmp_path / "out" / name).read_text()
    comment = comments.text_of(read_summary(tmp_path / "out"))
    assert told in comment
    tables = [(0, RUNS, *pool_in(report, cell["case"])) for cell in report["cells"]]
    drop = detectable_drop(tables, further_rounds=0)
    assert drop is not None
    points = ceil(100 * drop * sqrt(factor))
    assert f"this comparison detects drops of {points} points or more" in comment


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"max_runs": 2 * RUNS}, {"runs": 2 * RUNS, "stop_early": True}],
    ids=["max_runs", "stop_early"],
)
async def test_no_run_stops_for_a_verdict_that_it_does_not_get(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    team = Team(tmp_path, gate={"min_pass_rate": BAR}, **options)
    await team.push(SWING)
    await team.pull_request(f"main-{FEW}")
    assert team.report["verdict"]["status"] == "fail"
    assert len(team.report["results"]) < 2 * RUNS * CASES
    await team.pull_request(f"main-{len(SWING)}")
    # The bar is not surely missed, so all rounds are run, whatever the comparison says of them.
    assert len(team.report["results"]) >= 2 * RUNS * CASES
