"""junit.xml: one test suite per variant, one test case per cell."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Literal
from xml.etree.ElementTree import Comment, Element, SubElement, indent, tostring

from junit_xml import TestCase, TestSuite

from ci_evals.format import number_of, one_line, rate_with_interval, shorten, visible
from ci_evals.gate.wording.bars import unchecked_sentence
from ci_evals.gate.wording.comparisons import cell_finding
from ci_evals.model.result import Result
from ci_evals.reports.files import Format
from ci_evals.reports.notes import notes
from ci_evals.reports.summary import Summary
from ci_evals.reports.variants import variant_reports
from ci_evals.reports.view import CellView, Failures, RunView, alike, cell_views, reasons_of

MAX_RUNS_SHOWN = 5
NAME_CHARACTERS = 500
ANSWER_CHARACTERS = 1000


def render(summary: Summary, *, marks_flaky: bool = False) -> Iterator[bytes]:
    """Yield junit.xml.

    A cell is a `<failure>` if it failed, or if it regressed and this makes the gate red. It is an
    `<error>` without any graded run, and `<skipped>` if it never ran or if only recorded answers of
    its code were graded. Any other cell passes; its system-out reports failed runs and the
    comparison. Facts about all cells are properties of each test suite: what ended the run early,
    which results are recorded or from an earlier invocation, the mean of each metric.

    Args:
        summary: the run.
        marks_flaky: give a cell that passes a `<flakyFailure>` for each of its failed runs, as
            Maven's Surefire does and readers of its files expect.
    """
    report = summary.report
    suite_name = report.suite.name
    variants = variant_reports(summary)
    names = _distinct(f"{suite_name} · {each.variant}" for each in variants)
    case_names = _distinct(case.id for case in report.plan.cases)
    run_notes = _properties((note.label, note.text) for note in notes(report))
    root = Element("testsuites", name=_attribute(suite_name))
    for figures, name in zip(variants, names, strict=True):
        cases = []
        cells = []
        time_s = 0.0
        for cell in cell_views(summary):
            if cell.variant != figures.variant:
                continue
            records = report.records_of((cell.cell,))
            cell_s = sum(record.latency_s for record in records)
            case = TestCase(
                case_names[report.plan.row(cell.cell)],
                name,
                round(cell_s, 6),
                file=_attribute(cell.case.file),
                line=cell.case.line,
            )
            _add_outcome(case, summary, cell)
            cases.append(case)
            cells.append(cell)
            time_s += cell_s
        metrics = []
        for metric in figures.metrics:
            mean = rate_with_interval(metric.mean, metric.lower, metric.upper)
            metrics.append((f"metric {metric.name}", mean))
        properties = run_notes | _properties(metrics)
        suite = TestSuite(name, cases, properties=properties).build_xml_doc()
        if marks_flaky:
            for element, cell in zip(suite.iter("testcase"), cells, strict=True):
                _mark_flaky(element, cell)
        suite.set("time", f"{time_s:.3f}")  # the library would write 1e-07, which no reader expects
        root.append(suite)
    for count in ("tests", "failures", "errors", "skipped"):
        total = sum(int(suite.attrib[count]) for suite in root)
        root.set(count, f"{total}")
    total_s = sum(float(suite.attrib["time"]) for suite in root)
    root.set("time", f"{total_s:.3f}")
    root.insert(0, Comment(" ci-evals "))  # `JUNIT` knows our own files by this
    indent(root)
    yield tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _properties(labels_and_texts: Iterable[tuple[str, str]]) -> dict[str, str]:
    pairs = list(labels_and_texts)
    labels = _distinct(label for label, _ in pairs)
    texts = [_attribute(text) for _, text in pairs]
    return dict(zip(labels, texts, strict=True))


def _distinct(texts: Iterable[str]) -> list[str]:
    """Number equal names, as readers keep only one test of a name."""
    names: dict[str, None] = {}
    last: Counter[str] = Counter()
    for text in map(_attribute, texts):
        name = text
        while name in names:
            last[text] += 1
            name = f"{text} ({last[text] + 1})"
        names[name] = None
    return list(names)


def _add_outcome(case: TestCase, summary: Summary, cell: CellView) -> None:
    """Add the outcome of a cell.

    Readers don't know the gate, so a cell that makes it red has failed, even above its bar.
    """
    report = summary.report
    quarantine = cell.case.quarantine
    outcome = cell.outcome
    if cell.key in summary.verdict.blocking_cells:
        outcome = "failed"
    finding = _comparison_text(summary, cell)
    if outcome == "not run":
        why = report.interrupted or "the suite ended early"
        case.add_skipped_info(f"not run: {_attribute(why)}")
    elif outcome != "errored" and cell.variant in report.unchecked:
        case.add_skipped_info(_attribute(unchecked_sentence(report)))
    elif quarantine and outcome in ("failed", "errored"):
        text = f"in quarantine until {quarantine.until}: {quarantine.reason}: {cell.tally}"
        case.add_skipped_info(_attribute(text))
    elif outcome == "errored":
        case.add_error_info(*_message_and_body(cell, "errored"))
    elif outcome == "failed":
        message, body = _message_and_body(cell, "failed")
        if finding:
            message = f"{finding}; {message}"
        case.add_failure_info(message, body)
    elif finding or cell.counts.passed < cell.counts.planned:
        lines = []
        if finding:
            lines.append(finding)
        results = cell.results("failed", "errored", most=MAX_RUNS_SHOWN)
        lines += [cell.tally, _body(results)]
        case.stdout = "\n".join(lines)


def _mark_flaky(element: Element, cell: CellView) -> None:
    """Add the failed runs of a cell that passes; readers then call it flaky."""
    if {"failure", "error", "skipped"}.intersection(child.tag for child in element):
        return
    for at, run in enumerate(cell.results("failed", most=MAX_RUNS_SHOWN)):
        message = _attribute("; ".join(reason.text for reason in reasons_of(run)))
        flaky = Element("flakyFailure", message=message, type="failure")
        SubElement(flaky, "stackTrace").text = _body([run])
        element.insert(at, flaky)


def _comparison_text(summary: Summary, cell: CellView) -> str:
    """Return the comparison's result for a cell that changed; empty for any other cell."""
    comparison, found = summary.compared, cell.found
    if comparison is None or found is None:
        return ""
    match found.kind:
        case "regressed" | "fixed":
            return _attribute(f"{found.kind}: {cell_finding(comparison, found)}")
        case "suspect":
            return _attribute(cell_finding(comparison, found))
        case _:
            return ""


def _message_and_body(cell: CellView, status: Literal["failed", "errored"]) -> tuple[str, str]:
    """`2 of 3 runs failed: the answer is "Lyon", expected "Paris"`, and each run at length."""
    count = total = cell.counts.errored
    runs = cell.counts.planned
    if status == "failed":
        count, runs = cell.counts.failed, cell.counts.graded
        total = count
        confirmation = cell.summary.report.confirmation
        if confirmation:  # the body has confirm runs, too, but the message counts planned ones
            total += confirmation.by_cell[cell.cell].failed
    message = f"{count:,} of {number_of(runs, 'run')} {status}"
    results = cell.results(status, most=MAX_RUNS_SHOWN)
    reasons = Failures.of(results).reasons
    if reasons:
        first, _ = reasons[0]
        message = f"{message}: {_attribute(first.text)}"
    if len(reasons) > 1:
        message = f"{message} (and {number_of(len(reasons) - 1, 'other reason')})"
    body = _body(results)
    if total > len(results):
        body = f"{body}\n… and {number_of(total - len(results), 'more run')}\n"
    return message, body


def _body(results: Sequence[Result]) -> str:
    """Return the reasons, answer and traceback of each run; runs that ended alike share them."""
    accounts = [f"\n{run.title}\n{_account(run)}\n" for run in alike(results)]
    return "".join(accounts)


def _account(run: RunView) -> str:
    lines = [reason.sentence for reason in reasons_of(run.first)]
    if run.answer is not None:
        lines.append(f"answer: {shorten(run.answer, ANSWER_CHARACTERS)}")
    if run.detail is not None:
        lines.append(visible(run.detail))
    if run.test_output is not None:
        lines.append(f"the verifier's last lines:\n{visible(run.test_output)}")
    return textwrap.indent("\n".join(lines), "  ")


def _attribute(text: str) -> str:
    return one_line(text, NAME_CHARACTERS)


_BEGINNING = rb".{,100}<testsuites [^>]*>\s*<!-- ci-evals -->"
JUNIT = Format("junit.xml", render, _BEGINNING)
JUNIT_FLAKY = Format("junit.xml", partial(render, marks_flaky=True), _BEGINNING)
