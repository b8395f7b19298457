"""The outputs of `power` and `pairwise`."""

import json
from pathlib import Path

import pytest
from factories import many, report_of
from processes import ci_evals
from rich.cells import cell_len
from suites import ONE_CASE, write_suite

from ci_evals.gate.power import Size, power_of
from ci_evals.gate.preference import preference
from ci_evals.model.result import Pair
from ci_evals.reports import report_json as json_report
from ci_evals.reports.summary import summarize
from ci_evals.reports.tools import PairwiseReport, render_pairwise, render_power

USUAL = power_of("capitals|*", Size(40, 3), 1, None)


def test_the_text_is_a_sentence_a_table_and_its_basis() -> None:
    lines = render_power(USUAL, "text").splitlines()
    assert lines[0].startswith("capitals|*: 40 cases × 3 runs: this comparison detects drops of ")
    table = [line for line in lines if line.startswith(("cases × runs", "40 × ", "80 × ", "160 × "))]
    assert len(table) == 1 + len(USUAL.sizes)
    assert len({len(line) for line in table}) == 1, "columns stand under each other"
    assert "chance of 80 %" in lines[-1]
    assert "as is usual; --history takes them from a report" in lines[-1]


def test_markdown_is_a_table_that_no_name_breaks() -> None:
    lines = render_power(USUAL, "markdown").splitlines()
    assert lines[0].startswith("<code>capitals&#124;&#42;</code>: 40 cases × 3 runs")
    rows = [line for line in lines if line.startswith("|")]
    assert rows[1] == "|---|---:|---:|---:|---:|"
    assert len(rows) == 2 + len(USUAL.sizes)
    assert {row.count("|") for row in rows} == {6}


def test_json_has_every_number() -> None:
    found = json.loads(render_power(USUAL, "json"))
    assert (found["suite"], found["rate"], found["known_from"]) == ("capitals|*", USUAL.rate, None)
    assert [(each["cases"], each["runs"]) for each in found["sizes"]] == [(e.cases, e.runs) for e in USUAL.sizes]


def test_what_no_size_detects_is_a_dash() -> None:
    tiny = power_of("s", Size(1, 1), 1, None)
    assert tiny.now.one_report is None
    assert "too few for this comparison to detect" in render_power(tiny, "text")
    assert "  -  " in render_power(tiny, "text")


async def test_the_command_knows_the_suite_from_its_config(tmp_path: Path) -> None:
    write_suite(tmp_path, runs=3)
    ended = await ci_evals(tmp_path, "power", "--format", "json")
    assert ended.code == 0
    now = json.loads(ended.out)["sizes"][0]
    assert (now["cases"], now["runs"], now["calls"]) == (1, 3, 3)


async def test_the_suite_may_be_named_as_elsewhere(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, runs=3).rename(tmp_path / "other.yaml")
    shown = await ci_evals(tmp_path, "power", "--config", str(suite))
    assert shown.code == 0
    assert shown.out == (await ci_evals(tmp_path, "power", str(suite))).out


async def test_the_command_takes_rates_from_a_report(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, name="capitals", cases=[ONE_CASE])
    report = report_of(many((20, "PPPPP"), (20, "PPFFF")))
    (tmp_path / "main.json").write_bytes(b"".join(json_report.render(summarize(report, None))))
    given = ("power", str(suite), "--history", "main.json")
    shown = await ci_evals(tmp_path, *given, "--format", "json")
    found = json.loads(shown.out)
    assert (found["rate"], found["known_from"]) == (pytest.approx(0.7), "main.json")
    assert "as main.json shows" in (await ci_evals(tmp_path, *given)).out


async def test_history_of_another_suite_is_refused(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, name="weather")
    (tmp_path / "main.json").write_bytes(b"".join(json_report.render(summarize(report_of({"a": "P"}), None))))
    ended = await ci_evals(tmp_path, "power", str(suite), "--history", "main.json")
    assert ended.code != 0
    assert "is of another suite, 'capitals'" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("name", ["gpt", "\u6771\u4eac", "\u05d0\u05d1"])
def test_counts_of_preferences_stand_below_each_other_in_every_script(name: str) -> None:
    found = preference([Pair("refund", 1, "first", "second")])
    lines = render_pairwise(PairwiseReport(name, "other", found), "table").split("\n")[:3]
    assert len({cell_len(line[: line.index(" case")]) for line in lines}) == 1


def test_a_name_that_is_read_from_right_to_left_reorders_nothing_on_github() -> None:
    name = "\u05d0\u05d1"
    kept = f"\u200e{name}\u200e"
    text = render_pairwise(
        PairwiseReport("other", name, preference([Pair("refund", 1, "second", "first")] * 2)), "markdown"
    )
    assert text.startswith(f"## {kept} is preferred in 100 % ")
    assert f"| prefer {kept} | 1 case |" in text
