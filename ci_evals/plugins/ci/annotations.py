"""Annotations: the findings of a summary, at the lines of a suite."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ci_evals.format import name_of, number_of, percent
from ci_evals.gate.run_errors import same_reason
from ci_evals.model.case import Case
from ci_evals.reports.alike_cases import AlikeCases, alike_cases
from ci_evals.reports.drift import drift_alarms, drift_command, drift_details, drift_sentence
from ci_evals.reports.findings import findings
from ci_evals.reports.groups import cells_by_group, entry_of, join_sentence
from ci_evals.reports.summary import Summary
from ci_evals.reports.view import FEW, SOME, CaseView, CellView, case_views, group_by, reasons_of

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
    failing = [*groups["failing"]]
    if not groups["regressed"]:  # else that explains the verdict
        failing += groups["still failing"]
    for word, worse in (("Regressed", groups["regressed"]), ("Failing", failing)):
        for alike in _annotated_together(case_views(worse)):
            entry = entry_of(summary, alike)
            message = [join_sentence(entry.finding), *entry.missed[:FEW]]
            if len(alike.cases) == 1:
                message.append(f"report.html#{alike.cases[0].cells[0].address}")
            title = f"{word}: {join_sentence(entry.subject)}"
            yield _annotation(level, alike.cases[0].case, title, message)
    for tag in findings(summary).broken_tags:
        before = percent(tag.base_rate, tag.head_rate)
        here = percent(tag.head_rate, tag.base_rate)
        yield Annotation(level, f"pass rate {before} → {here}", title=f"Fell: tag {tag.tag}")
    for cells in group_by(groups["errored"], _reason):
        yield _annotation_without_verdict(summary, cells)


def _annotated_together(cases: Sequence[CaseView]) -> Iterator[AlikeCases]:
    """Yield each case alone, but together those without an answer, and many that broke alike."""
    if len(cases) > SOME:
        yield from alike_cases(cases)
    else:
        yield from map(AlikeCases, group_by(cases, _cause))


def _cause(case: CaseView) -> Hashable:
    """Return a key that cases share if all their runs ended without an answer for one reason."""
    errors = {cell.common_error for cell in case.cells}
    reasons = {same_reason(error) for error in errors if error is not None}
    if None in errors or len(reasons) != 1:
        return case.case.id
    return tuple(case.variants), reasons.pop()


def _reason(cell: CellView) -> Hashable:
    """Return a key that cells share if their runs errored for one reason."""
    (result,) = cell.results("errored", most=1)
    if result.error is None:
        return cell.key
    return same_reason(result.error)


def _annotation_without_verdict(summary: Summary, cells: Sequence[CellView]) -> Annotation:
    """Return the annotation of cells without a graded run, at the line of the first one."""
    first = cells[0]
    title = f"No verdict: {first.case.id}"
    if len(summary.report.plan.variants) > 1:
        title += f" on {first.variant}"
    (errored,) = first.results("errored", most=1)
    reason = reasons_of(errored)[0].text
    if len(cells) == 1:
        message = [first.tally, reason, f"report.html#{first.address}"]
    else:
        title += f" and {len(cells) - 1:,} more"
        message = [f"{_extent(summary, cells)} without a graded run", reason]
    return _annotation("warning", first.case, title, message)


def _annotation(level: Level, case: Case, title: str, message: Sequence[str]) -> Annotation:
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
