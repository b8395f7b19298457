"""Unpacks archives of earlier jobs, without trusting them."""

import struct
import zipfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from ci_evals.errors import HostError

_MAX_DEPTH = 4
"""Files at a greater depth are left-overs of agents and verifiers of tasks."""
_CHUNK_BYTES = 256 * 1024
_DAMAGED = (  # zipfile raises these for bytes that are not a zip
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    LookupError,
    OverflowError,
    RuntimeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Bounds on downloading and unpacking an archive."""

    max_archive_bytes: int
    max_unpacked_bytes: int
    max_files: int


OWN_LIMITS: Final = ArchiveLimits(512 * 1024 * 1024, 2 * 1024 * 1024 * 1024, 100_000)
"""For artifacts of the repository's own branches."""

FORK_LIMITS: Final = ArchiveLimits(32 * 1024 * 1024, 64 * 1024 * 1024, 10_000)
"""For artifacts written by code of a fork.

Reading a report takes several times its size in memory.
"""


def unpack(
    file: BinaryIO, folder: Path, names: Collection[str], limits: ArchiveLimits
) -> tuple[Path, ...]:
    """Unpack the archive's files of these names to `FOLDER/NUMBER/NAME`.

    Each folder of the archive gets a number. The archive's own paths, file types and sizes are not
    trusted: only plain files of these names are written.

    Args:
        file: the zip, seekable.
        folder: an empty folder, or a path at which to create one.
        names: bare file names, such as `report.json`.
        limits: bounds on the archive.

    Returns:
        The files that were written, in the archive's order.

    Raises:
        HostError: `unexpected` if it is not a sound zip, `too_large` if it exceeds a limit.
    """
    written: dict[Path, None] = {}
    numbers: dict[PurePosixPath, int] = {}
    left_bytes = limits.max_unpacked_bytes
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            if len(entries) > limits.max_files:
                raise HostError(
                    "too_large", f"the artifact has more than {limits.max_files:,} files"
                )
            for entry in entries:
                # `filename` may differ: zipfile cuts it at a NUL.
                source = PurePosixPath(entry.orig_filename)
                if source.name not in names or len(source.parts) > _MAX_DEPTH:
                    continue
                # CI systems pack with these two. Others may take far more memory to unpack.
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise HostError(
                        "unexpected", "the artifact is packed with an unsupported compression"
                    )
                number = numbers.setdefault(source.parent, len(numbers) + 1)
                path = folder / str(number) / source.name
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as packed, path.open("wb") as out:
                    while chunk := packed.read(_CHUNK_BYTES):
                        left_bytes -= len(chunk)
                        if left_bytes < 0:
                            size = f"{limits.max_unpacked_bytes:,} bytes"
                            raise HostError(
                                "too_large", f"the artifact unpacks to more than {size}"
                            )
                        out.write(chunk)
                written[path] = None
    except _DAMAGED as error:
        raise HostError("unexpected", f"the artifact is not a sound zip file: {error}") from error
    return tuple(written)
