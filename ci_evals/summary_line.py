"""What became of a report's runs, in one line for a person."""

from math import isclose
from typing import TYPE_CHECKING, Literal

from ci_evals.percentage import percent

if TYPE_CHECKING:
    from ci_evals.report import Counts


def summary_line(
    counts: "Counts", rate: float | None, settled: Literal["pass", "borderline", "fail"] | None, variants: int
) -> str:
    """`102 of 110 runs passed (92.7 %), 8 failed`; see `Report.summary`.

    Args:
        counts: how the runs ended.
        rate: the mean over cells of their share of passed runs; None where it is not known.
        settled: the verdict that ended the run phase early, or None if none did.
        variants: how many the report has.
    """
    if settled is not None:
        return _settled(counts, settled)
    parts = (("failed", counts.failed), ("errored", counts.errored), ("not run", counts.missing))
    return ", ".join([_passed(counts, rate, variants), *(f"{number:,} {word}" for word, number in parts if number)])


def _settled(counts: "Counts", settled: Literal["pass", "borderline", "fail"]) -> str:
    ended = counts.planned - counts.missing
    errored = f", {counts.errored:,} errored" if counts.errored else ""
    stopped = f"{errored}, stopped at {ended:,} of {counts.planned:,} {'run' if counts.planned == 1 else 'runs'}"
    if settled == "fail":
        return f"at least {counts.failed:,} {'failure' if counts.failed == 1 else 'failures'}{stopped}"
    passed = f"{counts.passed:,} {'run' if counts.passed == 1 else 'runs'} passed"
    return passed + (f", {counts.failed:,} failed" if counts.failed else "") + stopped


def _passed(counts: "Counts", rate: float | None, variants: int) -> str:
    share = counts.pass_rate
    if share is None:
        return "no run was graded"
    complete = counts.graded == counts.planned
    runs = f"{'' if complete else 'graded '}{'run' if counts.graded == 1 else 'runs'}"
    text = f"{counts.passed:,} of {counts.graded:,} {runs} passed"
    if rate is None:
        return text
    if complete and isclose(rate, share):
        return f"{text} ({percent(share)})"
    mean = "mean over cases" if variants == 1 else "mean over cases and variants"
    return f"{text}, pass rate {percent(rate)} ({mean})"
