"""`embedding_similar`: the answer has a similar meaning."""

from dataclasses import dataclass
from functools import cache
from math import fsum, hypot, isfinite
from typing import ClassVar

from pydantic import TypeAdapter

from ci_evals.errors import GradingError
from ci_evals.format import cite, quote
from ci_evals.graders.base import ModelGrader, failed, judge_similarity
from ci_evals.model.fields import NonEmpty, Share
from ci_evals.model.grading import Finding, Models
from ci_evals.model.request import Answer, Request


@dataclass(frozen=True, slots=True)
class EmbeddingSimilar(ModelGrader):
    """The embeddings of the answer and of `value` have a high cosine similarity.

    Args:
        value: the text to compare with.
        provider: the name of an `embeddings` model among `judges`.
        threshold: the lowest cosine similarity that passes.
    """

    embeds: ClassVar[bool] = True

    value: NonEmpty
    threshold: Share = 0.8

    async def grade_with(self, answer: Answer, models: Models) -> Finding:
        output = answer.response.output
        if not output.strip():
            reason = "the answer is empty"
            return failed(reason, sentence=reason)
        original = answer.request
        # The time-out is that of the model's own settings.
        request = Request([output, self.value], (), original.case, original.run, timeout_s=0.0)
        response = await models.ask(self, request)
        similarity = _cosine(response.output)
        subject = f"cosine similarity to {cite(self.value)}"
        return judge_similarity(subject, similarity, self.threshold)


@cache
def _adapter() -> TypeAdapter[tuple[list[float], list[float]]]:
    return TypeAdapter(tuple[list[float], list[float]])


def _cosine(reply: str) -> float:
    try:
        one, other = _adapter().validate_json(reply)
    except ValueError as error:
        raise GradingError(
            f"the provider did not return two embeddings: got {quote(reply)}", "judge"
        ) from error
    lengths = hypot(*one) * hypot(*other)
    if len(one) != len(other) or not lengths or not isfinite(lengths):
        raise GradingError("the provider returned embeddings that cannot be compared", "judge")
    products = [left * right for left, right in zip(one, other, strict=True)]
    return fsum(products) / lengths
