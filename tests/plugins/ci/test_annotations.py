"""Annotations of a summary."""

from factories import report_of

from ci_evals.model.rules import Gate
from ci_evals.plugins.ci.annotations import annotations
from ci_evals.reports.summary import summarize


def test_a_case_of_a_passed_suite_that_failed_a_run_is_not_annotated() -> None:
    steady = {f"case {number}": "PPPPP" for number in range(39)}
    summary = summarize(report_of({"wobbly": "PFFFF"} | steady), Gate(min_pass_rate=0.9))
    assert summary.verdict.status == "pass"
    assert not list(annotations(summary))
