"""The contents of report.html beside the findings: each case with its cells, their runs, and the
filters.
"""

import csv
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import chain, islice
from typing import Any, Final

from markdown_it import MarkdownIt
from markupsafe import Markup

from ci_evals.format import abridge, number_of, one_line, seconds, shorten, usd, visible
from ci_evals.gate.compare import CellKind
from ci_evals.graders.base import GraderOptions
from ci_evals.graders.composite import Composite
from ci_evals.model.case import USUAL_WEIGHT, Case, Expectation
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.model.response import Response, Step, Turn
from ci_evals.model.result import Grade, Result, Status, every_grade
from ci_evals.model.rules import Gate
from ci_evals.reports.charts import Spark, spark
from ci_evals.reports.findings import Findings
from ci_evals.reports.groups import Entry, Group, Tone
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
    reasons_of,
)
from ci_evals.reports.word_diff import Piece, word_diff
from ci_evals.stats.rates import pass_rate
from ci_evals.suite.configs import DEFAULT_NAMES

MAX_OPTIONS: Final = 200
"""Tags, graders or variants to filter by; more are no choice any more."""

_MAX_ENTRIES = 100  # of a group that lists no cases
_MAX_UNFOLDED = 10  # regressed or failing cases, from the start
_MAX_ROWS_UNFOLDED = 40  # of a group, from the start
_FEW_ROWS = 5  # are unfolded even where the comment folds them
_FEW_ALIKE = 6  # cases that failed for the same reason, still unfolded
_MAX_RUN_GROUPS = 12  # of a cell
_MAX_GRADES = 50
_MAX_STATEMENTS = 20  # beside a retrieved text
_MAX_STEPS = 200
_MAX_TURNS = 100
_ANSWER_CHARACTERS = 8000
_DIFF_CHARACTERS = 2000
_STEP_CHARACTERS = 1500
_INPUT_CHARACTERS = 4000
_ASKED_CHARACTERS = 8000
_OPTION_CHARACTERS = 1000
_MAX_COLUMNS = 30
_FEWEST_ROWS = 3
_FEW_WORDS = 5

CHANGES: Final[Mapping[CellKind, str]] = {
    "regressed": "regressed",
    "suspect": "possibly worse",
    "fixed": "fixed",
    "flaky": "varies",
    "unchanged": "unchanged",
    "new": "new",
    "edited": "edited",
    "not compared": "not compared",
}
"""What a comparison may find of a cell that is here, in the words of the filter."""


# What is shown of one run, or of several that ended alike.


@dataclass(frozen=True, slots=True)
class ShownStep:
    """One step of an agent; `start` and `width` are its place in the run's time, in percent, where
    that is known.
    """

    step: Step
    arguments: str
    result: str
    facts: str
    start: float | None = None
    width: float | None = None


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """One turn of a conversation."""

    user: str
    answer: str
    facts: str
    steps: Sequence[ShownStep]


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs with the same answer, grades and errors, shown as one."""

    results: tuple[Result, ...]

    @property
    def _view(self) -> RunView:
        return RunView(self.results)

    @property
    def first(self) -> Result:
        return self.results[0]

    @property
    def numbers(self) -> list[int]:
        return [result.run for result in self.results]

    @property
    def status(self) -> Status:
        return self.first.status

    @property
    def answer(self) -> str | None:
        """The answer, unless turns show it."""
        answer = self._view.answer
        return None if answer is None or self.turns else shorten(answer, _ANSWER_CHARACTERS)

    @property
    def whole(self) -> list[str]:
        """The files beside this page with answers that are too long for the report."""
        return [file for file in self._view.files if _WHOLE.fullmatch(file)]

    @property
    def pretty(self) -> str | None:
        """The answer laid out, if it is JSON with something in it."""
        return (
            _pretty_json(self.first.response.output)
            if self.first.response and not self.turns
            else None
        )

    @property
    def table(self) -> list[list[str]] | None:
        """The answer as rows, the first of them with the names, if it is a table."""
        return (
            _table_of(self.first.response.output)
            if self.first.response and not self.turns
            else None
        )

    @property
    def markdown(self) -> Markup | None:
        """The answer as its Markdown shows it, if it has some: text without links, pictures or
        HTML.
        """
        output = self.first.response.output if self.first.response and not self.turns else ""
        if len(output) > _ANSWER_CHARACTERS or not _MARKDOWN.search(output):
            return None
        reader = _markdown()
        tokens = reader.parse(visible(output))
        for token in tokens:
            token.attrs = {}  # tables have a style for their columns, which the page's policy does not allow
            if token.type in ("heading_open", "heading_close"):  # the page has headings of its own
                token.tag, token.attrs = "p", {"class": "heading"}
        return Markup(reader.renderer.render(tokens, reader.options, {}))  # noqa: S704  HTML in the text is escaped

    @property
    def turns(self) -> list[ShownTurn]:
        response = self.first.response
        return [_shown_turn(turn) for turn in response.turns[:_MAX_TURNS]] if response else []

    @property
    def steps(self) -> list[ShownStep]:
        """The steps of an answer that is no conversation."""
        response = self.first.response
        return _shown_steps(response) if response and not response.turns else []

    @property
    def context(self) -> list[tuple[str, list[tuple[bool, str]]]]:
        """The texts that were retrieved for the answer, each with the statements that judges found
        there.
        """
        found: dict[int, list[tuple[bool, str]]] = {}
        for grade in every_grade(self.grades):
            for each in grade.statements:
                for number in each.texts:
                    found.setdefault(number, []).append(
                        (each.holds, f"{grade.grader}: {each.text}")
                    )
        lines = passage_lines(self._view.context or (), _STEP_CHARACTERS)
        return [
            (line, found.get(number, [])[:_MAX_STATEMENTS]) for number, line in enumerate(lines, 1)
        ]

    @property
    def metadata(self) -> list[str]:
        """Return the other facts that all of them share."""
        return metadata_lines(self._view.metadata)

    @property
    def detail(self) -> str | None:
        return self._view.detail

    @property
    def frames(self) -> list[str]:
        return self._view.frames

    @property
    def error(self) -> str | None:
        """The reason why there was nothing to grade."""
        return self._view.error

    @property
    def grades(self) -> Sequence[Grade]:
        """The grades of all, without a reason that is not that of all."""
        return self._view.grades[:_MAX_GRADES]

    @property
    def more_grades(self) -> int:
        return len(self.first.grades) - len(self.grades)

    @property
    def title(self) -> str:
        """`Run 2 failed`, `Runs 1, 2 and 3 failed alike`."""
        return self._view.title.capitalize()

    @property
    def facts(self) -> str:
        """`score 0.50 (threshold 0.8) · 1.10 s to 1.20 s · first token 0.20 s · $0.0010 · 1 to 5
        attempts`.
        """
        return " · ".join(self._view.facts)


_WHOLE: Final = re.compile(r"files/[0-9a-f]{64}\.txt")
_MARKDOWN: Final = re.compile(
    r"^(?:#{1,6} |\|?[ :]*-{3,}[ :|-]*\||```|\d+\. |[*-] )|\*\*\S", re.MULTILINE
)


@cache
def _markdown() -> MarkdownIt:
    """Return a renderer of CommonMark with tables that makes no links and no pictures, and escapes
    all HTML.
    """
    without = ("link", "image", "autolink", "reference", "html_block", "html_inline")
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable(without)


def _shown_turn(turn: Turn) -> ShownTurn:
    response = turn.response
    return ShownTurn(
        user=shorten(turn.user, _STEP_CHARACTERS),
        answer=shorten(response.output, _ANSWER_CHARACTERS),
        facts=" · ".join(filter(None, (seconds(turn.latency_s), usd(turn.cost_usd, "")))),
        steps=_shown_steps(response),
    )


def _shown_steps(response: Response) -> list[ShownStep]:
    steps = response.steps or ()
    total = sum(step.duration_s or 0.0 for step in steps)
    timed = total > 0 and sum(step.duration_s is not None for step in steps) > 1
    shown, start = [], 0.0
    for step in steps[:_MAX_STEPS]:
        taken = step.duration_s or 0.0
        facts = [seconds(step.duration_s)] if step.duration_s is not None else []
        facts += [number_of(step.usage.total_tokens, "token")] if step.usage else []
        shown.append(
            ShownStep(
                step=step,
                arguments=shorten(_json_text(step.arguments), _STEP_CHARACTERS)
                if step.arguments
                else "",
                result=shorten(step.result or "", _STEP_CHARACTERS),
                facts=" · ".join(facts),
                start=round(100 * start / total, 1) if timed else None,
                width=round(max(0.5, 100 * taken / total), 1) if timed else None,
            )
        )
        start += taken
    return shown


def _json_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _pretty_json(text: str) -> str | None:
    """Lay out an answer that is a JSON object or array on several lines; None if it is none, or is
    laid out already.
    """
    if not text.lstrip().startswith(("{", "[")) or len(text) > _ANSWER_CHARACTERS:
        return None
    try:
        pretty = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return None
    return pretty if pretty.count("\n") > 2 and pretty != text.strip() else None


def _table_of(text: str) -> list[list[str]] | None:
    """Read an answer as a table: comma-, semicolon- or tab-separated lines, or JSON objects; None
    if it is none.
    """
    text = text.strip()
    if len(text) > _ANSWER_CHARACTERS:
        return None
    if text.startswith("["):
        try:
            objects = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not (objects and all(type(each) is dict and each for each in objects)):
            return None
        names = list(dict.fromkeys(chain.from_iterable(objects)))
        rows = [names, *([_json_text(each.get(name, "")) for name in names] for each in objects)]
    else:
        first = text.partition("\n")[0]
        separator = max("\t;,", key=first.count)
        try:
            rows = list(csv.reader(text.splitlines(), delimiter=separator, strict=True))
        except csv.Error:
            return None
        prose = any(
            cell.startswith(" ") and len(cell.split()) > _FEW_WORDS for row in rows for cell in row
        )
        if prose or len(rows) < _FEWEST_ROWS or len({len(row) for row in rows}) > 1:
            return None
    return rows if 1 < len(rows[0]) <= _MAX_COLUMNS else None


# What is expected of an answer.


@dataclass(frozen=True, slots=True)
class ShownExpectation:
    """A grader with its options in words, and those that it is made of."""

    name: str
    options: str
    parts: tuple["ShownExpectation", ...] = ()


def shown_expectations(expect: Iterable[Any]) -> Iterator[ShownExpectation]:
    """Yield the first expectations of a case, as far as they are known: a report that was read back
    has none.
    """
    for each in islice(expect, _MAX_GRADES):
        if not isinstance(each, Expectation):
            continue
        grader, options, parts = each.grader, [], tuple[ShownExpectation, ...]()
        if isinstance(grader, Composite):
            parts = tuple(shown_expectations(grader.of))
        if isinstance(grader, GraderOptions):
            told = {
                field.name: getattr(grader, field.name)
                for field in fields(grader)
                if field.name != "of"
            }
            usual = {field.name: field.default for field in fields(grader)}
            for name in (grader.short, *(name for name in told if name != grader.short)):
                value = told.get(name)
                if value is not None and value != usual[name] and name not in _SHOWN_ELSEWHERE:
                    text = one_line(_json_text(value), _OPTION_CHARACTERS)
                    options.append(
                        text if name == grader.short else f"{name.replace('_', ' ')} {text}"
                    )
        options += [f"in turn {each.turn}"] if each.turn is not None else []
        options += [f"weight {each.weight:g}"] if each.weight != USUAL_WEIGHT else []
        options += [f"metric {each.metric}"] if each.metric else []
        yield ShownExpectation(each.shown_name, " · ".join(options), parts)


_SHOWN_ELSEWHERE: Final = ("name", "metric", "weight")


# What is shown of a cell.


@dataclass(frozen=True, slots=True)
class ShownCell:
    """One case on one variant, as far as a row shows it: what is needed to filter, to sort and to
    draw it.
    """

    cell: CellView
    runs: Tally
    column: int
    address: str
    spark: Spark | None
    cost: float | None
    latency: float | None

    @property
    def outcome(self) -> CellOutcome:
        """The outcome of the cell; one that regressed has failed, whatever its bar."""
        regressed = self.cell.found is not None and self.cell.found.kind == "regressed"
        return "failed" if regressed else self.cell.outcome

    @property
    def tenths(self) -> int | None:
        """The pass rate in tenths, of which only 0 is 0 and only 1 is 10."""
        passed, graded = self.runs
        if passed in (0, graded):
            return (10 if passed else 0) if graded else None
        return min(9, max(1, round(10 * passed / graded)))

    @property
    def tally(self) -> str:
        """`3/12`, or what became of it instead."""
        return (
            f"{self.runs.passed:,}/{self.runs.graded:,}" if self.runs.graded else self.cell.outcome
        )

    @property
    def change(self) -> str | None:
        return CHANGES.get(self.cell.found.kind) if self.cell.found else None


@dataclass(frozen=True, slots=True)
class CellDetail:
    """The details that unfold below a cell.

    Attributes:
        asked: what was sent, the prompt rendered.
        finding: its sentence.
        diff: the words that changed since the base's answer; None where there is nothing to
            compare, or too little in common: `before` is then shown whole.
        compared_run: the run whose answer is compared.
        strip: the status of every run.
        runs: all runs, those that ended alike as one.
        left_out: how many groups of runs are not shown.
        failed_graders: the numbers of the graders that a run failed, as `Page.graders` has them.
        commands: what can be run to know more, each with what it does.
    """

    shown: ShownCell
    asked: str
    finding: str
    before: str | None
    diff: tuple[Piece, ...] | None
    compared_run: int | None
    strip: tuple[Status, ...]
    runs: tuple[RunGroup, ...]
    left_out: int
    failed_graders: tuple[int, ...]
    commands: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PageRow:
    """One case with its cells on all variants.

    Attributes:
        worst: the cell that decided where it stands.
        finding: what became of that since the base, where it is better or worse.
        reason: why a run of it did not pass.
    """

    case: Case
    cells: tuple[ShownCell, ...]
    worst: CellView
    unfolded: bool
    finding: str | None
    reason: str | None

    @property
    def address(self) -> str:
        return address_of(self.case.id)

    @property
    def outcome(self) -> CellOutcome:
        """The outcome of the worst cell."""
        return next(shown.outcome for shown in self.cells if shown.cell is self.worst)

    @property
    def columns(self) -> Sequence[ShownCell | None]:
        """The cells by column; None where the case does not run on a variant."""
        by_column = {shown.column: shown for shown in self.cells}
        return [by_column.get(column) for column in range(max(by_column) + 1)]

    @property
    def place(self) -> str:
        return place_of(self.case)

    @property
    def input(self) -> str:
        return shorten(input_text(self.case), _INPUT_CHARACTERS)

    @property
    def expected(self) -> list[ShownExpectation]:
        return list(shown_expectations(self.case.expect))


@dataclass(frozen=True, slots=True)
class PagePart:
    """Rows that stand together, under the reason that they share or under none."""

    heading: Entry | None
    rows: tuple[PageRow, ...]

    @property
    def unfolded(self) -> bool:
        """Return True if the rows are few enough to be seen at once."""
        return self.heading is None or len(self.rows) <= _FEW_ALIKE

    @property
    def placed_above(self) -> int:
        """The number of its cases whose row is elsewhere."""
        return (
            len({cell.case.id for cell in self.heading.cells}) - len(self.rows)
            if self.heading
            else 0
        )


@dataclass(frozen=True, slots=True)
class PageGroup:
    """A group of the findings with the rows of its cases; the last one has those that need no
    word.
    """

    title: str
    count: int
    tone: Tone
    remark: str
    unfolded: bool
    entries: tuple[Entry, ...]
    more_entries: str
    parts: tuple[PagePart, ...]

    @property
    def rows(self) -> int:
        return sum(len(part.rows) for part in self.parts)


class Page:
    """The rows of a report in the order of its findings."""

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._report = found.summary.report
        self._by_case: dict[str, list[CellView]] = {}
        self._cells_of: Mapping[str, Sequence[CellView]] = found.cells  # type: ignore[assignment]
        every = chain(*self._cells_of.values())
        for cell in {cell.cell: cell for cell in every}.values():
            self._by_case.setdefault(cell.case.id, []).append(cell)
        self._columns = {
            variant: number for number, variant in enumerate(self._report.plan.variants)
        }
        self._unfolded = 0
        self.graders: dict[str, int] = {}
        """The graders that a run failed, as far as details were made, with the number that stands
        for each.
        """

    def groups(self) -> Iterator[PageGroup]:
        """Yield the groups in order; each case is in the first group that one of its cells belongs
        to.
        """
        placed: set[str] = set()
        seen = False  # whether any group is unfolded
        for group in self._found.groups:
            parts = tuple(self._parts(group, placed))
            lists_cells = group.kind in self._cells_of and group.kind != "errored"
            entries = () if lists_cells else group.entries[:_MAX_ENTRIES]
            left_out = 0 if lists_cells else group.total - len(entries)
            if not (entries or parts):
                continue
            rows = sum(len(part.rows) for part in parts if part.heading is None)
            few = 0 < rows <= _FEW_ROWS and group.tone != "good"
            unfolded = (
                group.kind == "regressed"
                or few
                or (not (group.folded and seen) and rows <= _MAX_ROWS_UNFOLDED)
            )
            seen = seen or (unfolded and bool(parts))
            yield PageGroup(
                title=group.title,
                count=group.count,
                tone=group.tone,
                remark=group.remark,
                unfolded=unfolded,
                entries=entries,
                more_entries=number_of(left_out, f"more {group.noun}") if left_out else "",
                parts=parts,
            )
        alone = not placed
        rest = self._rows(self._found.cells["others"], placed, unfold=False)
        if rest:
            unfolded = alone and len(rest) <= _MAX_ROWS_UNFOLDED
            yield PageGroup(
                "Passed", len(rest), "good", "", unfolded, (), "", (PagePart(None, rest),)
            )

    def _parts(self, group: Group, placed: set[str]) -> Iterator[PagePart]:
        """Yield the cases with a reason of their own, then those that share one with others, under
        it.
        """
        unfold = group.tone == "bad" and group.kind != "still failing"
        shared = [entry for entry in group.entries if len(entry.cells) > 1]
        together = {cell.key for entry in shared for cell in entry.cells}
        single = [cell for cell in self._cells_of.get(group.kind, ()) if cell.key not in together]
        parts = [
            PagePart(None, self._rows(single, placed, unfold=unfold and group.kind != "errored"))
        ]
        for entry in shared:
            first, *others = entry.cells
            few = unfold and len(entry.cells) <= _FEW_ALIKE
            rows = (
                *self._rows([first], placed, unfold=few),
                *self._rows(others, placed, unfold=False),
            )
            parts.append(
                PagePart(entry, tuple(replace(row, reason=None) for row in rows))
            )  # it stands above them
        yield from (part for part in parts if part.rows)

    def _rows(
        self, cells: Iterable[CellView], placed: set[str], *, unfold: bool
    ) -> tuple[PageRow, ...]:
        rows = []
        for cell in cells:
            if cell.case.id in placed:
                continue
            placed.add(cell.case.id)
            unfolded = unfold and self._unfolded < _MAX_UNFOLDED
            self._unfolded += unfolded
            rows.append(self._row(cell, unfolded=unfolded))
        return tuple(rows)

    def _row(self, worst: CellView, *, unfolded: bool) -> PageRow:
        cells = sorted(self._by_case[worst.case.id], key=lambda cell: self._columns[cell.variant])
        changed = worst.found is not None and worst.found.kind in ("regressed", "suspect", "fixed")
        return PageRow(
            case=worst.case,
            cells=tuple(map(self._shown, cells)),
            worst=worst,
            unfolded=unfolded,
            finding=worst.finding if changed else None,
            reason=self._reason(worst),
        )

    def _reason(self, cell: CellView) -> str | None:
        """Return the first reason that a run of a cell did not pass."""
        if cell.outcome in ("passed", "not run"):
            return None
        status: Status = "errored" if cell.outcome == "errored" else "failed"
        first = cell.results(status, most=1)
        return reasons_of(first[0])[0].text if first else None

    def _shown(self, cell: CellView) -> ShownCell:
        records = self._report.records_of((cell.cell,))
        costs = [record.cost_usd for record in records if record.cost_usd is not None]
        latencies = sorted(record.latency_s for record in records)
        runs = cell.counts.tally
        if self._report.confirmation:
            further = self._report.confirmation.counts((cell.cell,))
            runs = Tally(runs.passed + further.passed, runs.graded + further.graded)
        return ShownCell(
            cell=cell,
            runs=runs,
            column=self._columns[cell.variant],
            address=address_of(
                cell.case.id, cell.variant if self._found.several_variants else None
            ),
            spark=spark(self._found.summary.compared, cell.key, runs),
            cost=sum(costs) if costs else None,
            latency=latencies[len(latencies) // 2] if latencies else None,
        )

    def details(self, row: PageRow) -> list[CellDetail]:
        """Return what unfolds of a case, the cell that decided where it stands first."""
        ordered = sorted(row.cells, key=lambda shown: (shown.cell is not row.worst, shown.column))
        return [self._detail(shown) for shown in ordered]

    def _detail(self, shown: ShownCell) -> CellDetail:
        cell, summary = shown.cell, self._found.summary
        results = self._results(cell)
        groups = [RunGroup(run.results) for run in alike(results)]
        groups.sort(key=lambda group: ("failed", "errored", "passed").index(group.status))
        failed = (
            grade.grader for group in groups for grade in group.first.grades if not grade.passed
        )
        before = summary.before.get(cell.key)
        compared = next((group.first for group in groups if group.status == "failed"), None)
        after = RunView((compared,)).answer if compared else None
        diff = None
        if before is not None and after is not None:
            diff = word_diff(before, shorten(after, _DIFF_CHARACTERS))
        return CellDetail(
            shown=shown,
            asked=visible(
                abridge(asked_text(cell.case, results[0] if results else None), _ASKED_CHARACTERS)
            ),
            finding=cell.finding,
            before=before,
            diff=diff,
            compared_run=compared.run if compared else None,
            strip=tuple(result.status for result in results),
            runs=tuple(groups[:_MAX_RUN_GROUPS]),
            left_out=len(groups) - _MAX_RUN_GROUPS,
            failed_graders=tuple(
                self.graders.setdefault(name, len(self.graders)) for name in dict.fromkeys(failed)
            ),
            commands=tuple(self._commands(cell)),
        )

    def _results(self, cell: CellView) -> list[Result]:
        """Return every run of a cell, the confirm runs last."""
        results = list(self._report.results(self._report.plan.indices(cell.cell)))
        if more := self._report.confirmation:
            results += more.results(more.plan.indices(cell.cell))
        return results

    def _commands(self, cell: CellView) -> Iterator[tuple[str, str]]:
        """Yield commands that tell more of a cell, with what they do."""
        file = self._report.suite.file
        is_config = file.endswith((".yaml", ".yml", ".json"))
        words = ["ci-evals", "explain", cell.case.id]
        words += ["--config", file] if is_config and file not in DEFAULT_NAMES else []
        if self._found.several_variants:
            words += ["--provider", cell.variant.provider]
            words += ["--prompt", cell.variant.prompt] if cell.variant.prompt else []
        yield "Explain", shlex.join(words)
        if is_config:  # cases of pytest and of Python are run by what they are part of
            words = ["ci-evals", "run", file, "--case", cell.case.id]
            words += ["--providers", cell.variant.provider] if self._found.several_variants else []
            yield "Run this case", shlex.join(words)

    # What can be chosen.

    def choices(self) -> dict[str, list[tuple[str, int]]]:
        """Return the options of each filter with the number of cells that they leave, in their
        usual order.
        """
        outcomes: dict[str, int] = dict.fromkeys(_OUTCOMES, 0)
        changes: dict[str, int] = dict.fromkeys(CHANGES.values(), 0)
        tags: dict[str, int] = {}
        for cells in self._by_case.values():
            for tag in dict.fromkeys(cells[0].case.tags):
                tags[tag] = tags.get(tag, 0) + len(cells)
            for cell in cells:
                outcomes[cell.outcome] += 1
                if cell.found and cell.found.kind in CHANGES:
                    changes[CHANGES[cell.found.kind]] += 1
        found = {"outcome": outcomes, "change": changes, "tag": tags}
        return {
            name: [(option, number) for option, number in each.items() if number][:MAX_OPTIONS]
            for name, each in found.items()
        }


@dataclass(frozen=True, slots=True)
class Slice:
    """Some cells of a report together: their mean pass rate with its bounds, and their graded
    runs.
    """

    name: str
    rate: float
    lower: float
    upper: float
    cells: int
    runs: Tally


def slices(report: SuiteReport, gate: Gate | None) -> dict[str, list[Slice]]:
    """Return the pass rates by prompt and by provider, where both vary, and by tag; the lowest
    first.
    """
    prompts: dict[str, list[int]] = {}
    providers: dict[str, list[int]] = {}
    tags: dict[str, list[int]] = {}
    for cell in report.cells:
        prompts.setdefault(cell.variant.prompt or "", []).append(cell.cell)
        providers.setdefault(cell.variant.provider, []).append(cell.cell)
        for tag in dict.fromkeys(cell.case.tags):
            tags.setdefault(tag, []).append(cell.cell)
    crossed = len(prompts) > 1 and len(providers) > 1
    found = {
        "prompt": prompts if crossed else {},
        "provider": providers if crossed else {},
        "tag": tags,
    }
    return {by: _slices(report, gate, each) for by, each in found.items() if each}


def _slices(
    report: SuiteReport, gate: Gate | None, cells_of: Mapping[str, Sequence[int]]
) -> list[Slice]:
    shown = []
    for name, cells in cells_of.items():
        tallies = [report.by_cell[cell].tally for cell in cells]
        if estimate := pass_rate(tallies):
            lower, upper = estimate.bounds((gate or Gate()).confidence)
            runs = Tally(
                sum(tally.passed for tally in tallies), sum(tally.graded for tally in tallies)
            )
            shown.append(Slice(name, float(estimate.rate), lower, upper, len(cells), runs))
    return sorted(shown, key=lambda each: each.rate)


_OUTCOMES: Final[tuple[CellOutcome, ...]] = ("failed", "errored", "flaky", "not run", "passed")
