"""Where user code runs, by suite and command line."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import ci_evals
from suites import write_agent

from ci_evals import Suite, check_suite, evaluate_sync
from ci_evals.errors import ConfigError, UsageError
from ci_evals.registry import EXECUTORS

OTHER_PROCESS = (sys.executable, "-m", "ci_evals")


@pytest.mark.parametrize(
    ("executor", "problem"),
    [
        ("locla", r"settings\.executor: expected local.*, got 'locla', did you mean 'local'\?"),
        ({"type": "locla"}, r"settings\.executor\.type: expected local.*, got 'locla'"),
        ({"type": "local", "cpus": 2}, r"settings\.executor: unknown key 'cpus'"),
    ],
)
async def test_a_mistake_is_one_problem(executor: Any, problem: str, tmp_path: Path) -> None:
    write_agent(tmp_path, settings={"executor": executor})
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    told = rf"evals\.yaml:1: {problem}\n\n1 problem, nothing was run\.\n"
    assert re.fullmatch(told, ended.err), ended.err


async def test_the_command_line_names_one(tmp_path: Path) -> None:
    write_agent(tmp_path)
    ended = await ci_evals(tmp_path, "run", "--executor", "locla")
    assert ended.code == 2
    assert "Invalid value for '--executor'" in ended.err
    assert "did you mean 'local'?" in ended.err
    assert (await ci_evals(tmp_path, "run", "--executor", "local")).code == 0


def test_python_takes_the_same(tmp_path: Path) -> None:
    def answer(question: str) -> str:
        return question

    suite = Suite(providers=[answer], cases=["a"], expect=[{"contains": "a"}], folder=tmp_path)
    with pytest.raises(UsageError, match=r"executor: expected local.*, got 'locla'"):
        evaluate_sync(suite, executor="locla")
    assert evaluate_sync(suite, executor="local").all_passed
    wrong = Suite(providers=[answer], cases=["a"], settings={"executor": {"cpus": 2}})
    with pytest.raises(ConfigError, match="unknown key 'cpus'"):
        check_suite(wrong)


OTHER_PACKAGE = """
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ci_evals.engine.resources import LocalExecutor
from ci_evals.executors import ExecutorOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere(ExecutorOptions):
    machines: int = 1

    @asynccontextmanager
    async def open(self, suite, portable, files):
        yield Counting(self.machines, len(portable))


class Counting(LocalExecutor):
    def __init__(self, machines, portable):
        self.output = f"{portable} on {machines} machines"

    def open(self, options, resources):
        provider = super().open(options, resources)
        return Answering(provider, self.output)


class Answering:
    def __init__(self, provider, output):
        self.provider = provider
        self.output = output

    async def answer(self, request):
        return replace(await self.provider.answer(request), output=self.output)
"""


def install_executor(folder: Path) -> dict[str, str]:
    """Install a package with an executor; returns the environment in which it is there."""
    (folder / "elsewhere.py").write_text(OTHER_PACKAGE)
    metadata = folder / "elsewhere-2.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 2.1\n")
    (metadata / "entry_points.txt").write_text(
        "[ci_evals.executors]\nelsewhere = elsewhere:Elsewhere\n"
    )
    return {"PYTHONPATH": str(folder)}


async def test_an_executor_of_another_package_is_named_as_ours_are(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    environ = install_executor(tmp_path / "site")
    write_agent(
        tmp_path,
        cases=[{"input": "?", "expect": [{"equals": "1 on 3 machines"}]}],
        settings={"executor": {"type": "elsewhere", "machines": 3}},
    )
    ended = await ci_evals(tmp_path, "run", command=OTHER_PROCESS, environ=environ)
    assert ended.code == 0, ended.out + ended.err
    wrong = [{"type": "elsewhere", "machine": 3}, {"type": "elsewhere", "machines": "many"}]
    names = ["key", "value", "name"]
    for name, executor in zip(names, [*wrong, "elsewere"], strict=True):
        (tmp_path / name).mkdir()
        write_agent(tmp_path / name, settings={"executor": executor})
    ended = await ci_evals(tmp_path, "validate", *names, command=OTHER_PROCESS, environ=environ)
    assert "executor: unknown key 'machine', did you mean 'machines'?" in ended.err
    assert "executor.machines: expected" in ended.err
    forms = [*EXECUTORS.own, "elsewhere"]
    if "ray" in EXECUTORS:
        forms.append("ray://host:port")
    assert f"expected {', '.join(forms[:-1])} or {forms[-1]}, got" in ended.err
    assert "did you mean 'elsewhere'?" in ended.err
