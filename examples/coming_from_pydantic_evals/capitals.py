"""A dataset with typed inputs, metadata and evaluators, and a report with a baseline.

Run it with: python examples/coming_from_pydantic_evals/capitals.py
"""

import asyncio
import math
from dataclasses import dataclass

from ci_evals import Answer, Case, Suite, evaluate, grader
from ci_evals.graders import Contains, Latency

CAPITALS = {"France": "Paris", "Italy": "Rome", "Japan": "Tokyo"}


@dataclass(frozen=True)
class Question:
    """What the task takes: it arrives as this very object."""

    country: str
    polite: bool = False


@grader
def equals_expected(output: str, answer: Answer) -> bool:
    return bool(output == answer.request.case.metadata["expected_output"])


@grader(threshold=0.5)
async def is_polite(output: str) -> dict[str, float | str]:
    """A score with a reason; it may wait, as for a judge."""
    return {
        "score": float("please" in output),
        "reason": "says please" if "please" in output else "is blunt",
    }


def dataset(task: object) -> Suite:
    """The cases, with a task that answers them."""
    return Suite(
        name="capitals",
        providers=task,
        cases=[
            Case(
                id="france",
                input=Question("France"),
                metadata={"expected_output": "Paris", "difficulty": "easy"},
                expect=[equals_expected],
            ),
            Case(
                id="japan",
                input=Question("Japan"),
                metadata={"expected_output": "Tokyo"},
                expect=[equals_expected],
            ),
            Case(
                id="italy",
                input=Question("Italy", polite=True),
                expect=[Contains("Rome"), is_polite],
            ),
        ],
        expect=[Latency(5)],
        max_concurrency=math.inf,  # tasks and evaluators together
        retries=2,
        runs=8,
    )


def answer(question: Question) -> str:
    return CAPITALS[question.country] + (", please" if question.polite else "")


async def hasty_answer(question: Question) -> str:
    """A worse version, and an async one."""
    return "Kyoto" if question.country == "Japan" else answer(question)


async def main() -> None:
    baseline = await evaluate(dataset(answer))
    report = await evaluate(dataset(hasty_answer), baseline=baseline)
    print(report.summary())
    print(report.diff_table(baseline))


if __name__ == "__main__":
    asyncio.run(main())
