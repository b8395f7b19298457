"""Reports. Files that read saved ones, or write a page, load when they are first used."""

from typing import TYPE_CHECKING

from ci_evals.registry import lazy_attributes

if TYPE_CHECKING:
    from ci_evals.reports.drift import drift_alarms as drift_alarms
    from ci_evals.reports.drift import drift_entries as drift_entries
    from ci_evals.reports.drift import drift_legend as drift_legend
    from ci_evals.reports.drift import drift_notes as drift_notes
    from ci_evals.reports.html import render_several as render_several
    from ci_evals.reports.read import read_baseline as read_baseline
    from ci_evals.reports.read import read_reports as read_reports
    from ci_evals.reports.read import with_answers as with_answers
    from ci_evals.reports.saved import SavedReport as SavedReport

__getattr__ = lazy_attributes(
    __name__,
    {
        "drift_alarms": "ci_evals.reports.drift",
        "drift_entries": "ci_evals.reports.drift",
        "drift_legend": "ci_evals.reports.drift",
        "drift_notes": "ci_evals.reports.drift",
        "SavedReport": "ci_evals.reports.saved",
        "read_baseline": "ci_evals.reports.read",
        "read_reports": "ci_evals.reports.read",
        "render_several": "ci_evals.reports.html",
        "with_answers": "ci_evals.reports.read",
    },
)
