import json
import subprocess
import sys
from pathlib import Path

from example_runs import EXAMPLES, run_example
from processes import environment


def test_the_shorter_answers_are_preferred_beyond_luck(tmp_path: Path) -> None:
    run_example("pairwise", tmp_path)
    sides = ["chatty · prompt 1", "terse · prompt 1"]
    suite = str(EXAMPLES / "pairwise" / "evals.yaml")
    options = ["-c", suite, "--function", "taste:prefer", "--report", "results", "--format", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "ci_evals", "pairwise", *sides, *options],
        cwd=tmp_path,
        env=environment({"PYTHONUTF8": "1"}),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["preferred"], found["cases"], found["flips"]) == ("b", {"a": 0, "b": 6, "ties": 0}, 0)
