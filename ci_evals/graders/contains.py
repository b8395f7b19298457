"""`contains`, `icontains`, `contains_all`, `contains_any`: the answer has this text in it."""

from typing import Annotated

from msgspec import Meta

from ci_evals.graders.base import GraderOptions
from ci_evals.graders.findings import fails, holds
from ci_evals.graders.quoting import quote
from ci_evals.model import Answer, Finding

Text = Annotated[str, Meta(min_length=1)]
Texts = Annotated[tuple[Text, ...], Meta(min_length=1)]


class Contains(GraderOptions, frozen=True):
    """The answer has `value` somewhere in it.

    Args:
        value: the text to look for.
        ignore_case: upper and lower case are the same.
    """

    value: Text
    ignore_case: bool = False

    def grade(self, answer: Answer) -> Finding:
        return _find(self.value, answer.response.output, ignore_case=self.ignore_case)


class IContains(GraderOptions, frozen=True):
    """The answer has `value` somewhere in it, in upper or lower case."""

    value: Text

    def grade(self, answer: Answer) -> Finding:
        return _find(self.value, answer.response.output, ignore_case=True)


class ContainsAll(GraderOptions, frozen=True):
    """The answer has each of the texts in it; the score is the share of them that it has.

    Args:
        value: the texts to look for, in any order.
        ignore_case: upper and lower case are the same.
    """

    value: Texts
    ignore_case: bool = False

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        absent = _absent(self.value, output, ignore_case=self.ignore_case)
        if not absent:
            return holds(f"contains all of {_listed(self.value)}")
        score = 1 - len(absent) / len(self.value)
        return fails(f"does not contain {_listed(absent)}: got {quote(output)}", score)


class ContainsAny(GraderOptions, frozen=True):
    """The answer has at least one of the texts in it.

    Args:
        value: the texts to look for.
        ignore_case: upper and lower case are the same.
    """

    value: Texts
    ignore_case: bool = False

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        absent = _absent(self.value, output, ignore_case=self.ignore_case)
        if len(absent) == len(self.value):
            return fails(f"contains none of {_listed(absent)}: got {quote(output)}")
        found = next(text for text in self.value if text not in absent)
        return holds(f"contains {quote(found)}")


def _find(value: str, output: str, *, ignore_case: bool) -> Finding:
    if _absent((value,), output, ignore_case=ignore_case):
        return fails(f"does not contain {quote(value)}: got {quote(output)}")
    return holds(f"contains {quote(value)}")


def _absent(texts: tuple[str, ...], output: str, *, ignore_case: bool) -> list[str]:
    if ignore_case:
        output = output.casefold()
        return [text for text in texts if text.casefold() not in output]
    return [text for text in texts if text not in output]


def _listed(texts: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(quote(text, 60) for text in texts[:5])
    return shown if len(texts) <= 5 else f"{shown} and {len(texts) - 5} more"
