"""Several bars: those that one line of the config makes share their error, others do not."""

from pathlib import Path
from typing import Any

import pytest
from leftovers import report_in
from processes import ci_evals
from scipy.stats import beta
from suites import AGENT, write_suite

HALF = {"name": "half", "type": "mock", "answers": {f"q{n}": "wrong" for n in range(5)}}


def echoes(count: int) -> list[dict[str, Any]]:
    return [{"name": f"echo-{number}", "type": "mock"} for number in range(count)]


def ten_cases(**settings: Any) -> list[dict[str, Any]]:
    return [
        {"id": f"c{n}", "input": f"q{n}", "expect": [{"equals": f"q{n}"}], **settings}
        for n in range(10)
    ]


async def scopes(folder: Path) -> dict[str, Any]:
    await ci_evals(folder, "run", "--out", "out")
    verdict = report_in(folder / "out")["verdict"]
    return {scope["name"]: scope for scope in verdict["scopes"]}


async def test_variants_share_the_error_of_their_one_bar(tmp_path: Path) -> None:
    """5 of 10 is below 80 % at 95 % confidence, not at that of one of four variants."""
    gate = {"min_pass_rate": 0.8, "per_variant": True}
    write_suite(tmp_path, ten_cases(), providers=[HALF, *echoes(3)], runs=1, gate=gate)
    found = await scopes(tmp_path)
    half = found["half"]
    assert (half["rate"], half["status"]) == (0.5, "borderline")
    assert half["confidence"] == 1 - 0.05 / 4
    assert half["upper"] == pytest.approx(beta.ppf(half["confidence"], 6, 5))
    assert found["test"]["confidence"] == 0.95


async def test_a_variant_that_is_clearly_below_fails_with_the_confidence_that_was_asked(
    tmp_path: Path,
) -> None:
    none = {"name": "none", "type": "mock", "default": "wrong"}
    gate = {"min_pass_rate": 0.5, "per_variant": True}
    write_suite(tmp_path, ten_cases(), providers=[none, *echoes(3)], runs=1, gate=gate)
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 1
    bound = f"{100 * beta.ppf(1 - 0.05 / 4, 1, 10):.1f} %"
    assert "variant none: pass rate 0 % is below the bar of 50 %" in ended.out
    assert f"(at most {bound}, 98.8 % confidence)" in ended.out
    assert "Ranges: each end is a 95 % confidence bound, of the gate up to 98.8 %" in ended.out


async def test_a_tag_keeps_its_own_error(tmp_path: Path) -> None:
    gate = {"min_pass_rate": 0.4, "tags": {"billing": 0.8, "refunds": 0.8}}
    cases = ten_cases(tags=["billing", "refunds"])
    write_suite(tmp_path, cases, providers=[HALF], runs=1, gate=gate)
    found = await scopes(tmp_path)
    assert found["billing"]["status"] == "fail"
    assert found["billing"]["confidence"] == found["refunds"]["confidence"] == 0.95


async def test_with_one_run_a_case_the_noise_is_that_of_mains_history(tmp_path: Path) -> None:
    """92 of 100 cases always passed on main: 7 failures more are not luck."""
    code = (
        "import os\n\n"
        "def answer(number):\n"
        "    return 'no' if int(number) < int(os.environ['BROKEN']) else 'yes'\n"
    )
    (tmp_path / "agent.py").write_text(code)
    expect = [{"equals": "yes"}]
    cases = [{"id": f"c{n:03}", "input": n, "expect": expect} for n in range(100)]
    gate = {"min_pass_rate": 0.9, "max_regressions": 100}
    write_suite(tmp_path, cases, providers=[AGENT], runs=10, gate=gate)
    main = await ci_evals(tmp_path, "run", "--out", "main", environ={"BROKEN": "8"})
    assert main.code == 0, main.err
    write_suite(tmp_path, cases, providers=[AGENT], runs=1, confirm_runs=0, gate=gate)
    alone = await ci_evals(tmp_path, "run", "--out", "alone", environ={"BROKEN": "15"})
    assert report_in(tmp_path / "alone")["verdict"]["scopes"][0]["status"] == "borderline"
    assert alone.code == 0, "15 failures of 100 may be luck where 10 are allowed"
    known = ("--baseline", "main")
    again = await ci_evals(tmp_path, "run", "--out", "again", *known, environ={"BROKEN": "15"})
    (scope,) = report_in(tmp_path / "again")["verdict"]["scopes"]
    assert (scope["status"], scope["rate"]) == ("fail", 0.85), again.out
    assert again.code == 1
    compared = await ci_evals(tmp_path, "compare", "main", "again")
    assert compared.code == 1
