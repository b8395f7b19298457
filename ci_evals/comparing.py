"""The story of `ci-evals compare`: two saved reports in, the comparison of a run between them out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ci_evals.recalled import read_summary
from ci_evals.reports.summary import Summary
from ci_evals.rules import Gate
from ci_evals.saved import read_baseline, read_report
from ci_evals.verdict.comparison import Comparison, NoComparison, compare
from ci_evals.verdict.gate import comparison_verdict
from ci_evals.verdict.history import Baseline

ReportFormat = Literal["text", "markdown", "json"]


def compared(base: Sequence[Path], head: Path, name: str | None = None) -> Summary:
    """Compare a saved report with others.

    The verdict is that of the head's own gate on the comparison alone: its bars were judged when it was run. A
    suspect counts as regressed only with the confirm runs that it got then.

    Args:
        base: reports, folders of them, or folders of such folders: the newest and its history.
        head: the report that is compared, or its folder.
        name: what sentences call the base side.

    Raises:
        StorageError: a file cannot be read, is damaged, or a newer ci-evals wrote it.
    """
    saved = read_report(head)
    report, _, gate, *_ = read_summary(head, oldest=1)
    baseline = read_baseline(base, saved.suite.name, name, but=saved)
    found: Comparison | NoComparison
    if isinstance(baseline, Baseline):
        found = compare(saved.head, baseline, confirm_runs=saved.confirm_runs, alpha=(gate or Gate()).alpha)
    else:
        found = baseline
    return Summary(report, comparison_verdict(report, gate, found), gate, found)


def shown(summary: Summary, output: ReportFormat, *, width: int, color: bool) -> str:
    """The comparison as text."""
    match output:
        case "text":
            from ci_evals.reports import terminal

            return terminal.render(summary, width=width, color=color)
        case "markdown":
            from ci_evals.reports import markdown

            return b"".join(markdown.render(summary)).decode()
        case "json":
            from ci_evals.reports.json_comparison import render_json

            return render_json(summary)
