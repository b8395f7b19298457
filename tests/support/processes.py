"""ci-evals as a process of its own, the way users and CI start it."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import prefork

COMMAND = (sys.executable, "-m", "ci_evals")


class Finished(NamedTuple):
    """How a process ended and what it said."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        return self.stdout.decode()

    @property
    def err(self) -> str:
        return self.stderr.decode()


def environment(changes: Mapping[str, str]) -> Mapping[str, str]:
    """This process's environment without what would change a run, and with `changes`."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CI_EVALS_", "GITHUB_", "COVERAGE")) and name not in ("COLUMNS", "NO_COLOR")
    }
    return {**inherited, **changes}


async def start(
    folder: Path,
    *arguments: str,
    command: tuple[str, ...] = COMMAND,
    preexec: Callable[[], None] | None = None,
    environ: Mapping[str, str] = {},
) -> Process:
    """Start a command in a folder; its stdin is empty."""
    return await asyncio.create_subprocess_exec(
        *command,
        *arguments,
        cwd=folder,
        env=environment(environ),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        preexec_fn=preexec,
    )


async def finished(process: Process) -> Finished:
    """Wait for the end of a process."""
    stdout, stderr = await process.communicate()
    assert process.returncode is not None
    return Finished(process.returncode, stdout, stderr)


async def ci_evals(
    folder: Path,
    *arguments: str,
    command: tuple[str, ...] = COMMAND,
    preexec: Callable[[], None] | None = None,
    environ: Mapping[str, str] = {},
) -> Finished:
    """Run a command to its end."""
    as_usual = command is COMMAND and preexec is None and not any(name.startswith("PYTHON") for name in environ)
    if as_usual and prefork.SUPPORTED:
        return Finished(*await asyncio.to_thread(prefork.run, folder, arguments, environment(environ)))
    return await finished(await start(folder, *arguments, command=command, preexec=preexec, environ=environ))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what files and processes have come to; they tell nobody about their changes."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  nothing to await
            await asyncio.sleep(0.01)
