"""Graders of the answer's text: `contains`, `starts_with`, `max_length` and others."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ci_evals.format import number_of, quote
from ci_evals.graders.base import AlwaysTrue, GraderOptions, failed, find_texts, passed
from ci_evals.model.fields import Bool, Count, NonEmpty, OneOrMore
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer

_MOST_LISTED = 5
_LONGEST_ENDING = 200


@dataclass(frozen=True, slots=True)
class Contains(GraderOptions):
    """The answer contains `value`.

    Args:
        value: the text to look for.
        ignore_case: upper and lower case are the same.
    """

    value: NonEmpty
    ignore_case: Bool = False

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        if self.ignore_case:
            is_contained = self.value.casefold() in output.casefold()
        else:
            is_contained = self.value in output
        if not is_contained:
            return failed(f"does not contain {quote(self.value)}", got=quote(output))
        return passed(f"contains {quote(self.value)}")

    def find_in(self, output: str) -> Iterable[str]:
        return find_texts((self.value,), output, ignore_case=self.ignore_case)


@dataclass(frozen=True, slots=True)
class IContains(GraderOptions):
    """The answer contains `value`, in upper or lower case."""

    value: NonEmpty

    def grade(self, answer: Answer) -> Finding:
        return Contains(self.value, ignore_case=True).grade(answer)

    def find_in(self, output: str) -> Iterable[str]:
        return find_texts((self.value,), output, ignore_case=True)


@dataclass(frozen=True, slots=True)
class Texts(GraderOptions):
    """The options of `contains_all` and `contains_any`.

    Args:
        value: the texts to look for, in any order.
        ignore_case: upper and lower case are the same.
    """

    value: OneOrMore[NonEmpty]
    ignore_case: Bool = False

    def find_in(self, output: str) -> Iterable[str]:
        return find_texts(self.value, output, ignore_case=self.ignore_case)

    def _find_absent(self, output: str) -> list[str]:
        if self.ignore_case:
            output = output.casefold()
            return [text for text in self.value if text.casefold() not in output]
        return [text for text in self.value if text not in output]


@dataclass(frozen=True, slots=True)
class ContainsAll(Texts):
    """The answer contains every text; the score is the share of texts that it contains."""

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        absent = self._find_absent(output)
        if not absent:
            return passed(f"contains all of {_join(self.value)}")
        score = 1 - len(absent) / len(self.value)
        return failed(f"does not contain {_join(absent)}", score, got=quote(output))


@dataclass(frozen=True, slots=True)
class ContainsAny(Texts):
    """The answer contains at least one of the texts."""

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        absent = self._find_absent(output)
        for text in self.value:
            if text not in absent:
                return passed(f"contains {quote(text)}")
        return failed(f"contains none of {_join(absent)}", got=quote(output))


def _join(texts: Sequence[str]) -> str:
    shown = ", ".join(quote(text, 60) for text in texts[:_MOST_LISTED])
    more = len(texts) - _MOST_LISTED
    if more > 0:
        return f"{shown} and {more} more"
    return shown


@dataclass(frozen=True, slots=True)
class Affix(GraderOptions):
    """The options of `starts_with` and `ends_with`.

    Args:
        value: the text at that end of the answer.
        ignore_case: upper and lower case are the same.
        trim: white space around the answer does not count.
    """

    value: NonEmpty
    ignore_case: Bool = False
    trim: Bool = False

    def find_in(self, output: str) -> Iterable[str]:
        """Return the value, unless it is in several places: only the one at the end counts."""
        texts = find_texts((self.value,), output, ignore_case=self.ignore_case)
        if output.count(self.value) > 1 or len(texts) > 1:
            return ()
        return texts

    def _texts(self, answer: Answer) -> tuple[str, str]:
        """Return the answer and the value in the form in which they are compared."""
        output, value = answer.response.output, self.value
        if self.trim:
            output = output.strip()
        if self.ignore_case:
            return output.casefold(), value.casefold()
        return output, value


@dataclass(frozen=True, slots=True)
class StartsWith(Affix):
    """The answer begins with `value`."""

    def grade(self, answer: Answer) -> Finding:
        output, value = self._texts(answer)
        if output.startswith(value):
            return passed(f"starts with {quote(self.value)}")
        got = quote(answer.response.output)
        return failed(f"does not start with {quote(self.value)}", got=got)


@dataclass(frozen=True, slots=True)
class EndsWith(Affix):
    """The answer ends with `value`."""

    def grade(self, answer: Answer) -> Finding:
        output, value = self._texts(answer)
        if output.endswith(value):
            return passed(f"ends with {quote(self.value)}")
        output = answer.response.output
        got = quote(output)
        if len(output) > _LONGEST_ENDING:
            got = f"…{quote(output[-_LONGEST_ENDING:])}"
        return failed(f"does not end with {quote(self.value)}", got=got)


@dataclass(frozen=True, slots=True)
class MaxLength(GraderOptions):
    """The answer has at most `value` characters."""

    value: Count

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        got = f"{len(output):,}"
        limit = number_of(self.value, "character")
        if len(output) <= self.value:
            return passed(f"has at most {limit}", got=got)
        return failed(f"is longer than {limit}", got=f"{got}: {quote(output)}")


@dataclass(frozen=True, slots=True)
class WordCount(GraderOptions):
    """The answer has at most `max` words, and at least `min`."""

    short: ClassVar[str] = "max"

    max: Count | None = None
    min: Count | None = None

    def problems(self) -> list[str]:
        if self.max is None and self.min is None:
            return ["give `max`, `min` or both"]
        if self.max is not None and self.min is not None and self.min > self.max:
            return [f"no answer has at least {self.min} and at most {self.max} words"]
        return []

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        words = len(output.split())
        wrong = f"{words:,}: {quote(output)}"
        bounds = []
        if self.max is not None:
            most = number_of(self.max, "word")
            if words > self.max:
                return failed(f"has more than {most}", got=wrong)
            bounds.append(f"at most {most}")
        if self.min is not None:
            least = number_of(self.min, "word")
            if words < self.min:
                return failed(f"has fewer than {least}", got=wrong)
            bounds.append(f"at least {least}")
        return passed(f"has {' and '.join(bounds)}", got=f"{words:,}")


@dataclass(frozen=True, slots=True)
class NotEmpty(AlwaysTrue):
    """The answer contains more than white space, or calls a tool. `value` is always true."""

    instead = "leave it out, or write `max_length: 0` for an empty answer"

    def grade(self, answer: Answer) -> Finding:
        response = answer.response
        if response.output and not response.output.isspace():
            return passed("is not empty")
        if response.tool_calls:
            return passed("calls a tool")
        return failed("is empty", got=f"{quote(response.output)} and no tool calls")
