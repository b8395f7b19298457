"""An example, run as its README says."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

EXAMPLES = Path(__file__).parents[1] / "examples"


class Ran(NamedTuple):
    """What became of it: the exit code, what was printed, and report.json."""

    code: int
    printed: str
    report: dict[str, Any]

    def grades(self, case: str) -> dict[str, dict[str, Any]]:
        """The grades of a case's first run, by grader."""
        result = next(result for result in self.report["results"] if result["case"] == case)
        return {grade["grader"]: grade for grade in result["grades"]}


def run_example(out: Path, *words: str) -> Ran:
    """Run `ci-evals` in a folder that has nothing to do with the example, with results in `out`."""
    command = [sys.executable, "-m", "ci_evals", *words, "--out", str(out)]
    done = subprocess.run(command, cwd=out, capture_output=True, text=True, encoding="utf-8", check=False)
    printed = done.stdout + done.stderr
    report = out / "report.json"
    assert report.exists(), printed
    return Ran(done.returncode, printed, json.loads(report.read_bytes()))
