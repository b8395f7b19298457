"""Graders of the answer's text: `contains`, `equals`, `regex`, `similar`, `max_length`, `not_empty`
and their kin.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import regex
from pydantic import StringConstraints
from rapidfuzz.distance import Indel

from ci_evals.errors import GradingError
from ci_evals.format import number_of, one_line, quote
from ci_evals.graders.base import AlwaysTrue, GraderOptions, failed, passed, reaches
from ci_evals.graders.json import first_difference, judge_json
from ci_evals.model.case import Answer, Finding
from ci_evals.model.fields import Bool, Count, NonEmpty, OneOrMore, Share

LONGEST_SEARCH_S = 5.0
_MOST_LISTED = 5
_LONGEST_ENDING = 200
_CONTEXT = (
    40  # characters before the first difference that are shown of texts with a long common start
)


@dataclass(frozen=True, slots=True)
class Contains(GraderOptions):
    """The answer has `value` somewhere in it.

    Args:
        value: the text to look for.
        ignore_case: upper and lower case are the same.
    """

    value: NonEmpty
    ignore_case: Bool = False

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        if _find_absent([self.value], output, ignore_case=self.ignore_case):
            return failed(f"does not contain {quote(self.value)}", got=quote(output))
        return passed(f"contains {quote(self.value)}")


@dataclass(frozen=True, slots=True)
class IContains(GraderOptions):
    """The answer has `value` somewhere in it, in upper or lower case."""

    value: NonEmpty

    def grade(self, answer: Answer) -> Finding:
        return Contains(self.value, ignore_case=True).grade(answer)


@dataclass(frozen=True, slots=True)
class ContainsAll(GraderOptions):
    """The answer has each of the texts in it; the score is the share of them that it has.

    Args:
        value: the texts to look for, in any order.
        ignore_case: upper and lower case are the same.
    """

    value: OneOrMore[NonEmpty]
    ignore_case: Bool = False

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        absent = _find_absent(self.value, output, ignore_case=self.ignore_case)
        if not absent:
            return passed(f"contains all of {_join(self.value)}")
        score = 1 - len(absent) / len(self.value)
        return failed(f"does not contain {_join(absent)}", score, got=quote(output))


@dataclass(frozen=True, slots=True)
class ContainsAny(GraderOptions):
    """The answer has at least one of the texts in it.

    Args:
        value: the texts to look for.
        ignore_case: upper and lower case are the same.
    """

    value: OneOrMore[NonEmpty]
    ignore_case: Bool = False

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        absent = _find_absent(self.value, output, ignore_case=self.ignore_case)
        if len(absent) == len(self.value):
            return failed(f"contains none of {_join(absent)}", got=quote(output))
        found = next(text for text in self.value if text not in absent)
        return passed(f"contains {quote(found)}")


def _find_absent(texts: Sequence[str], output: str, *, ignore_case: bool) -> list[str]:
    if ignore_case:
        output = output.casefold()
        return [text for text in texts if text.casefold() not in output]
    return [text for text in texts if text not in output]


def _join(texts: Sequence[str]) -> str:
    shown = ", ".join(quote(text, 60) for text in texts[:_MOST_LISTED])
    more = len(texts) - _MOST_LISTED
    return f"{shown} and {more} more" if more > 0 else shown


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

    def _texts(self, answer: Answer) -> tuple[str, str]:
        output = answer.response.output.strip() if self.trim else answer.response.output
        return (
            (output.casefold(), self.value.casefold()) if self.ignore_case else (output, self.value)
        )


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
        got = (
            quote(output)
            if len(output) <= _LONGEST_ENDING
            else f"…{quote(output[-_LONGEST_ENDING:])}"
        )
        return failed(f"does not end with {quote(self.value)}", got=got)


@dataclass(frozen=True, slots=True)
class Equals(GraderOptions):
    """The answer is exactly `value`.

    Text is compared as text. A number, bool, list or mapping is compared with the answer read as
    JSON; 1 equals 1.0.

    Args:
        value: what the answer must be.
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
        if output == self.value or self._normal(output) == self._normal(self.value):
            return passed(f"equals {quote(self.value)}")
        return _text_difference(self.value, output)

    def _compare_data(self, data: Any) -> Finding:
        difference = first_difference(self.value, data)
        if difference is None:
            return passed(f"equals {quote(self.value)}")
        return failed(difference.reason, got=difference.got)

    def _normal(self, text: str) -> str:
        text = text.strip() if self.trim else text
        return text.casefold() if self.ignore_case else text


def _text_difference(expected: str, actual: str) -> Finding:
    reason = f"expected {quote(expected)}"
    if expected.strip() == actual.strip():
        reason = f"only white space differs, which `trim: true` accepts: {reason}"
    elif expected.casefold() == actual.casefold():
        reason = f"only case differs, which `ignore_case: true` accepts: {reason}"
    elif expected[: 2 * _CONTEXT] == actual[: 2 * _CONTEXT]:
        return _late_difference(expected, actual)
    return failed(reason, got=quote(actual))


def _late_difference(expected: str, actual: str) -> Finding:
    """Show two texts with a long common start from just before their first difference."""
    pairs = enumerate(zip(expected, actual, strict=False))
    at = next((at for at, (want, got) in pairs if want != got), min(len(expected), len(actual)))
    start = at - _CONTEXT
    reason = f"differs from character {at + 1} on: expected …{quote(expected[start:])}"
    return failed(reason, got=f"…{quote(actual[start:])}")


@dataclass(frozen=True, slots=True)
class Regex(GraderOptions):
    """A regular expression, in Python's syntax, is found anywhere in the answer.

    Args:
        pattern: the expression; `^` and `$` tie it to the ends of the answer.
        flags: any of `i` (ignore case), `m` (`^` and `$` at every line), `s` (`.` is also a line
            break).
    """

    short: ClassVar[str] = "pattern"
    may_take_long: ClassVar[bool] = True

    pattern: str
    flags: Annotated[str, StringConstraints(pattern="^[ims]*$")] = ""

    def problems(self) -> list[str]:
        return pattern_problems(self.pattern, self.flags)

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        if match := search(self.pattern, output, self.flags):
            return passed(f"has a match of {quote(self.pattern)}", got=quote(match[0]))
        return failed(f"nothing matches {quote(self.pattern)}", got=quote(output))


def pattern_problems(pattern: str, flags: str = "") -> list[str]:
    """List what is wrong with a regular expression."""
    try:
        _compile(pattern, flags)
    except (regex.error, ValueError, KeyError, OverflowError, RecursionError) as error:
        return [f"bad regular expression {quote(pattern)}: {one_line(str(error))}"]
    return []


def search(
    pattern: str, text: str, flags: str = "", *, timeout_s: float = LONGEST_SEARCH_S
) -> regex.Match[str] | None:
    """Search a text for a regular expression, for a bounded time: some patterns backtrack for ever.

    Raises:
        GradingError: it took too long.
    """
    try:
        return _compile(pattern, flags).search(text, timeout=timeout_s, concurrent=True)
    except TimeoutError:
        raise GradingError(
            f"the expression {quote(pattern)} was still matching after {timeout_s:g} s; "
            "give it one way to match (`a+` in place of `(a+)+`), or let it look at less"
        ) from None


@lru_cache(maxsize=1024)
def _compile(pattern: str, flags: str) -> regex.Pattern[str]:
    return regex.compile(pattern, sum(regex.RegexFlag[flag.upper()] for flag in set(flags)))


@dataclass(frozen=True, slots=True)
class Similar(GraderOptions):
    """The answer and `value` share enough characters in the same order.

    The score is the normalized Indel similarity: 1 - (insertions + deletions) / (length of both).

    Args:
        value: the text to compare with.
        threshold: the lowest score that passes.
        ignore_case: upper and lower case are the same.
    """

    may_take_long: ClassVar[bool] = True

    value: str
    threshold: Share = 0.8
    ignore_case: Bool = False

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        score = Indel.normalized_similarity(
            self.value, output, processor=str.casefold if self.ignore_case else None
        )
        reason = f"similarity {score:.3f} to {quote(self.value)}"
        if reaches(score, self.threshold):
            return passed(f"{reason}, at least {self.threshold:g}", score)
        return failed(f"{reason}, less than {self.threshold:g}", score, got=quote(output))


@dataclass(frozen=True, slots=True)
class MaxLength(GraderOptions):
    """The answer has at most `value` characters."""

    value: Count

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        if len(output) <= self.value:
            return passed(f"has {len(output):,} characters, at most {self.value:,} allowed")
        got = f"{len(output):,}: {quote(output)}"
        return failed(f"is longer than {self.value:,} characters", got=got)


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
        has = f"has {number_of(words, 'word')}"
        if self.max is not None and words > self.max:
            return failed(f"{has}, more than the {self.max:,} allowed", got=quote(output))
        if self.min is not None and words < self.min:
            return failed(f"{has}, fewer than the {self.min:,} wanted", got=quote(output))
        wanted = [
            f"at most {self.max:,}" if self.max is not None else "",
            f"at least {self.min:,}" if self.min else "",
        ]
        return passed(
            f"{has}, {' and '.join(filter(None, wanted)) or 'any number of which will do'}"
        )


@dataclass(frozen=True, slots=True)
class NotEmpty(AlwaysTrue):
    """The answer has more than white space in it, or calls a tool. `value` is always true."""

    instead = "leave it out, or write `max_length: 0` for an empty answer"

    def grade(self, answer: Answer) -> Finding:
        response = answer.response
        if response.output and not response.output.isspace():
            return passed("is not empty")
        if response.tool_calls:
            return passed("calls a tool")
        return failed("is empty", got=f"{quote(response.output)} and no tool calls")
