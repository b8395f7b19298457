"""Runs as people read them: what was asked and answered, why it failed, and which runs are alike."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ci_evals.format import number_of, one_line, run_numbers
from ci_evals.model.case import Case
from ci_evals.model.report import SuiteReport
from ci_evals.model.response import Response
from ci_evals.model.result import Grade, Result, Status

_REASON_CHARACTERS = 300
_DETAIL_CHARACTERS = 2000
_MAX_CALLS_SHOWN = 100


def results_of(report: SuiteReport, cell: int, status: Status, limit: int | None = None) -> tuple[Result, ...]:
    """Return the results of a cell that ended with this status, or the first `limit` of them."""
    return tuple(report.results(report.indices(status, (cell,))[:limit]))


def failed_runs(report: SuiteReport, cell: int, limit: int | None = None) -> tuple[Result, ...]:
    """Return the failed results of a cell, confirm runs included, or the first `limit` of them."""
    planned = results_of(report, cell, "failed", limit)
    if report.confirmation is None:
        return planned
    return (planned + results_of(report.confirmation, cell, "failed", limit))[:limit]


def why(result: Result) -> tuple[str, ...]:
    """Say why a run did not pass: its error, or each failed grade as `contains: expected 'Paris', got 'Lyon'`."""
    if result.error is not None:
        return (one_line(result.error.message or result.error.kind, _REASON_CHARACTERS),)
    failed = tuple(
        one_line(f"{grade.grader}: {grade.reason}", _REASON_CHARACTERS) for grade in result.grades if not grade.passed
    )
    if failed:
        return failed
    return ("no grader says why",) if result.score is None else (f"the score {result.score:.2f} is below its bar",)


def reasons(results: Iterable[Result]) -> list[tuple[str, int]]:
    """Return every distinct reason with the number of runs that it stopped, the most frequent first."""
    return Counter(reason for result in results for reason in dict.fromkeys(why(result))).most_common()


def counted_reasons(results: Sequence[Result], limit: int) -> list[str]:
    """Return the reasons of failed runs as lines, `2 of 3 failed runs: contains: …` where they differ.

    There are at most `limit`, and one more that counts those left out.
    """
    counted = reasons(results)
    same = len(results) == 1 or all(count == len(results) for _, count in counted)
    lines = [
        reason if same else f"{count:,} of {len(results):,} failed runs: {reason}" for reason, count in counted[:limit]
    ]
    left_out = len(counted) - len(lines)
    return [*lines, f"… and {number_of(left_out, 'other reason')}"] if left_out else lines


def place_of(case: Case) -> str:
    """Return the place where the user wrote a case: `evals.yaml:12`."""
    return f"{case.file}:{case.line}" if case.line else case.file


def input_text(case: Case) -> str:
    """Return what a case asks: its input, its conversation or its vars."""
    if case.user is not None:
        return f"{case.user.persona}\nwants: {case.user.goal}"
    if case.turns:
        return "\n".join(f"user: {line}" for line in case.turns)
    if case.messages and case.input is None:
        return "\n".join(f"{message.role}: {message.content}" for message in case.messages)
    if case.input is not None:
        return _plain(case.input)
    return "\n".join(f"{name}: {_plain(value)}" for name, value in case.vars.items())


def answer_text(result: Result) -> str | None:
    """Return the answer: the text, then a line for each of the first tool calls; None if there was none."""
    if result.response is None:
        return None
    if turns := result.response.turns:
        return "\n".join(f"user: {turn.user}\nassistant: {_said(turn.response)}" for turn in turns)
    return _said(result.response)


def _said(response: Response) -> str:
    made = response.calls_made
    calls = [f"→ {call.name} {_plain(call.arguments)}" for call in made[:_MAX_CALLS_SHOWN]]
    more = [f"… and {number_of(len(made) - len(calls), 'more tool call')}"] if len(made) > len(calls) else []
    return "\n".join(filter(None, [response.output, *calls, *more]))


def detail_text(result: Result) -> str | None:
    """Return the end of what a run left behind instead of a good answer: a traceback, stderr."""
    return result.error.detail[-_DETAIL_CHARACTERS:] if result.error and result.error.detail else None


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError):
        return repr(value)


def verdicts_of(grades: Iterable[Grade]) -> tuple[tuple[str, str | None], ...]:
    """Return what tells runs apart: each grader, and why it failed. Praise may differ."""
    return tuple((each.grader, None if each.passed else each.reason) for each in grades)


def common_grades(of_each: Iterable[Sequence[Grade]]) -> list[Grade]:
    """Return the grades of runs that have the same verdicts, without reasons that not all of them share."""
    each = zip(*of_each, strict=True)
    return [same[0] if len({grade.reason for grade in same}) == 1 else replace(same[0], reason="") for same in each]


def ended(numbers: Sequence[int], status: Status) -> str:
    """`run 2 failed`, `runs 1, 2 and 3 failed alike`; the numbers rise."""
    return f"{run_numbers(numbers)} {status}{' alike' if len(numbers) > 1 else ''}"
