import json
from pathlib import Path

from example_runs import EXAMPLES, run_example
from processes import python


def test_the_shorter_answers_are_preferred_beyond_luck(tmp_path: Path) -> None:
    run_example("pairwise", tmp_path)
    sides = ["chatty · prompt 1", "terse · prompt 1"]
    suite = str(EXAMPLES / "pairwise" / "evals.yaml")
    options = ["-c", suite, "--function", "taste:prefer", "--report", "results", "--format", "json"]
    done = python(
        tmp_path, "-m", "ci_evals", "pairwise", *sides, *options, environ={"PYTHONUTF8": "1"}
    )
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["preferred"], found["cases"], found["flips"]) == (
        "b",
        {"a": 0, "b": 6, "ties": 0},
        0,
    )
