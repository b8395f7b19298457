"""Graders of an agent's steps: `trajectory`, and limits on tool calls and steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ci_evals.errors import GradingError
from ci_evals.format import cite, number_of, one_line
from ci_evals.graders.base import AlwaysTrue, GraderOptions, failed, passed
from ci_evals.graders.calls import (
    ExpectedCall,
    describe_call,
    find_fitting,
    is_call_of,
    names_of,
    pair_in_any_order,
    pair_in_order,
)
from ci_evals.model.fields import Bool, Count, Many, OneOrMore
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer
from ci_evals.model.response import Step, ToolCall


@dataclass(frozen=True, slots=True)
class Trajectory(GraderOptions):
    """The agent called these tools.

    Args:
        calls: names of tools, or mappings of `name` and `arguments`.
        match: `exact`: these calls in this order and no others; `in_order`: these in this order,
            others may come between them; `any_order`: these and no others, in any order; `subset`:
            only these; `superset`: at least these, in any order.
        ignore_extra_args: a call may have more arguments than expected.
        include_failed: count calls whose step has an error, too.
    """

    reads_text: ClassVar[bool] = False
    short: ClassVar[str] = "calls"

    calls: Many[str | ExpectedCall]
    match: Literal["exact", "in_order", "any_order", "subset", "superset"] = "in_order"
    ignore_extra_args: Bool = False
    include_failed: Bool = True

    def problems(self) -> list[str]:
        if not self.calls and self.match in ("in_order", "superset"):
            allowed = f"all are allowed by `match: {self.match}`"
            return [f"no calls are expected and {allowed}: this would always pass"]
        return []

    def grade(self, answer: Answer) -> Finding:
        actual = answer.response.list_calls(include_failed=self.include_failed)
        expected = []
        for call in self.calls:
            if isinstance(call, str):
                expected.append(ExpectedCall(call))
            else:
                expected.append(call)
        pairs = self._pair(expected, actual)
        aligned = _Alignment(expected, actual, pairs, self.ignore_extra_args)
        match self.match:
            case "subset":
                difference, most = aligned.unexpected(), len(actual)
            case "superset":
                difference, most = aligned.missing(), len(expected)
            case "in_order":
                difference, most = aligned.missing(in_order=True), len(expected)
            case "any_order":
                difference = aligned.missing() or aligned.unexpected()
                most = max(len(expected), len(actual))
            case "exact":
                difference = aligned.divergence()
                most = max(len(expected), len(actual))
        if difference is None:
            wanted = _path(expected)
            if self.match == "subset":
                wanted = f"nothing but {wanted}"
            return passed(f"called {wanted}", sentence=f"called {_path(actual)}")
        reason, sentence = difference
        return failed(reason, len(pairs) / max(1, most), sentence=sentence)

    def _pair(
        self, expected: Sequence[ExpectedCall], actual: Sequence[ToolCall]
    ) -> Mapping[int, int]:
        """Pair expected with actual calls, by index."""
        if self.match == "exact":
            both = enumerate(zip(expected, actual, strict=False))
            return {
                at: at
                for at, (want, call) in both
                if want.fits(call, ignore_extra_args=self.ignore_extra_args)
            }
        fitting = find_fitting(expected, actual, ignore_extra_args=self.ignore_extra_args)
        if self.match == "in_order":
            return pair_in_order(fitting)
        return pair_in_any_order(fitting)


_Difference = tuple[str, str]
"""What was missed, and the same with what was called instead."""


@dataclass(frozen=True, slots=True)
class _Alignment:
    """The expected and the actual calls, and the matching pairs."""

    expected: Sequence[ExpectedCall]
    actual: Sequence[ToolCall]
    pairs: Mapping[int, int]
    ignore_extra_args: bool

    def divergence(self) -> _Difference | None:
        """Describe the first place where the trajectories differ."""
        expected, actual = self.expected, self.actual
        for at, (want, call) in enumerate(zip(expected, actual, strict=False)):
            if at not in self.pairs:
                if is_call_of(call, want.name):
                    return self._difference(at, want)
                reason = f"call {at + 1} is not {describe_call(want)}"
                return self._in_full(reason, f"call {at + 1} is {describe_call(call)}")
        if len(actual) == len(expected):
            return None
        if len(actual) < len(expected):
            return self._in_full(f"stops before the call of {describe_call(expected[len(actual)])}")
        further = describe_call(actual[len(expected)])
        return self._in_full("a further call at the end", f"a further call of {further} at the end")

    def missing(self, *, in_order: bool = False) -> _Difference | None:
        """Describe the first expected call that was not made."""
        missing = [index for index in range(len(self.expected)) if index not in self.pairs]
        if not missing:
            return None
        index = missing[0]
        want = self.expected[index]
        for at in self._extra:
            if is_call_of(self.actual[at], want.name):
                difference = self._difference(at, want)
                if difference is not None:
                    return difference
        after = ""
        if in_order and index > 0:
            after = f" after {cite(self.expected[index - 1].name)}"
        return self._in_full(f"no call of {describe_call(want)}{after}")

    def unexpected(self) -> _Difference | None:
        """Describe the first call that was not expected."""
        for at in self._extra:
            call = describe_call(self.actual[at])
            return self._in_full("an unexpected call", f"unexpected call of {call}")
        return None

    @property
    def _extra(self) -> list[int]:
        paired = set(self.pairs.values())
        return [at for at in range(len(self.actual)) if at not in paired]

    def _difference(self, at: int, want: ExpectedCall) -> _Difference | None:
        """Describe the difference between an actual and an expected call of the same tool."""
        name = one_line(want.name, 80)
        call = self.actual[at]
        for difference in want.differences(call, ignore_extra_args=self.ignore_extra_args):
            sentence = f"{name}: {difference.sentence} (call {at + 1})"
            return f"{name}: {difference.reason}", sentence
        return None

    def _in_full(self, reason: str, instead: str | None = None) -> _Difference:
        """Return a difference with both trajectories."""
        paths = f"called {_path(self.actual)}, expected {_path(self.expected)}"
        return reason, f"{instead or reason}: {paths}"


def _path(calls: Sequence[ToolCall | ExpectedCall]) -> str:
    return names_of(calls, " → ") or "no tool"


@dataclass(frozen=True, slots=True)
class NoToolErrors(AlwaysTrue):
    """No tool call failed; the score is the share of calls that did not. `value` is always true.

    Args:
        tools: look only at the calls of these tools.
    """

    reads_text: ClassVar[bool] = False
    needs = "steps"
    instead = "write `not_no_tool_errors: true`, or leave it out"

    tools: OneOrMore[str] | None = None

    def grade(self, answer: Answer) -> Finding:
        calls = 0
        errors: list[tuple[str, str]] = []
        for at, step in enumerate(_steps(answer), 1):
            if step.kind != "tool_call":
                continue
            if self.tools is not None and not any(is_call_of(step, tool) for tool in self.tools):
                continue
            calls += 1
            if step.error is not None:
                name = cite(step.name)
                sentence = f"the call of {name} failed at step {at}: {cite(step.error)}"
                errors.append((f"a call of {name} failed", sentence))
        if not errors:
            counted = number_of(calls, "tool call")
            if self.tools is not None:
                names = ", ".join(one_line(name, 80) for name in self.tools)
                counted = f"{number_of(calls, 'call')} of {names}"
            return passed("no tool call failed", sentence=f"none of {counted} failed")
        reason, sentence = errors[0]
        if len(errors) > 1:
            sentence = f"{sentence} (and {number_of(len(errors) - 1, 'more error')})"
        return failed(reason, 1 - len(errors) / calls, sentence=sentence)


@dataclass(frozen=True, slots=True)
class MaxToolCalls(GraderOptions):
    """At most `value` tool calls were made.

    Args:
        value: the largest allowed number of calls.
        tool: count only the calls of this tool.
        include_failed: count calls whose step has an error, too.
    """

    reads_text: ClassVar[bool] = False
    value: Count
    tool: str | None = None
    include_failed: Bool = True

    def grade(self, answer: Answer) -> Finding:
        made = answer.response.list_calls(include_failed=self.include_failed)
        if self.tool is None:
            return _at_most(self.value, made, "tool call")
        of_tool = [call for call in made if is_call_of(call, self.tool)]
        return _at_most(self.value, of_tool, f"{one_line(self.tool, 80)} call")


@dataclass(frozen=True, slots=True)
class MaxSteps(GraderOptions):
    """At most `value` steps were taken: model requests, tool calls and sub-agents. Messages do not
    count.
    """

    reads_text: ClassVar[bool] = False
    needs = "steps"

    value: Count

    def grade(self, answer: Answer) -> Finding:
        steps = [step for step in _steps(answer) if step.kind != "message"]
        return _at_most(self.value, steps, "step")


@dataclass(frozen=True, slots=True)
class MaxModelRequests(GraderOptions):
    """Models were called at most `value` times."""

    reads_text: ClassVar[bool] = False
    needs = "steps"

    value: Count

    def grade(self, answer: Answer) -> Finding:
        requests = [step for step in _steps(answer) if step.kind == "model_request"]
        if not requests:
            raise GradingError(
                "the steps have no `model_request`: return one for each request to a model"
            )
        return _at_most(self.value, requests, "model request")


def _at_most(limit: int, made: Sequence[ToolCall | Step], noun: str) -> Finding:
    actual = number_of(len(made), noun)
    if len(made) <= limit:
        reason = f"at most {number_of(limit, noun)}"
        return passed(reason, sentence=f"{actual}, no more than {limit:,}")
    sentence = f"{actual}, at most {limit:,} allowed"
    first = made[limit].name
    if first:
        sentence = f"{sentence} (number {limit + 1:,} is {one_line(first, 80)})"
    return failed(f"more than {number_of(limit, noun)}", sentence=sentence)


def _steps(answer: Answer) -> tuple[Step, ...]:
    steps = answer.response.steps_taken
    if steps is not None:
        return steps
    subject = "the answer"
    if answer.response.turns:
        subject = "one of the conversation's answers"
    raise GradingError(f"{subject} has no steps: have the provider return `steps`")
