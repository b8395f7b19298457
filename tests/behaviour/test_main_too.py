"""What a report says of main: what main misses or fails as well, and what it is compared with."""

import json
import re
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from leftovers import report_in
from processes import Finished, ci_evals
from suites import AGENT, write_suite

NO_BREAK_SPACE = "\u00a0"
EVERY_FORMAT = {"formats": ["json", "markdown", "html"]}

AGENT_CODE = """
import json
import pathlib

PASSING = json.loads(pathlib.Path("passing.json").read_text())

def answer(question, request):
    return question if request.run in PASSING[question] else "maintenance"
"""

Passing = Mapping[str, Sequence[int]]
"""The numbers of the runs that pass, by case."""

ALWAYS = range(1, 40)


def write_team(folder: Path, passing: Passing, **options: Any) -> None:
    """Write a suite whose agent passes these runs; `case` has further keys of cases."""
    of_cases = options.pop("case", {})
    cases = []
    for name in passing:
        case = {"id": name, "input": name, "expect": [{"equals": name}]}
        cases.append(case | of_cases.get(name, {}))
    (folder / "agent.py").write_text(AGENT_CODE)
    write_suite(folder, cases, **{"providers": [AGENT], "report": EVERY_FORMAT, **options})
    change(folder, passing)


def change(folder: Path, passing: Passing) -> None:
    (folder / "passing.json").write_text(json.dumps(passing, default=list))


async def run(folder: Path, out: str, *bases: str) -> Finished:
    """Run the suite, compared with earlier reports of the same folder, the newest last."""
    wanted = bases or ("none",)
    options = [option for base in wanted for option in ("--baseline", base)]
    return await ci_evals(folder, "run", "--out", out, *options)


def markdown(folder: Path) -> str:
    return readable((folder / "out" / "summary.md").read_text())


def page(folder: Path) -> str:
    return readable((folder / "out" / "report.html").read_text())


def readable(text: str) -> str:
    return unescape(text).replace(NO_BREAK_SPACE, " ")


def part_of_page(folder: Path, name: str) -> list[str]:
    """The texts of the columns of a tag, variant, prompt or provider in its table."""
    [row] = re.findall(rf'<tr[^>]*><th scope="row" title="{name}">.*?</tr>', page(folder))
    return [re.sub("<[^>]+>", "", cell).strip() for cell in re.findall(r"<td.*?</td>", row)]


# A part of the matrix with a named case.


async def test_a_tag_and_a_variant_with_a_named_case_are_worse(tmp_path: Path) -> None:
    passing = {f"sum-{number}": ALWAYS for number in range(1, 9)} | {"fix-total": ALWAYS}
    tags = {"fix-total": {"tags": ["math"]}}
    providers = [{**AGENT, "name": name} for name in ("small", "large")]
    write_team(tmp_path, passing, runs=3, providers=providers, case=tags)
    for base in ("base-1", "base-2", "base-3"):
        await run(tmp_path, base)
    change(tmp_path, passing | {"fix-total": []})
    found = await run(tmp_path, "out", "base-1", "base-2", "base-3")
    assert found.code == 1
    said = "-11.1 points, 1 case worse"
    assert found.out.count(said) == 2
    assert markdown(tmp_path).count(f"| {said} |") == 2
    assert part_of_page(tmp_path, "math")[-1] == "worse"
    for variant in ("small", "large"):
        assert part_of_page(tmp_path, variant)[-1] == "worse"
    for text in (found.out, markdown(tmp_path), page(tmp_path)):
        assert "points, can't tell" not in text
        assert "probably worse" not in text
    for variant in report_in(tmp_path / "out")["comparison"]["variants"]:
        assert variant["sentence"].endswith("88.9 % here over 9 cases: 1 case worse")


# What it is compared with.


async def test_a_table_is_about_one_baseline_and_says_which(tmp_path: Path) -> None:
    names = [f"case-{number}" for number in range(40)]
    passing: dict[str, Sequence[int]] = dict.fromkeys(names, ALWAYS)
    before = passing | {name: [] for name in names[:4]}
    write_team(tmp_path, before, runs=3, gate={"min_pass_rate": 0.5})
    reports = [f"base-{number}" for number in range(1, 6)]
    for number, out in enumerate(reports):
        if number == 2:  # from then on, main is better
            change(tmp_path, passing)
        await run(tmp_path, out)
    change(tmp_path, passing | {names[-1]: ALWAYS[1:]})
    found = await run(tmp_path, "out", *reports)
    assert found.code == 0
    said = "baseline 100 % (newest report)"
    assert f"{said} \N{MIDDLE DOT} " in found.out, "among the facts"
    assert f"\n{said}, here 99.2 %\n" in found.out, "below the figures"
    assert f"-0.8 points, can't tell<br><sub>{said}, here 99.2 %</sub>" in markdown(tmp_path)
    assert "<bdi>baseline</bdi> (newest report)" in page(tmp_path)
    assert "100 % \N{RIGHTWARDS ARROW} 99.2 %" in re.sub("<[^>]+>", "", page(tmp_path))


# Bars that main misses as well.


def flaky_team(folder: Path, **options: Any) -> dict[str, Sequence[int]]:
    """Write a suite of which main passes 75 %, by a few dead cases and some that vary."""
    passing: dict[str, Sequence[int]] = {f"fine-{number}": ALWAYS for number in range(12)}
    passing |= {f"dead-{number}": [] for number in range(3)}
    passing |= {f"varies-{number}": ALWAYS[1:] for number in range(3)}
    write_team(folder, passing, **{"runs": 3, "gate": {"min_pass_rate": 0.95}, **options})
    return passing


async def test_a_bar_that_main_misses_as_well_says_whose_it_is(tmp_path: Path) -> None:
    flaky_team(tmp_path)
    await run(tmp_path, "base-1")
    await run(tmp_path, "base-2")
    found = await run(tmp_path, "out", "base-1", "base-2")
    assert found.code == 1, "a bar is a bar"
    said = "77.8 % passed, 95 % needed; the baseline has 77.8 %, so this change did not cause it"
    assert found.out.startswith(f"✗ FAIL  {said}\n")
    assert markdown(tmp_path).startswith(f"## ❌ {said}\n")
    assert said in page(tmp_path)
    assert "so this change did not cause it" in report_in(tmp_path / "out")["verdict"]["reason"]
    assert "\nStill failing (6): dead-0, dead-1, dead-2, 3 more\n" in found.out, "folded"
    assert "maintenance" not in found.out, "nothing of it is news"
    assert re.search('<details class="group bad">\\n<summary><h3>Still failing ', page(tmp_path))


async def test_what_is_worse_is_listed_below_a_bar_that_main_misses_as_well(tmp_path: Path) -> None:
    passing = flaky_team(tmp_path)
    for base in ("base-1", "base-2", "base-3"):
        await run(tmp_path, base)
    change(tmp_path, passing | {"fine-3": []})
    found = await run(tmp_path, "out", "base-1", "base-2", "base-3")
    assert found.code == 1
    assert found.out.startswith("✗ FAIL  1 case regressed: fine-3\n")
    assert "did not cause" not in found.out
    listed, _, _ = found.out.partition("pass rate")
    assert "fine-3 → maintenance" in listed
    assert "dead" not in listed
    assert "varies" not in listed


# Too little history.


@pytest.mark.parametrize(("cases", "number"), [(5, "second"), (40, "third")])
async def test_a_headline_says_from_which_report_on_a_case_can_be_named(
    tmp_path: Path, cases: int, number: str
) -> None:
    passing: dict[str, Sequence[int]] = {f"case-{number}": ALWAYS for number in range(cases)}
    write_team(tmp_path, passing, runs=1, gate={"min_pass_rate": 0.5})
    await run(tmp_path, "base-1")
    change(tmp_path, passing | {"case-0": [], "case-1": []})
    found = await run(tmp_path, "out", "base-1")
    assert found.code == 0
    lack = f"too little history to name a case: from the {number} report of the baseline on"
    said = f"{cases - 2} of {cases} runs passed; {lack}"
    assert found.out.startswith(f"✓ PASS  {said}\n")
    assert markdown(tmp_path).startswith(f"## ✅ {said}\n")
    assert said in page(tmp_path)

    change(tmp_path, passing)
    calm = await run(tmp_path, "out", "base-1")
    assert "too little history" not in calm.out, "nothing looks worse"
    await run(tmp_path, "base-2")
    bases = ["base-1", "base-2"]
    if number == "third":
        change(tmp_path, passing | {"case-0": []})
        assert lack in (await run(tmp_path, "out", *bases)).out, "two are too few"
        change(tmp_path, passing)
        await run(tmp_path, "base-3")
        bases.append("base-3")
    change(tmp_path, passing | {"case-0": []})
    named = await run(tmp_path, "out", *bases)
    assert named.out.startswith("✗ FAIL  1 case regressed: case-0\n"), "as was said"


async def test_a_verdict_that_is_not_green_says_it_in_a_note(tmp_path: Path) -> None:
    passing: dict[str, Sequence[int]] = {f"case-{number}": ALWAYS for number in range(5)}
    write_team(tmp_path, passing, runs=1, gate={"min_pass_rate": 0.8})
    await run(tmp_path, "base")
    change(tmp_path, passing | {"case-0": [], "case-1": []})
    found = await run(tmp_path, "out", "base")
    assert found.out.startswith("~ BORDERLINE  60 % passed, 80 % needed: could be luck; ")
    assert "\nNames: too little history to name a case: from the second report of" in found.out
