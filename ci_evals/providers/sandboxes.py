"""Working copies of a task: a temporary folder on this machine, or a container of Docker or
Podman.
"""

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

    async def run(
        self, argv: Sequence[str], *, stdin: bytes, env: Mapping[str, str], timeout_s: float
    ) -> ProgramEnd:
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
    """Make a temporary folder with the files of the task's `environment`; it goes, as do servers
    started in it.
    """
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
        raise ProviderError(
            "environment", f"no folder could be made for the task: {error}"
        ) from error
    return root


class _Folder:
    def __init__(self, root: Path, descendants: Descendants) -> None:
        self._root = root
        self._descendants = descendants
        self.tests = str(root / "tests")
        self.logs = str(root / "logs")

    async def run(
        self, argv: Sequence[str], *, stdin: bytes, env: Mapping[str, str], timeout_s: float
    ) -> ProgramEnd:
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


class Engine:
    """Docker or Podman, by its command line; asked once whether it is there, and for each image
    once.

    Args:
        programs: the engines that will do; the first that answers is taken.
    """

    def __init__(self, *programs: str) -> None:
        self._programs = programs
        self._turn = asyncio.Lock()
        self._found: str | None = None
        self._images: dict[str, str] = {}

    @asynccontextmanager
    async def sandbox(self, task: Task) -> AsyncIterator[Sandbox]:
        """Start a container of the task's image; it is removed afterwards, with whatever still runs
        in it.

        Raises:
            ProviderError: there is no engine, or the image cannot be had.
        """
        async with self._turn:
            program = self._found = self._found or await self._find(task)
            image = await self._image(program, task)
        name = f"ci-evals-{uuid4().hex}"
        remove = (program, "rm", "--force", "--volumes")
        limits: list[str] = []
        if task.cpus is not None:
            limits += ["--cpus", f"{task.cpus:g}"]
        if task.memory_mb is not None:
            limits += ["--memory", f"{task.memory_mb}m"]
        # The label is for whoever ended this process with SIGKILL, to find what it left.
        options = [
            "--detach",
            "--init",
            "--name",
            name,
            "--label",
            "ci-evals",
            *limits,
            "--entrypoint",
            "sleep",
        ]
        with kill_on_exit(name, command=remove):
            try:
                build_s = task.build_timeout_s or _BUILD_S
                await _succeed(program, "run", *options, image, "infinity", timeout_s=build_s)
                container = _Container(program, name)
                await _succeed(program, "exec", name, "mkdir", "-p", f"{container.logs}/verifier")
                yield container
            finally:
                await asyncio.shield(_run([*remove, name], timeout_s=_QUICK_S))

    async def _find(self, task: Task) -> str:
        """Return the first engine that answers."""
        complaints = []
        for program in self._programs:
            if shutil.which(program) is None:
                complaints.append(f"there is no `{program}` on the PATH")
                continue
            ended = await _run(
                [program, "version", "--format", "{{.Server.Version}}"], timeout_s=_QUICK_S
            )
            if ended.why == "exit" and not ended.status:
                return program
            complaints.append(f"`{program}` does not answer ({_complaint(ended)})")
        image = f"the image {task.image}" if task.image else "an image of its own"
        advice = (
            "start an engine, or give the provider another `sandbox`: folder, or module:function"
        )
        text = f"the task {task.folder.name} asks for {image}, and {', and '.join(complaints)}: {advice}"
        raise ProviderError("environment", text)

    async def _image(self, program: str, task: Task) -> str:
        if task.image:
            return task.image
        if not task.has_dockerfile:
            text = f"{task.folder.name} has no image: give its task.toml a docker_image, or an environment/Dockerfile"
            raise ProviderError("environment", text)
        if task.digest not in self._images:
            tag = f"ci-evals-task:{task.digest}"
            folder = str(task.folder / "environment")
            await _succeed(
                program,
                "build",
                "--quiet",
                "--tag",
                tag,
                folder,
                timeout_s=task.build_timeout_s or _BUILD_S,
            )
            self._images[task.digest] = tag
        return self._images[task.digest]


class _Container:
    def __init__(self, program: str, name: str) -> None:
        self._program = program
        self._name = name
        self.tests = "/tests"
        self.logs = "/logs"

    async def run(
        self, argv: Sequence[str], *, stdin: bytes, env: Mapping[str, str], timeout_s: float
    ) -> ProgramEnd:
        names = [
            word for name in env for word in ("--env", name)
        ]  # the values stay out of the list of processes
        command = [self._program, "exec", "--interactive", *names, self._name, *argv]
        return await _run(command, stdin=stdin, env=env, timeout_s=timeout_s)

    async def put_tests(self, source: Path) -> None:
        await _succeed(self._program, "cp", f"{source}/.", f"{self._name}:{self.tests}")

    async def get_logs(self, target: Path) -> None:
        await _succeed(self._program, "cp", f"{self._name}:{self.logs}/.", str(target))


async def _succeed(program: str, *arguments: str, timeout_s: float = _QUICK_S) -> None:
    ended = await _run([program, *arguments], timeout_s=timeout_s)
    if ended.why != "exit" or ended.status:
        raise ProviderError(
            "environment", f"{program} {arguments[0]}: {_complaint(ended)}", status=ended.status
        )


async def _run(
    argv: Sequence[str],
    *,
    timeout_s: float,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> ProgramEnd:
    return await run_program(
        argv,
        stdin,
        cwd=Path.cwd(),
        env={**os.environ, **env} if env else None,
        timeout_s=timeout_s,
    )


def _complaint(ended: ProgramEnd) -> str:
    return (
        "no answer in time"
        if ended.why == "timeout"
        else ended.last_line or f"exit status {ended.status}"
    )
