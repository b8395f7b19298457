"""summary.md: the step summary. The first line is the verdict and its reason, everything else unfolds."""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ci_evals.model import Variant
from ci_evals.report import Report
from ci_evals.reports import figures, templates
from ci_evals.reports.findings import (
    MAX_CASES_OF_ERROR,
    JudgedCell,
    answer_text,
    counted_reasons,
    detail_text,
    error_groups,
    findings,
    input_text,
    over_budget,
    place_of,
    results_of,
)
from ci_evals.reports.labels import MAX_LABELS_SHOWN, task_reports
from ci_evals.reports.leaderboard import TIES, leaderboard
from ci_evals.reports.markdown_text import Markdown, code, fence, finalize, with_code
from ci_evals.reports.notes import notes
from ci_evals.reports.summary import Summary
from ci_evals.reports.text import shortened
from ci_evals.reports.variants import variant_reports
from ci_evals.verdict.gate import population_bounds
from ci_evals.verdict.scopes import ScopeVerdict, scope_label

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_BYTES = 900_000
"""GitHub drops a step summary of more than 1,048,576 bytes whole."""

_CELLS_BYTES = 600_000  # the rest is for tables of at most `_MAX_ROWS` rows, whose names are cut
_MAX_CELLS = 200
_MAX_ROWS = 50
_MAX_REASONS = 8
_INPUT_CHARACTERS = 1000
_ANSWER_CHARACTERS = 2000
_HEADLINES = {"pass": "✅ Pass", "borderline": "🟡 Borderline", "fail": "❌ Fail", "error": "⚠️ No verdict"}
_WORST_FIRST = ("error", "fail", "borderline", "pass")


class Section(NamedTuple):
    """Cells that ended alike: those that are shown, and how many there are."""

    title: str
    blocks: tuple[Markdown, ...]
    total: int


def render(summary: Summary) -> Iterator[bytes]:
    """summary.md, at most `MAX_BYTES` long: cells that do not fit are counted instead of shown."""
    report, verdict = summary.report, summary.verdict
    template = _environment().get_template("summary.md.j2")
    variants = variant_reports(summary)
    yield template.render(
        report=report,
        verdict=verdict,
        notes=tuple(notes(report)),
        scopes=sorted(verdict.scopes, key=_badness) if len(verdict.scopes) > 1 else (),
        variants=variants,
        standings=leaderboard(variants),
        ties=TIES,
        sections=_sections(summary),
        over_budget=over_budget(report, _MAX_ROWS),
        error_groups=error_groups(report) if report.errored else (),
        max_rows=_MAX_ROWS,
        max_cases=MAX_CASES_OF_ERROR,
        tasks=tuple(task_reports(report)),
        max_labels=MAX_LABELS_SHOWN,
        population=population_bounds(report, summary.gate),
        scope_label=scope_label,
    ).encode()


def _sections(summary: Summary) -> list[Section]:
    found = findings(summary)
    sections = []
    max_bytes, max_cells = _CELLS_BYTES, _MAX_CELLS
    for title, cells in (("Failing", found.failed), ("Flaky, but within the bar", found.flaky)):
        blocks = []
        for cell in cells[:max_cells]:
            block = _block(summary.report, cell)
            max_bytes -= len(block.encode())
            if max_bytes < 0:
                break
            blocks.append(block)
        max_cells -= len(blocks)
        sections.append(Section(title, tuple(blocks), len(cells)))
    return [section for section in sections if section.total]


def _block(report: Report, cell: JudgedCell) -> Markdown:
    results = results_of(report, cell.cell, "failed")
    template = _environment().get_template("summary_case.md.j2")
    return Markdown(
        template.render(
            cell=cell,
            several_variants=len(report.matrix.variants) > 1,
            place=place_of(cell.case),
            input=shortened(input_text(cell.case), _INPUT_CHARACTERS),
            reasons="\n".join(counted_reasons(results, _MAX_REASONS)),
            run=results[0].run,
            answer=shortened(answer_text(results[0]) or "(nothing)", _ANSWER_CHARACTERS),
            detail=detail_text(results[0]),
        )
    )


def _badness(scope: ScopeVerdict) -> int:
    return _WORST_FIRST.index(scope.status)


@cache
def _environment() -> "Environment":
    environment = templates.environment(finalize)
    environment.filters |= {
        "code": code,
        "fence": fence,
        "headline": _HEADLINES.__getitem__,
        "rate": figures.rate,
        "score": figures.score,
        "usd": figures.usd,
        "place": place_of,
        "with_code": with_code,
        "between": figures.between,
        "seconds": figures.seconds,
        "with_interval": figures.rate_with_interval,
        "number_of": figures.number_of,
        "variant": lambda result: str(Variant(result.provider, result.prompt)),
    }
    return environment
