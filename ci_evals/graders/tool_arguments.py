"""`tool_arguments`: a tool was called with the right arguments."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ci_evals.format import cite, one_line
from ci_evals.graders.base import GraderOptions, failed, passed
from ci_evals.graders.calls import ExpectedCall, describe_absence, is_call_of
from ci_evals.graders.json_text import ABSENT, first_difference
from ci_evals.model.fields import UNSET, Bool, Float, NonNegative, OneOrMore, Options
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
        ignore_case: for `contains`, upper and lower case of a text are the same.
        regex: the value is text in which this expression matches.
        approx: the value is a number, at most `tolerance` away from this one.
        tolerance: the allowed distance from `approx`.
        min: the value is a number of at least this.
        max: the value is a number of at most this.
    """

    equals: Any = UNSET
    one_of: OneOrMore[Any] | None = None
    contains: Any = UNSET
    ignore_case: Bool = False
    regex: str | None = None
    approx: Float | None = None
    tolerance: NonNegative = 1e-9
    min: Float | None = None
    max: Float | None = None

    def problems(self) -> list[str]:
        """Return problems that are visible before any call."""
        if self == Matcher(tolerance=self.tolerance, ignore_case=self.ignore_case):
            return ["no condition is given: `equals`, `contains`, `regex`, `approx`, …"]
        if self.regex is not None:
            from ci_evals.graders.regex import Regex

            return Regex(self.regex).problems()
        return []

    def mistake(self, value: Any) -> str | None:
        """Return the first condition that a value misses, `at least 10`; None if all hold."""
        if self.equals is not UNSET and first_difference(self.equals, value):
            return cite(self.equals)
        if self.one_of is not None and not self._is_one_of(value):
            return f"one of {cite(list(self.one_of))}"
        if self.contains is not UNSET and not self._is_contained(value):
            return f"{cite(self.contains)} in it"
        if self.regex is not None and not self._is_matched(value):
            return f"a match of `{one_line(self.regex, 100)}`"
        if self.approx is None and self.min is None and self.max is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return "a number"
        return self._numeric_mistake(value)

    def _is_one_of(self, value: Any) -> bool:
        allowed = self.one_of or ()
        return any(first_difference(each, value) is None for each in allowed)

    def _is_contained(self, value: Any) -> bool:
        if isinstance(value, str):
            if not isinstance(self.contains, str):
                return False
            if self.ignore_case:
                return self.contains.casefold() in value.casefold()
            return self.contains in value
        if isinstance(value, list):
            return any(first_difference(self.contains, item) is None for item in value)
        return False

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
                return f"{self.approx:g} or at most {self.tolerance:g} away from it"
        if self.min is not None and not value >= self.min:
            return f"at least {self.min:g}"
        if self.max is not None and not value <= self.max:
            return f"at most {self.max:g}"
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
        include_failed: look at calls whose step has an error, too.
    """

    reads_text: ClassVar[bool] = False
    short: ClassVar[str] = "tool"

    tool: str
    arguments: Mapping[str, Any] | None = None
    match: Literal["exact", "subset"] = "exact"
    schema: Mapping[str, Any] | None = None
    where: Mapping[str, Matcher] = field(default_factory=dict)
    calls: Literal["every", "any", "first", "last"] = "every"
    include_failed: Bool = True

    def problems(self) -> list[str]:
        problems: list[str] = []
        if self.schema is not None:
            from ci_evals.graders.json_schema import JsonSchema

            problems += JsonSchema(self.schema).problems()
        for name, matcher in self.where.items():
            problems += [f"where.{one_line(name)}: {text}" for text in matcher.problems()]
        return problems

    def grade(self, answer: Answer) -> Finding:
        made = answer.response.list_calls(include_failed=self.include_failed)
        name = one_line(self.tool)
        indices = []
        for index, call in enumerate(made):
            if is_call_of(call, self.tool):
                indices.append(index)
        if not indices:
            reason, sentence = describe_absence(cite(self.tool), made)
            return failed(reason, sentence=sentence)
        several = len(indices) > 1
        if self.calls == "first":
            indices = indices[:1]
        elif self.calls == "last":
            indices = indices[-1:]
        wrong: list[Finding] = []
        for index in indices:
            for reason, sentence in self._mistakes(made[index]):
                place = ""
                if several:
                    place = f" (call {index + 1})"
                wrong.append(failed(f"{name}: {reason}", sentence=f"{name}: {sentence}{place}"))
                break
        is_right = not wrong
        if self.calls == "any":
            is_right = len(wrong) < len(indices)
        if is_right:
            return passed(f"{name} was called with the right arguments")
        sentence = wrong[0].text
        if len(wrong) > 1:
            sentence = f"{sentence}, and so on: {len(wrong)} of {len(indices)} calls are wrong"
        score = 1 - len(wrong) / len(indices)
        return failed(wrong[0].reason, score, sentence=sentence)

    def _mistakes(self, call: ToolCall) -> Iterator[tuple[str, str]]:
        """Yield the mistakes of a call: what was missed, and the same with what it has instead."""
        expected = ExpectedCall(self.tool, self.arguments)
        for each in expected.differences(call, ignore_extra_args=self.match == "subset"):
            yield each.reason, each.sentence
        if self.schema is not None:
            from ci_evals.graders.json_schema import JsonSchema

            mistake = JsonSchema(self.schema).mistake(call.arguments)
            if mistake is not None:
                where, why = mistake
                reason = f"the arguments do not fit the schema at {where}"
                yield reason, f"{reason}: {why}"
        for name, matcher in self.where.items():
            shown = one_line(name, 60)
            value = _argument(call, name)
            if value is ABSENT:
                reason = f"{shown} is missing"
                yield reason, reason
                continue
            expected_value = matcher.mistake(value)
            if expected_value is not None:
                sentence = f"{shown} is {cite(value)}, expected {expected_value}"
                yield f"{shown} is not as expected: {expected_value}", sentence


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
