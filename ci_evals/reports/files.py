"""The files that a run leaves behind, by the names of their formats."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from ci_evals.files import write_whole
from ci_evals.reports import html, junit, markdown, report_json
from ci_evals.reports.summary import Renderer, Summary

FORMATS: Mapping[str, tuple[str, Renderer]] = {
    "json": ("report.json", report_json.render),
    "junit": ("junit.xml", junit.render),
    "markdown": ("summary.md", markdown.render),
    "html": ("report.html", html.render),
}


def write_reports(summary: Summary, out: Path, formats: Iterable[str]) -> None:
    """Write the chosen formats into `out`; each file appears whole or not at all."""
    for name, render in map(FORMATS.__getitem__, formats):
        write_whole(out / name, render(summary))
