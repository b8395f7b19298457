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
            return passed(f"all of {number_of(len(grades), 'check')} passed", score)
        return _failed(f"{len(wrong)} of {number_of(len(grades), 'check')} failed", score, wrong)


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
                reason, sentence = grade.introduce(grade.reason), None
                if grade.sentence is not None:
                    sentence = grade.introduce(grade.sentence)
                return passed(reason, score, sentence=sentence)
        return _failed(f"none of {number_of(len(weighty), 'check')} passed", score, weighty)


def _against_threshold(
    noun: str, score: float, threshold: float, wrong: Sequence[Grade]
) -> Finding:
    """Judge a score; `wrong` are the grades that explain a low one."""
    actual = f"{noun} {score:.2f}"
    if reaches(score, threshold):
        reason = f"{noun} of at least {threshold:g}"
        return passed(reason, score, sentence=f"{actual}, no less than {threshold:g}")
    sentence = f"{actual}, at least {threshold:g} needed"
    return _failed(f"{noun} below {threshold:g}", score, wrong, sentence=sentence)


def _failed(
    reason: str, score: float, wrong: Sequence[Grade], *, sentence: str | None = None
) -> Finding:
    """Return the finding of a missed condition with the reasons of the grades that explain it."""
    if any(grade.sentence is not None for grade in wrong):
        sentence = sentence or reason
    reasons = "; ".join(grade.introduce(grade.reason) for grade in wrong)
    texts = "; ".join(grade.introduce(grade.text) for grade in wrong)
    if reasons:
        reason = f"{reason}: {reasons}"
    if sentence is not None and texts:
        sentence = f"{sentence}: {texts}"
    return failed(reason, score, sentence=sentence)
