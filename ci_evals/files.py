"""Atomic writing of files, names for them, and paths that others have written."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from zlib import crc32

from ci_evals.errors import StorageError, UsageError

_REPORT_SUFFIXES = frozenset({".html", ".json", ".jsonl", ".md", ".xml"})


def write_atomically(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file next to its destination, then move it there: no reader ever sees a part of it.

    Missing folders are created.

    Args:
        path: the destination; several processes may write it at the same time.
        chunks: the content, in order.

    Raises:
        StorageError: the file can't be written; an older file stays unchanged.
    """
    partial = path.with_name(f".{path.name}.{os.urandom(8).hex()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            file.writelines(chunks)
            file.flush()
            # Without this, a crash of the machine may leave an empty file in its place.
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        remedy = "free some space there, or choose another folder"
        raise StorageError(f"{path}: cannot be written: {error.strerror}: {remedy}") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def partial_files(path: Path) -> Iterator[Path]:
    """Yield unfinished files of a destination, of live processes and of killed ones."""
    return path.parent.glob(f".{path.name}.*.partial")


def file_name(name: str) -> str:
    """Turn a name into a file name for every system; a checksum keeps a changed one unique."""
    safe = re.sub(r"[^\w.=-]+", "-", name, flags=re.ASCII)
    safe = safe.strip(".-")[:100]
    if safe == name:
        return name
    checksum = crc32(name.encode(errors="replace"))
    return f"{safe}-{checksum:08x}"


def untrusted_path(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder, by a name from a journal, a report or a cache.

    Whoever wrote the name must not choose which other files of this machine are read.

    Raises:
        ValueError: the name is absolute, has `..`, or leads out of the folder by a link; or it is
            of a folder, a pipe or a device.
    """
    path = folder / name
    if Path(name).anchor or ".." in Path(name).parts:
        raise ValueError(f"{name} is not a path inside {folder}")
    # `realpath` because `Path.resolve` raises another error for a circle of links.
    target = Path(os.path.realpath(path))
    if not target.is_relative_to(os.path.realpath(folder)):
        raise ValueError(f"{name} is a link that leads out of {folder}")
    if target.exists() and not target.is_file():
        raise ValueError(f"{name} is not a regular file")
    return target


def check_folder(path: Path) -> None:
    """Refuse a path that looks like a report's instead of a results folder's.

    Raises:
        UsageError: the path looks like a file of a report.
    """
    if path.suffix in _REPORT_SUFFIXES and not path.is_dir():
        folder = path.with_suffix("").as_posix()
        text = f"{path.as_posix()} looks like a file, but a folder is expected"
        raise UsageError(f"{text}: pass {folder}, which gets report.json and the other reports")
