"""`ci-evals power`: the drops that a suite detects."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from factories import many, report_of
from processes import ci_evals
from suites import ONE_CASE, write_suite

from benchmarks.pull_requests import (
    Beta,
    Frequencies,
    Story,
    Suite,
    falls,
    frequencies,
    pull_requests,
)
from ci_evals.model.report import SuiteReport
from ci_evals.model.result import Result
from ci_evals.reports import report_json as json_report
from ci_evals.reports.summary import summarize


def write_report(path: Path, report: SuiteReport) -> None:
    path.write_bytes(b"".join(json_report.render(summarize(report, None))))


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


AGENT = [{"type": "mock", "name": "agent"}]


def cases_of(names: Iterable[str]) -> list[dict[str, Any]]:
    return [{**ONE_CASE, "id": name} for name in names]


async def test_the_command_takes_rates_from_a_report(tmp_path: Path) -> None:
    answers = many((20, "PPPPP"), (20, "PPFFF"))
    suite = write_suite(tmp_path, cases_of(answers), name="capitals", providers=AGENT)
    write_report(tmp_path / "main.json", report_of(answers))
    given = ("power", str(suite), "--history", "main.json")
    shown = await ci_evals(tmp_path, *given, "--format", "json")
    found = json.loads(shown.out)
    assert (found["rate"], found["known_from"]) == (pytest.approx(0.7), "main.json")
    assert "as main.json shows" in (await ci_evals(tmp_path, *given)).out


async def test_it_tells_what_the_gate_says_of_pull_requests_of_such_a_suite(tmp_path: Path) -> None:
    cases = [{**ONE_CASE, "id": f"case {number}"} for number in range(20)]
    write_suite(tmp_path, runs=3, cases=cases)
    shown, again = [await ci_evals(tmp_path, "power", "--format", "json") for _ in range(2)]
    assert shown.out == again.out, "drawn from the same seeds"
    found = json.loads(shown.out)
    simulated = found["simulated"]
    suite = Suite(Beta(0.6, 0.1), cases=20, runs=3)

    def others(story: Story) -> Frequencies:
        return frequencies(pull_requests(suite, story._replace(main_runs=True), number=100))

    # Each share of a hundred has a standard error of 4 points at most.
    drop = simulated["drop"]
    assert others(Story(change=falls(drop))).red > 65
    assert others(Story(change=falls(drop / 2))).red < 65
    assert others(Story()).red < 10
    assert simulated["unchanged"] < 0.1
    assert simulated["dead_case"] > 0.8
    points = f"a fall of all cases by {100 * drop:.0f} points, or one case of 20 that dies"
    first = (await ci_evals(tmp_path, "power")).out.splitlines()[0]
    assert points in first
    calls = round(simulated["further_calls"])
    assert f"; about {calls} further calls where nothing changed." in first


async def test_where_nothing_runs_again_less_is_seen(tmp_path: Path) -> None:
    drops = []
    for confirm_runs in (10, 0):
        write_suite(tmp_path, cases_of(f"case {n}" for n in range(20)), confirm_runs=confirm_runs)
        found = json.loads((await ci_evals(tmp_path, "power", "--format", "json")).out)
        drops.append((found["simulated"]["drop"], found["sizes"][0]["pooled"]))
        assert found["simulated"]["main_runs"] is (confirm_runs > 0)
    assert found["simulated"]["further_calls"] == 0
    assert drops[0] < drops[1]
    assert drops[0][1] < drops[1][1]


async def test_with_history_the_rates_are_those_that_it_leaves_open(tmp_path: Path) -> None:
    names = [f"case {number}" for number in range(20)]
    suite = write_suite(tmp_path, cases_of(names), name="capitals", providers=AGENT)
    drops = []
    for answers in ("PPPPP", "PPFPF"):
        write_report(tmp_path / "main.json", report_of(dict.fromkeys(names, answers)))
        given = ("--history", "main.json", "--runs", "3", "--format", "json")
        found = json.loads((await ci_evals(tmp_path, "power", str(suite), *given)).out)
        drops.append(found["simulated"]["drop"])
        assert found["replayed"] is None, "one report has nothing before it"
    assert drops[0] < drops[1], "steady answers hide less"


@pytest.mark.parametrize(
    ("third", "red"), [("PPPFP", 0), ("FFFFF", 1)], ids=["flaky", "dead for a while"]
)
async def test_reports_are_replayed_against_those_before_them(
    tmp_path: Path, third: str, red: int
) -> None:
    names = [f"case {number}" for number in range(10)]
    suite = write_suite(tmp_path, cases_of(names), name="capitals", providers=AGENT)
    given: list[str] = []
    for number, first_case in enumerate(["PPPPP", "PPPPP", third, "PPPPP"]):
        answers = dict.fromkeys(names, "PPPPP") | {names[0]: first_case}
        name = f"main-{number}.json"
        write_report(tmp_path / name, report_of(answers, started_at=1000.0 * number))
        given += ["--history", name]
    shown = await ci_evals(tmp_path, "power", str(suite), *given, "--format", "json")
    assert json.loads(shown.out)["replayed"] == {
        "comparisons": 3,
        "red": red,
        "left_out": 0,
        "partial_cases": 0,
    }
    text = (await ci_evals(tmp_path, "power", str(suite), *given)).out
    assert f"would have been red in {red} of 3 comparisons" in text


async def test_a_replay_leaves_out_what_blocks_nothing(tmp_path: Path) -> None:
    names = [f"case {number}" for number in range(10)]
    given: list[str] = []
    everything = dict.fromkeys(names, "PPPPP")
    one_dead = everything | {names[0]: "FFFFF"}
    outage = dict.fromkeys(names, "FFFFF")
    for number, answers in enumerate([everything, everything, one_dead, outage, everything]):
        name = f"main-{number}.json"
        write_report(tmp_path / name, report_of(answers, started_at=1000.0 * number))
        given += ["--history", name]

    async def replayed(**settings: Any) -> Any:
        cases = cases_of(names)
        cases[0] |= settings.pop("first", {})
        suite = write_suite(tmp_path, cases, name="capitals", providers=AGENT, **settings)
        ended = await ci_evals(tmp_path, "power", str(suite), *given, "--format", "json")
        return json.loads(ended.out)["replayed"]

    found = {"comparisons": 3, "left_out": 1, "partial_cases": 0}
    assert await replayed() == found | {"red": 1}
    assert await replayed(gate={"max_regressions": 1}) == found | {"red": 0}
    critical = {"critical": True}
    assert await replayed(gate={"max_regressions": 1}, first=critical) == found | {"red": 1}
    warn = {"on_regression": "warn"}
    assert await replayed(gate=warn) == found | {"red": 0}
    assert await replayed(gate=warn, first=critical) == found | {"red": 1}
    quarantine = {"quarantine": {"until": "2999-01-01", "reason": "flaky"}}
    assert await replayed(first=quarantine) == found | {"red": 0}


async def test_a_suite_in_quarantine_has_nothing_to_detect(tmp_path: Path) -> None:
    quarantine = {"until": "2999-01-01", "reason": "flaky"}
    write_suite(tmp_path, [{**ONE_CASE, "quarantine": quarantine}])
    ended = await ci_evals(tmp_path, "power")
    assert ended.code == 2
    assert "all cases are in quarantine" in ended.err


async def test_history_of_other_providers_is_refused(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, name="capitals", cases=cases_of(["a"]))
    write_report(tmp_path / "main.json", report_of({"a": "P"}))
    ended = await ci_evals(tmp_path, "power", str(suite), "--history", "main.json")
    assert ended.code != 0
    assert "main.json has none of the cases and providers of this suite" in ended.err


async def test_history_of_another_suite_is_refused(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, name="weather")
    write_report(tmp_path / "main.json", report_of({"a": "P"}))
    ended = await ci_evals(tmp_path, "power", str(suite), "--history", "main.json")
    assert ended.code != 0
    assert "is of another suite, 'capitals'" in ended.err
    assert "Traceback" not in ended.err


async def test_a_replay_says_how_many_cases_took_part_in_some_reports_only(tmp_path: Path) -> None:
    names = [f"case {number}" for number in range(10)]
    write_suite(tmp_path, cases_of([*names, "new"]), name="capitals", providers=AGENT)
    given: list[str] = []
    for number in range(4):
        asks = {}
        if number < 2:
            asks = {names[0]: "what it asked before it was edited"}
        report = report_of(dict.fromkeys(names, "PPPPP"), started_at=1000.0 * number, asks=asks)
        write_report(tmp_path / f"main-{number}.json", report)
        given += ["--history", f"main-{number}.json"]
    shown = await ci_evals(tmp_path, "power", *given, "--format", "json")
    assert json.loads(shown.out)["replayed"]["partial_cases"] == 2
    text = (await ci_evals(tmp_path, "power", *given)).out
    assert "2 cases took no part in some reports: added or edited since" in text


async def test_a_gate_that_only_warns_is_not_red(tmp_path: Path) -> None:
    cases = cases_of(f"case {number}" for number in range(5))
    found = []
    for on_regression in ("fail", "warn"):
        write_suite(tmp_path, cases, runs=3, gate={"on_regression": on_regression})
        shown = await ci_evals(tmp_path, "power", "--format", "json")
        found.append(json.loads(shown.out)["simulated"])
    assert found[1] == found[0] | {"only_warns": True, "unchanged": 0.0}
    text = (await ci_evals(tmp_path, "power")).out
    assert "and only warns; about" in text


async def test_scores_that_take_no_part_are_mentioned(tmp_path: Path) -> None:
    names = [f"case {number}" for number in range(5)]
    write_suite(tmp_path, cases_of(names), name="capitals", providers=AGENT)

    def half(result: Result) -> Result:
        return replace(result, score=0.5, grades=(replace(result.grades[0], score=0.5),))

    answers = dict.fromkeys(names, "PPP")
    for edit, mentioned in ((half, True), (lambda result: result, False)):
        write_report(tmp_path / "main.json", report_of(answers, edit=edit))
        shown = await ci_evals(tmp_path, "power", "--history", "main.json")
        assert shown.code == 0, shown.err
        assert ("the scores of graders" in shown.out) is mentioned
