"""junit.xml: one test suite per variant, one test case per cell, flat as its readers want it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from textwrap import indent

from ci_evals.matrix import CellKey
from ci_evals.model import Result, Status, Variant
from ci_evals.report import Report
from ci_evals.reports.alike import ended
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
    troubled_cells,
    why,
)
from ci_evals.reports.notes import notes
from ci_evals.reports.summary import Summary
from ci_evals.reports.text import one_line, shortened, visible
from ci_evals.verdict.rules import blocking
from ci_evals.verdict.sentences import cell_finding

MAX_RUNS_SHOWN = 5
NAME_CHARACTERS = 500
ANSWER_CHARACTERS = 1000

_TOTALS = ("tests", "failures", "errors", "skipped")


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
    totals = {name: str(sum(int(suite[name]) for suite in suites)) for name in _TOTALS}
    time_s = sum(float(suite["time"]) for suite in suites)
    root = {"name": _attribute(report.suite.name), **totals, "time": f"{time_s:.3f}"}
    names = _distinct(case.id for case in report.matrix.cases)
    yield f"<?xml version='1.0' encoding='utf-8'?>\n{_start_tag('testsuites', root)}\n".encode()
    for variant, class_name, suite in zip(variants, class_names, suites, strict=True):
        yield f"  {_start_tag('testsuite', suite)}\n{_properties(report)}".encode()
        for cell in judged_cells(summary, variant):
            name = names[cell.cell // len(variants)]
            yield _test_case(summary, cell, _outcome(cell, red), class_name, name).encode()
        yield b"  </testsuite>\n"
    yield b"</testsuites>\n"


def _start_tag(tag: str, attributes: Mapping[str, str]) -> str:
    pairs = zip(attributes, map(_quoted, attributes.values()), strict=True)
    return f"<{' '.join([tag, *map('='.join, pairs)])}>"


def _element(tag: str, attributes: Mapping[str, str], text: str = "") -> str:
    start = _start_tag(tag, attributes)
    return f"{start}{_escaped(text)}</{tag}>" if text else f"{start[:-1]} />"


def _quoted(text: str) -> str:
    return '"' + _escaped(text).replace('"', "&quot;") + '"'


def _escaped(text: str) -> str:
    """Text as XML has it, but for characters that it does not allow and has no escape for: `visible` takes them out."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _distinct(texts: Iterable[str]) -> list[str]:
    """Names for texts: readers keep one of several of the same name, so what looks alike is numbered."""
    names: dict[str, None] = {}
    last: Counter[str] = Counter()
    for text in map(_attribute, texts):
        name = text
        while name in names:
            last[text] += 1
            name = f"{text} ({last[text] + 1})"
        names[name] = None
    return list(names)


def _outcome(cell: JudgedCell, red: frozenset[CellKey]) -> Outcome:
    """Readers of junit.xml know nothing else of the gate, so a cell that makes it red has failed, whatever its bar."""
    return "failed" if cell.key in red else cell.outcome


def _test_suite(summary: Summary, red: frozenset[CellKey], variant: Variant, class_name: str) -> dict[str, str]:
    """What is said of the suite of a variant: its name, and what its test cases come to."""
    report = summary.report
    cells = report.cells_of(variant)
    planned = sum(1 for cell in cells if report.by_cell[cell].planned)
    outcomes = Counter(_outcome(cell, red) for cell in troubled_cells(summary, variant))
    return {
        "disabled": "0",
        "errors": str(outcomes["errored"]),
        "failures": str(outcomes["failed"]),
        "name": class_name,
        "skipped": str(outcomes["not run"]),
        "tests": str(planned),
        "time": f"{sum(report.latencies_s(cells)):.3f}",
    }


def _properties(report: Report) -> str:
    said = list(notes(report))
    labels = _distinct(note.label for note in said)
    texts = [_attribute(note.text) for note in said]
    tags = (_start_tag("property", {"name": label, "value": text}) for label, text in zip(labels, texts, strict=True))
    entries = (f"      {tag}</property>\n" for tag in tags)
    return f"    <properties>\n{''.join(entries)}    </properties>\n" if said else ""


def _test_case(summary: Summary, cell: JudgedCell, outcome: Outcome, class_name: str, name: str) -> str:
    """A test case, as lines of the file."""
    time_s = sum(summary.report.latencies_s((cell.cell,)))
    attributes = {
        "name": name,
        "time": f"{time_s:.6f}" if time_s else "",
        "classname": class_name,
        "file": _attribute(cell.case.file),
        "line": str(cell.case.line or ""),
    }
    given = {key: value for key, value in attributes.items() if value}
    if inner := _inner(summary, cell, outcome):
        return f"    {_start_tag('testcase', given)}\n      {inner}\n    </testcase>\n"
    return f"    {_element('testcase', given)}\n"


def _inner(summary: Summary, cell: JudgedCell, outcome: Outcome) -> str:
    """What a test case holds; nothing, if there is no more to say than that it passed."""
    report = summary.report
    told = _compared(summary, cell)
    if outcome == "failed":
        message, body = _message_and_body(report, cell, "failed")
        return _element("failure", {"type": "failure", "message": f"{told}; {message}" if told else message}, body)
    if outcome == "errored":
        message, body = _message_and_body(report, cell, "errored")
        return _element("error", {"type": "error", "message": message}, body)
    if outcome == "not run":
        message = f"not run: {_attribute(report.interrupted or 'the suite ended early')}"
        return _element("skipped", {"type": "skipped", "message": message})
    if told or cell.counts.passed < cell.counts.planned:
        accounts = _body(failed_runs(report, cell.cell, MAX_RUNS_SHOWN))
        return _element("system-out", {}, "\n".join([*filter(None, [told]), cell.tally, accounts]))
    return ""


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
    message = f"{count:,} of {number_of(of, 'run')} {status}{why}"
    left_out = count + more - len(results)
    return message, _body(results) + (f"\n… and {number_of(left_out, 'more run')}\n" if left_out > 0 else "")


def _body(results: tuple[Result, ...]) -> str:
    """What became of each run; runs of which there is the same to say are taken together."""
    runs: dict[tuple[Status, str], list[int]] = {}
    for result in results:
        runs.setdefault((result.status, _account(result)), []).append(result.run)
    return "".join(
        f"\n{ended(numbers, status)}\n{indent(account, '  ')}\n" for (status, account), numbers in runs.items()
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
