"""Warnings about valid suites: checks that never fail, rules that cancel each other."""

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
    """Yield remarks on a valid suite. Each cause is reported once, at its first case."""
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
        text = "is critical and in quarantine: it blocks nothing while quarantined"
        yield _remark(cases, text)


def _endless_latencies(suite: CheckedSuite) -> Iterator[Problem]:
    """Find `latency` limits longer than the time-out."""
    from ci_evals.graders.limits import Latency

    longest_s = max(options.timeout_s or suite.timeout_s for options in suite.providers)
    by_limits: dict[tuple[float, float], list[Case]] = {}
    for case in suite.cases:
        if case.is_conversation:  # the time-out is for each call, the latency for all of them
            continue
        timeout_s = case.timeout_s or longest_s
        for expectation in leaves(case.expect):
            grader = expectation.grader
            if isinstance(grader, Latency):
                limit_s = max(grader.value or 0.0, grader.first_token or 0.0)
                if limit_s > timeout_s:
                    by_limits.setdefault((limit_s, timeout_s), []).append(case)
    for (limit_s, timeout_s), cases in by_limits.items():
        text = f"`latency` of {limit_s:g} s never fails: calls time out after {timeout_s:g} s"
        yield _remark(cases, f"{text} (`timeout_s`); both are in seconds")


def _rounds_without_end(suite: CheckedSuite) -> Iterator[Problem]:
    """Find a `max_runs` that cannot end early on a pass because a bar is 1."""
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
    """Find templates in the question of a case with vars. `CaseReader` refuses known names."""
    by_text: dict[str, list[Case]] = {}
    for case in suite.cases:
        if not case.vars or not case.file.lower().endswith(WRITTEN_BY_HAND):
            continue  # a row of data is sent as it is
        names: set[str] = set()
        for text in _question_texts(case):
            names |= names_used(text)
        for name in sorted(names - case.vars.keys()):
            text = f"`{name}` in braces is sent as it is: only `prompts` and `expect` are templates"
            if name == "vars":
                text += ", where a var is written without `vars.`"
            elif close := closest(name, case.vars):
                text += f"; did you mean the var {close!r}?"
            by_text.setdefault(text, []).append(case)
    for text, cases in by_text.items():
        yield _remark(cases, text)


def _right_answers_not_looked_for(suite: CheckedSuite) -> Iterator[Problem]:
    """Find table rows with a right answer whose checks look only at the answer's form."""
    cases = []
    for case in suite.cases:
        names = {each.name for each in leaves(case.expect)}
        is_in_table = case.file.lower().endswith(TABLES)
        if is_in_table and case.vars.get(EXPECTED) and names <= _CHECKS_OF_FORM:
            cases.append(case)
    if cases:
        example = f'- contains: {{value: "{{{{ {EXPECTED} }}}}", ignore_case: true}}'
        yield _remark(cases, f"no check looks for its `{EXPECTED}`: add `{example}` to `expect`")


def _question_texts(case: Case) -> Iterator[str]:
    """Yield every text of a case's question."""
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
