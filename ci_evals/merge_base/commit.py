"""Finds the commit that a change is compared with."""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ci_evals.engine.journal import journals_at
from ci_evals.errors import UsageError
from ci_evals.git import GitError, git
from ci_evals.hosts import MainCommit


class Parents(NamedTuple):
    """A commit, and its parents in order."""

    commit: str
    parents: tuple[str, ...]


def find_root(folder: Path) -> Path:
    """Return the root of the checkout that a folder is in.

    Raises:
        GitError: the folder is in no checkout, or git is missing.
    """
    return Path(git("rev-parse", "--show-toplevel", folder=folder)).resolve()


def read_head(folder: Path) -> Parents:
    """Return the commit that is checked out, and its parents.

    They are read from the commit itself: in a shallow checkout, git says that it has none.

    Raises:
        GitError: nothing is checked out.
    """
    commit = git("rev-parse", "--verify", "HEAD", folder=folder)
    parents = []
    for line in git("cat-file", "commit", commit, folder=folder).splitlines():
        name, _, value = line.partition(" ")
        if not line:
            break  # the message follows
        if name == "parent":
            parents.append(value)
    return Parents(commit, tuple(parents))


def first_parent(folder: Path, head: str) -> str | None:
    """Return the commit of the target branch that a CI system has merged the change into.

    CI systems check out a merge of the change into its target, whose first parent is the target. It
    is taken only if the second one is the head that the event names: otherwise an author's own
    merge of main would choose what the change is compared with. None if this is no such merge.

    Args:
        folder: the checkout.
        head: the newest commit of the change, as the CI system names it.
    """
    with suppress(GitError):
        match read_head(folder):
            case Parents(parents=(target, source)) if source == head:
                return target
    return None


def find_merge_base(folder: Path, one: str, other: str) -> str | None:
    """Return the newest common ancestor of two commits; None if the checkout does not have it."""
    with suppress(GitError):
        return git("merge-base", one, other, folder=folder)
    return None


def find_named(folder: Path, revision: str) -> MainCommit:
    """Return the merge base of the checked-out commit and a revision that the user names.

    Raises:
        UsageError: there is no such revision or common ancestor, or nothing has changed since.
    """
    what = f"--against {revision}"
    try:
        head = read_head(folder).commit
    except GitError as error:
        raise UsageError(f"{what} needs a git checkout that has a commit: {error}") from None
    try:
        named = git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", folder=folder)
    except GitError:
        branches = git("branch", "--format=%(refname:short)", folder=folder).split()
        known = f"; branches here: {', '.join(branches[:5])}" if branches else ""
        raise UsageError(f"{what}: git knows no such branch or commit{known}") from None
    base = find_merge_base(folder, head, named)
    if base is None:
        raise UsageError(
            f"{what}: it has no common ancestor with the checked-out commit; in a shallow checkout,"
            " fetch more of the history first: git fetch --unshallow"
        )
    if base == head and not _has_changes(folder):
        raise UsageError(f"{what}: nothing to compare: this is {revision}, without any change")
    return MainCommit(base, revision)


def _has_changes(folder: Path) -> bool:
    """Return True if files of the checkout differ from its commit, untracked ones included.

    A new module may be all that has changed, but results of an earlier run are no change.
    """
    root = find_root(folder)
    for entry in git("status", "--porcelain", "-z", folder=folder).split("\0"):
        status, path = entry[:2], root / entry[3:]
        if entry and not (status == "??" and _has_results(path)):
            return True
    return False


def _has_results(path: Path) -> bool:
    """Return True for the results folder of a suite or of several."""
    return path.is_dir() and any(journal.is_file() for journal in journals_at(path))
