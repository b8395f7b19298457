"""summary.md: the step summary. The first line is the verdict and its reason, everything else unfolds."""

from collections.abc import Iterable, Iterator, Sequence

from ci_evals.model import Result, Variant
from ci_evals.report import Report
from ci_evals.reports.figures import between, number_of, seconds
from ci_evals.reports.findings import MAX_CASES_OF_ERROR, ErrorGroup, error_groups, over_budget, place_of
from ci_evals.reports.labels import task_reports
from ci_evals.reports.leaderboard import leaderboard
from ci_evals.reports.markdown_tables import (
    MAX_ROWS,
    gate_table,
    labels_table,
    leaderboard_table,
    trend_lines,
    variants_table,
)
from ci_evals.reports.markdown_text import HEADLINES, Markdown, code, fill, heading, with_code
from ci_evals.reports.notes import comparison_notes, notes
from ci_evals.reports.sections import Room, Section, sections
from ci_evals.reports.summary import Summary
from ci_evals.reports.trend import trends
from ci_evals.reports.variants import variant_reports
from ci_evals.verdict.gate import population_bounds
from ci_evals.verdict.scopes import worst_first

MAX_BYTES = 900_000
"""GitHub drops a step summary of more than 1,048,576 bytes whole."""

_CELLS_BYTES = 600_000  # the rest is for tables of at most `MAX_ROWS` rows, whose names are cut
_MAX_CELLS = 200


def render(summary: Summary) -> Iterator[bytes]:
    """summary.md, at most `MAX_BYTES` long: cells that do not fit are counted instead of shown."""
    yield "".join(pieces(summary)).encode()


def pieces(summary: Summary) -> list[str]:
    """summary.md in pieces that may be left out from the end; each of them is whole by itself."""
    return ["".join(_head(summary)), *("".join(("\n", *piece)) for piece in _rest(summary))]


def _head(summary: Summary) -> Iterator[Markdown]:
    report, verdict = summary.report, summary.verdict
    yield fill("## {}: {}\n\n", HEADLINES[verdict.status], heading(verdict.reason))
    if verdict.hint:
        yield fill("{}\n\n", with_code(verdict.hint))
    at = fill(", at revision {}", code(report.suite.revision[:12])) if report.suite.revision else Markdown()
    yield fill("Suite {}: {} in {}{}.\n", code(report.suite.name), report.summary(), seconds(report.duration_s), at)
    if population := population_bounds(report, summary.gate):
        yield fill("\nWould new cases like these pass? {}.\n", between(*population).capitalize())
    for note in (*notes(report), *comparison_notes(summary)):
        yield fill("\n**{}**: {}\n", note.label, note.text)
    yield Markdown("\n")
    variants = variant_reports(summary)
    several = len(variants) > 1
    yield from variants_table(variants, summary.base)
    yield from trend_lines(trends(summary.compared, variants[:MAX_ROWS]), summary.base, several=several)
    yield from leaderboard_table(leaderboard(variants))
    for task in tuple(task_reports(report))[:MAX_ROWS]:
        yield from labels_table(task, several=several)


def _rest(summary: Summary) -> Iterator[Iterable[Markdown]]:
    report, scopes = summary.report, summary.verdict.scopes
    errors = [_errors(error_groups(report))] if report.errored else []
    if summary.verdict.status == "error":
        yield from errors
    if len(scopes) > 1:
        yield gate_table(worst_first(scopes), report)
    for section in sections(summary, Room(_CELLS_BYTES, _MAX_CELLS)):
        yield from _section(section)
    if results := over_budget(report, MAX_ROWS):
        yield _over_budget(report, results)
    if summary.verdict.status != "error":
        yield from errors


def _section(section: Section) -> Iterator[Iterable[Markdown]]:
    """A piece for each block that stands by itself and in the open, else one for all."""
    title = "<details>\n<summary><strong>{} ({})</strong></summary>\n\n" if section.folded else "### {} ({})\n\n"
    piece = [fill(title, section.title, f"{section.total:,}")]
    for number, block in enumerate(section.blocks):
        if number and not section.listed:
            if not section.folded:
                yield piece
                piece = []
            else:
                piece.append(Markdown("\n"))
        piece += [block, Markdown("\n")] if section.listed else [block]
    if section.left_out:
        left_out = number_of(section.left_out, "more case")
        piece.append(fill("\n… and {} in report.json and junit.xml.\n", left_out))
    if section.folded:
        piece.append(Markdown("\n</details>\n"))
    yield piece


def _over_budget(report: Report, results: Sequence[Result]) -> Iterator[Markdown]:
    count = report.columns.budget_violations
    yield fill("### Over budget ({})\n\n", f"{count:,}")
    several = len(report.matrix.variants) > 1
    for result in results:
        on = fill(" on {}", code(str(Variant(result.provider, result.prompt)))) if several else Markdown()
        yield fill("- {}{}, run {}: {}\n", code(result.case), on, result.run, ", ".join(result.budget_violations))
    if count > len(results):
        yield fill("- … and {} in report.json\n", number_of(count - len(results), "more run"))


def _errors(groups: Sequence[ErrorGroup]) -> Iterator[Markdown]:
    yield Markdown("### Errored runs\n\n")
    for group in groups[:MAX_ROWS]:
        cases = [fill("{} ({})", code(case.id), code(place_of(case))) for case in group.cases[:MAX_CASES_OF_ERROR]]
        left_out = len(group.cases) - len(cases)
        more = fill(", … and {}", number_of(left_out, "more case")) if left_out else Markdown()
        runs, variant, message = number_of(group.runs, "run"), code(str(group.variant)), code(group.message)
        yield fill("- {} of {}: {}, in {}{}\n", runs, variant, message, Markdown(", ".join(cases)), more)
    if len(groups) > MAX_ROWS:
        yield fill("- … and {} in report.json\n", number_of(len(groups) - MAX_ROWS, "other reason"))
