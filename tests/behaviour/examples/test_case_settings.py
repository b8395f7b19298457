from pathlib import Path

from example_runs import run_example


def test_each_case_is_answered_as_its_settings_say(tmp_path: Path) -> None:
    report = run_example("case_settings", tmp_path)
    answers = {result["case"]: result["response"]["output"] for result in report["results"]}
    assert answers == {
        "usual": "The capital of France is Paris.",
        "brief": "Rome",
        "recorded": "It still is Paris.",
    }
    recorded = {result["case"] for result in report["results"] if result.get("recorded")}
    assert recorded == {"recorded"}
    assert report["suite"]["label"] == "offline"
