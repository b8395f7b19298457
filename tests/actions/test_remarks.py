"""What is annotated: each failing case, but one remark on all that errored for the same reason."""

import pytest
from factories import Outcome, report_of
from msgspec.structs import replace

from ci_evals.actions.remarks import remarks
from ci_evals.github.annotations import Annotation
from ci_evals.model import Result, RunError, Variant
from ci_evals.reports.summary import summarize


def test_an_outage_is_one_remark_on_its_first_case() -> None:
    def edit(result: Result) -> Result:
        message = "no such model" if result.case == "odd" else f"not reached after {result.run} s"
        return replace(result, error=RunError("network", message)) if result.error else result

    cells = {"wrong": "FF", "a": "EE", "b": "EE", "odd": "EE", "c": "EE"}
    report = report_of(cells, edit=edit)
    wrong, outage, odd = remarks(summarize(report, None), lambda file: f"suites/{file}")
    assert (wrong.title, wrong.line) == ("Failing: wrong", 10)
    text = "3 cases without a graded run\nnot reached after 1 s"
    assert outage == Annotation("warning", text, "suites/evals.yaml", 20, "No verdict: a and 2 more")
    text = "all 2 runs errored\nno such model"
    assert odd == Annotation("warning", text, "suites/evals.yaml", 40, "No verdict: odd")


@pytest.mark.parametrize(
    ("outcomes", "title", "found"),
    [
        (["E", "E"], "a on one and 3 more", "2 cases on 2 variants"),
        (["P", "E"], "a on two and 1 more", "2 cases on two"),
    ],
)
def test_an_outage_of_variants_is_told_in_cases_and_variants(outcomes: list[Outcome], title: str, found: str) -> None:
    report = report_of({"a": outcomes, "b": outcomes}, variants=(Variant("one"), Variant("two")))
    (outage,) = remarks(summarize(report, None), lambda _: None)
    assert outage.title == f"No verdict: {title}"
    assert outage.message.startswith(f"{found} without a graded run\n")


def test_runs_that_were_given_up_have_no_remark_of_their_own() -> None:
    def edit(result: Result) -> Result:
        message = "api.example answered 401: bad key"
        given_up = RunError("given_up", f"given up after 5 failures in a row: {message}")
        return replace(result, error=given_up if result.case == "c" else RunError("auth", message, status=401))

    (outage,) = remarks(summarize(report_of(dict.fromkeys("abc", "E"), edit=edit), None), lambda _: None)
    assert outage.message == "3 cases without a graded run\napi.example answered 401: bad key"
