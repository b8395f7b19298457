"""`embedding_similar`: the answer means much the same."""

from math import fsum, hypot, isfinite
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from ci_evals.bounds import Fraction
from ci_evals.errors import GradingError
from ci_evals.graders.asking import AskingOptions
from ci_evals.graders.base import all_or_nothing
from ci_evals.graders.findings import fails, holds, reaches
from ci_evals.graders.quoting import quote
from ci_evals.model import Answer, Finding, Models, Request

_VECTORS = msgspec.json.Decoder(list[list[float]])


class EmbeddingSimilar(AskingOptions, frozen=True):
    """The embeddings of the answer and of `value` point in much the same direction.

    Args:
        value: the text to compare with.
        provider: the `embeddings` model, by its name among `judges`.
        threshold: the lowest cosine similarity that passes.
    """

    embeds: ClassVar[bool] = True

    value: Annotated[str, Meta(min_length=1)]
    threshold: Fraction = 0.8

    async def grade_with(self, answer: Answer, models: Models) -> Finding:
        output = answer.response.output
        if not output.strip():
            return all_or_nothing(passed=False, reason="the answer is empty")
        request = Request([output, self.value], (), answer.request.case, answer.request.run, timeout_s=0.0)
        replied = (await models.ask(self, request)).output
        similarity = _cosine(*_two_vectors(replied))
        score = min(1.0, max(0.0, similarity))
        passed = reaches(similarity, self.threshold)
        relation = "at least" if passed else "less than"
        told = f"cosine similarity {similarity:.3f}, {relation} {self.threshold:g}, to {quote(self.value)}"
        return holds(told, score) if passed else fails(f"{told}: got {quote(output)}", score)


def _two_vectors(text: str) -> tuple[list[float], list[float]]:
    try:
        one, other = _VECTORS.decode(text)
    except ValueError as error:
        raise GradingError(f"the provider gave no two embeddings: got {quote(text)}", "judge") from error
    if len(one) != len(other) or not any(one) or not any(other) or not all(map(isfinite, one + other)):
        raise GradingError("the provider gave embeddings that cannot be compared", "judge")
    return one, other


def _cosine(one: list[float], other: list[float]) -> float:
    products = (left * right for left, right in zip(one, other, strict=True))
    return fsum(products) / (hypot(*one) * hypot(*other))
