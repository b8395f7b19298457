"""The files that a run leaves behind: one renderer each. A renderer's own library is imported when it renders."""

from collections.abc import Mapping

from ci_evals.reports import html, json_report, junit, markdown
from ci_evals.reports.summary import Renderer

RENDERERS: Mapping[str, Renderer] = {
    "report.json": json_report.render,
    "junit.xml": junit.render,
    "summary.md": markdown.render,
    "report.html": html.render,
}
