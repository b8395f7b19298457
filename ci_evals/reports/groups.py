"""The groups of cells, errors and changes that a reviewer looks at, and what is said of each."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Literal, get_args

from ci_evals.errors import ErrorKind
from ci_evals.format import name_of, number_of, one_line, percent
from ci_evals.gate.cases import CaseComparison
from ci_evals.gate.compare import Change, Comparison
from ci_evals.gate.run_errors import same_reason
from ci_evals.gate.wording import case_finding, variants_clause
from ci_evals.model.case import Case, Variant
from ci_evals.model.report import SuiteReport
from ci_evals.model.result import Result
from ci_evals.reports.summary import Summary, once_per_summary
from ci_evals.reports.view import (
    FEW,
    LINE_CHARACTERS,
    MANY,
    MOST,
    CellView,
    RunView,
    cell_views,
    frames_of,
    group_by,
    place_of,
    reasons_of,
)
from ci_evals.stats.rates import suite_flip_rate

_FEWEST_ALIKE = 3  # cells that failed for the same reason, from which on they share an entry

Tone = Literal["bad", "unsure", "good"]

CellGroup = Literal[
    "regressed",
    "probably worse",
    "can't tell",
    "fixed",
    "failing",
    "still failing",
    "failed some",
    "flaky",
    "errored",
    "quarantined",
    "others",
]

GroupKind = CellGroup | Literal["against", "warnings", "unrecorded", "changed", "over budget"]

_WORSE: Final[tuple[CellGroup, ...]] = ("regressed", "probably worse", "can't tell")
_DECIDING: Final[tuple[GroupKind, ...]] = ("against", "regressed", "errored", "failing")


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
    pieces = []
    for piece in sentence:
        show = name if isinstance(piece, ForeignText) else text
        pieces.append(show(piece))
    return "".join(pieces)


@dataclass(frozen=True, slots=True)
class GroupItem:
    """One item of a group: `refund on gpt-4o: 30 of 30 on main, 4 of 10 here`.

    Attributes:
        subject: who or what it is about.
        finding: what is said of it; may be empty.
        critical: its regression alone makes the gate red.
        cells: the cells that it is about, if any; several only where all failed for the same
            reason.
        run: the first failed run of the first cell, if its answer is worth showing.
        frames: where the team's code crashed, if several runs share that.
    """

    subject: Sentence
    finding: Sentence = ()
    critical: bool = False
    cells: tuple[CellView, ...] = ()
    run: RunView | None = None
    frames: tuple[str, ...] = ()

    @property
    def cell(self) -> CellView | None:
        """The cell that it is about, or the first of several."""
        if not self.cells:
            return None
        return self.cells[0]

    @property
    def reasons(self) -> list[str]:
        """The reasons of its failed runs, the most frequent first."""
        if len(self.cells) == 1:
            return self.cells[0].failures.lines()
        return list(self.frames)

    @property
    def missed(self) -> list[str]:
        """The reasons without what the answers had, for where an answer is shown, too."""
        if len(self.cells) == 1:
            return self.cells[0].failures.lines(with_answers=False)
        return list(self.frames)

    @property
    def cases(self) -> Sentence:
        """`, in faq 1 (evals.yaml:3), faq 2 (evals.yaml:5)`, if it is about several cells."""
        if len(self.cells) < 2:
            return ()
        return (", in ", *list_cases([cell.case for cell in self.cells]))

    @property
    def text(self) -> Sentence:
        """`40 cases on agent: no answer from localhost:8000, in faq 1 (evals.yaml:3), faq 2
        (evals.yaml:5)`.
        """
        if not self.finding:
            return (*self.subject, *self.cases)
        return (*self.subject, ": ", *self.finding, *self.cases)

    def line(self, name: Callable[[str], str] = name_of, text: Callable[[str], str] = str) -> str:
        """Return it as one text; `name` and `text` escape names and our own words for a format."""
        return join_sentence(self.text, name, text)


@dataclass(frozen=True, slots=True)
class Group:
    """Items of one kind.

    Attributes:
        title: `Regressed`.
        noun: what one item is called where it is left out: `regressed case`.
        count: the number in the heading: of cases, if it has cases.
        total: how many entries there are; `entries` has the first of them.
        folded: nothing in it must be seen at once.
        remark: an addition to the heading.
    """

    kind: GroupKind
    title: str
    noun: str
    count: int
    total: int
    entries: tuple[GroupItem, ...]
    folded: bool = False
    remark: str = ""

    @property
    def heading(self) -> str:
        """`Regressed (3)`."""
        heading = f"{self.title} ({self.count:,})"
        if self.remark:
            heading += f": {self.remark}"
        return heading

    @property
    def tone(self) -> Tone:
        if self.kind in ("fixed", "others"):
            return "good"
        if self.kind in _DECIDING or self.kind == "still failing":
            return "bad"
        return "unsure"


# Cells.


@once_per_summary
def cells_by_group(summary: Summary) -> Mapping[CellGroup, Sequence[CellView]]:
    """Sort the cells of a report. Each is in one group, but what is `fixed` may be flaky, too.

    `regressed`, `probably worse`, `can't tell` and `fixed` are what the comparison found, the
    surest first. Of the other cells, `failing` and `still failing` failed, the latter on the base
    branch too; `failed some` are below their bar, which they may miss by chance; `flaky` are within
    their bar, but have failed runs; of `errored` ones no run was graded; `others` passed or did not
    run. They have the lowest pass rate first. What is in quarantine is in no other group.
    """
    groups: dict[CellGroup, list[CellView]] = {group: [] for group in get_args(CellGroup)}
    cells = {cell.key: cell for cell in cell_views(summary)}
    compared: Mapping[Change, CellGroup] = {
        "worse": "regressed",
        "probably worse": "probably worse",
        "can't tell": "can't tell",
        "fixed": "fixed",
    }
    if summary.compared:
        for found in summary.compared.select("regressed", "suspect", "fixed"):
            if found.key in cells:
                groups[compared[summary.compared.change(found)]].append(cells[found.key])
    by_pass_rate = sorted(cells.values(), key=lambda cell: cell.counts.pass_rate or 0.0)
    placed = {cell.key for kind in _WORSE for cell in groups[kind]}
    for cell in by_pass_rate:
        if cell.case.quarantine is None and cell.key not in placed:
            groups[_group_of(cell)].append(cell)
    groups["quarantined"] = [cell for cell in cells.values() if cell.case.quarantine is not None]
    return groups


def _group_of(cell: CellView) -> CellGroup:
    match cell.outcome:
        case "failed":
            found = cell.found
            if found is None or found.p is None:
                return "failing"
            if found.base.passed and found.base.rate >= cell.bar:
                return "failing"
            return "still failing"
        case "flaky" if cell.below_bar:
            return "failed some"
        case "flaky":
            return "flaky"
        case "errored":
            return "errored"
        case _:
            return "others"


def _cell_group(
    summary: Summary,
    kind: CellGroup,
    title: str,
    noun: str,
    *,
    folded: bool = False,
    remark: str = "",
) -> Group:
    """Make an entry of each cell.

    Cells of a variant that failed for the same reason share one, and so do the cells of a case that
    is worse over its variants.
    """
    worse_cases: Mapping[str, CaseComparison] = {}
    if summary.compared is not None and kind == "regressed":
        worse_cases = summary.compared.by_case

    def look(cell: CellView) -> Hashable:
        if cell.case.id in worse_cases:
            return cell.case.id
        if cell.cause is None:
            return cell.key
        return cell.cause, cell.variant, cell.critical

    cells = cells_by_group(summary)[kind]
    entries: list[GroupItem] = []
    total = 0
    for alike in group_by(cells, look):
        room = max(0, MOST - len(entries))
        worse_case = worse_cases.get(alike[0].case.id)
        if worse_case is not None:
            total += 1
            if room:
                entries.append(_case_entry(summary, alike[0], worse_case))
        elif len(alike) >= _FEWEST_ALIKE and alike[0].cause is not None:
            total += 1
            if room:
                entries.append(_shared_entry(summary, alike))
        else:
            total += len(alike)
            entries += (_cell_entry(summary, cell) for cell in alike[:room])
    return Group(
        kind,
        title,
        noun,
        count=len({cell.case.id for cell in cells}),
        total=total,
        entries=tuple(entries),
        folded=folded,
        remark=remark,
    )


def _case_entry(summary: Summary, surest: CellView, case: CaseComparison) -> GroupItem:
    """`refund on 6 of 6 variants: 18 of 18 on main, 0 of 60 here`, with its surest cell."""
    comparison = summary.compared
    assert comparison is not None
    return GroupItem(
        (ForeignText(case.case), f" {variants_clause(case)}"),
        (case_finding(comparison, case),),
        critical=surest.critical,
        cells=(surest,),
        run=surest.failed_run,
    )


def _shared_entry(summary: Summary, cells: Sequence[CellView]) -> GroupItem:
    """`40 cases on agent: no answer from localhost:8000: …`."""
    first = cells[0]
    subject = (number_of(len(cells), "case"), *on_variant(summary, first.variant))
    errors = [cell.failures.error for cell in cells if cell.failures.error]
    if not errors:
        missed = ", ".join(reason for reason, _ in first.failures.missed)
        return GroupItem(
            subject,
            (ForeignText(missed),),
            critical=first.critical,
            cells=tuple(cells),
            run=first.failed_run,
        )
    error = min(errors, key=lambda error: error.kind == "given_up")  # that one repeats the others
    message = one_line(error.message or error.kind, LINE_CHARACTERS)
    return GroupItem(
        subject,
        (ForeignText(message),),
        critical=first.critical,
        cells=tuple(cells),
        frames=tuple(frames_of(error.detail)),
    )


def _cell_entry(summary: Summary, cell: CellView) -> GroupItem:
    """`refund on gpt-4o: 30 of 30 on main, 4 of 10 here`."""
    subject: Sentence = (ForeignText(cell.case.id), *on_variant(summary, cell.variant))
    if cell.renamed_from:
        subject = (*subject, " (was ", ForeignText(cell.renamed_from), ")")
    return GroupItem(
        subject,
        (cell.finding,),
        critical=cell.critical,
        cells=(cell,),
        run=cell.failed_run,
    )


def on_variant(summary: Summary, variant: Variant) -> Sentence:
    """` on gpt-4o`, where there are several variants."""
    if len(summary.report.plan.variants) == 1:
        return ()
    return (" on ", ForeignText(str(variant)))


def list_cases(cases: Sequence[Case]) -> Sentence:
    """`faq 1 (evals.yaml:3), faq 2 (evals.yaml:5) and 31 more cases`."""
    pieces: list[str] = []
    for case in cases[:FEW]:
        if pieces:
            pieces.append(", ")
        pieces.append(ForeignText(case.id))
        if place := place_of(case):
            pieces += [" (", ForeignText(place), ")"]
    if len(cases) > FEW:
        pieces.append(f" and {number_of(len(cases) - FEW, 'more case')}")
    return tuple(pieces)


# Errors.


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Errored runs of one variant that ended for the same reason.

    Attributes:
        message: the reason, in the words of the first.
        cases: the cases that they are runs of, in plan order.
        kind: None where no error was noted.
        cause: what most runs of an outage failed with.
        frames: where the team's code crashed.
    """

    runs: int
    variant: Variant
    message: str
    cases: tuple[Case, ...]
    kind: ErrorKind | None
    cause: str | None = None
    frames: tuple[str, ...] = ()


def error_groups(report: SuiteReport) -> list[ErrorGroup]:
    """Group errored runs by variant and reason, the largest group first."""
    if not report.errored:
        return []
    cases = {case.id: case for case in report.plan.cases}
    errored = report.results(report.indices("errored"))
    groups = []
    for results in group_by(errored, _look_of_error):
        first = results[0]
        ids = dict.fromkeys(result.case for result in results)
        stack = first.error.detail if first.error else None
        groups.append(
            ErrorGroup(
                runs=len(results),
                variant=Variant(first.provider, first.prompt),
                message=reasons_of(first)[0].text,
                cases=tuple(cases[id_] for id_ in ids),
                kind=first.error.kind if first.error else None,
                cause=first.error.cause if first.error else None,
                frames=tuple(frames_of(stack)),
            )
        )
    return sorted(groups, key=lambda group: -group.runs)


def _look_of_error(result: Result) -> Hashable:
    if result.error is None:
        return result.provider, result.prompt, reasons_of(result)
    return result.provider, result.prompt, result.error.kind, same_reason(result.error)


def _errors(summary: Summary, found: Sequence[ErrorGroup]) -> Group:
    """Group errored runs by reason."""
    errors = [group for group in found if group.kind != "not_recorded"]
    return Group(
        "errored",
        "Errored",
        "error message",
        count=sum(group.runs for group in errors),
        total=len(errors),
        entries=tuple(_error_entry(summary, group) for group in errors[:MOST]),
    )


def _error_entry(summary: Summary, group: ErrorGroup) -> GroupItem:
    """`102 runs on gpt-4o: 429: slow down, in faq 1 (evals.yaml:3), faq 2 (evals.yaml:5) and 31
    more cases`.

    The verdict or a note names an outage, so its runs have their own reason.
    """
    message = group.message
    if group.kind == "outage" and group.cause:
        message = group.cause
    return GroupItem(
        (number_of(group.runs, "run"), *on_variant(summary, group.variant)),
        (ForeignText(message), ", in ", *list_cases(group.cases)),
        frames=group.frames,
    )


def _unrecorded_group(summary: Summary, found: Sequence[ErrorGroup]) -> Group:
    """List the cases without a recorded answer."""
    entries = []
    for group in found:
        if group.kind == "not_recorded":
            on = on_variant(summary, group.variant)
            entries += [GroupItem((ForeignText(case.id), *on)) for case in group.cases]
    title = "Not checked: no recorded answer"
    return _list("unrecorded", title, "unchecked case", entries, folded=True)


def _over_budget(summary: Summary) -> Group:
    report = summary.report
    count = report.budget_violations
    entries = []
    if count:
        over = (result for result in report.results() if result.budget_violations)
        for result in islice(over, min(count, MOST)):
            on = on_variant(summary, Variant(result.provider, result.prompt))
            violations = ", ".join(result.budget_violations)
            entries.append(
                GroupItem((ForeignText(result.case), *on, f", run {result.run}: {violations}"))
            )
    return Group("over budget", "Over budget", "over-budget run", count, count, tuple(entries))


# Cases and variants that differ from the baseline.


@dataclass(frozen=True, slots=True)
class MatrixChange:
    """Cases or variants that differ from the baseline: `3 edited`.

    A name is one text, or an old and a new one.
    """

    what: Literal["case", "variant"]
    word: str
    names: tuple[tuple[str, ...], ...]

    @property
    def heading(self) -> str:
        """`3 cases edited`, `1 variant new`."""
        return f"{number_of(len(self.names), self.what)} {self.word}"

    @property
    def entry(self) -> GroupItem:
        """`2 cases edited: a, old → new`."""
        pieces: list[str] = []
        for name in self.names[:MANY]:
            if pieces:
                pieces.append(", ")
            first, *renamed = name
            pieces.append(ForeignText(first))
            for part in renamed:
                pieces += [" → ", ForeignText(part)]
        if len(self.names) > MANY:
            pieces.append(f", … and {len(self.names) - MANY:,} more")
        return GroupItem((self.heading,), tuple(pieces))


def matrix_changes(comparison: Comparison) -> list[MatrixChange]:
    """List whole variants first, then cases.

    A case that several variants have alike is named once; one that is new, removed or not compared
    on some of them only, with these. A variant that was compared under another name is not removed;
    only a case of it may be. Where nothing at all was compared, that is said elsewhere.
    """
    now = {theirs: mine for mine, theirs in comparison.base_variants.items()}
    present = [cell for cell in comparison.cells if cell.kind != "removed"]
    here = {cell.variant for cell in present}
    common = {cell.variant for cell in present if cell.kind != "new"}
    tested = [cell for cell in present if cell.p is not None]
    compared = {cell.variant for cell in tested}
    cases = {cell.case for cell in tested}
    cases_here = {cell.renamed_from or cell.case for cell in present}
    cases_there = {cell.case for cell in comparison.cells if cell.kind != "new"}
    kinds: tuple[tuple[Literal["case", "variant"], str], ...] = (
        ("variant", "new"),
        ("variant", "removed"),
        ("case", "new"),
        ("case", "edited"),
        ("case", "renamed"),
        ("case", "removed"),
        ("variant", "not compared"),
        ("case", "not compared"),
    )
    found = {kind: dict[tuple[str, ...], None]() for kind in kinds}
    for cell in comparison.cells:
        variant = cell.variant
        if cell.kind == "removed":
            variant = now.get(variant, variant)
        is_new = cell.kind == "new" and variant not in common
        is_removed = cell.kind == "removed" and variant not in here
        if is_new or is_removed:
            found["variant", cell.kind][str(variant),] = None
        elif cell.kind == "not compared":
            if variant in compared and cell.case in cases:
                found["case", "not compared"][f"{cell.case} on {variant}",] = None
            elif variant in compared:
                found["case", "not compared"][cell.case,] = None
            elif compared:
                found["variant", "not compared"][str(variant),] = None
        elif cell.kind == "new" and cell.case in cases_there:
            found["case", "new"][f"{cell.case} on {variant}",] = None
        elif cell.kind == "removed" and cell.case in cases_here:
            found["case", "removed"][f"{cell.case} on {variant}",] = None
        elif ("case", cell.kind) in found:
            found["case", cell.kind][cell.case,] = None
        if cell.renamed_from is not None:
            found["case", "renamed"][cell.renamed_from, cell.case] = None
    every = [MatrixChange(what, word, tuple(names)) for (what, word), names in found.items()]
    return [change for change in every if change.names]


def _matrix(comparison: Comparison) -> Group:
    changes = matrix_changes(comparison)
    words = dict.fromkeys(change.word for change in changes)
    return Group(
        "changed",
        ", ".join(words).capitalize(),
        "change",
        count=sum(len(change.names) for change in changes),
        total=len(changes),
        entries=tuple(change.entry for change in changes),
        folded=True,
    )


# All of them.


def groups_of(summary: Summary) -> tuple[Group, ...]:
    """Return what there is to look at, the most important first; no group is empty.

    What did not decide is folded where something did, or where the suite passed.
    """
    groups = [group for group in _in_order(summary) if group.total]
    decided = any(group.kind in _DECIDING for group in groups)
    if not decided and summary.verdict.status != "pass":
        return tuple(groups)
    folded = []
    for group in groups:
        if group.kind not in _DECIDING:
            group = replace(group, folded=True)  # noqa: PLW2901
        folded.append(group)
    return tuple(folded)


def _in_order(summary: Summary) -> Iterator[Group]:
    cells = cells_by_group(summary)
    errors = error_groups(summary.report)
    errored = (_errors(summary, errors), _unrecorded_group(summary, errors))

    yield from _objections(summary)
    if summary.verdict.status == "error":  # then the errors are why
        yield from errored
    yield _cell_group(summary, "regressed", "Regressed", "regressed case")
    if summary.verdict.status != "error":
        yield from errored
    yield _cell_group(summary, "failing", "Failing", "failing case")
    yield _cell_group(
        summary,
        "probably worse",
        "Probably worse",
        "probably worse case",
        folded=not _any_below_bar(cells["probably worse"]),
    )
    yield _cell_group(
        summary,
        "can't tell",
        "Can't tell",
        "undecided case",
        folded=not _any_below_bar(cells["can't tell"]),
    )
    yield _cell_group(summary, "failed some", "Failed some runs", "partly failed case")
    yield _cell_group(summary, "fixed", "Fixed", "fixed case")
    yield _cell_group(summary, "still failing", "Still failing", "still failing case")
    if summary.compared:
        yield _matrix(summary.compared)
    flips = suite_flip_rate(cell.counts.tally for cell in cells["flaky"])
    remark = ""
    if flips:
        remark = f"two runs of the same case disagree in {percent(round(flips, 3))}"
    yield _cell_group(
        summary,
        "flaky",
        "Flaky, but within the bar",
        "flaky case",
        folded=summary.compared is not None,
        remark=remark,
    )
    yield _over_budget(summary)
    yield _cell_group(summary, "quarantined", "Quarantined", "quarantined case", folded=True)


def _any_below_bar(cells: Iterable[CellView]) -> bool:
    return any(cell.below_bar for cell in cells)


def _objections(summary: Summary) -> Iterator[Group]:
    """Yield the objections that neither the headline nor another group names, and the warnings."""
    verdict = summary.verdict
    against: list[GroupItem] = []
    warnings: list[GroupItem] = []
    for rule in verdict.rules:
        if rule.rule in ("critical", "regressions") or rule is verdict.leading:
            continue
        if rule.rule == "variant" and _is_explained(summary, rule.variant):
            continue
        entries = warnings if rule.status == "borderline" else against
        entries.append(GroupItem((rule.sentence,)))
    yield _list("against", "Also against merging", "objection", against)
    yield _list("warnings", "Warnings", "warning", warnings)


def _is_explained(summary: Summary, variant: Variant | None) -> bool:
    """Return True if a variant is not worse without the cells that regressed: these say it all."""
    comparison = summary.compared
    if comparison is None or comparison.counts.get("regressed", 0) == 0:
        return False
    beyond = comparison.worse_variants(beyond_regressions=True)
    return all(each.variant != variant for each in beyond)


def _list(
    kind: GroupKind, title: str, noun: str, entries: Sequence[GroupItem], *, folded: bool = False
) -> Group:
    """Make a group of entries that count one each."""
    count = len(entries)
    return Group(kind, title, noun, count, count, tuple(entries[:MOST]), folded)
