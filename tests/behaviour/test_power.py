"""`ci-evals power`: the drops that a suite detects."""

import json
from pathlib import Path

import pytest
from factories import many, report_of
from processes import ci_evals
from suites import ONE_CASE, write_suite

from ci_evals.reports import report_json as json_report
from ci_evals.reports.summary import summarize


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
    (tmp_path / "main.json").write_bytes(
        b"".join(json_report.render(summarize(report_of({"a": "P"}), None)))
    )
    ended = await ci_evals(tmp_path, "power", str(suite), "--history", "main.json")
    assert ended.code != 0
    assert "is of another suite, 'capitals'" in ended.err
    assert "Traceback" not in ended.err
