"""Where user code runs, by suite and command line; test_ray.py has the clusters."""

import sys
from pathlib import Path
from typing import Any

import pytest
from processes import ci_evals
from suites import write_suite

from ci_evals import ConfigError, Suite, check_suite, evaluate_sync
from ci_evals.errors import UsageError

WITHOUT_RAY = (
    sys.executable,
    "-c",
    "import sys; sys.modules['ray'] = None; from ci_evals.__main__ import main; main()",
)
OTHER_PROCESS = (sys.executable, "-m", "ci_evals")
REMEDY = (
    "needs Ray, which is not installed: `pip install 'ci-evals[ray]'`, or ray[client] 2.60 or later"
)


def write_project(folder: Path, executor: Any) -> None:
    (folder / "agent.py").write_text("def answer(question):\n    return question\n")
    providers = [{"type": "python", "target": "agent:answer"}]
    write_suite(folder, providers=providers, **({} if executor is None else {"executor": executor}))


@pytest.mark.parametrize(
    ("executor", "problem"),
    [
        ("rya", "executor: expected local, ray or ray://host:port, got 'rya', did you mean 'ray'?"),
        ("ray://", "executor: expected host:6379, ray://host:10001 or auto, got 'ray://'"),
        ({"type": "rya"}, "executor.type: expected local or ray, got 'rya'"),
        ({"type": "ray", "num_cpus": "many"}, "executor.num_cpus: expected a number, got 'many'"),
        ({"type": "ray", "cpus": 2}, "executor: unknown key 'cpus', did you mean 'num_cpus'?"),
        (
            {"type": "ray", "address": "http://head:8265"},
            "executor.address: expected host:6379, ray://host:10001 or auto, got 'http://head:8265'",
        ),
        ({"num_gpus": 1}, "executor.num_gpus: only for `type: ray`, and the executor is local"),
        (
            {"type": "ray", "runtime_env": {"env_vars": ["TOKEN"]}},
            (
                "executor.runtime_env: expected text for each of `env_vars`, as in"
                " `env_vars: {MODEL: small}`"
            ),
        ),
    ],
)
async def test_a_mistake_is_one_problem(executor: Any, problem: str, tmp_path: Path) -> None:
    write_project(tmp_path, executor)
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    assert ended.err == f"evals.yaml:1: {problem}\n\n1 problem, nothing was run.\n"


@pytest.mark.parametrize(
    ("below", "problem"), [("elsewhere", "there is no folder"), ("other", "the suite is not in")]
)
async def test_the_shipped_folder_must_have_the_suite(
    below: str, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    write_project(tmp_path, {"type": "ray", "runtime_env": {"working_dir": below}})
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    assert f"executor.runtime_env.working_dir: {problem} {tmp_path / below}" in ended.err


async def test_ray_that_is_not_installed_is_said_with_what_to_install(tmp_path: Path) -> None:
    write_project(tmp_path, "ray")
    for command in ("validate", "run"):
        ended = await ci_evals(tmp_path, command, command=WITHOUT_RAY)
        assert ended.code == 2
        assert ended.err == f"evals.yaml:1: executor: {REMEDY}\n\n1 problem, nothing was run.\n"
    ended = await ci_evals(tmp_path, "run", "--executor", "local", command=WITHOUT_RAY)
    assert ended.code == 0, ended.err
    write_project(tmp_path, None)
    ended = await ci_evals(tmp_path, "run", "--executor", "ray", command=WITHOUT_RAY)
    assert ended.code == 2
    assert f"evals.yaml: executor: {REMEDY}" in ended.err


async def test_the_command_line_names_one_by_its_short_form(tmp_path: Path) -> None:
    write_project(tmp_path, None)
    for given, message in (
        ("rya", "did you mean 'ray'?"),
        ("ray://head", "expected host:6379, ray://host:10001"),
    ):
        ended = await ci_evals(tmp_path, "run", "--executor", given)
        assert ended.code == 2
        assert "Invalid value for '--executor'" in ended.err
        assert message in ended.err


def test_python_takes_the_same(tmp_path: Path) -> None:
    def answer(question: str) -> str:
        return question

    suite = Suite(providers=[answer], cases=["a"], expect=[{"contains": "a"}], folder=tmp_path)
    with pytest.raises(
        UsageError, match="executor: expected local, ray or ray://host:port, got 'rya'"
    ):
        evaluate_sync(suite, executor="rya")
    assert evaluate_sync(suite, executor="local").all_passed
    wrong = Suite(
        providers=[answer], cases=["a"], expect=[{"contains": "a"}], executor={"num_cpus": 2}
    )
    with pytest.raises(ConfigError, match="only for `type: ray`"):
        check_suite(wrong)


def test_an_executor_takes_no_part_in_fingerprints(tmp_path: Path) -> None:
    def suite(executor: Any) -> Suite:
        return Suite(
            providers=[print],
            cases=["a"],
            expect=[{"contains": "a"}],
            folder=tmp_path,
            executor=executor,
        )

    named = {"type": "ray", "address": "head:6379", "num_cpus": 2}
    assert check_suite(suite("local")).fingerprint == check_suite(suite(named)).fingerprint


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
    (tmp_path / "agent.py").write_text("def answer(question):\n    return question\n")
    write_suite(
        tmp_path,
        providers=[{"type": "python", "target": "agent:answer"}],
        cases=[{"input": "?", "expect": [{"equals": "1 on 3 machines"}]}],
        executor={"type": "elsewhere", "machines": 3},
    )
    ended = await ci_evals(tmp_path, "run", command=OTHER_PROCESS, environ=environ)
    assert ended.code == 0, ended.out + ended.err
    wrong = [{"type": "elsewhere", "machine": 3}, {"type": "elsewhere", "machines": "many"}]
    names = ["key", "value", "name"]
    for name, executor in zip(names, [*wrong, "elsewere"], strict=True):
        (tmp_path / name).mkdir()
        write_project(tmp_path / name, executor)
    ended = await ci_evals(tmp_path, "validate", *names, command=OTHER_PROCESS, environ=environ)
    assert "executor: unknown key 'machine', did you mean 'machines'?" in ended.err
    assert "executor.machines: expected" in ended.err
    assert "expected local, ray, elsewhere or ray://host:port" in ended.err
    assert "did you mean 'elsewhere'?" in ended.err
