"""What a reader must know of a report beside its verdict: what ended it early, and what is not of this invocation."""

from collections.abc import Iterator
from typing import NamedTuple

from ci_evals.model import Judging
from ci_evals.report import Report
from ci_evals.reports.figures import number_of, usd


class Note(NamedTuple):
    """A label and one sentence: `Resumed`, `120 of 200 runs kept, 80 new ones`."""

    label: str
    text: str


def notes(report: Report) -> Iterator[Note]:
    """What is to be said, if anything is."""
    if report.interrupted:
        yield Note("Interrupted", report.interrupted)
    if report.resumption is not None:
        yield Note("Resumed", _resumed(report))
        for journal in report.resumption.torn:
            yield Note("Torn", f"the last line of {journal} was cut off in the middle, and its run does not count")
    if report.columns.recorded:
        of = number_of(report.total, "run")
        yield Note("Recorded", f"{report.columns.recorded:,} of {of} were recorded, no provider was called for them")
    if report.columns.judging.calls:
        yield Note("Judged", _judged(report.columns.judging))


def _judged(judging: Judging) -> str:
    """`120 calls of judges, 45,000 tokens, $0.034`."""
    tokens = judging.input_tokens + judging.output_tokens
    priced = judging.calls - judging.unpriced
    cost = usd(judging.cost_usd if priced else None, "cost unknown")
    of = f" for {priced:,} of them" if priced and judging.unpriced else ""
    return f"{number_of(judging.calls, 'call')} of judges, {number_of(tokens, 'token')}, {cost}{of}"


def new_runs(report: Report) -> int:
    """How many runs of a resumed report no earlier journal had a result of."""
    found = report.resumption
    return report.total - (found.kept + found.retried + found.changed if found else 0)


def _resumed(report: Report) -> str:
    found = report.resumption
    assert found is not None
    parts = [f"{found.kept:,} of {number_of(report.total, 'run')} kept"]
    parts += [f"{found.retried:,} errored {_ones(found.retried)} tried again"] if found.retried else []
    parts += [f"{found.changed:,} changed {_ones(found.changed)} run anew"] if found.changed else []
    new = new_runs(report)
    parts += [f"{new:,} new {_ones(new)}"] if new else []
    return ", ".join(parts)


def _ones(count: int) -> str:
    return "one" if count == 1 else "ones"
