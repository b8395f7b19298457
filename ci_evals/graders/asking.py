"""The seam of graders that ask a model: what they ask is handed to the engine, which keeps pace, retries and counts."""

from typing import ClassVar

from ci_evals.errors import GradingError
from ci_evals.graders.base import GraderOptions
from ci_evals.model import Answer, Finding, Models


class AskingOptions(GraderOptions, frozen=True, kw_only=True):
    """A grader that asks a model.

    Args:
        provider: which one, by its name among `judges` or `providers`; may be left out if there is one only.
    """

    needs_more: ClassVar[bool] = True
    embeds: ClassVar[bool] = False  # whether it asks for embeddings instead of text

    provider: str | None = None

    def grade(self, answer: Answer) -> Finding:
        raise GradingError("it asks a model, and no model may be called here", "judge")

    async def grade_with(self, answer: Answer, models: Models) -> Finding:
        """Judge an answer.

        Raises:
            GradingError: no verdict could be had.
        """
        raise NotImplementedError
