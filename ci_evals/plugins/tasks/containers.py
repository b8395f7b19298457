"""Sandboxes in containers of Docker or Podman, controlled by their command lines."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from uuid import uuid4

from ci_evals.errors import ProviderError
from ci_evals.model.case import Task
from ci_evals.plugins.tasks.logs import FIRST, LogCopier, WhyLeftOut
from ci_evals.plugins.tasks.sandboxes import Sandbox
from ci_evals.providers.subprocess import ProgramEnd, kill_on_exit, run_program

_QUICK_S = 60.0
_BUILD_S = 600.0

_MARK = "CI_EVALS_PROGRAM"
# Kills the processes whose environment has a text. Later passes find what they start meanwhile.
_KILL = """
for pass in 1 2 3; do
  for process in /proc/[0-9]*; do
    case "$(cat $process/environ 2>/dev/null)" in
      *"$1"*) kill -9 ${process#/proc/} 2>/dev/null ;;
    esac
  done
done
exit 0
"""
# Prints the id and the start time of each process: an id may be used again. The name of a program
# may have any character, so that fields are counted from the last parenthesis.
_LIST = """
for process in /proc/[0-9]*; do
  stat=
  read -r stat < $process/stat
  set -- ${stat##*) }
  echo "${process#/proc/}:${20}"
done 2>/dev/null
exit 0
"""
# Kills the processes that are not in a list, until only those are left and this one. It does not
# look for a mark, which an agent can remove from the environment of its processes.
_KILL_OTHERS = """
kept=" $1 "
for pass in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  others=0
  for process in /proc/[0-9]*; do
    id=${process#/proc/}
    stat=
    read -r stat < $process/stat || continue
    set -- ${stat##*) }
    case "$kept$$:${20} " in
      *" $id:${20} "*) continue ;;
    esac
    test "$1" = Z && continue
    others=1
    kill -9 $id
  done
  test $others = 0 && exit 0
done 2>/dev/null
exit 1
"""


class ContainerEngine:
    """Docker or Podman. The engine is determined once, and each image is built once.

    Args:
        programs: the engines to try; the first one that answers is used.
    """

    def __init__(self, *programs: str) -> None:
        self._programs = programs
        self._lock = asyncio.Lock()
        self._program: str | None = None
        self._images: dict[str, str] = {}

    @asynccontextmanager
    async def sandbox(self, task: Task) -> AsyncIterator[Sandbox]:
        """Start a container of the task's image; it is removed at the end, with everything that
        runs in it.

        Raises:
            ProviderError: there is no engine, or no image.
        """
        async with self._lock:
            if self._program is None:
                self._program = await self._find_program(task)
            program = self._program
            image = await self._image(program, task)
        name = f"ci-evals-{uuid4().hex}"
        remove = (program, "rm", "--force", "--volumes")
        # The label lets people find containers that are left after a SIGKILL of this process.
        # `--init` reaps processes that the agent orphans.
        options = ["--detach", "--init", "--name", name, "--label", "ci-evals"]
        if task.cpus is not None:
            options += ["--cpus", f"{task.cpus:g}"]
        if task.memory_mb is not None:
            options += ["--memory", f"{task.memory_mb}m"]
        options += ["--entrypoint", "sleep"]
        build_s = task.build_timeout_s or _BUILD_S
        with kill_on_exit(name, command=remove):
            try:
                await _succeed(program, "run", *options, image, "infinity", timeout_s=build_s)
                container = _Container(program, name)
                for_reward = f"{container.logs}/verifier"
                await _succeed(program, "exec", name, "mkdir", "-p", for_reward)
                yield container
            finally:
                # Shielded: a cancellation must not leave the container running.
                await asyncio.shield(_run([*remove, name], timeout_s=_QUICK_S))

    async def _find_program(self, task: Task) -> str:
        """Return the first engine that answers."""
        complaints = []
        for program in self._programs:
            if shutil.which(program) is None:
                complaints.append(f"there is no `{program}` on the PATH")
                continue
            version = [program, "version", "--format", "{{.Server.Version}}"]
            ended = await _run(version, timeout_s=_QUICK_S)
            if ended.why == "exit" and not ended.status:
                return program
            complaints.append(f"`{program}` does not answer ({_complaint(ended)})")
        image = "an image of its own"
        if task.image:
            image = f"the image {task.image}"
        need = f"the task {task.folder.name} needs {image}"
        why = ", and ".join([need, *complaints])
        other = "use another `sandbox` of the provider: folder, or module:function"
        raise ProviderError("environment", f"{why}: start an engine, or {other}")

    async def _image(self, program: str, task: Task) -> str:
        if task.image:
            return task.image
        if not task.has_dockerfile:
            advice = "give its task.toml a docker_image, or an environment/Dockerfile"
            raise ProviderError("environment", f"{task.folder.name} has no image: {advice}")
        if task.digest not in self._images:
            tag = f"ci-evals-task:{task.digest}"
            folder = str(task.folder / "environment")
            build_s = task.build_timeout_s or _BUILD_S
            await _succeed(program, "build", "--quiet", "--tag", tag, folder, timeout_s=build_s)
            self._images[task.digest] = tag
        return self._images[task.digest]


class _Container:
    def __init__(self, program: str, name: str) -> None:
        self._program = program
        self._name = name
        self.tests = "/tests"
        self.logs = "/logs"

    async def run(
        self, argv: Sequence[str], *, stdin: bytes, env: Mapping[str, str], timeout_s: float
    ) -> ProgramEnd:
        mark = uuid4().hex
        env = {**env, _MARK: mark}
        command = [self._program, "exec", "--interactive"]
        for name in env:  # only names: the list of processes would show values, such as keys
            command += ["--env", name]
        command += [self._name, *argv]
        ended = await _run(command, stdin=stdin, env=env, timeout_s=timeout_s)
        if ended.why != "exit":
            # It was `exec` that was ended: what it started goes on in the container.
            kill = [self._program, "exec", self._name, "sh", "-c", _KILL, "sh", f"{_MARK}={mark}"]
            await _run(kill, timeout_s=_QUICK_S)
        return ended

    @asynccontextmanager
    async def end_processes(self) -> AsyncIterator[None]:
        # As root, who may kill the processes of every user.
        shell = [self._program, "exec", "--user=0", self._name, "sh", "-c"]
        listed = await _run([*shell, _LIST], timeout_s=_QUICK_S)
        if listed.why != "exit" or listed.status:
            text = f"{self._program} exec: {_complaint(listed)}"
            raise ProviderError("environment", text, status=listed.status)
        kept = " ".join(listed.stdout.decode(errors="replace").split())
        yield
        killed = await _run([*shell, _KILL_OTHERS, "sh", kept], timeout_s=_QUICK_S)
        if killed.why != "exit" or killed.status:
            text = f"what the agent left running could not be ended: {_complaint(killed)}"
            raise ProviderError("crash", text)

    async def put_work(self, source: Path) -> None:
        show = [self._program, "exec", self._name, "sh", "-c", "pwd"]
        shown = await _run(show, timeout_s=_QUICK_S)
        work = shown.stdout.decode().strip() or "/"
        await _succeed(self._program, "cp", f"{source}/.", f"{self._name}:{work}")

    async def put_tests(self, source: Path) -> None:
        await _succeed(self._program, "cp", f"{source}/.", f"{self._name}:{self.tests}")

    async def get_logs(self, target: Path) -> Mapping[str, WhyLeftOut]:
        copier = LogCopier(target)
        archive = await self._archive(self.logs)
        if archive.why == "exit" and archive.status:
            text = f"{self._program} cp: {_complaint(archive)}"
            raise ProviderError("environment", text, status=archive.status)
        if archive.why != "exit":  # cut off at a limit: what counts most may lie beyond
            for name in FIRST:
                file = await self._archive(f"{self.logs}/{name}")
                if file.why == "exit" and not file.status:
                    folder = str(PurePosixPath(name).parent)
                    await asyncio.to_thread(copier.copy_archive, file.stdout, folder)
        await asyncio.to_thread(copier.copy_archive, archive.stdout)
        return copier.left_out

    async def _archive(self, path: str) -> ProgramEnd:
        """Return a tar archive of a file or a folder, which ends at the limit of an output."""
        command = [self._program, "cp", f"{self._name}:{path}", "-"]
        return await _run(command, timeout_s=_QUICK_S)


async def _succeed(program: str, *arguments: str, timeout_s: float = _QUICK_S) -> None:
    ended = await _run([program, *arguments], timeout_s=timeout_s)
    if ended.why != "exit" or ended.status:
        text = f"{program} {arguments[0]}: {_complaint(ended)}"
        raise ProviderError("environment", text, status=ended.status)


async def _run(
    argv: Sequence[str],
    *,
    timeout_s: float,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> ProgramEnd:
    environment = {**os.environ, **(env or {})}
    return await run_program(argv, stdin, cwd=Path.cwd(), env=environment, timeout_s=timeout_s)


def _complaint(ended: ProgramEnd) -> str:
    if ended.why == "timeout":
        return "no answer in time"
    return ended.reason or f"exit status {ended.status}"
