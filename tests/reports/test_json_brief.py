"""`--format json`: one line that a script can act on."""

import json
from collections.abc import Callable

from ci_evals.reports.json_brief import render_json
from ci_evals.reports.summary import Summary


def test_the_brief_reads_well(flights: Summary, golden: Callable[[str, str], None]) -> None:
    text = render_json(flights)
    assert text.count("\n") == 1
    golden("brief.json", json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n")


def test_nothing_fails_in_a_suite_that_passes(passing: Summary) -> None:
    brief = json.loads(render_json(passing))
    assert brief["verdict"]["status"] == "pass"
    assert brief["failing"] == []
    assert brief["errors"] == []


def test_no_command_for_a_runner_gets_through(hostile: Summary) -> None:
    text = render_json(hostile)
    assert "##[" not in text
    assert text.startswith("{")
    assert "\x1b" not in text
    assert "##[error]owned" in json.loads(text)["suite"]["name"]
