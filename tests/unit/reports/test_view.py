"""Runs, cells and cases in the words of people."""

from dataclasses import replace

from factories import case_of, grade_of, report_of, result_of

from ci_evals.model.case import Variant
from ci_evals.model.response import Message
from ci_evals.model.result import Result, RunError
from ci_evals.reports.groups import error_groups
from ci_evals.reports.view import Failures, alike, input_text, place_of, reasons_of


def reasons(result: Result) -> list[str]:
    return [reason.text for reason in reasons_of(result)]


def test_a_failed_run_says_each_grade_that_failed() -> None:
    grades = (
        grade_of(passed=True),
        grade_of(passed=False),
        grade_of(passed=False, grader="latency", reason="took 6 s"),
    )
    found = reasons_of(result_of(status="failed", grades=grades))
    assert [reason.missed for reason in found] == [
        'no "Paris" in the answer',
        "took 6 s",
    ]
    assert [reason.text for reason in found] == [
        'no "Paris" in the answer: "Lyon"',
        "took 6 s",  # the answer is quoted once
    ]


def test_a_crash_says_its_error() -> None:
    crash = RunError("crash", "ValueError: no such flight\nat line 3")
    result = result_of(status="failed", grades=(), error=crash)
    assert reasons(result) == ["ValueError: no such flight at line 3"]


def test_a_score_below_the_threshold_is_a_reason() -> None:
    result = result_of(status="failed", grades=(), score=0.4)
    assert reasons(result) == ["the score 0.40 is below its bar"]


def test_reasons_are_counted_where_runs_differ() -> None:
    one = result_of(status="failed")
    other = result_of(status="failed", grades=(grade_of(passed=False, reason="empty"),))
    same, different = Failures.of([one, one]), Failures.of([one, other, other])
    assert same.lines() == ['no "Paris" in the answer']
    assert same.most_frequent == 'no "Paris" in the answer: "Lyon"'
    assert different.lines(1) == [
        "2 of 3 failed runs: empty",
        "… and 1 other reason",
    ]


def test_failures_with_different_answers_have_one_cause() -> None:
    lyon, rome = (
        result_of(
            status="failed",
            grades=(
                grade_of(
                    grader="equals",
                    passed=False,
                    reason='the answer is not "Paris"',
                    sentence=f'the answer is "{city}", expected "Paris"',
                ),
            ),
        )
        for city in ("Lyon", "Rome")
    )
    found = Failures.of([lyon, rome])
    assert found.cause == Failures.of([lyon]).cause
    assert found.lines(of_each_run=False) == ['the answer is not "Paris"']
    assert Failures.of([lyon]).lines(of_each_run=False) == [
        'the answer is "Lyon", expected "Paris"'
    ]
    assert len(found.lines()) == 2


def test_runs_that_ended_alike_are_one() -> None:
    first = result_of()
    second = replace(first, run=2, latency_s=0.7, cost_usd=0.002)
    third = replace(result_of(status="failed"), run=3)
    runs = alike([first, second, third])
    assert [run.title for run in runs] == ["runs 1 and 2 passed alike", "run 3 failed"]
    assert runs[0].facts == ["500 ms to 700 ms", "$0.0010 to $0.0020", "25 tokens"]


def test_errors_that_differ_in_ids_and_times_are_one_group() -> None:
    def edit(result: Result) -> Result:
        return replace(result, error=errors[result.run])

    errors = {
        1: RunError("rate_limit", "try again in 1.5s (req_a1)", 429),
        2: RunError("rate_limit", "try again in 20s (req_b2)", 429),
        3: RunError("server", "down", 503),
    }
    groups = error_groups(report_of({"a": "EEE", "b": "EE"}, edit=edit))
    assert [(group.runs, group.variant, group.message) for group in groups] == [
        (4, Variant("agent"), "try again in 1.5s (req_a1)"),
        (1, Variant("agent"), "down"),
    ]
    assert [[place_of(case) for case in group.cases] for group in groups] == [
        ["evals.yaml:10", "evals.yaml:20"],
        ["evals.yaml:10"],
    ]


def test_the_input_is_what_the_case_has() -> None:
    assert input_text(case_of(vars={"to": "Paris", "seats": 2})) == "to: Paris\nseats: 2"
    assert input_text(case_of(input="Hello")) == "Hello"
    assert input_text(case_of(input={"a": ["b"]})) == '{"a":["b"]}'
    assert input_text(case_of(messages=(Message("user", "Hi"),))) == "Hi"
    assert input_text(
        case_of(messages=(Message("system", "Be short."), Message("user", "Hi")))
    ) == ("system: Be short.\nuser: Hi")
    assert input_text(case_of(input={"lone": "\ud800"})) == '{"lone":"\ud800"}'
