"""Several graders as one: `any_of` and `all_of`."""

from collections.abc import Sequence
from dataclasses import dataclass

from ci_evals.format import number_of
from ci_evals.graders.base import Composite, failed, passed, reaches
from ci_evals.graders.scoring import score_of
from ci_evals.model.grading import Finding
from ci_evals.model.result import Grade


@dataclass(frozen=True, slots=True)
class AllOf(Composite):
    """Every grader with a weight passes; or the weighted mean of the scores reaches a threshold.

    Args:
        of: the graders.
        threshold: the lowest mean score that passes; when left out, every grader must pass.
    """

    def combine(self, grades: Sequence[Grade]) -> Finding:
        score = score_of(grades)
        wrong = [grade for grade in grades if not grade.passed and grade.weight]
        if self.threshold is not None:
            return _against_threshold("score", score, self.threshold, wrong)
        if not wrong:
            return passed(f"all of {len(grades)} passed", score)
        graders = number_of(len(grades), "grader")
        return failed(f"{len(wrong)} of {graders} did not pass: {_reasons(wrong)}", score)


@dataclass(frozen=True, slots=True)
class AnyOf(Composite):
    """At least one grader with a weight passes; or the best of their scores reaches a threshold.

    Args:
        of: the graders.
        threshold: the lowest score that passes; when left out, one grader must pass.
    """

    def combine(self, grades: Sequence[Grade]) -> Finding:
        weighty = [grade for grade in grades if grade.weight]
        score = max(grade.score for grade in weighty)
        if self.threshold is not None:
            return _against_threshold("best score", score, self.threshold, weighty)
        for grade in weighty:
            if grade.passed:
                return passed(f"{grade.grader}: {grade.reason}", score, got=grade.got)
        return failed(f"none of {len(weighty)} passed: {_reasons(weighty)}", score)


def _against_threshold(
    noun: str, score: float, threshold: float, wrong: Sequence[Grade]
) -> Finding:
    """Judge a score; `wrong` are the grades that explain a low one."""
    got = f"{score:.2f}"
    if reaches(score, threshold):
        return passed(f"{noun} at least the threshold of {threshold:g}", score, got=got)
    reason = f"{noun} below the threshold of {threshold:g}"
    if wrong:
        reason = f"{reason}: {_reasons(wrong)}"
    return failed(reason, score, got=got)


def _reasons(grades: Sequence[Grade]) -> str:
    return "; ".join(f"{grade.grader}: {grade.reason}" for grade in grades)
