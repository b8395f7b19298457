"""Copies what an agent and its verifier left in `LOGS_DIR`, within bounds."""

import errno
import io
import os
import stat
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Literal

from ci_evals.errors import StorageError

MAX_BYTES = 50 * 1024**2
"""The maximum for all files of a run together."""

MAX_ENTRIES = 5_000
_MAX_S = 30.0

FIRST = ("verifier/reward.txt", "verifier/reward.json", "agent.diff")
"""Files that are copied before all others, so that nothing an agent leaves can crowd them out."""

REST = "(the rest)"
"""Stands for the files that were not looked at."""

WhyLeftOut = Literal["link or special file", "over the limit", "unreadable"]

# A pipe in the place of a file would block the one who opens it.
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


_CUT_OFF = (tarfile.TarError, EOFError, ValueError)


class LogCopier:
    """Copies regular files into a folder.

    Attributes:
        left_out: the names of files that were not copied, with the reason.
    """

    def __init__(self, target: Path) -> None:
        self.left_out: dict[str, WhyLeftOut] = {}
        self._target = target
        self._copied: set[str] = set()
        self._entries = 0
        self._bytes = 0
        self._end_s = time.monotonic() + _MAX_S

    def copy_folder(self, source: Path) -> None:
        """Copy the files of a folder on this machine."""
        if not stat.S_ISDIR(_mode(source)):
            self.left_out["."] = "link or special file"
            return
        for name in FIRST:
            path = source / name
            if stat.S_ISDIR(_mode(path.parent)) and stat.S_ISREG(_mode(path)):
                self._copy_file(path, name)
        for path in _walk(source):
            if not self._may_look_at_more():
                return
            name = path.relative_to(source).as_posix()
            if stat.S_ISREG(_mode(path)):
                self._copy_file(path, name)
            else:
                self.left_out[name] = "link or special file"

    def copy_archive(self, data: bytes, folder: str | None = None) -> None:
        """Copy the files of a tar archive, which may be cut off.

        Args:
            data: the archive of a file or a folder, whose own name every path in it begins with.
            folder: where the file belongs; None for the archive of the whole folder.
        """
        try:
            with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
                others = []
                for member in self._members(archive):
                    if _name_of(member, folder) in FIRST:
                        self._copy_member(archive, member, folder)
                    else:
                        others.append(member)
                for member in others:
                    if not self._may_look_at_more():
                        return
                    self._copy_member(archive, member, folder)
        except _CUT_OFF:  # within a file
            self.left_out[REST] = "over the limit"

    def _members(self, archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
        try:
            yield from archive
        except _CUT_OFF:
            self.left_out[REST] = "over the limit"

    def _may_look_at_more(self) -> bool:
        self._entries += 1
        if self._entries <= MAX_ENTRIES and time.monotonic() < self._end_s:
            return True
        self.left_out[REST] = "over the limit"
        return False

    def _copy_file(self, path: Path, name: str) -> None:
        try:
            with os.fdopen(os.open(path, _OPEN), "rb") as file:
                status = os.fstat(file.fileno())
                if stat.S_ISREG(status.st_mode):
                    self._copy(file, status.st_size, name)
                else:
                    self.left_out[name] = "link or special file"
        except OSError:
            self.left_out[name] = "unreadable"

    def _copy_member(
        self, archive: tarfile.TarFile, member: tarfile.TarInfo, folder: str | None
    ) -> None:
        if member.isdir():
            return
        name = _name_of(member, folder)
        file = None
        if member.isreg():
            file = archive.extractfile(member)
        if file is None or not name or ".." in name.split("/") or name.startswith("/"):
            self.left_out[name or "."] = "link or special file"
        else:
            self._copy(file, member.size, name)

    def _copy(self, file: IO[bytes], size: int, name: str) -> None:
        if name in self._copied:
            return
        if self._bytes + size > MAX_BYTES:
            self.left_out[name] = "over the limit"
            return
        content = file.read(size)
        path = self._target / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                # Not an OSError, which would be the agent's failure.
                text = f"{path}: cannot be written: {error.strerror}"
                raise StorageError(text) from error
            self.left_out[name] = "unreadable"
            return
        self._copied.add(name)
        self._bytes += size


def _walk(folder: Path) -> Iterator[Path]:
    """Yield everything in a folder but folders, and follow no links."""
    folders = [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Path(entry.path))
                    else:
                        yield Path(entry.path)
        except OSError:  # it may not be read, or is gone
            continue


def _name_of(member: tarfile.TarInfo, folder: str | None) -> str:
    """Return the path of a member below the folder of all files."""
    parts = PurePosixPath(member.name).parts
    if folder is None:
        return "/".join(parts[1:])
    return "/".join(PurePosixPath(folder, *parts).parts)


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except OSError:
        return 0
