"""`regex`: a pattern is found in the answer."""

import re
from functools import lru_cache
from typing import Annotated, ClassVar

from msgspec import Meta

from ci_evals.graders.base import GraderOptions
from ci_evals.graders.findings import fails, holds
from ci_evals.graders.quoting import clip, quote
from ci_evals.model import Answer, Finding


class Regex(GraderOptions, frozen=True):
    """A regular expression, in Python's syntax, is found anywhere in the answer.

    Args:
        pattern: the expression; `^` and `$` tie it to the ends of the answer.
        flags: any of `i` (ignore case), `m` (`^` and `$` at every line), `s` (`.` is also a line break).
    """

    short: ClassVar[str] = "pattern"

    pattern: str
    flags: Annotated[str, Meta(pattern="^[ims]*$")] = ""

    def problems(self) -> list[str]:
        try:
            _compiled(self.pattern, self.flags)
        except re.error as error:
            where = "" if error.pos is None else f" at position {error.pos}"
            return [f"bad regular expression {quote(self.pattern)}: {clip(error.msg)}{where}"]
        except (OverflowError, RecursionError) as error:
            return [f"bad regular expression {quote(self.pattern)}: {error}"]
        return []

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        match = _compiled(self.pattern, self.flags).search(output)
        if match:
            return holds(f"{quote(match[0])} matches {quote(self.pattern)}")
        return fails(f"nothing matches {quote(self.pattern)}: got {quote(output)}")


@lru_cache(maxsize=1024)
def _compiled(pattern: str, flags: str) -> re.Pattern[str]:
    return re.compile(pattern, sum(re.RegexFlag[flag.upper()] for flag in set(flags)))
