"""The files that a run leaves behind, by the names of their formats."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ci_evals.errors import StorageError
from ci_evals.files import partial_files, write_atomically
from ci_evals.reports import html, junit, markdown, report_json
from ci_evals.reports.summary import Renderer, Summary


class Format(NamedTuple):
    """An output format: the name of its file, what makes its bytes, and what the file begins with.

    Files of the same name from elsewhere do not begin like that.
    """

    file: str
    render: Renderer
    beginning: re.Pattern[bytes]


FORMATS: Mapping[str, Format] = {
    "json": Format("report.json", report_json.render, re.compile(rb'\{"schema_version": \d')),
    "junit": Format(
        "junit.xml",
        junit.render,
        re.compile(rb".{,100}<testsuites [^>]*>\s*<!-- ci-evals -->", re.DOTALL),
    ),
    "markdown": Format(
        "summary.md",
        markdown.render,
        re.compile(b"## (?:%s) " % "|".join(markdown.VERDICT_MARKS.values()).encode()),
    ),
    "html": Format(
        "report.html",
        html.render,
        re.compile(rb'.*?<meta name="generator" content="ci-evals ', re.DOTALL),
    ),
}

_BEGINNING_BYTES = 4096


def remove_reports(folder: Path) -> None:
    """Remove the reports of an earlier run from a folder, where they would contradict those of the
    next.

    Files of the same names that are not this package's stay. What a process that was killed has
    left unfinished goes.

    Raises:
        StorageError: a report cannot be removed.
    """
    for name, _, beginning in FORMATS.values():
        path = folder / name
        try:
            if path.is_file():
                with path.open("rb") as file:
                    is_ours = beginning.match(file.read(_BEGINNING_BYTES))
                if is_ours:
                    path.unlink()
            for partial in partial_files(path):
                partial.unlink(missing_ok=True)
        except OSError as error:
            text = f"{path}: the report of an earlier run cannot be removed: {error.strerror}: choose another --out"
            raise StorageError(text) from error


def write_reports(summary: Summary, out: Path, formats: Iterable[str]) -> None:
    """Write the chosen formats into `out`; each file appears whole or not at all."""
    for name, render, _ in map(FORMATS.__getitem__, formats):
        write_atomically(out / name, render(summary))
