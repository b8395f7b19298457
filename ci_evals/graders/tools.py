"""Graders of tool calls: `tool_call` and `tool_arguments`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from ci_evals.format import one_line, quote
from ci_evals.graders.base import GraderOptions, failed, passed
from ci_evals.graders.calls import (
    ExpectedCall,
    describe_call,
    find_fitting,
    names_of,
    pair_in_any_order,
    pair_in_order,
)
from ci_evals.graders.json import (
    ABSENT,
    Mismatch,
    first_difference,
    schema_mistake,
    schema_problems,
)
from ci_evals.graders.text import pattern_problems, search
from ci_evals.model.case import Answer, Finding
from ci_evals.model.fields import UNSET, Bool, Float, Many, NonNegative, OneOrMore, Options
from ci_evals.model.response import ToolCall

_MAX_SHOWN = 3  # differing arguments that a reason lists


@dataclass(frozen=True, slots=True)
class ToolCallMatch(GraderOptions):
    """The answer calls a tool, or several.

    The score is the share of calls that are as expected, where several are. Under `not_`, more
    arguments or more calls than expected are no excuse: the call must not be there at all.

    Args:
        tool: the tool, if one call is expected.
        arguments: the arguments of that call, compared as JSON; left out, any will do.
        calls: all the calls that are expected, instead of `tool`; an empty list means that none may
            be made.
        ignore_extra_args: a call may have more arguments than expected.
        ignore_extra_calls: the answer may have more calls than expected.
        match_order: the calls must come in the order of `calls`.
    """

    reads_text: ClassVar[bool] = False
    short: ClassVar[str] = "tool"

    tool: str | None = None
    arguments: Mapping[str, Any] | None = None
    calls: Many[ExpectedCall] | None = None
    ignore_extra_args: Bool = False
    ignore_extra_calls: Bool = False
    match_order: Bool = False

    def problems(self) -> list[str]:
        if self.tool is None and self.calls is None and self.name is not None:
            return [f"`name` is what reports call it: write `tool: {one_line(self.name)}`"]
        if (self.tool is None) == (self.calls is None):
            return ["give either `tool`, for one call, or `calls`, a list of them"]
        if self.tool is None and self.arguments is not None:
            return ["`arguments` belongs to `tool`: inside `calls`, each call has its own"]
        if self._expects_none and self.ignore_extra_calls:
            return ["no calls are expected and all are allowed: this would always pass"]
        return []

    def for_negation(self) -> Self:
        """Ignore extras under `not_`: they must not make a forbidden call look absent."""
        return replace(self, ignore_extra_args=True, ignore_extra_calls=not self._expects_none)

    @property
    def _expects_none(self) -> bool:
        return self.calls is not None and not self.calls

    def grade(self, answer: Answer) -> Finding:
        expected = (
            [ExpectedCall(self.tool or "", self.arguments)] if self.calls is None else self.calls
        )
        # What the answer asks for; where it lists nothing, what was called on the way to it.
        actual = answer.response.tool_calls or answer.response.calls_made
        fitting = find_fitting(expected, actual, ignore_extra_args=self.ignore_extra_args)
        pairs = pair_in_order(fitting) if self.match_order else pair_in_any_order(fitting)
        missing = [want for index, want in enumerate(expected) if index not in pairs]
        most = len(expected) if self.ignore_extra_calls else max(len(expected), len(actual))
        share = len(pairs) / most if len(expected) > 1 else 0.0
        used = frozenset(pairs.values())
        extra = [call for index, call in enumerate(actual) if index not in used]
        if missing and self.match_order and len(pair_in_any_order(fitting)) == len(expected):
            reason = f"called in another order: expected {names_of(expected)}"
            return failed(reason, share, got=names_of(actual))
        if missing:
            reason, got = self._explain_missing(missing[0], actual, extra, answer.response.output)
            return failed(reason, share, got=got)
        if extra and not self.ignore_extra_calls:
            if not expected:
                return failed("expected no tool call", got=describe_call(extra[0]))
            hint = "`ignore_extra_calls: true` would accept it"
            return failed(
                f"also called {describe_call(extra[0])}, which was not expected; {hint}", share
            )
        return passed(f"called {names_of(expected)}" if expected else "called no tool")

    def _explain_missing(
        self,
        expected: ExpectedCall,
        actual: Sequence[ToolCall],
        extra: Sequence[ToolCall],
        output: str,
    ) -> tuple[str, str | None]:
        """Return the reason, and what there is instead."""
        if not actual:
            return f"did not call {describe_call(expected)}: no tool was called", quote(output)
        namesakes = [call for call in extra if call.name == expected.name]
        if not namesakes:
            return f"did not call {describe_call(expected)}", names_of(actual)
        differences: list[Mismatch] = []
        for call in namesakes:
            found = list(expected.differences(call, ignore_extra_args=self.ignore_extra_args))
            if not differences or len(found) < len(differences):
                closest, differences = call, found
        among = f" (the closest of {len(namesakes)} such calls)" if len(namesakes) > 1 else ""
        reasons = "; ".join(each.reason for each in differences[:_MAX_SHOWN])
        got = differences[0].got if len(differences) == 1 else quote(closest.arguments)
        return f"called {one_line(expected.name)} with other arguments{among}: {reasons}", got


@dataclass(frozen=True, slots=True)
class Matcher(Options):
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
    one_of: OneOrMore[Any] | None = None
    contains: Any = UNSET
    icontains: str | None = None
    regex: str | None = None
    approx: Float | None = None
    tolerance: NonNegative = 1e-9
    min: Float | None = None
    max: Float | None = None

    def problems(self) -> list[str]:
        """List what can be seen to be wrong before any call."""
        if self == Matcher(tolerance=self.tolerance):
            return ["no condition is given: `equals`, `contains`, `regex`, `approx`, …"]
        return pattern_problems(self.regex or "")

    def mistake(self, value: Any) -> str | None:
        """Say why a value is not like this, `is less than 10`; None if it is."""
        return next(self._mistakes(value), None)

    def _mistakes(self, value: Any) -> Iterator[str]:
        text = value if isinstance(value, str) else None
        if self.equals is not UNSET and first_difference(self.equals, value):
            yield f"is not {quote(self.equals)}"
        if self.one_of is not None and all(first_difference(each, value) for each in self.one_of):
            yield f"is none of {quote(list(self.one_of))}"
        if self.contains is not UNSET and not self._is_contained(value):
            yield f"does not contain {quote(self.contains)}"
        if self.icontains is not None and (
            text is None or self.icontains.casefold() not in text.casefold()
        ):
            yield f"does not contain {quote(self.icontains)} in upper or lower case"
        if self.regex is not None and (text is None or not search(self.regex, text)):
            yield f"does not match {quote(self.regex)}"
        if self.approx is not None or self.min is not None or self.max is not None:
            yield from self._numeric_mistakes(value)

    def _is_contained(self, value: Any) -> bool:
        if isinstance(value, str):
            return isinstance(self.contains, str) and self.contains in value
        return isinstance(value, list) and any(
            first_difference(self.contains, item) is None for item in value
        )

    def _numeric_mistakes(self, value: Any) -> Iterator[str]:
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield "is not a number"
            return
        if (
            self.approx is not None
            and not self.approx - self.tolerance <= value <= self.approx + self.tolerance
        ):
            yield f"is not within {self.tolerance:g} of {self.approx:g}"
        if self.min is not None and not value >= self.min:
            yield f"is less than {self.min:g}"
        if self.max is not None and not value <= self.max:
            yield f"is more than {self.max:g}"


@dataclass(frozen=True, slots=True)
class ToolArguments(GraderOptions):
    """A tool was called with the right arguments.

    Args:
        tool: the tool.
        arguments: what it must be given, compared as JSON.
        match: `exact`: no other arguments; `subset`: others are allowed.
        schema: JSON Schema that the arguments must fit.
        where: for single arguments by name (`passenger.name` for an inner one) what they must be
            like.
        calls: which of the tool's calls must be right: `every`, `any`, the `first` or the `last`.
    """

    reads_text: ClassVar[bool] = False
    short: ClassVar[str] = "tool"

    tool: str
    arguments: Mapping[str, Any] | None = None
    match: Literal["exact", "subset"] = "exact"
    schema: Mapping[str, Any] | None = None
    where: Mapping[str, Matcher] = field(default_factory=dict)
    calls: Literal["every", "any", "first", "last"] = "every"

    def problems(self) -> list[str]:
        return [
            *(schema_problems(self.schema) if self.schema is not None else []),
            *(
                f"where.{one_line(name)}: {text}"
                for name, matcher in self.where.items()
                for text in matcher.problems()
            ),
        ]

    def grade(self, answer: Answer) -> Finding:
        made = answer.response.calls_made
        found = [(at, call) for at, call in enumerate(made, 1) if call.name == self.tool]
        name = one_line(self.tool)
        if not found:
            return failed(f"{name} was not called", got=names_of(made) or "no tool call")
        chosen = {"first": found[:1], "last": found[-1:]}.get(self.calls, found)
        mistakes = [
            (at, mistake) for at, call in chosen if (mistake := next(self._mistakes(call), None))
        ]
        if not mistakes or (self.calls == "any" and len(mistakes) < len(chosen)):
            return passed(f"{name} was called with the right arguments")
        at, (reason, got) = mistakes[0]
        more = (
            f" (and {len(mistakes) - 1} more of {len(chosen)} calls)" if len(mistakes) > 1 else ""
        )
        score = 0.0 if self.calls == "any" else 1 - len(mistakes) / len(chosen)
        return failed(f"call {at}, {name}: {reason}{more}", score, got=got)

    def _mistakes(self, call: ToolCall) -> Iterator[tuple[str, str | None]]:
        """Find what is wrong with a call: what was expected, and what there is instead."""
        expected = ExpectedCall(self.tool, self.arguments)
        for each in expected.differences(call, ignore_extra_args=self.match == "subset"):
            yield each.reason, each.got
        if self.schema is not None and (mistake := schema_mistake(self.schema, call.arguments)):
            yield f"the arguments do not fit the schema {mistake}", quote(call.arguments)
        for name, matcher in self.where.items():
            value = _argument(call, name)
            if value is ABSENT:
                yield f"argument {one_line(name, 60)} is missing", None
            elif mistake := matcher.mistake(value):
                yield f"argument {one_line(name, 60)} {mistake}", quote(value)


def _argument(call: ToolCall, name: str) -> Any:
    """Return the argument of this very name, or the inner one that its parts between dots lead
    to.
    """
    value: Any = call.arguments
    if isinstance(value, Mapping) and name in value:
        return value[name]
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return ABSENT
        value = value[part]
    return value
