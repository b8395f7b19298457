"""junit.xml: one test suite per variant, one test case per cell."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Comment, Element, indent, tostring

from junit_xml import TestCase, TestSuite

from ci_evals.format import number_of, one_line, rate_with_interval, shorten, visible
from ci_evals.gate.wording import cell_finding, unchecked_sentence
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport
from ci_evals.model.result import Result, Status
from ci_evals.reports.cells import (
    JudgedCell,
    answer_text,
    count_reasons,
    detail_text,
    failed_runs,
    group_alike,
    judged_cells,
    reasons_of,
    results_of,
    runs_text,
)
from ci_evals.reports.files import Format
from ci_evals.reports.notes import notes
from ci_evals.reports.summary import Summary
from ci_evals.reports.variants import VariantReport, variant_reports

MAX_RUNS_SHOWN = 5
NAME_CHARACTERS = 500
ANSWER_CHARACTERS = 1000


def render(summary: Summary) -> Iterator[bytes]:
    """Return junit.xml.

    `<failure>` is a cell that failed, or one that is worse than the baseline if that makes the gate
    red; `<error>` one without a graded run, `<skipped>` one that never ran, or of code that only a
    recording answered for. Any other cell passes, and its system-out says which of its runs did not
    and what the comparison found. Properties of each suite say what concerns all of its cells: what
    ended the run early, which results are recorded or of an earlier invocation, the mean of each
    metric.
    """
    report = summary.report
    red = summary.verdict.blocking_cells
    variants = report.plan.variants
    suite_names = _distinct(f"{report.suite.name} · {variant}" for variant in variants)
    case_names = _distinct(case.id for case in report.plan.cases)
    found = list(notes(report))
    labels = _distinct(note.label for note in found)
    properties = {label: _attribute(note.text) for label, note in zip(labels, found, strict=True)}
    root = Element("testsuites", name=_attribute(report.suite.name))
    for variant, figures, name in zip(variants, variant_reports(summary), suite_names, strict=True):
        cells = list(judged_cells(summary, variant))
        cases = [
            _test_case(summary, cell, red, name, case_names[report.plan.row(cell.cell)])
            for cell in cells
        ]
        suite = TestSuite(name, cases, properties=properties | _metrics(figures)).build_xml_doc()
        runs = report.records_of(cell.cell for cell in cells)
        suite.set("time", f"{sum(run.latency_s for run in runs):.3f}")  # it shows 1e-07 as such
        root.append(suite)
    for count in ("tests", "failures", "errors", "skipped"):
        root.set(count, str(sum(int(suite.attrib[count]) for suite in root)))
    root.set("time", f"{sum(float(suite.attrib['time']) for suite in root):.3f}")
    root.insert(0, Comment(" ci-evals "))
    indent(root)
    yield tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _metrics(variant: VariantReport) -> dict[str, str]:
    texts = (
        rate_with_interval(metric.mean, metric.lower, metric.upper) for metric in variant.metrics
    )
    return dict(
        zip(_distinct(f"metric {metric.name}" for metric in variant.metrics), texts, strict=True)
    )


def _distinct(texts: Iterable[str]) -> list[str]:
    """Number names that look alike: readers keep only one test of a name."""
    names: dict[str, None] = {}
    last: Counter[str] = Counter()
    for text in map(_attribute, texts):
        name = text
        while name in names:
            last[text] += 1
            name = f"{text} ({last[text] + 1})"
        names[name] = None
    return list(names)


def _test_case(
    summary: Summary, cell: JudgedCell, red: frozenset[CellKey], class_name: str, name: str
) -> TestCase:
    """A cell. Readers know nothing else of the gate, so a cell that makes it red has failed,
    whatever its bar.
    """
    report = summary.report
    time_s = round(sum(record.latency_s for record in report.records_of((cell.cell,))), 6)
    case = TestCase(name, class_name, time_s, file=_attribute(cell.case.file), line=cell.case.line)
    finding = _comparison_text(summary, cell)
    outcome = "failed" if cell.key in red else cell.outcome
    if outcome in ("passed", "flaky", "failed") and cell.variant in report.unchecked:
        case.add_skipped_info(_attribute(unchecked_sentence(report)))
    elif outcome in ("failed", "errored") and (quarantine := cell.case.quarantine):
        text = f"in quarantine until {quarantine.until}: {quarantine.reason}: {cell.tally}"
        case.add_skipped_info(_attribute(text))
    elif outcome == "failed":
        message, body = _message_and_body(report, cell, "failed")
        case.add_failure_info(f"{finding}; {message}" if finding else message, body)
    elif outcome == "errored":
        case.add_error_info(*_message_and_body(report, cell, "errored"))
    elif outcome == "not run":
        case.add_skipped_info(
            f"not run: {_attribute(report.interrupted or 'the suite ended early')}"
        )
    elif finding or cell.counts.passed < cell.counts.planned:
        accounts = _body(_runs_without_pass(report, cell))
        case.stdout = "\n".join([*filter(None, [finding]), cell.tally, accounts])
    return case


def _comparison_text(summary: Summary, cell: JudgedCell) -> str:
    """The finding of the comparison, if there is any."""
    comparison, found = summary.compared, cell.found
    if comparison is None or found is None or found.kind not in ("regressed", "suspect", "fixed"):
        return ""
    word = {"regressed": "regressed: ", "fixed": "fixed: "}.get(found.kind, "")
    return _attribute(f"{word}{cell_finding(comparison, found)}")


def _message_and_body(report: SuiteReport, cell: JudgedCell, status: Status) -> tuple[str, str]:
    """`2 of 3 runs failed: contains: expected 'Paris', got 'Lyon'`, and the same at length for each
    run.
    """
    counts = cell.counts
    if status == "failed":
        results = failed_runs(report, cell.cell, MAX_RUNS_SHOWN)
        count, of = counts.failed, counts.graded
    else:
        results = results_of(report, cell.cell, status, MAX_RUNS_SHOWN)
        count, of = counts.errored, counts.planned
    more = (
        report.confirmation.by_cell[cell.cell].failed
        if report.confirmation and status == "failed"
        else 0
    )
    counted = [reason for reason, _ in count_reasons(results)]
    others = f" (and {number_of(len(counted) - 1, 'other reason')})" if counted[1:] else ""
    why = f": {_attribute(counted[0])}{others}" if counted else ""
    message = f"{count:,} of {number_of(of, 'run')} {status}{why}"
    left_out = count + more - len(results)
    return message, _body(results) + (
        f"\n… and {number_of(left_out, 'more run')}\n" if left_out > 0 else ""
    )


def _runs_without_pass(report: SuiteReport, cell: JudgedCell) -> tuple[Result, ...]:
    failed = failed_runs(report, cell.cell, MAX_RUNS_SHOWN)
    return (*failed, *results_of(report, cell.cell, "errored", MAX_RUNS_SHOWN - len(failed)))


def _body(results: tuple[Result, ...]) -> str:
    """The account of each run; runs of which there is the same to say are taken together."""

    def account(result: Result) -> str:
        lines = [*reasons_of(result)]
        if (answer := answer_text(result)) is not None:
            lines.append(f"answer: {shorten(answer, ANSWER_CHARACTERS)}")
        if (detail := detail_text(result)) is not None:
            lines.append(visible(detail))
        return textwrap.indent("\n".join(lines), "  ")

    groups = group_alike(results, lambda result: (result.status, account(result)))
    return "".join(
        f"\n{runs_text([run.run for run in runs], runs[0].status)}\n{account(runs[0])}\n"
        for runs in groups
    )


def _attribute(text: str) -> str:
    return one_line(text, NAME_CHARACTERS)


JUNIT = Format("junit.xml", render, rb".{,100}<testsuites [^>]*>\s*<!-- ci-evals -->")
