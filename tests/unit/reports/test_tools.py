"""The output of `power`."""

import json
from dataclasses import replace

from ci_evals.gate.power import power_of
from ci_evals.gate.rehearsal import Replayed, Simulated
from ci_evals.reports.tools import render_power

USUAL = power_of("capitals|*", [40], 3, None)
SIMULATED = Simulated(
    pull_requests=100,
    main_runs=True,
    drop=0.07,
    dead_case=0.97,
    only_warns=False,
    unchanged=0.01,
    further_calls=24.4,
    without_scores=False,
)


def test_the_text_is_a_sentence_a_table_and_its_basis() -> None:
    lines = render_power(USUAL, SIMULATED, None, "text").splitlines()
    assert lines[0] == (
        "capitals|*: 40 cases × 3 runs: detects a fall of all cases by 7 points, or one case of 40"
        " that dies, in four of five pull requests; about 24 further calls where nothing changed."
    )
    table = [
        line for line in lines if line.startswith(("cases × runs", "40 × ", "80 × ", "160 × "))
    ]
    assert len(table) == 1 + len(USUAL.sizes)
    assert len({len(line) for line in table}) == 1, "columns stand under each other"
    assert "chance of 80 %" in lines[-1]
    assert "as is usual, with about 30 runs of each case on main; --history takes" in lines[-1]


def test_markdown_is_a_table_that_no_name_breaks() -> None:
    lines = render_power(USUAL, SIMULATED, None, "markdown").splitlines()
    assert lines[0].startswith("<code>capitals&#124;&#42;</code>: 40 cases × 3 runs")
    rows = [line for line in lines if line.startswith("|")]
    assert rows[1] == "|---|---:|---:|---:|---:|"
    assert len(rows) == 2 + len(USUAL.sizes)
    assert {row.count("|") for row in rows} == {6}


def test_json_has_every_number() -> None:
    found = json.loads(
        render_power(
            USUAL, SIMULATED, Replayed(comparisons=9, red=0, left_out=0, partial_cases=0), "json"
        )
    )
    assert (found["suite"], found["rate"], found["known_from"]) == ("capitals|*", USUAL.rate, None)
    assert (found["simulated"]["drop"], found["simulated"]["dead_case"]) == (0.07, 0.97)
    assert found["replayed"] == {"comparisons": 9, "red": 0, "left_out": 0, "partial_cases": 0}
    assert [(each["cases"], each["runs"]) for each in found["sizes"]] == [
        (e.cases, e.runs) for e in USUAL.sizes
    ]


def test_a_case_that_dies_unseen_has_its_share() -> None:
    seldom = replace(SIMULATED, dead_case=0.4)
    first = render_power(USUAL, seldom, None, "text").splitlines()[0]
    assert "in four of five pull requests, and one case of 40 that dies in 40 %; " in first
    first = render_power(USUAL, replace(SIMULATED, dead_case=None), None, "text").splitlines()[0]
    assert "by 7 points in four of five pull requests; about" in first


def test_a_replay_says_what_it_compared_and_what_it_left_out() -> None:
    text = render_power(
        USUAL, SIMULATED, Replayed(comparisons=9, red=1, left_out=0, partial_cases=0), "text"
    )
    assert "Replayed on the last 10 reports, each compared with those before it, this" in text
    assert "gate would have been red in 1 of 9 comparisons. Bars, scores" in text
    assert "outage" not in text
    assert "took no part in some" not in text
    text = render_power(
        USUAL, SIMULATED, Replayed(comparisons=9, red=1, left_out=2, partial_cases=1), "text"
    )
    assert "Replayed on the last 12 reports" in text
    assert "Left out, as an outage: 2 reports." in text
    assert "1 case took no part in some reports: added or edited since, or without" in text
    assert "Replayed" not in render_power(USUAL, SIMULATED, None, "text")


def test_what_no_size_detects_is_a_dash() -> None:
    tiny = power_of("s", [2], 1, None, further_rounds=0)
    nothing = Simulated(
        pull_requests=100,
        main_runs=False,
        drop=None,
        dead_case=0.2,
        unchanged=0.0,
        further_calls=0.0,
        only_warns=False,
        without_scores=False,
    )
    text = render_power(tiny, nothing, None, "text")
    assert "2 cases × 1 run: too few to detect that all cases fall, by however much; one" in text
    assert "that dies is detected in 20 % of pull requests; about 0 further calls" in text
    assert "  -  " in text
    assert "pull requests drawn at random; where nothing changed" in text


def test_a_single_case_has_one_figure() -> None:
    single = power_of("s", [1], 3, None)
    first = render_power(single, SIMULATED, None, "text").splitlines()[0]
    assert "1 case × 3 runs: detects a fall of all cases by 7 points in four of five" in first
    assert "that dies" not in first
