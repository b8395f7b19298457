"""What labels were taken for."""

from ci_evals.model import Variant
from ci_evals.reports.labels import TaskReport
from ci_evals.stats.agreement import Confusion


def test_the_most_frequent_labels_are_told_and_that_there_are_more() -> None:
    labels = ("a", "b", "c", "d", "e")
    counts = ((1, 2, 1200, 0, 3), (1, 2, 1200, 4, 3), (0, 0, 0, 0, 0), (0, 0, 0, 9, 0), (1, 1, 0, 0, 0))
    task = TaskReport(Variant("m"), "classify", None, None, (), Confusion(labels, counts))
    assert [task.taken_for(row, str.upper) for row in range(5)] == [
        "1,200 × C, 3 × E, 2 × B, 1 × A",
        "1,200 × C, 4 × D, 3 × E, 2 × B, …",
        "",
        "9 × D",
        "1 × A, 1 × B",
    ]
