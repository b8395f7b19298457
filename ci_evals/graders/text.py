"""Graders of the answer's text: `contains`, `starts_with`, `max_length` and others."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ci_evals.format import cite, join_first, number_of
from ci_evals.graders.base import AlwaysTrue, GraderOptions, failed, find_texts, passed
from ci_evals.model.fields import Bool, Count, NonEmpty, OneOrMore
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer

_MOST_LISTED = 5
_LONGEST_ENDING = 60


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
            return failed(f"no {cite(self.value)} in the answer")
        return passed(f"{cite(self.value)} is in the answer")

    def find_in(self, output: str) -> Iterable[str]:
        return find_texts((self.value,), output, ignore_case=self.ignore_case)


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
            return passed(f"in the answer: {_join(self.value)}")
        score = 1 - len(absent) / len(self.value)
        if len(absent) == 1:
            return failed(f"no {cite(absent[0])} in the answer", score)
        return failed(f"not in the answer: {_join(absent)}", score)


@dataclass(frozen=True, slots=True)
class ContainsAny(Texts):
    """The answer contains at least one of the texts."""

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        absent = self._find_absent(output)
        for text in self.value:
            if text not in absent:
                return passed(f"{cite(text)} is in the answer")
        return failed(f"none of {_join(absent)} in the answer")


def _join(texts: Sequence[str]) -> str:
    return join_first([cite(text, 60) for text in texts], _MOST_LISTED)


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
            return passed(f"the answer starts with {cite(self.value)}")
        wanted = cite(self.value)
        start = cite(answer.response.output, _LONGEST_ENDING)
        return failed(
            f"the answer does not start with {wanted}",
            sentence=f"the answer starts with {start}, expected {wanted}",
        )


@dataclass(frozen=True, slots=True)
class EndsWith(Affix):
    """The answer ends with `value`."""

    def grade(self, answer: Answer) -> Finding:
        output, value = self._texts(answer)
        if output.endswith(value):
            return passed(f"the answer ends with {cite(self.value)}")
        wanted = cite(self.value)
        end = answer.response.output
        if len(end) > _LONGEST_ENDING:
            end = f"…{end[1 - _LONGEST_ENDING :]}"
        return failed(
            f"the answer does not end with {wanted}",
            sentence=f"the answer ends with {cite(end)}, expected {wanted}",
        )


@dataclass(frozen=True, slots=True)
class MaxLength(GraderOptions):
    """The answer has at most `value` characters."""

    value: Count

    def grade(self, answer: Answer) -> Finding:
        length = len(answer.response.output)
        actual = number_of(length, "character")
        limit = number_of(self.value, "character")
        if length <= self.value:
            return passed(f"at most {limit}", sentence=f"{actual}, no more than {self.value:,}")
        return failed(f"more than {limit}", sentence=f"{actual}, at most {self.value:,} allowed")


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
        words = len(answer.response.output.split())
        actual = number_of(words, "word")
        bounds = []
        if self.max is not None:
            most = number_of(self.max, "word")
            if words > self.max:
                sentence = f"{actual}, at most {self.max:,} allowed"
                return failed(f"more than {most}", sentence=sentence)
            bounds.append(f"no more than {most}")
        if self.min is not None:
            least = number_of(self.min, "word")
            if words < self.min:
                sentence = f"{actual}, at least {self.min:,} needed"
                return failed(f"fewer than {least}", sentence=sentence)
            bounds.append(f"no fewer than {least}")
        reason = " and ".join(bounds)
        return passed(reason, sentence=f"{actual}: {reason}")


@dataclass(frozen=True, slots=True)
class NotEmpty(AlwaysTrue):
    """The answer contains more than white space, or calls a tool. `value` is always true."""

    instead = "leave it out, or write `max_length: 0` for an empty answer"

    def grade(self, answer: Answer) -> Finding:
        response = answer.response
        if response.output and not response.output.isspace():
            return passed("the answer is not empty")
        if response.tool_calls:
            return passed("the answer calls a tool")
        reason = "the answer is empty"
        return failed(reason, sentence=reason)
