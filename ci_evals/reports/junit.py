"""junit.xml: one test suite per variant, one test case per cell, flat as its readers want it."""

from collections import Counter
from collections.abc import Iterator
from textwrap import indent
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from ci_evals.model import Result, Status, Variant
from ci_evals.report import Report
from ci_evals.reports.figures import number_of
from ci_evals.reports.findings import JudgedCell, answer_text, detail_text, judged_cells, reasons, results_of, why
from ci_evals.reports.summary import Summary
from ci_evals.reports.text import one_line, shortened, visible

if TYPE_CHECKING:
    from junit_xml import TestCase

MAX_RUNS_SHOWN = 5
NAME_CHARACTERS = 500
ANSWER_CHARACTERS = 1000


def render(summary: Summary) -> Iterator[bytes]:
    """junit.xml: `<failure>` is a cell below its bar, `<error>` one without a graded run, `<skipped>` one that never
    ran; a cell within its bar passes, and its system-out says which of its runs did not.
    """
    names: Counter[tuple[str, str]] = Counter()
    cells: dict[Variant, list[TestCase]] = {variant: [] for variant in summary.report.matrix.variants}
    for cell in judged_cells(summary):
        cells[cell.variant].append(_test_case(summary.report, cell, names))
    root = ET.Element("testsuites", name=_attribute(summary.report.suite.name))
    root.extend(_test_suite(summary.report, variant, cases) for variant, cases in cells.items())
    for total in ("tests", "failures", "errors", "skipped"):
        root.set(total, str(sum(int(suite.get(total, 0)) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', 0)) for suite in root):.3f}")
    ET.indent(root)
    yield ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _test_suite(report: Report, variant: Variant, cases: "list[TestCase]") -> ET.Element:
    from junit_xml import TestSuite

    suite: ET.Element = TestSuite(_class_name(report, variant), cases).build_xml_doc()
    suite.set("time", f"{float(suite.get('time', 0)):.3f}")
    return suite


def _test_case(report: Report, cell: JudgedCell, names: Counter[tuple[str, str]]) -> "TestCase":
    """`names` counts those given so far: readers merge test cases of the same name, so what looks alike is numbered."""
    from junit_xml import TestCase

    class_name, name = _class_name(report, cell.variant), _attribute(cell.case.id)
    names[class_name, name] += 1
    count = names[class_name, name]
    case = TestCase(
        name if count == 1 else f"{name} ({count})",
        class_name,
        elapsed_sec=sum(
            report.columns.latency_s[slot] for slot in report.matrix.slots(cell.cell) if report.columns.status[slot]
        ),
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
    return case


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


def _class_name(report: Report, variant: Variant) -> str:
    return _attribute(f"{report.suite.name} · {variant}")


def _attribute(text: str) -> str:
    return one_line(text, NAME_CHARACTERS)
