"""The cells of a report: held against their bar, sorted by what changed, and grouped by error."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ci_evals.errors import ErrorKind
from ci_evals.format import number_of, percent
from ci_evals.gate.compare import CellComparison, CellKind, Comparison, NoComparison
from ci_evals.gate.wording import cell_finding, of_runs, same_reason
from ci_evals.model.case import Case, Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import CellReport, Counts, SuiteReport
from ci_evals.model.rules import Gate
from ci_evals.reports.runs import why
from ci_evals.reports.summary import Summary
from ci_evals.stats.rates import flip_rate

CellOutcome = Literal["passed", "flaky", "failed", "errored", "not run"]

# Held against the bar.


@dataclass(frozen=True, slots=True)
class JudgedCell:
    """One case on one variant, held against the pass rate that it must reach."""

    cell: int
    case: Case
    variant: Variant
    counts: Counts
    bar: float

    @property
    def key(self) -> CellKey:
        return self.case.id, self.variant.provider, self.variant.prompt

    @property
    def outcome(self) -> CellOutcome:
        """`failed` is below the bar, `flaky` within it but with failed runs, `errored` without any graded run."""
        share = self.counts.pass_rate
        if share is None:
            return "errored" if self.counts.errored else "not run"
        if share < self.bar:
            return "failed"
        return "flaky" if self.counts.failed else "passed"

    @property
    def tally(self) -> str:
        """`3 of 5 runs passed`, of the runs that were graded, and what became of the others."""
        counts = self.counts
        if counts.errored and not counts.graded and not counts.missing:
            return f"{'all ' if counts.errored > 1 else ''}{number_of(counts.errored, 'run')} errored"
        parts = [f"{counts.passed:,} of {number_of(counts.graded, 'run')} passed"]
        parts += [f"{counts.errored:,} errored"] if counts.errored else []
        parts += [f"{counts.missing:,} not run"] if counts.missing else []
        return ", ".join(parts)


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
        """True if it is worse than the baseline, or may be."""
        return self.found is not None and self.found.kind in ("regressed", "suspect")

    @property
    def critical(self) -> bool:
        """True if its regression alone makes the gate red."""
        return self.found is not None and self.found.kind == "regressed" and self.found.critical


def judged_cells(summary: Summary, variant: Variant | None = None) -> Iterator[JudgedCell]:
    """Yield every cell in plan order, or those of one variant, with its bar."""
    report = summary.report
    cells = report.cells if variant is None else report.cells_among(report.cells_of(variant))
    return _judged(cells, summary.gate)


def troubled_cells(summary: Summary, variant: Variant | None = None) -> Iterator[JudgedCell]:
    """Yield those of `judged_cells` of which a run failed or none was graded; all others passed, whatever their bar."""
    report = summary.report
    cells = range(len(report.plan)) if variant is None else report.cells_of(variant)
    chosen = [cell for cell in cells if (counts := report.by_cell[cell]).failed or not counts.passed]
    return _judged(report.cells_among(chosen), summary.gate)


def _judged(cells: Iterable[CellReport], gate: Gate | None) -> Iterator[JudgedCell]:
    for cell in cells:
        yield JudgedCell(cell.cell, cell.case, cell.variant, cell.counts, bar_of(cell.case, cell.variant, gate))


def bar_of(case: Case, variant: Variant, gate: Gate | None) -> float:
    """Return the case's own bar, else the strictest of the gate's that cover the cell, else 1."""
    if case.min_pass_rate is not None:
        return case.min_pass_rate
    if gate is None:
        return 1.0
    covering = (gate.min_pass_rate, gate.providers.get(variant.provider), *map(gate.tag_bar, case.tags))
    return max((bar for bar in covering if bar is not None), default=1.0)


# Beside the baseline.


@dataclass(frozen=True, slots=True)
class Changes:
    """The cells that a reviewer looks at, each in one group.

    Attributes:
        regressed, possible, fixed: what the comparison found, the surest first.
        failing, still_failing: other cells below their bar, apart those that were below it on the base branch too.
        flaky: cells within their bar but with failed runs. These last three have the lowest pass rate first.
        errored: cells of which no run was graded.
    """

    regressed: tuple[ComparedCell, ...]
    possible: tuple[ComparedCell, ...]
    fixed: tuple[ComparedCell, ...]
    failing: tuple[ComparedCell, ...]
    still_failing: tuple[ComparedCell, ...]
    flaky: tuple[ComparedCell, ...]
    errored: tuple[ComparedCell, ...]


def changes(summary: Summary) -> Changes:
    """Sort the cells of a report."""
    compared = summary.compared
    known = compared.by_key if compared else {}
    keys = {cell.key: cell for cell in judged_cells(summary)} if compared else {}

    def of(kind: CellKind) -> tuple[ComparedCell, ...]:
        chosen = compared.of(kind) if compared else ()
        return tuple(ComparedCell(keys[each.key], each) for each in chosen if each.key in keys)

    regressed, possible = of("regressed"), of("suspect")
    named = {each.judged.key for each in (*regressed, *possible)}
    others: dict[CellOutcome, list[ComparedCell]] = {"failed": [], "flaky": [], "errored": []}
    for cell in troubled_cells(summary):
        if cell.key not in named and (same := others.get(cell.outcome)) is not None:
            same.append(ComparedCell(cell, known.get(cell.key)))
    for outcome in ("failed", "flaky"):
        others[outcome].sort(key=lambda each: each.judged.counts.pass_rate or 0.0)

    def was_failing(cell: ComparedCell) -> bool:
        found = cell.found
        return found is not None and found.p is not None and found.base.rate < cell.judged.bar

    return Changes(
        regressed=regressed,
        possible=possible,
        fixed=of("fixed"),
        failing=tuple(each for each in others["failed"] if not was_failing(each)),
        still_failing=tuple(each for each in others["failed"] if was_failing(each)),
        flaky=tuple(others["flaky"]),
        errored=tuple(others["errored"]),
    )


def finding_of(cell: ComparedCell, comparison: Comparison | NoComparison | None) -> str:
    """Say what became of a cell: what the comparison found, or how many of its runs passed here and on the base."""
    judged, found = cell
    text = judged.tally
    flips = flip_rate(judged.counts.passed, judged.counts.graded)
    if judged.outcome == "flaky" and flips is not None:
        text = f"{text}, flip rate {percent(round(flips, 3))}"
    if found is None or not isinstance(comparison, Comparison):
        return text
    if found.kind in ("regressed", "suspect", "fixed"):
        return cell_finding(comparison, found)
    before = f"{of_runs(found.base)} on {comparison.baseline.called}" if found.base.graded else ""
    if found.kind == "edited":
        return f"{text}; edited, so not compared" + (f": {before}" if before else "")
    return f"{text}; {before}" if before else text


_CHANGED = ("new variant", "removed variant", "new", "edited", "renamed", "removed")
_NOT_COMPARED = ("not compared variant", "not compared")


@dataclass(frozen=True, slots=True)
class Roster:
    """Cases or variants that are not those of the baseline: `3 edited`. A name is one text, or an old and a new one."""

    word: str
    names: tuple[tuple[str, ...], ...]

    @property
    def counted(self) -> str:
        """`3 cases edited`, `1 variant new`."""
        word = self.word.removesuffix(" variant")
        return f"{number_of(len(self.names), 'case' if word == self.word else 'variant')} {word}"


def rosters(comparison: Comparison) -> list[Roster]:
    """List whole variants first, then cases.

    A case that several variants have alike is named once; one that was not compared on some of them, with these. A
    variant that was compared under another name is not removed; only a case of it may be. Where nothing at all was
    compared, that is said elsewhere.
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


# Errors.


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Errored runs of one variant that ended for the same reason, in the words of the first.

    `cases` are those that they are runs of, in plan order; `kind` is None where no error was noted.
    """

    runs: int
    variant: Variant
    message: str
    cases: tuple[Case, ...]
    kind: ErrorKind | None


def error_groups(report: SuiteReport) -> list[ErrorGroup]:
    """Group errored runs by variant and reason, the largest group first."""
    indices = report.indices("errored")
    first: dict[tuple[Variant, ErrorKind | None, Hashable], str] = {}
    cells: dict[tuple[Variant, ErrorKind | None, Hashable], Counter[int]] = {}
    for index, result in zip(indices, report.results(indices), strict=True):
        message, error = why(result)[0], result.error
        variant = Variant(result.provider, result.prompt)
        key = (variant, error.kind, same_reason(error)) if error else (variant, None, message)
        first.setdefault(key, message)
        cells.setdefault(key, Counter())[report.plan.cell_of(index)] += 1
    groups = (
        ErrorGroup(runs.total(), key[0], first[key], tuple(map(report.plan.case, runs)), key[1])
        for key, runs in cells.items()
    )
    return sorted(groups, key=lambda group: -group.runs)
