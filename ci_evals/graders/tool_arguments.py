"""`tool_arguments`: a tool was called with the right arguments."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ci_evals.format import one_line, quote
from ci_evals.graders.base import GraderOptions, failed, passed
from ci_evals.graders.calls import ExpectedCall, names_of
from ci_evals.graders.json_text import ABSENT, first_difference
from ci_evals.model.fields import UNSET, Float, NonNegative, OneOrMore, Options
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer
from ci_evals.model.response import ToolCall


@dataclass(frozen=True, slots=True)
class Matcher(Options):
    """Conditions on a value, all of which must hold.

    Args:
        equals: the value equals this, compared as JSON.
        one_of: the value equals one of these.
        contains: the value is text that contains this, or a list with this item.
        icontains: the value is text that contains this, in upper or lower case.
        regex: the value is text in which this expression matches.
        approx: the value is a number, at most `tolerance` away from this one.
        tolerance: the allowed distance from `approx`.
        min: the value is a number of at least this.
        max: the value is a number of at most this.
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
        """Return problems that are visible before any call."""
        if self == Matcher(tolerance=self.tolerance):
            return ["no condition is given: `equals`, `contains`, `regex`, `approx`, …"]
        if self.regex is not None:
            from ci_evals.graders.regex import Regex

            return Regex(self.regex).problems()
        return []

    def mistake(self, value: Any) -> str | None:
        """Return the first condition that a value misses, `is less than 10`; None if all hold."""
        if self.equals is not UNSET and first_difference(self.equals, value):
            return f"is not {quote(self.equals)}"
        if self.one_of is not None and not self._is_one_of(value):
            return f"is none of {quote(list(self.one_of))}"
        if self.contains is not UNSET and not self._is_contained(value):
            return f"does not contain {quote(self.contains)}"
        if self.icontains is not None and not self._is_contained_in_any_case(value):
            return f"does not contain {quote(self.icontains)} in upper or lower case"
        if self.regex is not None and not self._is_matched(value):
            return f"does not match {quote(self.regex)}"
        if self.approx is None and self.min is None and self.max is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return "is not a number"
        return self._numeric_mistake(value)

    def _is_one_of(self, value: Any) -> bool:
        allowed = self.one_of or ()
        return any(first_difference(each, value) is None for each in allowed)

    def _is_contained(self, value: Any) -> bool:
        if isinstance(value, str):
            return isinstance(self.contains, str) and self.contains in value
        if isinstance(value, list):
            return any(first_difference(self.contains, item) is None for item in value)
        return False

    def _is_contained_in_any_case(self, value: Any) -> bool:
        if not isinstance(value, str) or self.icontains is None:
            return False
        return self.icontains.casefold() in value.casefold()

    def _is_matched(self, value: Any) -> bool:
        if not isinstance(value, str) or self.regex is None:
            return False
        from ci_evals.graders.regex import Regex

        return Regex(self.regex).search(value) is not None

    def _numeric_mistake(self, value: float) -> str | None:
        if self.approx is not None:
            lowest = self.approx - self.tolerance
            highest = self.approx + self.tolerance
            if not lowest <= value <= highest:
                return f"is not within {self.tolerance:g} of {self.approx:g}"
        if self.min is not None and not value >= self.min:
            return f"is less than {self.min:g}"
        if self.max is not None and not value <= self.max:
            return f"is more than {self.max:g}"
        return None


@dataclass(frozen=True, slots=True)
class ToolArguments(GraderOptions):
    """A tool was called with the right arguments.

    Args:
        tool: the tool.
        arguments: the expected arguments, compared as JSON.
        match: `exact`: no other arguments; `subset`: others are allowed.
        schema: JSON Schema that the arguments must fit.
        where: conditions on single arguments by name (`passenger.name` for a nested one).
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
        problems: list[str] = []
        if self.schema is not None:
            from ci_evals.graders.json_schema import JsonSchema

            problems += JsonSchema(self.schema).problems()
        for name, matcher in self.where.items():
            problems += [f"where.{one_line(name)}: {text}" for text in matcher.problems()]
        return problems

    def grade(self, answer: Answer) -> Finding:
        made = answer.response.calls_made
        name = one_line(self.tool)
        indices = []
        for index, call in enumerate(made):
            if call.name == self.tool:
                indices.append(index)
        if not indices:
            return failed(f"{name} was not called", got=names_of(made) or "no tool call")
        if self.calls == "first":
            indices = indices[:1]
        elif self.calls == "last":
            indices = indices[-1:]
        wrong: list[Finding] = []
        for index in indices:
            for reason, got in self._mistakes(made[index]):
                place = f"call {index + 1}"
                if got is not None:
                    place = f"{got} in {place}"
                wrong.append(failed(f"{name}: {reason}", got=place))
                break
        is_right = not wrong
        if self.calls == "any":
            is_right = len(wrong) < len(indices)
        if is_right:
            return passed(f"{name} was called with the right arguments")
        got = wrong[0].got
        if len(wrong) > 1:
            got = f"{got}, the first of {len(wrong)} such calls of {len(indices)}"
        score = 1 - len(wrong) / len(indices)
        return failed(wrong[0].reason, score, got=got)

    def _mistakes(self, call: ToolCall) -> Iterator[tuple[str, str | None]]:
        """Yield the mistakes of a call: what was expected, and what it has instead."""
        expected = ExpectedCall(self.tool, self.arguments)
        for each in expected.differences(call, ignore_extra_args=self.match == "subset"):
            yield each.reason, each.got
        if self.schema is not None:
            from ci_evals.graders.json_schema import JsonSchema

            mistake = JsonSchema(self.schema).mistake(call.arguments)
            if mistake is not None:
                yield f"the arguments do not fit the schema {mistake}", None
        for name, matcher in self.where.items():
            value = _argument(call, name)
            if value is ABSENT:
                yield f"argument {one_line(name, 60)} is missing", None
                continue
            mistake = matcher.mistake(value)
            if mistake is not None:
                yield f"argument {one_line(name, 60)} {mistake}", quote(value)


def _argument(call: ToolCall, name: str) -> Any:
    """Return the argument with this name, else the nested one at its dotted path."""
    value: Any = call.arguments
    if isinstance(value, Mapping) and name in value:
        return value[name]
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return ABSENT
        value = value[part]
    return value
