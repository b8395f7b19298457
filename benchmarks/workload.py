"""The measured work: a suite and its cases, run by ci-evals or by the raw loop."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.processes import HERE, PYTHON, Server, Spent, UnexpectedExitError, spend


class Load(NamedTuple):
    """How much there is to do: every case expects an answer of `answer_bytes` times `x`."""

    cases: int
    runs: int = 1
    concurrency: int = 64
    answer_bytes: int = 20
    formats: tuple[str, ...] = ("json", "junit", "markdown")  # as in docs/performance.md

    @property
    def total(self) -> int:
        return self.cases * self.runs


def write_suite(folder: Path, load: Load, provider: Mapping[str, Any]) -> Path:
    """Write `cases.jsonl` and `evals.yaml` (as JSON) to a new folder; return the suite's path."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    answer = "x" * load.answer_bytes
    with (folder / "cases.jsonl").open("w") as file:
        for number in range(load.cases):
            case = {
                "id": f"case {number}",
                "input": f"Question {number}?",
                "expect": [{"equals": answer}],
            }
            file.write(json.dumps(case) + "\n")
    settings = {
        "name": "benchmark",
        "runs": load.runs,
        "max_concurrency": load.concurrency,
        "providers": [provider],
        "cases": [{"file": "cases.jsonl"}],
        "report": {"formats": load.formats},
    }
    suite = folder / "evals.yaml"
    suite.write_text(json.dumps(settings, indent=1))
    return suite


def openai(server: Server) -> Mapping[str, Any]:
    return {"type": "openai", "model": "mock", "base_url": server.base_url}


def run_command(suite: Path, out: Path) -> list[str]:
    return [PYTHON, "-m", "ci_evals", "run", "-c", str(suite), "--out", str(out), "--quiet"]


def new_out(suite: Path) -> Path:
    """A folder that no earlier run has left results in."""
    return Path(tempfile.mkdtemp(dir=suite.parent), "out")


class SuiteRun(NamedTuple):
    """What a run by ci-evals cost, and where its files are."""

    spent: Spent
    out: Path

    @property
    def run_phase_s(self) -> float:
        """Wall time of the run phase, in seconds, as its report says."""
        return float(json.loads((self.out / "report.json").read_bytes())["duration_s"])


def run_suite(suite: Path, load: Load, server: Server, env: Mapping[str, str]) -> SuiteRun:
    """Run a suite by ci-evals.

    Raises:
        UnexpectedExitError: it failed, or did not ask the server once for each run.
    """
    before, out = server.requests(), new_out(suite)
    spent = spend(run_command(suite, out), env)
    asked = server.requests() - before
    if asked != load.total:
        raise UnexpectedExitError(f"ci-evals made {asked} requests for {load.total} runs")
    return SuiteRun(spent, out)


def run_raw(suite: Path, load: Load, server: Server, *options: str) -> Spent:
    """Do the same by the raw loop, which prints its own figures."""
    with tempfile.NamedTemporaryFile(dir=suite.parent) as journal:
        settings = [
            "--runs",
            str(load.runs),
            "--concurrency",
            str(load.concurrency),
            "--journal",
            journal.name,
        ]
        cases = str(suite.with_name("cases.jsonl"))
        return spend(
            [PYTHON, str(HERE / "raw_loop.py"), server.completions_url, cases, *settings, *options]
        )
