"""The groups of cases of report.html in order, and its filters."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ci_evals.gate.compare import Change
from ci_evals.reports.findings import Findings
from ci_evals.reports.groups import Group, GroupItem, cells_by_group
from ci_evals.reports.page_cases import PageRow
from ci_evals.reports.summary import Summary
from ci_evals.reports.view import CellOutcome, CellView, every_case

MAX_OPTIONS: Final = 200
"""The most options of a filter. Nobody picks from a longer list."""

_MAX_ENTRIES = 100  # of a group without rows
_MAX_CELLS = 40_000  # of all rows
_MAX_WRITTEN = 200  # rows that are elements from the start; others are text until they are seen
_MAX_UNFOLDED = 3  # failing cases; if there are more, only the first one is unfolded at first
_MAX_ROWS_UNFOLDED = 40  # of a group that is open at first
_FEW_ROWS = 6  # a group with no more rows is open even if the comment folds it
_MAX_ALIKE_UNFOLDED = 12  # rows under the reason that they share

_OUTCOMES: tuple[CellOutcome | Change, ...] = (
    "worse",
    "probably worse",
    "failed",
    "errored",
    "flaky",
    "can't tell",
    "fixed",
    "new",
    "edited",
    "not compared",
    "not run",
    "passed",
)


@dataclass(frozen=True, slots=True)
class PagePart:
    """Rows with the reason that they share, or rows without a shared reason.

    Attributes:
        heading: the entry with the shared reason.
        written: the rows that are elements from the start.
        folded: the rows that are text until the script makes elements of them.
    """

    heading: GroupItem | None
    written: tuple[PageRow, ...]
    folded: tuple[PageRow, ...]

    @property
    def count(self) -> int:
        return len(self.written) + len(self.folded)

    @property
    def unfolded(self) -> bool:
        """Return True if the rows are few enough to be open at first."""
        return self.heading is None or self.count <= _MAX_ALIKE_UNFOLDED

    @property
    def placed_above(self) -> int:
        """The number of its cases whose row is in another part."""
        if self.heading is None:
            return 0
        cases = {cell.case.id for cell in self.heading.cells}
        return len(cases) - self.count


@dataclass(frozen=True, slots=True)
class PageGroup:
    """A group of the findings with the rows of its cases, or with `entries` that have no rows."""

    group: Group
    unfolded: bool
    entries: tuple[GroupItem, ...]
    parts: tuple[PagePart, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """The cases of a report in the order of its findings. Each case has one row.

    Attributes:
        groups: the groups of the findings, then the cases that passed.
        left_out: the number of cases without a row, for lack of room.
    """

    groups: tuple[PageGroup, ...]
    left_out: int


def page_of(found: Findings) -> Page:
    """Lay out every case in the first group that has one of its cells."""
    by_group: Mapping[str, Sequence[CellView]] = dict(cells_by_group(found.summary).items())
    failing: set[str] = set()
    for group in found.groups:
        if _is_failing(group):
            failing.update(cell.case.id for cell in by_group.get(group.kind, ()))
    unfold = 1
    if len(failing) <= _MAX_UNFOLDED:
        unfold = len(failing)
    rows = _Rows(found.summary, unfold=unfold)
    groups = []
    is_any_unfolded = False
    for group in found.groups:
        cells = by_group.get(group.kind, ())
        parts = rows.parts_of(group, cells)
        entries = group.entries[:_MAX_ENTRIES]
        if cells and group.kind != "errored":
            entries = ()  # the rows show the same
        if not entries and not parts:
            continue
        of_their_own = sum(part.count for part in parts if part.heading is None)
        is_seen_early = not group.folded or not is_any_unfolded
        unfolded = (
            group.kind == "regressed"
            or (group.tone != "good" and 0 < of_their_own <= _FEW_ROWS)
            or (is_seen_early and of_their_own <= _MAX_ROWS_UNFOLDED)
        )
        if group.kind == "still failing" and found.summary.verdict.missed_on_main is not None:
            unfolded = False  # the headline says that it is no news
        if unfolded and parts:
            is_any_unfolded = True
        groups.append(PageGroup(group, unfolded, entries, parts))
    if passed := rows.passed(by_group["others"]):
        groups.append(passed)
    return Page(tuple(groups), rows.left_out)


def _is_failing(group: Group) -> bool:
    return group.tone == "bad" and group.kind != "still failing"


class _Rows:
    """Makes one row for each case, in the first part that has it.

    Args:
        unfold: the number of failing cases to unfold.
    """

    def __init__(self, summary: Summary, *, unfold: int) -> None:
        self._left_to_unfold = unfold
        self._cases = every_case(summary)
        self._placed: set[str] = set()
        self._written = 0
        self._cells = 0
        self.left_out = 0

    def parts_of(self, group: Group, cells: Sequence[CellView]) -> tuple[PagePart, ...]:
        """Return the part of cases with their own reason, then a part for each shared reason."""
        unfold = _is_failing(group) and group.kind != "errored"
        shared = [entry for entry in group.entries if len(entry.cells) > 1]
        together = {cell.key for entry in shared for cell in entry.cells}
        single = [cell for cell in cells if cell.key not in together]
        parts = [self._part(None, single, unfold=unfold)]
        for entry in shared:
            cases = {cell.case.id for cell in entry.cells}
            if unfold and self._left_to_unfold and len(cases) > _MAX_ALIKE_UNFOLDED:
                # The rows of the entry are folded, so the answer to read first is above them.
                parts.append(self._part(None, entry.cells[:1], unfold=True))
            parts.append(self._part(entry, entry.cells, unfold=unfold))
        return tuple(part for part in parts if part.count)

    def passed(self, cells: Sequence[CellView]) -> PageGroup | None:
        """Return the group of all remaining cases, which is unfolded if it is the only group."""
        number = len({cell.case.id for cell in cells} - self._placed)
        unfolded = not self._placed and number <= _MAX_ROWS_UNFOLDED
        part = self._part(None, cells, write=unfolded)
        if not part.count:
            return None
        group = Group("others", "Passed", "passed case", number, total=0, entries=())
        return PageGroup(group, unfolded, (), (part,))

    def _part(
        self,
        heading: GroupItem | None,
        cells: Iterable[CellView],
        *,
        unfold: bool = False,
        write: bool = True,
    ) -> PagePart:
        """Return the rows of cells whose case has no row yet.

        Under a heading, where all rows ended alike, only the first row is unfolded.
        """
        written = []
        folded = []
        for cell in cells:
            case = cell.case.id
            if case in self._placed:
                continue
            self._placed.add(case)
            self._cells += len(self._cases[case].cells)
            if self._cells > _MAX_CELLS:
                self.left_out += 1
                continue
            unfolded = unfold and self._left_to_unfold > 0
            if unfolded:
                self._left_to_unfold -= 1
            row = PageRow(self._cases[case], cell, unfolded, shows_reason=heading is None)
            if heading is not None:
                unfold = False
            if write and self._written < _MAX_WRITTEN:
                self._written += 1
                written.append(row)
            else:
                folded.append(row)
        return PagePart(heading, tuple(written), tuple(folded))


# Filters.


def count_outcomes(summary: Summary) -> dict[CellOutcome | Change, int]:
    """Count the cases by outcome and by change, in the order of `_OUTCOMES`.

    A case counts for each that one of its cells has, but as passed only if all of them passed.
    """
    counts = dict.fromkeys(_OUTCOMES, 0)
    for case in every_case(summary).values():
        outcomes: set[CellOutcome | Change | None] = set()
        changes: set[CellOutcome | Change | None] = set()
        for cell in case.cells:
            outcomes.add(cell.marked_outcome)
            changes.add(cell.change)
        if len(outcomes) > 1:
            outcomes.discard("passed")
        for outcome in counts:
            if outcome in outcomes or outcome in changes:
                counts[outcome] += 1
    return {outcome: count for outcome, count in counts.items() if count}


def list_tags(summary: Summary) -> list[str]:
    """Return the tags of all cases, each once."""
    tags: dict[str, None] = {}
    for case in summary.report.plan.cases:
        tags |= dict.fromkeys(case.tags)
    return list(tags)[:MAX_OPTIONS]
