"""Calls the user's git."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ci_evals.format import one_line

_REPOSITORY = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_WORK_TREE",
)
"""The variables that make git use another repository than the one of its folder, as in a hook."""

_SETTINGS = (
    # The owner of a checkout is often not the user of the job's container.
    *("-c", "safe.directory=*"),
    # Hooks of the user's templates are for the user's own checkouts.
    *("-c", f"core.hooksPath={os.devnull}"),
)
_UNATTENDED = {
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "GIT_LFS_SKIP_SMUDGE": "1",  # large files would be fetched with credentials that are not ours
    "GIT_OPTIONAL_LOCKS": "0",  # a lock could collide with a job's own git
    "LC_ALL": "C",
}


class GitError(Exception):
    """git is missing or failed; the text is its last words."""


def git(*arguments: str, folder: Path, variables: Mapping[str, str] | None = None) -> str:
    """Return the output of git in a folder, without the line break at its end.

    Args:
        arguments: the command and its arguments.
        folder: the working folder.
        variables: further variables of its environment, such as credentials: unlike arguments, no
            other user can see them in the list of processes.

    Raises:
        GitError: git is missing or fails.
    """
    environ = {name: value for name, value in os.environ.items() if name not in _REPOSITORY}
    environ |= _UNATTENDED | dict(variables or {})
    command = ["git", *_SETTINGS, *arguments]
    try:
        ended = subprocess.run(  # noqa: S603  the user's own git
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
        )
    except OSError as error:
        raise GitError(f"git cannot be started: {error.strerror}") from error
    if ended.returncode:
        lines = [line for line in ended.stderr.splitlines() if line.strip()]
        last = lines[-1] if lines else f"git ended with exit status {ended.returncode}"
        raise GitError(one_line(last.removeprefix("fatal: "), 300))
    return ended.stdout.rstrip("\n")


def ask_git(*arguments: str, folder: Path) -> str:
    """Return the output of git in a folder; empty if it fails or is missing."""
    try:
        return git(*arguments, folder=folder).strip()
    except GitError:
        return ""
