"""The files that a run leaves behind: one renderer each, imported when it is first asked for."""

from collections.abc import Mapping

from ci_evals.late import Late
from ci_evals.reports.summary import Renderer

RENDERERS: Mapping[str, Renderer] = Late(
    "ci_evals.reports",
    {
        "report.json": "json_report:render",
        "junit.xml": "junit:render",
        "summary.md": "markdown:render",
        "report.html": "html:render",
    },
)
