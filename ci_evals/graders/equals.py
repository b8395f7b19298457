"""`equals`: the answer is exactly this, compared as text or as data."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ci_evals.format import cite
from ci_evals.graders.base import GraderOptions, failed, find_texts, passed
from ci_evals.graders.json_text import cite_both, first_difference, judge_json
from ci_evals.model.fields import Bool
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer


@dataclass(frozen=True, slots=True)
class Equals(GraderOptions):
    """The answer is exactly `value`.

    Text is compared as text. A number, bool, list or mapping is compared with the answer read as
    JSON; 1 equals 1.0.

    Args:
        value: the expected answer.
        ignore_case: upper and lower case are the same; for text.
        trim: white space around the answer does not count; for text.
    """

    value: Any
    ignore_case: Bool = False
    trim: Bool = False

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        if not isinstance(self.value, str):
            return judge_json(output, self._compare_data)
        if output == self.value or self._normalize(output) == self._normalize(self.value):
            return passed(f"the answer is {cite(self.value)}")
        return _text_difference(self.value, output)

    def find_in(self, output: str) -> Iterable[str]:
        if not isinstance(self.value, str) or not self.value or output == self.value:
            return ()  # a mark on all of an answer says nothing
        return find_texts((self.value,), output, ignore_case=self.ignore_case)

    def _compare_data(self, data: Any) -> Finding:
        difference = first_difference(self.value, data)
        if difference is None:
            return passed(f"the answer is {cite(self.value)}")
        return failed(difference.reason, sentence=difference.sentence)

    def _normalize(self, text: str) -> str:
        if self.trim:
            text = text.strip()
        if self.ignore_case:
            text = text.casefold()
        return text


def _text_difference(expected: str, actual: str) -> Finding:
    reason = f"the answer is not {cite(expected)}"
    if expected.split() == actual.split():
        reason = f"{reason}: only white space differs"
        if expected.strip() == actual.strip():
            reason = f"{reason}, which `trim: true` accepts"
        return failed(reason, sentence=reason)
    wanted, found = cite_both(expected, actual)
    sentence = f"the answer is {found}, expected {wanted}"
    if expected.casefold() == actual.casefold():
        hint = "only case differs, which `ignore_case: true` accepts"
        return failed(f"{reason}: {hint}", sentence=f"{sentence}: {hint}")
    return failed(reason, sentence=sentence)
