"""Starts the service of a provider's `serve` before a run, and ends it afterwards."""

import os
import shlex
import time
from pathlib import Path

import aiohttp

from ci_evals.errors import ProviderError
from ci_evals.format import one_line
from ci_evals.providers.base import Resources, Serve
from ci_evals.providers.command_line import resolve_command, split_command
from ci_evals.providers.http_client import open_session
from ci_evals.providers.subprocess import RunningProgram, running_program

_POLL_S = 0.1
_MAX_POLL_S = 5.0  # for one answer while the service starts
_LAST_LINES = 5


class StartedService:
    """See `base.Service`."""

    def __init__(self, options: Serve, folder: Path) -> None:
        self._options = options
        self._folder = (folder / (options.cwd or "")).absolute()
        self._program: RunningProgram | None = None

    async def start(self, resources: Resources) -> None:
        options = self._options
        session = resources.shared(open_session)
        # Otherwise a forgotten process of another commit would be graded.
        if await _status(session, options.url, 1.0) is not None:
            advice = "stop what runs there, or remove `serve` to use it"
            text = f"{options.url} answers before `{self._shown}` is started: {advice}"
            raise ProviderError("crash", text)
        argv = resolve_command(options.command, self._folder, options.env.get("PATH"))
        env = {**os.environ, **options.env}
        try:
            program = await resources.stack.enter_async_context(
                running_program(argv, cwd=self._folder, env=env)
            )
        except OSError as error:
            text = f"`{self._shown}` could not be started: {error}"
            raise ProviderError("crash", text) from error
        await self._wait_for_answer(program, session)
        self._program = program

    async def _wait_for_answer(
        self, program: RunningProgram, session: aiohttp.ClientSession
    ) -> None:
        url, timeout_s = self._options.url, self._options.timeout_s
        deadline = time.monotonic() + timeout_s
        status = None
        while (left_s := deadline - time.monotonic()) > 0:
            if program.has_ended:
                text = f"`{self._shown}` {_describe_end(program)} before {url} answered"
                raise ProviderError("crash", text)
            status = await _status(session, url, min(left_s, _MAX_POLL_S))
            if status is not None and status < 500 and not program.has_ended:
                return
            await program.wait(_POLL_S)
        what = "did not answer"
        if status is not None:
            what = f"answered with status {status}"
        text = f"`{self._shown}` was started, but {url} {what} for {timeout_s:g} s"
        raise ProviderError("crash", f"{text}; {_last_lines(program)}")

    async def check(self, within_s: float = 0.0) -> None:
        if self._program is not None and await self._program.wait(within_s):
            text = f"the service `{self._shown}` {_describe_end(self._program)} during the run"
            raise ProviderError("crash", text, detail=self._program.output)

    @property
    def _shown(self) -> str:
        return one_line(shlex.join(split_command(self._options.command)), 100)


def shared_service(options: Serve, resources: Resources) -> StartedService:
    """Return the service for these options, which providers with equal options share."""
    services = resources.shared(_services)
    for known, service in services:
        if known == options:
            return service
    service = StartedService(options, resources.folder)
    services.append((options, service))
    return service


def _services(_: Resources) -> list[tuple[Serve, StartedService]]:
    return []


def _describe_end(program: RunningProgram) -> str:
    return f"ended ({program.ending}; {_last_lines(program)})"


def _last_lines(program: RunningProgram) -> str:
    """Return the last lines of a program's output, on one line."""
    lines = [one_line(line, 150) for line in program.output.splitlines() if line.strip()]
    if not lines:
        return "it printed nothing"
    last = " | ".join(lines[-_LAST_LINES:])
    return f"its last output: {last}"


async def _status(session: aiohttp.ClientSession, url: str, timeout_s: float) -> int | None:
    """Return the status of a URL's answer; None without an answer."""
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    try:
        async with session.get(url, allow_redirects=False, timeout=timeout) as response:
            return response.status
    except (aiohttp.ClientError, OSError, TimeoutError):
        return None
