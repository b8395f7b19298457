"""The output of `power`."""

import json

from ci_evals.gate.power import power_of
from ci_evals.reports.tools import render_power

USUAL = power_of("capitals|*", [40], 3, None)


def test_the_text_is_a_sentence_a_table_and_its_basis() -> None:
    lines = render_power(USUAL, "text").splitlines()
    assert lines[0].startswith("capitals|*: 40 cases × 3 runs: this comparison detects drops of ")
    table = [
        line for line in lines if line.startswith(("cases × runs", "40 × ", "80 × ", "160 × "))
    ]
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
    assert [(each["cases"], each["runs"]) for each in found["sizes"]] == [
        (e.cases, e.runs) for e in USUAL.sizes
    ]


def test_what_no_size_detects_is_a_dash() -> None:
    tiny = power_of("s", [1], 1, None)
    assert tiny.now.one_report is None
    assert "too few for this comparison to detect" in render_power(tiny, "text")
    assert "  -  " in render_power(tiny, "text")
