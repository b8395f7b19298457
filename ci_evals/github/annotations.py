"""Annotations: what a summary shows at the lines of a suite."""

from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path

from ci_evals.format import number_of
from ci_evals.gate.wording import same_reason
from ci_evals.github.log import Annotation, Level
from ci_evals.reports.groups import cells_by_group
from ci_evals.reports.summary import Summary
from ci_evals.reports.view import CellView, reasons_of


def annotations(summary: Summary) -> Iterator[Annotation]:
    """Yield the annotations of a summary, the most important first.

    Cells without an answer or a graded run for the same reason, as in an outage, share one.
    """
    verdict, found = summary.verdict, cells_by_group(summary)
    if verdict.unchecked:
        unchecked_level: Level = "error"
        if summary.gate is not None and summary.gate.on_unchecked == "warn":
            unchecked_level = "warning"
        yield Annotation(unchecked_level, f"{verdict.reason}\n{verdict.hint}", title="Not checked")
    level: Level = "error" if verdict.status == "fail" else "warning"
    worse = [("Regressed", cell) for cell in found["regressed"]]
    worse += [("Failing", cell) for cell in (*found["failing"], *found["still failing"])]
    by_cause: dict[Hashable, list[tuple[str, CellView]]] = {}
    for word, cell in worse:
        error = cell.common_error
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
            finding = first.finding
        yield _annotation(summary, level, word, cells, finding)
    yield from _errored(summary, found["errored"])


def _errored(summary: Summary, errored: Sequence[CellView]) -> Iterator[Annotation]:
    """Yield a warning for each reason why cells have no graded run."""
    by_reason: dict[Hashable, list[CellView]] = {}
    for cell in errored:
        (result,) = cell.results("errored", most=1)
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
    summary: Summary, level: Level, word: str, cells: Sequence[CellView], finding: str
) -> Annotation:
    """Return the annotation of cells at the line of the first one."""
    first = cells[0]
    case = first.case
    title = f"{word}: {case.id}"
    if len(summary.report.plan.variants) > 1:
        title += f" on {first.variant}"
    message = [finding]
    results = first.results("failed", most=1) or first.results("errored", most=1)
    if results:
        message.append(reasons_of(results[0])[0].text)
    if len(cells) > 1:
        title += f" and {len(cells) - 1:,} more"
    else:
        message.append(f"report.html#{first.address}")
    file = None if Path(case.file).is_absolute() else case.file
    return Annotation(level, "\n".join(message), file, case.line, title)


def _extent(summary: Summary, cells: Sequence[CellView]) -> str:
    """Return `3 cases`; of several variants, `3 cases on gpt` or `3 cases on 2 variants`."""
    cases = number_of(len({cell.case.id for cell in cells}), "case")
    variants = {cell.variant for cell in cells}
    if len(summary.report.plan.variants) == 1:
        return cases
    if len(variants) == 1:
        return f"{cases} on {variants.pop()}"
    return f"{cases} on {number_of(len(variants), 'variant')}"
