"""`regex`: a regular expression matches in the answer."""

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, ClassVar

import regex
from pydantic import StringConstraints

from ci_evals.errors import GradingError
from ci_evals.format import cite, one_line, quote
from ci_evals.graders.base import GraderOptions, failed, passed
from ci_evals.model.fields import NonEmpty
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer
from ci_evals.user_code.threads import call_in_thread

_Match = regex.Match[str]

_FLAGS = {
    "i": regex.IGNORECASE,
    "m": regex.MULTILINE,
    "s": regex.DOTALL,
}
_MOST_CHARACTERS = 100_000  # of an expanded pattern, which takes some 100 bytes for each
_TOKEN = regex.compile(
    r"""
    \\.  # an escape
    | \[\^?\]?(?:\\.|[^\]\\])*\]  # a class
    | \{(?P<least>\d{1,18})(?:,\d*)?\}
    | .
    """,
    regex.VERBOSE | regex.DOTALL,
)
_LONGEST_SEARCH_S = 5.0
_LONGEST_PAUSE_S = 0.02  # a longer search moves to a thread, not to hold up other calls


@dataclass(frozen=True, slots=True)
class Regex(GraderOptions):
    """A regular expression, in Python's syntax, matches anywhere in the answer.

    Args:
        pattern: the expression; `^` and `$` match the start and end of the answer.
        flags: any of `i` (ignore case), `m` (`^` and `$` match at every line), `s` (`.` matches
            line breaks).
    """

    short: ClassVar[str] = "pattern"

    pattern: NonEmpty
    flags: Annotated[str, StringConstraints(pattern="^[ims]*$")] = ""

    def problems(self) -> list[str]:
        if _length(self.pattern) > _MOST_CHARACTERS:
            text = f"repetitions make it longer than {_MOST_CHARACTERS:,} characters"
            return [f"bad regular expression {quote(self.pattern)}: {text}"]
        try:
            _compile(self.pattern, self.flags)
        except (regex.error, ValueError, KeyError, OverflowError, RecursionError) as error:
            return [f"bad regular expression {quote(self.pattern)}: {one_line(str(error))}"]
        return []

    def grade(self, answer: Answer) -> Finding | Awaitable[Finding]:
        output = answer.response.output
        try:
            match = _search(self.pattern, self.flags, output, _LONGEST_PAUSE_S)
        except TimeoutError:
            return call_in_thread(partial(self._judge_at_length, output))
        return self._judge(match)

    def find_in(self, output: str) -> Iterable[str]:
        try:
            match = _search(self.pattern, self.flags, output, _LONGEST_PAUSE_S)
        except TimeoutError:
            return ()
        if match is None:
            return ()
        return (match[0],)

    def search(self, text: str, timeout_s: float = _LONGEST_SEARCH_S) -> _Match | None:
        """Search a text with a time limit, because some patterns backtrack for ever.

        Raises:
            GradingError: the search took too long.
        """
        try:
            return _search(self.pattern, self.flags, text, timeout_s)
        except TimeoutError:
            raise GradingError(
                f"the expression {quote(self.pattern)} was still matching after"
                f" {timeout_s:g} s; give it one way to match (`a+` in place of `(a+)+`),"
                " or let it search less text"
            ) from None

    def _judge_at_length(self, output: str) -> Finding:
        return self._judge(self.search(output))

    def _judge(self, match: _Match | None) -> Finding:
        pattern = one_line(self.pattern, 100)
        if match is None:
            return failed(f"no match of `{pattern}` in the answer")
        reason = f"`{pattern}` matches in the answer"
        return passed(reason, sentence=f"{cite(match[0])} matches `{pattern}`")


def _search(pattern: str, flags: str, text: str, timeout_s: float) -> _Match | None:
    expression = _compile(pattern, flags)
    # `concurrent` releases the GIL during a search.
    return expression.search(text, timeout=timeout_s, concurrent=True)


def _length(pattern: str) -> int:
    """Return the length of a pattern with repetitions expanded to their minimum, as the package
    `regex` does: `(ab){3}` has 6 characters.
    """
    groups = [0]  # the lengths so far of the open groups, outermost first
    last = 0
    for token in _TOKEN.finditer(pattern):
        if token["least"] is not None:
            groups[-1] += last * (int(token["least"]) - 1)
            last *= int(token["least"])
        elif token[0] == "(":
            groups.append(0)
        elif token[0] == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        else:
            last = 1
            groups[-1] += last
    return sum(groups)


@lru_cache(maxsize=1024)
def _compile(pattern: str, flags: str) -> regex.Pattern[str]:
    combined = regex.RegexFlag(0)
    for flag in flags:
        combined |= _FLAGS[flag]
    return regex.compile(pattern, combined)
