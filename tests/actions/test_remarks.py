"""What is annotated: each failing case, but one remark on all that errored for the same reason."""

from factories import report_of
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


def test_each_variant_of_an_outage_counts() -> None:
    report = report_of({"a": "E", "b": "E"}, variants=(Variant("one"), Variant("two")))
    (outage,) = remarks(summarize(report, None), lambda _: None)
    assert outage.title == "No verdict: a on one and 3 more"
    assert outage.message.startswith("4 cases without a graded run\n")
