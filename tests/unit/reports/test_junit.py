"""junit.xml: as its readers read it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from factories import STARTED_AT, baseline_of, report_of
from rendered import junit_of as text_of

from ci_evals.model.case import Variant
from ci_evals.model.report import Resumption
from ci_evals.model.result import Result, RunError
from ci_evals.model.rules import Gate
from ci_evals.reports.summary import Summary, summarize

ILLEGAL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def case_of(outcome: str, gate: Gate | None = None, **case: Any) -> ET.Element:
    report = report_of({"capital": outcome}, cases={"capital": case})
    return next(ET.fromstring(text_of(summarize(report, gate))).iter("testcase"))


def outcome_of(element: ET.Element) -> str:
    return next((child.tag for child in element if child.tag != "system-out"), "passed")


def test_the_report_reads_well(flights: Summary, golden: Callable[[str, str], None]) -> None:
    golden("junit.xml", text_of(flights))


def test_it_is_flat_and_every_name_is_unique(flights: Summary) -> None:
    root = ET.fromstring(text_of(flights))
    assert root.tag == "testsuites"
    assert {suite.tag for suite in root} == {"testsuite"}
    assert {each.tag for suite in root for each in suite} == {"properties", "testcase"}
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(set(names)) == len(names) == len(flights.report.plan)


def test_totals_are_those_of_the_test_cases(flights: Summary) -> None:
    root = ET.fromstring(text_of(flights))
    outcomes = [outcome_of(case) for case in root.iter("testcase")]
    assert int(root.attrib["tests"]) == len(outcomes)
    assert int(root.attrib["failures"]) == outcomes.count("failure")
    assert int(root.attrib["errors"]) == outcomes.count("error")
    assert int(root.attrib["skipped"]) == outcomes.count("skipped")


@pytest.mark.parametrize(
    ("outcome", "gate", "own_bar", "expected"),
    [
        ("PPPPP", None, None, "passed"),
        ("PPPPF", None, None, "failure"),
        ("PPPPF", Gate(min_pass_rate=0.8), None, "passed"),
        ("PPPFF", Gate(min_pass_rate=0.8), None, "passed"),
        ("PPPFF", Gate(min_pass_rate=0.8, on_borderline="fail"), None, "failure"),
        ("PFFFF", Gate(min_pass_rate=0.8), None, "failure"),
        ("PPPFF", Gate(min_pass_rate=0.8), 0.6, "passed"),
        ("PPPPF", Gate(min_pass_rate=0.8), 1.0, "failure"),
        ("PPPPF", Gate(min_pass_rate=0.5, tags={"critical": 1.0}), None, "failure"),
        ("PPPPF", Gate(min_pass_rate=0.5, tags={"other": 1.0}), None, "passed"),
        ("PPPPF", Gate(min_pass_rate=0.5, providers={"agent": 0.9}), None, "passed"),
        ("PPFFF", Gate(min_pass_rate=0.2, providers={"agent": 0.9}), None, "failure"),
        ("PPPEE", None, None, "passed"),
        ("EEE", None, None, "error"),
        ("EE.", None, None, "error"),
        ("...", None, None, "skipped"),
    ],
)
def test_a_cell_is_judged_by_its_bar(
    outcome: str, gate: Gate | None, own_bar: float | None, expected: str
) -> None:
    element = case_of(outcome, gate, tags=("critical",), min_pass_rate=own_bar)
    assert outcome_of(element) == expected


def test_a_cell_within_its_bar_notes_the_runs_that_did_not_pass() -> None:
    note = case_of("PPPPF", Gate(min_pass_rate=0.8)).findtext("system-out") or ""
    assert note.startswith("4 of 5 runs passed\n")
    assert 'no "Paris" in the answer' in note


def test_a_failure_says_expected_and_got_in_its_message_and_the_answer_in_its_body() -> None:
    failure = case_of("PFF").find("failure")
    assert failure is not None
    assert failure.get("message") == '2 of 3 runs failed: no "Paris" in the answer: "Lyon"'
    assert "runs 2 and 3 failed alike" in (failure.text or "")
    assert "answer: Lyon" in (failure.text or "")


def test_a_body_stops_after_some_runs_and_counts_the_others() -> None:
    failure = case_of("F" * 12).find("failure")
    assert failure is not None
    assert "runs 1 to 5 failed alike" in (failure.text or "")
    assert "… and 7 more runs" in (failure.text or "")


def test_every_case_points_to_its_line_in_the_suite() -> None:
    element = case_of("F", file="suites/evals.yaml", line=42)
    assert (element.get("file"), element.get("line")) == ("suites/evals.yaml", "42")


def test_time_is_the_sum_of_the_latencies_of_runs_that_took_place() -> None:
    assert float(case_of("PF.").attrib["time"]) == 1.0


def test_hostile_text_stays_text(hostile: Summary) -> None:
    text = text_of(hostile)
    assert not ILLEGAL.search(text)
    entities = {int(number) for number in re.findall(r"&#(\d+);", text)}
    assert not entities, "characters must not be hidden in entities"
    root = ET.fromstring(text)
    assert len(list(root.iter("testcase"))) == len(hostile.report.plan)
    assert {element.tag for element in root.iter()} <= {
        "testsuites",
        "testsuite",
        "properties",
        "property",
        "testcase",
        "failure",
        "error",
        "system-out",
    }
    assert len(text) < 100_000


def test_what_means_something_in_xml_is_read_back_as_it_was() -> None:
    name, interrupted = """<a href="x">&amp; 'b'</a> ]]> <!-- """, 'stopped "<&>"'

    def edited(result: Result) -> Result:
        assert result.response is not None
        return replace(result, response=replace(result.response, output=name))

    report = report_of({name: "F"}, edit=edited, suite={"name": name}, interrupted=interrupted)
    root = ET.fromstring(text_of(summarize(report, None)))
    assert root.get("name") == name.strip()
    assert [each.get("value") for each in root.iter("property")] == [interrupted]
    case = next(root.iter("testcase"))
    assert case.get("name") == name.strip()
    assert f"answer: {name}" in (case.findtext("failure") or "")


def test_every_note_of_a_kind_is_a_property() -> None:
    report = report_of({"capital": "P"})
    report.resumption = Resumption(kept=1, torn=("shard-1/results.jsonl", "shard-2/results.jsonl"))
    root = ET.fromstring(text_of(summarize(report, None)))
    said = {each.get("name"): each.get("value") for each in root.iter("property")}
    cut = "the last line of {} was cut off in the middle, and its run does not count"
    assert said == {
        "Resumed": "1 of 1 run kept",
        "Torn": cut.format("shard-1/results.jsonl"),
        "Torn (2)": cut.format("shard-2/results.jsonl"),
    }


def test_one_suite_per_variant() -> None:
    report = report_of(
        {"capital": "P"}, variants=(Variant("a"), Variant("b", "polite")), suite={"name": "s"}
    )
    root = ET.fromstring(text_of(summarize(report, None)))
    assert [suite.get("name") for suite in root] == ["s · a", "s · b · polite"]


def test_names_that_look_alike_are_numbered() -> None:
    report = report_of(dict.fromkeys(("a b", "a  b", "a b (2)", "x" * 600, "x" * 601), "P"))
    root = ET.fromstring(text_of(summarize(report, None)))
    assert len({case.get("name") for case in root.iter("testcase")}) == 5


def test_a_crash_shows_its_traceback() -> None:
    def crash(result: Result) -> Result:
        error = RunError(
            "crash",
            "ValueError: no such flight",
            detail="Traceback\n\x1b[31mValueError: no such flight",
        )
        return replace(result, response=None, grades=(), score=0.0, error=error)

    report = report_of({"capital": "F"}, edit=crash)
    failure = ET.fromstring(text_of(summarize(report, None))).find(".//failure")
    assert failure is not None
    assert failure.get("message") == "1 of 1 run failed: ValueError: no such flight"
    assert "  Traceback\n  \\x1b[31mValueError" in (failure.text or "")


# Beside a baseline.


def compared(
    head: Mapping[str, str], base: Mapping[str, str], gate: Gate | None = None, **changes: Any
) -> Summary:
    older = report_of(base, started_at=STARTED_AT - 3600)
    report = report_of(head, **changes)
    return summarize(report, gate, baseline_of(older), confirm_runs=3)


def junit_case(summary: Summary, name: str) -> ET.Element:
    root = ET.fromstring(text_of(summary))
    outcomes = [child.tag for case in root.iter("testcase") for child in case]
    assert int(root.attrib["failures"]) == outcomes.count("failure")
    return next(case for case in root.iter("testcase") if case.get("name") == name)


def test_a_regression_within_its_own_bar_fails_in_junit_when_it_makes_the_gate_red(
    regressed: Summary,
) -> None:
    case = junit_case(regressed, "refund")
    (failure,) = case
    assert failure.tag == "failure"
    assert failure.attrib["message"].startswith("regressed: 30 of 30 on main, 3 of 10 here; p = ")
    assert "run 4 failed" in (failure.text or "") or "4, 6" in (failure.text or "")


def test_a_regression_that_only_warns_passes_in_junit_and_is_told() -> None:
    gate = Gate(min_pass_rate=0.1, on_regression="warn")
    summary = compared({"a": "FFP"}, {"a": "P" * 30}, gate, confirming={"a": "F" * 7})
    (told,) = junit_case(summary, "a")
    assert told.tag == "system-out"
    assert (told.text or "").startswith("regressed: 30 of 30 on main, 1 of 10 here")


def test_a_critical_regression_fails_in_junit_however_many_the_gate_allows() -> None:
    gate = Gate(min_pass_rate=0.1, max_regressions=5)
    cases = {"a": {"min_pass_rate": 0.1, "critical": True}, "b": {"min_pass_rate": 0.1}}
    summary = compared(
        {"a": "FFP", "b": "FFP"},
        {"a": "P" * 30, "b": "P" * 30},
        gate,
        confirming={"a": "F" * 7, "b": "F" * 7},
        cases=cases,
    )
    assert [child.tag for child in junit_case(summary, "a")] == ["failure"]
    assert [child.tag for child in junit_case(summary, "b")] == ["system-out"]


def test_a_cell_that_errored_in_part_says_why() -> None:
    note = case_of("PPE", Gate(max_error_rate=0.5)).findtext("system-out") or ""
    assert note.startswith("2 of 2 runs passed, 1 errored\n")
    assert "run 3 errored\n  429: slow down" in note
