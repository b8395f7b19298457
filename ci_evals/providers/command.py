"""A program of any language: the case as JSON on stdin, the answer on stdout."""

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from ci_evals.errors import ProviderError
from ci_evals.format import describe_status
from ci_evals.model.fields import Many, NonEmpty
from ci_evals.model.request import Request
from ci_evals.model.response import Response
from ci_evals.providers.answer import as_response, encode_json
from ci_evals.providers.base import Provider, ProviderOptions, Resources
from ci_evals.providers.command_line import (
    command_problems,
    program_problems,
    resolve_command,
    split_command,
)
from ci_evals.providers.request_fields import request_fields
from ci_evals.providers.subprocess import (
    MAX_OUTPUT_BYTES,
    ProgramEnd,
    run_program,
)
from ci_evals.registry import TRANSCRIPTS
from ci_evals.templating import names_used

_FIELDS = frozenset({"id", "input", "messages", "metadata", "run", "vars"})
"""Fields of the JSON that a program reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOptions(ProviderOptions):
    """Settings of providers that run a program.

    Args:
        command: the program with its arguments, as a list or as one line that is split as a POSIX
            shell would.
        env: added to the environment of ci-evals itself.
        transcript: the format in which a coding agent prints its work: `claude-code`, `codex`,
            `gemini-cli` or `opencode`.
    """

    own_code: ClassVar[bool] = True
    portable: ClassVar[bool] = True
    retried: ClassVar[bool] = False  # the team's own code: a retry would hide that it is flaky

    command: str | Many[str]
    env: Mapping[str, str] = field(default_factory=dict)
    transcript: NonEmpty | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        """The program and its arguments.

        Raises:
            ValueError: a quotation mark is not closed.
        """
        return split_command(self.command)

    def problems(self, folder: Path) -> list[str]:
        problems = command_problems(self.command)
        name = self.transcript
        if name is None:
            return problems
        if lack := TRANSCRIPTS.missing_clause(name):
            problems.append(f"transcript: {name!r} {lack}")
        elif name not in TRANSCRIPTS:
            known = ", ".join(TRANSCRIPTS)
            problems.append(f"transcript: unknown transcript {name!r}; known: {known}")
        elif problem := TRANSCRIPTS.problem(name):
            problems.append(f"transcript: {problem}")
        return problems


class Transcript(Protocol):
    """The format in which a coding agent prints its work."""

    def answer(self, data: bytes, failure: ProviderError | None = None) -> Response:
        """Return the answer in the output of an agent.

        Args:
            data: the output.
            failure: why the program failed; None if it did not.

        Raises:
            ProviderError: there is no answer.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(ProgramOptions):
    """Runs a program once per run.

    It reads one JSON object (`id`, `input`, `messages`, `vars`, `metadata`, `run`, `timeout_s`) and
    writes text, or a JSON object with `output` or `tool_calls` (and `usage`, `model`,
    `finish_reason`, `cost_usd`, `steps`, `context`, `metadata`), or a `transcript`. No shell is
    involved.

    Args:
        command: the program with its arguments, as a list or as one line that is split as a POSIX
            shell would.
        cwd: the folder it runs in, relative to the config's folder, which is the default.
        env: added to the environment of ci-evals itself.
        transcript: the format in which a coding agent prints its work: `claude-code`, `codex`,
            `gemini-cli` or `opencode`.
    """

    kind: ClassVar[str] = "command"

    cwd: str | None = None

    @property
    def default_name(self) -> str:
        """`command:python agent.py`: the program and a first argument that is not an option.

        Raises:
            ValueError: there is no program.
        """
        program, *arguments = self.argv
        name = Path(program).name
        if arguments and not arguments[0].startswith("-"):
            name = f"{name} {arguments[0]}"
        return f"command:{name}"

    def problems(self, folder: Path) -> list[str]:
        if problems := ProgramOptions.problems(self, folder):
            return problems
        line = self.command
        if not isinstance(line, str):
            line = " ".join(line)
        for name in sorted(names_used(line) & _FIELDS):
            text = f"`{name}` is not filled in: the program reads it from the JSON on its stdin"
            problems.append(f"command: {text}")
        if problems:
            return problems
        cwd = folder / (self.cwd or "")
        if not cwd.is_dir():
            return [f"cwd: there is no folder {cwd}"]
        return program_problems(self.command, cwd, self.env.get("PATH"))

    def open(self, resources: Resources) -> Provider:
        cwd = (resources.folder / (self.cwd or "")).absolute()
        argv = resolve_command(self.command, cwd, self.env.get("PATH"))
        env = None
        if self.env:
            env = {**os.environ, **self.env}
        return _Program(argv, cwd, env, self.transcript)


class _Program:
    def __init__(
        self,
        argv: tuple[str, ...],
        cwd: Path,
        env: Mapping[str, str] | None,
        transcript: str | None,
    ) -> None:
        self._argv = argv
        self._cwd = cwd
        self._env = env
        self._transcript = transcript

    async def answer(self, request: Request) -> Response:
        stdin = {
            **request_fields(request),
            "input": request.input,
            "metadata": request.case.metadata,
        }
        try:
            ended = await run_program(
                self._argv,
                encode_json(stdin) + b"\n",
                cwd=self._cwd,
                env=self._env,
                timeout_s=request.timeout_s,
            )
        except OSError as error:
            text = f"{self._argv[0]} could not be started: {error}"
            raise ProviderError("crash", text) from error
        failure = _failure(ended, request.timeout_s)
        if self._transcript is not None:
            reader: Transcript = TRANSCRIPTS[self._transcript]
            return await asyncio.to_thread(reader.answer, ended.stdout, failure)
        if failure is not None:
            raise failure
        return _response(ended)


def _failure(ended: ProgramEnd, timeout_s: float) -> ProviderError | None:
    """Return why a program failed; None if it did not."""
    detail = ended.stderr or None
    if ended.why == "timeout":
        text = f"no answer within {timeout_s:g} s; the program was ended"
        return ProviderError("timeout", text, detail=detail)
    if ended.why == "too_large":
        text = f"more than {MAX_OUTPUT_BYTES // 1024**2} MB on stdout; the program was ended"
        return ProviderError("bad_answer", text, detail=detail)
    if ended.status:
        text = describe_status(ended.status)
        if ended.reason:
            text = f"{text}: {ended.reason}"
        elif not ended.stderr.strip():
            text = f"{text}, nothing on stderr"
        status = None
        if ended.status > 0:
            status = ended.status
        return ProviderError("crash", text, status=status, detail=detail)
    return None


def _response(ended: ProgramEnd) -> Response:
    try:
        return as_response(_answer(ended.stdout.decode("utf-8-sig", "replace")))
    except ValueError as error:
        text = f"the JSON on stdout is not an answer: {error}"
        raise ProviderError("bad_answer", text, detail=ended.stderr or None) from None


def _answer(stdout: str) -> object:
    """Return the JSON object on stdout if it has keys of an answer, else the text unchanged."""
    if stdout.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            parsed = json.loads(stdout)
            if "output" in parsed or "tool_calls" in parsed:
                return parsed
    return stdout.removesuffix("\n").removesuffix("\r")
