"""Bearer tokens that a command prints: fetched once for all calls, and anew when one is refused."""

import asyncio
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ci_evals.errors import ProviderError
from ci_evals.format import one_line
from ci_evals.model.fields import Many, Options
from ci_evals.providers.subprocess import (
    command_problems,
    find_program,
    program_problem,
    run_program,
    split_command,
)
from ci_evals.redaction import learn

_TIMEOUT_S = 60.0
_MAX_CHARACTERS = 64 * 1024


@dataclass(frozen=True, slots=True)
class TokenCommand(Options):
    """The source of a bearer token.

    Args:
        command: prints the token, as `gcloud auth print-access-token` does: a list, or one line
            that is split as a POSIX shell would.
    """

    example: ClassVar[str] = "{command: gcloud auth print-access-token}"

    command: str | Many[str]

    def problems(self, folder: Path) -> list[str]:
        """Return what is wrong with the command, as far as it shows without running it."""
        if found := command_problems(self.command):
            return found
        program = split_command(self.command)[0]
        return [] if find_program(program, folder) else [program_problem(program, folder)]


class Token:
    """The token of one command."""

    def __init__(self, argv: tuple[str, ...], folder: Path) -> None:
        self._argv = argv
        self._folder = folder
        self._value: str | None = None
        self._lock = asyncio.Lock()

    async def get(self, refused: str | None = None) -> str:
        """Return the token; one that was `refused` is fetched anew, once for all calls that carried
        it.

        Raises:
            ProviderError: the command does not print one.
        """
        async with self._lock:
            if self._value is None or self._value == refused:
                self._value = await self._fetch()
            return self._value

    async def _fetch(self) -> str:
        shown = shlex.join(self._argv)
        program = find_program(self._argv[0], self._folder) or self._argv[0]
        try:
            ended = await run_program(
                (program, *self._argv[1:]), b"", cwd=self._folder, env=None, timeout_s=_TIMEOUT_S
            )
        except OSError as error:
            raise ProviderError(
                "auth", f"no token: `{shown}` could not be started: {error}"
            ) from error
        if ended.why == "timeout":
            raise ProviderError("auth", f"no token: `{shown}` did not end within {_TIMEOUT_S:g} s")
        if ended.status:
            said = one_line(ended.stderr, 300)
            why = f": {said}" if said else " and printed nothing on stderr"
            raise ProviderError(
                "auth", f"no token: `{shown}` exited with status {ended.status}{why}"
            )
        token = ended.stdout.decode("utf-8", "replace").strip()
        if not token:
            raise ProviderError("auth", f"no token: `{shown}` printed nothing on stdout")
        if (
            not token.isascii()
            or not token.isprintable()
            or " " in token
            or len(token) > _MAX_CHARACTERS
        ):
            learn(token)
            text = "must print the token alone, in one line: choose its plain output, as `-o tsv` of az does"
            raise ProviderError("auth", f"no token: `{shown}` {text}")
        learn(token)
        return token


class Tokens:
    """The tokens of all providers: one for each command."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._by_argv: dict[tuple[str, ...], Token] = {}

    def of(self, source: TokenCommand) -> Token:
        """Return the token that a command prints."""
        argv = split_command(source.command)
        return self._by_argv.setdefault(argv, Token(argv, self._folder))
