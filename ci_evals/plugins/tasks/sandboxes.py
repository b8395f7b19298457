"""Sandboxes, the working copies of a task: the Protocol, and a temporary folder on this machine."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from ci_evals.errors import ProviderError
from ci_evals.model.case import Task
from ci_evals.plugins.tasks.logs import LogCopier, WhyLeftOut
from ci_evals.providers.subprocess import Descendants, ProgramEnd, run_program

_OF_A_REPOSITORY = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_WORK_TREE",
    }
)


def local_environment() -> dict[str, str]:
    """Return the environment of this process, without the repository that a git hook sets."""
    return {name: value for name, value in os.environ.items() if name not in _OF_A_REPOSITORY}


class Sandbox(Protocol):
    """One working copy of a task.

    Inside it, `tests` is the folder of the verifier, and `logs` the folder for files to keep.
    """

    tests: str
    logs: str

    async def run(
        self, argv: Sequence[str], *, stdin: bytes, env: Mapping[str, str], timeout_s: float
    ) -> ProgramEnd:
        """Run a command in the working copy to its end; raise OSError if it cannot be started."""
        ...

    def end_processes(self) -> AbstractAsyncContextManager[None]:
        """At the end of the context, kill every process that `run` started within it, daemons
        included. Processes from before stay.
        """
        ...

    async def put_work(self, source: Path) -> None:
        """Copy the content of a folder on this machine into the working copy."""
        ...

    async def put_tests(self, source: Path) -> None:
        """Copy the content of a folder on this machine to `tests`."""
        ...

    async def get_logs(self, target: Path) -> Mapping[str, WhyLeftOut] | None:
        """Copy the content of `logs` into a folder on this machine.

        Return the names of files that were left out, with the reason.
        """
        ...


MakeSandbox = Callable[[Task], AbstractAsyncContextManager[Sandbox]]


def require_put_work(sandbox: Sandbox, user: str) -> None:
    """Raise a ProviderError if a sandbox of the team's own lacks a method that `user` needs."""
    if not hasattr(sandbox, "put_work"):
        text = f"the sandbox has no method `put_work`, which {user} needs"
        raise ProviderError("environment", text)


@asynccontextmanager
async def additions(sandbox: Sandbox, user: str) -> AsyncIterator[Path]:
    """Make a temporary folder whose content is copied into the working copy at the end.

    Raises:
        ProviderError: the sandbox has no `put_work`, or something could not be copied.
    """
    require_put_work(sandbox, user)
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="ci-evals-additions-"))
    try:
        yield folder
        await sandbox.put_work(folder)
    except (OSError, shutil.Error) as error:
        text = f"what {user} needs could not be copied into the working copy: {error}"
        raise ProviderError("environment", text) from error
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


@asynccontextmanager
async def folder_sandbox(task: Task) -> AsyncIterator[Sandbox]:
    """Make a temporary folder with the files of the task's `environment`.

    At the end, the folder is removed, and processes that were started in it are killed.
    """
    root = await asyncio.to_thread(_make_folder, task)
    descendants = Descendants()
    try:
        yield _Folder(root, descendants)
    finally:
        await descendants.end()
        await asyncio.to_thread(shutil.rmtree, root, ignore_errors=True)


def _make_folder(task: Task) -> Path:
    environment = task.folder / "environment"
    root = None
    try:
        root = Path(tempfile.mkdtemp(prefix="ci-evals-task-"))
        (root / "logs" / "verifier").mkdir(parents=True)
        if environment.is_dir():
            not_for_the_agent = shutil.ignore_patterns("Dockerfile", "docker-compose*.y*ml")
            shutil.copytree(environment, root / "work", ignore=not_for_the_agent)
        else:
            (root / "work").mkdir()
    except (OSError, shutil.Error) as error:
        if root is not None:
            shutil.rmtree(root, ignore_errors=True)
        text = f"no folder could be made for the task: {error}"
        raise ProviderError("environment", text) from error
    return root


class _Folder:
    def __init__(self, root: Path, descendants: Descendants) -> None:
        self._root = root
        self._descendants = descendants
        self._to_end: Descendants | None = None
        self.tests = str(root / "tests")
        self.logs = str(root / "logs")

    async def run(
        self, argv: Sequence[str], *, stdin: bytes, env: Mapping[str, str], timeout_s: float
    ) -> ProgramEnd:
        env = {**local_environment(), **env}
        descendants = self._descendants
        if self._to_end is not None:
            env = {**descendants.environment(env)}  # a mark of each
            descendants = self._to_end
        return await run_program(
            argv,
            stdin,
            cwd=self._root / "work",
            env=env,
            timeout_s=timeout_s,
            descendants=descendants,
        )

    @asynccontextmanager
    async def end_processes(self) -> AsyncIterator[None]:
        self._to_end = Descendants()
        try:
            yield
        finally:
            await self._to_end.end()
            self._to_end = None

    async def put_work(self, source: Path) -> None:
        work = self._root / "work"
        copy = partial(shutil.copytree, source, work, symlinks=True, dirs_exist_ok=True)
        await asyncio.to_thread(copy)

    async def put_tests(self, source: Path) -> None:
        await asyncio.to_thread(shutil.copytree, source, self.tests, dirs_exist_ok=True)

    async def get_logs(self, target: Path) -> Mapping[str, WhyLeftOut]:
        copier = LogCopier(target)
        await asyncio.to_thread(copier.copy_folder, Path(self.logs))
        return copier.left_out
