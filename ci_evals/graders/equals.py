"""`equals`: the answer is this text, or this data."""

from typing import Any

from ci_evals.graders.base import GraderOptions, all_or_nothing
from ci_evals.graders.difference import first_difference
from ci_evals.graders.findings import fails, holds
from ci_evals.graders.json_text import judge_json
from ci_evals.graders.quoting import quote, show
from ci_evals.model import Answer, Finding

_CONTEXT = 40
"""Characters before the first difference that are shown of texts with a long common start."""


class Equals(GraderOptions, frozen=True):
    """The answer is exactly `value`.

    Text is compared as text. A number, bool, list or mapping is compared with the answer read as JSON; 1 equals 1.0.

    Args:
        value: what the answer must be.
        ignore_case: upper and lower case are the same; for text.
        trim: white space around the answer does not count; for text.
    """

    value: Any
    ignore_case: bool = False
    trim: bool = False

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        if not isinstance(self.value, str):
            return judge_json(output, self._compare_data)
        if output == self.value or self._normal(output) == self._normal(self.value):
            return holds(f"equals {quote(self.value)}")
        return fails(_explain(self.value, output))

    def _compare_data(self, data: Any) -> Finding:
        difference = first_difference(self.value, data)
        return all_or_nothing(difference is None, str(difference or f"equals {show(self.value)}"))

    def _normal(self, text: str) -> str:
        text = text.strip() if self.trim else text
        return text.casefold() if self.ignore_case else text


def _explain(expected: str, actual: str) -> str:
    if expected.strip() == actual.strip():
        return f"expected {quote(expected)}, got {quote(actual)}: only white space differs, which `trim: true` accepts"
    if expected.casefold() == actual.casefold():
        return f"expected {quote(expected)}, got {quote(actual)}: only case differs, which `ignore_case: true` accepts"
    if expected[: 2 * _CONTEXT] != actual[: 2 * _CONTEXT]:
        return f"expected {quote(expected)}, got {quote(actual)}"
    pairs = enumerate(zip(expected, actual, strict=False))
    at = next((at for at, (want, got) in pairs if want != got), min(len(expected), len(actual)))
    start = at - _CONTEXT
    return f"differs from character {at + 1} on: expected …{quote(expected[start:])}, got …{quote(actual[start:])}"
