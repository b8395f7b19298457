"""Several graders as one: `any_of` and `all_of`; and what the grades of a run come to together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field

from ci_evals.format import exact_mean, number_of
from ci_evals.graders.base import GraderOptions, failed, passed, reaches
from ci_evals.model.fields import OneOrMore, Share
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer
from ci_evals.model.result import Grade


@dataclass(frozen=True, slots=True)
class Composite(GraderOptions):
    """Graders that judge as one. Once checked, `of` has `Expectation`s, whose grades `combine`
    gets.
    """

    short: ClassVar[str] = "of"

    of: Annotated[OneOrMore[Any], Field(description="Graders in any spelling, these two included.")]
    threshold: Annotated[Share | None, Field(description="The lowest score that passes.")] = None

    def for_negation(self) -> Self:
        of = []
        for each in self.of:
            if isinstance(each.grader, GraderOptions):
                of.append(replace(each, grader=each.grader.for_negation()))
            else:
                of.append(each)
        return replace(self, of=tuple(of))

    def grade(self, answer: Answer) -> Finding:
        raise TypeError(f"`graders.scoring.grade` grades the parts of {type(self).__name__}")

    def combine(self, grades: Sequence[Grade]) -> Finding:
        """Judge by the grades of `of`, in its order."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class AllOf(Composite):
    """Each grader passes, but for those of weight 0; or the mean of their scores by weight reaches
    a threshold.

    Args:
        of: the graders.
        threshold: the lowest mean score that passes; left out, every grader must pass.
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
    """One grader passes, those of weight 0 aside; or the best of their scores reaches a threshold.

    Args:
        of: the graders.
        threshold: the lowest score that passes; left out, one grader must pass.
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


def score_of(grades: Sequence[Grade]) -> float:
    """Return the mean score by weight: 1 without grades, the plain mean if nothing has a weight."""
    if not grades:
        return 1.0
    if len(grades) == 1:
        return grades[0].score
    scores = [grade.score for grade in grades]
    weights = [grade.weight for grade in grades]
    if not any(weights):
        return exact_mean(scores)
    return exact_mean(scores, weights)


def passes(grades: Sequence[Grade], threshold: float | None) -> bool:
    """Return True if the score reaches the threshold; without one, if all graders that have a
    weight passed.
    """
    if threshold is not None:
        return reaches(score_of(grades), threshold)
    failures = [grade for grade in grades if not grade.passed and grade.weight]
    return not failures
