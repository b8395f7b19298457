"""From expectations and an answer to grades, and from grades to a score."""

from collections.abc import Sequence

from ci_evals.graders.findings import reaches
from ci_evals.graders.turn import asker
from ci_evals.model import Expectation, Finding, Grade


def name_of(expectation: Expectation) -> str:
    """The grader as the suite has it, with the function that it calls if it does: `python graders:is_polite`."""
    target = getattr(expectation.grader, "target", None)
    return f"{expectation.name} {target}" if target else expectation.name


def asks_a_model(expectation: Expectation) -> bool:
    """Whether judging costs a call."""
    return asker(expectation.grader) is not None


def graded(expectation: Expectation, finding: Finding) -> Grade:
    """What a grader found, as the suite counts it."""
    passed, score = finding.passed, finding.score
    if expectation.negated:
        passed, score = not passed, 1 - score
    return Grade(
        expectation.name, passed, score, finding.reason, expectation.weight, finding.classified, finding.orders_judge
    )


def score_of(grades: Sequence[Grade]) -> float:
    """The mean score by weight: 1 without grades, the plain mean if nothing has a weight."""
    if len(grades) == 1:
        return grades[0].score
    if not grades:
        return 1.0
    total = sum(grade.weight for grade in grades)
    if total == 0:
        return sum(grade.score for grade in grades) / len(grades)
    return sum(grade.weight * grade.score for grade in grades) / total


def passes(grades: Sequence[Grade], threshold: float | None) -> bool:
    """Whether the run is good: all graders that have a weight passed, or the score reaches the threshold if given."""
    if threshold is None:
        return all(grade.passed or grade.weight == 0 for grade in grades)
    return reaches(score_of(grades), threshold)
