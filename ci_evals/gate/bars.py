"""The parts of the matrix that are judged by themselves: the suite, variants, providers, tags,
cases, metrics.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from math import ceil
from typing import Literal, NamedTuple
from zlib import crc32

from ci_evals.format import exact, exact_mean
from ci_evals.model.case import Variant
from ci_evals.model.fields import Share
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
"""What decides where neither a bar nor a rule does. `unchecked`: the code under test was not run."""
MAX_ADVISED_RUNS = 100
"""The most runs per case that a hint suggests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeVerdict:
    """The gate's verdict on one part of the matrix. Rates are fractions in [0, 1]; None where no
    run was graded.

    A scope without a `bar` is only shown: it passes unless none of its runs was graded. `lower` and
    `upper` are one-sided bounds at the gate's confidence. `cases`, `graded` and `failed` are
    numbers of cases and of runs. `runs_needed` is the number of runs per case that would tell a
    rate below the bar from the bar, as often as not, and `calls_needed` how many calls of providers
    that is; None where it is told already, or would take more than 100 runs. A `critical` scope
    that fails is red whatever the rest does.
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
    """A part of the matrix that is judged by itself, its cells in plan order; a `bar` of None asks
    for nothing.

    Cases that share one bar share the accepted chance of error, too: of many cases one would miss
    it by chance.
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
    counted = (
        _judge(scope, tallies, report, each_case if scope.shares_bar else rules) for scope in scopes
    )
    return (*counted, *_metric_scopes(report, rules))


def has_bars(rules: Gate) -> bool:
    """Return True if a bar is set at all; else every run must pass."""
    return rules.min_pass_rate is not None or bool(
        rules.tag_bars or rules.providers or rules.metrics
    )


def worst_first(scopes: Iterable[ScopeVerdict]) -> list[ScopeVerdict]:
    return sorted(scopes, key=lambda scope: -SEVERITY[scope.status])


def _scopes(report: SuiteReport, rules: Gate) -> Iterator[Scope]:
    """Yield all scopes but the metrics.

    The suite's has all cases; or, where every run must pass only by default, those without a bar of
    their own.
    """
    plan = report.plan
    every_row = [row for row, case in enumerate(plan.cases) if case.quarantine is None]

    def cells(rows: Iterable[int]) -> Sequence[int]:
        width = len(plan.variants)
        return [cell for row in rows for cell in range(row * width, (row + 1) * width)]

    case_bars = {row: rules.case_bar(plan.cases[row].min_pass_rate) for row in every_row}
    rest = every_row if has_bars(rules) else [row for row in every_row if case_bars[row] is None]
    bar = rules.min_pass_rate if has_bars(rules) else 1.0 if rest else None
    yield Scope("suite", report.suite.name, bar, cells(rest or every_row))
    if rules.per_variant and rules.min_pass_rate is not None:
        for variant in plan.variants:
            yield Scope(
                "variant", str(variant), rules.min_pass_rate, report.gated_cells_of(variant)
            )
    for provider, provider_bar in rules.providers.items():
        chosen = [cell for cell in report.gated_cells if plan.variant(cell).provider == provider]
        yield Scope("provider", provider, provider_bar, chosen)
    for tag, tag_bar in rules.tag_bars.items():
        tagged = [row for row in every_row if tag in plan.cases[row].tags]
        if not tagged and any(tag in case.tags for case in plan.cases):
            continue  # all of them are in quarantine
        yield Scope("tag", tag, tag_bar, cells(tagged), tag in rules.critical_tags)
    for row, case_bar in case_bars.items():
        case = plan.cases[row]
        if case_bar is not None:
            critical = case.critical or not rules.critical_tags.isdisjoint(case.tags)
            yield Scope(
                "case",
                case.id,
                case_bar,
                cells((row,)),
                critical,
                shares_bar=case.min_pass_rate is None,
            )


def _judge(
    scope: Scope, tallies: Sequence[Tally], report: SuiteReport, rules: Gate
) -> ScopeVerdict:
    chosen = [tallies[cell] for cell in scope.cells]
    graded = sum(tally.graded for tally in chosen)
    estimate = pass_rate(chosen)
    bounds = estimate.bounds(rules.confidence) if estimate else None
    status = _status(estimate.rate, bounds, scope.bar, rules) if estimate and bounds else "error"
    runs_needed = (
        _runs_needed(estimate, scope.bar, chosen, rules) if status == "borderline" else None
    )
    return ScopeVerdict(
        kind=scope.kind,
        name=scope.name,
        bar=scope.bar,
        status=status,
        rate=float(estimate.rate) if estimate else None,
        lower=bounds.lower if bounds else None,
        upper=bounds.upper if bounds else None,
        cases=len({report.plan.row(cell) for cell in scope.cells}),
        graded=graded,
        failed=graded - sum(tally.passed for tally in chosen),
        runs_needed=runs_needed,
        calls_needed=runs_needed and runs_needed * len(scope.cells),
        critical=scope.critical,
    )


def _metric_scopes(report: SuiteReport, rules: Gate) -> Iterator[ScopeVerdict]:
    """Judge every metric that has a bar on every variant; it is not graded where it is not
    defined.
    """
    chosen = report.plan.variants if rules.metrics else ()
    figures = {variant: metrics_of(report, variant, rules.confidence) for variant in chosen}
    for name, bar in rules.metrics.items():
        for variant in report.plan.variants:
            found = figures[variant].get(name) or _label_metric(
                report, variant, name, rules.confidence
            )
            yield ScopeVerdict(
                kind="metric",
                name=f"{name} on {variant}" if len(report.plan.variants) > 1 else name,
                bar=bar,
                status=_status(exact(found.value), found.bounds, bar, rules) if found else "error",
                rate=found.value if found else None,
                lower=found.bounds.lower if found else None,
                upper=found.bounds.upper if found else None,
                cases=found.cases if found else len(report.plan.cases),
                graded=found.runs if found else 0,
                failed=0,
            )


def _status(rate: Fraction, bounds: Bounds, bar: float | None, rules: Gate) -> VerdictStatus:
    """Hold a rate against a bar. A bar of 100 % is about the runs that were seen, which leaves no
    room for doubt.
    """
    if bar is None:
        return "pass"
    if bar >= 1:
        return "pass" if rate >= 1 else "fail"
    if rate < exact(bar):
        return "fail" if bounds.upper < bar else "borderline"
    return "borderline" if rules.prove and bounds.lower < bar else "pass"


def _runs_needed(
    estimate: PassRate | None, bar: float | None, chosen: Sequence[Tally], rules: Gate
) -> int | None:
    """Return the runs per cell that would put the upper bound of this rate below the bar: `n_eff`
    grows with them.
    """
    if estimate is None or bar is None or estimate.rate >= exact(bar):
        return None
    cells = sum(1 for tally in chosen if tally.graded)
    per_cell = sum(tally.graded for tally in chosen) / cells

    def tells(runs: int) -> bool:
        return (
            PassRate(estimate.rate, estimate.n_eff * runs / per_cell).bounds(rules.confidence).upper
            < bar
        )

    return next((runs for runs in range(ceil(per_cell), MAX_ADVISED_RUNS + 1) if tells(runs)), None)


class MetricFigure(NamedTuple):
    """A metric on one variant: its value and bounds, and the graded runs and cases that it is
    of.
    """

    value: float
    bounds: Bounds
    runs: int
    cases: int


def metrics_of(
    report: SuiteReport, variant: Variant, confidence: float
) -> Mapping[str, MetricFigure]:
    """Return the mean score of each metric that graders name; the noise in its bounds is that
    between cases.
    """
    found = {}
    for name, cells in report.metric_scores(variant).items():
        mean = sample_mean([exact(exact_mean(scores)) for scores in cells])
        found[name] = MetricFigure(
            float(mean.rate), mean.bounds(confidence), sum(map(len, cells)), len(cells)
        )
    return found


def _label_metric(
    report: SuiteReport, variant: Variant, name: str, confidence: float
) -> MetricFigure | None:
    if (metric := read_metric(name)) is None:
        return None
    runs = tasks_of(report, variant).get(metric.task, ())
    found = measure(runs, metric, confidence)
    return MetricFigure(*found, len(runs), len(report.plan.cases)) if found else None


# Metrics of labelled runs.

GROUPS = 50
"""The number of groups that cases fall into: a metric that depends on single groups is not sure."""
MAX_LABELS = 200
OTHER = "(other)"
"""The label that stands for those beyond `MAX_LABELS`: a model may answer anything."""


class LabelledRun(NamedTuple):
    """A run's true and predicted label in one task; `scores` are those that the answer gave to
    labels.
    """

    group: int
    truth: str
    predicted: str
    scores: Mapping[str, float]


def tasks_of(report: SuiteReport, variant: Variant) -> Mapping[str, Sequence[LabelledRun]]:
    """Return the labelled runs of one variant by task. Labels beyond the first `MAX_LABELS` count
    as `OTHER`.
    """
    tasks = {}
    for task, found in report.labels_of(variant).items():
        given = (label for _, labels in found for label in (labels.truth, labels.predicted))
        known = set(islice(dict.fromkeys(given), MAX_LABELS))
        tasks[task] = [
            LabelledRun(
                group=crc32(case.encode(errors="replace")) % GROUPS,
                truth=labels.truth if labels.truth in known else OTHER,
                predicted=labels.predicted if labels.predicted in known else OTHER,
                scores=labels.scores or {},
            )
            for case, labels in found
        ]
    return tasks


def table_of(runs: Iterable[LabelledRun]) -> Confusion:
    """Count how often each label was predicted for each true one."""
    return confusion((run.truth, run.predicted) for run in runs)


def figures_of(runs: Sequence[LabelledRun]) -> Iterator[tuple[Metric, float | None]]:
    """Yield the metrics of the whole, then those of each label."""
    table = table_of(runs)
    every = [Metric(name) for name in WHOLE] + [
        Metric(name, label) for label in table.labels for name in BY_LABEL
    ]
    return ((metric, _value(metric, runs, table)) for metric in every)


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
        if (found := _value(metric, rest, table_of(rest))) is not None:
            without.append(found)
    return value, Bounds(*(jackknife_bounds(value, without, confidence) or (0.0, 1.0)))


def _value(metric: Metric, runs: Iterable[LabelledRun], table: Confusion) -> float | None:
    label = metric.label
    if label is None:
        return (
            classification.accuracy(table)
            if metric.name == "accuracy"
            else classification.macro_f1(table)
        )
    if metric.name == "roc_auc":
        return roc_auc(
            (run.scores[label], run.truth == label) for run in runs if label in run.scores
        )
    if label not in table.labels:
        return None
    by_name = {
        "precision": classification.precision,
        "recall": classification.recall,
        "f1": classification.f1,
    }
    return by_name[metric.name](table, label)
