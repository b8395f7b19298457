"""The example judges the way to an answer."""

from pathlib import Path

from example_runs import EXAMPLES, run_command


def test_every_case_of_the_trajectory_example_passes_and_its_steps_are_kept(tmp_path: Path) -> None:
    ran = run_command(tmp_path, "run", "-c", str(EXAMPLES / "agent_trajectory" / "evals.yaml"))
    assert ran.code == 0, ran.printed
    assert ran.report["totals"]["passed"] == 9
    trajectory = ran.grades("book")["trajectory"]
    assert trajectory["sentence"] == "called search_flights → get_price → book"
    booked = next(result for result in ran.report["results"] if result["case"] == "book")
    assert [step["name"] for step in booked["response"]["steps"] if step["kind"] == "tool_call"][
        -1
    ] == "book"
