"""Run with: pytest examples/coming_from_russo --evals-runs 5 --evals-report report"""

import re

import pytest

from ci_evals import Report
from ci_evals.graders import ToolCallMatch


def agent(wish: str) -> dict[str, object]:
    guests = int(re.findall(r"\d+", wish)[0])
    calls = [
        {"name": "look_up", "arguments": {}},
        {"name": "book_table", "arguments": {"guests": guests, "hour": 8}},
    ]
    return {"output": f"Booked for {guests}.", "tool_calls": calls}


books = ToolCallMatch("book_table", {"guests": 4}, ignore_extra_args=True, ignore_extra_calls=True)


@pytest.mark.evals(prompt="A table for 4", target=agent, expect=[books], runs=3)
def test_prompt_times_runs(evals_result: Report) -> None:
    assert evals_result.total == 3
    assert evals_result.all_passed


@pytest.mark.evals(
    prompts=["A table for 4", "We are 4", "A table for 5"], target=agent, expect=[books], runs=2
)
def test_prompts_times_runs(evals_result: Report) -> None:
    assert (evals_result.total, evals_result.passed) == (6, 4)
    assert evals_result.pass_rate == pytest.approx(2 / 3)
    assert [(run.case, run.run, run.score) for run in evals_result.runs][:2] == [
        ("A table for 4", 1, 1.0),
        ("A table for 4", 2, 1.0),
    ]
    assert "A table for 5: 0 of 2 runs" in evals_result.summary()


@pytest.mark.evals(config="evals.yaml")
def test_a_suite_file(evals_result: Report) -> None:
    assert evals_result.all_passed
