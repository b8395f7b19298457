"""Missed bars that the base branch misses as well, so that the change did not cause it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from ci_evals.gate.bars import BaseNoise, ScopeVerdict, judge_scopes, scopes_of
from ci_evals.gate.baseline import NO_RUNS
from ci_evals.gate.cells import CellComparison
from ci_evals.gate.compare import BaseRate, Comparison
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.model.rules import Gate
from ci_evals.stats.exact_tests import stratified_lower
from ci_evals.stats.thresholds import DOUBT_P


@dataclass(frozen=True, slots=True)
class MissedOnMain:
    """A bar that the base branch misses as well.

    Attributes:
        base: the rate of the same cells there.
        main: the name of main, if that is of its runs in the same minutes.
    """

    base: BaseRate
    main: str | None = None


@dataclass(frozen=True, slots=True)
class _RunsOfMain:
    """The runs of the base branch that cells of a report are compared with."""

    tallies: Mapping[CellKey, Tally]
    newest_reports: int | None = None
    main: str | None = None


def missed_on_main(
    report: SuiteReport,
    rules: Gate,
    scopes: Sequence[ScopeVerdict],
    comparison: Comparison,
    noise: BaseNoise,
) -> MissedOnMain | None:
    """Return the rate of the base branch if it misses every missed bar, too; else None.

    Cells that were not compared count there as if they passed, so that what is new explains
    nothing. None, too, if something that a bar covers is worse than on the base branch, looks so,
    or is not known well enough: then the change may have a part in it.

    Args:
        report: what was run.
        rules: the bars.
        scopes: their verdicts, the one that leads first among the missed ones.
        comparison: the comparison with the base branch.
        noise: what the base branch tells about the noise of the report.
    """
    missed = [scope for scope in scopes if scope.status == "fail"]
    if not missed or comparison.main_collapsed or comparison.pending is not None:
        return None
    if any(scope.kind == "metric" for scope in missed):
        return None
    cells_of = {(scope.kind, scope.name): scope.cells for scope in scopes_of(report, rules)}
    first = None
    for scope in missed:
        cells = [cell for cell in cells_of[scope.kind, scope.name] if report.by_cell[cell].graded]
        compared = {}
        for cell in cells:
            found = comparison.by_key.get(report.plan.key(cell))
            if found is not None and found.p is not None:
                compared[cell] = found
        if not compared or _may_be_worse(report, scope, cells, compared, comparison):
            return None
        main = _runs_of_main(comparison, list(compared.values()))
        if not _misses(report, rules, scope, compared, main, noise):
            return None
        if first is None:
            rate = fmean([main.tallies[found.key].rate for found in compared.values()])
            first = MissedOnMain(BaseRate(rate, main.newest_reports), main.main)
    return first


def _may_be_worse(
    report: SuiteReport,
    scope: ScopeVerdict,
    cells: Sequence[int],
    compared: Mapping[int, CellComparison],
    comparison: Comparison,
) -> bool:
    """Return True if a scope is worse than on the base branch, or may well be."""
    for found in compared.values():
        # The bar judges the change's own grades, the comparison those of main's checks.
        if found.by_main or found.kind == "regressed":
            return True
        if not found.cleared and comparison.change(found) == "probably worse":
            return True
    variants = {found.variant for found in compared.values()}
    tested = [each for each in comparison.variants if each.variant in variants]
    if any(comparison.change_of_variant(each) in ("worse", "probably worse") for each in tested):
        return True
    main = _runs_of_main(comparison, list(compared.values()))
    tables = []
    for cell, found in compared.items():
        if not found.cleared:
            tables.append((*report.by_cell[cell].tally, *main.tallies[found.key]))
    if tables and stratified_lower(tables) <= DOUBT_P:
        return True
    # Where every run must pass, each failure is a miss of its own.
    if scope.bar == 1:
        failed = [compared.get(cell) for cell in cells if report.by_cell[cell].failed]
        return any(found is None or main.tallies[found.key].rate == 1 for found in failed)
    return False


def _runs_of_main(comparison: Comparison, compared: Sequence[CellComparison]) -> _RunsOfMain:
    """Return main's runs in the same minutes if it made some of every cell, else its reports."""
    if comparison.main is not None and all(cell.main_now.graded for cell in compared):
        return _RunsOfMain({cell.key: cell.main_now for cell in compared}, main=comparison.main)
    newest = comparison.newest_reports_of(compared)
    tallies = {cell.key: comparison.base_runs(cell, newest) for cell in compared}
    return _RunsOfMain(tallies, newest)


def _misses(
    report: SuiteReport,
    rules: Gate,
    scope: ScopeVerdict,
    compared: Mapping[int, CellComparison],
    main: _RunsOfMain,
    noise: BaseNoise,
) -> bool:
    """Return True if the base branch surely misses a bar, by the rules for the report."""
    tallies = [NO_RUNS] * len(report.plan)
    for cell, counts in enumerate(report.by_cell):
        tallies[cell] = Tally(counts.graded, counts.graded)
        if cell in compared:
            tallies[cell] = main.tallies[compared[cell].key]
    verdicts = judge_scopes(report, tallies, rules, BaseNoise(noise.overdispersion))
    return any(
        (each.kind, each.name, each.status) == (scope.kind, scope.name, "fail") for each in verdicts
    )
