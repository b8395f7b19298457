"""Checks out main's commit into a temporary folder, without touching the user's repository."""

import os
import shutil
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import filelock

from ci_evals.errors import HostError
from ci_evals.git import GitError, git
from ci_evals.hosts import MainCommit, Remote
from ci_evals.providers.subprocess import marked_variables

_PREFIX = "ci-evals-main-"
_LOCK = "lock"
_ATTEMPTS = 5
_STALLED_S = 60
"""After so many seconds without a byte, fetching fails."""
_WEB_ONLY = (
    *("-c", "protocol.allow=never"),
    *("-c", "protocol.http.allow=always"),
    *("-c", "protocol.https.allow=always"),
)
"""A configured `url.*.insteadOf` must not turn an address into a program that gets credentials."""
PACKAGES = ("node_modules", ".venv")
"""The folders of installed packages, which both sides share."""


class CheckoutError(Exception):
    """Main could not be checked out; the text says why."""


@dataclass(frozen=True, slots=True)
class Worktree:
    """Main's files.

    Args:
        commit: the commit that is checked out.
        root: the root of the user's checkout.
        folder: the root of main's files.
    """

    commit: MainCommit
    root: Path
    folder: Path

    @property
    def modules(self) -> Path:
        """The folder of links to packages that an import hook finds; see `link_modules`."""
        return self.folder.parent / "modules"

    def counterpart(self, path: Path) -> Path:
        """Return the path that a path of the user's checkout has in main's files.

        Raises:
            ValueError: the path is outside of the checkout.
        """
        # A link is not followed, but the folders above it may be: macOS has one above every
        # temporary folder.
        resolved = path.absolute().parent.resolve() / path.name
        return self.folder / resolved.relative_to(self.root)

    def list_files(self, *patterns: str) -> Sequence[str]:
        """Return the tracked files that match a pattern, or are in a folder of that name."""
        listed = git("ls-files", "-z", "--", *patterns, folder=self.folder)
        return [name for name in listed.split("\0") if name]


Fetch = Callable[[str, Path], None]
"""Fetches a commit into a git repository, or raises a `HostError`; see `Host.fetch`."""


@contextmanager
def check_out(commit: MainCommit, root: Path, fetch: Fetch | None) -> Iterator[Worktree]:
    """Check out a commit for the duration of the context.

    A bare repository of our own takes the objects of the checkout, or what it fetches. So the
    user's `.git` never changes, several jobs can use one checkout at once, and what a killed
    process leaves is removed by the next one, together with its worktree.

    Args:
        commit: the commit.
        root: the root of the user's checkout.
        fetch: fetches a commit that is not there; None if nobody has it.

    Raises:
        CheckoutError: the commit cannot be had, or not be written.
    """
    _remove_leftovers()
    place, lock = _make_place()
    try:
        tree = place / "tree"
        try:
            _add_worktree(commit.sha, root, place / "git", tree, fetch)
        except (GitError, HostError, OSError) as error:
            raise CheckoutError(str(error)) from error
        yield Worktree(commit, root, tree.resolve())
    finally:
        lock.release()
        shutil.rmtree(place, ignore_errors=True)


def _make_place() -> tuple[Path, filelock.FileLock]:
    """Make a temporary folder, and lock it for as long as this process lives, whatever ends it.

    Raises:
        CheckoutError: it cannot be made.
    """
    for attempt in range(_ATTEMPTS):
        try:
            place = Path(tempfile.mkdtemp(prefix=_PREFIX))
            lock = filelock.FileLock(place / _LOCK)
            lock.acquire()
        except OSError as error:
            # Another process may take a folder that is not locked yet for a leftover.
            if attempt + 1 == _ATTEMPTS or not isinstance(error, FileNotFoundError):
                raise CheckoutError(f"no temporary folder: {error.strerror}") from error
        else:
            return place, lock
    raise AssertionError("the last attempt has returned or raised")


def _remove_leftovers() -> None:
    """Remove the checkouts of processes that were killed."""
    for file in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        lock = filelock.FileLock(file)
        # Of a living process, or of another user.
        with suppress(filelock.Timeout, OSError), lock.acquire(blocking=False):
            shutil.rmtree(file.parent, ignore_errors=True)


def _add_worktree(sha: str, root: Path, repository: Path, tree: Path, fetch: Fetch | None) -> None:
    """Make a bare repository that has a commit, and check the commit out.

    Raises:
        GitError: git fails.
        HostError: the commit cannot be fetched.
        OSError: a file cannot be written.
    """
    git("init", "--quiet", "--bare", str(repository), folder=root)
    checkout = ("worktree", "add", "--quiet", "--detach", str(tree), sha)
    if _has_commit(root, sha):
        _borrow_objects(root, repository)
        try:
            git(*checkout, folder=repository)
        except GitError:
            if fetch is None:
                raise
            # A partial clone has the commit, but not all of its files.
            shutil.rmtree(tree, ignore_errors=True)
            git("worktree", "prune", folder=repository)
        else:
            return
    if fetch is None:
        raise GitError(f"the checkout does not have {sha}, and nobody to fetch it from")
    fetch(sha, repository)
    git(*checkout, folder=repository)


def _has_commit(root: Path, sha: str) -> bool:
    with suppress(GitError):
        git("cat-file", "-e", f"{sha}^{{commit}}", folder=root)
        return True
    return False


def _borrow_objects(root: Path, repository: Path) -> None:
    """Let a repository read the objects of the user's checkout."""
    common = root / git("rev-parse", "--git-common-dir", folder=root)
    objects = (common / "objects").resolve()
    alternates = repository / "objects" / "info" / "alternates"
    alternates.write_text(f"{objects.as_posix()}\n", encoding="utf-8")
    shallow = common / "shallow"
    if shallow.is_file():
        # Without this list, git would look for the parents that a shallow checkout lacks.
        shutil.copyfile(shallow, repository / "shallow")


def fetch_commit(sha: str, remote: Remote, repository: Path) -> None:
    """Fetch one commit without its history. The credentials are given to that process alone.

    Args:
        sha: the commit.
        remote: the server that has it.
        repository: the git repository that gets it.

    Raises:
        HostError: git fails.
    """
    variables = {}
    if remote.token is not None:
        credentials = b64encode(f"{remote.user}:{remote.token.reveal()}".encode()).decode()
        variables = {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"http.{remote.server}/.extraheader",
            "GIT_CONFIG_VALUE_0": f"Authorization: Basic {credentials}",
        }
    # A server that answers no more would hold up the job for ever.
    gives_up = ("-c", "http.lowSpeedLimit=1", "-c", f"http.lowSpeedTime={_STALLED_S}")
    fetch = ("fetch", "--quiet", "--depth=1", "--no-tags", remote.url, sha)
    with marked_variables() as marks:
        try:
            git(*_WEB_ONLY, *gives_up, *fetch, folder=repository, variables={**variables, **marks})
        except GitError as error:
            raise HostError("unreachable", str(error)) from error


def link_shared(worktree: Worktree, folder: Path, named: Sequence[str], *, packages: bool) -> None:
    """Link what both sides share into main's files: packages, `.env`, and what the suite names.

    Args:
        worktree: main's files.
        folder: the folder of the suite in the user's checkout.
        named: paths of the key `against.link`, relative to that folder.
        packages: link the folders of installed packages; not where a command is about to install
            main's own, which would empty the user's by the link.

    Raises:
        CheckoutError: a path is missing or outside of the checkout, or cannot be linked.
    """
    # The settings of both sides are those of the user, so main's own file is replaced.
    _link(folder / ".env", worktree, replaces=True)
    for above in (folder, *folder.parents):
        if not packages or not above.is_relative_to(worktree.root):
            break
        for name in PACKAGES:
            _link(above / name, worktree)
    for text in named:
        path = Path(os.path.normpath(folder / text))
        if not path.exists():
            raise CheckoutError(f"against.link: there is no {text}")
        _link(path, worktree)


def _link(path: Path, worktree: Worktree, *, replaces: bool = False) -> None:
    if not path.exists():
        return
    try:
        link = worktree.counterpart(path)
    except ValueError:
        raise CheckoutError(f"against.link: {path} is outside of the checkout") from None
    try:
        if replaces:
            link.unlink(missing_ok=True)
        if not os.path.lexists(link):
            link.parent.mkdir(parents=True, exist_ok=True)
            _link_or_copy(path, link)
    except OSError as error:
        raise CheckoutError(f"{path} cannot be linked: {error.strerror}") from error


def _link_or_copy(path: Path, link: Path) -> None:
    """Link a path; copy it where links need rights that the user lacks, as on Windows."""
    try:
        link.symlink_to(path, target_is_directory=path.is_dir())
    except OSError:
        if path.is_dir():
            shutil.copytree(path, link, symlinks=True)
        else:
            shutil.copyfile(path, link)


def link_modules(worktree: Worktree, mapping: Mapping[str, str]) -> Path | None:
    """Make a folder of links to main's counterparts of packages that an import hook finds.

    Args:
        worktree: main's files.
        mapping: the folder or file of each package in the user's checkout, by its name.

    Returns:
        The folder, to be put on the import path; None if no package is in the checkout.
    """
    folder = worktree.modules
    for name, place in mapping.items():
        path = Path(place).resolve()
        if not path.is_relative_to(worktree.root):
            continue
        target = worktree.counterpart(path)
        link = folder.joinpath(*name.split("."))
        if not target.exists():  # a module, whose place setuptools gives without its suffix
            target, link = target.with_suffix(".py"), link.with_suffix(".py")
        if target.exists() and not os.path.lexists(link):
            link.parent.mkdir(parents=True, exist_ok=True)
            _link_or_copy(target, link)
    return folder if folder.is_dir() else None
