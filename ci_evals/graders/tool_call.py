"""`tool_call`: the answer asks for these tools, with these arguments."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Self

from msgspec import structs

from ci_evals.graders.base import GraderOptions
from ci_evals.graders.calls import ExpectedCall, describe, differences, fits, names, pair_in_any_order, pair_in_order
from ci_evals.graders.difference import Difference
from ci_evals.graders.findings import fails, holds
from ci_evals.graders.quoting import clip, quote
from ci_evals.model import Answer, Finding
from ci_evals.response import ToolCall

_MAX_SHOWN = 3
"""Differing arguments, or calls, that a reason lists."""

_MAX_COMPARED = 100
"""Calls among which the closest one is looked for."""


class ToolCallMatch(GraderOptions, frozen=True):
    """The answer calls a tool, or several.

    Under `not_`, more arguments or more calls than expected are no excuse: the call must not be there at all.

    Args:
        name: the tool, if one call is expected.
        arguments: the arguments of that call, compared as JSON; left out, any will do.
        calls: all the calls that are expected, instead of `name`; an empty list means that none may be made.
        ignore_extra_args: a call may have more arguments than expected.
        ignore_extra_calls: the answer may have more calls than expected.
        match_order: the calls must come in the order of `calls`.
    """

    short: ClassVar[str] = "name"

    name: str | None = None
    arguments: Mapping[str, Any] | None = None
    calls: tuple[ExpectedCall, ...] | None = None
    ignore_extra_args: bool = False
    ignore_extra_calls: bool = False
    match_order: bool = False

    def problems(self) -> list[str]:
        if (self.name is None) == (self.calls is None):
            return ["give either `name`, for one call, or `calls`, a list of them"]
        if self.name is None and self.arguments is not None:
            return ["`arguments` belongs to `name`: inside `calls`, each call has its own"]
        if self.calls == () and self.ignore_extra_calls:
            return ["no calls are expected and all are allowed: this would always pass"]
        return []

    def opposed(self) -> Self:
        """What `not_` turns around: extras must not make a forbidden call look absent."""
        return structs.replace(self, ignore_extra_args=True, ignore_extra_calls=self.calls != ())

    def grade(self, answer: Answer) -> Finding:
        expected = self._expected()
        mistake = self._mistake(expected, answer)
        if mistake:
            return fails(mistake)
        return holds(f"called {names(expected)}" if expected else "called no tool")

    def _mistake(self, expected: Sequence[ExpectedCall], answer: Answer) -> str | None:
        actual = _calls(answer)
        fitting = [[at for at, call in enumerate(actual) if self._fits(want, call)] for want in expected]
        pairs = pair_in_order(fitting) if self.match_order else pair_in_any_order(fitting)
        missing = [want for index, want in enumerate(expected) if index not in pairs]
        used = frozenset(pairs.values())
        extra = [call for index, call in enumerate(actual) if index not in used]
        if missing and self.match_order and len(pair_in_any_order(fitting)) == len(expected):
            return f"called in another order: expected {names(expected)}, got {names(actual)}"
        if missing:
            return self._explain_missing(missing[0], extra, answer)
        if extra and not self.ignore_extra_calls:
            return _explain_extra(expected, extra[0])
        return None

    def _expected(self) -> tuple[ExpectedCall, ...]:
        if self.calls is not None:
            return self.calls
        return (ExpectedCall(name=self.name or "", arguments=self.arguments),)

    def _fits(self, expected: ExpectedCall, actual: ToolCall) -> bool:
        return fits(expected, actual, ignore_extra_args=self.ignore_extra_args)

    def _differences(self, expected: ExpectedCall, actual: ToolCall) -> Iterator[Difference]:
        return differences(expected, actual, ignore_extra_args=self.ignore_extra_args)

    def _explain_missing(self, expected: ExpectedCall, extra: Sequence[ToolCall], answer: Answer) -> str:
        calls = _calls(answer)
        if not calls:
            return f"did not call {describe(expected)}: no tool was called, got {quote(answer.response.output)}"
        namesakes = [call for call in extra if call.name == expected.name][:_MAX_COMPARED]
        if not namesakes:
            return f"did not call {describe(expected)}: got {names(calls)}"
        closest = min(namesakes, key=lambda call: sum(1 for _ in self._differences(expected, call)))
        told = "; ".join(map(str, islice(self._differences(expected, closest), _MAX_SHOWN)))
        among = f" (the closest of {len(namesakes)} such calls)" if len(namesakes) > 1 else ""
        return f"called {clip(expected.name)} with other arguments{among}: {told}"


def _explain_extra(expected: Sequence[ExpectedCall], extra: ToolCall) -> str:
    if not expected:
        return f"called {describe(extra)}, but no tool was to be called"
    return f"also called {describe(extra)}, which was not expected; `ignore_extra_calls: true` would accept it"


def _calls(answer: Answer) -> Sequence[ToolCall]:
    """What the answer asks for; where it lists nothing, what was called on the way to it."""
    return answer.response.tool_calls or answer.response.calls_made
