"""summary.md: the step summary. The first line is the verdict and its reason, everything else unfolds."""

from collections.abc import Iterator

from ci_evals.reports.findings import MAX_CASES_OF_ERROR, error_groups, over_budget
from ci_evals.reports.labels import MAX_LABELS_SHOWN, task_reports
from ci_evals.reports.leaderboard import TIES, leaderboard
from ci_evals.reports.markdown_text import Markdown
from ci_evals.reports.notes import comparison_notes, notes
from ci_evals.reports.sections import Room, environment, sections
from ci_evals.reports.summary import Summary
from ci_evals.reports.trend import trends
from ci_evals.reports.variants import variant_reports
from ci_evals.verdict.comparison import Comparison
from ci_evals.verdict.gate import population_bounds
from ci_evals.verdict.scopes import ScopeVerdict, scope_label

MAX_BYTES = 900_000
"""GitHub drops a step summary of more than 1,048,576 bytes whole."""

_CELLS_BYTES = 600_000  # the rest is for tables of at most `_MAX_ROWS` rows, whose names are cut
_MAX_CELLS = 200
_MAX_ROWS = 50
_CUT = Markdown("\x1e")  # no text of others has one: `visible` writes it as its escape
_WORST_FIRST = ("error", "fail", "borderline", "pass")


def render(summary: Summary) -> Iterator[bytes]:
    """summary.md, at most `MAX_BYTES` long: cells that do not fit are counted instead of shown."""
    yield "".join(pieces(summary)).encode()


def pieces(summary: Summary) -> list[str]:
    """summary.md in pieces that may be left out from the end; each of them is whole by itself."""
    report, verdict, comparison = summary.report, summary.verdict, summary.comparison
    template = environment().get_template("summary.md.j2")
    variants = variant_reports(summary)
    text = template.render(
        cut=_CUT,
        report=report,
        verdict=verdict,
        notes=(*notes(report), *comparison_notes(summary)),
        base=comparison.baseline.name if isinstance(comparison, Comparison) else None,
        settled=report.settled is not None,
        scopes=sorted(verdict.scopes, key=_badness) if len(verdict.scopes) > 1 else (),
        variants=variants,
        trends=tuple(trends(comparison, variants[:_MAX_ROWS])),
        standings=leaderboard(variants),
        ties=TIES,
        sections=sections(summary, Room(_CELLS_BYTES, _MAX_CELLS)),
        over_budget=over_budget(report, _MAX_ROWS),
        error_groups=error_groups(report) if report.errored else (),
        max_rows=_MAX_ROWS,
        max_cases=MAX_CASES_OF_ERROR,
        tasks=tuple(task_reports(report)),
        max_labels=MAX_LABELS_SHOWN,
        population=population_bounds(report, summary.gate),
        scope_label=scope_label,
    )
    return text.split(_CUT)


def _badness(scope: ScopeVerdict) -> int:
    return _WORST_FIRST.index(scope.status)
