"""Beside the baseline: which cells are worse, which may be, and which are only as bad as they were."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec import Struct

from ci_evals.model import Result, Variant
from ci_evals.percentage import percent
from ci_evals.reports.findings import JudgedCell, failed_runs, findings, judged_cells, why
from ci_evals.reports.summary import Summary
from ci_evals.verdict.comparison import Comparison, NoComparison
from ci_evals.verdict.pairing import CellComparison, CellKind
from ci_evals.verdict.sentences import cell_finding, of_runs
from ci_evals.verdict.words import number_of

_CHANGED = ("new variant", "removed variant", "new", "edited", "renamed", "removed")
_NOT_COMPARED = ("not compared variant", "not compared")


class ComparedCell(NamedTuple):
    """A cell with what the comparison says of it; None where there is no comparison."""

    judged: JudgedCell
    found: CellComparison | None

    @property
    def renamed_from(self) -> str | None:
        return self.found.renamed_from if self.found else None

    @property
    def failing(self) -> bool:
        return self.judged.outcome == "failed"

    @property
    def worse(self) -> bool:
        """Whether it is worse than the baseline, or may be."""
        return self.found is not None and self.found.kind in ("regressed", "suspect")

    @property
    def critical(self) -> bool:
        """Whether its regression alone is red."""
        return self.found is not None and self.found.kind == "regressed" and self.found.critical


class Changes(Struct, frozen=True):
    """The cells that a reviewer looks at.

    `regressed`, `possible` and `fixed` are what the comparison found, the surest first. `failing` and `still_failing`
    are other cells below their bar, those that were below it on the base branch apart; `flaky` are within it but with
    failed runs. The last three have the lowest share of passed runs first.
    """

    regressed: tuple[ComparedCell, ...]
    possible: tuple[ComparedCell, ...]
    fixed: tuple[ComparedCell, ...]
    failing: tuple[ComparedCell, ...]
    still_failing: tuple[ComparedCell, ...]
    flaky: tuple[ComparedCell, ...]


def changes(summary: Summary) -> Changes:
    """Sort the cells of a report; one that is worse, or may be, is in no other group."""
    compared = summary.compared
    known = compared.by_key if compared else {}
    keys = {cell.key: cell for cell in judged_cells(summary)} if compared else {}

    def of(kind: CellKind) -> tuple[ComparedCell, ...]:
        chosen = compared.of(kind) if compared else ()
        return tuple(ComparedCell(keys[each.key], each) for each in chosen if each.key in keys)

    regressed, possible, fixed = of("regressed"), of("suspect"), of("fixed")
    named = {each.judged.key for each in (*regressed, *possible)}
    found = findings(summary)
    below = [ComparedCell(cell, known.get(cell.key)) for cell in found.failed if cell.key not in named]
    flaky = [ComparedCell(cell, known.get(cell.key)) for cell in found.flaky if cell.key not in named]
    return Changes(
        regressed=regressed,
        possible=possible,
        fixed=fixed,
        failing=tuple(each for each in below if not _was_failing(each)),
        still_failing=tuple(each for each in below if _was_failing(each)),
        flaky=tuple(flaky),
    )


class Told(Struct, frozen=True):
    """What is said of a cell: what became of it, whether its regression alone is red, and the run that shows why."""

    finding: str
    critical: bool
    failed: Result | None

    @property
    def reason(self) -> str | None:
        """Why that run failed."""
        return why(self.failed)[0] if self.failed else None


def told(summary: Summary, cell: ComparedCell) -> Told:
    """In the same words everywhere; the first failed run is there where the cell is below its bar, worse than the
    baseline, or may be."""
    failed = failed_runs(summary.report, cell.judged.cell, 1) if cell.worse or cell.failing else ()
    return Told(finding_of(cell, summary.comparison), cell.critical, failed[0] if failed else None)


def _was_failing(cell: ComparedCell) -> bool:
    """Whether the base was below the bar too, on the same question."""
    found = cell.found
    return found is not None and found.p is not None and found.base.rate < cell.judged.bar


class Roster(Struct, frozen=True):
    """What came, went or is not what it was: `3 edited`. A name is one text, or an old and a new one."""

    word: str
    names: tuple[tuple[str, ...], ...]

    @property
    def counted(self) -> str:
        """`3 cases edited`, `1 variant new`."""
        word = self.word.removesuffix(" variant")
        return f"{number_of(len(self.names), 'case' if word == self.word else 'variant')} {word}"

    def shown(self, most: int, show: Callable[[str], str]) -> str:
        """The first names: `a, old → new, … and 3 more`."""
        names = [" → ".join(map(show, name)) for name in self.names[:most]]
        left_out = len(self.names) - len(names)
        return ", ".join([*names, *([f"… and {left_out:,} more"] if left_out else [])])

    def sentence(self, most: int, show: Callable[[str], str]) -> str:
        """`3 cases edited: a, b, … and 1 more`."""
        return f"{self.counted}: {self.shown(most, show)}"


def rosters(comparison: Comparison) -> list[Roster]:
    """Whole variants first, then cases; a case that several variants have alike is named once, and one that was not
    compared on some of them with these.

    What the base calls a variant that was compared under another name is not removed; only a case of it may be. Where
    nothing at all was compared, that is said elsewhere.
    """
    now = {theirs: mine for mine, theirs in comparison.base_variants.items()}
    here = {cell.key[1:] for cell in comparison.cells if cell.kind != "removed"}
    common = {cell.key[1:] for cell in comparison.cells if cell.kind not in ("new", "removed")}
    compared = {cell.key[1:] for cell in comparison.cells if cell.p is not None}
    cases = {cell.case for cell in comparison.cells if cell.p is not None}
    words = (*_CHANGED, *_NOT_COMPARED) if compared else _CHANGED
    found: dict[str, dict[tuple[str, ...], None]] = {word: {} for word in words}
    for cell in comparison.cells:
        variant = now.get(cell.key[1:], cell.key[1:]) if cell.kind == "removed" else cell.key[1:]
        if variant not in common and (cell.kind == "new" or variant not in here):
            found[f"{cell.kind} variant"][(str(Variant(*variant)),)] = None
        elif cell.kind == "not compared" and compared and variant not in compared:
            found["not compared variant"][(str(Variant(*variant)),)] = None
        elif cell.kind in found:
            apart = cell.kind == "not compared" and cell.case in cases
            found[cell.kind][(f"{cell.case} on {Variant(*variant)}" if apart else cell.case,)] = None
        if cell.renamed_from is not None:
            found["renamed"][cell.renamed_from, cell.case] = None
    return [Roster(word, tuple(names)) for word, names in found.items() if names]


def roster_title(lists: Iterable[Roster]) -> str:
    """`New, edited, removed`."""
    return ", ".join(dict.fromkeys(roster.word.removesuffix(" variant") for roster in lists)).capitalize()


def finding_of(cell: ComparedCell, comparison: Comparison | NoComparison | None) -> str:
    """What became of a cell: what the comparison found, or how many of its runs passed here and on the base."""
    judged, found = cell
    text = judged.tally
    if judged.outcome == "flaky" and judged.flip_rate is not None:
        text = f"{text}, flip rate {percent(round(judged.flip_rate, 3))}"
    if found is None or not isinstance(comparison, Comparison):
        return text
    if found.kind in ("regressed", "suspect", "fixed"):
        return cell_finding(comparison, found)
    before = f"{of_runs(found.base)} on {comparison.baseline.called}" if found.base.graded else ""
    if found.kind == "edited":
        return f"{text}; edited, so not compared" + (f": {before}" if before else "")
    return f"{text}; {before}" if before else text
