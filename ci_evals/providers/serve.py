"""`serve` of a provider: starts the service that it talks to before the run, and ends it
afterwards.
"""

import os
import shlex
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import aiohttp

from ci_evals.errors import ProviderError
from ci_evals.format import one_line
from ci_evals.model.fields import Many, Options, Seconds, is_complete_url
from ci_evals.providers.subprocess import (
    RunningProgram,
    command_problems,
    find_program,
    program_problem,
    running_program,
    split_command,
)

_POLL_S = 0.1
_LONGEST_LOOK_S = 5.0  # for one answer while the service starts
_LAST_LINES = 5


@dataclass(frozen=True, slots=True)
class Serve(Options):
    """The service that a provider talks to: started before the run, and ended after it with all
    that it started.

    Args:
        command: starts the service and stays in the foreground: a list, or one line that is split
            as a POSIX shell would.
        url: answers once the service is ready, with any status below 500; nothing may answer there
            before.
        timeout_s: seconds that it may take until then.
        cwd: the folder it runs in, relative to the config's folder, which is the default.
        env: added to the environment.
    """

    example: ClassVar[str] = "{command: [python, service.py], url: http://127.0.0.1:8000/health}"

    command: str | Many[str]
    url: str
    timeout_s: Seconds = 60.0
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    def problems(self, folder: Path) -> list[str]:
        """Return what is wrong, as far as it shows without starting anything."""
        found = (
            []
            if is_complete_url(self.url)
            else ["url: is not a complete address; write it as http://host:port/path"]
        )
        if wrong := command_problems(self.command):
            return [*found, *wrong]
        where = folder / (self.cwd or "")
        if not where.is_dir():
            return [*found, f"cwd: there is no folder {where}"]
        program = split_command(self.command)[0]
        if find_program(program, where, self.env.get("PATH")) is None:
            found.append(program_problem(program, where))
        return found


class StartedService:
    """A service that is started once, for all providers that talk to it."""

    def __init__(self, options: Serve, folder: Path) -> None:
        self._options = options
        self._folder = (folder / (options.cwd or "")).absolute()
        self._argv = split_command(options.command)
        self._program: RunningProgram | None = None

    async def start(self, session: aiohttp.ClientSession, stack: AsyncExitStack) -> None:
        """Start it and wait until it answers; `stack` ends it.

        Raises:
            ProviderError: it does not answer, or something else does already.
        """
        url, env = self._options.url, self._options.env
        if await _status(session, url, 1.0) is not None:
            advice = "end what runs there, or leave `serve` out to ask that"
            raise ProviderError(
                "crash", f"{url} answers before `{self._shown}` is started: {advice}"
            )
        path = find_program(self._argv[0], self._folder, env.get("PATH")) or self._argv[0]
        start = running_program(
            (path, *self._argv[1:]), cwd=self._folder, env={**os.environ, **env}
        )
        try:
            program = await stack.enter_async_context(start)
        except OSError as error:
            raise ProviderError(
                "crash", f"`{self._shown}` could not be started: {error}"
            ) from error
        await self._wait_for_answer(program, session)
        self._program = program

    async def _wait_for_answer(
        self, program: RunningProgram, session: aiohttp.ClientSession
    ) -> None:
        url, limit_s = self._options.url, self._options.timeout_s
        ends_at, status = time.monotonic() + limit_s, None
        while (left_s := ends_at - time.monotonic()) > 0:
            if program.has_ended:
                raise ProviderError(
                    "crash", f"`{self._shown}` {_ending(program)} before {url} answered"
                )
            status = await _status(session, url, min(left_s, _LONGEST_LOOK_S))
            if status is not None and status < 500 and not program.has_ended:
                return
            await program.wait(_POLL_S)
        what = "did not answer" if status is None else f"answered with status {status}"
        text = f"`{self._shown}` was started, but {url} {what} for {limit_s:g} s"
        raise ProviderError("crash", f"{text}; {_last_lines(program)}")

    async def check(self, within_s: float = 0.0) -> None:
        """Raise a ProviderError if it has ended, or does so within some seconds."""
        if self._program is not None and await self._program.wait(within_s):
            text = f"the service `{self._shown}` {_ending(self._program)} during the run"
            raise ProviderError("crash", text, detail=self._program.output)

    @property
    def _shown(self) -> str:
        return one_line(shlex.join(self._argv), 100)


def _ending(program: RunningProgram) -> str:
    return f"ended ({program.ending}; {_last_lines(program)})"


def _last_lines(program: RunningProgram) -> str:
    """Return the last lines of a program's output, on one line."""
    lines = [one_line(line, 150) for line in program.output.splitlines() if line.strip()]
    return f"its last output: {' | '.join(lines[-_LAST_LINES:])}" if lines else "it printed nothing"


async def _status(session: aiohttp.ClientSession, url: str, timeout_s: float) -> int | None:
    """Return the status with which a URL answers; None if it does not."""
    try:
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        async with session.get(url, allow_redirects=False, timeout=timeout) as response:
            return response.status
    except (aiohttp.ClientError, OSError, TimeoutError):
        return None


class Services:
    """The services of all providers: one for each `serve` that is written, however often."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._services: list[tuple[Serve, StartedService]] = []

    def of(self, options: Serve) -> StartedService:
        """Return the service that is started as the options say."""
        for known, service in self._services:
            if known == options:
                return service
        service = StartedService(options, self._folder)
        self._services.append((options, service))
        return service
