"""Annotations: what a summary shows at the lines of a suite."""

from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path

from ci_evals.format import number_of
from ci_evals.gate.wording import same_reason
from ci_evals.github.log import Annotation, Level
from ci_evals.reports.cells import (
    JudgedCell,
    address_of,
    changes,
    common_error,
    failed_runs,
    finding_of,
    reasons_of,
    results_of,
)
from ci_evals.reports.summary import Summary


def annotations(summary: Summary) -> Iterator[Annotation]:
    """Yield the annotations of a summary, the most important first.

    Cells without an answer or a graded run for the same reason, as in an outage, share one.
    """
    verdict, found = summary.verdict, changes(summary)
    if verdict.unchecked:
        unchecked_level: Level = "error"
        if summary.gate is not None and summary.gate.on_unchecked == "warn":
            unchecked_level = "warning"
        yield Annotation(unchecked_level, f"{verdict.reason}\n{verdict.hint}", title="Not checked")
    level: Level = "error" if verdict.status == "fail" else "warning"
    worse = [("Regressed", cell) for cell in found.regressed]
    worse += [("Failing", cell) for cell in (*found.failing, *found.still_failing)]
    by_cause: dict[Hashable, list[tuple[str, JudgedCell]]] = {}
    for word, cell in worse:
        error = common_error(summary.report, cell)
        cause: Hashable = cell.key
        if error:
            cause = (cell.variant, same_reason(error))
        by_cause.setdefault((word, cause), []).append((word, cell))
    for alike in by_cause.values():
        word, first = alike[0]
        cells = [cell for _, cell in alike]
        if len(cells) > 1:
            finding = f"{_extent(summary, cells)} without an answer"
        else:
            finding = finding_of(first, summary.comparison)
        yield _annotation(summary, level, word, cells, finding)
    yield from _errored(summary, found.errored)


def _errored(summary: Summary, errored: Sequence[JudgedCell]) -> Iterator[Annotation]:
    """Yield a warning for each reason why cells have no graded run."""
    by_reason: dict[Hashable, list[JudgedCell]] = {}
    for cell in errored:
        (result,) = results_of(summary.report, cell.cell, "errored", 1)
        reason: Hashable = cell.key
        if result.error:
            reason = same_reason(result.error)
        by_reason.setdefault(reason, []).append(cell)
    for cells in by_reason.values():
        finding = cells[0].tally
        if len(cells) > 1:
            finding = f"{_extent(summary, cells)} without a graded run"
        yield _annotation(summary, "warning", "No verdict", cells, finding)


def _annotation(
    summary: Summary, level: Level, word: str, cells: Sequence[JudgedCell], finding: str
) -> Annotation:
    """Return the annotation of cells at the line of the first one."""
    report, first = summary.report, cells[0]
    case = first.case
    variant = first.variant if len(report.plan.variants) > 1 else None
    title = f"{word}: {case.id}"
    if variant:
        title += f" on {variant}"
    message = [finding]
    results = failed_runs(report, first.cell, 1) or results_of(report, first.cell, "errored", 1)
    if results:
        message += reasons_of(results[0])[:1]
    if len(cells) > 1:
        title += f" and {len(cells) - 1:,} more"
    else:
        message.append(f"report.html#{address_of(case.id, variant)}")
    file = None if Path(case.file).is_absolute() else case.file
    return Annotation(level, "\n".join(message), file, case.line, title)


def _extent(summary: Summary, cells: Sequence[JudgedCell]) -> str:
    """Return `3 cases`; of several variants, `3 cases on gpt` or `3 cases on 2 variants`."""
    cases = number_of(len({cell.case.id for cell in cells}), "case")
    variants = {cell.variant for cell in cells}
    if len(summary.report.plan.variants) == 1:
        return cases
    if len(variants) == 1:
        return f"{cases} on {variants.pop()}"
    return f"{cases} on {number_of(len(variants), 'variant')}"
