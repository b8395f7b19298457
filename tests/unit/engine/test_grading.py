"""How a call's end becomes the outcome of its run."""

from dataclasses import dataclass

import pytest
from factories import case_of

from ci_evals.engine.grading import grade_answer
from ci_evals.errors import StorageError
from ci_evals.graders.python import PythonGrader
from ci_evals.graders.text import Contains
from ci_evals.model.grading import Expectation, Finding, Grader
from ci_evals.model.request import Answer, Request
from ci_evals.model.response import Response


@dataclass(frozen=True, slots=True)
class Broken(Contains):
    def grade(self, answer: Answer) -> None:  # type: ignore[override]
        raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    ("name", "grader", "message"),
    [
        ("broken", Broken(value=""), "raised ZeroDivisionError: division by zero"),
        (
            "not_python",
            PythonGrader(target="math:sqrt"),
            "raised TypeError: must be real number",
        ),
    ],
)
async def test_an_exception_is_a_failed_check_and_the_others_are_made(
    name: str, grader: Grader, message: str
) -> None:
    expect = (
        Expectation("contains", Contains(value="Paris")),
        Expectation(name, grader),
        Expectation("python", grader),
    )
    request = Request("?", (), case_of(expect=expect), 1, 60)
    outcome = await grade_answer(Answer(request, Response(output="Paris"), 0.1, None))
    assert (outcome.status, outcome.error) == ("failed", None)
    assert [grade.passed for grade in outcome.grades] == [True, False, False]
    raised = outcome.grades[1]
    assert raised.reason.startswith(message)
    assert raised.detail is not None
    assert raised.detail.startswith("Traceback")


async def test_without_a_verdict_the_error_names_the_grader_and_what_it_calls() -> None:
    grader = PythonGrader(target="importlib:import_module")
    expect = (Expectation("contains", Contains(value="no")), Expectation("not_python", grader))
    request = Request("?", (), case_of(expect=expect), 1, 60)
    outcome = await grade_answer(Answer(request, Response(output="nope"), 0.1, None))
    assert outcome.error is not None
    assert (outcome.status, outcome.error.kind, outcome.grades) == ("errored", "grader", ())
    assert outcome.error.message == (
        "grader not_python importlib:import_module could not judge:"
        " it raised ModuleNotFoundError: No module named 'nope'"
    )


async def test_grades_come_in_the_order_of_the_expectations() -> None:
    expect = tuple(Expectation(text, Contains(value=text)) for text in ("c", "a", "b"))
    outcome = await grade_answer(
        Answer(Request("?", (), case_of(expect=expect), 1, 60), Response(output="abc"), 0.1, None)
    )
    assert [found.grader for found in outcome.grades] == ["c", "a", "b"]


async def test_a_disk_that_is_full_is_no_crash_of_a_grader() -> None:
    @dataclass(frozen=True, slots=True)
    class Storing(Contains):
        def grade(self, answer: Answer) -> Finding:
            raise StorageError("files: cannot be written: No space left on device")

    request = Request("?", (), case_of(expect=(Expectation("storing", Storing(value="")),)), 1, 60)
    with pytest.raises(StorageError, match="No space left"):
        await grade_answer(Answer(request, Response(output="Paris"), 0.1, None))
