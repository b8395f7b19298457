"""`similar`: the answer is similar to a text, character by character."""

from dataclasses import dataclass

from rapidfuzz.distance import Indel

from ci_evals.format import cite
from ci_evals.graders.base import GraderOptions, judge_similarity
from ci_evals.model.fields import Bool, Share
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer

_LONG_TEXT = 10_000  # characters; the time grows with the product of the two lengths


@dataclass(frozen=True, slots=True)
class Similar(GraderOptions):
    """The answer and `value` share enough characters in the same order.

    The score is the normalized Indel similarity: 1 - (insertions + deletions) / (length of both).

    Args:
        value: the text to compare with.
        threshold: the lowest score that passes.
        ignore_case: upper and lower case are the same.
    """

    value: str
    threshold: Share = 0.8
    ignore_case: Bool = False

    @property
    def may_take_long(self) -> bool:
        return len(self.value) > _LONG_TEXT

    def grade(self, answer: Answer) -> Finding:
        output, value = answer.response.output, self.value
        if self.ignore_case:
            output, value = output.casefold(), value.casefold()
        score = Indel.normalized_similarity(value, output)
        return judge_similarity(f"similarity to {cite(self.value)}", score, self.threshold)
