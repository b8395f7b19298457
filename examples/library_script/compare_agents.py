"""Compare two agents from a script, with a grader of its own and live progress; needs no key.

Run it with: python examples/library_script/compare_agents.py
"""

import asyncio

from ci_evals import (
    Answer,
    Case,
    EvalCompleted,
    Gate,
    Request,
    RunFinished,
    Suite,
    evaluate_events,
    grader,
    provider,
)
from ci_evals.graders import Contains

TOWNS = {"france": "Paris", "italy": "Rome", "japan": "Tokyo"}


@provider(name="careful")
async def careful_agent(question: str) -> str:
    return f"It is {capital(question)}."


@provider(name="hasty")
def hasty_agent(question: str, request: Request) -> str:
    """Guess; of Japan every other time wrongly."""
    return (
        "Kyoto, I am sure!" if "Japan" in question and request.run % 2 == 0 else capital(question)
    )


def capital(question: str) -> str:
    return TOWNS[question.rstrip("?").split()[-1].lower()]


@grader(threshold=0.5)
def is_brief(output: str, answer: Answer) -> float:
    """1 for an answer no longer than the question, less for longer ones."""
    return min(1.0, len(str(answer.request.input)) / max(1, len(output)))


suite = Suite(
    name="capitals",
    cases=[
        Case(input="What is the capital of France?", expect=[Contains("Paris")], tags=["europe"]),
        Case(input="What is the capital of Italy?", expect=[Contains("Rome")], tags=["europe"]),
        Case(input="What is the capital of Japan?", expect=[Contains("Tokyo")]),
    ],
    providers=[careful_agent, hasty_agent],
    expect=[is_brief],
    gate=Gate(min_pass_rate=0.9),
    runs=4,
)


async def main() -> None:
    async for event in evaluate_events(suite):
        match event:
            case RunFinished(result, done, total) if result.status != "passed":
                print(f"{done}/{total}: {result.case} on {result.provider}: {result.status}")
            case EvalCompleted(report):
                print(report.summary())
                print(f"verdict: {report.verdict.status}: {report.verdict.reason}")
                print(f"europe alone: {report.slice(tag='europe').pass_rate:.0%}")


if __name__ == "__main__":
    asyncio.run(main())
