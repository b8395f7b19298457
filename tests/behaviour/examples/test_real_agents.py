"""Agents of seven kinds give the same answers. The frameworks come with `make test-slow`."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from example_runs import EXAMPLES, run_example


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    """The address of the example's HTTP service."""
    command = [sys.executable, str(EXAMPLES / "real_agents" / "service.py"), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


FRAMEWORKS = ("pydantic-ai", "openai-agents", "langgraph", "ag2")
ANSWERS = {"paris": "That is 120.", "oslo": "That is 90."}


def check(service: str, folder: Path, *providers: str) -> list[dict[str, Any]]:
    arguments = ("--providers", ",".join(providers))
    environ = {"SERVICE_URL": service, "PYTHONWARNINGS": "error"}
    report = run_example("real_agents", folder, *arguments, environ=environ)
    results: list[dict[str, Any]] = report["results"]
    said = {(run["provider"], run["case"]): run["response"]["output"] for run in results}
    assert {provider for provider, _ in said} == set(providers)
    assert {(case, text) for (_, case), text in said.items() if case != "elsewhere"} == set(ANSWERS.items())
    return results


def test_a_function_a_program_and_a_service_are_asked_alike(service: str, tmp_path: Path) -> None:
    check(service, tmp_path, "function", "command", "service")


@pytest.mark.slow
def test_results_of_frameworks_are_answers_with_steps_and_tokens(service: str, tmp_path: Path) -> None:
    results = check(service, tmp_path, *FRAMEWORKS, "function", "command", "service")
    for run in results:
        if run["provider"] in FRAMEWORKS and run["case"] == "paris":
            steps = [(step["kind"], step.get("result")) for step in run["response"]["steps"]]
            assert steps == [("model_request", None), ("tool_call", "120"), ("model_request", "That is 120.")]
            assert ("usage" in run["response"]) == (run["provider"] != "ag2"), "its stand-in counts no tokens"
