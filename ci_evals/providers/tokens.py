"""Bearer tokens printed by commands, fetched once for all calls, and again after a refusal."""

import asyncio
import shlex
from collections.abc import Mapping
from pathlib import Path

from ci_evals.errors import ProviderError
from ci_evals.format import one_line
from ci_evals.providers.base import Resources, TokenCommand
from ci_evals.providers.command_line import resolve_command, split_command
from ci_evals.providers.http_messages import Call
from ci_evals.providers.subprocess import run_program
from ci_evals.redaction import learn

_TIMEOUT_S = 60.0


class Token:
    """The token of one command. See `http_messages.HttpCredentials`."""

    noun = "token"
    expired_status = 401

    def __init__(self, argv: tuple[str, ...], folder: Path) -> None:
        self._argv = argv
        self._folder = folder
        self._value: str | None = None
        self._lock = asyncio.Lock()

    async def fetch(self) -> None:
        await self._get(None)

    async def authorize(self, call: Call) -> Mapping[str, str]:
        token = await self._get(None)
        return {**call.headers, "Authorization": f"Bearer {token}"}

    async def renew(self, refused: Mapping[str, str]) -> bool:
        await self._get(refused["Authorization"].removeprefix("Bearer "))
        return True

    async def _get(self, refused: str | None) -> str:
        """Return the token. A refused one is fetched again, once for all calls that sent it."""
        async with self._lock:
            if self._value is None or self._value == refused:
                self._value = await self._run()
            return self._value

    async def _run(self) -> str:
        argv = resolve_command(self._argv, self._folder)
        try:
            ended = await run_program(argv, b"", cwd=self._folder, env=None, timeout_s=_TIMEOUT_S)
        except OSError as error:
            raise self._failure(f"could not be started: {error}") from error
        if ended.why == "timeout":
            raise self._failure(f"did not end within {_TIMEOUT_S:g} s")
        if ended.status:
            why = " and printed nothing on stderr"
            if stderr := one_line(ended.stderr, 300):
                why = f": {stderr}"
            raise self._failure(f"exited with status {ended.status}{why}")
        token = ended.stdout.decode("utf-8", "replace").strip()
        if not token:
            raise self._failure("printed nothing on stdout")
        learn(token)
        is_one_word = token.isascii() and token.isprintable() and " " not in token
        if not is_one_word:
            advice = "select plain output, such as `-o tsv` of az"
            raise self._failure(f"must print only the token, on one line: {advice}")
        return token

    def _failure(self, what: str) -> ProviderError:
        return ProviderError("auth", f"no token: `{shlex.join(self._argv)}` {what}")


def shared_token(source: TokenCommand, resources: Resources) -> Token:
    """Return the token of a command, which providers with the same command share."""
    argv = split_command(source.command)
    tokens = resources.shared(_tokens)
    if argv not in tokens:
        tokens[argv] = Token(argv, resources.folder)
    return tokens[argv]


def _tokens(_: Resources) -> dict[tuple[str, ...], Token]:
    return {}
