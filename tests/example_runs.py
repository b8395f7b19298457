"""The examples, run the way a reader would run them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from leftovers import report_in
from processes import environment

EXAMPLES = Path(__file__).parents[1] / "examples"


def run_example(name: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """The report of an example that passes, started from a folder that has nothing to do with it."""
    suite = EXAMPLES / name / "evals.yaml"
    command = [sys.executable, "-m", "ci_evals", "run", "-c", str(suite), "--out", "results", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment({}), capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return report_in(folder / "results")
