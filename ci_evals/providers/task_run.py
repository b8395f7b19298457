"""One run of a task: a fresh working copy, the agent, the verifier, and what is kept of it."""

import asyncio
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any

from ci_evals.errors import ProviderError, StorageError
from ci_evals.model import Request, Task
from ci_evals.providers.answer import clean_text, encode_json, one_line
from ci_evals.providers.base import Provider, Resources, overriding
from ci_evals.providers.callee import load_target
from ci_evals.providers.docker import Docker
from ci_evals.providers.process import Ended
from ci_evals.providers.sandbox import Sandbox, folder_sandbox
from ci_evals.providers.task import BUILT_IN, TaskAgent
from ci_evals.response import Response
from ci_evals.templates import sandboxed

MakeSandbox = Callable[[Task], AbstractAsyncContextManager[Sandbox]]


def opened_agent(options: TaskAgent, resources: Resources) -> Provider:
    """The live agent.

    Raises:
        ConfigError: its sandbox cannot be imported.
    """
    docker = Docker()
    if options.sandbox not in BUILT_IN:
        make: MakeSandbox = load_target(options.sandbox, resources.folder)
    elif options.sandbox == "auto":
        make = lambda task: docker.sandbox(task) if task.image or task.has_dockerfile else folder_sandbox(task)  # noqa: E731  one of three
    else:
        make = docker.sandbox if options.sandbox == "docker" else folder_sandbox
    return _Agent(options, make, resources)


class _Agent:
    def __init__(self, options: TaskAgent, make_sandbox: MakeSandbox, resources: Resources) -> None:
        self._options = options
        self._make_sandbox = make_sandbox
        self._files = resources.files
        self._folder = str(resources.folder)

    async def answer(self, request: Request) -> Response:
        task = request.case.task
        if task is None:
            raise ProviderError("rejected", "the case is no task folder")
        kept = await asyncio.to_thread(_kept_folder, self._files, str(self._options.name), request)
        try:
            async with self._make_sandbox(task) as sandbox:
                return await _worked(self._options, request, sandbox, kept, self._folder)
        except OSError as error:
            raise ProviderError("crash", f"the task could not be worked on: {error}") from error
        finally:
            if self._files is None:
                await asyncio.to_thread(shutil.rmtree, kept, ignore_errors=True)


async def _worked(options: TaskAgent, request: Request, sandbox: Sandbox, kept: Path, folder: str) -> Response:
    """Set up, let the agent work, and verify."""
    task = request.case.task
    assert task is not None
    env = {"TESTS_DIR": sandbox.tests, "LOGS_DIR": sandbox.logs, **options.env}
    agent_s = task.agent_timeout_s or request.timeout_s
    for command in task.setup:
        ended = await sandbox.run(("sh", "-c", command), stdin=b"", env=env, timeout_s=agent_s)
        _check(ended, f"the setup command {one_line(command, 80)!r}", agent_s)
    instruction = request.input if isinstance(request.input, str) else encode_json(request.input).decode()
    templates = sandboxed()
    argv = [templates.from_string(word).render(_names(request), folder=folder) for word in options.argv]
    agent = await sandbox.run(argv, stdin=instruction.encode(), env=env, timeout_s=agent_s)
    await asyncio.to_thread(_write, kept, "agent", agent)
    _check(agent, "the agent", agent_s)
    verifier_s = task.verifier_timeout_s or request.timeout_s
    await sandbox.put_tests(task.folder / "tests")
    verifier = await sandbox.run(("bash", f"{sandbox.tests}/test.sh"), stdin=b"", env=env, timeout_s=verifier_s)
    await asyncio.to_thread(_write, kept, "verifier", verifier)
    if verifier.why != "exit":
        _check(verifier, "the verifier", verifier_s)
    await sandbox.get_logs(kept / "logs")
    reward = await asyncio.to_thread(_reward, kept / "logs" / "verifier", verifier)
    return Response(clean_text(agent.stdout.decode(errors="replace")).strip(), reward=reward)


def _check(ended: Ended, what: str, timeout_s: float) -> None:
    stderr = ended.stderr_tail.decode(errors="replace")
    detail = stderr or None
    if ended.why == "timeout":
        raise ProviderError("timeout", f"{what} did not end within {timeout_s:g} s", detail=detail)
    if ended.why == "too_large":
        raise ProviderError("bad_answer", f"{what} wrote too much to stdout", detail=detail)
    if ended.status:
        lines = stderr.strip().splitlines()
        last = f": {one_line(lines[-1])}" if lines else ""
        raise ProviderError("crash", f"{what} ended with exit status {ended.status}{last}", detail=detail)


def _reward(logs: Path, ended: Ended) -> float:
    """What the verifier wrote: a number in reward.txt, or `reward` in reward.json.

    Raises:
        ProviderError: it wrote none, so that nothing can be said of the agent's work.
    """
    try:
        if (logs / "reward.txt").is_file():
            reward = float((logs / "reward.txt").read_text())
        else:
            reward = float(json.loads((logs / "reward.json").read_bytes())["reward"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        stderr = ended.stderr_tail.decode(errors="replace") or None
        text = f"the verifier left no reward in verifier/reward.txt of its LOGS_DIR (exit status {ended.status})"
        raise ProviderError("environment", text, detail=stderr) from error
    if not 0 <= reward <= 1:
        raise ProviderError("environment", f"the verifier's reward is {reward:g}, which is not between 0 and 1")
    return reward


def _kept_folder(files: Path | None, provider: str, request: Request) -> Path:
    """An empty folder for what a run leaves behind."""
    if files is None:
        return Path(tempfile.mkdtemp(prefix="ci-evals-kept-"))
    kept = files / "tasks" / _file_name(request.case.id) / _file_name(provider) / f"run-{request.run}"
    shutil.rmtree(kept, ignore_errors=True)
    with _keeping(kept):
        kept.mkdir(parents=True)
    return kept


def _file_name(name: str) -> str:
    """A name that is a file name everywhere; one that had to be changed gets its checksum, to stay unique."""
    from zlib import crc32

    safe = re.sub(r"[^\w.=-]+", "-", name, flags=re.ASCII).strip(".-")[:100]
    return safe if safe == name else f"{safe}-{crc32(name.encode(errors='replace')):08x}"


def _write(kept: Path, who: str, ended: Ended) -> None:
    with _keeping(kept):
        (kept / f"{who}.stdout.txt").write_bytes(ended.stdout)
        (kept / f"{who}.stderr.txt").write_bytes(ended.stderr_tail)


@contextmanager
def _keeping(kept: Path) -> Iterator[None]:
    """What cannot be written into the results folder is no fault of the agent."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{kept}: cannot be written: {error.strerror}") from error


def _names(request: Request) -> Mapping[str, Any]:
    case = request.case
    return {
        "input": request.input,
        "case": {"id": case.id, "tags": list(case.tags), "metadata": case.metadata},
        "run": request.run,
        **overriding(case),
    }


def template_problem(source: str) -> str | None:
    """What is wrong with a word of a command as a template."""
    from jinja2 import TemplateSyntaxError

    try:
        sandboxed().from_string(source)
    except TemplateSyntaxError as error:
        return f"command: {one_line(source, 80)!r} is no valid template: {error.message}"
    return None
