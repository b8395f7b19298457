"""report.json, its schema, and what `--format json` prints."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
from factories import report_of

from ci_evals.model.result import encode_result
from ci_evals.reports import report_json as json_report
from ci_evals.reports.read import decode_report
from ci_evals.reports.report_json import encode, render_brief, stdout_json
from ci_evals.reports.summary import Summary, summarize

SCHEMA = Path(__file__).parents[3] / "docs" / "report.schema.json"


def parsed(summary: Summary) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not valid JSON")

    document = json.loads(b"".join(json_report.render(summary)), parse_constant=refuse)
    assert isinstance(document, dict)
    return document


def test_the_report_reads_well(flights: Summary, golden: Callable[[str, str], None]) -> None:
    golden("report.json", b"".join(json_report.render(flights)).decode())


def test_the_schema_in_the_package_is_in_step_with_the_types(
    golden: Callable[[str, str], None],
) -> None:
    golden("../../docs/report.schema.json", json_report.schema().decode())


def test_a_report_satisfies_its_schema(
    flights: Summary, passing: Summary, hostile: Summary
) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_bytes()))
    for summary in (flights, passing, hostile):
        validator.validate(parsed(summary))


def test_a_report_without_results_satisfies_its_schema() -> None:
    report = report_of({"capital": ".."}, interrupted="SIGINT")
    document = parsed(summarize(report, None))
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_bytes())).validate(document)
    assert document["results"] == []
    assert document["totals"]["pass_rate"] is None
    assert document["variants"][0]["figures"]["cost_usd"] is None


def test_a_report_is_read_back_as_it_was(flights: Summary) -> None:
    saved = decode_report(b"".join(json_report.render(flights)))
    assert list(saved.report.results()) == list(flights.report.results())
    assert saved.summary.verdict == flights.verdict
    assert saved.gate == flights.gate


def test_results_are_the_journals_lines_in_plan_order_one_to_the_line(flights: Summary) -> None:
    lines = b"".join(json_report.render(flights)).split(b"\n")
    first = lines.index(b'"results": [') + 1
    assert [line.removesuffix(b",") for line in lines[first:-2]] == [
        encode_result(result) for result in flights.report.results()
    ]


def test_lone_surrogates_in_names_become_question_marks(hostile: Summary) -> None:
    names = [cell["case"] for cell in parsed(hostile)["cells"]]
    assert "surrogate ?" in names


def test_hostile_names_survive_unchanged(hostile: Summary) -> None:
    document = parsed(hostile)
    assert document["suite"]["name"] == hostile.report.suite.name
    assert document["cells"][0]["case"] == hostile.report.plan.case(0).id


def test_the_brief_reads_well(flights: Summary, golden: Callable[[str, str], None]) -> None:
    text = render_brief(flights)
    assert text.count("\n") == 1
    golden("brief.json", json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n")


def test_nothing_fails_in_a_suite_that_passes(passing: Summary) -> None:
    brief = json.loads(render_brief(passing))
    assert brief["verdict"]["status"] == "pass"
    assert brief["failing"] == []
    assert brief["errors"] == []


def test_no_command_for_a_runner_gets_through(hostile: Summary) -> None:
    text = render_brief(hostile)
    assert "##[" not in text
    assert text.startswith("{")
    assert "\x1b" not in text
    assert "##[error]owned" in json.loads(text)["suite"]["name"]


EVIL = "##[error]owned"


def test_what_is_printed_commands_no_runner_and_says_the_same() -> None:
    text = stdout_json({EVIL: [EVIL]})
    assert "##[" not in text
    assert text.count("\n") == 1
    assert json.loads(text) == {EVIL: [EVIL]}


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert encode({"name": "a \ud800"}).decode() == '{"name":"a ?"}'
