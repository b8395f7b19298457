"""A container as the place where a task runs, by way of the `docker` command."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from ci_evals.errors import ProviderError
from ci_evals.model import Task
from ci_evals.providers.answer import one_line
from ci_evals.providers.process import Ended, exchange, running_elsewhere
from ci_evals.providers.sandbox import MAX_OUTPUT_BYTES, Sandbox

_TESTS, _LOGS = "/tests", "/logs"
_LABEL = "ci-evals"  # by which whoever ended this process with SIGKILL finds what it left
_REMOVE = ("rm", "--force", "--volumes")
_QUICK_S = 60.0
_BUILD_S = 600.0


class Docker:
    """The engine; asked once whether it is there, and for each image once."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._is_there = False
        self._images: dict[str, str] = {}

    @asynccontextmanager
    async def sandbox(self, task: Task) -> AsyncIterator[Sandbox]:
        """A container of the task's image; removed afterwards, with whatever still runs in it.

        Raises:
            ProviderError: there is no engine, or the image cannot be had.
        """
        image = await self._image(task)
        name = f"ci-evals-{uuid4().hex}"
        with running_elsewhere(name, ended_by=("docker", *_REMOVE)):
            try:
                await _docker(*_start(name, image, task), timeout_s=task.build_timeout_s or _BUILD_S)
                container = _Container(name)
                await _docker("exec", name, "mkdir", "-p", f"{_LOGS}/verifier")
                yield container
            finally:
                await asyncio.shield(_remove(name))

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


def _start(name: str, image: str, task: Task) -> list[str]:
    limits = []
    if task.cpus is not None:
        limits += ["--cpus", f"{task.cpus:g}"]
    if task.memory_mb is not None:
        limits += ["--memory", f"{task.memory_mb}m"]
    return [
        "run",
        "--detach",
        "--init",
        "--name",
        name,
        "--label",
        _LABEL,
        *limits,
        "--entrypoint",
        "sleep",
        image,
        "infinity",
    ]


class _Container:
    def __init__(self, name: str) -> None:
        self._name = name
        self.tests = _TESTS
        self.logs = _LOGS

    async def run(self, argv: Sequence[str], *, stdin: bytes, env: Mapping[str, str], timeout_s: float) -> Ended:
        names = [word for name in env for word in ("--env", name)]  # the values stay out of the list of processes
        command = ["exec", "--interactive", *names, self._name, *argv]
        return await _exchange(command, stdin=stdin, env=env, timeout_s=timeout_s)

    async def put_tests(self, source: Path) -> None:
        await _docker("cp", f"{source}/.", f"{self._name}:{_TESTS}")

    async def get_logs(self, target: Path) -> None:
        await _docker("cp", f"{self._name}:{_LOGS}/.", str(target))


async def _check_engine(task: Task) -> None:
    wanted = (
        f"the task {task.folder.name} asks for {'the image ' + task.image if task.image else 'an image of its own'}"
    )
    advice = "start a Docker engine, or give the provider another `sandbox`: folder, or module:function"
    if shutil.which("docker") is None:
        raise ProviderError("environment", f"{wanted}, and there is no `docker` on the PATH: {advice}")
    ended = await _exchange(["version", "--format", "{{.Server.Version}}"], timeout_s=_QUICK_S)
    if ended.why != "exit" or ended.status:
        raise ProviderError("environment", f"{wanted}, and no Docker engine answers ({_said(ended)}): {advice}")


async def _docker(*arguments: str, timeout_s: float = _QUICK_S) -> None:
    ended = await _exchange(arguments, timeout_s=timeout_s)
    if ended.why != "exit" or ended.status:
        raise ProviderError("environment", f"docker {arguments[0]}: {_said(ended)}", status=ended.status)


async def _exchange(
    arguments: Sequence[str], *, timeout_s: float, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> Ended:
    return await exchange(
        ["docker", *arguments],
        stdin,
        cwd=Path.cwd(),
        env={**os.environ, **env} if env else None,
        timeout_s=timeout_s,
        max_bytes=MAX_OUTPUT_BYTES,
    )


async def _remove(name: str) -> None:
    await _exchange([*_REMOVE, name], timeout_s=_QUICK_S)


def _said(ended: Ended) -> str:
    if ended.why == "timeout":
        return "no answer in time"
    lines = ended.stderr_tail.decode(errors="replace").strip().splitlines()
    return one_line(lines[-1]) if lines else f"exit status {ended.status}"
