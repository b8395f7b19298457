"""The examples, run the way a reader would run them."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from leftovers import report_in
from processes import python

EXAMPLES = Path(__file__).parents[2] / "examples"


class Ran(NamedTuple):
    """What became of an example: the exit code, what was printed, and report.json."""

    code: int
    printed: str
    report: dict[str, Any]

    def grades(self, case: str) -> dict[str, dict[str, Any]]:
        """The grades of a case's first run, by grader."""
        result = next(result for result in self.report["results"] if result["case"] == case)
        return {grade["grader"]: grade for grade in result["grades"]}


def run_command(folder: Path, *words: str, environ: Mapping[str, str] = {}) -> Ran:
    """Run `ci-evals` with these words in an unrelated folder, to which the results go."""
    done = python(
        folder,
        "-m",
        "ci_evals",
        *words,
        "--out",
        "results",
        environ={"PYTHON": sys.executable, **environ},
    )
    printed = done.out + done.err
    assert (folder / "results" / "report.json").exists(), printed
    return Ran(done.code, printed, report_in(folder / "results"))


def run_suite(folder: Path, suite: Path, *arguments: str, environ: Mapping[str, str] = {}) -> Ran:
    """Run a suite in an unrelated folder, to which the results go."""
    return run_command(folder, "run", "-c", str(suite), *arguments, environ=environ)


def run_example(
    name: str, folder: Path, *arguments: str, environ: Mapping[str, str] = {}
) -> dict[str, Any]:
    """The report of an example that passes."""
    ran = run_suite(folder, EXAMPLES / name / "evals.yaml", *arguments, environ=environ)
    assert ran.code == 0, ran.printed
    return ran.report


def run_script(name: str, folder: Path, *arguments: str) -> tuple[str, str]:
    """Run a script of the examples in an unrelated folder; return its stdout and stderr."""
    done = python(
        folder, "-W", "error", str(EXAMPLES / name), *arguments, environ={"PYTHONUTF8": "1"}
    )
    assert done.code == 0, done.out + done.err
    return done.out, done.err
