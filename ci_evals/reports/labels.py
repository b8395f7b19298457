"""What a report says of labels: figures of each task, and how often which label was taken for which."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from ci_evals.model import Variant
from ci_evals.report import Report
from ci_evals.stats.agreement import Confusion
from ci_evals.verdict.metric_names import BY_LABEL
from ci_evals.verdict.metrics import figures_of, table_of, tasks_of

MAX_LABELS_SHOWN = 20
_MOST_GIVEN = 4


class LabelReport(Struct, frozen=True):
    """One label: its figures in the order of `BY_LABEL`, None where one is not defined."""

    label: str
    truths: int
    precision: float | None
    recall: float | None
    f1: float | None
    roc_auc: float | None


class TaskReport(Struct, frozen=True):
    """One task on one variant."""

    variant: Variant
    task: str
    accuracy: float | None
    macro_f1: float | None
    labels: tuple[LabelReport, ...]
    table: Confusion

    @property
    def name(self) -> str:
        return "labels" if self.task == "classify" else self.task

    def taken_for(self, row: int, show: Callable[[str], str]) -> str:
        """`15 × spam, 5 × ham`: what was given where the label of a row is true, the most frequent first."""
        given = zip(self.table.counts[row], map(show, self.table.labels), strict=True)
        frequent = sorted(((count, label) for count, label in given if count), key=lambda each: -each[0])
        texts = [f"{count:,} × {label}" for count, label in frequent[:_MOST_GIVEN]]
        return ", ".join([*texts, "…"] if len(frequent) > _MOST_GIVEN else texts)


def task_reports(report: Report) -> Iterator[TaskReport]:
    """Every task of every variant."""
    for variant in report.matrix.variants:
        for task, labelled in tasks_of(report, variant).items():
            found = dict(figures_of(labelled))
            whole = {metric.name: value for metric, value in found.items() if metric.label is None}
            of = {(metric.label, metric.name): value for metric, value in found.items()}
            table = table_of(labelled)
            labels = tuple(
                LabelReport(label, truths, *(of[label, name] for name in BY_LABEL))
                for label, truths in zip(table.labels, table.true_counts, strict=True)
            )
            yield TaskReport(variant, task, whole["accuracy"], whole["macro_f1"], labels, table)
