"""Tells whether main's files are still what they were when they were checked out and prepared."""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from ci_evals.merge_base.checkout import PACKAGES, Worktree

_IMPORTABLE = (".cjs", ".js", ".mjs", ".node", ".pth", ".py", ".pyc", ".pyd", ".so")
"""The suffixes of files that Python and Node.js import without being told the whole name."""
_IMPORTABLE_NAMES = ("package.json",)
_CACHE = "__pycache__"
"""Where Python keeps bytecode, of main's code as well."""
_Stamp = tuple[int, ...]


class FileWatch:
    """Main's files: those that git tracks, and others that could be imported instead of them.

    Other files are left out, as main's own code may write logs and results.

    Args:
        worktree: main's files.
    """

    def __init__(self, worktree: Worktree) -> None:
        self._worktree = worktree
        self._digests: dict[Path, tuple[_Stamp, str]] = {}
        """The digest of each file with its stamp: reading thousands of files takes longer."""
        self.accept()

    def accept(self) -> None:
        """Take the files as they are now for what they must stay."""
        # Listed once: what runs in the job could change git's own list, too.
        folder = self._worktree.folder
        self._tracked = frozenset(folder / name for name in self._worktree.list_files())
        self._accepted = self._read()

    def find_change(self) -> str | None:
        """Return the path of a file that was changed, removed or added; None if there is none."""
        now, accepted = self._read(), self._accepted
        folder = self._worktree.folder
        for path in sorted({*now, *accepted}):
            if now.get(path) != accepted.get(path):
                top = folder if path.is_relative_to(folder) else folder.parent
                return path.relative_to(top).as_posix()
        return None

    def _read(self) -> Mapping[Path, str]:
        """Return what identifies the content of each file."""
        paths = set(self._tracked)
        for top in (self._worktree.folder, self._worktree.modules):
            paths.update(_find_importable(top))
        return {path: self._identify(path) for path in paths}

    def _identify(self, path: Path) -> str:
        """Return a digest of a file; of a folder or a link to one, where it is."""
        try:
            status = path.stat()
            if stat.S_ISDIR(status.st_mode):
                return str(path.resolve())
            if not stat.S_ISREG(status.st_mode):  # reading a pipe would hang
                return "neither a file nor a folder"
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            known = self._digests.get(path)
            if known is not None and known[0] == stamp:
                return known[1]
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "blake2b").hexdigest()
        except OSError:  # removed, or a link to nowhere
            return ""
        self._digests[path] = (stamp, digest)
        return digest


def _find_importable(top: Path) -> Iterator[Path]:
    """Yield the files below a folder that could be imported, and the links and folders of packages
    that lead to others.
    """
    for place, folders, files in os.walk(top):
        folder = Path(place)
        for name in tuple(folders):
            path = folder / name
            # Installed packages are many, and not main's files.
            if name in PACKAGES or path.is_symlink():
                yield path
            if name in PACKAGES or name == _CACHE:
                folders.remove(name)
        for name in files:
            if name.endswith(_IMPORTABLE) or name in _IMPORTABLE_NAMES:
                yield folder / name
