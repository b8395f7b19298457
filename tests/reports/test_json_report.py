"""report.json: whole, in step with its schema, and cheap to write."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
from factories import report_of

from ci_evals.reports import json_report
from ci_evals.reports.summary import Summary
from ci_evals.verdict.gate import decide

SCHEMA = Path(__file__).parents[2] / "schemas" / "report.schema.json"


def parsed(summary: Summary) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    document = json.loads(b"".join(json_report.render(summary)), parse_constant=refuse)
    assert isinstance(document, dict)
    return document


def test_the_report_reads_well(flights: Summary, golden: Callable[[str, str], None]) -> None:
    golden("report.json", b"".join(json_report.render(flights)).decode())


def in_one_order(schema: Any) -> Any:
    """A schema with its alternatives sorted: each version of msgspec has an order of its own."""
    if isinstance(schema, list):
        return [in_one_order(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    each_sorted = {key: in_one_order(value) for key, value in schema.items()}
    if "anyOf" in schema:
        each_sorted["anyOf"].sort(key=str)
    return each_sorted


def test_the_schema_in_the_repository_is_in_step_with_the_types(golden: Callable[[str, str], None]) -> None:
    schema = json_report.schema()
    if in_one_order(json.loads(schema)) != in_one_order(json.loads(SCHEMA.read_bytes())):
        golden("../../schemas/report.schema.json", schema.decode())


def test_a_report_satisfies_its_schema(flights: Summary, passing: Summary, hostile: Summary) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_bytes()))
    for summary in (flights, passing, hostile):
        validator.validate(parsed(summary))


def test_a_report_without_results_satisfies_its_schema() -> None:
    report = report_of({"capital": ".."}, interrupted="SIGINT")
    document = parsed(Summary(report, decide(report, None), None))
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_bytes())).validate(document)
    assert document["results"] == []
    assert document["totals"]["pass_rate"] is None
    assert document["variants"][0]["figures"]["cost_usd"] is None


def test_a_report_decodes_into_its_own_type(flights: Summary) -> None:
    written = b"".join(json_report.render(flights))
    document = msgspec.json.decode(written, type=json_report.ReportDocument)
    assert document.results == tuple(flights.report.results())
    assert document.verdict == flights.verdict
    assert document.gate == flights.gate


def test_results_are_the_journals_lines_in_plan_order_one_to_the_line(flights: Summary) -> None:
    lines = b"".join(json_report.render(flights)).split(b"\n")
    first = lines.index(b'"results": [') + 1
    assert [line.removesuffix(b",") for line in lines[first:-2]] == list(flights.report.lines())


def test_lines_of_any_size_are_joined_by_single_commas() -> None:
    count = 3 * json_report.CHUNK_BYTES // 300
    report = report_of({"capital": "P" * count})
    chunks = list(json_report.render(Summary(report, decide(report, None), None)))
    assert max(map(len, chunks)) < 2 * json_report.CHUNK_BYTES
    assert [result["run"] for result in json.loads(b"".join(chunks))["results"]] == list(range(1, count + 1))


def test_lone_surrogates_in_names_become_question_marks(hostile: Summary) -> None:
    names = [cell["case"] for cell in parsed(hostile)["cells"]]
    assert "surrogate ?" in names


def test_hostile_names_survive_unchanged(hostile: Summary) -> None:
    document = parsed(hostile)
    assert document["suite"]["name"] == hostile.report.suite.name
    assert document["cells"][0]["case"] == hostile.report.matrix.case(0).id
