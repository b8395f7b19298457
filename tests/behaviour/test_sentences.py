"""Figures in sentences, computed again from report.json by scipy."""

import json
import re
from html import unescape
from itertools import combinations
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import pytest
from leftovers import journaled, report_in
from processes import ci_evals
from scipy import optimize, stats
from suites import write_suite

NO_BREAK_SPACE = "\u00a0"

AGENT = """
import json
import pathlib

def answer(question, request):
    passing = json.loads(pathlib.Path("passing.json").read_text())
    return question if request.run in passing[question] else "maintenance"
"""

ALWAYS = list(range(1, 30))
NAMES = [f"case-{number}" for number in range(10)]


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


# Latency.


def slow_down(folder: Path, seconds: float) -> None:
    """Give the runs of a report latencies of their own, as those of a test are too short."""
    report = report_in(folder)
    for number, result in enumerate(report["results"]):
        result["latency_s"] = seconds * (1 + 0.1 * (number % 7))
    (folder / "report.json").write_text(json.dumps(report))


async def main_ran(folder: Path, *latencies_s: float) -> None:
    """Leave reports of main with such latencies, each compared with the one before it."""
    before = "none"
    for number, latency_s in enumerate(latencies_s):
        name = f"main-{number}"
        await ci_evals(folder, "run", "--baseline", before, "--out", name)
        slow_down(folder / name, latency_s)
        before = name
    await ci_evals(folder, "run", "--baseline", before, "--out", "out")


def latency_ratio(report: dict[str, Any]) -> tuple[float, float, float]:
    """The ratio of the cases' median latencies, and its bounds by Cochran's formula."""
    here = []
    for cell in report["cells"]:
        runs = [each for each in report["results"] if each["case"] == cell["case"]]
        here.append(median([each["latency_s"] for each in runs if each["run"] <= 3]))
    there = [cell["per_run"][-1] for cell in report["base"]["cells"]]
    ratio = sum(here) / sum(there)
    residuals = [mine - ratio * theirs for mine, theirs in zip(here, there, strict=True)]
    size = len(here)
    error = (sum(each**2 for each in residuals) * size / (size - 1)) ** 0.5 / sum(there)
    half = stats.t.ppf(0.95, size - 1) * error
    return ratio, max(0, ratio - half), ratio + half


TEN = {f"case-{number}": [1, 2, 3] for number in range(10)}


async def test_latency_has_bounds_next_to_the_spread_of_the_bases_reports(tmp_path: Path) -> None:
    write_team(tmp_path, TEN, runs=3)
    await main_ran(tmp_path, 20.0, 31.0, 25.0)
    report = report_in(tmp_path / "out")
    change = variant_row(tmp_path)
    ratio, lower, upper = (round(100 * (each - 1)) for each in latency_ratio(report))
    points = report["base"]["trend"]
    medians_s = [point["variants"][0]["latency_p50_s"] for point in points]
    fastest, slowest = (f"{each:.1f}" for each in (min(medians_s), max(medians_s)))
    assert f"{ratio} % ({lower} to {upper} %); the baseline: {fastest} s to {slowest} s" in change


async def test_with_two_reports_of_the_base_latency_has_no_bounds(tmp_path: Path) -> None:
    gate = {"max_latency_increase": 1}
    write_team(tmp_path, TEN, runs=3, gate=gate)
    await main_ran(tmp_path, 2e-5, 3e-5)
    report = report_in(tmp_path / "out")
    ratio, _, _ = latency_ratio(report)
    assert f"<sub>+{100 * (ratio - 1):,.0f} %, can&#39;t tell</sub>" in variant_row(tmp_path)
    text = unescape((tmp_path / "out" / "summary.md").read_text()).replace(NO_BREAK_SPACE, " ")
    assert f"latency is {ratio:.2f} times the baseline's, and the gate allows" in text
    assert "not gated: that needs 3 base reports, there are 2" in text


def variant_row(folder: Path) -> str:
    """The figures of the only variant in summary.md."""
    text = (folder / "out" / "summary.md").read_text().replace(NO_BREAK_SPACE, " ")
    rows = [line for line in text.splitlines() if line.startswith("| <code>agent</code> |")]
    return rows[0]


# Power.


async def test_power_says_in_its_table_how_likely_a_drop_is_seen(tmp_path: Path) -> None:
    write_team(tmp_path, TEN, runs=3)
    text = await ci_evals(tmp_path, "power")
    found = json.loads((await ci_evals(tmp_path, "power", "--format", "json")).out)
    rate, correlation = found["rate"], found["correlation"]

    def chance(drop: float, base_runs: int, level: float) -> float:
        """The chance of red if all cases get worse in proportion, by the normal distribution."""
        left = 1 - drop / rate
        between = rate * (1 - rate) * correlation
        planned_and_further = 10 * (3 + 3)
        here = rate * left * (1 - rate * left) - between * left**2
        here = here / planned_and_further + 1 / planned_and_further**2
        total = 10 * base_runs
        there = rate * (1 - rate) * (1 - correlation) / total + 3 / total**2
        errors = drop / (1.1 * (here + there) ** 0.5)
        return float(stats.norm.cdf(errors - stats.norm.ppf(1 - level)))

    def missing(drop: float) -> float:
        return chance(drop, 30, 0.05) - 0.8

    drop = optimize.brentq(missing, 0.01, rate)
    assert found["sizes"][0]["pooled"] == pytest.approx(drop, abs=1e-5)
    [row] = [line for line in text.out.splitlines() if line.startswith("10 × 3 ")]
    assert f"{100 * drop:.1f} points" in row


# Withdrawn rounds.


async def test_each_withdrawn_round_has_one_sentence(tmp_path: Path) -> None:
    names = [f"case-{number}" for number in range(12)]
    write_team(tmp_path, {name: [2, 3] for name in names}, runs=3, gate={"min_pass_rate": 0.8})
    suite = json.loads((tmp_path / "evals.yaml").read_text())
    other = {"name": "other", "type": "python", "target": "other:answer"}
    suite["providers"].append(other)
    (tmp_path / "evals.yaml").write_text(json.dumps(suite))
    (tmp_path / "other.py").write_text(AGENT.replace("passing.json", "passing-of-other.json"))
    passing = {name: [1, 2] for name in names} | {names[0]: []}
    (tmp_path / "passing-of-other.json").write_text(json.dumps(passing))
    found = await ci_evals(tmp_path, "run", "--baseline", "none", "--out", "out")
    assert found.code == 3
    text = (tmp_path / "out" / "summary.md").read_text()
    words = " ".join(found.out.split())
    for provider, number in (("agent", 1), ("other", 3)):
        first: dict[tuple[str, int], str] = {}
        for line in journaled(tmp_path / "out"):
            if line["provider"] == provider:
                first.setdefault((line["case"], line["run"]), line["status"])
        failed = [run for (_, run), status in first.items() if status == "failed"]
        others = [status for (_, run), status in first.items() if run != number]
        inside = "all" if set(failed) == {number} else f"{failed.count(number)} of"
        outside = "all" if set(others) == {"passed"} else f"{others.count('passed')} of"
        sentence = (
            f"{provider}: {inside} {len(failed)} failures were in run {number}, "
            f"and {outside} {len(others)} other runs passed: likely an outage"
        )
        assert text.count(sentence) == 1
        assert words.count(f"Outage: {sentence}") == 1
    assert text.startswith("## ⚠️ 24 of 72 runs errored: likely 2 outages\n")


async def test_a_round_withdrawn_from_a_red_report_has_its_sentence(tmp_path: Path) -> None:
    names = [f"case-{number}" for number in range(12)]
    always = list(range(1, 20))
    gate = {"min_pass_rate": 0.8}
    write_team(tmp_path, dict.fromkeys(names, always), runs=3, gate=gate)
    await ci_evals(tmp_path, "run", "--runs", "9", "--baseline", "none", "--out", "base")
    change(tmp_path, {name: [1, 3, *range(4, 20)] for name in names} | {"case-7": []})
    found = await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "out")
    assert found.code == 1
    assert "1 case regressed: case-7" in found.out
    why = "12 of 14 failures were in run 2, and 22 of 24 other runs passed: likely an outage"
    assert f"Outage: {why}" in " ".join(found.out.split())


# Cases.


async def test_a_case_is_named_with_the_p_that_decided_and_explained_with_both(
    tmp_path: Path,
) -> None:
    always = list(range(1, 20))
    names = [f"case-{number}" for number in range(10)]
    write_team(tmp_path, dict.fromkeys(names, always), runs=3, gate={"min_pass_rate": 0.5})
    await ci_evals(tmp_path, "run", "--runs", "9", "--baseline", "none", "--out", "base")
    change(tmp_path, dict.fromkeys(names, always) | {"case-2": [], "case-7": [4, 5, 6]})
    await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "out")
    report = report_in(tmp_path / "out")
    p_values = []
    for cell in report["cells"]:
        passed, graded = cell["comparison"]["head"]
        base_passed, base_graded = cell["comparison"]["base"]
        table = [[passed, graded - passed], [base_passed, base_graded - base_passed]]
        is_suspect = cell["comparison"]["kind"] in ("regressed", "suspect")
        p_values.append(stats.fisher_exact(table, "less").pvalue if is_suspect else 1.0)
    adjusted = stats.false_discovery_control(p_values)
    for number in (2, 7):
        cell = report["cells"][number]
        assert cell["comparison"]["kind"] == "regressed"
        decided = f"p = {adjusted[number]:.2g}, adjusted for 10 cases"
        assert cell["comparison"]["sentence"].endswith(f"here; {decided}")
        found = await ci_evals(tmp_path, "explain", cell["case"], "--report", "out")
        words = " ".join(found.out.split())
        assert decided in words
        assert f"p = {p_values[number]:.2g}, {adjusted[number]:.2g} adjusted for" in words


async def test_a_case_that_breaks_on_all_variants_has_the_p_over_all_of_them(
    tmp_path: Path,
) -> None:
    good = dict.fromkeys(NAMES, ALWAYS)
    write_team(tmp_path, good, runs=3, gate={"min_pass_rate": 0.3})
    suite = json.loads((tmp_path / "evals.yaml").read_text())
    suite["providers"] = [suite["providers"][0] | {"name": name} for name in ("one", "two", "six")]
    (tmp_path / "evals.yaml").write_text(json.dumps(suite))
    await ci_evals(tmp_path, "run", "--baseline", "none", "--out", "base")
    change(tmp_path, good | {NAMES[3]: []})
    await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "out")
    report = report_in(tmp_path / "out")
    chance = 1.0
    for cell in report["cells"]:
        if cell["case"] == NAMES[3]:
            here, base = cell["comparison"]["head"][1], cell["comparison"]["base"][1]
            chance *= stats.hypergeom.pmf(here, here + base, here, here)
    decided = f"p = {len(NAMES) * chance:.2g}, adjusted for 10 cases"
    reason = report["verdict"]["reason"]
    assert f"case-3 on 3 of 3 variants: 9 of 9 on the baseline, 0 of 36 here; {decided}" in reason
    sentences = [cell["comparison"]["sentence"] for cell in report["cells"]]
    same = [each for each in sentences if each.endswith(f"; worse on 3 of 3 variants, {decided}")]
    assert len(same) == 3


async def test_further_rounds_that_a_budget_cut_are_not_said_to_have_decided(
    tmp_path: Path,
) -> None:
    good = dict.fromkeys(NAMES, ALWAYS)
    write_team(tmp_path, good, runs=3, gate={"min_pass_rate": 0.3}, budget={"max_cost_usd": 0.35})
    agent = AGENT.replace("return question", "text = question")
    agent += '    return {"output": text, "cost_usd": 0.01}\n'
    (tmp_path / "agent.py").write_text(agent)
    await ci_evals(tmp_path, "run", "--baseline", "none", "--out", "base")
    change(tmp_path, good | {key: [2, 3, 4, 5, 6] for key in NAMES[:4]})
    found = await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "out")
    assert "agent may be worse as a whole: 3 more runs of 10 cells" in found.err
    report = report_in(tmp_path / "out")
    [variant] = report["comparison"]["variants"]
    assert not variant["further_rounds"]
    ran = sum(each["run"] > 3 and each["status"] == "passed" for each in report["results"])
    assert 0 < ran < 30
    text = " ".join(found.out.split())
    assert "In doubt: 3 further rounds of agent (incomplete, so not counted)" in text
    assert f"not counted), {ran} of 30 more runs" in text
    assert f"+{ran} to be sure, $" in text


# The baseline.


async def test_the_rate_of_the_baseline_is_of_the_reports_that_are_named_with_it(
    tmp_path: Path,
) -> None:
    names = [f"case-{number}" for number in range(10)]
    bad = {key: [1, 2, 3] for key in names} | {key: [] for key in names[:2]}
    good = {key: [1, 2, 3] for key in names} | {names[1]: [1, 3]}
    write_team(tmp_path, bad, runs=3, gate={"min_pass_rate": 0.3})
    before = "none"
    for number, passing in enumerate((bad, good, good)):
        change(tmp_path, passing)
        await ci_evals(tmp_path, "run", "--baseline", before, "--out", f"main-{number}")
        before = f"main-{number}"
    found = await ci_evals(tmp_path, "run", "--baseline", before, "--out", "out")
    report = report_in(tmp_path / "out")
    rates = []
    for cell in report["base"]["cells"]:
        runs = [(passed, graded) for _, passed, graded, *_ in cell["history"][:2]]
        rates.append(sum(passed for passed, _ in runs) / sum(graded for _, graded in runs))
    words = " ".join(found.out.split())
    assert f" baseline {100 * fmean(rates):.1f} % (newest 2 reports)" in words
    assert "and 2 reports before it (9 runs per case)" in words


async def test_only_reports_whose_runs_count_are_counted(tmp_path: Path) -> None:
    good = dict.fromkeys(NAMES, ALWAYS)
    write_team(tmp_path, good, runs=6)
    before = "none"
    out: dict[str, list[int]] = {name: [] for name in NAMES}
    past = [*[good] * 11, out, good]
    for number, passing in enumerate(past):
        change(tmp_path, passing)
        await ci_evals(tmp_path, "run", "--baseline", before, "--out", f"main-{number}")
        before = f"main-{number}"
    found = await ci_evals(tmp_path, "run", "--baseline", before, "--out", "out")
    report = report_in(tmp_path / "out")
    pooled: set[str] = set()
    for cell in report["base"]["cells"]:
        counting = [each for each in cell["history"] if each[0] not in cell["outages"]]
        pooled.update(id_ for id_, *_ in counting[:5])
    assert len(pooled) == 5
    assert "and 4 reports before it (30 runs per case)" in " ".join(found.out.split())
    assert len(report["base"]["reports"]) < len(past), "older reports are forgotten"


# Variants.


def weighted_p(report: dict[str, Any], base_reports: int) -> float:
    """The chance of as many failures here, those of cases that usually pass counting twice.

    That is, if nothing had changed: given all failures of a case on both sides, those here are
    hypergeometric. Runs here are the planned ones and the further rounds.
    """
    distribution, observed = [1.0], 0
    for cell in report["base"]["cells"]:
        here = [
            each["status"] == "passed"
            for each in report["results"]
            if each["case"] == cell["case"] and each["run"] <= 6
        ]
        base = cell["history"][:base_reports]
        total = len(here) + sum(graded for _, _, graded, *_ in base)
        passed = sum(here) + sum(each for _, each, *_ in base)
        failed = total - passed
        weight = 2 if passed >= 2 * failed else 1
        observed += weight * (len(here) - sum(here))
        chances = [0.0] * (weight * failed + 1)
        for number in range(failed + 1):
            chances[weight * number] = stats.hypergeom.pmf(number, total, failed, len(here))
        distribution = list(np.convolve(distribution, chances))
    return sum(distribution[observed:])


async def variant_after(
    folder: Path, past: list[dict[str, list[int]]], now: dict[str, list[int]]
) -> dict[str, Any]:
    """The comparison of the only variant with reports of main, the oldest first."""
    write_team(folder, now, runs=3, gate={"min_pass_rate": 0.3})
    before = "none"
    for number, passing in enumerate(past):
        change(folder, passing)
        await ci_evals(folder, "run", "--baseline", before, "--out", f"main-{number}")
        before = f"main-{number}"
    change(folder, now)
    await ci_evals(folder, "run", "--baseline", before, "--out", "out")
    [variant] = report_in(folder / "out")["comparison"]["variants"]
    assert variant["further_rounds"]
    return dict(variant)


async def test_the_p_of_a_variant_is_that_of_the_rates_beside_it(tmp_path: Path) -> None:
    good = dict.fromkeys(NAMES, ALWAYS)
    bad = good | {name: [] for name in NAMES[:3]}
    now = good | {name: [1, 2, *range(5, 20)] for name in NAMES[:6]}
    variant = await variant_after(tmp_path, [bad, good, good], now)
    report = report_in(tmp_path / "out")
    p = weighted_p(report, base_reports=2)
    assert variant["sentence"].startswith(
        "pass rate 100 % on the baseline (its newest 2 reports), 80 % here over 10 cases, "
        f"with 3 further rounds; p = {p:.2g} (by chance, once in "
    )
    assert f"-20.0 points, p = {p:.2g}" in found_in_summary(tmp_path)


def found_in_summary(folder: Path) -> str:
    text = (folder / "out" / "summary.md").read_text()
    return text.replace(NO_BREAK_SPACE, " ")
