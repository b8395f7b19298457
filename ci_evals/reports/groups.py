"""The groups of cells, errors and changes for a reviewer, with a sentence for each item."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Literal, get_args

from ci_evals.faults import ErrorKind
from ci_evals.format import name_of, number_of, one_line, percent
from ci_evals.gate.baseline import add_tallies
from ci_evals.gate.cases import CaseComparison
from ci_evals.gate.compare import Change, Comparison
from ci_evals.gate.run_errors import same_reason
from ci_evals.gate.wording.comparisons import case_finding, tally_text, variants_clause
from ci_evals.model.case import Case, Variant
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.model.result import Result
from ci_evals.reports.alike_cases import AlikeCases, alike_cases, kinds_of_answers
from ci_evals.reports.summary import Summary, once_per_summary
from ci_evals.reports.view import (
    FEW,
    LINE_CHARACTERS,
    MANY,
    MOST,
    SOME,
    CaseView,
    CellView,
    RunView,
    case_views,
    cell_views,
    every_case,
    frames_of,
    group_by,
    place_of,
    reasons_of,
)
from ci_evals.stats.rates import suite_flip_rate

_CALL_ERRORS: Final = frozenset({"rate_limit", "server", "network", "timeout"})
"""The kinds of errors that make the engine give up a provider after a number of them."""

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

ANSWER_CHARACTERS: Final = 80
"""The longest answer that a sentence quotes."""

GroupKind = CellGroup | Literal["against", "warnings", "unrecorded", "changed", "over budget"]

_WORSE: Final[tuple[CellGroup, ...]] = ("regressed", "probably worse", "can't tell")
_DECIDING: Final[tuple[GroupKind, ...]] = ("against", "regressed", "errored", "failing")


class ForeignText(str):
    """Foreign text inside a sentence of ours, which each format escapes and marks."""

    __slots__ = ()


class Quotation(ForeignText):
    """An answer inside a sentence of ours, which each format escapes and puts in quotes."""

    __slots__ = ()


Sentence = tuple[str, ...]
"""A sentence in pieces: our own words as `str`, names as `ForeignText`, answers as `Quotation`."""


def join_sentence(
    sentence: Sentence, name: Callable[[str], str] = name_of, text: Callable[[str], str] = str
) -> str:
    """Return a sentence as one text; `name` and `text` escape names and our own words for a
    format.
    """
    pieces = []
    for piece in sentence:
        match piece:
            case Quotation():
                pieces.append(text(f'"{piece}"'))
            case ForeignText():
                pieces.append(name(piece))
            case _:
                pieces.append(text(piece))
    return "".join(pieces)


@dataclass(frozen=True, slots=True)
class GroupItem:
    """One item of a group: `refund on gpt-4o: 30 of 30 on main, 4 of 10 here`.

    Attributes:
        subject: the case, the runs or the variant.
        finding: the statement about it; may be empty.
        critical: its regression alone makes the gate red.
        cells: its cells, if any. There are several only if cases failed for the same reason; for a
            single case on several variants, it is the surest or worst cell.
        run: the first failed run of the first cell, if its answer is worth showing.
        frames: the frames of the team's code, if several runs crashed there.
    """

    subject: Sentence
    finding: Sentence = ()
    critical: bool = False
    cells: tuple[CellView, ...] = ()
    run: RunView | None = None
    frames: tuple[str, ...] = ()

    @property
    def cell(self) -> CellView | None:
        """Its first cell; None if it is not about cells."""
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
        """The reasons that its failed runs share, for a place where an answer is shown, too."""
        if len(self.cells) == 1:
            return self.cells[0].failures.lines(of_each_run=False)
        return list(self.frames)

    @property
    def cases(self) -> Sentence:
        """`, in faq 1 (evals.yaml:3), faq 2 (evals.yaml:5)`, if it is about several cases."""
        if len(self.cells) < 2:
            return ()
        return (", in ", *list_cases([case.case for case in case_views(self.cells)]))

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
        noun: the word for one item in a count of those left out: `regressed case`.
        count: the number in the heading, which counts cases if there are any.
        total: the number of all entries; `entries` has only the first ones.
        folded: it may be folded at first.
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
    """Sort the cells of a report into groups. Each is in one, but a `fixed` cell may also be flaky.

    `regressed`, `probably worse`, `can't tell` and `fixed` are results of the comparison. The
    others go by outcome: `failing` cells failed; `still failing` ones missed their bar on the base
    branch, too; `failed some` are below their bar, but this may be chance, unless they pass no less
    often than there; `flaky` meet their bar, but have failed runs; `errored` have no graded run;
    `others` passed or did not run. Cells in quarantine are in no other group.

    Cells that were not named, but give the answer of regressed ones in most runs, follow these.

    Regressed and fixed cells are sorted by certainty, the others by how far their case fell over
    all its variants.
    """
    groups: dict[CellGroup, list[CellView]] = {group: [] for group in get_args(CellGroup)}
    cells = {cell.key: cell for cell in cell_views(summary)}
    compared: Mapping[Change, CellGroup] = {
        "worse": "regressed",
        "probably worse": "probably worse",
        "can't tell": "can't tell",
        "fixed": "fixed",
    }
    is_explained = False
    if summary.compared:
        is_explained = bool(summary.compared.select("regressed"))
        for found in summary.compared.select("regressed", "suspect", "fixed"):
            group = compared[summary.compared.change(found)]
            cell = cells.get(found.key)
            if cell is None:
                continue
            if group == "can't tell" and cell.outcome == "failed" and not is_explained:
                continue  # nothing else explains a red gate, so it goes to the failing cells
            groups[group].append(cell)
    placed = {cell.key for kind in _WORSE for cell in groups[kind]}
    for cell in cells.values():
        if cell.case.quarantine is None and cell.key not in placed:
            groups[_group_of(cell, is_explained=is_explained)].append(cell)
    _join_alike(groups)
    for kind, members in groups.items():
        if kind not in ("regressed", "fixed"):
            _sort_by_fall(summary, members)
    groups["quarantined"] = [cell for cell in cells.values() if cell.case.quarantine is not None]
    return groups


def _join_alike(groups: Mapping[CellGroup, list[CellView]]) -> None:
    """Move cells that broke as regressed ones did, with the same answer, to these.

    One cause is told once: too few runs to name a case are no other cause.
    """
    named = {cell.case.id for cell in groups["regressed"]}
    if not named:
        return
    others: tuple[CellGroup, ...] = ("probably worse", "can't tell", "failing")
    cells = [cell for kind in ("regressed", *others) for cell in groups[kind]]
    cases = case_views(cells)
    kinds = kinds_of_answers(cases)
    broken = {case.case.id for case in cases if case.is_broken and case.case.id in kinds}
    named_kinds = {kinds[name] for name in broken & named}
    joined = {name for name in broken - named if kinds[name] in named_kinds}
    for kind in others:
        groups["regressed"] += [cell for cell in groups[kind] if cell.case.id in joined]
        groups[kind][:] = [cell for cell in groups[kind] if cell.case.id not in joined]


def _group_of(cell: CellView, *, is_explained: bool) -> CellGroup:
    """Return the group of a cell that the comparison did not place.

    If regressed cells explain the verdict, a cell that passed some runs is not counted as failing.
    """
    match cell.outcome:
        case "failed":
            found = cell.found
            if found is None or found.p is None:
                return "failing"
            if not found.base.passed or found.base.rate < cell.bar:
                return "still failing"
            if is_explained and cell.counts.passed:
                return "failed some"
            return "failing"
        case "flaky" if cell.below_bar:
            return "still failing" if _is_as_on_base(cell) else "failed some"
        case "flaky":
            return "flaky"
        case "errored":
            return "errored"
        case _:
            return "others"


def _is_as_on_base(cell: CellView) -> bool:
    """Return True if a cell missed its bar on the base branch, too, and is no lower than there."""
    found = cell.found
    if found is None or found.p is None:
        return False
    return found.base.rate < cell.bar and found.head.rate >= found.base.rate


def _sort_by_fall(summary: Summary, cells: list[CellView]) -> None:
    """Sort cells by the fall of their case, then by its share of failed runs."""
    # Ranks are of cases, not of cells, so that the cells of a case stay together.
    cases = every_case(summary)
    ranks = {}
    for number, name in enumerate(dict.fromkeys(cell.case.id for cell in cells)):
        case = cases[name]
        head = case.head
        missed = 0.0
        if head.graded:
            missed = 1 - head.rate
        ranks[name] = (-case.fall, -missed, number)
    cells.sort(key=lambda cell: (ranks[cell.case.id], cell.counts.pass_rate or 0.0))


def _cell_group(
    summary: Summary,
    kind: CellGroup,
    title: str,
    noun: str,
    *,
    folded: bool = False,
    remark: str = "",
) -> Group:
    """Return a group with an entry for each case, or for several that broke alike."""
    cells = cells_by_group(summary)[kind]
    entries: list[GroupItem] = []
    total = 0
    for alike in alike_cases(case_views(cells)):
        total += 1
        if total > MOST:
            continue  # entries read results from the journal, so the rest is only counted
        entries.append(entry_of(summary, alike))
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


def entry_of(summary: Summary, alike: AlikeCases) -> GroupItem:
    """Return the entry of a case, or of several that broke alike."""
    first, *others = alike.cases
    if others:
        return _shared_entry(summary, alike)
    if len(first.cells) > 1 or worse_case(summary, first):
        return _case_entry(summary, first)
    return _cell_entry(summary, first.cells[0])


def worse_case(summary: Summary, case: CaseView) -> CaseComparison | None:
    """Return the comparison of a case over its variants; None unless the case regressed."""
    if any(cell.found is None or cell.found.kind != "regressed" for cell in case.cells):
        return None
    if summary.compared is None:
        return None
    return summary.compared.by_case.get(case.case.id)


def case_subject(summary: Summary, case: CaseView) -> Sentence:
    """`refund on 6 of 6 variants`, `refund on gpt-4o`."""
    worse = worse_case(summary, case)
    first = case.cells[0]
    subject: Sentence = (ForeignText(case.case.id),)
    if worse is not None:
        subject = (*subject, f" {variants_clause(worse)}")
    elif len(case.cells) > 1:
        every = len(summary.report.plan.variants)
        subject = (*subject, f" on {len(case.cells):,} of {number_of(every, 'variant')}")
    else:
        subject = (*subject, *on_variant(summary, first.variant))
    if first.renamed_from:
        subject = (*subject, " (was ", ForeignText(first.renamed_from), ")")
    return subject


def shared_subject(summary: Summary, cases: Sequence[CaseView]) -> Sentence:
    """`40 cases on agent`, `8 cases on 6 variants`."""
    variants = {variant for case in cases for variant in case.variants}
    count = number_of(len(cases), "case")
    if len(variants) > 1:
        return (f"{count} on {len(variants):,} variants",)
    return (count, *on_variant(summary, variants.pop()))


def case_tallies(summary: Summary, case: CaseView) -> tuple[Tally, Tally]:
    """Return the runs on the base and here, over all variants if the case regressed over them."""
    worse = worse_case(summary, case)
    # Its test counts main's runs of the same minutes as the base's, too: these are shown apart.
    if worse is not None and not case.base_now.graded:
        return worse.base, worse.head
    return case.base, case.head


def _case_entry(summary: Summary, case: CaseView) -> GroupItem:
    """`refund on 6 of 6 variants: 18 of 18 on main, 0 of 60 here`, with its first cell."""
    first, worse = case.cells[0], worse_case(summary, case)
    if worse is not None:
        assert summary.compared is not None
        finding = case_finding(summary.compared, worse)
    else:
        finding = _change_in_runs(summary, [case])
        if first.change in ("probably worse", "can't tell"):
            finding += f": {first.change}"
    return GroupItem(
        case_subject(summary, case),
        (finding,),
        critical=case.critical,
        cells=(first,),
        run=first.failed_run,
    )


def _change_in_runs(summary: Summary, cases: Sequence[CaseView]) -> str:
    """`18 of 18 on main, 0 of 60 here`, or `0 of 18 runs passed` without a comparison.

    If main ran them, too: `18 of 18 on main, 60 of 60 on main now, 0 of 60 here`.
    """
    tallies = [case_tallies(summary, case) for case in cases]
    base = add_tallies(base for base, _ in tallies)
    head = add_tallies(head for _, head in tallies)
    if summary.compared is None or not base.graded:
        return f"{head.passed:,} of {number_of(head.graded, 'run')} passed"
    label = summary.compared.baseline.label
    before = f"{tally_text(base)} on {label}"
    now = add_tallies(case.base_now for case in cases)
    if now.graded:
        before = f"{before}, {tally_text(now)} on {label} now"
    return f"{before}, {tally_text(head)} here"


def _shared_entry(summary: Summary, alike: AlikeCases) -> GroupItem:
    """`40 cases on agent: no answer from localhost:8000: …`."""
    cases = alike.cases
    cells = [cell for case in cases for cell in case.cells]
    first = cells[0]
    subject = shared_subject(summary, cases)
    if first.changed:
        subject = (*subject, f", {_change_in_runs(summary, cases)}")
    errors = [cell.failures.error for cell in cells if cell.failures.error]
    if alike.answer is not None or not errors:
        return GroupItem(
            subject,
            shared_finding(alike),
            critical=first.is_critical_regression,
            cells=tuple(cells),
            run=first.failed_run,
        )
    # A run that was given up only quotes the error of the others.
    error = min(errors, key=lambda error: error.kind == "given_up")
    message = one_line(error.message or error.kind, LINE_CHARACTERS)
    return GroupItem(
        subject,
        (ForeignText(message),),
        critical=first.is_critical_regression,
        cells=tuple(cells),
        frames=tuple(frames_of(error.detail)),
    )


def shared_finding(alike: AlikeCases) -> Sentence:
    """`they now answer "I cannot look into that.": no "refund" in the answer`, or only the reason
    why the cases failed.
    """
    reasons = {missed_text(case.cells[0]) for case in alike.cases}
    reason = ForeignText(missed_text(alike.cases[0].cells[0]))
    if alike.answer is None:
        return (reason,)
    if not all(case.is_broken for case in alike.cases):
        who = "failed runs answer "
    elif alike.cases[0].cells[0].changed:
        who = "they now answer "
    else:
        who = "they answer "
    answer = (who, *quoted_answer(alike.answer))
    if len(reasons) > 1:
        return answer
    return (*answer, ": ", reason)


def quoted_answer(answer: str) -> Sentence:
    """`"I cannot look into that."`, cut to what a headline has room for."""
    if not answer:
        return ("nothing",)
    return (Quotation(name_of(answer, ANSWER_CHARACTERS)),)


def missed_text(cell: CellView) -> str:
    """Return the reasons of a cell's failed runs in one line, without the answers."""
    return ", ".join(reason for reason, _ in cell.failures.missed)


def _cell_entry(summary: Summary, cell: CellView) -> GroupItem:
    """`refund on gpt-4o: 30 of 30 on main, 4 of 10 here`."""
    return GroupItem(
        case_subject(summary, CaseView(cell.case, (cell,))),
        (cell.finding,),
        critical=cell.is_critical_regression,
        cells=(cell,),
        run=cell.failed_run,
    )


def on_variant(summary: Summary, variant: Variant) -> Sentence:
    """` on gpt-4o`; empty if there is only one variant."""
    if len(summary.report.plan.variants) == 1:
        return ()
    return (" on ", ForeignText(str(variant)))


def list_cases(cases: Sequence[Case]) -> Sentence:
    """`faq 1 (evals.yaml:3), faq 2 (evals.yaml:5) and 31 more cases`.

    A few more cases are all named, but without their places.
    """
    are_all_named = FEW < len(cases) <= SOME
    pieces: list[str] = []
    for number, case in enumerate(cases):
        if number == FEW and not are_all_named:
            pieces.append(f" and {number_of(len(cases) - FEW, 'more case')}")
            break
        if pieces:
            pieces.append(", ")
        pieces.append(ForeignText(case.id))
        place = place_of(case)
        if place and not are_all_named:
            pieces += [" (", ForeignText(place), ")"]
    return tuple(pieces)


# Errors.


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Errored runs of one variant that ended for the same reason.

    Attributes:
        message: the reason, from a run that was given up if there is one, which quotes the reason
            of the others; else from the first run.
        cases: the cases of these runs, in plan order.
        kind: None if no error was recorded.
        cause: the error of most runs of an outage.
        frames: the frames of the team's code, if it crashed.
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
    for results in group_by(errored, _cause_of_error):
        first = results[0]
        for result in results:
            if result.error is not None and result.error.kind == "given_up":
                first = result
                break
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


def _cause_of_error(result: Result) -> Hashable:
    """Return a key that is equal for runs of one variant with one cause, given up or not."""
    error = result.error
    if error is None:
        return result.provider, result.prompt, reasons_of(result)
    kind = error.kind
    # The calls that failed, and those that were given up because of it, are one problem.
    if kind in _CALL_ERRORS:
        kind = "given_up"
    return result.provider, result.prompt, kind, same_reason(error)


def _errors(summary: Summary, groups: Sequence[ErrorGroup]) -> Group:
    """List errored runs by reason."""
    errors = [group for group in groups if group.kind != "not_recorded"]
    return Group(
        "errored",
        "Errored",
        "error message",
        count=len({case.id for group in errors for case in group.cases}),
        total=len(errors),
        entries=tuple(_error_entry(summary, group) for group in errors[:MOST]),
    )


def _error_entry(summary: Summary, group: ErrorGroup) -> GroupItem:
    """`102 runs on gpt-4o: 429: slow down, in faq 1 (evals.yaml:3), faq 2 (evals.yaml:5) and 31
    more cases`.

    The verdict or a note reports an outage as such, so its entry has the underlying error.
    """
    message = group.message
    if group.kind == "outage" and group.cause:
        message = group.cause
    return GroupItem(
        (number_of(group.runs, "run"), *on_variant(summary, group.variant)),
        (ForeignText(message), ", in ", *list_cases(group.cases)),
        frames=group.frames,
    )


def _unrecorded_group(summary: Summary, groups: Sequence[ErrorGroup]) -> Group:
    """List the cases without a recorded answer."""
    entries = []
    for group in groups:
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

    A name is one text, or for a rename the old and the new one.
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
    """List the variants, then the cases that differ from the baseline.

    A case that changed on all variants is named once; a case that is new, removed or not compared
    on some variants only is named with each of them. A variant that was compared under another name
    does not count as removed, but its cases may. If nothing at all was compared, a note says so,
    and variants are not listed as `not compared`.
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
    """Return the groups to look at, the most important first; no group is empty.

    If the suite passed, or some groups decided the verdict, all others are folded.
    """
    groups = [group for group in _in_order(summary) if group.total]
    deciding = set(_DECIDING)
    if cells_by_group(summary)["regressed"]:
        deciding.add("fixed")  # what a change gains is seen with what it loses
    elif summary.verdict.status == "fail":
        deciding.add("probably worse")
    # What fails on main as often as here is no news, and explains nothing that the change did.
    decided = any(group.kind in deciding for group in groups)
    decided = decided or summary.verdict.missed_on_main is not None
    if not decided and summary.verdict.status != "pass":
        return tuple(groups)
    folded = []
    for group in groups:
        if group.kind not in deciding:
            group = replace(group, folded=True)  # noqa: PLW2901
        folded.append(group)
    return tuple(folded)


def _in_order(summary: Summary) -> Iterator[Group]:
    cells = cells_by_group(summary)
    errors = error_groups(summary.report)
    errored = (_errors(summary, errors), _unrecorded_group(summary, errors))

    yield from _objections(summary)
    if summary.verdict.status == "error":  # the errors are the reason for the verdict
        yield from errored
    regressed = cells["regressed"]
    named = [cell for cell in regressed if cell.is_named]
    remark = ""
    if len(named) < len(regressed):
        remark = f"{len(case_views(named)):,} named, the others give the same answer"
    yield _cell_group(summary, "regressed", "Regressed", "regressed case", remark=remark)
    if summary.verdict.status != "error":
        yield from errored
    yield _cell_group(
        summary,
        "probably worse",
        "Probably worse",
        "probably worse case",
        folded=not _any_below_bar(cells["probably worse"]),
    )
    yield _cell_group(summary, "failing", "Failing", "failing case")
    yield _cell_group(
        summary,
        "can't tell",
        "Can't tell",
        "undecided case",
        folded=not _any_below_bar(cells["can't tell"]),
    )
    yield _cell_group(summary, "failed some", "Failed some runs", "partly failed case")
    yield _cell_group(summary, "still failing", "Still failing", "still failing case")
    yield _cell_group(summary, "fixed", "Fixed", "fixed case")
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
        # The group of errored runs has the cases without a graded run.
        is_shown = rule.rule == "ungraded" and rule.status == "borderline"
        if is_shown or rule.rule in ("critical", "regressions") or rule is verdict.leading:
            continue
        entries = warnings if rule.status == "borderline" else against
        entries.append(GroupItem((rule.sentence,)))
    yield _list("against", "Other blocking reasons", "blocking reason", against)
    yield _list("warnings", "Warnings", "warning", warnings)


def _list(
    kind: GroupKind, title: str, noun: str, entries: Sequence[GroupItem], *, folded: bool = False
) -> Group:
    """Return a group in which each entry counts as one."""
    count = len(entries)
    return Group(kind, title, noun, count, count, tuple(entries[:MOST]), folded)
