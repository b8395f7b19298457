"""Metrics of classifying graders: their values, and how sure they are."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ci_evals.labelled import Labelled
from ci_evals.model import Variant
from ci_evals.report import Report
from ci_evals.stats import classification
from ci_evals.stats.agreement import Confusion, confusion
from ci_evals.stats.jackknife import jackknife_bounds
from ci_evals.stats.ranking import roc_auc
from ci_evals.verdict.metric_names import BY_LABEL, WHOLE, Metric


class Measured(NamedTuple):
    """A metric's value in [0, 1], and one-sided bounds; None where it is not defined or too little was seen."""

    value: float | None
    lower: float | None
    upper: float | None
    runs: int


def measure(labelled: Labelled, metric: Metric, confidence: float) -> Measured:
    """A metric with its bounds, each at `confidence`; the cases' groups are what it is jackknifed over."""
    value = _value(labelled, metric, None)
    runs = labelled.pairs.total()
    if value is None:
        return Measured(None, None, None, runs)
    without = [_value(labelled, metric, group) for group in labelled.groups]
    bounds = jackknife_bounds(value, [each for each in without if each is not None], confidence)
    return Measured(value, bounds.lower if bounds else 0.0, bounds.upper if bounds else 1.0, runs)


def tasks_of(report: Report, variant: Variant) -> Mapping[str, Labelled]:
    """What was labelled on one variant, by task."""
    return {
        task: labelled
        for (provider, prompt, task), labelled in report.columns.labelled.items()
        if (provider, prompt) == (variant.provider, variant.prompt)
    }


def table_of(labelled: Labelled, without: int | None = None) -> Confusion:
    """How often each label was predicted for each true one; without a group of cases if one is given."""
    counts = labelled.pairs_without(without)
    return confusion(pair for pair, count in counts.items() for _ in range(count))


def figures_of(labelled: Labelled) -> Iterator[tuple[Metric, float | None]]:
    """Every metric that there is: of the whole, then of each label."""
    table = table_of(labelled)
    for name in WHOLE:
        yield Metric(name), _of(table, labelled, Metric(name), None)
    for label in table.labels:
        for name in BY_LABEL:
            yield Metric(name, label), _of(table, labelled, Metric(name, label), None)


def _value(labelled: Labelled, metric: Metric, without: int | None) -> float | None:
    return _of(table_of(labelled, without), labelled, metric, without)


def _of(table: Confusion, labelled: Labelled, metric: Metric, without: int | None) -> float | None:
    label = metric.label
    if label is None:
        return classification.accuracy(table) if metric.name == "accuracy" else classification.macro_f1(table)
    if metric.name == "roc_auc":
        return roc_auc(labelled.scores_without(label, without))
    if label not in table.labels:
        return None
    by_name = {"precision": classification.precision, "recall": classification.recall, "f1": classification.f1}
    return by_name[metric.name](table, label)
