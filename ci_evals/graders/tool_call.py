"""`tool_call`: the answer asks for these tools, with these arguments."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Self

from msgspec import Struct, structs

from ci_evals.graders.base import GraderOptions
from ci_evals.graders.difference import ABSENT, Difference, first_difference
from ci_evals.graders.findings import fails, holds
from ci_evals.graders.quoting import clip, quote, show
from ci_evals.model import Answer, Finding, ToolCall

_MAX_SHOWN = 3
"""Differing arguments, or calls, that a reason lists."""

_MAX_COMPARED = 100
"""Calls among which the closest one is looked for."""


class ExpectedCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call that is asked for. `arguments` left out means any arguments."""

    name: str
    arguments: Mapping[str, Any] | None = None


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
        return holds(f"called {_names(expected)}" if expected else "called no tool")

    def _mistake(self, expected: Sequence[ExpectedCall], answer: Answer) -> str | None:
        actual = answer.response.tool_calls
        fits = [[at for at, call in enumerate(actual) if self._fits(want, call)] for want in expected]
        pairs = _pair_in_order(fits) if self.match_order else _pair_in_any_order(fits)
        missing = [want for index, want in enumerate(expected) if index not in pairs]
        used = frozenset(pairs.values())
        extra = [call for index, call in enumerate(actual) if index not in used]
        if missing and self.match_order and len(_pair_in_any_order(fits)) == len(expected):
            return f"called in another order: expected {_names(expected)}, got {_names(actual)}"
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
        return expected.name == actual.name and next(self._differences(expected, actual), None) is None

    def _differences(self, expected: ExpectedCall, actual: ToolCall) -> Iterator[Difference]:
        if expected.arguments is None:
            return
        if isinstance(actual.arguments, str):
            yield Difference("arguments", expected.arguments, actual.arguments)
            return
        for key, value in expected.arguments.items():
            difference = first_difference(value, actual.arguments.get(key, ABSENT), f"argument {clip(key, 60)}")
            if difference:
                yield difference
        if not self.ignore_extra_args:
            for key, value in actual.arguments.items():
                if key not in expected.arguments:
                    yield Difference(f"argument {clip(key, 60)}", ABSENT, value)

    def _explain_missing(self, expected: ExpectedCall, extra: Sequence[ToolCall], answer: Answer) -> str:
        calls = answer.response.tool_calls
        if not calls:
            return f"did not call {_describe(expected)}: no tool was called, got {quote(answer.response.output)}"
        namesakes = [call for call in extra if call.name == expected.name][:_MAX_COMPARED]
        if not namesakes:
            return f"did not call {_describe(expected)}: got {_names(calls)}"
        closest = min(namesakes, key=lambda call: sum(1 for _ in self._differences(expected, call)))
        differences = "; ".join(map(str, islice(self._differences(expected, closest), _MAX_SHOWN)))
        among = f" (the closest of {len(namesakes)} such calls)" if len(namesakes) > 1 else ""
        return f"called {clip(expected.name)} with other arguments{among}: {differences}"


def _pair_in_order(fits: Sequence[Sequence[int]]) -> Mapping[int, int]:
    """Expected to actual call: the earliest fitting one after the pair before."""
    pairs: dict[int, int] = {}
    after = -1
    for index, candidates in enumerate(fits):
        at = next((at for at in candidates if at > after), None)
        if at is not None:
            pairs[index] = after = at
    return pairs


def _pair_in_any_order(fits: Sequence[Sequence[int]]) -> Mapping[int, int]:
    """Expected to actual call, as many as can be paired (Kuhn's algorithm for bipartite matching)."""
    owners: dict[int, int] = {}

    def place(index: int, tried: set[int]) -> bool:
        for at in fits[index]:
            if at not in tried:
                tried.add(at)
                if at not in owners or place(owners[at], tried):
                    owners[at] = index
                    return True
        return False

    for index in range(len(fits)):
        place(index, set())
    return {index: at for at, index in owners.items()}


def _describe(call: ExpectedCall | ToolCall) -> str:
    return clip(call.name, 80) if call.arguments is None else f"{clip(call.name, 80)}({show(call.arguments)})"


def _names(calls: Sequence[ExpectedCall | ToolCall]) -> str:
    shown = ", ".join(clip(call.name, 80) for call in calls[:10])
    return shown if len(calls) <= 10 else f"{shown} and {len(calls) - 10} more"


def _explain_extra(expected: Sequence[ExpectedCall], extra: ToolCall) -> str:
    if not expected:
        return f"called {_describe(extra)}, but no tool was to be called"
    return f"also called {_describe(extra)}, which was not expected; `ignore_extra_calls: true` would accept it"
