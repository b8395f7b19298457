from pathlib import Path

from example_runs import run_example


def test_each_conversation_goes_as_the_readme_says(tmp_path: Path) -> None:
    report = run_example("conversations", tmp_path)
    responses = {result["case"]: result["response"] for result in report["results"]}
    said = {
        case: [turn["user"] for turn in response["turns"]] for case, response in responses.items()
    }
    assert said == {
        "two-turns": ["A table for two, please.", "At eight."],
        "hesitant-guest": ["I'd like a table.", "For three.", "At seven."],
        "pushy-guest": ["Who else is coming tonight?"] * 3,
    }
    assert responses["hesitant-guest"]["finish_reason"] == "goal_reached"
    assert responses["pushy-guest"]["finish_reason"] == "max_turns"
