"""`not_empty`: there is an answer."""

from ci_evals.graders.base import AlwaysTrue
from ci_evals.graders.findings import fails, holds
from ci_evals.graders.quoting import quote
from ci_evals.model import Answer, Finding


class NotEmpty(AlwaysTrue, frozen=True):
    """The answer has more than white space in it, or calls a tool. `value` is always true."""

    instead = "leave it out, or write `max_length: 0` for an empty answer"

    def grade(self, answer: Answer) -> Finding:
        response = answer.response
        if response.output and not response.output.isspace():
            return holds("is not empty")
        if response.tool_calls:
            return holds("calls a tool")
        return fails(f"is empty: got {quote(response.output)} and no tool calls")
