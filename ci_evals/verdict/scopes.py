"""The parts of the matrix that are judged by themselves: the suite, variants, providers, tags, cases, metrics."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import groupby
from math import ceil
from typing import Literal

from msgspec import Struct

from ci_evals.percentage import percent
from ci_evals.report import Counts, Report
from ci_evals.rules import Gate
from ci_evals.stats.pass_rate import Bounds, PassRate, pass_rate
from ci_evals.verdict.history import Tally
from ci_evals.verdict.metric_names import read_metric
from ci_evals.verdict.metrics import measure, tasks_of
from ci_evals.verdict.words import exact, name_of, number_of

ScopeKind = Literal["suite", "variant", "provider", "tag", "case", "metric"]
VerdictStatus = Literal["pass", "borderline", "fail", "error"]

SEVERITY: Mapping[VerdictStatus, int] = {"pass": 0, "borderline": 1, "fail": 2, "error": 3}
STATUS_WORDS: Mapping[VerdictStatus, str] = {
    "pass": "PASS",
    "borderline": "BORDERLINE",
    "fail": "FAIL",
    "error": "NO VERDICT",
}
MOST_RUNS = 100
"""Nobody is told to run a case more often."""


class ScopeVerdict(Struct, frozen=True, kw_only=True):
    """What the gate says of one part of the matrix. Rates are fractions in [0, 1]; None where no run was graded, or
    where the runs ended as soon as the verdict was certain: they are no fair sample.

    A scope without a `bar` is there to be shown: it passes unless none of its runs was graded. `lower` and `upper`
    are one-sided bounds at the gate's confidence. `cases`, `graded` and `failed` are numbers of cases and of runs.
    `runs_needed` is how often each case would have to run to tell a rate below the bar from the bar; None where it is
    told already, or not within `MOST_RUNS`. A `critical` scope that fails is red whatever the rest does.
    """

    kind: ScopeKind
    name: str
    bar: float | None
    status: VerdictStatus
    rate: float | None
    lower: float | None
    upper: float | None
    cases: int
    graded: int
    failed: int
    runs_needed: int | None = None
    critical: bool = False


class Scope(Struct, frozen=True):
    """A part of the matrix that is judged by itself, its cells in plan order; a `bar` of None asks for nothing."""

    kind: ScopeKind
    name: str
    bar: float | None
    cells: Sequence[int]
    critical: bool = False


@lru_cache  # thousands of cells share a few
def tally(counts: Counts) -> Tally:
    return Tally(counts.passed, counts.graded)


def judged_scopes(report: Report, tallies: Sequence[Tally], rules: Gate) -> tuple[ScopeVerdict, ...]:
    """Everything that is judged, the suite first, by the graded runs of each cell; metrics last.

    Of a run phase that was settled early no metric is judged: the runs that were left out have no labels.
    """
    counted = (_judge(scope, tallies, report, rules) for scope in _scopes(report, rules))
    return (*counted, *(_metric_scopes(report, rules) if report.settled is None else ()))


def has_bars(rules: Gate) -> bool:
    """Whether a bar is set at all; else every run must pass."""
    return rules.min_pass_rate is not None or bool(rules.tag_bars or rules.providers or rules.metrics)


def scope_label(scope: ScopeVerdict, report: Report) -> str:
    """`suite`, or what precedes the name: `tag`. A suite without the cases that have their own bar says so."""
    return "suite, other cases" if scope.kind == "suite" and _leaves_cases_out(scope, report) else scope.kind


def subject(scope: ScopeVerdict, report: Report) -> str:
    """What a sentence about a scope starts with."""
    if scope.kind == "suite":
        return "other cases: " if _leaves_cases_out(scope, report) else ""
    return f"{scope.kind} {name_of(scope.name)}: "


def worst_first(scopes: Iterable[ScopeVerdict]) -> list[ScopeVerdict]:
    return sorted(scopes, key=lambda scope: -SEVERITY[scope.status])


def sentence(scope: ScopeVerdict, rules: Gate) -> str:
    """How a scope with a bar and graded runs stands to it."""
    assert scope.bar is not None
    assert scope.rate is not None
    assert scope.lower is not None
    assert scope.upper is not None
    what = "" if scope.kind == "metric" else "pass rate "
    if scope.bar >= 1 and scope.kind != "metric":
        if scope.status == "fail":
            return f"{scope.failed:,} of {number_of(scope.graded, 'run')} failed, and every run must pass"
        return f"{scope.graded:,} of {number_of(scope.graded, 'run')} passed"
    rate, bar = percent(scope.rate, scope.bar), percent(scope.bar, scope.bar)
    sure = f"{percent(rules.confidence)} sure"
    at_least = f"({sure}: at least {percent(scope.lower, scope.bar)})"
    if scope.status == "fail":
        return f"{what}{rate} is below the bar of {bar} ({sure}: at most {percent(scope.upper, scope.bar)})"
    if scope.status == "pass":
        return f"{what}{rate} meets the bar of {bar}" + (f" {at_least}" if rules.prove else "")
    if scope.rate < scope.bar:
        return what + _undecided(scope, rate, bar, rules)
    return f"{what}{rate} meets the bar of {bar}, but more runs are needed to prove it {at_least}"


def _undecided(scope: ScopeVerdict, rate: str, bar: str, rules: Gate) -> str:
    """`87.5 % is below the bar of 90 %, but 120 runs of 40 cases cannot tell 87.5 from 90: not blocked.`"""
    evidence = f"{number_of(scope.graded, 'run')} of {number_of(scope.cases, 'case')}"
    apart = f"{rate.removesuffix(' %')} from {bar.removesuffix(' %')}"
    outcome = "blocked, as `on_borderline` says" if rules.on_borderline == "fail" else "not blocked"
    more = f". {number_of(scope.runs_needed, 'run')} of each could tell" if scope.runs_needed else ""
    return f"{rate} is below the bar of {bar}, but {evidence} cannot tell {apart}: {outcome}{more}"


def _scopes(report: Report, rules: Gate) -> Iterator[Scope]:
    matrix = report.matrix
    yield _suite_scope(report, rules)
    if rules.per_variant and rules.min_pass_rate is not None:
        for variant in matrix.variants:
            yield Scope("variant", str(variant), rules.min_pass_rate, report.cells_of(variant))
    for provider, bar in rules.providers.items():
        cells = [cell for cell in range(len(matrix)) if matrix.variant(cell).provider == provider]
        yield Scope("provider", provider, bar, cells)
    rows_of: dict[str, list[int]] = {tag: [] for tag in rules.tag_bars}
    for row, case in enumerate(matrix.cases):
        for tag in rows_of.keys() & case.tags:
            rows_of[tag].append(row)
    for tag, bar in rules.tag_bars.items():
        yield Scope("tag", tag, bar, _cells(report, rows_of[tag]), tag in rules.critical_tags)
    for row, case in enumerate(matrix.cases):
        if case.min_pass_rate is not None:
            critical = case.critical or not rules.critical_tags.isdisjoint(case.tags)
            yield Scope("case", case.id, case.min_pass_rate, _cells(report, (row,)), critical)


def _suite_scope(report: Report, rules: Gate) -> Scope:
    """All cells; or, where every run must pass only by default, those of the cases without a bar of their own."""
    everything = range(len(report.matrix))
    if has_bars(rules):
        return Scope("suite", report.suite.name, rules.min_pass_rate, everything)
    rest = array("Q", (row for row, case in enumerate(report.matrix.cases) if case.min_pass_rate is None))
    if rest:
        return Scope("suite", report.suite.name, 1.0, _cells(report, rest))
    return Scope("suite", report.suite.name, None, everything)


def _cells(report: Report, rows: Iterable[int]) -> Sequence[int]:
    """The cells of some cases on all their variants."""
    width = len(report.matrix.variants)
    return array("Q", (cell for row in rows for cell in range(row * width, (row + 1) * width)))


def _judge(scope: Scope, tallies: Sequence[Tally], report: Report, rules: Gate) -> ScopeVerdict:
    chosen = [tallies[cell] for cell in scope.cells]
    graded = sum(tally.graded for tally in chosen)
    estimate = pass_rate(chosen)
    bounds = estimate.bounds(rules.confidence) if estimate else None
    status = _status(estimate.rate, bounds, scope.bar, rules) if estimate and bounds else "error"
    return ScopeVerdict(
        kind=scope.kind,
        name=scope.name,
        bar=scope.bar,
        status=status,
        rate=float(estimate.rate) if estimate else None,
        lower=bounds.lower if bounds else None,
        upper=bounds.upper if bounds else None,
        cases=sum(1 for _ in groupby(cell // len(report.matrix.variants) for cell in scope.cells)),
        graded=graded,
        failed=graded - sum(tally.passed for tally in chosen),
        runs_needed=_runs_needed(estimate, scope.bar, chosen, rules) if status == "borderline" else None,
        critical=scope.critical,
    )


def _metric_scopes(report: Report, rules: Gate) -> Iterator[ScopeVerdict]:
    """Every metric that has a bar, on every variant; it is not graded where it is not defined."""
    for name, bar in rules.metrics.items():
        metric = read_metric(name)
        for variant in report.matrix.variants:
            labelled = tasks_of(report, variant).get(metric.task) if metric else None
            found = measure(labelled, metric, rules.confidence) if labelled and metric else None
            rate, lower, upper, runs = found or (None, None, None, 0)
            bounds = Bounds(lower, upper) if lower is not None and upper is not None else None
            yield ScopeVerdict(
                kind="metric",
                name=f"{name} on {variant}" if len(report.matrix.variants) > 1 else name,
                bar=bar,
                status=_status(exact(rate), bounds, bar, rules) if rate is not None and bounds else "error",
                rate=rate,
                lower=lower,
                upper=upper,
                cases=len(report.matrix.cases),
                graded=0 if rate is None else runs,
                failed=0,
            )


def _status(rate: Fraction, bounds: Bounds, bar: float | None, rules: Gate) -> VerdictStatus:
    """A bar of 100 % is about the runs that were seen, which leaves no room for doubt in either direction."""
    if bar is None:
        return "pass"
    if bar >= 1:
        return "pass" if rate >= 1 else "fail"
    if rate < exact(bar):
        return "fail" if bounds.upper < bar else "borderline"
    return "borderline" if rules.prove and bounds.lower < bar else "pass"


def _runs_needed(estimate: PassRate | None, bar: float | None, chosen: Sequence[Tally], rules: Gate) -> int | None:
    """How many runs of each cell would put the upper bound of this rate below the bar: `n_eff` grows with them."""
    if estimate is None or bar is None or estimate.rate >= exact(bar):
        return None
    cells = sum(1 for tally in chosen if tally.graded)
    per_cell = sum(tally.graded for tally in chosen) / cells

    def tells(runs: int) -> bool:
        return PassRate(estimate.rate, estimate.n_eff * runs / per_cell).bounds(rules.confidence).upper < bar

    low, high = ceil(per_cell), MOST_RUNS
    if not tells(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if tells(middle) else (middle + 1, high)
    return low


def _leaves_cases_out(scope: ScopeVerdict, report: Report) -> bool:
    return scope.cases < len(report.matrix.cases)
