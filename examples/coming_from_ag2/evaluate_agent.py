"""Tasks from JSONL, an agent factory with settings per task, scorers, variants, stored runs.

Run it with: python examples/coming_from_ag2/evaluate_agent.py [STORE]
"""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ci_evals import (
    Answer,
    Case,
    CaseOverrides,
    Gate,
    Report,
    Request,
    Suite,
    evaluate,
    grader,
    provider,
)

TASKS = Path(__file__).parent / "tasks.jsonl"
CAPITALS = {"France": "Paris", "Italy": "Rome"}


def cases_of(path: Path) -> Iterator[Case]:
    """Every line as a case; the model that its metadata names is that of the case alone."""
    for line in path.read_text(encoding="utf-8").splitlines():
        task = json.loads(line)
        tags, metadata = task.get("tags") or [], task.get("metadata") or {}
        yield Case(
            id=task["task_id"],
            input=task["inputs"]["input"],
            tags=[tags] if isinstance(tags, str) else tags,
            overrides=CaseOverrides(model=metadata.get("model")),
            metadata={**metadata, "reference": task.get("reference_outputs") or {}},
        )


def make_agent(style: str) -> Callable[[], Callable[[str, Request], dict[str, Any]]]:
    """Make a fresh agent for each run. With ag2, it would return one that asks an `ag2.Agent`."""

    def factory() -> Callable[[str, Request], dict[str, Any]]:
        def agent(question: str, request: Request) -> dict[str, Any]:
            capital = CAPITALS[question.rstrip("?").split()[-1]]
            brief = style == "terse" or request.case.overrides.model == "small"
            said = capital if brief else f"The capital is {capital}."
            return {
                "output": said,
                "usage": {"input_tokens": 8, "output_tokens": 3 * len(said.split())},
            }

        return agent

    return factory


@grader
def has_the_answer(output: str, answer: Answer) -> bool:
    return answer.request.case.metadata["reference"]["answer"] in output


@grader(threshold=0.2)
def is_brief(output: str) -> float:
    return 1 / len(output.split())


async def run(store: Path) -> Report:
    """Evaluate both variants, and keep the run as `<store>/<run_id>.json`."""
    variants = ["terse", "friendly"]
    suite = Suite(
        name="capitals",
        cases=list(cases_of(TASKS)),
        providers=[provider(name=style, factory=True)(make_agent(style)) for style in variants],
        expect=[has_the_answer, is_brief],
        budget={
            "per_run": {"max_tokens": 19}
        },  # flags; `gate.max_budget_violations` would make it a rule
        gate=Gate(min_pass_rate=0.9),
        settings={"label": "nightly"},
        runs=3,
    )
    report = await evaluate(suite, max_concurrency=2)
    report.save(store / f"{report.run_id}.json")
    return report


def main(store: Path) -> None:
    report = asyncio.run(run(store))
    for standing in report.leaderboard:
        print(standing.place, standing.variant.variant, f"{standing.variant.pass_rate:.0%}")
    print("over budget:", sum(bool(run.budget_violations) for run in report.runs))
    print("kept:", (store / f"{report.run_id}.json").exists())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs"))
