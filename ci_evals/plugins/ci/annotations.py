"""Annotations: the findings of a summary, at the lines of a suite."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ci_evals.format import name_of, number_of
from ci_evals.gate.run_errors import same_reason
from ci_evals.reports.drift import drift_alarms, drift_command, drift_details, drift_sentence
from ci_evals.reports.findings import findings
from ci_evals.reports.groups import cells_by_group, join_sentence
from ci_evals.reports.summary import Summary
from ci_evals.reports.view import CellView, group_by, reasons_of

Level = Literal["error", "warning", "notice"]


@dataclass(frozen=True, slots=True)
class Annotation:
    """A message at a line of the suite.

    `file` is relative to the root of the repository; without it, the message is about the run.
    """

    level: Level
    message: str
    file: str | None = None
    line: int | None = None
    title: str = ""


def headline_notice(summary: Summary) -> Annotation:
    """Return the verdict as a notice: GitHub shows its title on the page of the run."""
    top = findings(summary)
    title = f"ci-evals: {join_sentence(top.headline)}"
    facts = " · ".join((name_of(summary.report.suite.name), *top.facts))
    return Annotation("notice", facts, title=title)


def annotations(summary: Summary) -> Iterator[Annotation]:
    """Yield the annotations of a summary, the most important first.

    In an outage, cells without an answer or a graded run for the same reason share one: GitHub
    shows only ten of a level.
    """
    verdict, groups = summary.verdict, cells_by_group(summary)
    if verdict.unchecked:
        unchecked_level: Level = "error"
        if summary.gate is not None and summary.gate.on_unchecked == "warn":
            unchecked_level = "warning"
        yield Annotation(unchecked_level, f"{verdict.reason}\n{verdict.hint}", title="Not checked")
    if summary.report.suite.on_default_branch:
        for alarm in drift_alarms(summary):
            lines = [drift_sentence(summary, alarm), *drift_details(alarm), drift_command(alarm)]
            yield Annotation("warning", "\n".join(filter(None, lines)), title="Drift")
    level: Level = "error" if verdict.status == "fail" else "warning"
    failing = [*groups["failing"], *groups["still failing"]]
    for word, worse in (("Regressed", groups["regressed"]), ("Failing", failing)):
        for cells in group_by(worse, _cause):
            finding = cells[0].finding
            if len(cells) > 1:
                finding = f"{_extent(summary, cells)} without an answer"
            yield _annotation(summary, level, word, cells, finding)
    for cells in group_by(groups["errored"], _reason):
        finding = cells[0].tally
        if len(cells) > 1:
            finding = f"{_extent(summary, cells)} without a graded run"
        yield _annotation(summary, "warning", "No verdict", cells, finding)


def _cause(cell: CellView) -> Hashable:
    """Return a key that cells share if all their runs ended without an answer for one reason."""
    error = cell.common_error
    if error is None:
        return cell.key
    return cell.variant, same_reason(error)


def _reason(cell: CellView) -> Hashable:
    """Return a key that cells share if their runs errored for one reason."""
    (result,) = cell.results("errored", most=1)
    if result.error is None:
        return cell.key
    return same_reason(result.error)


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
    # CI systems show annotations only at files of the repository.
    file = None if Path(case.file).is_absolute() else case.file
    return Annotation(level, "\n".join(message), file, case.line, title)


def _extent(summary: Summary, cells: Sequence[CellView]) -> str:
    """Return `3 cases`; with several variants, `3 cases on gpt` or `3 cases on 2 variants`."""
    cases = number_of(len({cell.case.id for cell in cells}), "case")
    variants = {cell.variant for cell in cells}
    if len(summary.report.plan.variants) == 1:
        return cases
    if len(variants) == 1:
        return f"{cases} on {variants.pop()}"
    return f"{cases} on {number_of(len(variants), 'variant')}"
