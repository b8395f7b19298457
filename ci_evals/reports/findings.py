"""The facts, notes and groups of cells that a person is shown of a summary, with their sentences
and in order.

The pages for people are views of `findings`: terminal, summary.md, the comment and report.html.
Annotations, `explain` and the formats for programs read `reports/cells.py`.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil, floor
from typing import Final, Literal

from ci_evals.format import name_of, number_of, one_line, percent, seconds
from ci_evals.gate.bars import VERDICTS, ScopeVerdict, worst_first
from ci_evals.gate.rules import RuleVerdict
from ci_evals.gate.verdict import population_bounds
from ci_evals.gate.wording import (
    SourceSentence,
    errored_headline,
    quarantine_clause,
    same_reason,
    scope_clause,
    scope_subject,
    split_outage_message,
    unchanged_clause,
)
from ci_evals.model.case import Case, Variant
from ci_evals.model.report import SuiteReport
from ci_evals.model.result import Result
from ci_evals.reports.cells import (
    Changes,
    ErrorGroup,
    JudgedCell,
    MatrixChange,
    brief_chance,
    brief_tally,
    changes,
    common_error,
    error_groups,
    failed_runs,
    finding_of,
    frames_of,
    group_alike,
    matrix_changes,
    place_of,
    reason_lines,
    reasons_of,
)
from ci_evals.reports.notes import basis, bounds_fact, comparison_notes, facts, notes, outcome
from ci_evals.reports.summary import Note, Summary
from ci_evals.reports.variants import (
    MetricReport,
    Standing,
    TaskReport,
    Trend,
    VariantChange,
    VariantReport,
    leaderboard,
    trend_of,
    variant_changes,
    variant_reports,
)
from ci_evals.stats.rates import Bounds, suite_flip_rate

MAX_ENTRIES: Final = 200
"""Entries of a group; more than that have no room in any format."""

MAX_CASES_OF_ERROR: Final = 3

_MAX_NAMED = 3
_MOST_BY_NAME = 20  # cases
_NAMED_CHARACTERS = 80
_MAX_NAMES = 20
_HEADLINE_CHARACTERS = 80
_MAX_REASONS = 8
_FEWEST_ALIKE = 3
_REASON_CHARACTERS = 300

Tone = Literal["bad", "unsure", "good"]
GroupKind = Literal[
    "against",
    "warnings",
    "regressed",
    "errored",
    "unrecorded",
    "failing",
    "possible",
    "fixed",
    "still failing",
    "failed some",
    "changed",
    "flaky",
    "over budget",
    "quarantined",
]


_DECIDING: Final[tuple[GroupKind, ...]] = ("against", "regressed", "errored", "failing")

_UNSURE: Final[tuple[GroupKind, ...]] = (
    "warnings",
    "possible",
    "failed some",
    "unrecorded",
    "changed",
    "flaky",
    "over budget",
    "quarantined",
)


class ForeignText(str):
    """A text that others chose, inside a sentence of ours; a format marks it as such."""

    __slots__ = ()


Sentence = tuple[str, ...]
"""A sentence in pieces, of which the `ForeignText`s are names and texts that others wrote."""


def join_sentence(
    sentence: Sentence, name: Callable[[str], str] = name_of, text: Callable[[str], str] = str
) -> str:
    """Return a sentence as one text; `name` and `text` escape names and our own words for a
    format.
    """
    return "".join(
        name(piece) if isinstance(piece, ForeignText) else text(piece) for piece in sentence
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to be told: `refund on gpt-4o: 30 of 30 on main, 4 of 10 here`.

    Attributes:
        subject: who or what it is about.
        finding: what is to be said of it; may be empty.
        critical: whether it alone makes the gate red.
        reasons: why its runs failed, the most frequent reason first.
        missed: the same without what the answers have instead, for where they are shown.
        cells: the cells that it is about, if it is about any; several only where all failed for the
            same reason.
        failed: the first failed run of the first cell, if an answer is worth showing.
    """

    subject: Sentence
    finding: Sentence = ()
    critical: bool = False
    reasons: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    cells: tuple[JudgedCell, ...] = ()
    failed: Result | None = None

    @property
    def cell(self) -> JudgedCell | None:
        """The cell that it is about, or the first of several."""
        return self.cells[0] if self.cells else None

    @property
    def text(self) -> Sentence:
        """`40 cases on agent: no answer from localhost:8000, in faq 1 (evals.yaml:3), faq 2
        (evals.yaml:5)`.
        """
        named = (
            (", in ", *_case_list([cell.case for cell in self.cells]))
            if len(self.cells) > 1
            else ()
        )
        return (*self.subject, *((": ", *self.finding) if self.finding else ()), *named)

    def line(self, name: Callable[[str], str] = name_of, text: Callable[[str], str] = str) -> str:
        """Return it as one text; `name` and `text` escape names and our own words for a format."""
        return join_sentence(self.text, name, text)


@dataclass(frozen=True, slots=True)
class Group:
    """Things of one kind.

    Attributes:
        title: what stands above them: `Regressed`.
        noun: what one of them is called where it is left out: `regressed case`.
        count: the number beside the title: of cases, where they are that.
        total: how many entries there are, of which `entries` has the first.
        folded: whether nothing in it must be seen at once.
        remark: what is said beside the title.
    """

    kind: GroupKind
    title: str
    noun: str
    count: int
    total: int
    entries: tuple[Entry, ...]
    folded: bool = False
    remark: str = ""

    @property
    def heading(self) -> str:
        """`Regressed (3)`."""
        return f"{self.title} ({self.count:,}){f': {self.remark}' if self.remark else ''}"

    @property
    def tone(self) -> Tone:
        if self.kind == "fixed":
            return "good"
        return "unsure" if self.kind in _UNSURE else "bad"


@dataclass(frozen=True, slots=True)
class CellRow:
    """A cell that decided, or that was fixed, as figures in columns: `30/30` on the base, `4/10`
    here, `p < 0.001`.

    `base` is empty where it was not compared.
    """

    kind: GroupKind
    cell: JudgedCell
    base: str
    here: str
    note: str


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that a person is shown of a summary, in the order of reading.

    Attributes:
        headline: what happened, by name: `2 cases regressed: refund, cancel`.
        evidence: the verdict's reason, where neither the headline nor `rows` say it; else empty.
        facts: what the run came to, in a few words each: passed runs, the base's pass rate,
            repeats, cost, time.
        outcome: `34 of 43 graded runs passed, … in 12.5 s`.
        expected: what similar new cases would come to, where there are cases enough to tell.
        notes: what else is to be known of the run.
        variants, leaderboard: the figures.
        trend: the pass rates of the variants in earlier reports, where there are two.
        variant_changes: each variant beside the baseline; empty without a comparison.
        bars: the parts of the matrix that are judged apart, the worst first; empty if only the
            suite is.
        cells: every cell, sorted by what is to be said of it.
        rows: the cells that decided and those that were fixed, in the order of `groups`.
        groups: the cells to look at with what there is to say, the most important first; none is
            empty.
        basis: what the verdict rests on: the baseline, the size of the plan, what bounds mean, the
            cost.
    """

    summary: Summary
    headline: Sentence
    evidence: str
    facts: tuple[str, ...]
    outcome: str
    expected: str | None
    notes: tuple[Note, ...]
    variants: tuple[VariantReport, ...]
    variant_changes: Mapping[Variant, VariantChange]
    leaderboard: tuple[Standing, ...]
    trend: Trend | None
    bars: tuple[ScopeVerdict, ...]
    cells: Changes
    rows: tuple[CellRow, ...]
    groups: tuple[Group, ...]
    basis: tuple[SourceSentence | str, ...]

    @property
    def verdict(self) -> str:
        """`Fail`."""
        return VERDICTS[self.summary.verdict.status]

    @property
    def several_variants(self) -> bool:
        return len(self.variants) > 1

    @property
    def metrics(self) -> list[tuple[Variant, MetricReport]]:
        """The metrics of graders: every variant by the first one, then by the second."""
        names = dict.fromkeys(metric.name for each in self.variants for metric in each.metrics)
        return [
            (each.variant, one)
            for name in names
            for each in self.variants
            for one in each.metrics
            if one.name == name
        ]

    @property
    def tasks(self) -> list[tuple[Variant, TaskReport]]:
        """The classifications of every variant."""
        return [(each.variant, task) for each in self.variants for task in each.classifications]

    def group(self, kind: GroupKind) -> Group | None:
        """Return the group of this kind, if there is one."""
        return next((group for group in self.groups if group.kind == kind), None)


def findings(summary: Summary) -> Findings:
    """Decide what a person is shown of a summary."""
    report, scopes = summary.report, summary.verdict.scopes
    bounds, variants, cells = (
        population_bounds(report, summary.gate),
        variant_reports(summary),
        changes(summary),
    )
    headline, rows, reason = _headline(summary, cells), tuple(_rows(cells)), summary.verdict.reason
    text = "".join(headline)
    of_each_case = summary.gate is not None and summary.gate.min_case_pass_rate is not None
    bars = [
        scope
        for scope in scopes
        if scope.bar is not None
        and not (of_each_case and scope.kind == "case" and scope.status == "pass")
    ]
    return Findings(
        summary=summary,
        headline=headline,
        evidence="" if any(row.kind == "regressed" for row in rows) else _evidence(reason, text),
        facts=tuple(fact for fact in facts(summary) if fact.partition(" (")[0] != text),
        outcome=f"{outcome(report)} in {seconds(report.duration_s)}",
        expected=_expected_on_new_cases(bounds) if bounds else None,
        notes=(
            *notes(report),
            *comparison_notes(summary),
            Note("Bounds", bounds_fact(summary.gate)),
        ),
        variants=variants,
        variant_changes=variant_changes(summary),
        leaderboard=leaderboard(variants),
        trend=trend_of(summary, variants),
        bars=tuple(worst_first(bars)) if len(bars) > 1 else (),
        cells=cells,
        rows=rows,
        groups=_fold(summary, [group for group in _groups(summary, cells) if group.total]),
        basis=tuple(basis(summary)),
    )


def _expected_on_new_cases(bounds: Bounds) -> str:
    whole = f"{floor(100 * bounds.lower)}–{ceil(100 * bounds.upper)} %"
    return f"Expected on similar new cases: {whole} (not part of the verdict)"


def _evidence(reason: str, headline: str) -> str:
    """Return what the verdict's reason says beyond the headline."""
    if reason in headline:
        return ""
    return reason.removesuffix(headline).removesuffix(": ").removeprefix(f"{headline}; ")


# The headline.


def _headline(summary: Summary, found: Changes) -> Sentence:
    """Return what happened, by name where single cases decided; else the verdict's reason, or a
    shorter form of it.
    """
    report, verdict, comparison = summary.report, summary.verdict, summary.compared
    passed = f"{report.gated.passed:,} of {number_of(report.gated.graded, 'run')} passed"
    worst = next((scope for scope in worst_first(verdict.scopes) if scope.bar is not None), None)
    leading = verdict.leading.rule if isinstance(verdict.leading, RuleVerdict) else None
    text: Sentence = (_short_reason(summary),)
    if leading in ("critical", "regressions"):
        red = verdict.blocking_cells
        regressed = [cell for cell in found.regressed if cell.key in red] or found.regressed
        allowed = summary.gate.max_regressions if summary.gate else 0
        limit = (f"; the gate allows {allowed}",) if allowed and leading == "regressions" else ()
        text = (*_counted(summary, regressed, "regressed"), *limit)
    elif leading == "variant" and comparison is not None:
        fallen = min(comparison.variants, key=lambda each: each.adjusted_p)
        base, here = (
            percent(fallen.base_rate, fallen.head_rate),
            percent(fallen.head_rate, fallen.base_rate),
        )
        text = (
            f"pass rate fell from {base} on {comparison.baseline.label} to {here}",
            *_on(summary, fallen.variant),
        )
    elif verdict.leading in ("all errored", "too many errored"):
        shorter = errored_headline(report)
        text = (verdict.reason if len(verdict.reason) <= _HEADLINE_CHARACTERS else shorter,)
    elif leading is not None or verdict.status == "error" or report.suite.without_secrets:
        pass
    elif verdict.status == "pass":
        passed = "; ".join(filter(None, (passed, quarantine_clause(report))))
        text = (passed,)
        if found.regressed:
            text = (
                f"{passed}; ",
                *_counted(summary, found.regressed, "regressed, as the gate allows"),
            )
    elif (
        worst is not None
        and worst.rate is not None
        and worst.bar is not None
        and worst.rate < worst.bar
    ):
        failed = (*found.failing, *found.still_failing)
        rate, bar = percent(worst.rate, worst.bar), percent(worst.bar, worst.bar)
        if verdict.status == "borderline":
            text = (f"{scope_subject(worst, report)}{rate} is below {bar}, but could be luck",)
        elif failed and worst.kind != "metric":
            text = _counted(summary, failed, "failed")
    clause = scope_clause(report)
    return text if not clause or verdict.reason in text else (clause, *text)


def _short_reason(summary: Summary) -> str:
    """Return the verdict's reason; of recorded answers, only what they prove."""
    proven = unchanged_clause(summary.report).partition(";")[0]
    return proven if proven and summary.verdict.status != "error" else summary.verdict.reason


def _counted(summary: Summary, cells: Sequence[JudgedCell], what: str) -> Sentence:
    """`6 cases regressed: refund (critical) on gpt-4o, cancel on 2 variants and 4 more`; of many
    cases only how many.

    No more names are told than fit into two lines on a phone, but the first one always is.
    """
    of_case = [list(alike) for alike in group_alike(cells, lambda cell: cell.case.id)]
    total = len(summary.report.plan.cases)
    if len(of_case) > _MOST_BY_NAME:
        return (f"{len(of_case):,} of {number_of(total, 'case')} {what}",)
    named: list[str] = []
    room = _NAMED_CHARACTERS
    for number, (cell, *others) in enumerate(of_case[:_MAX_NAMED]):
        on = (
            (f" on {number_of(1 + len(others), 'variant')}",)
            if others
            else _on(summary, cell.variant)
        )
        critical = (" (critical)",) if any(each.critical for each in (cell, *others)) else ()
        pieces = (", " if number else "", ForeignText(cell.case.id), *critical, *on)
        room -= sum(map(len, pieces))
        if room < 0 and number:
            named += [f" and {len(of_case) - number:,} more"]
            break
        named += pieces
    else:
        left_out = len(of_case) - _MAX_NAMED
        named += [f" and {left_out:,} more"] if left_out > 0 else []
    return (f"{number_of(len(of_case), 'case')} {what}: ", *named)


# Cells in columns.


def _rows(found: Changes) -> Iterator[CellRow]:
    chosen: tuple[tuple[GroupKind, Sequence[JudgedCell]], ...] = (
        ("regressed", found.regressed),
        ("failing", found.failing),
        ("fixed", found.fixed),
    )
    for kind, cells in chosen:
        for cell in cells:
            known = cell.found if cell.found and cell.found.base.graded else None
            base, here = (known.base, known.head) if known else (None, cell.counts.tally)
            note = (
                "fixed"
                if kind == "fixed"
                else brief_chance(cell.found.p)
                if known and cell.found
                else ""
            )
            if cell.found and cell.found.kind in ("new", "edited"):
                note = cell.found.kind
            yield CellRow(kind, cell, brief_tally(base) if base else "", brief_tally(here), note)


# Groups.


def _fold(summary: Summary, groups: Sequence[Group]) -> tuple[Group, ...]:
    """Fold what did not decide where something did, or where the suite passed."""
    decided = summary.verdict.status == "pass" or any(group.kind in _DECIDING for group in groups)
    return tuple(
        replace(group, folded=group.folded or (decided and group.kind not in _DECIDING))
        for group in groups
    )


def _groups(summary: Summary, found: Changes) -> Iterator[Group]:
    report = summary.report
    errors = list(_error_groups(summary)) if report.errored else []
    yield from _objections(summary)
    if summary.verdict.status == "error":  # then the errors are why
        yield from errors
    yield _cell_group(summary, "regressed", "Regressed", "regressed case", found.regressed)
    if summary.verdict.status != "error":
        yield from errors
    yield _cell_group(summary, "failing", "Failing", "failing case", found.failing)
    below = any(cell.below_bar for cell in found.possible)
    title = "Possible, within noise"
    yield _cell_group(
        summary, "possible", title, "possibly worse case", found.possible, folded=not below
    )
    title = "Failed some runs"
    yield _cell_group(summary, "failed some", title, "case with failed runs", found.failed_some)
    yield _cell_group(summary, "fixed", "Fixed", "fixed case", found.fixed)
    yield _cell_group(
        summary, "still failing", "Still failing", "still failing case", found.still_failing
    )
    if summary.compared:
        yield _matrix_group(matrix_changes(summary.compared))
    flaky = _cell_group(summary, "flaky", "Flaky, but within the bar", "flaky case", found.flaky)
    flips = suite_flip_rate(counts.tally for counts in report.by_cell)
    remark = (
        f"running again would change {percent(round(flips, 3))} of the verdicts" if flips else ""
    )
    yield replace(flaky, folded=summary.compared is not None, remark=remark)
    yield _over_budget_runs(summary)
    yield _cell_group(
        summary, "quarantined", "Quarantined", "quarantined case", found.quarantined, folded=True
    )


def _objections(summary: Summary) -> Iterator[Group]:
    """Yield objections to merging that neither the headline nor another group tells, and what is
    only a warning.
    """
    verdict = summary.verdict
    told = [
        rule
        for rule in verdict.rules
        if rule.rule not in ("critical", "regressions") and rule is not verdict.leading
    ]
    against = tuple(Entry((rule.sentence,)) for rule in told if rule.status != "borderline")
    yield Group("against", "Also against merging", "objection", len(against), len(against), against)
    warnings = tuple(Entry((rule.sentence,)) for rule in told if rule.status == "borderline")
    yield Group("warnings", "Warnings", "warning", len(warnings), len(warnings), warnings)


def _cell_group(
    summary: Summary,
    kind: GroupKind,
    title: str,
    noun: str,
    cells: Sequence[JudgedCell],
    *,
    folded: bool = False,
) -> Group:
    """Tell each cell, but in one entry those of a variant that failed for the same reason."""
    causes = {cell.key: _common_cause(summary.report, cell) for cell in cells}

    def look(cell: JudgedCell) -> Hashable:
        cause = causes[cell.key]
        return (cause, cell.variant, cell.critical) if cause else cell.key

    entries: list[Entry] = []
    total = 0
    for alike in group_alike(cells, look):
        merges = len(alike) >= _FEWEST_ALIKE and causes[alike[0].key] is not None
        total += 1 if merges else len(alike)
        room = max(0, MAX_ENTRIES - len(entries))
        if not merges:
            entries += (_cell_entry(summary, cell) for cell in alike[:room])
        elif room:
            entries.append(_alike_entry(summary, alike))
    count = len({cell.case.id for cell in cells})
    return Group(kind, title, noun, count, total, tuple(entries), folded)


def _common_cause(report: SuiteReport, cell: JudgedCell) -> Hashable:
    """Return a key of the reason that all failed runs of a cell share, whatever they answered; None
    if there is none.

    A cell that failed without an answer has the cause of its error only if no run of it passed.
    """
    failed = failed_runs(report, cell.cell)
    if any(result.error for result in failed):
        error = common_error(report, cell)
        return same_reason(error) if error else None
    causes = {reasons_of(result, with_answer=False) for result in failed}
    return causes.pop() if len(causes) == 1 else None


def _alike_entry(summary: Summary, cells: Sequence[JudgedCell]) -> Entry:
    """`40 cases on agent: no answer from localhost:8000: …`."""
    subject = (number_of(len(cells), "case"), *_on(summary, cells[0].variant))
    failed = failed_runs(summary.report, cells[0].cell)[0]
    if failed.error is None:
        finding = (ForeignText(", ".join(reasons_of(failed, with_answer=False))),)
        return Entry(subject, finding, cells[0].critical, cells=tuple(cells), failed=failed)
    errors = [
        each.error
        for cell in cells
        for each in failed_runs(summary.report, cell.cell, 1)
        if each.error
    ]
    error = min(errors, key=lambda error: error.kind == "given_up")  # that one repeats the others
    message = ForeignText(one_line(error.message or error.kind, _REASON_CHARACTERS))
    frames = tuple(frames_of(error))
    return Entry(subject, (message,), cells[0].critical, frames, frames, tuple(cells))


def _cell_entry(summary: Summary, cell: JudgedCell) -> Entry:
    """Tell the outcome of a cell, and the reasons that runs of it failed."""
    was = (" (was ", ForeignText(cell.renamed_from), ")") if cell.renamed_from else ()
    failed = failed_runs(summary.report, cell.cell)
    return Entry(
        (ForeignText(cell.case.id), *_on(summary, cell.variant), *was),
        (finding_of(cell, summary.comparison),),
        critical=cell.critical,
        reasons=tuple(reason_lines(failed, _MAX_REASONS)),
        missed=tuple(reason_lines(failed, _MAX_REASONS, with_answer=False)),
        cells=(cell,),
        failed=failed[0] if failed else None,
    )


def _on(summary: Summary, variant: Variant) -> tuple[str, ...]:
    """` on gpt-4o`, where there are several variants."""
    return (" on ", ForeignText(str(variant))) if len(summary.report.plan.variants) > 1 else ()


def _error_groups(summary: Summary) -> Iterator[Group]:
    """Yield errored runs by reason, then the cases without a recorded answer."""
    found = error_groups(summary.report)
    groups = [group for group in found if group.kind != "not_recorded"]
    entries = tuple(_error_entry(summary, group) for group in groups[:MAX_ENTRIES])
    yield Group(
        "errored",
        "Errored",
        "error message",
        sum(group.runs for group in groups),
        len(groups),
        entries,
    )
    unrecorded = tuple(
        Entry((ForeignText(case.id), *_on(summary, group.variant)))
        for group in found
        if group.kind == "not_recorded"
        for case in group.cases
    )
    title, count = "Not checked: no recorded answer", len(unrecorded)
    yield Group(
        "unrecorded", title, "unchecked case", count, count, unrecorded[:MAX_ENTRIES], folded=True
    )


def _error_entry(summary: Summary, group: ErrorGroup) -> Entry:
    """`102 runs on gpt-4o: 429: slow down, in faq 1 (evals.yaml:3), faq 2 (evals.yaml:5) and 31
    more cases`.
    """
    subject = (number_of(group.runs, "run"), *_on(summary, group.variant))
    message = group.message
    if group.kind == "outage":
        sentence, cause = split_outage_message(message)
        message = cause if cause and sentence in summary.verdict.reason else message
    finding = (ForeignText(message), ", in ", *_case_list(group.cases))
    return Entry(subject, finding, reasons=group.frames, missed=group.frames)


def _case_list(cases: Sequence[Case]) -> Iterator[str]:
    """Yield the first cases with their places, and how many others there are."""
    for number, case in enumerate(cases[:MAX_CASES_OF_ERROR]):
        place = place_of(case)
        yield from (
            ", " if number else "",
            ForeignText(case.id),
            *((" (", ForeignText(place), ")") if place else ()),
        )
    if (left_out := len(cases) - MAX_CASES_OF_ERROR) > 0:
        yield f" and {number_of(left_out, 'more case')}"


def _matrix_group(lists: Sequence[MatrixChange]) -> Group:
    entries = tuple(Entry((change.heading,), _matrix_change_text(change)) for change in lists)
    title = ", ".join(
        dict.fromkeys(change.word.removesuffix(" variant") for change in lists)
    ).capitalize()
    count = sum(len(change.names) for change in lists)
    return Group("changed", title, "change", count, len(entries), entries, folded=True)


def _matrix_change_text(change: MatrixChange) -> tuple[str, ...]:
    """`a, old → new, … and 1 more`."""
    text: list[str] = []
    for number, name in enumerate(change.names[:_MAX_NAMES]):
        text += [", "] if number else []
        text += [piece for part in name for piece in (" → ", ForeignText(part))][1:]
    left_out = len(change.names) - _MAX_NAMES
    return (*text, f", … and {left_out:,} more") if left_out > 0 else tuple(text)


def _over_budget_runs(summary: Summary) -> Group:
    report = summary.report
    count = report.budget_violations
    chosen = (
        islice(
            (each for each in report.results() if each.budget_violations), min(count, MAX_ENTRIES)
        )
        if count
        else ()
    )
    entries = tuple(
        Entry(
            (
                ForeignText(result.case),
                *_on(summary, Variant(result.provider, result.prompt)),
                f", run {result.run}: {', '.join(result.budget_violations)}",
            )
        )
        for result in chosen
    )
    return Group("over budget", "Over budget", "over-budget run", count, count, entries)
