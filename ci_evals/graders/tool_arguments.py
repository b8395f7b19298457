"""`tool_arguments`: what a tool was called with."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from ci_evals.graders.argument_matcher import Matcher
from ci_evals.graders.base import GraderOptions
from ci_evals.graders.calls import ExpectedCall, differences
from ci_evals.graders.difference import ABSENT
from ci_evals.graders.findings import fails, holds
from ci_evals.graders.json_schema import schema_mistake, schema_problems
from ci_evals.graders.quoting import clip
from ci_evals.model import Answer, Finding
from ci_evals.response import ToolCall

_MAX_CALLS = 1_000


class ToolArguments(GraderOptions, frozen=True):
    """A tool was called with the right arguments.

    Args:
        name: the tool.
        arguments: what it must be given, compared as JSON.
        match: `exact`: no other arguments; `subset`: others are allowed.
        schema: JSON Schema that the arguments must fit.
        where: for single arguments by name (`passenger.name` for an inner one) what they must be like.
        calls: which of the tool's calls must be right: `every`, `any`, the `first` or the `last`.
    """

    short: ClassVar[str] = "name"

    name: str
    arguments: Mapping[str, Any] | None = None
    match: Literal["exact", "subset"] = "exact"
    schema: Mapping[str, Any] | None = None
    where: Mapping[str, Matcher] = {}
    calls: Literal["every", "any", "first", "last"] = "every"

    def problems(self) -> list[str]:
        return [
            *(schema_problems(self.schema) if self.schema is not None else []),
            *(f"where.{clip(name)}: {text}" for name, matcher in self.where.items() for text in matcher.problems()),
        ]

    def grade(self, answer: Answer) -> Finding:
        made = answer.response.calls_made
        found = [(at, call) for at, call in enumerate(made, 1) if call.name == self.name][:_MAX_CALLS]
        if not found:
            others = ", ".join(dict.fromkeys(clip(call.name, 80) for call in made[:10])) or "no tool"
            return fails(f"{clip(self.name)} was not called: got {others}")
        chosen = {"first": found[:1], "last": found[-1:]}.get(self.calls, found)
        mistakes = [(at, mistake) for at, call in chosen if (mistake := self._mistake(call))]
        wrong = len(mistakes) == len(chosen) if self.calls == "any" else bool(mistakes)
        if not wrong:
            return holds(f"{clip(self.name)} was called with the right arguments")
        at, mistake = mistakes[0]
        more = f" (and {len(mistakes) - 1} more of {len(chosen)} calls)" if len(mistakes) > 1 else ""
        score = 0.0 if self.calls == "any" else 1 - len(mistakes) / len(chosen)
        return fails(f"call {at}, {clip(self.name)}: {mistake}{more}", score)

    def _mistake(self, call: ToolCall) -> str | None:
        return next(self._mistakes(call), None)

    def _mistakes(self, call: ToolCall) -> Iterator[str]:
        if self.arguments is not None:
            expected = ExpectedCall(name=self.name, arguments=self.arguments)
            yield from map(str, differences(expected, call, ignore_extra_args=self.match == "subset"))
        if self.schema is not None and (mistake := schema_mistake(self.schema, call.arguments)):
            yield f"the arguments do not fit the schema {mistake}"
        for name, matcher in self.where.items():
            value = _inner(call.arguments, name)
            if value is ABSENT:
                yield f"argument {clip(name, 60)} is missing"
            elif mistake := matcher.mistake(value):
                yield f"argument {clip(name, 60)} {mistake}"


def _inner(arguments: Mapping[str, Any] | str, name: str) -> Any:
    """The argument of this very name, or the inner one that its parts between dots lead to."""
    if isinstance(arguments, str):
        return ABSENT
    if name in arguments:
        return arguments[name]
    value: Any = arguments
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return ABSENT
        value = value[part]
    return value
