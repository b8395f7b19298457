"""junit.xml: one test suite per variant, one test case per cell, flat as its readers want it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from textwrap import indent
from xml.etree import ElementTree as ET

from ci_evals.model import Result, Status, Variant
from ci_evals.report import Report
from ci_evals.reports.figures import number_of
from ci_evals.reports.findings import JudgedCell, answer_text, detail_text, judged_cells, reasons, results_of, why
from ci_evals.reports.summary import Summary
from ci_evals.reports.text import one_line, shortened, visible

MAX_RUNS_SHOWN = 5
NAME_CHARACTERS = 500
ANSWER_CHARACTERS = 1000


def render(summary: Summary) -> Iterator[bytes]:
    """junit.xml: `<failure>` is a cell below its bar, `<error>` one without a graded run, `<skipped>` one that never
    ran; a cell within its bar passes, and its system-out says which of its runs did not.

    Test cases are written while they are made: what is said of them all is counted before.
    """
    report = summary.report
    variants = report.matrix.variants
    class_names = _distinct(f"{report.suite.name} · {variant}" for variant in variants)
    suites = [_test_suite(summary, *each) for each in zip(variants, class_names, strict=True)]
    root = ET.Element("testsuites", name=_attribute(report.suite.name))
    for total in ("tests", "failures", "errors", "skipped"):
        root.set(total, str(sum(int(suite.attrib[total]) for suite in suites)))
    root.set("time", f"{sum(float(suite.attrib['time']) for suite in suites):.3f}")
    names = _distinct(case.id for case in report.matrix.cases)
    yield b"<?xml version='1.0' encoding='utf-8'?>\n"
    yield _start_tag(root) + b"\n"
    for variant, class_name, suite in zip(variants, class_names, suites, strict=True):
        yield b"  " + _start_tag(suite) + b"\n"
        for cell in judged_cells(summary, variant):
            yield _test_case(report, cell, class_name, names[cell.cell // len(variants)])
        yield b"  </testsuite>\n"
    yield b"</testsuites>\n"


def _start_tag(element: ET.Element) -> bytes:
    tag: bytes = ET.tostring(element, encoding="utf-8", short_empty_elements=False)
    return tag.removesuffix(f"</{element.tag}>".encode())


def _distinct(texts: Iterable[str]) -> list[str]:
    """Names for texts: readers merge test cases of the same name, so what looks alike is numbered."""
    seen: Counter[str] = Counter()
    names = []
    for name in map(_attribute, texts):
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return names


def _test_suite(summary: Summary, variant: Variant, class_name: str) -> ET.Element:
    """The suite of a variant, still without its test cases."""
    from junit_xml import TestSuite

    outcomes = Counter(cell.outcome for cell in judged_cells(summary, variant))
    suite: ET.Element = TestSuite(class_name).build_xml_doc()
    suite.set("tests", str(outcomes.total()))
    suite.set("failures", str(outcomes["failed"]))
    suite.set("errors", str(outcomes["errored"]))
    suite.set("skipped", str(outcomes["not run"]))
    elapsed_s = sum(_elapsed_s(summary.report, cell) for cell in summary.report.cells_of(variant))
    suite.set("time", f"{elapsed_s:.3f}")
    return suite


def _elapsed_s(report: Report, cell: int) -> float:
    columns = report.columns
    return sum(columns.latency_s[slot] for slot in report.matrix.slots(cell) if columns.status[slot])


def _test_case(report: Report, cell: JudgedCell, class_name: str, name: str) -> bytes:
    from junit_xml import TestCase, TestSuite

    case = TestCase(
        name,
        class_name,
        elapsed_sec=_elapsed_s(report, cell.cell),
        file=_attribute(cell.case.file) or None,
        line=cell.case.line,
    )
    if cell.outcome == "failed":
        case.add_failure_info(*_message_and_body(report, cell, "failed"))
    elif cell.outcome == "errored":
        case.add_error_info(*_message_and_body(report, cell, "errored"))
    elif cell.outcome == "not run":
        case.add_skipped_info(f"not run: {_attribute(report.interrupted or 'the suite ended early')}")
    elif cell.counts.passed < cell.counts.planned:
        case.stdout = f"{cell.tally}\n{_body(results_of(report, cell.cell, 'failed', MAX_RUNS_SHOWN))}"
    (element,) = TestSuite("", [case]).build_xml_doc()
    ET.indent(element, level=2)
    line: bytes = ET.tostring(element, encoding="utf-8")
    return b"    " + line + b"\n"


def _message_and_body(report: Report, cell: JudgedCell, status: Status) -> tuple[str, str]:
    """`2 of 3 runs failed: contains: expected 'Paris', got 'Lyon'`, and the same at length for each run."""
    results = results_of(report, cell.cell, status, MAX_RUNS_SHOWN)
    count, of = (
        (cell.counts.failed, cell.counts.graded) if status == "failed" else (cell.counts.errored, cell.counts.planned)
    )
    first, *others = (reason for reason, _ in reasons(results))
    more = f" (and {number_of(len(others), 'other reason')})" if others else ""
    message = f"{count} of {number_of(of, 'run')} {status}: {_attribute(first)}{more}"
    left_out = count - len(results)
    return message, _body(results) + (f"\n… and {number_of(left_out, 'more run')}\n" if left_out else "")


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
