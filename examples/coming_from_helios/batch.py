"""Tasks by folder and pattern, two agents, a line for each finished task, and totals.

Run it with: python examples/coming_from_helios/batch.py [OUTPUT_FOLDER]
"""

import asyncio
import sys
from pathlib import Path

from ci_evals import Report, Result, Suite, discover_tasks, evaluate

HERE = Path(__file__).parent


def on_complete(result: Result) -> None:
    """Called with each finished run; without it, nothing is printed at all."""
    print(
        f"{result.case} by {result.provider}: {result.status}, reward {result.score}",
        file=sys.stderr,
    )


async def run_batch(out: Path) -> Report:
    tasks = discover_tasks(HERE / "tasks", "*/task.toml")
    agents = [
        {
            "name": name,
            "type": "task",
            "command": [sys.executable, str(HERE / "agent.py"), name],
            "timeout_s": 60,
        }
        for name in ("careful", "quick")
    ]
    suite = Suite(name="tasks", cases=tasks, providers=agents, runs=2)
    return await evaluate(suite, max_concurrency=2, on_result=on_complete, out=out)


def main(out: Path) -> None:
    report = asyncio.run(run_batch(out))
    print(
        f"total {report.total}, passed {report.passed}, failed {report.failed}, "
        f"mean reward {report.match_rate:.2f}"
    )
    print(f"duration {report.duration_s:.1f} s")
    for run in report.runs:
        error = run.error.message if run.error else None
        print(
            f"  {run.case} by {run.provider}: {run.status}, {run.score}, "
            f"{run.latency_s:.1f} s, error {error}"
        )
    for standing in report.leaderboard:
        variant = standing.variant
        print(
            f"{variant.variant}: pass@{variant.k} {variant.pass_at_k:.0%}, "
            f"mean reward {variant.match_rate:.2f}"
        )
    print("exported:", report.save(out / "batch.json").name)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results"))
