"""The contents of a case on report.html: the values that its template renders.

All texts are cleaned and cut here.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from statistics import median_high
from typing import Any, Final

from ci_evals.format import (
    abridge,
    keep_units,
    number_of,
    one_line,
    seconds,
    shorten,
    usd,
    visible,
)
from ci_evals.gate.compare import Change
from ci_evals.graders.base import Composite, GraderOptions
from ci_evals.model.grading import USUAL_WEIGHT, Expectation
from ci_evals.model.report import Tally
from ci_evals.model.response import Response, Step, Turn
from ci_evals.model.result import Grade, Status, every_grade
from ci_evals.reports.answer_forms import (
    MAX_CHARACTERS,
    as_json,
    as_markdown,
    as_table,
    json_text,
    word_diff,
)
from ci_evals.reports.charts import spark
from ci_evals.reports.view import (
    CellOutcome,
    CellView,
    RunView,
    address_of,
    alike,
    asked_text,
    input_text,
    metadata_lines,
    passage_lines,
    place_of,
    statement_lines,
)
from ci_evals.suite.configs import DEFAULT_NAMES

CHANGES: Final[tuple[Change, ...]] = (
    "worse",
    "probably worse",
    "can't tell",
    "fixed",
    "varies",
    "unchanged",
    "new",
    "edited",
    "not compared",
)
"""The findings of a comparison, for cells that are in the report, as the filter lists them."""

NAME_CHARACTERS: Final = 200
REASON_CHARACTERS: Final = 1000

_PART_CHARACTERS = 2000  # of a step, a turn, a retrieved text, and of answers that are compared
_MAX_ITEMS = 100  # steps, turns, statements
_MAX_RUNS = 12  # that ended each in another way
_FILE = re.compile(r"files/[0-9a-f]{64}\.txt")  # the only links that a report may have
_RUN_ORDER: tuple[Status, ...] = ("failed", "errored", "passed")
_SHOWN_ELSEWHERE = ("name", "metric", "weight", "of")


@dataclass(frozen=True, slots=True)
class PageRow:
    """A case in the list.

    Attributes:
        cells: its cells, in the order of the variants.
        worst: the one that decided where the case is in the list.
        unfolded: its details are seen at once.
        shows_reason: False where the reason that it failed is above it.
    """

    cells: Sequence[CellView]
    worst: CellView
    unfolded: bool
    shows_reason: bool


Shown = dict[str, Any]
"""The fields of an element."""


def page_case(row: PageRow, *, has_room: bool = True) -> Shown:
    """Return what the page shows of a case; what unfolds only if there is room for it.

    `outcome`, `finding` and `reason` are those of the worst cell.
    """
    worst, case = row.worst, row.worst.case
    finding = reason = quarantine = ""
    if worst.changed:
        finding = _sentence(worst.finding)
    if row.shows_reason:
        reason = _reason(worst)
    if case.quarantine:
        why = one_line(case.quarantine.reason, REASON_CHARACTERS)
        quarantine = f"In quarantine until {case.quarantine.until}: {why}"
    shown = {
        "id": one_line(case.id, NAME_CHARACTERS),
        "address": address_of(case.id),
        "outcome": outcome_of(worst),
        "unfolded": row.unfolded,
        "critical": worst.critical,
        "tags": [one_line(tag, NAME_CHARACTERS) for tag in dict.fromkeys(case.tags)],
        "renamed_from": one_line(worst.renamed_from or "", NAME_CHARACTERS),
        "finding": finding,
        "reason": reason,
        "description": one_line(case.description or "", REASON_CHARACTERS),
        "place": one_line(place_of(case), NAME_CHARACTERS),
        "quarantine": quarantine,
        "input": "",
        "asked": "",
        "expected": [],
        "cells": _cells(row),
    }
    if has_room:
        _add_details(shown, row)
    return shown


def _add_details(shown: Shown, row: PageRow) -> None:
    """Add what unfolds. What all cells were asked is said once."""
    case = row.worst.case
    details = [_details(view) for view in row.cells]
    asked = details[0]["asked"]
    given = shorten(input_text(case), MAX_CHARACTERS)
    if given not in asked:
        shown["input"] = given
    if all(each["asked"] == asked for each in details):
        shown["asked"] = asked
        for each in details:
            each["asked"] = ""
    shown["expected"] = _expectations(case.expect)
    for cell, each in zip(shown["cells"], details, strict=True):
        cell["details"] = each
        if cell["is_worst"] and each["runs"]:
            each["runs"][0]["unfolded"] = True


# A cell.


def _cells(row: PageRow) -> list[Shown]:
    """Return the fields of a row, each with the number of `gaps` before it: variants that do not
    have the case.
    """
    cells = []
    column = 0
    for view in row.cells:
        cell = _cell(view, is_worst=view is row.worst)
        cell["gaps"] = cell["column"] - column
        column = cell["column"] + 1
        cells.append(cell)
    return cells


def _cell(view: CellView, *, is_worst: bool) -> Shown:
    """Return the field of a cell in its row; confirm runs count.

    `tenths` is the pass rate in tenths, of which only 0 is 0 and only 1 is 10. Rows are sorted by
    `rate`, `cost` in USD and `latency`, a median in seconds.
    """
    report = view.summary.report
    runs = view.counts.tally
    if report.confirmation:
        further = report.confirmation.counts((view.cell,))
        runs = Tally(runs.passed + further.passed, runs.graded + further.graded)
    shown: Shown = {
        "column": view.cell % len(report.plan.variants),
        "is_worst": is_worst,
        "variant": "",
        "address": "",
        "outcome": outcome_of(view),
        "tally": view.outcome,
        "change": "",
        "tenths": None,
        "rate": "",
        "cost": "",
        "latency": "",
        "spark": spark(view.summary.compared, view.key, runs),
        "details": None,
    }
    if len(report.plan.variants) > 1:
        shown["variant"] = one_line(str(view.variant), NAME_CHARACTERS)
        shown["address"] = view.address
    if view.change:
        shown["change"] = view.change
    if runs.graded:
        tenths = round(10 * runs.rate)
        if 0 < runs.passed < runs.graded:
            tenths = min(9, max(1, tenths))
        shown["tally"] = f"{runs.passed:,}/{runs.graded:,}"
        shown["rate"] = f"{runs.rate:.4g}"
        shown["tenths"] = tenths
    records = report.records_of((view.cell,))
    costs = [record.cost_usd for record in records if record.cost_usd is not None]
    if costs:
        shown["cost"] = f"{sum(costs):.3g}"
    if records:
        shown["latency"] = f"{median_high(record.latency_s for record in records):.3g}"
    return shown


def outcome_of(view: CellView) -> CellOutcome:
    """Return the outcome of a cell; one that regressed has failed, even if it meets its bar."""
    if view.found is not None and view.found.kind == "regressed":
        return "failed"
    return view.outcome


def _reason(view: CellView) -> str:
    """Return the most frequent reason that a run of a cell did not pass."""
    reason = ""
    errored = view.run("errored") if view.counts.errored else None
    if view.failures.reasons:
        reason, _ = view.failures.reasons[0]
    elif errored is not None and errored.error:
        reason = errored.error
    return one_line(reason, REASON_CHARACTERS)


def _sentence(text: str) -> str:
    return keep_units(one_line(text, REASON_CHARACTERS))


# What unfolds.


def _details(view: CellView) -> Shown:
    """Return what unfolds below a cell.

    `strip` has the status of each run, where any did not pass; `diff` the words that changed since
    the base's answer, `before`, if the two have enough in common.
    """
    results = view.results()
    runs = sorted(alike(results), key=lambda run: _RUN_ORDER.index(run.status))
    asked = asked_text(view.case, next(iter(results), None))
    shown: Shown = {
        "asked": visible(abridge(asked, MAX_CHARACTERS)),
        "finding": _sentence(view.finding),
        "diff": (),
        "before": None,
        "compared_run": None,
        "strip": [],
        "runs": [_run(run) for run in runs[:_MAX_RUNS]],
        "more_runs": "",
        "failed_graders": _failed_graders(runs),
        "commands": list(_commands(view)),
    }
    failed = [run for run in runs if run.status == "failed"]
    if failed:
        shown["compared_run"] = failed[0].numbers[0]
    if view.key in view.summary.before:
        before = visible(view.summary.before[view.key])
        shown["before"] = before or "(empty)"
        if failed and failed[0].answer is not None:
            shown["diff"] = word_diff(before, shorten(failed[0].answer, _PART_CHARACTERS)) or ()
    if len(results) > 1 and runs[0].status != "passed":
        shown["strip"] = [result.status for result in results[:_MAX_ITEMS]]
    if len(runs) > _MAX_RUNS:
        more = number_of(len(runs) - _MAX_RUNS, "more kind")
        shown["more_runs"] = f"… and {more} of runs in results.jsonl."
    return shown


def _failed_graders(runs: Sequence[RunView]) -> list[str]:
    names: dict[str, None] = {}
    for run in runs:
        for grade in run.first.grades:
            if not grade.passed:
                names[one_line(grade.grader, NAME_CHARACTERS)] = None
    return list(names)


def _commands(view: CellView) -> Iterator[tuple[str, str]]:
    """Yield commands that tell more of a cell, with what they do."""
    report = view.summary.report
    file = report.suite.file
    several_variants = len(report.plan.variants) > 1
    is_config = file.endswith((".yaml", ".yml", ".json"))
    words = ["ci-evals", "explain", view.case.id]
    if is_config and file not in DEFAULT_NAMES:
        words += ["--config", file]
    if several_variants:
        words += ["--provider", view.variant.provider]
        if view.variant.prompt:
            words += ["--prompt", view.variant.prompt]
    yield "Explain", visible(shlex.join(words))
    if is_config:  # cases of pytest and of Python are run by what they are part of
        words = ["ci-evals", "run", file, "--case", view.case.id]
        if several_variants:
            words += ["--providers", view.variant.provider]
        yield "Run this case", visible(shlex.join(words))


# A run.


def _run(run: RunView) -> Shown:
    """Return runs that ended alike. Only a conversation has `turns`, and no `answer` of its own."""
    response = run.first.response
    shown: Shown = {
        "status": run.status,
        "numbers": run.numbers,
        "title": run.title.capitalize(),
        "facts": _sentence(" · ".join(run.facts)),
        "unfolded": run.status != "passed",
        "error": run.error,
        "frames": run.frames,
        "grades": [_grade(grade) for grade in run.grades],
        "turns": [],
        "answer": None,
        "files": [file for file in run.files if _FILE.fullmatch(file)],
        "context": list(_context(run)),
        "metadata": "\n".join(metadata_lines(run.metadata)),
        "detail": visible(run.detail or ""),
    }
    if response is not None and response.turns:
        shown["turns"] = [_turn(turn) for turn in response.turns[:_MAX_ITEMS]]
    elif response is not None:
        text = visible(response.output)
        shown["answer"] = {
            "text": shorten(run.answer or "", MAX_CHARACTERS),
            "markdown": as_markdown(text),
            "json": as_json(text),
            "table": as_table(text),
            "steps": _steps(response),
        }
    return shown


def _grade(grade: Grade) -> Shown:
    text = f"{grade.score:.2f}"
    if not grade.weight:
        text = f"{text} (for information)"
    elif grade.weight != USUAL_WEIGHT:
        text = f"{text} (weight {grade.weight:g})"
    return {
        "grader": one_line(grade.grader, NAME_CHARACTERS),
        "passed": grade.passed,
        "score": text,
        "reason": one_line(grade.sentence, REASON_CHARACTERS),
        "statements": statement_lines(grade),
        "parts": [_grade(part) for part in grade.parts],
    }


def _context(run: RunView) -> Iterator[tuple[str, Sequence[tuple[bool, str]]]]:
    """Yield the texts that were retrieved, each with the statements that judges found there."""
    found: dict[int, list[tuple[bool, str]]] = {}
    for grade in every_grade(run.grades):
        for statement in grade.statements[:_MAX_ITEMS]:
            text = one_line(f"{grade.grader}: {statement.text}", REASON_CHARACTERS)
            for number in statement.texts:
                found.setdefault(number, []).append((statement.holds, text))
    for number, line in enumerate(passage_lines(run.context or (), _PART_CHARACTERS), 1):
        yield line, found.get(number, ())


def _turn(turn: Turn) -> Shown:
    facts = [seconds(turn.latency_s)]
    if turn.cost_usd is not None:
        facts.append(usd(turn.cost_usd))
    return {
        "user": shorten(turn.user, _PART_CHARACTERS),
        "answer": shorten(turn.response.output, MAX_CHARACTERS),
        "facts": _sentence(" · ".join(facts)),
        "steps": _steps(turn.response),
    }


def _steps(response: Response) -> list[Shown]:
    """Return the steps of an agent; `path` draws the place of each in the run's time, if known."""
    steps = response.steps or ()
    total_s = sum(step.duration_s or 0.0 for step in steps)
    is_timed = total_s > 0 and sum(step.duration_s is not None for step in steps) > 1
    shown = []
    start_s = 0.0
    for step in steps[:_MAX_ITEMS]:
        fields = _step(step)
        taken_s = step.duration_s or 0.0
        if is_timed:
            start = 100 * start_s / total_s
            width = max(0.5, 100 * taken_s / total_s)
            fields["path"] = f"M{start:.1f} 1h{width:.1f}"
        shown.append(fields)
        start_s += taken_s
    return shown


def _step(step: Step) -> Shown:
    facts = []
    if step.duration_s is not None:
        facts.append(seconds(step.duration_s))
    if step.usage:
        facts.append(number_of(step.usage.total_tokens, "token"))
    arguments = ""
    if step.arguments:
        arguments = shorten(json_text(step.arguments), _PART_CHARACTERS)
    return {
        "kind": step.kind.replace("_", " "),
        "name": one_line(step.name, NAME_CHARACTERS),
        "agent": one_line(step.agent or "", NAME_CHARACTERS),
        "facts": " · ".join(facts),
        "arguments": arguments,
        "result": shorten(step.result or "", _PART_CHARACTERS),
        "error": one_line(step.error or "", REASON_CHARACTERS),
        "path": "",
    }


# What is expected of an answer.


def _expectations(expect: Sequence[Any]) -> list[Shown]:
    """Return the known expectations: a report that was read back has none."""
    return [_expectation(each) for each in expect if isinstance(each, Expectation)]


def _expectation(expectation: Expectation) -> Shown:
    """Return a grader with its options in words, and the graders that it is made of."""
    grader = expectation.grader
    options: list[str] = []
    if isinstance(grader, GraderOptions):
        options += _options(grader)
    if expectation.turn is not None:
        options.append(f"in turn {expectation.turn}")
    if expectation.weight != USUAL_WEIGHT:
        options.append(f"weight {expectation.weight:g}")
    if expectation.metric:
        options.append(f"metric {one_line(expectation.metric, NAME_CHARACTERS)}")
    parts: list[Shown] = []
    if isinstance(grader, Composite):
        parts = _expectations(grader.of)
    name = one_line(expectation.shown_name, NAME_CHARACTERS)
    return {"name": name, "options": " · ".join(options), "parts": parts}


def _options(grader: GraderOptions) -> Iterator[str]:
    """Yield the options that are set, the short one first and without its name."""
    set_options = {}
    for field in fields(grader):
        value = getattr(grader, field.name)
        if value is not None and value != field.default and field.name not in _SHOWN_ELSEWHERE:
            set_options[field.name] = one_line(json_text(value), REASON_CHARACTERS)
    if grader.short in set_options:
        yield set_options.pop(grader.short)
    for name, text in set_options.items():
        yield f"{name.replace('_', ' ')} {text}"
