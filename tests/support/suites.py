"""Suites on disk and their runs: what a test that starts where a user starts begins with."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from leftovers import report_in
from processes import Finished, ci_evals

from ci_evals.engine.journal import JOURNAL
from ci_evals.invocation import Invocation, Watcher
from ci_evals.model.report import SuiteReport
from ci_evals.session import execute
from ci_evals.suite.load import load_suite

ONE_CASE = {"id": "greeting", "input": "hello", "expect": [{"equals": "hello"}]}
ECHO = {"name": "echo", "type": "mock"}
AGENT = {"name": "agent", "type": "python", "target": "agent:answer"}
"""The function `answer` of `agent.py` in the suite's folder."""


def write_suite(
    folder: Path,
    cases: Iterable[Mapping[str, Any]] | Mapping[str, Any] = (ONE_CASE,),
    **settings: Any,
) -> Path:
    """Write `evals.yaml`; see `write_suite_file`."""
    return write_suite_file(folder / "evals.yaml", cases=cases, **settings)


def write_suite_file(path: Path, **settings: Any) -> Path:
    """Write a suite (as JSON, which is YAML) of one run; its provider is a mock that echoes.

    A key whose value is `...` is left out.
    """
    values = {"name": "test", "runs": 1, "providers": [ECHO], "cases": [ONE_CASE], **settings}
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {key: value for key, value in values.items() if value is not ...}
    path.write_text(json.dumps(kept, default=list), "utf-8")
    return path


def write_agent(folder: Path, **settings: Any) -> Path:
    """Write a suite and its agent, a function that echoes."""
    (folder / "agent.py").write_text("def answer(question):\n    return question\n", "utf-8")
    return write_suite(folder, **{"providers": [AGENT], **settings})


def write_cases(folder: Path, cases: Iterable[Mapping[str, Any]]) -> Path:
    """Write `cases.jsonl`."""
    return write_lines(folder / "cases.jsonl", *cases)


def write_lines(path: Path, *documents: Any) -> Path:
    """Write JSON documents, one a line."""
    path.write_text("".join(json.dumps(document) + "\n" for document in documents), "utf-8")
    return path


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts by their paths below a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def write_task(
    folder: Path,
    name: str,
    *,
    test: str,
    instruction: str = "1",
    toml: str = "",
    environment: Mapping[str, str] = {},
) -> Path:
    """Write a task folder `tasks/NAME`.

    Args:
        folder: the suite's.
        name: the task's.
        test: the shell script that judges.
        instruction: what the agent is asked.
        toml: what `task.toml` has besides the version.
        environment: the files that the agent finds.
    """
    task = folder / "tasks" / name
    files = {
        "task.toml": f'version = "1.0"\n{toml}',
        "instruction.md": instruction,
        "tests/test.sh": test,
    }
    found = {f"environment/{file}": text for file, text in environment.items()}
    write_files(task, {**files, **found})
    return task


def chat(url: str, name: str = "chat", **options: Any) -> dict[str, Any]:
    """An `openai` provider at some URL."""
    return {"name": name, "type": "openai", "model": "echo", "base_url": url, **options}


def echo_case(number: int, **changes: Any) -> dict[str, Any]:
    """A case that an echo passes, but for what is given."""
    question = f"q{number}"
    return {
        "id": f"case-{number}",
        "input": question,
        "expect": [{"equals": question}],
        **changes,
    }


def echo_cases(count: int, **changes: Any) -> list[dict[str, Any]]:
    return [echo_case(number, **changes) for number in range(count)]


async def run(
    folder: Path,
    *arguments: str,
    out: str = "out",
    environ: Mapping[str, str] = {},
    constants: Mapping[str, float] = {},
) -> Finished:
    """Run the suite of a folder from the command line; the results are in its folder `out`."""
    return await ci_evals(
        folder, "run", "--out", out, *arguments, environ=environ, constants=constants
    )


async def run_to_verdict(folder: Path, *arguments: str, out: str = "out") -> Finished:
    """Run a suite that passes or fails."""
    ended = await run(folder, *arguments, out=out)
    assert ended.code in (0, 1), ended.err
    return ended


async def results_of(
    folder: Path, cases: Iterable[Mapping[str, Any]] | Mapping[str, Any], **settings: Any
) -> list[dict[str, Any]]:
    """Write a suite and run it; return the results in its report, graded or not."""
    write_suite(folder, cases, **settings)
    ended = await run(folder)
    assert ended.code != 2, ended.err
    results = report_in(folder / "out")["results"]
    assert isinstance(results, list)
    return results


async def run_in_process(
    folder: Path,
    cases: Iterable[Mapping[str, Any]] | Mapping[str, Any] = (ONE_CASE,),
    *,
    out: str = "out",
    order: Mapping[str, Any] = {},
    watcher: Watcher | None = None,
    **settings: Any,
) -> SuiteReport:
    """Write a suite and run it in this process.

    Args:
        folder: the suite's.
        cases: its cases.
        out: where the journal is, below the folder.
        order: fields of the `Invocation`.
        watcher: follows the run.
        settings: of the suite.
    """
    suite = load_suite(write_suite(folder, cases, **settings), {})
    invocation = Invocation(suite=suite, journal=folder / out / JOURNAL, **order)
    return (await execute(invocation, watcher=watcher)).report
