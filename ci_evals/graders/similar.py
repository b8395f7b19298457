"""`similar`: the answer is nearly this text."""

from typing import Annotated

from msgspec import Meta

from ci_evals.graders.base import GraderOptions
from ci_evals.graders.findings import fails, holds, reaches
from ci_evals.graders.quoting import quote
from ci_evals.model import Answer, Finding


class Similar(GraderOptions, frozen=True):
    """The answer and `value` share enough characters in the same order.

    The score is the normalized Indel similarity: 1 - (insertions + deletions) / (length of both).

    Args:
        value: the text to compare with.
        threshold: the lowest score that passes.
        ignore_case: upper and lower case are the same.
    """

    value: str
    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.8
    ignore_case: bool = False

    def grade(self, answer: Answer) -> Finding:
        from rapidfuzz.distance import Indel

        output = answer.response.output
        score = Indel.normalized_similarity(self.value, output, processor=str.casefold if self.ignore_case else None)
        if reaches(score, self.threshold):
            return holds(f"similarity {score:.3f} to {quote(self.value)}, at least {self.threshold:g}", score)
        reason = f"similarity {score:.3f} to {quote(self.value)}, less than {self.threshold:g}: got {quote(output)}"
        return fails(reason, score)
