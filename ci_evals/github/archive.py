"""Unpacks a zip that anybody may have made: known names only, bounded sizes, nothing outside of the folder."""

import stat
import struct
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from msgspec import Struct

from ci_evals.errors import GitHubError

_CHUNK_BYTES = 256 * 1024
_ENTRY_MARK = b"PK\x01\x02"  # starts each entry of a zip's directory
_METHODS = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
_ENCRYPTED = 0x1
_MAX_DEPTH = 4  # below it is what agents and verifiers of tasks have left, whatever they call it
_UNSOUND = (  # what zipfile raises for bytes that nobody has zipped
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    LookupError,
    OverflowError,
    RuntimeError,
    ValueError,
)
_RESERVED = frozenset('<>:"|?*\\')


class ArchiveLimits(Struct, frozen=True):
    """The most that is downloaded, written, and counted."""

    max_archive_bytes: int
    max_unpacked_bytes: int
    max_files: int


OWN_LIMITS: Final = ArchiveLimits(512 * 1024 * 1024, 2 * 1024 * 1024 * 1024, 100_000)
"""For artifacts of the repository's own branches."""

FORK_LIMITS: Final = ArchiveLimits(32 * 1024 * 1024, 128 * 1024 * 1024, 10_000)
"""For artifacts that code of a fork has written."""


def unpack(file: BinaryIO, folder: Path, names: Collection[str], limits: ArchiveLimits) -> tuple[Path, ...]:
    """Write the archive's files with one of these names, in whatever upper folder of it, into `folder`.

    What the archive says of its sizes is not believed. All others are passed over, unless they are an attack.

    Args:
        file: the zip, seekable.
        folder: an empty folder, or one to be made.
        names: bare file names, `report.json`.
        limits: what it may hold.

    Returns:
        The files that were written, in the archive's order.

    Raises:
        GitHubError: `unexpected` when it is no zip or wants to write elsewhere, `too_large` when it exceeds a limit.
    """
    _check_count(file, limits.max_files)
    try:
        with zipfile.ZipFile(file) as archive:
            entries = [(entry, _target(entry)) for entry in archive.infolist() if not entry.is_dir()]
            known = [(entry, target) for entry, target in entries if _is_known(target, names)]
            _check_targets([target for _, target in known])
            return _write(archive, [each for each in known if each[1].name in names], folder, limits)
    except _UNSOUND as error:
        raise GitHubError("unexpected", f"the artifact is not a sound zip file: {error}") from error


def _write(
    archive: zipfile.ZipFile,
    entries: list[tuple[zipfile.ZipInfo, PurePosixPath]],
    folder: Path,
    limits: ArchiveLimits,
) -> tuple[Path, ...]:
    written: list[Path] = []
    left_bytes = limits.max_unpacked_bytes
    for entry, target in entries:
        path = folder / target
        path.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(entry) as source, path.open("xb") as out:
            while chunk := source.read(_CHUNK_BYTES):
                left_bytes -= len(chunk)
                if left_bytes < 0:
                    raise GitHubError(
                        "too_large", f"the artifact unpacks to more than {limits.max_unpacked_bytes:,} bytes"
                    )
                out.write(chunk)
        written.append(path)
    return tuple(written)


def _target(entry: zipfile.ZipInfo) -> PurePosixPath:
    """Where an entry goes, below the folder; raises for one that is no plain file at a plain place."""
    mode = entry.external_attr >> 16
    name = entry.orig_filename
    parts = name.split("/")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise _attack(name, "is no plain file")
    if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _METHODS:
        raise _attack(name, "is packed in a way that artifacts are not")
    if not all(_is_plain(part) for part in parts):
        raise _attack(name, "is not a plain path")
    return PurePosixPath(*parts)


def _is_plain(part: str) -> bool:
    return part not in ("", ".", "..") and part.isprintable() and not _RESERVED & set(part)


def _is_known(target: PurePosixPath, names: Collection[str]) -> bool:
    """Whether a file system may take it for one of the names."""
    return len(target.parts) <= _MAX_DEPTH and target.name.rstrip(". ").casefold() in names


def _check_targets(targets: list[PurePosixPath]) -> None:
    """Refuse what another file system would write somewhere else."""
    seen: set[str] = set()
    for target in targets:
        if any(part[-1] in ". " for part in target.parts):
            raise _attack(str(target), "is not a plain path")
        if (folded := str(target).casefold()) in seen:
            raise _attack(str(target), "is there twice")
        seen.add(folded)


def _check_count(file: BinaryIO, max_files: int) -> None:
    """Count what looks like entries before a directory of a million of them is read into memory."""
    file.seek(0)
    count, tail = 0, b""
    while chunk := file.read(_CHUNK_BYTES):
        searched = tail + chunk
        count += searched.count(_ENTRY_MARK)
        tail = searched[-len(_ENTRY_MARK) + 1 :]
    if count > max_files:
        raise GitHubError("too_large", f"the artifact has more than {max_files:,} files")
    file.seek(0)


def _attack(name: str, what: str) -> GitHubError:
    return GitHubError("unexpected", f"the artifact was not unpacked: {name[:100]!a} {what}")
