"""Where the commands of a task run: the seam, and a temporary folder on this machine."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from ci_evals.errors import ProviderError
from ci_evals.model import Task
from ci_evals.providers.descendants import Descendants
from ci_evals.providers.process import Ended, end_all, exchange

MAX_OUTPUT_BYTES = 50 * 1024 * 1024
_NOT_FOR_THE_AGENT = shutil.ignore_patterns("Dockerfile", "docker-compose*.y*ml")


class Sandbox(Protocol):
    """One working copy of a task.

    `tests` and `logs` are where a command inside finds the verifier and writes what is kept.
    """

    tests: str
    logs: str

    async def run(self, argv: Sequence[str], *, stdin: bytes, env: Mapping[str, str], timeout_s: float) -> Ended:
        """Run a command in the working copy to its end. Raises OSError if it cannot be started."""
        ...

    async def put_tests(self, source: Path) -> None:
        """Make a folder of this machine appear as `tests`."""
        ...

    async def get_logs(self, target: Path) -> None:
        """Copy what is in `logs` into a folder of this machine."""
        ...


@asynccontextmanager
async def folder_sandbox(task: Task) -> AsyncIterator[Sandbox]:
    """A temporary folder with the files of the task's `environment`; gone afterwards, as are servers started in it."""
    root = await asyncio.to_thread(_made, task)
    descendants = Descendants()
    try:
        yield _Folder(root, descendants)
    finally:
        await end_all(descendants)
        await asyncio.to_thread(shutil.rmtree, root, ignore_errors=True)


def _made(task: Task) -> Path:
    """The folder with all that is in there at first."""
    root = None
    try:
        root = Path(tempfile.mkdtemp(prefix="ci-evals-task-"))
        _furnish(root, task)
    except (OSError, shutil.Error) as error:
        if root is not None:
            shutil.rmtree(root, ignore_errors=True)
        raise ProviderError("environment", f"no folder could be made for the task: {error}") from error
    return root


def _furnish(root: Path, task: Task) -> None:
    (root / "logs" / "verifier").mkdir(parents=True)
    environment = task.folder / "environment"
    if environment.is_dir():
        shutil.copytree(environment, root / "work", ignore=_NOT_FOR_THE_AGENT)
    else:
        (root / "work").mkdir()


class _Folder:
    def __init__(self, root: Path, descendants: Descendants) -> None:
        self._root = root
        self._descendants = descendants
        self.tests = str(root / "tests")
        self.logs = str(root / "logs")

    async def run(self, argv: Sequence[str], *, stdin: bytes, env: Mapping[str, str], timeout_s: float) -> Ended:
        return await exchange(
            argv,
            stdin,
            cwd=self._root / "work",
            env={**os.environ, **env},
            timeout_s=timeout_s,
            max_bytes=MAX_OUTPUT_BYTES,
            descendants=self._descendants,
        )

    async def put_tests(self, source: Path) -> None:
        await asyncio.to_thread(shutil.copytree, source, self.tests, dirs_exist_ok=True)

    async def get_logs(self, target: Path) -> None:
        await asyncio.to_thread(shutil.copytree, self.logs, target, dirs_exist_ok=True)
