"""Zip files, sound and hostile."""

import io
import stat
import zipfile
from collections.abc import Mapping

REPORT = b'{"schema_version": 1}'


def archive(
    files: Mapping[str, bytes] = {"report.json": REPORT}, method: int = zipfile.ZIP_DEFLATED
) -> bytes:
    """A zip with these files, names taken as they are."""
    return of_entries(
        *((entry_named(name), content) for name, content in files.items()), method=method
    )


def of_entries(
    *entries: tuple[zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED
) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        for entry, content in entries:
            out.writestr(entry, content, compress_type=method)
    return file.getvalue()


def entry_named(name: str, kind: int = 0) -> zipfile.ZipInfo:
    """An entry of exactly this name; `kind` is a file type of `stat`."""
    entry = zipfile.ZipInfo("placeholder")
    entry.filename = name
    if kind:
        entry.external_attr = (kind | 0o777) << 16
        entry.create_system = 3
    return entry


def symlink(name: str, target: bytes) -> bytes:
    return of_entries((entry_named(name, stat.S_IFLNK), target))
