"""What one value must be like: equal, near a number, containing a text, matching an expression."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct

from ci_evals.graders.difference import first_difference
from ci_evals.graders.quoting import quote, show
from ci_evals.graders.regex import Regex


class Matcher(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Conditions on a value; all that are given must hold.

    Args:
        equals: it is this, compared as JSON.
        one_of: it is one of these.
        contains: it is text with this in it, or a list with this item.
        icontains: it is text with this in it, in upper or lower case.
        regex: it is text in which this expression is found.
        approx: it is a number, at most `tolerance` away from this one.
        tolerance: how far away from `approx` it may be.
        min: it is a number and at least this.
        max: it is a number and at most this.
    """

    equals: Any = UNSET
    one_of: Annotated[tuple[Any, ...], Meta(min_length=1)] | None = None
    contains: Any = UNSET
    icontains: str | None = None
    regex: str | None = None
    approx: float | None = None
    tolerance: Annotated[float, Meta(ge=0)] = 1e-9
    min: float | None = None
    max: float | None = None

    def problems(self) -> list[str]:
        """What can be seen to be wrong before any call."""
        if self == Matcher(tolerance=self.tolerance):
            return ["no condition is given: `equals`, `contains`, `regex`, `approx`, …"]
        return Regex(pattern=self.regex or "").problems()

    def mistake(self, value: Any) -> str | None:
        """Why a value is not like this, or None: `is 5, less than 10`."""
        return next(self._mistakes(value), None)

    def _mistakes(self, value: Any) -> Iterator[str]:
        got = show(value)
        if self.equals is not UNSET and first_difference(self.equals, value):
            yield f"is {got}, expected {show(self.equals)}"
        if self.one_of is not None and all(first_difference(each, value) for each in self.one_of):
            yield f"is {got}, expected one of {show(list(self.one_of))}"
        if self.contains is not UNSET and not _contains(value, self.contains):
            yield f"does not contain {show(self.contains)}: got {got}"
        if self.icontains is not None and not (
            isinstance(value, str) and self.icontains.casefold() in value.casefold()
        ):
            yield f"does not contain {quote(self.icontains)} in upper or lower case: got {got}"
        if self.regex is not None and not (isinstance(value, str) and re.search(self.regex, value)):
            yield f"does not match {quote(self.regex)}: got {got}"
        yield from self._numeric_mistakes(value, got)

    def _numeric_mistakes(self, value: Any, got: str) -> Iterator[str]:
        if self.approx is None and self.min is None and self.max is None:
            return
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield f"is no number: got {got}"
            return
        if self.approx is not None and not self.approx - self.tolerance <= value <= self.approx + self.tolerance:
            yield f"is {got}, not within {self.tolerance:g} of {self.approx:g}"
        if self.min is not None and not value >= self.min:
            yield f"is {got}, less than {self.min:g}"
        if self.max is not None and not value <= self.max:
            yield f"is {got}, more than {self.max:g}"


def _contains(value: Any, part: Any) -> bool:
    if isinstance(value, str):
        return isinstance(part, str) and part in value
    return isinstance(value, list | tuple) and any(first_difference(part, item) is None for item in value)
