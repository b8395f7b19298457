"""junit.xml: one test suite per variant, one test case per cell."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from xml.etree.ElementTree import Comment, Element, indent, tostring

from junit_xml import TestCase, TestSuite

from ci_evals.format import number_of, one_line, rate_with_interval, shorten, visible
from ci_evals.gate.wording import cell_finding, unchecked_sentence
from ci_evals.model.plan import CellKey
from ci_evals.model.result import Result, Status
from ci_evals.reports.files import Format
from ci_evals.reports.notes import notes
from ci_evals.reports.summary import Summary
from ci_evals.reports.variants import VariantReport, variant_reports
from ci_evals.reports.view import CellView, Failures, RunView, alike, cell_views, reasons_of

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
        cells = [cell for cell in cell_views(summary) if cell.variant == variant]
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
    summary: Summary, cell: CellView, red: frozenset[CellKey], class_name: str, name: str
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
        message, body = _message_and_body(cell, "failed")
        case.add_failure_info(f"{finding}; {message}" if finding else message, body)
    elif outcome == "errored":
        case.add_error_info(*_message_and_body(cell, "errored"))
    elif outcome == "not run":
        case.add_skipped_info(
            f"not run: {_attribute(report.interrupted or 'the suite ended early')}"
        )
    elif finding or cell.counts.passed < cell.counts.planned:
        accounts = _body(cell.results("failed", "errored", most=MAX_RUNS_SHOWN))
        case.stdout = "\n".join([*filter(None, [finding]), cell.tally, accounts])
    return case


def _comparison_text(summary: Summary, cell: CellView) -> str:
    """The finding of the comparison, if there is any."""
    comparison, found = summary.compared, cell.found
    if comparison is None or found is None or found.kind not in ("regressed", "suspect", "fixed"):
        return ""
    word = {"regressed": "regressed: ", "fixed": "fixed: "}.get(found.kind, "")
    return _attribute(f"{word}{cell_finding(comparison, found)}")


def _message_and_body(cell: CellView, status: Status) -> tuple[str, str]:
    """`2 of 3 runs failed: contains: expected 'Paris', got 'Lyon'`, and the same at length for each
    run.
    """
    report, counts = cell.summary.report, cell.counts
    count, of, more = counts.errored, counts.planned, 0
    if status == "failed":
        count, of = counts.failed, counts.graded
        if report.confirmation:
            more = report.confirmation.by_cell[cell.cell].failed
    message = f"{count:,} of {number_of(of, 'run')} {status}"
    results = cell.results(status, most=MAX_RUNS_SHOWN)
    reasons = Failures.of(results).reasons
    if reasons:
        message = f"{message}: {_attribute(reasons[0][0])}"
    if len(reasons) > 1:
        message = f"{message} (and {number_of(len(reasons) - 1, 'other reason')})"
    body = _body(results)
    if (left_out := count + more - len(results)) > 0:
        body = f"{body}\n… and {number_of(left_out, 'more run')}\n"
    return message, body


def _body(results: Sequence[Result]) -> str:
    """Return the account of each run; runs that ended alike share one."""
    return "".join(f"\n{run.title}\n{_account(run)}\n" for run in alike(results))


def _account(run: RunView) -> str:
    lines = [reason.text for reason in reasons_of(run.first)]
    if run.answer is not None:
        lines.append(f"answer: {shorten(run.answer, ANSWER_CHARACTERS)}")
    if run.detail is not None:
        lines.append(visible(run.detail))
    return textwrap.indent("\n".join(lines), "  ")


def _attribute(text: str) -> str:
    return one_line(text, NAME_CHARACTERS)


JUNIT = Format("junit.xml", render, rb".{,100}<testsuites [^>]*>\s*<!-- ci-evals -->")
