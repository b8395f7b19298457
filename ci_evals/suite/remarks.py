"""Remarks on suites that can be run: checks that never fail, rules that undo each other."""

from collections.abc import Iterator, Mapping
from typing import Any

from ci_evals.errors import Problem
from ci_evals.format import closest, number_of
from ci_evals.graders.scoring import leaves
from ci_evals.model.case import Case
from ci_evals.model.response import Message
from ci_evals.model.rules import Gate
from ci_evals.suite.datasets import EXPECTED, TABLES, WRITTEN_BY_HAND
from ci_evals.suite.rendering import template_sources
from ci_evals.suite.types import CheckedSuite
from ci_evals.templating import names_used

_CHECKS_OF_FORM = {"not_empty", "latency", "cost", "max_length", "word_count", "finish_reason"}


def remarks(suite: CheckedSuite) -> Iterator[Problem]:
    """Yield remarks on a suite that can be run. One cause is told once, at its first case."""
    yield from _critical_in_quarantine(suite)
    yield from _endless_latencies(suite)
    yield from _rounds_without_end(suite)
    yield from _templates_not_filled_in(suite)
    yield from _right_answers_not_looked_for(suite)
    yield from _idle_providers(suite)


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
    from ci_evals.graders.limits import Latency

    longest_s = max(options.timeout_s or suite.timeout_s for options in suite.providers)
    found: dict[tuple[float, float], list[Case]] = {}
    for case in suite.cases:
        if case.is_conversation:  # its calls take longer together
            continue
        timeout_s = case.timeout_s or longest_s
        for expectation in leaves(case.expect):
            grader = expectation.grader
            if isinstance(grader, Latency):
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


def _templates_not_filled_in(suite: CheckedSuite) -> Iterator[Problem]:
    """Find templates in the question of a case with vars. The names of its vars are refused."""
    found: dict[str, list[Case]] = {}
    for case in suite.cases:
        if not case.vars or not case.file.lower().endswith(WRITTEN_BY_HAND):
            continue  # a row of data is sent as it is
        names: set[str] = set()
        for text in _question_texts(case):
            names |= names_used(text)
        for name in sorted(names - case.vars.keys()):
            text = f"`{name}` in braces is sent as it is: only `prompts` and `expect` are templates"
            if name == "vars":
                text += ", in which a var goes by its own name, without `vars.`"
            elif close := closest(name, case.vars):
                text += f"; did you mean the var {close!r}?"
            found.setdefault(text, []).append(case)
    for text, cases in found.items():
        yield _remark(cases, text)


def _right_answers_not_looked_for(suite: CheckedSuite) -> Iterator[Problem]:
    """Find rows with a right answer of which only the form of the answer is checked."""
    cases = []
    for case in suite.cases:
        names = {each.name for each in leaves(case.expect)}
        is_in_table = case.file.lower().endswith(TABLES)
        if is_in_table and case.vars.get(EXPECTED) and names <= _CHECKS_OF_FORM:
            cases.append(case)
    if cases:
        example = f'- icontains: "{{{{ {EXPECTED} }}}}"'
        yield _remark(cases, f"no check looks for its `{EXPECTED}`: add `{example}` to `expect`")


def _question_texts(case: Case) -> Iterator[str]:
    """Yield every text that a case asks with."""
    yield from _texts_in(case.input)
    for message in case.messages:
        yield from _texts_in(message)
    for turn in case.turns:
        yield turn.user
    if case.user is not None:
        yield case.user.persona
        yield case.user.goal


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Message):
        yield from template_sources(value.content)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts_in(item)


def _idle_providers(suite: CheckedSuite) -> Iterator[Problem]:
    used = {variant.provider for variant in suite.columns}
    for options in suite.providers:
        name = str(options.name)
        if name not in used:
            yield Problem(*suite.places[name], "no case runs on it")


def _remark(cases: list[Case], text: str) -> Problem:
    first, *others = cases
    if others:
        text = f"{text} (and {number_of(len(others), 'more case')})"
    return Problem(first.file, first.line, f"case {first.id!r}", text)
