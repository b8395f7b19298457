"""Agents of seven kinds give the same answers. The frameworks come with `make test-slow`."""

from pathlib import Path
from typing import Any

import pytest
from example_runs import run_example

FRAMEWORKS = ("pydantic-ai", "openai-agents", "langgraph", "ag2")
ANSWERS = {"paris": "That is 120.", "oslo": "That is 90."}


def check(port: str, folder: Path, *providers: str) -> list[dict[str, Any]]:
    arguments = ("--providers", ",".join(providers))
    environ = {"PORT": port, "PYTHONWARNINGS": "error"}
    report = run_example("real_agents", folder, *arguments, environ=environ)
    results: list[dict[str, Any]] = report["results"]
    said = {(run["provider"], run["case"]): run["response"]["output"] for run in results}
    assert {provider for provider, _ in said} == set(providers)
    assert {(case, text) for (_, case), text in said.items() if case != "elsewhere"} == set(
        ANSWERS.items()
    )
    return results


def test_a_function_a_program_and_a_service_are_asked_alike(port: str, tmp_path: Path) -> None:
    check(port, tmp_path, "function", "command", "service")


@pytest.mark.slow
def test_results_of_frameworks_are_answers_with_steps_and_tokens(port: str, tmp_path: Path) -> None:
    results = check(port, tmp_path, *FRAMEWORKS, "function", "command", "service")
    for run in results:
        if run["provider"] in FRAMEWORKS and run["case"] == "paris":
            steps = [(step["kind"], step.get("result")) for step in run["response"]["steps"]]
            assert steps == [
                ("model_request", None),
                ("tool_call", "120"),
                ("model_request", "That is 120."),
            ]
            assert ("usage" in run["response"]) == (run["provider"] != "ag2"), (
                "its stand-in counts no tokens"
            )
