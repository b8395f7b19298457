"""Examples of judging by a model and of classification."""

import json
from pathlib import Path

from example_runs import EXAMPLES, run_command
from processes import python


def test_the_judge_of_the_example_decides_and_is_counted_apart(tmp_path: Path) -> None:
    ran = run_command(tmp_path, "run", "-c", str(EXAMPLES / "judged_support" / "evals.yaml"))
    assert ran.code == 0, ran.printed
    assert ran.report["totals"]["passed"] == 9
    assert ran.report["totals"]["judging"]["calls"] == 3 * (3 + 3 + 1 + 1)
    grade = ran.grades("made-up")["not_judge"]
    assert (grade["passed"], grade["judge_passed"]) == (True, False)


def test_the_judge_of_the_labelled_answers_agrees_with_people_but_for_two(tmp_path: Path) -> None:
    folder = EXAMPLES / "labelled_answers"
    suite = folder / "evals.yaml"
    ran = run_command(tmp_path, "run", "-c", str(suite))
    assert ran.code == 1, ran.printed
    outputs = {each["case"]: each["response"]["output"] for each in ran.report["results"]}
    labels = folder / "labels.jsonl"
    lines = [json.loads(line) for line in labels.read_text("utf-8").splitlines()]
    assert {line["case"]: line["output"] for line in lines} == outputs
    words = ("-m", "ci_evals", "judge", "check", str(labels), "--suite", str(suite))
    checked = python(tmp_path, *words)
    assert checked.code == 0, checked.err
    assert "36 labelled answers, agreement 94.4 %, Cohen's kappa 0.89" in checked.out
    assert "passed by the judge alone: delivery-sunday, hours-holiday\n" in checked.out
    assert "fit to gate" in checked.out


def test_the_router_of_the_example_is_judged_as_a_whole(tmp_path: Path) -> None:
    ran = run_command(tmp_path, "run", "-c", str(EXAMPLES / "support_intents" / "evals.yaml"))
    assert ran.code == 0, ran.printed
    assert ran.report["totals"]["failed"] == 3
    (found,) = ran.report["variants"][0]["classifications"]
    assert found["accuracy"] == 0.9
    assert {label["label"]: label["recall"] for label in found["labels"]}["refund"] == 1
