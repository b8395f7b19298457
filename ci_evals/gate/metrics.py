"""Metrics of labelled runs, such as the recall of a label, with their bounds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple
from zlib import crc32

from ci_evals.model.case import Variant
from ci_evals.model.grading import Classified
from ci_evals.model.report import SuiteReport
from ci_evals.model.rules import BY_LABEL, WHOLE, Metric, read_metric
from ci_evals.stats import classification
from ci_evals.stats.classification import Confusion, confusion, jackknife_bounds, roc_auc
from ci_evals.stats.rates import Bounds, MetricFigure
from ci_evals.stats.thresholds import JACKKNIFE_GROUPS


def label_metric(
    report: SuiteReport, variant: Variant, name: str, confidence: float
) -> MetricFigure | None:
    """Return a metric of labelled runs by its name, such as `recall.refund`.

    None if the metric does not exist or is undefined.
    """
    metric = read_metric(name)
    if metric is None:
        return None
    runs = tasks_of(report.labels_of(variant)).get(metric.task, ())
    found = measure(runs, metric, confidence)
    if found is None:
        return None
    value, bounds = found
    return MetricFigure(value, bounds, len(runs), len(report.plan.cases))


MAX_LABELS = 200
OTHER = "(other)"
"""The label for all those beyond `MAX_LABELS`: a model may answer anything."""


class LabelledRun(NamedTuple):
    """A run's true and predicted label in one task; `scores` are the answer's scores of labels."""

    group: int
    truth: str
    predicted: str
    scores: Mapping[str, float]


def tasks_of(
    labels: Mapping[str, Sequence[tuple[str, Classified]]],
) -> Mapping[str, Sequence[LabelledRun]]:
    """Return the labelled runs by task, of labels as `SuiteReport.labels_of` returns them.

    Labels beyond the first `MAX_LABELS` count as `OTHER`.
    """
    tasks = {}
    for task, found in labels.items():
        given = (label for _, each in found for label in (each.truth, each.predicted))
        known = set(islice(dict.fromkeys(given), MAX_LABELS))
        runs = []
        for case, each in found:
            group = crc32(case.encode(errors="replace")) % JACKKNIFE_GROUPS
            truth = each.truth if each.truth in known else OTHER
            predicted = each.predicted if each.predicted in known else OTHER
            runs.append(LabelledRun(group, truth, predicted, each.scores or {}))
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
