"""An agent's command on task folders: in a temporary folder, a container, a user's sandbox."""

import asyncio
import json
import math
import os
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from processes import ci_evals, finished, start, until
from suites import run_in_process, write_suite, write_task

from ci_evals.errors import ConfigError, StorageError
from ci_evals.invocation import Invocation
from ci_evals.model.case import CaseOverrides
from ci_evals.model.report import SuiteReport
from ci_evals.model.result import Result
from ci_evals.session import execute
from ci_evals.suite.load import load_suite

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="commands and verifiers are shell scripts"
)

TASKS = {"tasks": "tasks/**/task.toml"}
VERIFIER = 'cat answer.txt > "$LOGS_DIR/verifier/reward.txt"\n'
AGENT = ["sh", "-c", "cat > answer.txt; echo done"]
OWN_SANDBOX = """\
from contextlib import asynccontextmanager
from ci_evals.plugins.tasks.sandboxes import folder_sandbox

seen = []

@asynccontextmanager
async def make(task):
    async with folder_sandbox(task) as sandbox:
        seen.append(task.folder.name)
        yield sandbox
"""

SMALL_SANDBOX = """\
import shutil
from contextlib import asynccontextmanager
from ci_evals.plugins.tasks.sandboxes import folder_sandbox

class Small:
    def __init__(self, inner):
        self.tests, self.logs = inner.tests, inner.logs
        self.run, self.put_tests = inner.run, inner.put_tests

    async def get_logs(self, target):
        shutil.copytree(self.logs, target)

@asynccontextmanager
async def make(task):
    async with folder_sandbox(task) as sandbox:
        yield Small(sandbox)
"""


def add_task(
    folder: Path, name: str = "add", toml: str = "", instruction: str = "1", test: str = VERIFIER
) -> Path:
    return write_task(folder, name, test=test, instruction=instruction, toml=toml)


def provider(**changes: Any) -> dict[str, Any]:
    return {"name": "agent", "type": "task", "command": AGENT, **changes}


async def work(folder: Path, *, out: bool = True, runs: int = 1, **changes: Any) -> SuiteReport:
    order = {"files": folder / "out"} if out else {}
    providers = [provider(**changes)]
    return await run_in_process(folder, TASKS, order=order, providers=providers, runs=runs)


async def one(folder: Path, **changes: Any) -> Result:
    (result,) = (await work(folder, **changes)).runs
    return result


def error_of(result: Result) -> tuple[str, str, str]:
    assert result.error is not None
    return result.status, result.error.kind, result.error.message


async def test_the_reward_is_the_score_and_a_full_one_passes(tmp_path: Path) -> None:
    add_task(tmp_path, "full")
    add_task(tmp_path, "half", instruction="0.5")
    report = await work(tmp_path)
    assert [(each.case, each.status, each.score) for each in report.runs] == [
        ("full", "passed", 1.0),
        ("half", "failed", 0.5),
    ]
    assert [each.grades[0].reason for each in report.runs][1] == "reward below 1"


async def test_the_agent_works_in_a_fresh_copy_without_the_tests(tmp_path: Path) -> None:
    task = add_task(tmp_path)
    (task / "environment").mkdir()
    (task / "environment" / "data.txt").write_text("data")
    command = [
        "sh",
        "-c",
        'ls; ls "$TESTS_DIR" 2>/dev/null; echo more >> data.txt; cat data.txt; echo 1 > answer.txt',
    ]
    report = await work(tmp_path, command=command, runs=2)
    assert [each.response and each.response.output for each in report.runs] == [
        "data.txt\ndatamore"
    ] * 2
    assert (task / "environment" / "data.txt").read_text() == "data"


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere nothing tells a server that left its session"
)
async def test_a_server_that_the_setup_starts_is_there_for_the_agent_and_gone_afterwards(
    tmp_path: Path,
) -> None:
    """The server holds one pipe open for writing while it lives, and answers through another."""
    os.mkfifo(tmp_path / "alive")
    reading = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    serve = (
        f"mkfifo answers; setsid sh -c 'exec > {tmp_path}/alive; echo 0.5 > answers; "
        "sleep 600' 2> /dev/null &"
    )
    add_task(tmp_path, toml=f'[environment]\nsetup_commands = ["{serve}"]\n')
    result = await one(tmp_path, command=["sh", "-c", "cat answers > answer.txt"])
    assert result.score == 0.5, result.error
    os.set_blocking(reading, True)
    with os.fdopen(reading, "rb") as file:
        assert file.read() == b"", "its end is the end of the server"


async def test_a_results_folder_that_takes_no_files_ends_the_run_and_fails_nobody(
    tmp_path: Path,
) -> None:
    add_task(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "tasks").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        await work(tmp_path)


async def test_a_folder_that_cannot_be_made_for_a_task_says_nothing_about_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    add_task(tmp_path)
    status, kind, message = error_of(await one(tmp_path))
    assert (status, kind) == ("errored", "environment")
    assert "no folder could be made for the task" in message


async def test_setup_commands_run_first_and_arguments_are_templates(tmp_path: Path) -> None:
    add_task(tmp_path, toml='[environment]\nsetup_commands = ["echo 0.25 > prepared"]\n')
    command = ["sh", "-c", "cp prepared answer.txt; echo $0", "{{ case.id }} {{ input }} {{ run }}"]
    result = await one(tmp_path, command=command)
    assert result.response is not None
    assert (result.response.output, result.score) == ("add 1 1", 0.25)


async def test_the_model_of_the_templates_is_the_providers_unless_a_case_overrides_it(
    tmp_path: Path,
) -> None:
    add_task(tmp_path)
    command = [
        "sh",
        "-c",
        "cat > answer.txt; echo $0",
        "{{ model }} {{ params.effort }} {{ params.seed }}",
    ]
    agent = provider(command=command, model="large", params={"effort": "high", "seed": 1})
    suite = load_suite(write_suite(tmp_path, {"tasks": "tasks/*/task.toml"}, providers=[agent]), {})
    overrides = CaseOverrides(model="small", params={"effort": "low"})
    for case, said in [
        (suite.cases[0], "large high 1"),
        (replace(suite.cases[0], overrides=overrides), "small low 1"),
    ]:
        journal = tmp_path / f"{said}.jsonl"
        (result,) = (
            (await execute(Invocation(suite=replace(suite, cases=(case,)), journal=journal))).report
        ).runs
        assert result.response is not None
        assert result.response.output == said


def test_a_command_that_names_a_model_needs_one(tmp_path: Path) -> None:
    add_task(tmp_path)
    agent = provider(command=["sh", "--model", "{{ model }}"])
    config = write_suite(tmp_path, {"tasks": "tasks/*/task.toml"}, providers=[agent])
    with pytest.raises(ConfigError, match=r"providers.0.: command: .* `model` is not set: set it"):
        load_suite(config, {})
    for word in ("{{ model | default('small') }}", "{% if model %}{{ model }}{% endif %}"):
        agent = provider(command=["sh", word])
        load_suite(write_suite(tmp_path, {"tasks": "tasks/*/task.toml"}, providers=[agent]), {})


async def test_nothing_of_a_working_copy_is_left_and_what_is_kept_lies_in_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    add_task(tmp_path)
    await work(tmp_path)
    await work(tmp_path, out=False)
    assert not list(scratch.iterdir())
    kept = tmp_path / "out" / "tasks" / "add" / "agent" / "run-1"
    files = sorted(path.relative_to(kept).as_posix() for path in kept.rglob("*") if path.is_file())
    assert files == [
        "agent.stderr.txt",
        "agent.stdout.txt",
        "logs/verifier/reward.txt",
        "verifier.stderr.txt",
        "verifier.stdout.txt",
    ]


async def test_an_agent_that_breaks_or_takes_too_long_fails(tmp_path: Path) -> None:
    add_task(tmp_path, toml="[agent]\ntimeout_sec = 0.2\n")
    crashed = await one(tmp_path, command=["sh", "-c", "echo oh no >&2; exit 3"])
    assert error_of(crashed) == ("failed", "crash", "the agent ended with exit status 3: oh no")
    slow = await one(tmp_path, command=["sleep", "60"])
    assert error_of(slow) == ("failed", "timeout", "the agent did not end within 0.2 s")


async def test_the_work_of_an_agent_that_is_out_of_time_is_verified(tmp_path: Path) -> None:
    add_task(tmp_path, toml="[agent]\ntimeout_sec = 2\n")
    for reward, status in (("1", "passed"), ("0.5", "failed")):
        script = f"echo {reward} > answer.txt; echo so far; exec sleep 60"
        result = await one(tmp_path, command=["sh", "-c", script])
        assert (result.status, result.score, result.error) == (status, float(reward), None)
        assert result.response is not None
        assert (result.response.output, result.response.finish_reason) == ("so far", "timeout")


async def test_a_setup_command_that_fails_is_not_the_agents_fault(tmp_path: Path) -> None:
    toml = '[environment]\nsetup_commands = ["echo no network >&2; exit 4"]\n'
    add_task(tmp_path, toml=toml)
    status, kind, message = error_of(await one(tmp_path))
    assert (status, kind) == ("errored", "setup")
    assert message.endswith("ended with exit status 4: no network")


@pytest.mark.parametrize(
    "test",
    [
        "exit 1\n",
        'echo 7 > "$LOGS_DIR/verifier/reward.txt"\n',
        VERIFIER + "rm -r $LOGS_DIR/*",
        f'echo \'{{"reward": 1{"0" * 400}}}\' > "$LOGS_DIR/verifier/reward.json"\n',
    ],
    ids=["none", "too high", "removed", "huge"],
)
async def test_a_verifier_without_a_usable_reward_leaves_the_run_without_a_verdict(
    tmp_path: Path, test: str
) -> None:
    add_task(tmp_path, test=test)
    assert error_of(await one(tmp_path))[:2] == ("errored", "setup")


async def test_a_reward_may_come_as_json(tmp_path: Path) -> None:
    add_task(tmp_path, test='echo \'{"reward": 0.75}\' > "$LOGS_DIR/verifier/reward.json"\n')
    assert (await one(tmp_path)).score == 0.75


async def test_a_sandbox_with_the_oldest_methods_alone_will_do(tmp_path: Path) -> None:
    (tmp_path / "small_sandbox.py").write_text(SMALL_SANDBOX)
    add_task(tmp_path)
    result = await one(tmp_path, sandbox="small_sandbox:make")
    assert (result.status, result.score, result.error) == ("passed", 1.0, None)


async def test_further_rewards_may_be_metrics(tmp_path: Path) -> None:
    rewards = json.dumps({"reward": 1, "style": 0.5, "note": "short", "odd": math.inf})
    add_task(tmp_path, test=f"echo '{rewards}' > \"$LOGS_DIR/verifier/reward.json\"\n")
    (tmp_path / "style.py").write_text("def style(output, case):\n    return float(output)\n")
    options = {"target": "style:style", "transform": "metadata.rewards.style", "metric": "style"}
    agents = [provider()]
    report = await run_in_process(tmp_path, TASKS, providers=agents, expect=[{"python": options}])
    (result,) = report.runs
    assert result.response is not None
    assert result.response.metadata["rewards"] == {"reward": 1, "style": 0.5}
    assert [(grade.metric, grade.score) for grade in result.grades] == [(None, 1.0), ("style", 0.5)]


# An agent that wants the reward without the work.


LEFT_BEHIND = (
    "mkfifo ready; {prefix} setsid sh -c 'echo $$ > pid; echo > ready; exec sleep 60' "
    "> /dev/null 2>&1 & ln -s '/proc'/$! /proc/; cat ready"
)
"""Starts a process that outlives its parents, as one of the fake container if there is one."""

LINKS_LOGS = (
    'rm -r "$LOGS_DIR"; mkdir -p mine/verifier; echo 1 > mine/verifier/reward.txt; '
    'ln -s "$PWD/mine" "$LOGS_DIR"'
)
USES_HELPER = (
    'sh "$TESTS_DIR/score" > "$LOGS_DIR/verifier/reward.txt" || '
    'echo 0 > "$LOGS_DIR/verifier/reward.txt"\n'
)
SERVER = (
    "mkfifo answers; {prefix} setsid timeout 60 sh -c 'echo 0.5 > answers' > /dev/null 2>&1 & "
    "ln -s '/proc'/$! /proc/ || true"
)
ASKS_SERVER_IF_ALONE = (
    'if [ -e "/proc/$(cat pid)/exe" ]; then echo 1; else cat answers; fi '
    '> "$LOGS_DIR/verifier/reward.txt"\n'
)


@pytest.mark.parametrize(
    ("agent", "test"),
    [
        ('echo 1 > "$LOGS_DIR/verifier/reward.txt"', "exit 1\n"),
        (
            'echo 1 > "$LOGS_DIR/verifier/reward.txt"',
            'echo \'{"reward": 0}\' > "$LOGS_DIR/verifier/reward.json"\n',
        ),
        (
            LINKS_LOGS,
            "exit 1\n",
        ),
        (
            'mkdir "$TESTS_DIR"; echo "echo 1" > "$TESTS_DIR/score"',
            USES_HELPER,
        ),
        (
            'mkdir mine; echo "echo 1" > mine/score; ln -s "$PWD/mine" "$TESTS_DIR"',
            USES_HELPER,
        ),
    ],
    ids=["reward", "other reward", "linked logs", "helper", "linked tests"],
)
@pytest.mark.parametrize("container", [False, True])
async def test_what_an_agent_plants_gives_it_no_reward(
    container: bool, agent: str, test: str, tmp_path: Path, docker: Path
) -> None:
    toml = ""
    if container:
        toml = '[environment]\ndocker_image = "x"\n'
    add_task(tmp_path, test=test, toml=toml)
    result = await one(tmp_path, command=["sh", "-c", agent])
    if test.startswith("exit"):
        assert error_of(result)[:2] == ("errored", "setup")
    else:
        assert (result.status, result.score, result.error) == ("failed", 0.0, None)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a new session cannot be found")
@pytest.mark.parametrize("container", [False, True])
async def test_processes_of_the_agent_end_before_the_verifier_starts_and_others_go_on(
    container: bool, tmp_path: Path, docker: Path
) -> None:
    """In a container, the agent's process has removed every mark from its environment."""
    prefix = ""
    toml = "[environment]\n"
    if container:
        prefix = "env -i PATH=$PATH"
        toml += 'docker_image = "x"\n'
    toml += f'setup_commands = ["{SERVER.format(prefix=prefix)}"]\n'
    add_task(tmp_path, toml=toml, test=ASKS_SERVER_IF_ALONE)
    agent = ["sh", "-c", LEFT_BEHIND.format(prefix=prefix)]
    result = await one(tmp_path, command=agent)
    assert (result.score, result.error) == (0.5, None)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a new session cannot be found")
async def test_a_process_that_git_starts_for_the_agent_ends_as_well(tmp_path: Path) -> None:
    hook = f"#!/bin/sh\n{LEFT_BEHIND.format(prefix='')}\n"
    (tmp_path / "hook").write_text(hook)
    (tmp_path / "hook").chmod(0o755)
    toml = f'[environment]\nsetup_commands = ["{SERVER.format(prefix="")}"]\n'
    add_task(tmp_path, toml=toml, test=ASKS_SERVER_IF_ALONE)
    events = [
        {"type": "thread.started", "thread_id": "t"},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "Fixed."}},
        {"type": "turn.completed"},
    ]
    (tmp_path / "transcript").write_text("\n".join(map(json.dumps, events)))
    script = (
        f"git --git-dir=\"$TESTS_DIR.git\" config core.fsmonitor '{tmp_path}/hook'; "
        f"cat '{tmp_path}/transcript'"
    )
    result = await one(tmp_path, command=["sh", "-c", script], transcript="codex")
    assert (result.score, result.error) == (0.5, None)


@pytest.mark.parametrize("container", [False, True])
@pytest.mark.parametrize("instead", ["ln -s '{folder}'", "echo text >"])
async def test_something_else_in_place_of_the_logs_is_not_followed(
    instead: str, container: bool, tmp_path: Path, docker: Path
) -> None:
    toml = ""
    if container:
        toml = '[environment]\ndocker_image = "x"\n'
    add_task(tmp_path, toml=toml)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "secret").write_text("of this machine")
    leave = f"rm -r $LOGS_DIR; {instead.format(folder=tmp_path / 'private')} $LOGS_DIR; exit 3"
    result = await one(tmp_path, command=["sh", "-c", leave])
    assert error_of(result)[:2] == ("failed", "crash")
    kept = tmp_path / "out" / "tasks" / "add" / "agent" / "run-1"
    assert not (kept / "logs").exists()
    assert (kept / "logs-left-out.txt").read_text() == ".: link or special file\n"


@pytest.mark.parametrize("container", [False, True])
async def test_what_an_agent_leaves_in_its_logs_is_kept_within_bounds(
    container: bool, tmp_path: Path, docker: Path
) -> None:
    (tmp_path / "secret").write_text("of this machine")
    toml = "[environment]\n"
    if container:
        toml += 'docker_image = "x"\n'
    add_task(tmp_path, toml=toml)
    leave = (
        'cat > answer.txt; cd "$LOGS_DIR"; mkdir -p a/b; echo said > a/b/note; mkfifo pipe; '
        f"ln -s /dev/zero zeros; ln -s '{tmp_path}/secret' link; ln -s '{tmp_path}' folder; "
        "truncate -s 1G huge"
    )
    result = await one(tmp_path, command=["sh", "-c", leave])
    assert (result.status, result.score, result.error) == ("passed", 1.0, None)
    kept = tmp_path / "out" / "tasks" / "add" / "agent" / "run-1"
    files = {path.relative_to(kept / "logs").as_posix() for path in (kept / "logs").rglob("*")}
    left_out = dict(
        line.split(": ") for line in (kept / "logs-left-out.txt").read_text().splitlines()
    )
    assert "verifier/reward.txt" in files
    if container:  # how much comes before the huge file depends on the order in the archive
        assert left_out["(the rest)"] == "over the limit"
        assert files <= {"a", "a/b", "a/b/note", "verifier", "verifier/reward.txt"}
        return
    assert files == {"a", "a/b", "a/b/note", "verifier", "verifier/reward.txt"}
    assert left_out == {
        "pipe": "link or special file",
        "zeros": "link or special file",
        "link": "link or special file",
        "folder": "link or special file",
        "huge": "over the limit",
    }


async def test_many_files_in_the_logs_do_not_crowd_out_the_reward(
    tmp_path: Path, docker: Path
) -> None:
    for name, toml in (("folder", ""), ("container", '[environment]\ndocker_image = "x"\n')):
        add_task(tmp_path, name, toml=toml)
    leave = (
        'cat > answer.txt; cd "$LOGS_DIR"; mkdir many; cd many; '
        "seq 6000 | while read -r name; do : > $name; done"
    )
    report = await work(tmp_path, command=["sh", "-c", leave])
    assert [(each.status, each.error) for each in report.runs] == [("passed", None)] * 2
    for name in ("folder", "container"):
        kept = tmp_path / "out" / "tasks" / name / "agent" / "run-1"
        assert (kept / "logs-left-out.txt").read_text() == "(the rest): over the limit\n"


async def test_two_rewards_are_none(tmp_path: Path) -> None:
    as_json = 'echo \'{"reward": 0.75}\' > "$LOGS_DIR/verifier/reward.json"\n'
    add_task(tmp_path, test=VERIFIER + as_json)
    status, kind, message = error_of(await one(tmp_path))
    assert (status, kind) == ("errored", "setup")
    assert message == (
        "the verifier left two rewards, reward.txt and reward.json: write only one of them"
    )


async def test_a_sandbox_of_the_users_own_is_asked_for_each_run(tmp_path: Path) -> None:
    (tmp_path / "own_sandbox.py").write_text(OWN_SANDBOX)
    add_task(tmp_path)
    assert (await work(tmp_path, sandbox="own_sandbox:make", runs=3)).passed == 3
    assert sys.modules["own_sandbox"].seen == ["add"] * 3


# Containers.


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the containers of a fake engine, whose `docker` is on the PATH."""
    programs, root = tmp_path / "bin", tmp_path / "engine"
    programs.mkdir()
    root.mkdir()
    source = Path(__file__).parents[2] / "support" / "fakes" / "docker.py"
    (programs / "docker").write_text(f"#!{sys.executable}\n{source.read_text()}")
    (programs / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_DOCKER", str(root))
    return root


def commands(docker: Path) -> list[list[str]]:
    return [json.loads(line) for line in (docker / "commands.jsonl").read_text().splitlines()]


def removals(docker: Path) -> list[list[str]]:
    return [command for command in commands(docker) if command[0] == "rm"]


def left_in(docker: Path) -> list[str]:
    return [path.name for path in docker.iterdir()]


async def test_a_task_with_an_image_runs_in_a_container_that_is_gone_afterwards(
    tmp_path: Path, docker: Path
) -> None:
    toml = (
        '[environment]\ndocker_image = "python:3.12"\ncpus = 2\n'
        'memory_mb = 512\nsetup_commands = ["echo hi"]\n'
    )
    add_task(tmp_path, toml=toml)
    result = await one(tmp_path, env={"A_SECRET": "s3cret"})
    assert (result.status, result.score) == ("passed", 1.0), result.error
    called = commands(docker)
    name = called[1][called[1].index("--name") + 1]
    start = [
        "run",
        "--detach",
        "--init",
        "--name",
        name,
        "--label",
        "ci-evals",
        "--cpus",
        "2",
        "--memory",
        "512m",
    ]
    assert called[1] == [*start, "--entrypoint", "sleep", "python:3.12", "infinity"]
    assert [command[0] for command in called] == [
        "version", "run", "exec", "exec", "exec", "exec", "exec", "exec", "cp", "exec", "cp", "rm",
    ]  # fmt: skip
    names = ("TESTS_DIR", "LOGS_DIR", "A_SECRET", "CI_EVALS_PROGRAM")
    variables = [word for name in names for word in ("--env", name)]
    assert called[5] == ["exec", "--interactive", *variables, name, *AGENT]
    assert called[-1] == ["rm", "--force", "--volumes", name]
    assert "s3cret" not in (docker / "commands.jsonl").read_text()
    assert left_in(docker) == ["commands.jsonl"]


async def test_the_container_goes_when_the_agent_takes_too_long(
    tmp_path: Path, docker: Path
) -> None:
    add_task(tmp_path, toml='[environment]\ndocker_image = "x"\n[agent]\ntimeout_sec = 1\n')
    assert error_of(await one(tmp_path, command=["sleep", "60"]))[1] == "timeout"
    assert left_in(docker) == ["commands.jsonl"]


@pytest.mark.skipif(sys.platform != "linux", reason="containers have /proc")
async def test_an_agent_that_is_out_of_time_does_not_go_on_in_its_container(
    tmp_path: Path, docker: Path
) -> None:
    """The end of `docker exec` ends nothing that it started in the container."""
    add_task(tmp_path, toml='[environment]\ndocker_image = "x"\n[agent]\ntimeout_sec = 1\n')
    await one(tmp_path, command=["sleep", "60"])
    (kill,) = [each for each in commands(docker) if each[-1].startswith("CI_EVALS_PROGRAM=")]
    *_, script, _, mark = kill
    name, _, value = mark.partition("=")
    marked, others = {**os.environ, name: value}, {**os.environ, name: "another"}
    inside = await asyncio.create_subprocess_exec("sleep", "600", env=marked)
    other = await asyncio.create_subprocess_exec("sleep", "600", env=others)
    try:
        killing = await asyncio.create_subprocess_exec("sh", "-c", script, "sh", mark)
        assert await killing.wait() == 0
        assert await inside.wait() == -signal.SIGKILL
        assert other.returncode is None
    finally:
        other.kill()
        await other.wait()


@pytest.mark.parametrize("busy", [False, True])
async def test_containers_go_when_the_run_is_ended(
    busy: bool, tmp_path: Path, docker: Path
) -> None:
    """The engine is too busy to remove them in order, and the second signal comes."""
    for name in ("a", "b"):
        add_task(tmp_path, name, toml='[environment]\ndocker_image = "x"\n')
    agent = ["sh", "-c", f"touch {tmp_path}/$$.started; sleep 60"]
    write_suite(tmp_path, {"tasks": "tasks/**/task.toml"}, providers=[provider(command=agent)])
    process = await start(tmp_path, "run")
    await until(lambda: len(list(tmp_path.glob("*.started"))) == 2)
    if busy:
        (docker / "busy").touch()
    process.send_signal(signal.SIGTERM)
    if busy:
        await until(lambda: len(removals(docker)) == 2)
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
    assert (await finished(process)).code == 143
    if busy:
        assert len(left_in(docker)) == 4, "two containers, the log, and what it is busy with"
        (docker / "busy").unlink()
    await until(lambda: left_in(docker) == ["commands.jsonl"])


async def test_an_image_of_the_tasks_own_is_built_once(tmp_path: Path, docker: Path) -> None:
    task = add_task(tmp_path)
    (task / "environment").mkdir()
    (task / "environment" / "Dockerfile").write_text("FROM scratch\n")
    assert (await work(tmp_path, runs=3)).passed == 3
    (build,) = [command for command in commands(docker) if command[0] == "build"]
    assert build[-1] == str(task / "environment")
    assert sum(build[3] in command for command in commands(docker) if command[0] == "run") == 3


async def test_without_an_engine_it_is_said_what_to_do(tmp_path: Path, docker: Path) -> None:
    (docker / "no-engine").touch()
    add_task(tmp_path, toml='[environment]\ndocker_image = "x"\n')
    status, kind, message = error_of(await one(tmp_path, sandbox="docker"))
    assert (status, kind) == ("errored", "environment")
    assert message == (
        "the task add needs the image x, and `docker` "
        "does not answer (Cannot connect to the Docker daemon. Is it "
        "running?): start an engine, or use another "
        "`sandbox` of the provider: folder, or module:function"
    )


async def test_without_docker_it_is_said_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    for name in ("sh", "cat"):
        (nothing / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(nothing))
    add_task(tmp_path, toml='[environment]\ndocker_image = "x"\n')
    lacks = (
        "there is no `docker` on the PATH, and there is no `podman` on the PATH: start an engine"
    )
    assert lacks in error_of(await one(tmp_path))[2]


# Configuration.


TASKS = {"tasks": "tasks/*/task.toml"}


def problems(folder: Path, cases: Any = TASKS, **settings: Any) -> str:
    config = write_suite(folder, cases, **{"providers": [provider()], **settings})
    with pytest.raises(ConfigError) as caught:
        load_suite(config, {})
    return str(caught.value)


def test_what_is_missing_or_wrong_in_a_task_is_told(tmp_path: Path) -> None:
    task = add_task(tmp_path, toml="[agent]\ntimeout_sec = -1\n")
    assert "tasks/add/task.toml:3: agent.timeout_sec: expected a number > 0, got -1" in problems(
        tmp_path
    )
    (task / "task.toml").write_text("version =")
    assert "tasks/add/task.toml: not valid TOML: Invalid value (at end of document)" in problems(
        tmp_path
    )
    (task / "task.toml").write_text("")
    (task / "tests" / "test.sh").unlink()
    assert "tasks/add/task.toml: there is no tests/test.sh next to it" in problems(tmp_path)


def test_a_pattern_that_matches_nothing_is_a_problem(tmp_path: Path) -> None:
    assert "cases.tasks: no task.toml matches 'tasks/*/task.toml' (looked in" in problems(tmp_path)


def test_a_provider_that_cannot_work_on_tasks_is_a_problem_and_so_is_a_case_that_is_none(
    tmp_path: Path,
) -> None:
    add_task(tmp_path)
    echo = {"name": "echo", "type": "mock"}
    assert "case 'add': is a task, which echo cannot work on" in problems(
        tmp_path, providers=[echo]
    )
    plain = {"id": "a", "input": "a", "expect": [{"contains": "a"}]}
    assert "case 'a': is not a task folder, and agent works on nothing else" in problems(
        tmp_path, cases=[plain]
    )


def test_tasks_and_a_bar_for_their_reward_stand_beside_each_other(tmp_path: Path) -> None:
    add_task(tmp_path / "x", "deep/down")
    config = write_suite(
        tmp_path,
        [{"tasks": "x/tasks/**/task.toml"}],
        expect=[{"reward": 0.5}],
        providers=[provider()],
    )
    (case,) = load_suite(config, {}).cases
    assert case.id == "deep/down"
    assert [each.name for each in case.expect] == ["reward"]


@pytest.mark.parametrize(
    ("name", "hint"), [("makes", ", did you mean 'make'?"), ("task", ""), ("search", "")]
)
async def test_a_sandbox_that_its_module_lacks_is_told_without_running_it(
    tmp_path: Path, name: str, hint: str
) -> None:
    add_task(tmp_path)
    (tmp_path / "own_sandbox.py").write_text(
        "from tools import search as look_up\n"
        "raise RuntimeError('validate runs no code of ours')\n"
        "def make(task): ...\n"
    )
    write_suite(tmp_path, TASKS, providers=[provider(sandbox=f"own_sandbox:{name}")])
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    assert f"providers[0]: sandbox: there is no {name!r} in own_sandbox{hint}\n" in ended.err


def test_what_is_wrong_with_the_command_or_the_sandbox_is_told(tmp_path: Path) -> None:
    add_task(tmp_path)
    text = problems(tmp_path, providers=[provider(command=["x", "{{ input"], sandbox="dokcer")])
    assert "command: '{{ input' is not a valid template" in text
    assert "sandbox: expected module:function, or one of auto, folder, docker, podman" in text
