"""The parts of the matrix that are judged by themselves: suite, variants, tags, cases, metrics."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from math import ceil
from typing import Literal, NamedTuple
from zlib import crc32

from ci_evals.format import exact, exact_mean
from ci_evals.gate.baseline import add_tallies
from ci_evals.model.case import Variant
from ci_evals.model.fields import Share
from ci_evals.model.plan import RunPlan
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.model.rules import BY_LABEL, WHOLE, Gate, Metric, read_metric
from ci_evals.stats import classification
from ci_evals.stats.classification import Confusion, confusion, jackknife_bounds, roc_auc
from ci_evals.stats.rates import Bounds, PassRate, look_confidence, pass_rate, sample_mean

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
MAX_ADVISED_RUNS = 100
"""The most runs per case that a hint suggests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeVerdict:
    """The gate's verdict on one part of the matrix.

    Rates are fractions in [0, 1]; None where no run was graded. A scope without a `bar` is only
    shown: it passes unless none of its runs was graded. `lower` and `upper` are one-sided bounds at
    the gate's confidence. `cases`, `graded` and `failed` are numbers of cases and of runs.

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
    cases: int
    graded: int
    failed: int
    runs_needed: int | None = None
    calls_needed: int | None = None
    critical: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of the matrix that is judged by itself, its cells in plan order.

    A `bar` of None asks for nothing. Cases that share one bar share the accepted chance of error,
    too: of many cases one would miss it by chance.
    """

    kind: ScopeKind
    name: str
    bar: float | None
    cells: Sequence[int]
    critical: bool = False
    shares_bar: bool = False


def judge_scopes(
    report: SuiteReport, tallies: Sequence[Tally], rules: Gate
) -> tuple[ScopeVerdict, ...]:
    """Judge every scope by the graded runs of each cell: the suite first, metrics last."""
    scopes = list(_scopes(report, rules))
    shared = sum(scope.shares_bar for scope in scopes)
    each_case = replace(rules, confidence=look_confidence(rules.confidence, max(1, shared)))
    verdicts = []
    for scope in scopes:
        rules_of_scope = each_case if scope.shares_bar else rules
        verdicts.append(_judge(scope, tallies, report, rules_of_scope))
    return (*verdicts, *_metric_scopes(report, rules))


def has_bars(rules: Gate) -> bool:
    """Return True if a bar is set at all; else every run must pass."""
    if rules.min_pass_rate is not None:
        return True
    return bool(rules.tag_bars or rules.providers or rules.metrics)


def worst_first(scopes: Iterable[ScopeVerdict]) -> list[ScopeVerdict]:
    return sorted(scopes, key=lambda scope: -SEVERITY[scope.status])


def _scopes(report: SuiteReport, rules: Gate) -> Iterator[Scope]:
    """Yield all scopes but the metrics."""
    plan = report.plan
    yield _suite_scope(report, rules)
    if rules.per_variant and rules.min_pass_rate is not None:
        for variant in plan.variants:
            cells = report.gated_cells_of(variant)
            yield Scope("variant", str(variant), rules.min_pass_rate, cells)
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
                _cells(plan, [row]),
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
    width = len(plan.variants)
    cells: list[int] = []
    for row in rows:
        cells += range(row * width, (row + 1) * width)
    return cells


def _judge(
    scope: Scope, tallies: Sequence[Tally], report: SuiteReport, rules: Gate
) -> ScopeVerdict:
    chosen = [tallies[cell] for cell in scope.cells]
    total = add_tallies(chosen)
    cases = len({report.plan.row(cell) for cell in scope.cells})
    estimate = pass_rate(chosen)
    if estimate is None:
        return ScopeVerdict(
            kind=scope.kind,
            name=scope.name,
            bar=scope.bar,
            status="error",
            rate=None,
            lower=None,
            upper=None,
            cases=cases,
            graded=0,
            failed=0,
            critical=scope.critical,
        )
    bounds = estimate.bounds(rules.confidence)
    status = _status(estimate.rate, bounds, scope.bar, rules)
    runs_needed = None
    if status == "borderline" and scope.bar is not None and estimate.rate < exact(scope.bar):
        runs_needed = _runs_needed(estimate, scope.bar, chosen, rules.confidence)
    return ScopeVerdict(
        kind=scope.kind,
        name=scope.name,
        bar=scope.bar,
        status=status,
        rate=float(estimate.rate),
        lower=bounds.lower,
        upper=bounds.upper,
        cases=cases,
        graded=total.graded,
        failed=total.graded - total.passed,
        runs_needed=runs_needed,
        calls_needed=None if runs_needed is None else runs_needed * len(scope.cells),
        critical=scope.critical,
    )


def _metric_scopes(report: SuiteReport, rules: Gate) -> Iterator[ScopeVerdict]:
    """Judge every metric that has a bar on every variant.

    It is not graded where it is not defined.
    """
    if not rules.metrics:
        return
    figures = {each: metrics_of(report, each, rules.confidence) for each in report.plan.variants}
    for name, bar in rules.metrics.items():
        for variant, known in figures.items():
            figure = known.get(name) or _label_metric(report, variant, name, rules.confidence)
            title = f"{name} on {variant}" if len(figures) > 1 else name
            yield _judge_metric(title, figure, bar, report, rules)


def _judge_metric(
    name: str, figure: "MetricFigure | None", bar: float, report: SuiteReport, rules: Gate
) -> ScopeVerdict:
    if figure is None:
        return ScopeVerdict(
            kind="metric",
            name=name,
            bar=bar,
            status="error",
            rate=None,
            lower=None,
            upper=None,
            cases=len(report.plan.cases),
            graded=0,
            failed=0,
        )
    return ScopeVerdict(
        kind="metric",
        name=name,
        bar=bar,
        status=_status(exact(figure.value), figure.bounds, bar, rules),
        rate=figure.value,
        lower=figure.bounds.lower,
        upper=figure.bounds.upper,
        cases=figure.cases,
        graded=figure.runs,
        failed=0,
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


class MetricFigure(NamedTuple):
    """A metric on one variant with its bounds, and the number of graded runs and cases."""

    value: float
    bounds: Bounds
    runs: int
    cases: int


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


def _label_metric(
    report: SuiteReport, variant: Variant, name: str, confidence: float
) -> MetricFigure | None:
    metric = read_metric(name)
    if metric is None:
        return None
    runs = tasks_of(report, variant).get(metric.task, ())
    found = measure(runs, metric, confidence)
    if found is None:
        return None
    value, bounds = found
    return MetricFigure(value, bounds, len(runs), len(report.plan.cases))


# Metrics of labelled runs.

GROUPS = 50
"""The number of groups that cases fall into: a metric that depends on single groups is not sure."""
MAX_LABELS = 200
OTHER = "(other)"
"""The label that stands for those beyond `MAX_LABELS`: a model may answer anything."""


class LabelledRun(NamedTuple):
    """A run's true and predicted label in one task; `scores` are the answer's scores of labels."""

    group: int
    truth: str
    predicted: str
    scores: Mapping[str, float]


def tasks_of(report: SuiteReport, variant: Variant) -> Mapping[str, Sequence[LabelledRun]]:
    """Return the labelled runs of one variant by task.

    Labels beyond the first `MAX_LABELS` count as `OTHER`.
    """
    tasks = {}
    for task, found in report.labels_of(variant).items():
        given = (label for _, labels in found for label in (labels.truth, labels.predicted))
        known = set(islice(dict.fromkeys(given), MAX_LABELS))
        runs = []
        for case, labels in found:
            group = crc32(case.encode(errors="replace")) % GROUPS
            truth = labels.truth if labels.truth in known else OTHER
            predicted = labels.predicted if labels.predicted in known else OTHER
            runs.append(LabelledRun(group, truth, predicted, labels.scores or {}))
        tasks[task] = runs
    return tasks


def table_of(runs: Iterable[LabelledRun]) -> Confusion:
    """Count how often each label was predicted for each true one."""
    return confusion((run.truth, run.predicted) for run in runs)


def figures_of(runs: Sequence[LabelledRun]) -> Iterator[tuple[Metric, float | None]]:
    """Yield the metrics of the whole, then those of each label."""
    table = table_of(runs)
    for name in WHOLE:
        metric = Metric(name)
        yield metric, _value(metric, runs, table)
    for label in table.labels:
        for name in BY_LABEL:
            metric = Metric(name, label)
            yield metric, _value(metric, runs, table)


def measure(
    runs: Sequence[LabelledRun], metric: Metric, confidence: float
) -> tuple[float, Bounds] | None:
    """Compute a metric with its bounds, each at `confidence`, by a jackknife over groups of cases.

    Returns None where the metric is not defined. With too few groups, the bounds are 0 and 1.
    """
    value = _value(metric, runs, table_of(runs))
    if value is None:
        return None
    without = []
    for group in sorted({run.group for run in runs}):
        rest = [run for run in runs if run.group != group]
        value_of_rest = _value(metric, rest, table_of(rest))
        if value_of_rest is not None:
            without.append(value_of_rest)
    interval = jackknife_bounds(value, without, confidence)
    return value, Bounds(0.0, 1.0) if interval is None else Bounds(*interval)


def _value(metric: Metric, runs: Iterable[LabelledRun], table: Confusion) -> float | None:
    label = metric.label
    if label is None:
        if metric.name == "accuracy":
            return classification.accuracy(table)
        return classification.macro_f1(table)
    if metric.name == "roc_auc":
        scored = [(run.scores[label], run.truth == label) for run in runs if label in run.scores]
        return roc_auc(scored)
    if label not in table.labels:
        return None
    match metric.name:
        case "precision":
            return classification.precision(table, label)
        case "recall":
            return classification.recall(table, label)
        case _:
            return classification.f1(table, label)
