"""Working copies of a task: a temporary folder on this machine, or a Docker container by its command line."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from ci_evals.errors import ProviderError
from ci_evals.model.case import Task
from ci_evals.providers.subprocess import Descendants, ProgramEnd, kill_on_exit, run_program

_QUICK_S = 60.0
_BUILD_S = 600.0


class Sandbox(Protocol):
    """One working copy of a task.

    `tests` and `logs` are where a command inside finds the verifier and writes what is kept.
    """

    tests: str
    logs: str

    async def run(self, argv: Sequence[str], *, stdin: bytes, env: Mapping[str, str], timeout_s: float) -> ProgramEnd:
        """Run a command in the working copy to its end. Raises OSError if it cannot be started."""
        ...

    async def put_tests(self, source: Path) -> None:
        """Make a folder of this machine appear as `tests`."""
        ...

    async def get_logs(self, target: Path) -> None:
        """Copy what is in `logs` into a folder of this machine."""
        ...


MakeSandbox = Callable[[Task], AbstractAsyncContextManager[Sandbox]]


@asynccontextmanager
async def folder_sandbox(task: Task) -> AsyncIterator[Sandbox]:
    """Make a temporary folder with the files of the task's `environment`; it goes, as do servers started in it."""
    root = await asyncio.to_thread(_make_folder, task)
    descendants = Descendants()
    try:
        yield _Folder(root, descendants)
    finally:
        await descendants.end()
        await asyncio.to_thread(shutil.rmtree, root, ignore_errors=True)


def _make_folder(task: Task) -> Path:
    root = None
    try:
        root = Path(tempfile.mkdtemp(prefix="ci-evals-task-"))
        (root / "logs" / "verifier").mkdir(parents=True)
        environment = task.folder / "environment"
        if environment.is_dir():
            not_for_the_agent = shutil.ignore_patterns("Dockerfile", "docker-compose*.y*ml")
            shutil.copytree(environment, root / "work", ignore=not_for_the_agent)
        else:
            (root / "work").mkdir()
    except (OSError, shutil.Error) as error:
        if root is not None:
            shutil.rmtree(root, ignore_errors=True)
        raise ProviderError("environment", f"no folder could be made for the task: {error}") from error
    return root


class _Folder:
    def __init__(self, root: Path, descendants: Descendants) -> None:
        self._root = root
        self._descendants = descendants
        self.tests = str(root / "tests")
        self.logs = str(root / "logs")

    async def run(self, argv: Sequence[str], *, stdin: bytes, env: Mapping[str, str], timeout_s: float) -> ProgramEnd:
        return await run_program(
            argv,
            stdin,
            cwd=self._root / "work",
            env={**os.environ, **env},
            timeout_s=timeout_s,
            descendants=self._descendants,
        )

    async def put_tests(self, source: Path) -> None:
        await asyncio.to_thread(shutil.copytree, source, self.tests, dirs_exist_ok=True)

    async def get_logs(self, target: Path) -> None:
        await asyncio.to_thread(shutil.copytree, self.logs, target, dirs_exist_ok=True)


class Docker:
    """The engine, by its command line; asked once whether it is there, and for each image once."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._is_there = False
        self._images: dict[str, str] = {}

    @asynccontextmanager
    async def sandbox(self, task: Task) -> AsyncIterator[Sandbox]:
        """Start a container of the task's image; it is removed afterwards, with whatever still runs in it.

        Raises:
            ProviderError: there is no engine, or the image cannot be had.
        """
        image = await self._image(task)
        name = f"ci-evals-{uuid4().hex}"
        remove = ("rm", "--force", "--volumes")
        limits: list[str] = []
        if task.cpus is not None:
            limits += ["--cpus", f"{task.cpus:g}"]
        if task.memory_mb is not None:
            limits += ["--memory", f"{task.memory_mb}m"]
        # The label is for whoever ended this process with SIGKILL, to find what it left.
        options = ["--detach", "--init", "--name", name, "--label", "ci-evals", *limits, "--entrypoint", "sleep"]
        with kill_on_exit(name, command=("docker", *remove)):
            try:
                await _docker("run", *options, image, "infinity", timeout_s=task.build_timeout_s or _BUILD_S)
                container = _Container(name)
                await _docker("exec", name, "mkdir", "-p", f"{container.logs}/verifier")
                yield container
            finally:
                await asyncio.shield(_run_docker([*remove, name], timeout_s=_QUICK_S))

    async def _image(self, task: Task) -> str:
        async with self._turn:
            if not self._is_there:
                await _check_engine(task)
                self._is_there = True
            if task.image:
                return task.image
            if not task.has_dockerfile:
                text = (
                    f"{task.folder.name} has no image: give its task.toml a docker_image, or an environment/Dockerfile"
                )
                raise ProviderError("environment", text)
            if task.digest not in self._images:
                tag = f"ci-evals-task:{task.digest}"
                folder = str(task.folder / "environment")
                await _docker("build", "--quiet", "--tag", tag, folder, timeout_s=task.build_timeout_s or _BUILD_S)
                self._images[task.digest] = tag
            return self._images[task.digest]


class _Container:
    def __init__(self, name: str) -> None:
        self._name = name
        self.tests = "/tests"
        self.logs = "/logs"

    async def run(self, argv: Sequence[str], *, stdin: bytes, env: Mapping[str, str], timeout_s: float) -> ProgramEnd:
        names = [word for name in env for word in ("--env", name)]  # the values stay out of the list of processes
        command = ["exec", "--interactive", *names, self._name, *argv]
        return await _run_docker(command, stdin=stdin, env=env, timeout_s=timeout_s)

    async def put_tests(self, source: Path) -> None:
        await _docker("cp", f"{source}/.", f"{self._name}:{self.tests}")

    async def get_logs(self, target: Path) -> None:
        await _docker("cp", f"{self._name}:{self.logs}/.", str(target))


async def _check_engine(task: Task) -> None:
    image = f"the image {task.image}" if task.image else "an image of its own"
    wanted = f"the task {task.folder.name} asks for {image}"
    advice = "start a Docker engine, or give the provider another `sandbox`: folder, or module:function"
    if shutil.which("docker") is None:
        raise ProviderError("environment", f"{wanted}, and there is no `docker` on the PATH: {advice}")
    ended = await _run_docker(["version", "--format", "{{.Server.Version}}"], timeout_s=_QUICK_S)
    if ended.why != "exit" or ended.status:
        raise ProviderError("environment", f"{wanted}, and no Docker engine answers ({_complaint(ended)}): {advice}")


async def _docker(*arguments: str, timeout_s: float = _QUICK_S) -> None:
    ended = await _run_docker(arguments, timeout_s=timeout_s)
    if ended.why != "exit" or ended.status:
        raise ProviderError("environment", f"docker {arguments[0]}: {_complaint(ended)}", status=ended.status)


async def _run_docker(
    arguments: Sequence[str], *, timeout_s: float, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> ProgramEnd:
    return await run_program(
        ["docker", *arguments],
        stdin,
        cwd=Path.cwd(),
        env={**os.environ, **env} if env else None,
        timeout_s=timeout_s,
    )


def _complaint(ended: ProgramEnd) -> str:
    return "no answer in time" if ended.why == "timeout" else ended.last_line or f"exit status {ended.status}"
