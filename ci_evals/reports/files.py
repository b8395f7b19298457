"""The report files of a run, one for each format."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ci_evals import registry
from ci_evals.errors import StorageError
from ci_evals.files import partial_files, write_atomically
from ci_evals.registry import Registry
from ci_evals.reports.summary import Renderer, Summary

_BEGINNING_BYTES = 4096


class Format(NamedTuple):
    """An output format.

    Args:
        file: the name of its file.
        render: yields its bytes.
        beginning: a regular expression that matches the beginning of our file, but not of another
            program's file of the same name.
    """

    file: str
    render: Renderer
    beginning: bytes


FORMATS: Registry[Format] = registry.FORMATS
"""The formats by name; each is imported when it is first used."""


def remove_reports(folder: Path, formats: Iterable[str] = ()) -> None:
    """Remove the reports of an earlier run, which would contradict the reports of the next one.

    Unfinished files of a killed process are removed, too. Files of the same names that another
    program wrote are kept.

    Args:
        folder: the results folder.
        formats: the formats that the suite writes. Reports in any of our own formats are removed in
            addition, as an earlier run may have been told to write them.

    Raises:
        StorageError: a report cannot be removed.
    """
    names = dict.fromkeys(formats)
    for name, entry in FORMATS.own.items():
        path = folder / entry.file
        if path.is_file() or any(partial_files(path)):
            names[name] = None
    for format_ in [FORMATS[name] for name in names]:  # all are loaded before a file is removed
        path = folder / format_.file
        try:
            if path.is_file():
                with path.open("rb") as file:
                    beginning = file.read(_BEGINNING_BYTES)
                if re.match(format_.beginning, beginning, re.DOTALL):
                    path.unlink()
            for partial in partial_files(path):
                partial.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(
                f"{path}: the report of an earlier run cannot be removed: {error.strerror}:"
                " choose another --out"
            ) from error


def write_reports(summary: Summary, out: Path, formats: Iterable[str]) -> None:
    """Write the chosen formats into `out`; each file is replaced atomically."""
    for name in formats:
        format_ = FORMATS[name]
        write_atomically(out / format_.file, format_.render(summary))
