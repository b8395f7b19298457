"""Ray as the executor of a suite and of a command; test_ray.py has the clusters."""

import sys
from pathlib import Path
from typing import Any

import pytest
from processes import ci_evals
from suites import write_agent

from ci_evals import ConfigError, Suite, check_suite, evaluate_sync
from ci_evals.errors import UsageError

WITHOUT_RAY = (
    sys.executable,
    "-c",
    "import sys; sys.modules['ray'] = None; from ci_evals.__main__ import main; main()",
)
REMEDY = (
    "needs Ray, which is not installed: `pip install 'ci-evals[ray]'`, or ray[client] 2.60 or later"
)


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
    write_agent(tmp_path, settings={"executor": executor})
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    assert ended.err == f"evals.yaml:1: settings.{problem}\n\n1 problem, nothing was run.\n"


@pytest.mark.parametrize(
    ("below", "problem"), [("elsewhere", "there is no folder"), ("other", "the suite is not in")]
)
async def test_the_shipped_folder_must_have_the_suite(
    below: str, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    executor = {"type": "ray", "runtime_env": {"working_dir": below}}
    write_agent(tmp_path, settings={"executor": executor})
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    assert f"executor.runtime_env.working_dir: {problem} {tmp_path / below}" in ended.err


async def test_ray_that_is_not_installed_is_said_with_what_to_install(tmp_path: Path) -> None:
    write_agent(tmp_path, settings={"executor": "ray"})
    for command in ("validate", "run"):
        ended = await ci_evals(tmp_path, command, command=WITHOUT_RAY)
        assert ended.code == 2
        assert (
            ended.err
            == f"evals.yaml:1: settings.executor: {REMEDY}\n\n1 problem, nothing was run.\n"
        )
    ended = await ci_evals(tmp_path, "run", "--executor", "local", command=WITHOUT_RAY)
    assert ended.code == 0, ended.err
    write_agent(tmp_path)
    ended = await ci_evals(tmp_path, "run", "--executor", "ray", command=WITHOUT_RAY)
    assert ended.code == 2
    assert f"evals.yaml: settings.executor: {REMEDY}" in ended.err


async def test_the_command_line_names_one_by_its_short_form(tmp_path: Path) -> None:
    write_agent(tmp_path)
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
    wrong = Suite(
        providers=[answer],
        cases=["a"],
        expect=[{"contains": "a"}],
        settings={"executor": {"num_cpus": 2}},
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
            settings={"executor": executor},
        )

    named = {"type": "ray", "address": "head:6379", "num_cpus": 2}
    assert check_suite(suite("local")).fingerprint == check_suite(suite(named)).fingerprint
