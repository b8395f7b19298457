"""junit.xml: one test suite per variant, one test case per cell, flat as its readers want it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from textwrap import indent
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from ci_evals.matrix import CellKey
from ci_evals.model import Result, Status, Variant
from ci_evals.report import Report
from ci_evals.reports.figures import number_of
from ci_evals.reports.findings import (
    JudgedCell,
    Outcome,
    answer_text,
    detail_text,
    failed_runs,
    judged_cells,
    reasons,
    results_of,
    why,
)
from ci_evals.reports.notes import notes
from ci_evals.reports.summary import Summary
from ci_evals.reports.text import one_line, shortened, visible
from ci_evals.verdict.rules import blocking
from ci_evals.verdict.sentences import cell_finding

if TYPE_CHECKING:
    from junit_xml import TestCase

MAX_RUNS_SHOWN = 5
NAME_CHARACTERS = 500
ANSWER_CHARACTERS = 1000

_AT_ONCE = 50  # test cases: making and writing a tree for each of them takes three times as long


def render(summary: Summary) -> Iterator[bytes]:
    """junit.xml: `<failure>` is a cell below its bar, or one that is worse than the baseline if that makes the gate
    red; `<error>` one without a graded run, `<skipped>` one that never ran. Any other cell passes, and its system-out
    says which of its runs did not and what the comparison found. Properties of each suite say what is to be known of
    them all: what ended them early, what is recorded or of an earlier invocation.

    Test cases are written while they are made: what is said of them all is counted before.
    """
    report = summary.report
    variants = report.matrix.variants
    class_names = _distinct(f"{report.suite.name} · {variant}" for variant in variants)
    red = blocking(summary.comparison, summary.verdict.rules)
    suites = [_test_suite(summary, red, *each) for each in zip(variants, class_names, strict=True)]
    root = ET.Element("testsuites", name=_attribute(report.suite.name))
    for total in ("tests", "failures", "errors", "skipped"):
        root.set(total, str(sum(int(suite.attrib[total]) for suite in suites)))
    root.set("time", f"{sum(float(suite.attrib['time']) for suite in suites):.3f}")
    names = _distinct(case.id for case in report.matrix.cases)
    yield b"<?xml version='1.0' encoding='utf-8'?>\n"
    yield _start_tag(root) + b"\n"
    for variant, class_name, suite in zip(variants, class_names, suites, strict=True):
        yield b"  " + _start_tag(suite) + b"\n"
        cases = (
            _test_case(summary, cell, _outcome(cell, red), class_name, names[cell.cell // len(variants)])
            for cell in judged_cells(summary, variant)
        )
        while some := list(islice(cases, _AT_ONCE)):
            yield _lines(some)
        yield b"  </testsuite>\n"
    yield b"</testsuites>\n"


def _lines(cases: "list[TestCase]") -> bytes:
    """Test cases as they stand in their suite."""
    from junit_xml import TestSuite

    suite = TestSuite("", cases).build_xml_doc()
    ET.indent(suite, level=1)
    text = ET.tostring(suite, encoding="unicode")
    return text[text.index("\n") + 1 : text.rindex("\n") + 1].encode()


def _start_tag(element: ET.Element) -> bytes:
    tag: bytes = ET.tostring(element, encoding="utf-8", short_empty_elements=False)
    return tag.removesuffix(f"</{element.tag}>".encode()).rstrip()


def _distinct(texts: Iterable[str]) -> list[str]:
    """Names for texts: readers merge test cases of the same name, so what looks alike is numbered."""
    seen: Counter[str] = Counter()
    names = []
    for name in map(_attribute, texts):
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return names


def _outcome(cell: JudgedCell, red: frozenset[CellKey]) -> Outcome:
    """Readers of junit.xml know nothing else of the gate, so a cell that makes it red has failed, whatever its bar."""
    return "failed" if cell.key in red else cell.outcome


def _test_suite(summary: Summary, red: frozenset[CellKey], variant: Variant, class_name: str) -> ET.Element:
    """The suite of a variant, still without its test cases."""
    from junit_xml import TestSuite

    outcomes = Counter(_outcome(cell, red) for cell in judged_cells(summary, variant))
    said = {note.label: _attribute(note.text) for note in notes(summary.report)}
    suite: ET.Element = TestSuite(class_name, properties=said).build_xml_doc()
    ET.indent(suite, level=1)
    suite.set("tests", str(outcomes.total()))
    suite.set("failures", str(outcomes["failed"]))
    suite.set("errors", str(outcomes["errored"]))
    suite.set("skipped", str(outcomes["not run"]))
    suite.set("time", f"{sum(summary.report.latencies_s(summary.report.cells_of(variant))):.3f}")
    return suite


def _test_case(summary: Summary, cell: JudgedCell, outcome: Outcome, class_name: str, name: str) -> "TestCase":
    from junit_xml import TestCase

    report = summary.report
    told = _compared(summary, cell)
    case = TestCase(
        name,
        class_name,
        elapsed_sec=sum(report.latencies_s((cell.cell,))),
        file=_attribute(cell.case.file) or None,
        line=cell.case.line,
    )
    if outcome == "failed":
        message, body = _message_and_body(report, cell, "failed")
        case.add_failure_info(f"{told}; {message}" if told else message, body)
    elif outcome == "errored":
        case.add_error_info(*_message_and_body(report, cell, "errored"))
    elif outcome == "not run":
        case.add_skipped_info(f"not run: {_attribute(report.interrupted or 'the suite ended early')}")
    elif told or cell.counts.passed < cell.counts.planned:
        accounts = _body(failed_runs(report, cell.cell, MAX_RUNS_SHOWN))
        case.stdout = "\n".join([*filter(None, [told]), cell.tally, accounts])
    return case


def _compared(summary: Summary, cell: JudgedCell) -> str:
    """What the comparison found, if it found anything."""
    comparison = summary.compared
    found = comparison.by_key.get(cell.key) if comparison else None
    if comparison is None or found is None or found.kind not in ("regressed", "suspect", "fixed"):
        return ""
    word = {"regressed": "regressed: ", "fixed": "fixed: "}.get(found.kind, "")
    return _attribute(f"{word}{cell_finding(comparison, found)}")


def _message_and_body(report: Report, cell: JudgedCell, status: Status) -> tuple[str, str]:
    """`2 of 3 runs failed: contains: expected 'Paris', got 'Lyon'`, and the same at length for each run."""
    counts = cell.counts
    if status == "failed":
        results = failed_runs(report, cell.cell, MAX_RUNS_SHOWN)
        count, of = counts.failed, counts.graded
    else:
        results = results_of(report, cell.cell, status, MAX_RUNS_SHOWN)
        count, of = counts.errored, counts.planned
    more = report.confirmation.by_cell[cell.cell].failed if report.confirmation and status == "failed" else 0
    counted = [reason for reason, _ in reasons(results)]
    others = f" (and {number_of(len(counted) - 1, 'other reason')})" if counted[1:] else ""
    why = f": {_attribute(counted[0])}{others}" if counted else ""
    message = f"{count} of {number_of(of, 'run')} {status}{why}"
    left_out = count + more - len(results)
    return message, _body(results) + (f"\n… and {number_of(left_out, 'more run')}\n" if left_out > 0 else "")


def _body(results: tuple[Result, ...]) -> str:
    """What became of each run; runs of which there is the same to say are taken together."""
    runs: dict[tuple[Status, str], list[str]] = {}
    for result in results:
        runs.setdefault((result.status, _account(result)), []).append(str(result.run))
    return "".join(
        f"\n{'run' if len(numbers) == 1 else 'runs'} {', '.join(numbers)} {status}\n{indent(account, '  ')}\n"
        for (status, account), numbers in runs.items()
    )


def _account(result: Result) -> str:
    lines = [*why(result)]
    if (answer := answer_text(result)) is not None:
        lines.append(f"answer: {shortened(answer, ANSWER_CHARACTERS)}")
    if (detail := detail_text(result)) is not None:
        lines.append(visible(detail))
    return "\n".join(lines)


def _attribute(text: str) -> str:
    return one_line(text, NAME_CHARACTERS)
