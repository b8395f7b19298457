"""Repositories of tasks: one revision, checked out once and copied for each run; and the diff of an
agent's changes.
"""

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ci_evals.errors import ProviderError
from ci_evals.format import describe_status, one_line
from ci_evals.model.case import Task
from ci_evals.plugins.tasks.sandboxes import Sandbox, local_environment
from ci_evals.providers.base import Resources
from ci_evals.providers.subprocess import ProgramEnd, run_program

_FETCH_S = 600.0
_DIFF_S = 120.0
_SOME_UNREADABLE = 1  # the status of `git add --ignore-errors`
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[\w.-]+@[\w.-]+:")
_ANY_COMMIT = "git -c uploadpack.allowAnySHA1InWant=true upload-pack"
_ALONE = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
"""Keeps settings of the machine, such as filters and hooks, out of the diff."""


def is_url(repository: str) -> bool:
    """Return True for an address, such as `https://…` or `git@host:path`; False for a path."""
    return _URL.match(repository) is not None


def is_repository(folder: Path) -> bool:
    """Return True if a folder is the root of a git repository, with a working copy or without."""
    return (folder / ".git").exists() or (folder / "HEAD").is_file()


class Repositories:
    """Checks out each revision of a repository once per invocation, without its history: an agent
    might find the solution in later commits.
    """

    def __init__(self, resources: Resources) -> None:
        self._lock = asyncio.Lock()
        self._folders: dict[tuple[str, str | None], Path] = {}
        self._stack = resources.stack

    async def checkout(self, task: Task) -> Path:
        """Return a folder with the task's repository at its revision, which must not be changed.

        Raises:
            ProviderError: the repository could not be checked out.
        """
        key = (str(task.repository), task.revision)
        async with self._lock:
            if key not in self._folders:
                folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="ci-evals-repo-"))
                self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
                await _check_out(*key, folder)
                self._folders[key] = folder
        return self._folders[key]


async def _check_out(repository: str, revision: str | None, folder: Path) -> None:
    wanted = revision or "HEAD"
    fetch = ["fetch", "--quiet", "--depth", "1"]
    if not is_url(repository):
        # A fetch accepts a full commit id, but neither an abbreviated one nor `HEAD~1`.
        commit = f"{wanted}^{{commit}}"
        parsed = await _git("rev-parse", "--verify", "--quiet", commit, cwd=Path(repository))
        wanted = parsed.stdout.decode().strip()
        if not wanted:
            why = "there is no such revision"
            raise _not_checked_out(repository, revision, why, parsed)
        fetch += ["--upload-pack", _ANY_COMMIT]
    commands = [
        ["init", "--quiet", "--initial-branch", "main"],
        [*fetch, "--", repository, wanted],
        ["checkout", "--quiet", "-B", "main", "FETCH_HEAD"],
    ]
    for command in commands:
        ended = await _git(*command, cwd=folder)
        if ended.why != "exit" or ended.status:
            why = ended.reason or describe_status(ended.status or 0)
            if ended.why == "timeout":
                why = f"`git {command[0]}` did not end within {_FETCH_S:g} s"
            raise _not_checked_out(repository, revision, why, ended)


def _not_checked_out(
    repository: str, revision: str | None, why: str, ended: ProgramEnd
) -> ProviderError:
    at = ""
    if revision is not None:
        at = f" at {revision}"
    text = f"the repository {one_line(repository)}{at} could not be checked out: {why}"
    return ProviderError("environment", text, detail=ended.stderr or None)


async def _git(*arguments: str, cwd: Path) -> ProgramEnd:
    env = {**local_environment(), "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
    try:
        return await run_program(["git", *arguments], b"", cwd=cwd, env=env, timeout_s=_FETCH_S)
    except FileNotFoundError as error:
        text = "there is no `git` on the PATH, which a task with a `repository` needs"
        raise ProviderError("environment", text) from error


class Changes:
    """The changes in a working copy, found by git in the sandbox.

    Git's own files are kept outside the working copy: an agent may commit, or have no repository.

    Args:
        sandbox: has the working copy.
        env: the environment of its commands.
    """

    def __init__(self, sandbox: Sandbox, env: Mapping[str, str]) -> None:
        self.path = f"{sandbox.logs}/agent.diff"
        self._sandbox = sandbox
        git_folder = f"{sandbox.tests}.git"
        self._env = {**env, **_ALONE, "GIT_DIR": git_folder, "GIT_WORK_TREE": "."}
        self._tree: str | None = None

    async def start(self) -> bool:
        """Record the state of the working copy. Return False if git is not available."""
        started = await self._git("init", "--quiet")
        if started is None or started.status or not await self._add():
            return False
        tree = await self._git("write-tree")
        if tree is None or tree.status:
            return False
        self._tree = tree.stdout.decode().strip()
        return True

    async def write(self) -> bool:
        """Write the diff to `path` in the sandbox. Return False if git failed."""
        if self._tree is None or not await self._add():
            return False
        looks = ("--no-color", "--no-ext-diff", "--no-textconv", f"--output={self.path}")
        diff = await self._git(
            "-c", "core.bigFileThreshold=1m", "diff", "--cached", *looks, self._tree
        )
        return diff is not None and diff.status == 0

    async def _add(self) -> bool:
        added = await self._git("add", "--all", "--ignore-errors", ".")
        return added is not None and added.status in (0, _SOME_UNREADABLE)

    async def _git(self, *arguments: str) -> ProgramEnd | None:
        """Run git in the working copy; None if it is not installed, or does not end."""
        argv = ("git", *arguments)
        try:
            ended = await self._sandbox.run(argv, stdin=b"", env=self._env, timeout_s=_DIFF_S)
        except FileNotFoundError:
            return None
        if ended.why != "exit":
            return None
        return ended
