"""Task folders in the container engines of this machine; those named in ENGINES are required."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from leftovers import journaled
from processes import ci_evals, finished, start, until
from suites import write_suite, write_task

from ci_evals.suite.load import load_suite

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the image is made of this machine's own programs"
)

PROGRAMS = ("bash", "cat", "mkdir", "rm", "sh", "sleep")
VERIFIER = 'cat answer.txt > "$LOGS_DIR/verifier/reward.txt"\necho seen > "$LOGS_DIR/note.txt"\n'


@dataclass(frozen=True)
class Engine:
    """An engine, with an image of its own for the test."""

    program: str
    image: str

    def __call__(self, *arguments: str, stdin: bytes = b"") -> str:
        """Return what a command of the engine prints."""
        ended = subprocess.run(
            [self.program, *arguments], input=stdin, capture_output=True, check=False, timeout=120
        )
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode()

    @property
    def containers(self) -> list[str]:
        """Return the ids of those of the image, whatever has become of them."""
        lines = self("ps", "--all", "--format", "{{.ID}} {{.Image}}").splitlines()
        return [line.split()[0] for line in lines if line.endswith(self.image)]


def missing(program: str) -> str:
    """Return why an engine can't be used; empty if it can."""
    if shutil.which(program) is None:
        return f"there is no {program} on the PATH"
    ended = subprocess.run([program, "version"], capture_output=True, check=False, timeout=60)
    return f"{program} does not answer: {ended.stderr.decode().strip()}" if ended.returncode else ""


def why_no_container_runs(engine: Engine) -> str:
    """Return why a running engine can't start containers; empty if it can."""
    ended = subprocess.run(
        [engine.program, "run", "--rm", engine.image, "sh", "-c", ":"],
        capture_output=True,
        check=False,
    )
    return (
        f"{engine.program} runs no container: {ended.stderr.decode().strip()}"
        if ended.returncode
        else ""
    )


def skip_without(program: str, reason: str) -> None:
    """Skip the test because an engine is unusable; fail instead where the engine is required."""
    if reason and program in os.environ.get("ENGINES", "").split():
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


def files_of_the_image() -> bytes:
    """Return some of this machine's programs and libraries as an archive: no registry needed."""
    places = {f"bin/{name}": Path(str(shutil.which(name))) for name in PROGRAMS}
    for program in {*places.values()}:
        words = subprocess.run(
            ["ldd", program], capture_output=True, check=True, text=True
        ).stdout.split()
        places |= {word.removeprefix("/"): Path(word) for word in words if word.startswith("/")}
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name in ("tmp", "work"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o777
            archive.addfile(folder)
        for place, path in places.items():
            archive.add(path.resolve(), place)
    return file.getvalue()


@pytest.fixture(params=["docker", "podman"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    skip_without(request.param, missing(request.param))
    made = Engine(request.param, f"ci-evals-test:{uuid4().hex}")
    made(
        "import",
        "--change",
        "ENV PATH=/bin",
        "--change",
        "WORKDIR /work",
        "-",
        made.image,
        stdin=files_of_the_image(),
    )
    try:
        skip_without(request.param, why_no_container_runs(made))
        yield made
    finally:
        made("rmi", "--force", made.image)


def add_task(
    folder: Path, name: str = "add", environment: str = "", instruction: str = "1"
) -> Path:
    return write_task(folder, name, test=VERIFIER, instruction=instruction, toml=environment)


def write_repository(folder: Path) -> None:
    folder.mkdir()
    (folder / "given.txt").write_text("1\n")
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for command in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "Begin")):
        subprocess.run(["git", *who, *command], cwd=folder, check=True)


def write_config(folder: Path, engine: Engine, command: list[str], **changes: Any) -> None:
    provider = {
        "name": "agent",
        "type": "task",
        "command": command,
        "sandbox": engine.program,
        **changes,
    }
    write_suite(folder, {"tasks": "tasks/**/task.toml"}, providers=[provider])


def results(folder: Path) -> dict[str, dict[str, Any]]:
    return {result["case"]: result for result in journaled(folder / "ci-evals-results")}


async def test_a_task_is_worked_on_and_verified_in_a_container(
    tmp_path: Path, engine: Engine
) -> None:
    add_task(
        tmp_path,
        "full",
        f'[environment]\ndocker_image = "{engine.image}"\nsetup_commands = ["echo a > made"]\n',
    )
    add_task(
        tmp_path, "half", f'[environment]\ndocker_image = "{engine.image}"\n', instruction="0.5"
    )
    agent = (
        'cat > answer.txt; [ -e "$TESTS_DIR" ] && echo "sees the tests"; cat made; echo "$TOKEN"'
    )
    write_config(tmp_path, engine, ["bash", "-c", agent], env={"TOKEN": "t0ken"})
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 1, ended.err
    found = results(tmp_path)
    assert {case: (each["status"], each["score"]) for case, each in found.items()} == {
        "full": ("passed", 1.0),
        "half": ("failed", 0.5),
    }
    assert found["full"]["response"]["output"].split() == ["a", "t0ken"]
    (note,) = (tmp_path / "ci-evals-results" / "tasks" / "full").rglob("note.txt")
    assert note.read_text() == "seen\n"
    assert engine.containers == []


async def test_a_repository_is_copied_into_the_folder_that_the_image_works_in(
    tmp_path: Path, engine: Engine
) -> None:
    write_repository(tmp_path / "shop")
    environment = f'docker_image = "{engine.image}"\nrepository = "../../shop"\n'
    add_task(tmp_path, environment=f"[environment]\n{environment}")
    write_config(tmp_path, engine, ["bash", "-c", "cat /work/given.txt > answer.txt"])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.err + ended.out


async def test_an_image_is_built_of_a_tasks_own_dockerfile(tmp_path: Path, engine: Engine) -> None:
    task = add_task(tmp_path)
    (task / "environment").mkdir()
    (task / "environment" / "Dockerfile").write_text(f"FROM {engine.image}\nCOPY data.txt /work/\n")
    (task / "environment" / "data.txt").write_text(f"the data of {engine.image}")
    write_config(tmp_path, engine, ["bash", "-c", "cat > answer.txt; cat data.txt"])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.err + ended.out
    assert results(tmp_path)["add"]["response"]["output"] == f"the data of {engine.image}"
    (case,) = load_suite(tmp_path / "evals.yaml", {}).cases
    assert case.task is not None
    engine("rmi", "--force", f"ci-evals-task:{case.task.digest}")


async def test_limits_are_taken_over(tmp_path: Path, engine: Engine) -> None:
    if engine.program == "podman" and os.geteuid() != 0:
        pytest.skip(
            "limits of a user's own containers need control groups that the system hands over"
        )
    add_task(
        tmp_path,
        environment=f'[environment]\ndocker_image = "{engine.image}"\ncpus = 0.5\nmemory_mb = 64\n',
    )
    write_config(tmp_path, engine, ["bash", "-c", "cat > answer.txt; exec sleep 600"])
    process = await start(tmp_path, "run")
    await until(lambda: len(engine.containers) == 1)
    (container,) = engine.containers
    limits = json.loads(engine("inspect", container))[0]["HostConfig"]
    process.send_signal(signal.SIGINT)
    await finished(process)
    assert (limits["Memory"], limits["NanoCpus"]) == (64 * 1024 * 1024, 500_000_000)


async def test_no_container_is_left_when_the_agent_takes_too_long(
    tmp_path: Path, engine: Engine
) -> None:
    add_task(
        tmp_path,
        environment=f'[environment]\ndocker_image = "{engine.image}"\n[agent]\ntimeout_sec = 1\n',
    )
    write_config(tmp_path, engine, ["sleep", "600"])
    assert (await ci_evals(tmp_path, "run")).code == 1
    assert results(tmp_path)["add"]["error"]["kind"] == "timeout"
    assert engine.containers == []


@pytest.mark.parametrize("signals", [1, 2])
async def test_no_container_is_left_after_ctrl_c(
    tmp_path: Path, engine: Engine, signals: int
) -> None:
    for name in ("a", "b"):
        add_task(tmp_path, name, f'[environment]\ndocker_image = "{engine.image}"\n')
    write_config(tmp_path, engine, ["sleep", "600"])
    process = await start(tmp_path, "run")
    await until(lambda: len(engine.containers) == 2)
    for _ in range(signals):
        process.send_signal(signal.SIGINT)
    assert (await finished(process)).code == 130
    await until(lambda: engine.containers == [])


async def test_an_image_that_cannot_be_had_says_nothing_of_the_agent(
    tmp_path: Path, engine: Engine
) -> None:
    add_task(tmp_path, environment='[environment]\ndocker_image = "localhost:9/ci-evals/none:1"\n')
    write_config(tmp_path, engine, ["cat"])
    assert (await ci_evals(tmp_path, "run")).code == 3
    error = results(tmp_path)["add"]["error"]
    assert (error["kind"], error["message"].partition(":")[0]) == (
        "environment",
        f"{engine.program} run",
    )
    assert engine("ps", "--all", "--quiet", "--filter", "name=ci-evals-none") == ""
