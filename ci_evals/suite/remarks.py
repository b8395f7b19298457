"""Remarks on suites that can be run: checks that never fail, rules that undo each other."""

from collections.abc import Iterator

from ci_evals import graders
from ci_evals.errors import Problem
from ci_evals.format import number_of
from ci_evals.graders.scoring import leaves
from ci_evals.model.case import Case
from ci_evals.model.rules import Gate
from ci_evals.suite.types import CheckedSuite


def remarks(suite: CheckedSuite) -> Iterator[Problem]:
    """Yield remarks on a suite that can be run. One cause is told once, at its first case."""
    yield from _critical_in_quarantine(suite)
    yield from _endless_latencies(suite)
    yield from _rounds_without_end(suite)


def _critical_in_quarantine(suite: CheckedSuite) -> Iterator[Problem]:
    gate = suite.gate or Gate()
    cases = []
    for case in suite.cases:
        critical = case.critical or gate.marks_critical(case.tags)
        if critical and case.quarantine is not None:
            cases.append(case)
    if cases:
        text = "is critical and in quarantine: it blocks nothing until the quarantine goes"
        yield _remark(cases, text)


def _endless_latencies(suite: CheckedSuite) -> Iterator[Problem]:
    """Find bounds of the latency that no answer exceeds, as its call is ended before."""
    longest_s = max(options.timeout_s or suite.timeout_s for options in suite.providers)
    found: dict[tuple[float, float], list[Case]] = {}
    for case in suite.cases:
        if case.is_conversation:  # its calls take longer together
            continue
        timeout_s = case.timeout_s or longest_s
        for expectation in leaves(case.expect):
            grader = expectation.grader
            if isinstance(grader, graders.Latency):
                limit_s = max(grader.value or 0.0, grader.first_token or 0.0)
                if limit_s > timeout_s:
                    found.setdefault((limit_s, timeout_s), []).append(case)
    for (limit_s, timeout_s), cases in found.items():
        text = f"`latency` of {limit_s:g} s never fails: a call is ended after {timeout_s:g} s"
        yield _remark(cases, f"{text} (`timeout_s`); both are in seconds")


def _rounds_without_end(suite: CheckedSuite) -> Iterator[Problem]:
    """Find a `max_runs` that a bar of 1 makes useless."""
    most = suite.max_runs
    if most is None or most <= suite.runs:
        return
    gate = suite.gate or Gate()
    bars = {*gate.providers.values(), *gate.tag_bars.values()}
    of_cases = {gate.case_bar(case.min_pass_rate) for case in suite.cases}
    if gate.min_pass_rate is not None:
        bars.add(gate.min_pass_rate)
    elif not bars and not gate.metrics and None in of_cases:
        bars.add(1.0)  # every run must pass where no bar is set
    if 1.0 in bars | of_cases:
        text = f"`max_runs: {most}` never ends early on a pass: no number of runs proves a bar of 1"
        yield Problem(suite.file, suite.line, "max_runs", text)


def _remark(cases: list[Case], text: str) -> Problem:
    first, *others = cases
    if others:
        text = f"{text} (and {number_of(len(others), 'more case')})"
    return Problem(first.file, first.line, f"case {first.id!r}", text)
