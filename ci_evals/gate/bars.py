"""The parts of the matrix that are judged by themselves: suite, variants, tags, cases, metrics."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from types import MappingProxyType
from typing import Literal, NamedTuple

from ci_evals.format import exact, exact_mean
from ci_evals.gate.baseline import add_tallies
from ci_evals.model.case import Variant
from ci_evals.model.fields import Share
from ci_evals.model.plan import RunPlan
from ci_evals.model.report import RunRecord, SuiteReport, Tally
from ci_evals.model.rules import Gate, read_metric
from ci_evals.stats.rates import (
    Bounds,
    MetricFigure,
    PassRate,
    look_confidence,
    pass_rate,
    sample_mean,
)
from ci_evals.stats.thresholds import MAX_ADVISED_RUNS

ScopeKind = Literal["suite", "variant", "provider", "tag", "case", "metric"]
VerdictStatus = Literal["pass", "borderline", "fail", "error"]

SEVERITY: Mapping[VerdictStatus, int] = {"pass": 0, "borderline": 1, "fail": 2, "error": 3}
VERDICTS: Mapping[VerdictStatus, str] = {
    "pass": "Pass",
    "borderline": "Borderline",
    "fail": "Fail",
    "error": "No verdict",
}
Cause = Literal[
    "unchecked",
    "not compared",
    "no regression",
    "all in quarantine",
    "nothing graded",
    "all errored",
    "too many errored",
    "too few runs",
    "over budget",
]
"""What decides where neither a bar nor a rule does.

`unchecked` means that the code under test was not run.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeVerdict:
    """The gate's verdict on one part of the matrix.

    Rates are fractions in [0, 1]; None where no run was graded. A scope without a `bar` is only
    shown: it passes unless none of its runs was graded. `lower` and `upper` are one-sided bounds,
    each at `confidence`: the gate's, or more where several scopes share one bar. `cases`, `graded`
    and `failed` are numbers of cases and of runs.

    `runs_needed` is the number of runs per case that would tell a rate below the bar from the bar,
    as often as not, and `calls_needed` how many calls of providers that is; None where it is told
    already, or would take more than 100 runs. A `critical` scope that fails is red whatever the
    rest does.
    """

    kind: ScopeKind
    name: str
    bar: Share | None
    status: VerdictStatus
    rate: Share | None
    lower: Share | None
    upper: Share | None
    confidence: Share
    cases: int
    graded: int
    failed: int
    runs_needed: int | None = None
    calls_needed: int | None = None
    critical: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of the matrix that is judged by itself, its cells in plan order.

    A `bar` of None asks for nothing. Scopes of one kind whose bar is the same line of the config
    (`shares_bar`) share the accepted chance of error, too: one of many would miss it by chance.
    """

    kind: ScopeKind
    name: str
    bar: float | None
    cells: Sequence[int]
    critical: bool = False
    shares_bar: bool = False


class BaseNoise(NamedTuple):
    """What the reports of the base branch tell about the noise of a report.

    Args:
        overdispersion: how much more those of a variant vary than independent runs would, where
            that is known. Bounds allow for it; those of a case by itself need not.
        runs: the pooled runs of each cell that has some, by its number in the plan.
    """

    overdispersion: Mapping[Variant, float] = MappingProxyType({})
    runs: Mapping[int, Tally] = MappingProxyType({})

    def estimate(self, tallies: Mapping[int, Tally]) -> PassRate | None:
        """Estimate the pass rate of some cells of the plan; None without graded runs."""
        graded = {cell: tally for cell, tally in tallies.items() if tally.graded}
        earlier: list[Tally] = []
        if graded.keys() <= self.runs.keys():
            earlier = [self.runs[cell] for cell in graded]
        return pass_rate(graded.values(), earlier)


NO_BASE = BaseNoise()


def judge_scopes(
    report: SuiteReport,
    tallies: Sequence[Tally],
    rules: Gate,
    noise: BaseNoise = NO_BASE,
) -> tuple[ScopeVerdict, ...]:
    """Judge every scope: the suite first, metrics last.

    Scopes that share a bar share the error by Bonferroni's inequality.

    Args:
        report: what was run.
        tallies: the graded runs of each cell.
        rules: the bars.
        noise: what the base branch tells about the noise of these.
    """
    scopes = list(scopes_of(report, rules))
    sharing = Counter(scope.kind for scope in scopes if scope.shares_bar)
    verdicts = []
    for scope in scopes:
        rules_of_scope = rules
        if scope.shares_bar:
            confidence = look_confidence(rules.confidence, sharing[scope.kind])
            rules_of_scope = replace(rules, confidence=confidence)
        verdicts.append(_judge(scope, tallies, report, rules_of_scope, noise))
    return (*verdicts, *_metric_scopes(report, rules))


def has_bars(rules: Gate) -> bool:
    """Return True if a bar is set at all; else every run must pass."""
    if rules.min_pass_rate is not None:
        return True
    return bool(rules.tag_bars or rules.providers or rules.metrics)


def worst_first(scopes: Iterable[ScopeVerdict]) -> list[ScopeVerdict]:
    return sorted(scopes, key=lambda scope: -SEVERITY[scope.status])


def scopes_of(report: SuiteReport, rules: Gate) -> Iterator[Scope]:
    """Yield all scopes but the metrics."""
    plan = report.plan
    yield _suite_scope(report, rules)
    if rules.per_variant and rules.min_pass_rate is not None:
        for variant in plan.variants:
            cells = report.gated_cells_of(variant)
            bar = rules.min_pass_rate
            yield Scope("variant", str(variant), bar, cells, shares_bar=True)
    for provider, bar in rules.providers.items():
        cells = [cell for cell in report.gated_cells if plan.variant(cell).provider == provider]
        yield Scope("provider", provider, bar, cells)
    for tag, bar in rules.tag_bars.items():
        tagged = [row for row, case in enumerate(plan.cases) if tag in case.tags]
        gated = [row for row in tagged if plan.cases[row].quarantine is None]
        if gated or not tagged:
            yield Scope("tag", tag, bar, _cells(plan, gated), rules.marks_critical([tag]))
    for row, case in enumerate(plan.cases):
        case_bar = rules.case_bar(case.min_pass_rate)
        if case_bar is not None and case.quarantine is None:
            yield Scope(
                "case",
                case.id,
                case_bar,
                plan.cells_of_row(row),
                critical=case.critical or rules.marks_critical(case.tags),
                shares_bar=case.min_pass_rate is None,
            )


def _suite_scope(report: SuiteReport, rules: Gate) -> Scope:
    """Return the suite with all its cases.

    Where every run must pass only by default, cases with a bar of their own are left out.
    """
    cases = report.plan.cases
    every_row = [row for row, case in enumerate(cases) if case.quarantine is None]
    rows, bar = every_row, rules.min_pass_rate
    if not has_bars(rules):
        rows = [row for row in every_row if rules.case_bar(cases[row].min_pass_rate) is None]
        bar = 1.0 if rows else None
    return Scope("suite", report.suite.name, bar, _cells(report.plan, rows or every_row))


def _cells(plan: RunPlan, rows: Iterable[int]) -> Sequence[int]:
    """Return the cells of some cases."""
    cells: list[int] = []
    for row in rows:
        cells += plan.cells_of_row(row)
    return cells


def _judge(
    scope: Scope,
    tallies: Sequence[Tally],
    report: SuiteReport,
    rules: Gate,
    noise: BaseNoise,
) -> ScopeVerdict:
    cells = [cell for cell in scope.cells if report.plan.runs(cell)]
    chosen = [tallies[cell] for cell in cells]
    total = add_tallies(chosen)
    cases = len({report.plan.row(cell) for cell in cells})
    verdict = ScopeVerdict(
        kind=scope.kind,
        name=scope.name,
        bar=scope.bar,
        status="error",
        rate=None,
        lower=None,
        upper=None,
        confidence=rules.confidence,
        cases=cases,
        graded=total.graded,
        failed=total.graded - total.passed,
        critical=scope.critical,
    )
    estimate = noise.estimate({cell: tallies[cell] for cell in cells})
    if estimate is None:
        return verdict
    if noise.overdispersion and scope.kind != "case":
        variants = {report.plan.variant(cell) for cell in cells}
        known = [noise.overdispersion.get(variant, 1.0) for variant in variants]
        estimate = estimate.widen(max(known))
    bounds = estimate.bounds(rules.confidence)
    status = _status(estimate.rate, bounds, scope.bar, rules)
    rate, lower, upper = float(estimate.rate), bounds.lower, bounds.upper
    verdict = replace(verdict, status=status, rate=rate, lower=lower, upper=upper)
    if status != "borderline" or scope.bar is None or estimate.rate >= exact(scope.bar):
        return verdict
    runs = _runs_needed(estimate, scope.bar, chosen, rules.confidence)
    if runs is None:
        return verdict
    return replace(verdict, runs_needed=runs, calls_needed=runs * len(cells))


def metrics_of(
    report: SuiteReport, variant: Variant, confidence: float
) -> Mapping[str, MetricFigure]:
    """Return the mean score of each metric that graders name.

    The noise in its bounds is that between cases.
    """
    found = {}
    for name, cells in report.metric_scores(variant).items():
        mean = sample_mean(Counter(exact(exact_mean(scores)) for scores in cells))
        runs = sum(len(scores) for scores in cells)
        found[name] = MetricFigure(float(mean.rate), mean.bounds(confidence), runs, len(cells))
    return found


def _metric_scopes(report: SuiteReport, rules: Gate) -> Iterator[ScopeVerdict]:
    """Judge every metric that has a bar on every variant with a case that counts for it.

    It is not graded where it is not defined.
    """
    if not rules.metrics:
        return
    from ci_evals.gate.metrics import label_metric

    figures = {each: metrics_of(report, each, rules.confidence) for each in report.plan.variants}
    for name, bar in rules.metrics.items():
        for variant in _variants_with_metric(report, name):
            figure = figures[variant].get(name)
            if figure is None:
                figure = label_metric(report, variant, name, rules.confidence)
            title = name
            if len(figures) > 1:
                title = f"{name} on {variant}"
            yield _judge_metric(title, figure, bar, report, rules)


def _variants_with_metric(report: SuiteReport, name: str) -> Sequence[Variant]:
    """Return the variants with a case that counts for a metric; all if no case is known to.

    A case without any graded run may be one.
    """
    plan = report.plan
    graded, counting = set(), set()
    for cell in report.gated_cells:
        row = plan.row(cell)
        if report.by_cell[cell].graded:
            graded.add(row)
        if any(_counts_for(name, record) for record in report.records_of((cell,))):
            counting.add(row)
    if not counting:
        return plan.variants
    counting |= set(range(len(plan.cases))) - graded
    found = []
    for variant in plan.variants:
        cells = report.gated_cells_of(variant)
        if any(plan.runs(cell) and plan.row(cell) in counting for cell in cells):
            found.append(variant)
    return found


def _counts_for(name: str, record: RunRecord) -> bool:
    """Return True if a run has a score of a metric, or a label that it is measured by."""
    if any(metric == name for metric, _ in record.metrics):
        return True
    metric = read_metric(name)
    if metric is None:
        return False
    for label in record.labels:
        if label.task == metric.task and metric.label in (None, label.truth):
            return True
    return False


def _judge_metric(
    name: str, figure: MetricFigure | None, bar: float, report: SuiteReport, rules: Gate
) -> ScopeVerdict:
    verdict = ScopeVerdict(
        kind="metric",
        name=name,
        bar=bar,
        status="error",
        rate=None,
        lower=None,
        upper=None,
        confidence=rules.confidence,
        cases=len(report.plan.cases),
        graded=0,
        failed=0,
    )
    if figure is None:
        return verdict
    return replace(
        verdict,
        status=_status(exact(figure.value), figure.bounds, bar, rules),
        rate=figure.value,
        lower=figure.bounds.lower,
        upper=figure.bounds.upper,
        cases=figure.cases,
        graded=figure.runs,
    )


def _status(rate: Fraction, bounds: Bounds, bar: float | None, rules: Gate) -> VerdictStatus:
    """Hold a rate against a bar.

    A bar of 100 % is about the runs that were seen, which leaves no room for doubt.
    """
    if bar is None:
        return "pass"
    if bar >= 1:
        return "pass" if rate >= 1 else "fail"
    if rate < exact(bar):
        return "fail" if bounds.upper < bar else "borderline"
    if rules.prove and bounds.lower < bar:
        return "borderline"
    return "pass"


def _runs_needed(
    estimate: PassRate, bar: float, cells: Sequence[Tally], confidence: float
) -> int | None:
    """Return the runs per cell that would put the upper bound of this rate below the bar.

    `n_eff` grows with them. None if that takes more than `MAX_ADVISED_RUNS`.
    """
    graded = [tally.graded for tally in cells if tally.graded]
    per_cell = sum(graded) / len(graded)
    for runs in range(ceil(per_cell), MAX_ADVISED_RUNS + 1):
        more = PassRate(estimate.rate, estimate.n_eff * runs / per_cell)
        if more.bounds(confidence).upper < bar:
            return runs
    return None
