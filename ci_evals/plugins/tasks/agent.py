"""The provider `task`: a command works in a fresh sandbox of a task folder, then the task's
verifier rewards the result.
"""

import asyncio
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import TemplateSyntaxError

from ci_evals.errors import ProviderError, StorageError
from ci_evals.files import file_name
from ci_evals.format import one_line
from ci_evals.model.case import Task
from ci_evals.model.fields import Bool, NonEmpty, OneOrMore
from ci_evals.model.request import Request
from ci_evals.model.response import Detail, Response, Step, TestFailure
from ci_evals.plugins.tasks.attachments import attachment_problems, instruction, put_attachments
from ci_evals.plugins.tasks.containers import ContainerEngine
from ci_evals.plugins.tasks.failing_tests import find_test_failure
from ci_evals.plugins.tasks.logs import WhyLeftOut
from ci_evals.plugins.tasks.repositories import Changes, Repositories
from ci_evals.plugins.tasks.sandboxes import (
    MakeSandbox,
    Sandbox,
    folder_sandbox,
    require_put_work,
)
from ci_evals.plugins.tasks.skills import install_skills, skill_problems
from ci_evals.providers.answer import MAX_STEP_CHARACTERS, clean_text
from ci_evals.providers.base import Provider, ProviderOptions, Resources
from ci_evals.providers.command import ProgramOptions
from ci_evals.providers.command_line import program_problems
from ci_evals.providers.subprocess import ProgramEnd
from ci_evals.redaction import Redactor, sensitive_values
from ci_evals.registry import TRANSCRIPTS
from ci_evals.templating import Absent, describe_error, template_sandbox
from ci_evals.user_code.targets import load_target, missing_target, target_parts

_READ_S = 60.0
_CLEAR_S = 60.0
# A link in the place of a folder is removed, not followed.
_CLEAR = """
if [ -L "$2" ] || [ ! -d "$2" ]; then rm -rf -- "$2"; fi
rm -rf -- "$1" "$2/verifier" && mkdir -p -- "$2/verifier"
"""
_DIFF = "agent.diff"
_TIMEOUT = "timeout"
BUILT_IN = ("auto", "folder", "docker", "podman")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAgent(ProgramOptions):
    """Runs a command in a fresh working copy of a task, then the task's verifier, whose reward is
    the score. With `skills`, a case may also have only an `input`: its working copy is empty.

    Args:
        command: the agent with its arguments, each a template over `input`, `case`, `run`, `model`,
            `params` and `folder` (the suite's); it reads the instruction from stdin. A text is
            split as a POSIX shell would.
        env: added to the environment of the agent and of the verifier.
        transcript: the format in which a coding agent prints its work: `claude-code`, `codex`,
            `gemini-cli` or `opencode`.
        transcript_file: the file in the working copy that has the transcript; stdout when left
            out.
        skills: folders with a SKILL.md, which are put where the agent looks for skills; see
            `transcript`.
        without_skills: leave the `skills` out, and remove those of the same name, to compare.
        model: the `model` of the templates, unless a case overrides it.
        params: the `params` of the templates; a case's overrides win.
        sandbox: where it runs: `docker`; `podman`; `folder`, a temporary folder on this machine;
            `auto`, Docker or else Podman for tasks with an image and a folder for others; or
            `module:function`.
    """

    kind: ClassVar[str] = "task"
    works_on_tasks: ClassVar[bool] = True

    command: str | OneOrMore[str]
    transcript_file: NonEmpty | None = None
    skills: OneOrMore[NonEmpty] | tuple[()] = ()
    without_skills: Bool = False
    model: NonEmpty | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    sandbox: str = "auto"

    @property
    def details(self) -> Sequence[Detail]:
        if self.transcript is None:
            return ("first_token",)
        return ("cost", "steps", "first_token")

    @property
    def works_alone(self) -> bool:
        return bool(self.skills)

    @property
    def with_skills(self) -> ProviderOptions | None:
        if self.without_skills:
            return replace(self, without_skills=False)
        return None

    @property
    def default_name(self) -> str:
        return f"task:{Path(self.argv[0]).name}"

    def problems(self, folder: Path) -> list[str]:
        problems = ProgramOptions.problems(self, folder)
        if self.transcript_file is not None and self.transcript is None:
            problems.append("transcript_file: name its format: add `transcript`")
        problems += skill_problems(self.skills, folder)
        if self.without_skills and not self.skills:
            problems.append("without_skills: name the `skills` to compare with")
        if problems:
            return problems
        for word in self.argv:
            try:
                template_sandbox().from_string(word)
            except TemplateSyntaxError as error:
                shown = one_line(word, 80)
                problems.append(f"command: {shown!r} is not a valid template: {error.message}")
        if self.sandbox in BUILT_IN:
            return problems
        if target_parts(self.sandbox) is None:
            names = ", ".join(BUILT_IN)
            problems.append(f"sandbox: expected module:function, or one of {names}")
            return problems
        problem = missing_target(self.sandbox, folder)
        if problem is not None:
            problems.append(f"sandbox: {problem}")
        return problems

    def misfits(self, requests: Iterable[Request], folder: Path) -> Iterator[tuple[Request, str]]:
        for request in requests:
            try:
                program = _render_command(self, request, str(folder))[0]
            except ProviderError as error:
                yield request, error.message
                continue
            if self._runs_here(request.case.task) and not Path(program).parent.name:
                problems = program_problems([program], folder, self.env.get("PATH"))
                if problems:
                    yield request, problems[0]
            for problem in attachment_problems(request):
                yield request, problem

    def _runs_here(self, task: Task | None) -> bool:
        """Return True if the program must be on this machine before a task is set up."""
        if self.sandbox not in ("auto", "folder"):
            return False
        if task is None:
            return True
        if task.setup:
            return False
        return self.sandbox == "folder" or not needs_container(task)

    def open(self, resources: Resources) -> Provider:
        """Make the live agent.

        Raises:
            ConfigError: the sandbox cannot be imported.
        """
        make_sandbox: MakeSandbox
        match self.sandbox:
            case "auto":
                make_sandbox = _AutomaticSandbox().sandbox
            case "folder":
                make_sandbox = folder_sandbox
            case "docker" | "podman":
                make_sandbox = ContainerEngine(self.sandbox).sandbox
            case target:
                make_sandbox = load_target(target)
        return _Agent(self, make_sandbox, resources)


def needs_container(task: Task) -> bool:
    """Return True if a task needs an image."""
    return bool(task.image or task.has_dockerfile)


class _AutomaticSandbox:
    """A container for tasks that need an image, and a folder for others."""

    def __init__(self) -> None:
        self._engine = ContainerEngine("docker", "podman")

    def sandbox(self, task: Task) -> AbstractAsyncContextManager[Sandbox]:
        if needs_container(task):
            return self._engine.sandbox(task)
        return folder_sandbox(task)


class _Agent:
    def __init__(self, options: TaskAgent, make_sandbox: MakeSandbox, resources: Resources) -> None:
        self._options = options
        self._make_sandbox = make_sandbox
        self._redactor = Redactor(sensitive_values({**os.environ, **options.env}))
        self._repositories = resources.shared(Repositories)
        self._files = resources.files
        self._folder = str(resources.folder)
        self._skills = [resources.folder / skill for skill in options.skills]

    async def answer(self, request: Request) -> Response:
        provider = str(self._options.name)
        kept = await asyncio.to_thread(_make_kept_folder, self._files, provider, request)
        try:
            # A case without a task folder has an empty working copy, and no verifier.
            task = request.case.task or Task(folder=kept, digest="")
            async with self._make_sandbox(task) as sandbox:
                return await self._work(task, request, sandbox, kept)
        except OSError as error:
            raise ProviderError("crash", f"the task could not be worked on: {error}") from error
        finally:
            if self._files is None:
                await asyncio.to_thread(shutil.rmtree, kept, ignore_errors=True)

    async def _work(self, task: Task, request: Request, sandbox: Sandbox, kept: Path) -> Response:
        """Set up the task, run the agent, and verify the result."""
        options = self._options
        env = {
            "TESTS_DIR": sandbox.tests,
            "LOGS_DIR": sandbox.logs,
            **options.env,
        }
        agent_s = task.agent_timeout_s or request.timeout_s
        await self._set_up(task, request, sandbox, env, agent_s)
        changes = None
        if task.repository is not None or options.transcript is not None:
            changes = Changes(sandbox, env)
            if not await changes.start():
                changes = None
        argv = _render_command(options, request, self._folder)
        stdin = instruction(request).encode()
        # Nothing that the agent started may change the tests or the reward. The diff is within the
        # context, because git runs programs that the agent may have put into its configuration.
        async with _end_processes(sandbox):
            agent = await sandbox.run(argv, stdin=stdin, env=env, timeout_s=agent_s)
            await asyncio.to_thread(_keep, kept, "agent", agent, self._redactor)
            if changes is not None and await changes.write():
                env["DIFF_FILE"] = changes.path
            agent_failure = _failure(agent, "the agent", agent_s)
            try:
                response = await self._response(sandbox, agent, agent_failure, env)
            except ProviderError as error:
                await self._get_logs(sandbox, kept)
                if error.partial is not None:
                    error.partial = await asyncio.to_thread(_with_diff, error.partial, kept)
                raise

        if request.case.task is None:
            await self._get_logs(sandbox, kept)
            return await asyncio.to_thread(_with_diff, response, kept)

        verifier_s = task.verifier_timeout_s or request.timeout_s
        # Only now, so that the agent could not read or change the tests.
        await _clear_for_verifier(sandbox, env)
        await sandbox.put_tests(task.folder / "tests")
        verify = ("bash", f"{sandbox.tests}/test.sh")
        verifier = await sandbox.run(verify, stdin=b"", env=env, timeout_s=verifier_s)
        await asyncio.to_thread(_keep, kept, "verifier", verifier, self._redactor)
        # Its exit status is ignored: a verifier may end with the status of its tests.
        failure = _failure(verifier, "the verifier", verifier_s)
        if failure is not None and verifier.why != "exit":
            raise failure
        await self._get_logs(sandbox, kept)
        response = await asyncio.to_thread(_with_diff, response, kept)
        try:
            verifier_logs = kept / "logs" / "verifier"
            reward, rewards = await asyncio.to_thread(_read_rewards, verifier_logs, verifier)
        except ProviderError as error:
            if agent_failure is None or agent_failure.kind != "timeout":
                raise
            # Unfinished work that the verifier cannot judge is the agent's fault.
            agent_failure.partial = response
            raise agent_failure from error
        if len(rewards) > 1:
            response = replace(response, metadata={**response.metadata, "rewards": rewards})
        if reward < 1:
            response = replace(response, test_failure=self._test_failure(verifier))
        return replace(response, reward=reward)

    async def _set_up(
        self,
        task: Task,
        request: Request,
        sandbox: Sandbox,
        env: Mapping[str, str],
        timeout_s: float,
    ) -> None:
        """Complete the working copy before the agent sees it."""
        if task.repository is not None:
            await _put_repository(sandbox, await self._repositories.checkout(task))
        await _run_setup(task, sandbox, env, timeout_s)
        if self._skills:
            options = self._options
            without = options.without_skills
            await install_skills(sandbox, self._skills, options.transcript, without=without)
        await put_attachments(sandbox, request, Path(self._folder))

    def _test_failure(self, verifier: ProgramEnd) -> TestFailure:
        printed = []
        for stream in (verifier.stdout, verifier.stderr_tail):
            text = _without_secrets(stream, self._redactor).decode(errors="replace")
            printed.append(clean_text(text))
        return find_test_failure(*printed)

    async def _get_logs(self, sandbox: Sandbox, kept: Path) -> None:
        """Keep the sandbox's `logs`, with secrets removed from the diff."""
        left_out = await sandbox.get_logs(kept / "logs")
        if left_out:
            await asyncio.to_thread(_list_left_out, kept, left_out)
        await asyncio.to_thread(_redact, kept / "logs" / _DIFF, self._redactor)

    async def _response(
        self,
        sandbox: Sandbox,
        agent: ProgramEnd,
        failure: ProviderError | None,
        env: Mapping[str, str],
    ) -> Response:
        """Return the agent's answer: its whole output, or the answer in its transcript.

        The answer of an agent that was out of time is what there is of it.

        Raises:
            ProviderError: the agent failed.
        """
        options = self._options
        if options.transcript is None:
            response = Response(clean_text(agent.stdout.decode(errors="replace")).strip())
            if failure is None:
                return response
            if failure.kind == "timeout":
                return replace(response, finish_reason=_TIMEOUT)
            raise failure
        transcript = agent.stdout
        if options.transcript_file is not None:
            show = ("cat", "--", options.transcript_file)
            read = await sandbox.run(show, stdin=b"", env=env, timeout_s=_READ_S)
            transcript = read.stdout
        reader = TRANSCRIPTS[options.transcript]
        try:
            return await asyncio.to_thread(reader.answer, transcript, failure)
        except ProviderError as error:
            if error.kind != "timeout":  # also of an agent that waited for its model's API
                raise
            return replace(error.partial or Response(""), finish_reason=_TIMEOUT)


async def _run_setup(
    task: Task, sandbox: Sandbox, env: Mapping[str, str], timeout_s: float
) -> None:
    for command in task.setup:
        shell = ("sh", "-c", command)
        ended = await sandbox.run(shell, stdin=b"", env=env, timeout_s=timeout_s)
        shown = one_line(command, 80)
        failure = _failure(ended, f"the setup command {shown!r}", timeout_s)
        if failure is not None:  # before the agent, so it is not the agent's fault
            raise ProviderError("setup", failure.message, detail=failure.detail)


def _end_processes(sandbox: Sandbox) -> AbstractAsyncContextManager[None]:
    if not hasattr(sandbox, "end_processes"):  # a sandbox of the team's own may lack it
        return nullcontext()
    return sandbox.end_processes()


async def _clear_for_verifier(sandbox: Sandbox, env: Mapping[str, str]) -> None:
    """Remove what the agent left where the tests and the reward will be.

    Raises:
        ProviderError: the agent left something that cannot be removed.
    """
    clear = ("sh", "-c", _CLEAR, "sh", sandbox.tests, sandbox.logs)
    ended = await sandbox.run(clear, stdin=b"", env=env, timeout_s=_CLEAR_S)
    if ended.why != "exit" or ended.status:
        text = "what the agent left in TESTS_DIR or LOGS_DIR/verifier could not be removed"
        raise ProviderError("crash", text, detail=ended.stderr or None)


async def _put_repository(sandbox: Sandbox, checkout: Path) -> None:
    require_put_work(sandbox, "a task with a `repository`")
    await sandbox.put_work(checkout)


def _render_command(options: TaskAgent, request: Request, folder: str) -> list[str]:
    """Return the words of an agent's command for one run.

    Raises:
        ProviderError: a template uses a name without a value.
    """
    case = request.case
    model: Any = case.overrides.model or options.model
    if model is None:
        model = Absent("`model` is not set: set it in the provider, or in `overrides` of the case")
    names = {
        "input": request.input,
        "case": {
            "id": case.id,
            "tags": list(case.tags),
            "metadata": case.metadata,
        },
        "run": request.run,
        "folder": folder,
        "model": model,
        "params": {**options.params, **case.overrides.params},
    }
    templates = template_sandbox()
    words = []
    for word in options.argv:
        try:
            words.append(templates.from_string(word).render(names))
        except Exception as error:  # a user's template can raise anything
            why = describe_error(error, names)
            text = f"command: {one_line(word, 80)!r} cannot be rendered: {why}"
            raise ProviderError("rejected", text) from error
    return words


def _failure(ended: ProgramEnd, who: str, timeout_s: float) -> ProviderError | None:
    """Return why a program failed; None if it did not."""
    detail = ended.stderr or None
    if ended.why == "timeout":
        return ProviderError("timeout", f"{who} did not end within {timeout_s:g} s", detail=detail)
    if ended.why == "too_large":
        return ProviderError("bad_answer", f"{who} wrote too much to stdout", detail=detail)
    if ended.status:
        text = f"{who} ended with exit status {ended.status}"
        if ended.reason:
            text = f"{text}: {ended.reason}"
        status = None
        if ended.status > 0:  # not a signal
            status = ended.status
        return ProviderError("crash", text, status=status, detail=detail)
    return None


def _read_rewards(logs: Path, ended: ProgramEnd) -> tuple[float, Mapping[str, float]]:
    """Read the verifier's rewards: a number in reward.txt, or numbers by name in reward.json, of
    which `reward` is the score.

    Raises:
        ProviderError: there is no `reward`, so there is no verdict on the agent's work.
    """
    as_text = logs / "reward.txt"
    as_json = logs / "reward.json"
    if as_text.is_file() and as_json.is_file():
        text = "the verifier left two rewards, reward.txt and reward.json: write only one of them"
        raise ProviderError("setup", text)
    rewards: dict[str, float] = {}
    try:
        if as_text.is_file():
            reward = float(as_text.read_text())
        else:
            values = json.loads(as_json.read_bytes())
            reward = float(values["reward"])
            for name, value in values.items():
                if isinstance(value, int | float) and math.isfinite(value):
                    rewards[clean_text(name)] = value
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        where = "verifier/reward.txt of its LOGS_DIR"
        text = f"the verifier left no reward in {where} (exit status {ended.status})"
        raise ProviderError("setup", text, detail=ended.stderr or None) from error
    if not 0 <= reward <= 1:
        text = f"the verifier's reward is {reward:g}, which is not between 0 and 1"
        raise ProviderError("setup", text)
    return reward, rewards


# Files that a run leaves behind.


def _with_diff(response: Response, kept: Path) -> Response:
    """Add the diff to the metadata of a response, and as its last step for readers."""
    path = kept / "logs" / _DIFF
    if not path.is_file():
        return response
    with path.open("rb") as file:
        diff = clean_text(file.read(4 * MAX_STEP_CHARACTERS).decode(errors="replace"))
    if len(diff) > MAX_STEP_CHARACTERS:
        diff = diff[: MAX_STEP_CHARACTERS - 1] + "…"
    steps = response.steps
    if steps is not None and diff:
        steps = (*steps, Step("message", "diff", result=diff))
    return replace(response, steps=steps, metadata={**response.metadata, "diff": diff})


def _make_kept_folder(files: Path | None, provider: str, request: Request) -> Path:
    """Make an empty folder for the files of a run: below `files`, or a temporary one."""
    if files is None:
        return Path(tempfile.mkdtemp(prefix="ci-evals-kept-"))
    cell = files / "tasks" / file_name(request.case.id) / file_name(provider)
    kept = cell / f"run-{request.run}"
    shutil.rmtree(kept, ignore_errors=True)
    with _storage_errors(kept):
        kept.mkdir(parents=True)
    return kept


def _keep(kept: Path, who: str, ended: ProgramEnd, redactor: Redactor) -> None:
    """Keep the output of a program, without secrets."""
    with _storage_errors(kept):
        (kept / f"{who}.stdout.txt").write_bytes(_without_secrets(ended.stdout, redactor))
        (kept / f"{who}.stderr.txt").write_bytes(_without_secrets(ended.stderr_tail, redactor))


def _list_left_out(kept: Path, left_out: Mapping[str, WhyLeftOut]) -> None:
    """Write down which files of `LOGS_DIR` are not kept, and why."""
    lines = []
    for name, why in left_out.items():
        lines.append(f"{one_line(clean_text(name), 200)}: {why}\n")
    with _storage_errors(kept):
        (kept / "logs-left-out.txt").write_text("".join(lines), "utf-8")


def _redact(file: Path, redactor: Redactor) -> None:
    """Remove secrets from a file, if it exists.

    A symbolic link is removed: one from a container could lead to any file of this machine.
    """
    with _storage_errors(file):
        if file.is_symlink():
            file.unlink()
        elif file.is_file():
            file.write_bytes(_without_secrets(file.read_bytes(), redactor))


def _without_secrets(printed: bytes, redactor: Redactor) -> bytes:
    text = printed.decode(errors="surrogateescape")
    return redactor.clean_text(text).encode(errors="surrogateescape")


@contextmanager
def _storage_errors(kept: Path) -> Iterator[None]:
    """Raise StorageError for an OSError.

    A results folder that cannot be written is not the agent's failure.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(f"{kept}: cannot be written: {error.strerror}") from error
