"""Agents of five kinds give the same answers. The two frameworks come with `make test-slow`."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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


ANSWERS = {"paris": "That is 120.", "oslo": "That is 90."}


def check(service: str, folder: Path, *providers: str) -> None:
    arguments = ("--providers", ",".join(providers))
    environ = {"SERVICE_URL": service, "PYTHONWARNINGS": "error"}
    report = run_example("real_agents", folder, *arguments, environ=environ)
    said = {(run["provider"], run["case"]): run["response"]["output"] for run in report["results"]}
    assert {provider for provider, _ in said} == set(providers)
    assert {(case, text) for (_, case), text in said.items() if case != "elsewhere"} == set(ANSWERS.items())


def test_a_function_a_program_and_a_service_are_asked_alike(service: str, tmp_path: Path) -> None:
    check(service, tmp_path, "function", "command", "service")


@pytest.mark.slow
def test_so_are_agents_of_pydantic_ai_and_ag2(service: str, tmp_path: Path) -> None:
    check(service, tmp_path, "pydantic-ai", "ag2", "function", "command", "service")
