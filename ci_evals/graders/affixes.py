"""`starts_with`, `ends_with`: how the answer begins and ends."""

from ci_evals.graders.base import GraderOptions
from ci_evals.graders.contains import Text
from ci_evals.graders.findings import fails, holds
from ci_evals.graders.quoting import quote
from ci_evals.model import Answer, Finding


class Affix(GraderOptions, frozen=True):
    """The options of both.

    Args:
        value: the text at that end of the answer.
        ignore_case: upper and lower case are the same.
        trim: white space around the answer does not count.
    """

    value: Text
    ignore_case: bool = False
    trim: bool = False

    def _texts(self, answer: Answer) -> tuple[str, str]:
        output = answer.response.output.strip() if self.trim else answer.response.output
        return (output.casefold(), self.value.casefold()) if self.ignore_case else (output, self.value)


class StartsWith(Affix, frozen=True):
    """The answer begins with `value`."""

    def grade(self, answer: Answer) -> Finding:
        output, value = self._texts(answer)
        if output.startswith(value):
            return holds(f"starts with {quote(self.value)}")
        return fails(f"does not start with {quote(self.value)}: got {quote(answer.response.output)}")


class EndsWith(Affix, frozen=True):
    """The answer ends with `value`."""

    def grade(self, answer: Answer) -> Finding:
        output, value = self._texts(answer)
        if output.endswith(value):
            return holds(f"ends with {quote(self.value)}")
        ending = quote(answer.response.output[-200:])
        return fails(f"does not end with {quote(self.value)}: the answer ends with {ending}")
