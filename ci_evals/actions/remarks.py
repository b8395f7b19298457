"""Which cases are annotated, and with what: regressions first, then what fails, then what could not be judged."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from ci_evals.github.annotations import Annotation, Level
from ci_evals.reports.findings import JudgedCell, findings, judged_cells, results_of, why
from ci_evals.reports.summary import Summary
from ci_evals.verdict.comparison import Comparison
from ci_evals.verdict.sentences import cell_finding, cell_name
from ci_evals.verdict.unanswered import same_reason
from ci_evals.verdict.words import number_of

PathOf = Callable[[str], str | None]
"""From a file as the user named it to its path in the repository; None if it is not in there."""


def remarks(summary: Summary, path_of: PathOf) -> Iterator[Annotation]:
    """What is shown beside the lines of the suite, the most important first.

    Args:
        summary: what was found.
        path_of: where the repository has a file.
    """
    level: Level = "error" if summary.verdict.status == "fail" else "warning"
    regressed = _regressed(summary)
    for cell, finding, name in regressed:
        yield _remark(summary, cell, level, f"Regressed: {name}", finding, path_of)
    named = {cell.cell for cell, _, _ in regressed}
    found = findings(summary)
    for cell in found.failed:
        if cell.cell not in named:
            yield _remark(summary, cell, level, f"Failing: {_name(summary, cell)}", cell.tally, path_of)
    for first, *others in _by_reason(summary, found.errored):
        more = f" and {len(others):,} more" if others else ""
        finding = f"{_extent(summary, [first, *others])} without a graded run" if others else first.tally
        yield _remark(summary, first, "warning", f"No verdict: {_name(summary, first)}{more}", finding, path_of)


def _regressed(summary: Summary) -> list[tuple[JudgedCell, str, str]]:
    comparison, matrix = summary.comparison, summary.report.matrix
    if not isinstance(comparison, Comparison) or not comparison.counts.get("regressed"):
        return []
    by_key = {matrix.key(cell.cell): cell for cell in judged_cells(summary)}
    return [
        (by_key[each.key], cell_finding(comparison, each), cell_name(comparison, each))
        for each in comparison.of("regressed")
    ]


def _by_reason(summary: Summary, cells: Iterable[JudgedCell]) -> Iterable[list[JudgedCell]]:
    """Cells without a graded run; an outage, in which the first run of each had the same error, is one remark."""
    alike: dict[Hashable, list[JudgedCell]] = {}
    for cell in cells:
        (result,) = results_of(summary.report, cell.cell, "errored", 1)
        alike.setdefault(same_reason(result.error) if result.error else cell.key, []).append(cell)
    return alike.values()


def _extent(summary: Summary, cells: Sequence[JudgedCell]) -> str:
    """`3 cases`, and where a suite has several variants, `3 cases on gpt` or `3 cases on 2 variants`."""
    cases, variants = {cell.case.id for cell in cells}, {cell.variant for cell in cells}
    found = number_of(len(cases), "case")
    if len(summary.report.matrix.variants) == 1:
        return found
    return f"{found} on {number_of(len(variants), 'variant') if len(variants) > 1 else variants.pop()}"


def _remark(summary: Summary, cell: JudgedCell, level: Level, title: str, finding: str, path_of: PathOf) -> Annotation:
    results = results_of(summary.report, cell.cell, "failed", 1) or results_of(summary.report, cell.cell, "errored", 1)
    lines = [finding, *(why(results[0])[:1] if results else ())]
    return Annotation(level, "\n".join(lines), path_of(cell.case.file), cell.case.line, title)


def _name(summary: Summary, cell: JudgedCell) -> str:
    several = len(summary.report.matrix.variants) > 1
    return f"{cell.case.id} on {cell.variant}" if several else cell.case.id
