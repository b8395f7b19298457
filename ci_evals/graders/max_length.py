"""`max_length`: the answer is no longer than this."""

from typing import Annotated

from msgspec import Meta

from ci_evals.graders.base import GraderOptions
from ci_evals.graders.findings import fails, holds
from ci_evals.graders.quoting import quote
from ci_evals.model import Answer, Finding


class MaxLength(GraderOptions, frozen=True):
    """The answer has at most `value` characters."""

    value: Annotated[int, Meta(ge=0)]

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        if len(output) <= self.value:
            return holds(f"has {len(output):,} characters, at most {self.value:,} allowed")
        return fails(f"is longer than {self.value:,} characters: got {len(output):,}, {quote(output)}")
