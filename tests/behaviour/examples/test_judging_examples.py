"""Examples of judging by a model and of classification."""

from pathlib import Path

from example_runs import EXAMPLES, run_command


def test_the_judge_of_the_example_decides_and_is_counted_apart(tmp_path: Path) -> None:
    ran = run_command(tmp_path, "run", "-c", str(EXAMPLES / "judged_support" / "evals.yaml"))
    assert ran.code == 0, ran.printed
    assert ran.report["totals"]["passed"] == 3
    assert ran.report["totals"]["judging"]["calls"] == 3 + 3 + 1 + 1
    assert ran.grades("made-up")["not_judge"]["passed"]


def test_the_router_of_the_example_is_judged_as_a_whole(tmp_path: Path) -> None:
    ran = run_command(tmp_path, "run", "-c", str(EXAMPLES / "support_intents" / "evals.yaml"))
    assert ran.code == 0, ran.printed
    assert ran.report["totals"]["failed"] == 1
    (found,) = ran.report["variants"][0]["classifications"]
    assert found["accuracy"] == 0.9
    assert {label["label"]: label["recall"] for label in found["labels"]}["refund"] == 1
