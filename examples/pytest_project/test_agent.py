"""Three ways to evaluate an agent with pytest."""

import pytest

from ci_evals import Case, Gate, Report, grader
from ci_evals.graders import Contains, ToolCallMatch


@grader
def confirms(output: str) -> bool:
    return "booked" in output


@pytest.mark.evals(
    prompt="A table for 4, please", expect=[ToolCallMatch("book_table", {"guests": 4})], runs=5
)
def test_the_right_tool_is_called() -> None:
    """Passes if every run does."""


@pytest.mark.evals(
    prompts=["A table for 2", "A table for 6"],
    expect=[confirms],
    runs=20,
    gate=Gate(min_pass_rate=0.7),
)
def test_bookings_are_confirmed() -> None:
    """Fails only when the pass rate is below the bar beyond doubt."""


@pytest.mark.evals(
    cases=[
        Case(input="A table for 3", expect=[Contains("table for 3")], tags=["small"]),
        Case(input="A table for 12", expect=[Contains("table for 12")], tags=["large"]),
    ],
    runs=10,
)
def test_of_large_groups(evals_result: Report) -> None:
    """Looks at the result and decides by itself."""
    large = evals_result.slice(tag="large")
    assert large.total == 10
    assert large.pass_rate is not None
    assert large.pass_rate >= 0.5
