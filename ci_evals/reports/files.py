"""The files that a run leaves behind, by the names of their formats."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ci_evals.errors import StorageError
from ci_evals.files import write_atomically
from ci_evals.reports import html, junit, markdown, report_json
from ci_evals.reports.summary import Renderer, Summary

FORMATS: Mapping[str, tuple[str, Renderer]] = {
    "json": ("report.json", report_json.render),
    "junit": ("junit.xml", junit.render),
    "markdown": ("summary.md", markdown.render),
    "html": ("report.html", html.render),
}

_BEGINNINGS: Mapping[str, re.Pattern[bytes]] = {
    "report.json": re.compile(rb'\{"schema_version": \d'),
    "junit.xml": re.compile(rb".{,100}<testsuites [^>]*>\s*<!-- ci-evals -->", re.DOTALL),
    "summary.md": re.compile(b"## (?:%s) " % "|".join(markdown.VERDICT_MARKS.values()).encode()),
    "report.html": re.compile(rb'.*?<meta name="generator" content="ci-evals ', re.DOTALL),
}
"""What the reports of this package begin with, and files of their name from elsewhere do not."""
_BEGINNING_BYTES = 4096


def remove_reports(folder: Path) -> None:
    """Remove the reports of an earlier run from a folder, where they would contradict those of the next.

    Files of the same names that are not this package's stay.

    Raises:
        StorageError: a report cannot be removed.
    """
    for name, beginning in _BEGINNINGS.items():
        path = folder / name
        try:
            if path.is_file():
                with path.open("rb") as file:
                    is_ours = beginning.match(file.read(_BEGINNING_BYTES))
                if is_ours:
                    path.unlink()
        except OSError as error:
            text = f"{path}: the report of an earlier run cannot be removed: {error.strerror}: choose another --out"
            raise StorageError(text) from error


def write_reports(summary: Summary, out: Path, formats: Iterable[str]) -> None:
    """Write the chosen formats into `out`; each file appears whole or not at all."""
    for name, render in map(FORMATS.__getitem__, formats):
        write_atomically(out / name, render(summary))
